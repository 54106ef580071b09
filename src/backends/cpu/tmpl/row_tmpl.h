/* SPDX-License-Identifier: Apache-2.0 */
/* The row-by-row kernels, shared by all levels: mostly plain loops that the compiler vectorises
 * with the level's flags; fixed lanes and one written order keep the bits of the law. Workers split
 * rows. Included once per level after exp_tmpl.h. */
#include "backends/cpu/kernels.h"
#include "base/math/fmath.h"
#include "tensor/rank_key.h"

#include <string.h>

static inline void norm_row(const float *x, const float *w, float eps, float *y, int64_t n)
{
    float mean = whim_sumsq16(x, n) / (float)n;
    float scale = 1.0f / sqrtf(mean + eps);
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * scale * w[i];
    }
}

static inline void rope_head(float *x, const float *cosine, const float *sine, int64_t n_freq)
{
    float *lo = x, *hi = x + n_freq;
    for (int64_t i = 0; i < n_freq; i++) {
        float a = lo[i], b = hi[i];
        lo[i] = whim_fmaf(a, cosine[i], -(b * sine[i]));
        hi[i] = whim_fmaf(b, cosine[i], a * sine[i]);
    }
}

static void rmsnorm_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_rmsnorm_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        norm_row(a->x + r * a->x_stride, a->w, a->eps, a->y + r * a->y_stride, a->n_col);
    }
}

static void add_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_add_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *x = a->x + r * a->x_stride;
        const float *y = a->y + r * a->y_stride;
        for (int64_t i = 0; i < a->n_col; i++) {
            x[i] += y[i];
        }
    }
}

static void add_rmsnorm_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_add_rmsnorm_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *x = a->x + r * a->x_stride;
        const float *delta = a->delta + r * a->delta_stride;
        for (int64_t i = 0; i < a->n_col; i++) {
            x[i] += delta[i];
        }
        norm_row(x, a->w, a->eps, a->y + r * a->y_stride, a->n_col);
    }
}

static void swiglu_row(const float *gate, const float *up, float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + EXP_LANES <= n; i += EXP_LANES) {
        vf x[EXP_VECS], e[EXP_VECS];
        EACH_VEC x[v] = vf_load(gate + i + v * VF);
        EACH_VEC e[v] = -x[v];
        vf_exp(e);
        EACH_VEC x[v] = x[v] / (vf_set1(1.0f) + e[v]);
        EACH_VEC vf_store(y + i + v * VF, x[v] * vf_load(up + i + v * VF));
    }
    for (; i < n; i++) {
        float silu = gate[i] / (1.0f + whim_expf(-gate[i]));
        y[i] = silu * up[i];
    }
}

/* Workers split pieces of rows, so that one row keeps several of them busy. */
static void swiglu_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_swiglu_args *a = args;
    enum { PIECE = 256 };
    int64_t pieces = (a->n_col + PIECE - 1) / PIECE, begin, end;
    whim_cpu_share(worker, a->n_row * pieces, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t r = i / pieces, at = i % pieces * PIECE;
        int64_t n = a->n_col - at < PIECE ? a->n_col - at : PIECE;
        swiglu_row(a->gate + r * a->gate_stride + at, a->up + r * a->up_stride + at,
                   a->y + r * a->y_stride + at, n);
    }
}

static void gather_rows_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_gather_rows_args *a = args;
    size_t bytes = (size_t)a->n_col * sizeof(float);
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        int64_t row = a->rows != NULL ? a->rows[r] : r;
        float *y = a->y + r * a->y_stride;
        if (row < 0 || row >= a->n_src) {
            memset(y, 0, bytes);
        } else {
            memcpy(y, a->x + row * a->x_stride, bytes);
        }
    }
}

static void result_tokens_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_result_tokens_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t j = -2 - (int64_t)a->refs[i];
        bool stands_for = j >= 0 && j < a->n_result;
        a->tokens[i] = stands_for ? a->results[j * a->result_stride] : a->refs[i];
    }
}

static void shift_ids_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_shift_ids_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        a->y[i] = a->x[i] < 0 ? a->x[i] : a->x[i] + a->by;
    }
}

static void mask_ids_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_mask_ids_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        bool is_row = r < a->n_src && a->marks[r] >= 0;
        for (int64_t i = 0; i < a->n_col; i++) {
            a->y[r * a->n_col + i] = is_row ? a->x[r * a->n_col + i] : -1;
        }
    }
}

/* Candidates are few: each rank's best. They are put into a sorted list one by one. */
static void merge_topk_row(const whim_merge_topk_args *a, int64_t r)
{
    const float *values = a->values + r * a->n_col;
    const int32_t *ids = a->ids + r * a->n_col;
    float *top = a->top_values + r * a->k_top;
    int32_t *top_ids = a->top_ids + r * a->k_top;
    int64_t n = 0;
    for (int64_t i = 0; i < a->n_col; i++) {
        uint64_t key = whim_rank_key(values[i], ids[i]);
        bool full = n == a->k_top;
        if (ids[i] < 0 || (full && key < whim_rank_key(top[n - 1], top_ids[n - 1]))) {
            continue;
        }
        int64_t at = full ? n - 1 : n++;
        for (; at > 0 && whim_rank_key(top[at - 1], top_ids[at - 1]) < key; at--) {
            top[at] = top[at - 1];
            top_ids[at] = top_ids[at - 1];
        }
        top[at] = values[i];
        top_ids[at] = ids[i];
    }
    for (; n < a->k_top; n++) {
        top[n] = -INFINITY;
        top_ids[n] = -1;
    }
}

static void merge_topk_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_merge_topk_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        merge_topk_row(a, r);
    }
}

static void rope_table_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_rope_table_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *row = a->cos_sin + r * 2 * a->n_freq;
        for (int64_t i = 0; i < a->n_freq; i++) {
            double sine, cosine;
            whim_sincos((double)a->positions[r] * a->freqs[i], &sine, &cosine);
            row[i] = (float)(cosine * a->scale);
            row[a->n_freq + i] = (float)(sine * a->scale);
        }
    }
}

static void rope_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_rope_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const float *cosine = a->cos_sin + r * 2 * a->n_freq;
        for (int64_t h = 0; h < a->n_head; h++) {
            rope_head(a->x + r * a->x_stride + h * a->d_head, cosine, cosine + a->n_freq,
                      a->n_freq);
        }
    }
}

/* One head of q, k or v: copy with bias, norm and rotate where wanted. */
static inline void split_head(const whim_split_qkv_rmsnorm_rope_args *a, const float *src,
                              const float *bias, const float *norm, const float *cosine, float *dst)
{
    for (int64_t i = 0; i < a->d_head; i++) {
        dst[i] = bias != NULL ? src[i] + bias[i] : src[i];
    }
    if (norm != NULL) {
        norm_row(dst, norm, a->eps, dst, a->d_head);
    }
    if (cosine != NULL) {
        rope_head(dst, cosine, cosine + a->n_freq, a->n_freq);
    }
}

static void split_qkv_rmsnorm_rope_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_split_qkv_rmsnorm_rope_args *a = args;
    int64_t per_q = a->gate != NULL ? 2 : 1, n_q = per_q * a->n_head;
    int64_t heads = n_q + 2 * a->n_kv, begin, end;
    whim_cpu_share(worker, a->n_row * heads, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        int64_t r = item / heads, h = item % heads, d = a->d_head;
        const float *src = a->qkv + r * a->qkv_stride + h * d;
        const float *bias = a->bias != NULL ? a->bias + h * d : NULL;
        const float *cosine = a->cos_sin + r * 2 * a->n_freq;
        if (h < n_q && h % per_q == 0) {
            split_head(a, src, bias, a->q_norm, cosine, a->q + (r * a->n_head + h / per_q) * d);
        } else if (h < n_q) {
            split_head(a, src, bias, NULL, NULL, a->gate + (r * a->n_head + h / per_q) * d);
        } else if (h < n_q + a->n_kv) {
            split_head(a, src, bias, a->k_norm, cosine, a->k + (r * a->n_kv + h - n_q) * d);
        } else {
            float *v = a->v + (r * a->n_kv + h - n_q - a->n_kv) * d;
            split_head(a, src, bias, NULL, NULL, v);
        }
    }
}

/* y += (base + delta) * x for one tap, a group of channels after the other. */
static void conv_tap(const float *x, const float *base, const float *delta, float *y, int64_t n_col,
                     int64_t group)
{
    for (int64_t g = 0, at = 0; at < n_col; g++, at += group) {
        for (int64_t c = at; c < at + group; c++) {
            float w = delta != NULL ? base[c] + delta[g] : base[c];
            y[c] = whim_fmaf(w, x[c], y[c]);
        }
    }
}

/* Workers split rows. */
static void block_conv_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_block_conv_args *a = args;
    int64_t begin, end, n_group = a->n_col / a->group, q = 0;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *y = a->y + r * a->y_stride;
        memset(y, 0, (size_t)a->n_col * sizeof *y);
        while (q < a->n_seq && r >= a->q_start[q + 1]) {
            q++;
        }
        int64_t first = q < a->n_seq ? a->q_start[q] : r + 1;
        for (int64_t tap = 0; tap < a->n_tap && r - tap >= first; tap++) {
            const float *delta =
                a->delta != NULL ? a->delta + r * a->delta_stride + tap * n_group : NULL;
            conv_tap(a->x + (r - tap) * a->x_stride, a->base + tap * a->n_col, delta, y, a->n_col,
                     a->group);
        }
    }
}

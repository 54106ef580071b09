/* SPDX-License-Identifier: Apache-2.0 */
/* The norm of q and k over all ranks: sums of squares, and what is done with the sums. Plain loops
 * that the compiler vectorises with the level's flags; rope_head is row_tmpl.h's. Workers split
 * rows and heads. */
#include "backends/cpu/kernels.h"
#include "base/math/fmath.h"

static void qk_sumsq_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_qk_sumsq_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, 2 * a->n_row, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        bool is_k = item % 2 == 1;
        const float *x = a->qkv + item / 2 * a->qkv_stride + (is_k ? a->n_head * a->d_head : 0);
        float sum = 0.0f;
        for (int64_t h = 0; h < (is_k ? a->n_kv : a->n_head); h++) {
            sum += whim_sumsq16(x + h * a->d_head, a->d_head);
        }
        a->sums[item] = sum;
    }
}

static inline void norm_by_sum(const float *x, float sum, int64_t width, float eps, const float *w,
                               float *y, int64_t n)
{
    float scale = 1.0f / sqrtf(sum / (float)width + eps);
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * scale * w[i];
    }
}

static void rmsnorm_sumsq_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_rmsnorm_sumsq_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        norm_by_sum(a->x + r * a->x_stride, a->sums[r * a->sum_stride], a->width, a->eps, a->w,
                    a->y + r * a->y_stride, a->n_col);
    }
}

static void split_qkv_tp_rmsnorm_rope_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_split_qkv_tp_rmsnorm_rope_args *a = args;
    int64_t heads = a->n_head + 2 * a->n_kv, d = a->d_head, begin, end;
    whim_cpu_share(worker, a->n_row * heads, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        int64_t r = item / heads, h = item % heads;
        const float *src = a->qkv + r * a->qkv_stride + h * d;
        const float *cosine = a->cos_sin + r * 2 * a->n_freq;
        if (h < a->n_head) {
            float *q = a->q + (r * a->n_head + h) * d;
            norm_by_sum(src, a->sums[2 * r], a->q_width, a->eps, a->q_norm + h * d, q, d);
            rope_head(q, cosine, cosine + a->n_freq, a->n_freq);
        } else if (h < a->n_head + a->n_kv) {
            int64_t own = h - a->n_head;
            float *k = a->k + (r * a->n_kv + own) * d;
            norm_by_sum(src, a->sums[2 * r + 1], a->k_width, a->eps, a->k_norm + own * d, k, d);
            rope_head(k, cosine, cosine + a->n_freq, a->n_freq);
        } else {
            float *v = a->v + (r * a->n_kv + h - a->n_head - a->n_kv) * d;
            memcpy(v, src, (size_t)d * sizeof *v);
        }
    }
}

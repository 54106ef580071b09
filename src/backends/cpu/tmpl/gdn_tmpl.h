/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta net: convolution and recurrence with their states, and its gates. Shared by all
 * levels, included once per level after row_tmpl.h. Lanes run along channels and along the values
 * of a head, so that every sum has the law's order. */
#include "backends/cpu/kernels.h"
#include "base/math/fmath.h"

#include <string.h>

/* A slot's part, or NULL for padding. */
static inline float *gdn_state(const whim_state_view *view, int32_t slot)
{
    if (slot < 0 || slot >= view->n_slot) {
        return NULL;
    }
    return (float *)((char *)view->slots + slot * view->slot_stride + view->offset);
}

/* Where the state of a sequence is read, and where it goes; NULL: padding, and nowhere. */
#define GDN_BEFORE(a, seq) \
    ((seq) < (a)->n_seq ? gdn_state(&(a)->state, (a)->state_slots[seq]) : NULL)
#define GDN_AFTER(a, seq)                                                                          \
    ((seq) < (a)->n_seq ? gdn_state(&(a)->state, ((a)->out_slots != NULL ? (a)->out_slots          \
                                                                         : (a)->state_slots)[seq]) \
                        : NULL)

/* The sequences of a batch; rows after the last one are one more. */
static int64_t gdn_sequences(const int32_t *q_start, int64_t n_seq, int64_t n_row)
{
    return n_seq + ((n_seq > 0 ? q_start[n_seq] : 0) < n_row);
}

/* x[0 .. n) = silu(x) */
static void silu_row(float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + EXP_LANES <= n; i += EXP_LANES) {
        vf g[EXP_VECS], e[EXP_VECS];
        EACH_VEC g[v] = vf_load(x + i + v * VF);
        EACH_VEC e[v] = -g[v];
        vf_exp(e);
        EACH_VEC vf_store(x + i + v * VF, g[v] / (vf_set1(1.0f) + e[v]));
    }
    for (; i < n; i++) {
        x[i] = x[i] / (1.0f + whim_expf(-x[i]));
    }
}

/* --- convolution ------------------------------------------------------------------------------ */

enum {
    CONV_CHAN = 64
}; /* channels that are walked together: taps, state and rows stay in the first cache */

/* The taps of a block of channels, and what came before its first row. */
typedef struct conv_block {
    float taps[WHIM_GDN_MAX_TAP][CONV_CHAN];
    float before[WHIM_GDN_MAX_TAP][CONV_CHAN]; /* [n_tap - 1] */
} conv_block;

/* Where the block's row t of a sequence lies; t may be negative. */
static inline const float *conv_row(const whim_gdn_conv_args *a, const conv_block *b, int64_t first,
                                    int64_t t, int64_t chan)
{
    return t >= 0 ? a->x + (first + t) * a->x_stride + chan : b->before[t + a->n_tap - 1];
}

static void conv_rows(const whim_gdn_conv_args *a, const conv_block *b, int64_t first, int64_t n,
                      int64_t chan, int64_t width)
{
    for (int64_t t = 0; t < n; t++) {
        float sum[CONV_CHAN] = {0};
        for (int64_t j = 0; j < a->n_tap; j++) {
            const float *x = conv_row(a, b, first, t - (a->n_tap - 1) + j, chan);
            for (int64_t c = 0; c < width; c++) {
                sum[c] = whim_fmaf(b->taps[j][c], x[c], sum[c]);
            }
        }
        silu_row(sum, width);
        memcpy(a->y + (first + t) * a->y_stride + chan, sum, (size_t)width * sizeof *sum);
    }
}

static void conv_block_run(const whim_gdn_conv_args *a, const float *before, float *after,
                           int64_t first, int64_t n, int64_t chan, int64_t width)
{
    conv_block b;
    int64_t n_before = a->n_tap - 1;
    bool fresh = a->positions[first] == 0;
    for (int64_t c = 0; c < width; c++) {
        for (int64_t j = 0; j < a->n_tap; j++) {
            b.taps[j][c] = a->w[(chan + c) * a->n_tap + j];
        }
    }
    for (int64_t j = 0; j < n_before; j++) {
        for (int64_t c = 0; c < width; c++) {
            b.before[j][c] = fresh ? 0.0f : before[j * a->n_chan + chan + c];
        }
    }
    conv_rows(a, &b, first, n, chan, width);
    for (int64_t j = 0; j < n_before && after != NULL; j++) {
        memcpy(after + j * a->n_chan + chan, conv_row(a, &b, first, n - n_before + j, chan),
               (size_t)width * sizeof *after);
    }
}

static void conv_zero(const whim_gdn_conv_args *a, int64_t first, int64_t end, int64_t chan,
                      int64_t width)
{
    for (int64_t r = first; r < end; r++) {
        memset(a->y + r * a->y_stride + chan, 0, (size_t)width * sizeof *a->y);
    }
}

/* Workers split (sequence, block of channels) pairs. */
static void gdn_conv_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_gdn_conv_args *a = args;
    int64_t blocks = (a->n_chan + CONV_CHAN - 1) / CONV_CHAN;
    int64_t n_seq = gdn_sequences(a->q_start, a->n_seq, a->n_row);
    whim_cpu_claim claim = whim_cpu_claim_open(worker, n_seq * blocks);
    while (whim_cpu_claim_next(&claim)) {
        for (int64_t item = claim.begin; item < claim.end; item++) {
            int64_t seq = item / blocks, chan = item % blocks * CONV_CHAN;
            int64_t width = a->n_chan - chan < CONV_CHAN ? a->n_chan - chan : CONV_CHAN;
            int64_t first = a->n_seq > 0 ? a->q_start[seq] : 0;
            int64_t end = seq < a->n_seq ? a->q_start[seq + 1] : a->n_row;
            const float *before = GDN_BEFORE(a, seq);
            if (before == NULL) {
                conv_zero(a, first, end, chan, width);
            } else if (first < end) {
                conv_block_run(a, before, GDN_AFTER(a, seq), first, end - first, chan, width);
            }
        }
    }
}

/* --- recurrence ------------------------------------------------------------------------------- */

enum {
    SCAN_RUN = 16, /* tokens whose keys, queries and gates are made together */
    /* columns of a head that one worker takes: with 128 keys they stay in the first cache */
    SCAN_PART = 64,
    SCAN_VECS = VF < 16 ? 8 : SCAN_PART / VF, /* sums that stay in registers */
    SCAN_COLS = SCAN_VECS * VF,               /* columns of the state that are walked together */
};

/* Columns begin .. end - 1 of the state of a head, as they lie at `state`: row i of column j at
 * state[i * stride + j - begin]. */
typedef struct scan_part {
    int64_t head, begin, end;
    float *state;
    int64_t stride;
} scan_part;

/* What the tokens of a run do to a head. */
typedef struct scan_run {
    float q[SCAN_RUN][WHIM_GDN_MAX_DIM], k[SCAN_RUN][WHIM_GDN_MAX_DIM];
    float decay[SCAN_RUN], beta[SCAN_RUN];
} scan_run;

_Static_assert(sizeof(scan_run) <= WHIM_CPU_SCRATCH, "a run fits a worker's scratch");

static void scan_unit_vector(const float *x, int64_t n, float scale, float *y)
{
    float inv = 1.0f / sqrtf(whim_sumsq16(x, n) + 1e-6f);
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * inv * scale;
    }
}

static void scan_prepare(const whim_gdn_scan_args *a, int64_t head, int64_t row, int64_t n,
                         scan_run *run)
{
    int64_t dk = a->d_key, key = head / (a->n_value / a->n_key);
    float scale = 1.0f / sqrtf((float)dk);
    for (int64_t t = 0; t < n; t++, row++) {
        const float *x = a->qkv + row * a->qkv_stride;
        scan_unit_vector(x + key * dk, dk, scale, run->q[t]);
        scan_unit_vector(x + (a->n_key + key) * dk, dk, 1.0f, run->k[t]);
        double dt = (double)a->a[row * a->a_stride + head] + (double)a->dt_bias[head];
        double softplus = dt > 20.0 ? dt : whim_log1p(whim_exp(dt));
        run->decay[t] = (float)whim_exp((double)a->rate[head] * softplus);
        run->beta[t] = 1.0f / (1.0f + whim_expf(-a->b[row * a->b_stride + head]));
    }
}

#define EACH_SUM for (int v = 0; v < SCAN_VECS; v++)

/* One token, SCAN_COLS columns of the state. */
static inline void scan_cols(float *state, int64_t stride, int64_t dk, const float *q,
                             const float *k, float decay, float beta, const float *value,
                             float *out)
{
    vf sum[SCAN_VECS], delta[SCAN_VECS];
    vf fade = vf_set1(decay), gain = vf_set1(beta);
    EACH_SUM sum[v] = vf_zero();
    for (int64_t i = 0; i < dk; i++) {
        const float *s = state + i * stride;
        EACH_SUM sum[v] = vf_fma1(k[i], vf_mul(vf_load(s + v * VF), fade), sum[v]);
    }
    EACH_SUM delta[v] = vf_mul(gain, vf_load(value + v * VF) - sum[v]);
    EACH_SUM sum[v] = vf_zero();
    for (int64_t i = 0; i < dk; i++) {
        float *s = state + i * stride;
        EACH_SUM
        {
            vf next = vf_fma1(k[i], delta[v], vf_mul(vf_load(s + v * VF), fade));
            vf_store(s + v * VF, next);
            sum[v] = vf_fma1(q[i], next, sum[v]);
        }
    }
    EACH_SUM vf_store(out + v * VF, sum[v]);
}

/* One token, one column. */
static inline void scan_col(float *state, int64_t stride, int64_t dk, const float *q,
                            const float *k, float decay, float beta, float value, float *out)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < dk; i++) {
        sum = whim_fmaf(state[i * stride] * decay, k[i], sum);
    }
    float delta = beta * (value - sum);
    sum = 0.0f;
    for (int64_t i = 0; i < dk; i++) {
        state[i * stride] = whim_fmaf(k[i], delta, state[i * stride] * decay);
        sum = whim_fmaf(state[i * stride], q[i], sum);
    }
    *out = sum;
}

/* The tokens of a run, through a part of the state of its head, a few columns at a time. */
static void scan_part_run(const whim_gdn_scan_args *a, const scan_run *run, const scan_part *p,
                          int64_t row, int64_t n)
{
    int64_t dk = a->d_key, dv = a->d_value, width = (int64_t)a->n_value * dv, j = p->begin;
    const float *value = a->qkv + row * a->qkv_stride + 2 * a->n_key * dk + p->head * dv;
    float *out = a->out + row * width + p->head * dv;
    for (; j + SCAN_COLS <= p->end; j += SCAN_COLS) {
        for (int64_t t = 0; t < n; t++) {
            scan_cols(p->state + j - p->begin, p->stride, dk, run->q[t], run->k[t], run->decay[t],
                      run->beta[t], value + t * a->qkv_stride + j, out + t * width + j);
        }
    }
    for (; j < p->end; j++) {
        for (int64_t t = 0; t < n; t++) {
            scan_col(p->state + j - p->begin, p->stride, dk, run->q[t], run->k[t], run->decay[t],
                     run->beta[t], value[t * a->qkv_stride + j], out + t * width + j);
        }
    }
}

/* n rows of `width` floats, `stride` apart, become zero. */
static void scan_zero(float *rows, int64_t n, int64_t width, int64_t stride)
{
    for (int64_t r = 0; r < n; r++) {
        memset(rows + r * stride, 0, (size_t)width * sizeof *rows);
    }
}

/* The part of the state before the first row, brought to where it is worked on. */
static void scan_begin(const whim_gdn_scan_args *a, const scan_part *p, const float *before,
                       bool fresh)
{
    int64_t width = p->end - p->begin;
    if (fresh) {
        scan_zero(p->state, a->d_key, width, p->stride);
    }
    for (int64_t i = 0; i < a->d_key && !fresh && before != p->state; i++) {
        memcpy(p->state + i * p->stride, before + i * a->d_value, (size_t)width * sizeof *before);
    }
}

/* A part that goes nowhere is worked on in what a run leaves of the scratch, so many columns at a
 * time. */
enum { SCAN_SPARE = (WHIM_CPU_SCRATCH - (int)sizeof(scan_run)) / (int)sizeof(float) };
_Static_assert((int)SCAN_SPARE >= (int)WHIM_GDN_MAX_DIM, "there is room for a column");

static void scan_rows(const whim_gdn_scan_args *a, scan_run *run, const float *before, float *after,
                      const scan_part *whole, int64_t first, int64_t end)
{
    int64_t at = whole->head * a->d_key * a->d_value, most = SCAN_SPARE / a->d_key;
    for (scan_part p = *whole; p.begin < whole->end; p.begin = p.end) {
        p.end = after == NULL && whole->end - p.begin > most ? p.begin + most : whole->end;
        p.state = after != NULL ? after + at + p.begin : (float *)(run + 1);
        p.stride = after != NULL ? a->d_value : p.end - p.begin;
        scan_begin(a, &p, before + at + p.begin, a->positions[first] == 0);
        for (int64_t row = first; row < end; row += SCAN_RUN) {
            int64_t n = end - row < SCAN_RUN ? end - row : SCAN_RUN;
            scan_prepare(a, p.head, row, n, run);
            scan_part_run(a, run, &p, row, n);
        }
    }
}

/* Workers split (sequence, value head, part of it) triples. */
static void gdn_scan_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_gdn_scan_args *a = args;
    int64_t dv = a->d_value, parts = (dv + SCAN_PART - 1) / SCAN_PART, per_seq = a->n_value * parts;
    int64_t n_seq = gdn_sequences(a->q_start, a->n_seq, a->n_row);
    whim_cpu_claim claim = whim_cpu_claim_open(worker, n_seq * per_seq);
    while (whim_cpu_claim_next(&claim)) {
        for (int64_t item = claim.begin; item < claim.end; item++) {
            int64_t seq = item / per_seq, begin = item % parts * SCAN_PART;
            scan_part p = {.head = item % per_seq / parts,
                           .begin = begin,
                           .end = dv - begin < SCAN_PART ? dv : begin + SCAN_PART};
            int64_t first = a->n_seq > 0 ? a->q_start[seq] : 0;
            int64_t end = seq < a->n_seq ? a->q_start[seq + 1] : a->n_row;
            const float *before = GDN_BEFORE(a, seq);
            if (before == NULL) {
                scan_zero(a->out + (first * a->n_value + p.head) * dv + p.begin, end - first,
                          p.end - p.begin, a->n_value * dv);
            } else if (first < end) {
                scan_rows(a, worker->scratch, before, GDN_AFTER(a, seq), &p, first, end);
            }
        }
    }
}

/* --- splitting, gates, copies ----------------------------------------------------------------- */

static void gdn_split_qkvzba_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_gdn_split_qkvzba_args *a = args;
    if (a->n_key == 0) { /* a rank without heads */
        return;
    }
    int64_t n_group = a->grouped ? a->n_key : 1, begin, end;
    int64_t k_all = a->n_key * a->d_key, v_all = a->n_value * a->d_value;
    int64_t k = k_all / n_group, v = v_all / n_group, h = a->n_value / n_group;
    whim_cpu_share(worker, a->n_row * n_group, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        int64_t r = item / n_group, g = item % n_group;
        const float *x = a->qkvz + r * a->qkvz_stride + g * (2 * k + 2 * v);
        const float *ba = a->ba + r * a->ba_stride + g * 2 * h;
        float *qkv = a->qkv + r * (2 * k_all + v_all);
        size_t f32 = sizeof(float);
        memcpy(qkv + g * k, x, (size_t)k * f32);
        memcpy(qkv + k_all + g * k, x + k, (size_t)k * f32);
        memcpy(qkv + 2 * k_all + g * v, x + 2 * k, (size_t)v * f32);
        memcpy(a->z + r * v_all + g * v, x + 2 * k + v, (size_t)v * f32);
        memcpy(a->b + r * a->n_value + g * h, ba, (size_t)h * f32);
        memcpy(a->a + r * a->n_value + g * h, ba + h, (size_t)h * f32);
    }
}

static void rmsnorm_gated_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_rmsnorm_gated_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *y = a->y + r * a->y_stride;
        norm_row(a->x + r * a->x_stride, a->w, a->eps, y, a->n_col);
        swiglu_row(a->z + r * a->z_stride, y, y, a->n_col);
    }
}

/* x[0 .. n) /= 1 + exp(-gate) */
static void sigmoid_row(float *x, const float *gate, int64_t n)
{
    int64_t i = 0;
    for (; i + EXP_LANES <= n; i += EXP_LANES) {
        vf e[EXP_VECS];
        EACH_VEC e[v] = -vf_load(gate + i + v * VF);
        vf_exp(e);
        EACH_VEC vf_store(x + i + v * VF, vf_load(x + i + v * VF) / (vf_set1(1.0f) + e[v]));
    }
    for (; i < n; i++) {
        x[i] /= 1.0f + whim_expf(-gate[i]);
    }
}

/* Workers split pieces of rows, so that one row keeps several of them busy. */
static void sigmoid_gate_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_sigmoid_gate_args *a = args;
    enum { PIECE = 256 };
    int64_t pieces = (a->n_col + PIECE - 1) / PIECE, begin, end;
    whim_cpu_share(worker, a->n_row * pieces, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        int64_t r = item / pieces, at = item % pieces * PIECE;
        int64_t n = a->n_col - at < PIECE ? a->n_col - at : PIECE;
        sigmoid_row(a->x + r * a->x_stride + at, a->gate + r * a->gate_stride + at, n);
    }
}

static void copy_bytes_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_copy_bytes_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->bytes, &begin, &end);
    if (begin < end) {
        memcpy((char *)a->dst + begin, (const char *)a->src + begin, (size_t)(end - begin));
    }
}

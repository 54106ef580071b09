/* SPDX-License-Identifier: Apache-2.0 */
/* The law of the gated delta net. */
#include "base/math/fmath.h"
#include "ops/ref/ref.h"

#include <string.h>

/* A slot's part, or NULL for padding. */
static float *state_of(const whim_state_view *view, int32_t slot)
{
    if (slot < 0 || slot >= view->n_slot) {
        return NULL;
    }
    return (float *)((char *)view->slots + slot * view->slot_stride + view->offset);
}

static float silu(float x)
{
    return x / (1.0f + whim_expf(-x));
}

/* Row t of a sequence, where rows before its first one come from the state (zeros at position
 * 0). */
static float conv_input(const whim_gdn_conv_args *a, const float *state, bool fresh, int64_t first,
                        int64_t t, int64_t chan)
{
    if (t >= 0) {
        return a->x[(first + t) * a->x_stride + chan];
    }
    return fresh ? 0.0f : state[(t + a->n_tap - 1) * a->n_chan + chan];
}

static void conv_sequence(const whim_gdn_conv_args *a, const float *state, float *after,
                          int64_t first, int64_t n)
{
    bool fresh = a->positions[first] == 0;
    for (int64_t c = 0; c < a->n_chan; c++) {
        float last[WHIM_GDN_MAX_TAP];
        for (int64_t t = 0; t < n; t++) {
            float sum = 0.0f;
            for (int64_t j = 0; j < a->n_tap; j++) {
                float x = conv_input(a, state, fresh, first, t - (a->n_tap - 1) + j, c);
                sum = whim_fmaf(a->w[c * a->n_tap + j], x, sum);
            }
            a->y[(first + t) * a->y_stride + c] = silu(sum);
        }
        for (int64_t j = 0; j < a->n_tap - 1; j++) {
            last[j] = conv_input(a, state, fresh, first, n - (a->n_tap - 1) + j, c);
        }
        for (int64_t j = 0; j < a->n_tap - 1 && after != NULL; j++) {
            after[j * a->n_chan + c] = last[j];
        }
    }
}

whim_err whim_ref_gdn_conv(whim_stream *s, const whim_gdn_conv_args *a)
{
    (void)s;
    const int32_t *to = a->out_slots != NULL ? a->out_slots : a->state_slots;
    for (int64_t r = 0; r < a->n_row && a->n_chan > 0; r++) {
        memset(a->y + r * a->y_stride, 0, (size_t)a->n_chan * sizeof *a->y);
    }
    for (int64_t q = 0; q < a->n_seq; q++) {
        float *state = state_of(&a->state, a->state_slots[q]);
        int64_t first = a->q_start[q], n = a->q_start[q + 1] - first;
        if (n > 0 && state != NULL) {
            conv_sequence(a, state, state_of(&a->state, to[q]), first, n);
        }
    }
    return WHIM_ERR_OK;
}

/* y = x / sqrt(sum x^2 + 1e-6), times `scale` */
static void unit_vector(const float *x, int64_t n, float scale, float *y)
{
    float inv = 1.0f / sqrtf(whim_sumsq16(x, n) + 1e-6f);
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * inv * scale;
    }
}

enum { SCAN_COLS = 16 }; /* columns of a head's state that are walked together */

/* Columns first_col .. first_col + n_col - 1 of the state of a value head. */
typedef struct scan_part {
    const whim_gdn_scan_args *a;
    int64_t head, first_col, n_col;
    float state[SCAN_COLS][WHIM_GDN_MAX_DIM]; /* by column */
} scan_part;

/* One token: S *= exp(g); r = S^T k; S += k (beta (v - r))^T; o = S^T q. Sums over the key's
 * dimensions are in order, one accumulator each; the decay and its exponent are computed in
 * double. */
static void scan_token(scan_part *p, int64_t row)
{
    const whim_gdn_scan_args *a = p->a;
    int64_t dk = a->d_key, dv = a->d_value, key = p->head / (a->n_value / a->n_key);
    const float *x = a->qkv + row * a->qkv_stride;
    const float *v = x + 2 * a->n_key * dk + p->head * dv + p->first_col;
    float *out = a->out + (row * a->n_value + p->head) * dv + p->first_col;
    float q[WHIM_GDN_MAX_DIM], k[WHIM_GDN_MAX_DIM];
    unit_vector(x + key * dk, dk, 1.0f / sqrtf((float)dk), q);
    unit_vector(x + (a->n_key + key) * dk, dk, 1.0f, k);
    double dt = (double)a->a[row * a->a_stride + p->head] + (double)a->dt_bias[p->head];
    double softplus = dt > 20.0 ? dt : whim_log1p(whim_exp(dt));
    float decay = (float)whim_exp((double)a->rate[p->head] * softplus);
    float beta = 1.0f / (1.0f + whim_expf(-a->b[row * a->b_stride + p->head]));
    for (int64_t j = 0; j < p->n_col; j++) {
        float read = 0.0f, sum = 0.0f, *state = p->state[j];
        for (int64_t i = 0; i < dk; i++) {
            read = whim_fmaf(state[i] * decay, k[i], read);
        }
        float delta = beta * (v[j] - read);
        for (int64_t i = 0; i < dk; i++) {
            state[i] = whim_fmaf(k[i], delta, state[i] * decay);
            sum = whim_fmaf(state[i], q[i], sum);
        }
        out[j] = sum;
    }
}

/* All rows of a sequence through a part; the state after them goes to `after`, unless that is
 * NULL. */
static void scan_rows(scan_part *p, const float *before, float *after, int64_t first, int64_t end)
{
    const whim_gdn_scan_args *a = p->a;
    int64_t dk = a->d_key, dv = a->d_value, at = p->head * dk * dv + p->first_col;
    bool fresh = a->positions[first] == 0;
    for (int64_t j = 0; j < p->n_col; j++) {
        for (int64_t i = 0; i < dk; i++) {
            p->state[j][i] = fresh ? 0.0f : before[at + i * dv + j];
        }
    }
    for (int64_t r = first; r < end; r++) {
        scan_token(p, r);
    }
    for (int64_t j = 0; j < p->n_col && after != NULL; j++) {
        for (int64_t i = 0; i < dk; i++) {
            after[at + i * dv + j] = p->state[j][i];
        }
    }
}

whim_err whim_ref_gdn_scan(whim_stream *s, const whim_gdn_scan_args *a)
{
    (void)s;
    int64_t width = (int64_t)a->n_value * a->d_value;
    const int32_t *to = a->out_slots != NULL ? a->out_slots : a->state_slots;
    if (a->n_row > 0 && width > 0) {
        memset(a->out, 0, (size_t)(a->n_row * width) * sizeof *a->out);
    }
    for (int64_t q = 0; q < a->n_seq; q++) {
        const float *before = state_of(&a->state, a->state_slots[q]);
        float *after = state_of(&a->state, to[q]);
        int64_t first = a->q_start[q], end = a->q_start[q + 1];
        for (int64_t j = 0; j < width && first < end && before != NULL;) {
            scan_part p = {.a = a, .head = j / a->d_value, .first_col = j % a->d_value};
            int64_t left = a->d_value - p.first_col;
            p.n_col = left < SCAN_COLS ? left : SCAN_COLS;
            scan_rows(&p, before, after, first, end);
            j += p.n_col;
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_sigmoid_gate(whim_stream *s, const whim_sigmoid_gate_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *gate = a->gate + r * a->gate_stride;
        for (int64_t i = 0; i < a->n_col; i++) {
            a->x[r * a->x_stride + i] /= 1.0f + whim_expf(-gate[i]);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_copy_bytes(whim_stream *s, const whim_copy_bytes_args *a)
{
    (void)s;
    if (a->bytes > 0) {
        memcpy(a->dst, a->src, (size_t)a->bytes);
    }
    return WHIM_ERR_OK;
}

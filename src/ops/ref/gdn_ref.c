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

/* Row t of a sequence, where rows before its first one come from the state (zeros at position 0). */
static float conv_input(const whim_gdn_conv_args *a, const float *state, bool fresh, int64_t first,
                        int64_t t, int64_t chan)
{
    if (t >= 0) {
        return a->x[(first + t) * a->x_stride + chan];
    }
    return fresh ? 0.0f : state[(t + a->n_tap - 1) * a->n_chan + chan];
}

static void conv_sequence(const whim_gdn_conv_args *a, float *state, int64_t first, int64_t n)
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
        for (int64_t j = 0; j < a->n_tap - 1; j++) {
            state[j * a->n_chan + c] = last[j];
        }
    }
}

whim_err whim_ref_gdn_conv(whim_stream *s, const whim_gdn_conv_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        memset(a->y + r * a->y_stride, 0, (size_t)a->n_chan * sizeof *a->y);
    }
    for (int64_t q = 0; q < a->n_seq; q++) {
        float *state = state_of(&a->state, a->state_slots[q]);
        int64_t first = a->q_start[q], n = a->q_start[q + 1] - first;
        if (n > 0 && state != NULL) {
            conv_sequence(a, state, first, n);
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

/* One token of one value head: S *= exp(g); r = S^T k; S += k (beta (v - r))^T; o = S^T q. Sums over the key's
 * dimensions are in order, one accumulator each; the decay and its exponent are computed in double. */
static void scan_token(const whim_gdn_scan_args *a, float *state, int64_t row, int64_t head)
{
    int64_t dk = a->d_key, dv = a->d_value, key = head / (a->n_value / a->n_key);
    const float *x = a->qkv + row * a->qkv_stride;
    const float *v = x + 2 * a->n_key * dk + head * dv;
    float *out = a->out + (row * a->n_value + head) * dv;
    float q[WHIM_GDN_MAX_DIM], k[WHIM_GDN_MAX_DIM];
    unit_vector(x + key * dk, dk, 1.0f / sqrtf((float)dk), q);
    unit_vector(x + (a->n_key + key) * dk, dk, 1.0f, k);
    double dt = (double)a->a[row * a->a_stride + head] + (double)a->dt_bias[head];
    double softplus = dt > 20.0 ? dt : whim_log1p(whim_exp(dt));
    float decay = (float)whim_exp((double)a->rate[head] * softplus);
    float beta = 1.0f / (1.0f + whim_expf(-a->b[row * a->b_stride + head]));
    for (int64_t j = 0; j < dv; j++) {
        float read = 0.0f, sum = 0.0f;
        for (int64_t i = 0; i < dk; i++) {
            read = whim_fmaf(state[i * dv + j] * decay, k[i], read);
        }
        float delta = beta * (v[j] - read);
        for (int64_t i = 0; i < dk; i++) {
            state[i * dv + j] = whim_fmaf(k[i], delta, state[i * dv + j] * decay);
            sum = whim_fmaf(state[i * dv + j], q[i], sum);
        }
        out[j] = sum;
    }
}

whim_err whim_ref_gdn_scan(whim_stream *s, const whim_gdn_scan_args *a)
{
    (void)s;
    int64_t width = (int64_t)a->n_value * a->d_value, size = (int64_t)a->d_key * a->d_value;
    if (a->n_row > 0) {
        memset(a->out, 0, (size_t)(a->n_row * width) * sizeof *a->out);
    }
    for (int64_t q = 0; q < a->n_seq; q++) {
        float *state = state_of(&a->state, a->state_slots[q]);
        int64_t first = a->q_start[q], end = a->q_start[q + 1];
        if (first >= end || state == NULL) {
            continue;
        }
        if (a->positions[first] == 0) {
            memset(state, 0, (size_t)(a->n_value * size) * sizeof *state);
        }
        for (int64_t r = first; r < end; r++) {
            for (int64_t h = 0; h < a->n_value; h++) {
                scan_token(a, state + h * size, r, h);
            }
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

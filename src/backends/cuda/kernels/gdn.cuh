/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta net (ops/ref/gdn_ref.c has the steps). */
#pragma once
#include "common.cuh"

/* A slot's part, or NULL for padding. */
static float *state_of(const whim_state_view &view, int32_t slot)
{
    return slot < 0 || slot >= view.n_slot
               ? NULL
               : (float *)((char *)view.slots + slot * view.slot_stride + view.offset);
}

/* Row t of a sequence; rows before its first come from the state. */
static float conv_input(const whim_gdn_conv_args &a, const float *state, bool fresh, int64_t first,
                        int64_t t, int64_t chan)
{
    return t >= 0  ? a.x[(first + t) * a.x_stride + chan]
           : fresh ? 0.0f
                   : state[(t + a.n_tap - 1) * a.n_chan + chan];
}

KERNEL k_gdn_conv(ARGS(whim_gdn_conv_args))
{
    BEGIN
    EACH_ELEMENT(r, c, a.n_row, a.n_chan)
    {
        int64_t seq = row_sequence(a.q_start, a.n_seq, r);
        const float *state = seq >= 0 ? state_of(a.state, a.state_slots[seq]) : NULL;
        float y = 0.0f;
        if (state != NULL) {
            int64_t first = a.q_start[seq];
            bool fresh = a.positions[first] == 0;
            float sum = 0.0f;
            for (int64_t j = 0; j < a.n_tap; j++) {
                float x = conv_input(a, state, fresh, first, r - first - (a.n_tap - 1) + j, c);
                sum = whim_fmaf(a.w[c * a.n_tap + j], x, sum);
            }
            y = sum / (1.0f + whim_expf(-sum));
        }
        a.y[r * a.y_stride + c] = y;
    }
}

KERNEL k_gdn_conv_state(ARGS(whim_gdn_conv_args))
{
    BEGIN
    const int32_t *to = a.out_slots != NULL ? a.out_slots : a.state_slots;
    EACH_ELEMENT(seq, c, a.n_seq, a.n_chan)
    {
        const float *state = state_of(a.state, a.state_slots[seq]);
        float *after = state_of(a.state, to[seq]);
        int64_t first = a.q_start[seq], n = a.q_start[seq + 1] - first;
        if (n > 0 && state != NULL && after != NULL) {
            bool fresh = a.positions[first] == 0;
            float last[WHIM_GDN_MAX_TAP];
            for (int64_t j = 0; j < a.n_tap - 1; j++) {
                last[j] = conv_input(a, state, fresh, first, n - (a.n_tap - 1) + j, c);
            }
            for (int64_t j = 0; j < a.n_tap - 1; j++) {
                after[j * a.n_chan + c] = last[j];
            }
        }
    }
}

/* --- the scan --------------------------------------------------------------------------------- */

struct scan_space {
    float state[WHIM_CUDA_SCAN_FLOATS]; /* [d_key][columns] */
    float q[WHIM_GDN_MAX_DIM], k[WHIM_GDN_MAX_DIM];
};

/* y = x / sqrt(sum x^2 + 1e-6), times `scale`; one warp. */
static void unit_vector(const float *x, int64_t n, float scale, float *y)
{
    float lane = 0.0f;
    for (int64_t i = threadIdx.x; i < n && threadIdx.x < WHIM_LANES; i += WHIM_LANES) {
        lane = whim_fmaf(x[i], x[i], lane);
    }
    float sum = __shfl_sync(ALL_LANES, fold16(lane), 0);
    float inv = 1.0f / sqrtf(sum + 1e-6f);
    EACH_THREAD(i, n)
    {
        y[i] = x[i] * inv * scale;
    }
}

/* One token of one column, as the law's scan_token. */
static void scan_token(const whim_gdn_scan_args &a, scan_space *s, int64_t row, int64_t head,
                       int64_t col, int64_t n_col)
{
    int64_t dk = a.d_key, dv = a.d_value, key = head / (a.n_value / a.n_key);
    const float *x = a.qkv + row * a.qkv_stride;
    __syncwarp();
    unit_vector(x + key * dk, dk, 1.0f / sqrtf((float)dk), s->q);
    unit_vector(x + (a.n_key + key) * dk, dk, 1.0f, s->k);
    __syncwarp();
    double dt = (double)a.a[row * a.a_stride + head] + (double)a.dt_bias[head];
    double softplus = dt > 20.0 ? dt : whim_log1p(whim_exp(dt));
    float decay = (float)whim_exp((double)a.rate[head] * softplus);
    float beta = 1.0f / (1.0f + whim_expf(-a.b[row * a.b_stride + head]));
    if (threadIdx.x < n_col && col < dv) {
        float read = 0.0f, sum = 0.0f, *state = s->state + threadIdx.x;
        for (int64_t i = 0; i < dk; i++) {
            read = whim_fmaf(state[i * n_col] * decay, s->k[i], read);
        }
        float delta = beta * (x[2 * a.n_key * dk + head * dv + col] - read);
        for (int64_t i = 0; i < dk; i++) {
            float next = whim_fmaf(s->k[i], delta, state[i * n_col] * decay);
            state[i * n_col] = next;
            sum = whim_fmaf(next, s->q[i], sum);
        }
        a.out[(row * a.n_value + head) * dv + col] = sum;
    }
}

/* A warp has some columns of a value head of a sequence; the rows come in order. */
KERNEL k_gdn_scan(ARGS(whim_gdn_scan_args))
{
    BEGIN
    __shared__ scan_space s;
    const int32_t *to = a.out_slots != NULL ? a.out_slots : a.state_slots;
    int64_t dk = a.d_key, dv = a.d_value, n_col = whim_cuda_scan_columns(dk);
    int64_t per_head = (dv + n_col - 1) / n_col;
    EACH_ITEM(item, a.n_seq * a.n_value * per_head)
    {
        int64_t seq = item / per_head / a.n_value, head = item / per_head % a.n_value;
        int64_t col = item % per_head * n_col + threadIdx.x, at = head * dk * dv + col;
        const float *before = state_of(a.state, a.state_slots[seq]);
        float *after = state_of(a.state, to[seq]);
        int64_t first = a.q_start[seq], end = a.q_start[seq + 1];
        if (first >= end || before == NULL) {
            continue;
        }
        bool fresh = a.positions[first] == 0, is_mine = threadIdx.x < n_col && col < dv;
        for (int64_t i = 0; i < dk && is_mine; i++) {
            s.state[i * n_col + threadIdx.x] = fresh ? 0.0f : before[at + i * dv];
        }
        for (int64_t r = first; r < end; r++) {
            scan_token(a, &s, r, head, col, n_col);
        }
        for (int64_t i = 0; i < dk && is_mine && after != NULL; i++) {
            after[at + i * dv] = s.state[i * n_col + threadIdx.x];
        }
    }
}

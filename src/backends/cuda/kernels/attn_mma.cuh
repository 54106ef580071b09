/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over BF16 pages on the matrix unit, for heads of a multiple of 16 up to 128. It has an
 * order of its own, in which a row's bits do not depend on how rows and keys are shared out:
 *  - scores are sums over d by the unit, in steps of 16; t = score * log2(e), to 12 bits after the
 *    point
 *  - in a segment of 512 keys m is the largest t without its fraction, and p = 2^(t - m) as BF16.
 *    t - m is exact, so weights of another m differ by a power of two, exactly, and m may grow on
 *    the way
 *  - l adds p up by 32 keys: four lanes' sums, folded, then the next 32. o is the unit's sum over
 *    the segment's keys in steps of 16 of p v
 *  - segments are added in order, each times 2^(m - largest so far). The result is o / l.
 * Pages hold 64 keys: k as [d][64], v as [64][d]. Rows of a page's part lie in shared memory with
 * their vectors of 16 bytes turned about (attn_chunk), so that the unit's parts are in banks of
 * their own. */
#pragma once
#include "attn_few.cuh"
#include "mma.cuh"

enum { MX_ROWS = 16, MX_PAGE = WHIM_CUDA_PAGE, MX_SEGMENT_PAGES = WHIM_KV_SEGMENT / MX_PAGE };

/* Where vector `chunk` of a row lies. */
static uint32_t attn_chunk(int row, int chunk, int row_bytes)
{
    return row * row_bytes + ((chunk ^ (row & 7)) << 4);
}

/* 2^d for whole d <= 0; 0 where that is no normal number, or d no number. */
static float mx_power(float d)
{
    return d >= -126.0f ? whim_f32_from_bits((uint32_t)((int)d + 127) << 23) : 0.0f;
}

/* The keys that a pair of row and head sees. */
struct mx_range {
    int lo, hi;
};

/* What a thread has of two rows (lane / 4 and 8 more) of 16. */
struct mx_state {
    float m[2], l[2];
};

/* Q as the unit's left operand: a thread's two pairs lie at q + from[i], or are nothing (-1). */
template <int D>
static void mx_load_q(uint32_t (*q)[4], const whim_attn_paged_args &a, const int64_t *from)
{
    int lane = threadIdx.x % WARP, d_head = (int)a.kv.d_head;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int d = k * 16 + i / 2 * 8 + lane % 4 * 2;
            const float *x = a.q + from[i % 2] + d;
            bool is_there = from[i % 2] >= 0 && d < d_head;
            q[k][i] = is_there ? pack_bf16(x[0] * a.scale, x[1] * a.scale) : 0;
        }
    }
}

/* The part of one page that is a head's, to shared memory, by 128 threads: rows of keys are 8
 * vectors long, those of values D / 8. 128 vectors are whole rows, and the next 128 lie as they do. */
enum { MX_THREADS = 128, MX_STEP = MX_THREADS * 16 };

static void mx_fetch_whole(uint32_t to, const char *from, int per_row, int row_bytes, int n_step)
{
    int thread = threadIdx.x % MX_THREADS;
    to += attn_chunk(thread / per_row, thread % per_row, row_bytes);
    from += thread * 16;
    for (int i = 0; i < n_step; i++) {
        copy_async16_or_zero(to + i * MX_STEP, from + i * MX_STEP, true);
    }
}

static void mx_fetch_keys(uint32_t to, const whim_kv_view &kv, int page, int head)
{
    int d = (int)kv.d_head;
    mx_fetch_whole(to, page_of(kv, page).keys + (int64_t)head * d * MX_PAGE * 2, 8, MX_PAGE * 2,
                   d / 16);
}

template <int D>
static void mx_fetch_values(uint32_t to, const whim_kv_view &kv, int page, int head)
{
    int d = (int)kv.d_head, per_row = d / 8;
    const char *from = page_of(kv, page).values + (int64_t)head * d * MX_PAGE * 2;
    if (d == D) {
        mx_fetch_whole(to, from, D / 8, D * 2, d / 16);
        return;
    }
    for (int i = threadIdx.x; i < per_row * MX_PAGE; i += MX_THREADS) {
        copy_async16_or_zero(to + attn_chunk(i / per_row, i % per_row, D * 2), from + i * 16, true);
    }
}

/* Scores of 16 pairs with NT parts of 8 keys, from the key of chunk `first` of a page on. */
template <int D, int NT>
static void mx_scores(float (*s)[4], const uint32_t (*q)[4], uint32_t keys, int first, int d_head)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        if (k * 16 >= d_head) {
            break;
        }
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
            uint32_t r[4];
            int row = k * 16 + lane % 16;
            load_turned4(r, keys + attn_chunk(row, first + n + lane / 16, MX_PAGE * 2));
            mma_bf16(s[n], q[k], r[0], r[1]);
            mma_bf16(s[n + 1], q[k], r[2], r[3]);
        }
    }
}

/* Scores to t, or -inf where a pair does not see the key; m: the largest of both rows without its
 * fraction, in all lanes. `first` is the first key's position. */
template <int NT>
static void mx_mask(float (*s)[4], const mx_range *range, int first, float *m)
{
    const float magic = 0x1.8p11f; /* a sum with it has 12 bits after the point */
    int lane = threadIdx.x % WARP;
    bool sees_all = true;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        sees_all = sees_all && first >= range[i].lo && first + NT * 8 <= range[i].hi;
    }
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = __fmaf_rn(s[n][i], 0x1.715476p+0f, magic) - magic;
        }
    }
    if (!__all_sync(ALL_LANES, sees_all)) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int key = first + n * 8 + lane % 4 * 2 + i % 2;
                bool sees = key >= range[i / 2].lo && key < range[i / 2].hi;
                s[n][i] = sees ? s[n][i] : -INFINITY;
            }
        }
    }
    m[0] = m[1] = -INFINITY;
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            m[i / 2] = fmaxf(m[i / 2], s[n][i]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        m[i] = fmaxf(m[i], __shfl_xor_sync(ALL_LANES, m[i], 1));
        m[i] = floorf(fmaxf(m[i], __shfl_xor_sync(ALL_LANES, m[i], 2)));
    }
}

/* Weights as BF16, two keys of a row together: p[n][row]. Sums of 32 keys each (4 parts) of what
 * was rounded in `sum`, in all lanes of a row. A score that is no number makes a weight that is
 * none. */
template <int NT>
static void mx_weights(uint32_t (*p)[2], const float (*s)[4], const float *m, float (*sum)[2])
{
    float base[2] = {m[0] == -INFINITY ? 0.0f : m[0], m[1] == -INFINITY ? 0.0f : m[1]};
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            p[n][i] =
                pack_bf16(exp2_fast(s[n][i * 2] - base[i]), exp2_fast(s[n][i * 2 + 1] - base[i]));
        }
    }
#pragma unroll
    for (int h = 0; h < NT / 4; h++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float l = 0.0f;
#pragma unroll
            for (int n = 0; n < 4; n++) {
                l += whim_f32_from_bits(p[h * 4 + n][i] << 16);
                l += whim_f32_from_bits(p[h * 4 + n][i] & 0xffff0000u);
            }
            l += __shfl_xor_sync(ALL_LANES, l, 1);
            l += __shfl_xor_sync(ALL_LANES, l, 2);
            sum[h][i] = l;
        }
    }
}

/* o += p v for 16 keys and NT parts of 8 columns, from vector `first` of a row on. */
template <int D, int NT>
static void mx_values(float (*o)[4], const uint32_t *p, uint32_t values, int key, int first,
                      int d_head)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
        if ((first + n) * 8 < d_head) {
            uint32_t r[4];
            load_turned4(r, values + attn_chunk(key + lane % 16, first + n + lane / 16, D * 2));
            mma_bf16(o[n], p, r[0], r[1]);
            mma_bf16(o[n + 1], p, r[2], r[3]);
        }
    }
}

/* Rows' sums are from now on those of a larger m. */
template <int NT> static void mx_grow(mx_state *state, float (*o)[4], const float *m)
{
    if (!__any_sync(ALL_LANES, m[0] > state->m[0] || m[1] > state->m[1])) {
        return;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float most = fmaxf(state->m[i], m[i]), keep = mx_power(state->m[i] - most);
        state->m[i] = most;
        state->l[i] *= keep;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            o[n][i * 2] *= keep;
            o[n][i * 2 + 1] *= keep;
        }
    }
}

/* A segment's sums to the total, which begins as zeros; the segment begins anew. */
template <int NT>
static void mx_add(mx_state *total, float (*all)[4], mx_state *segment, float (*o)[4])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float most = fmaxf(total->m[i], segment->m[i]);
        float keep = mx_power(total->m[i] - most), take = mx_power(segment->m[i] - most);
        total->l[i] = total->l[i] * keep + segment->l[i] * take;
        total->m[i] = most;
        segment->m[i] = -INFINITY;
        segment->l[i] = 0.0f;
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
            for (int j = i * 2; j < i * 2 + 2; j++) {
                all[n][j] = all[n][j] * keep + o[n][j] * take;
                o[n][j] = 0.0f;
            }
        }
    }
}

/* Outputs of a thread's two pairs, in place of their sums, to out + to[i] unless that is negative;
 * columns from `first`. */
template <int NT>
static void mx_store(float *out, const mx_state &state, float (*o)[4], int first, int d_head,
                     const int64_t *to)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int d = first + n * 8 + lane % 4 * 2;
#pragma unroll
            for (int j = i * 2; j < i * 2 + 2; j++) {
                o[n][j] = state.l[i] != 0.0f ? o[n][j] / state.l[i] : 0.0f;
                if (to[i] >= 0 && d < d_head) {
                    out[to[i] + d + j % 2] = o[n][j];
                }
            }
        }
    }
}

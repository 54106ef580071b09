/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on the matrix unit (attn_mma.cuh has its order): kernels for many rows, and for few.
 * Many: a block has some rows of all heads that share keys, 64 pairs, 16 for each warp; pages come
 * through two stages. Few: a block has one row and a head of keys; its warps share the keys of two
 * pages for scores, then the columns of values. Blocks may share the segments of a row. */
#pragma once
#include "attn_mma.cuh"

/* --- many rows -------------------------------------------------------------------------------- */

struct mx_block {
    int row, end;   /* rows of one sequence */
    int lo, hi;     /* keys that any of them sees */
    const int32_t *pages;
};

static mx_block mx_block_of(const whim_attn_paged_args &a, int row, int end)
{
    int64_t seq = row_sequence(a.q_start, a.n_seq, row);
    mx_block b = {row, end, INT32_MAX, 0, NULL};
    if (seq >= 0 && a.q_start[seq + 1] < end) {
        b.end = a.q_start[seq + 1];
    }
    for (int r = row; r < b.end && seq >= 0; r++) {
        attn_range range = attn_range_of(a, r);
        b.pages = range.pages;
        if (range.lo < range.hi) {
            b.lo = range.lo < b.lo ? (int)range.lo : b.lo;
            b.hi = range.hi > b.hi ? (int)range.hi : b.hi;
        }
    }
    return b;
}

template <int D> static void mx_many(const whim_attn_paged_args &a)
{
    enum { STAGE = 4 * MX_PAGE * D, KEYS = 2 * MX_PAGE * D, PAIRS = WHIM_CUDA_MX_PAIRS };
    DYNAMIC_SHARED(128, memory);
    uint32_t ring = (uint32_t)__cvta_generic_to_shared(memory);
    int n_kv = (int)a.kv.n_kv, group = (int)a.n_head / n_kv, n_row = (int)a.n_row;
    int per = PAIRS / group, n_block = (n_row + per - 1) / per, d = (int)a.kv.d_head;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int head = blockIdx.x % n_kv, first = (n_block - 1 - (int)blockIdx.x / n_kv) * per;
    int last = first + per < n_row ? first + per : n_row;
    for (int row = first; row < last;) {
        mx_block b = mx_block_of(a, row, last);
        uint32_t q[D / 16][4];
        mx_range range[2];
        mx_state segment = {{-INFINITY, -INFINITY}, {}}, total = segment;
        float o[D / 8][4] = {}, all[D / 8][4] = {};
        int64_t at[2]; /* where this thread's pairs lie in q and out; -1: not b's */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int pair = warp * MX_ROWS + lane / 4 + i * 8, r = first + pair / group;
            bool is_there = pair < per * group && r >= b.row && r < b.end;
            attn_range keys = attn_range_of(a, is_there ? r : b.row);
            at[i] = is_there ? ((int64_t)r * a.n_head + head * group + pair % group) * d : -1;
            range[i] = mx_range{(int)keys.lo, is_there ? (int)keys.hi : 0};
        }
        mx_load_q<D>(q, a, at);
        int page = b.lo / MX_PAGE, end = (b.hi + MX_PAGE - 1) / MX_PAGE;
        auto fetch = [&](int i) {
            if (i < end) {
                uint32_t to = ring + i % 2 * STAGE;
                mx_fetch_keys(to, a.kv, b.pages[i], head);
                mx_fetch_values<D>(to + KEYS, a.kv, b.pages[i], head);
            }
            copies_commit();
        };
        __syncthreads();
        fetch(page);
        for (; page < end; page++) {
            fetch(page + 1);
            copies_wait<1>();
            __syncthreads();
            uint32_t stage = ring + page % 2 * STAGE;
            uint32_t p[8][2];
            float s[8][4] = {}, m[2], sum[2][2];
            mx_scores<D, 8>(s, q, stage, 0, d);
            mx_mask<8>(s, range, page * MX_PAGE, m);
            mx_grow<D / 8>(&segment, o, m);
            mx_weights<8>(p, s, segment.m, sum);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                segment.l[i] = segment.l[i] + sum[0][i] + sum[1][i];
            }
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint32_t keys[4] = {p[2 * k][0], p[2 * k][1], p[2 * k + 1][0], p[2 * k + 1][1]};
                mx_values<D, D / 8>(o, keys, stage + KEYS, k * 16, 0, d);
            }
            if ((page + 1) % MX_SEGMENT_PAGES == 0 || page + 1 == end) {
                mx_add<D / 8>(&total, all, &segment, o);
            }
            __syncthreads(); /* the stage is free */
        }
        copies_wait<0>();
        mx_store<D / 8>(a.out, total, all, 0, d, at);
        row = b.end;
    }
}

/* --- few rows --------------------------------------------------------------------------------- */

enum { MX_BATCH = 2 }; /* pages at once */

template <int D> struct mx_few_space {
    char keys[MX_BATCH][2 * MX_PAGE * D], values[MX_BATCH][2 * MX_PAGE * D];
    char weights[MX_ROWS * MX_BATCH * MX_PAGE * 2];
    float m[4][MX_ROWS], l[4][MX_ROWS]; /* of 32 keys each */
    int ids[MX_SEGMENT_PAGES];
};

/* One row of one head of keys: `walk` goes through some of its pages. */
template <int D> struct mx_few {
    enum { PARTS = D / 32, ROW_BYTES = MX_BATCH * MX_PAGE * 2 }; /* columns of a warp, by 8 */
    const whim_attn_paged_args &a;
    mx_few_space<D> *space;
    attn_range row;
    int head, group;
    uint32_t q[D / 16][4];
    mx_state state;
    float o[PARTS][4];

    static uint32_t place(const void *p)
    {
        return (uint32_t)__cvta_generic_to_shared(p);
    }

    /* The places of pages page .. end - 1 of one segment. Where the cache holds those of all blocks
     * they are all asked for at once: no batch waits for the memory behind it. */
    void list(int page, int end)
    {
        int i = threadIdx.x / 2;
        if (i < end - page) {
            int id = row.pages[page + i];
            kv_page at = page_of(a.kv, id);
            int bytes = (int)a.kv.d_head * MX_PAGE * 2;
            if (a.n_row <= WHIM_CUDA_FEW) {
                ask_ahead((threadIdx.x % 2 == 0 ? at.keys : at.values) + (int64_t)head * bytes,
                          bytes);
            }
            space->ids[(page + i) % MX_SEGMENT_PAGES] = id;
        }
        __syncthreads();
    }

    void fetch(bool keys, int page, int end) const
    {
#pragma unroll 1
        for (int i = 0; i < MX_BATCH && page + i < end; i++) {
            int id = space->ids[(page + i) % MX_SEGMENT_PAGES];
            if (keys) {
                mx_fetch_keys(place(space->keys[i]), a.kv, id, head);
            } else {
                mx_fetch_values<D>(place(space->values[i]), a.kv, id, head);
            }
        }
        copies_commit();
    }

    /* Weights of a batch's keys, 32 for each warp, to shared memory. */
    void weigh(int page)
    {
        int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        uint32_t p[4][2];
        float s[4][4] = {}, m[2], sum[1][2];
        mx_range range[2] = {{(int)row.lo, (int)row.hi}, {(int)row.lo, (int)row.hi}};
        mx_scores<D, 4>(s, q, place(space->keys[warp / 2]), warp % 2 * 4, (int)a.kv.d_head);
        mx_mask<4>(s, range, page * MX_PAGE + warp * 32, m);
        for (int i = 0; i < 2; i++) {
            if (lane % 4 == 0) {
                space->m[warp][lane / 4 + i * 8] = m[i];
            }
        }
        __syncthreads();
        for (int i = 0; i < 2; i++) {
            int r = lane / 4 + i * 8;
            m[i] = fmaxf(fmaxf(space->m[0][r], space->m[1][r]),
                         fmaxf(space->m[2][r], space->m[3][r]));
        }
        mx_grow<PARTS>(&state, o, m);
        mx_weights<4>(p, s, state.m, sum);
        for (int i = 0; i < 2; i++) {
            int r = lane / 4 + i * 8;
            if (lane % 4 == 0) {
                space->l[warp][r] = sum[0][i];
            }
#pragma unroll
            for (int n = 0; n < 4; n++) {
                *(uint32_t *)(space->weights + attn_chunk(r, warp * 4 + n, ROW_BYTES) +
                              lane % 4 * 4) = p[n][i];
            }
        }
    }

    /* And their values, some columns for each warp. */
    void add(int n_page)
    {
        int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        for (int i = 0; i < 2; i++) {
            int r = lane / 4 + i * 8;
            for (int w = 0; w < 2 * n_page; w++) {
                state.l[i] += space->l[w][r];
            }
        }
#pragma unroll
        for (int k = 0; k < MX_BATCH * MX_PAGE / 16; k++) {
            if (k >= n_page * (MX_PAGE / 16)) {
                break;
            }
            uint32_t p[4];
            load_parts4(p, place(space->weights) +
                               attn_chunk(lane % 16, k * 2 + lane / 16, ROW_BYTES));
            mx_values<D, PARTS>(o, p, place(space->values[k / 4]), k % 4 * 16, warp * PARTS,
                                (int)a.kv.d_head);
        }
    }

    /* Pages page .. end - 1 of one segment. */
    void walk(int page, int end)
    {
        list(page, end);
        fetch(true, page, end);
        fetch(false, page, end);
        for (; page < end; page += MX_BATCH) {
            int here = end - page < MX_BATCH ? end - page : MX_BATCH;
            copies_wait<1>();
            __syncthreads();
            weigh(page);
            __syncthreads(); /* the keys are done with, and the weights there */
            fetch(true, page + MX_BATCH, end);
            copies_wait<1>();
            __syncthreads();
            add(here);
            __syncthreads();
            fetch(false, page + MX_BATCH, end);
        }
        copies_wait<0>();
        __syncthreads();
    }
};

/* Segments of a row, each [2 + d_head] floats in memory, in order, columns col .. col + width - 1:
 * four of a pair's outputs for each thread, four segments at a time, so that loads do not wait for
 * each other. */
static void mx_few_merge(const whim_cuda_attn_args &a, int64_t item, const attn_range &row, int col,
                         int width)
{
    enum { BATCH = 4 };
    int d = (int)a.op.kv.d_head, group = (int)(a.op.n_head / a.op.kv.n_kv);
    int first = (int)row.lo / WHIM_KV_SEGMENT, last = ((int)row.hi - 1) / WHIM_KV_SEGMENT;
    for (int i = threadIdx.x * 4; i < group * width; i += blockDim.x * 4) {
        int pair = i / width, at = col + i % width;
        float m = -INFINITY, l = 0.0f, o[4] = {};
        for (int s = first; s <= last; s += BATCH) {
            float2 head[BATCH], low[BATCH], high[BATCH];
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                const float *part = attn_part(a, item * group + pair, s + b < last ? s + b : last);
                head[b] = __ldcg((const float2 *)part);
                low[b] = __ldcg((const float2 *)(part + 2 + at));
                high[b] = __ldcg((const float2 *)(part + 4 + at));
            }
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                if (s + b > last) {
                    break;
                }
                float own = head[b].x, most = fmaxf(m, own);
                float keep = mx_power(m - most), take = mx_power(own - most);
                l = l * keep + head[b].y * take;
                o[0] = o[0] * keep + low[b].x * take;
                o[1] = o[1] * keep + low[b].y * take;
                o[2] = o[2] * keep + high[b].x * take;
                o[3] = o[3] * keep + high[b].y * take;
                m = most;
            }
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float y = l != 0.0f ? o[j] / l : 0.0f;
            a.op.out[(item * group + pair) * d + at + j] = y;
            if (a.left.tiles != NULL) {
                int n_kv = (int)a.op.kv.n_kv, to = ((int)item % n_kv * group + pair) * d + at + j;
                a.left.tiles[whim_cuda_tiles_at(a.left.rows, a.op.n_head * d, (int)item / n_kv,
                                                to)] = whim_f32_to_bf16(y);
            }
        }
    }
}

/* The outputs of a thread as tiles, where they are wanted. */
template <int PARTS>
static void mx_few_tiles(const whim_cuda_attn_args &a, const float (*o)[4], int item, int first)
{
    int lane = threadIdx.x % WARP, d = (int)a.op.kv.d_head, n_kv = (int)a.op.kv.n_kv;
    int group = (int)a.op.n_head / n_kv;
#pragma unroll
    for (int i = 0; i < 2 && a.left.tiles != NULL; i++) {
        int pair = lane / 4 + i * 8;
#pragma unroll
        for (int n = 0; n < PARTS; n++) {
            int col = first + n * 8 + lane % 4 * 2;
            if (pair < group && col < d) {
                int at = (item % n_kv * group + pair) * d + col;
                uint16_t *to = a.left.tiles + whim_cuda_tiles_at(a.left.rows, a.op.n_head * d,
                                                                 item / n_kv, at);
                *(uint32_t *)to = pack_bf16(o[n][i * 2], o[n][i * 2 + 1]);
            }
        }
    }
}

/* blockIdx.x is the row and head of keys; blocks of blockIdx.y take segments in turns where there
 * are several, and memory for each. */
template <int D> static void mx_few_rows(const whim_cuda_attn_args &a)
{
    enum { PARTS = D / 32 };
    DYNAMIC_SHARED(128, memory);
    int n_kv = (int)a.op.kv.n_kv, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t item = blockIdx.x;
    mx_few<D> f = {a.op, (mx_few_space<D> *)memory, attn_range_of(a.op, item / n_kv),
                   (int)(item % n_kv), (int)a.op.n_head / n_kv};
    int first = (int)f.row.lo / WHIM_KV_SEGMENT, last = ((int)f.row.hi - 1) / WHIM_KV_SEGMENT;
    bool alone = gridDim.y == 1 || f.row.lo >= f.row.hi || first == last || last >= a.n_segment;
    if (alone && blockIdx.y > 0) {
        return;
    }
    int d = (int)a.op.kv.d_head, group = f.group;
    int64_t at[2] = {lane / 4 < group ? (item * group + lane / 4) * d : -1,
                     lane / 4 + 8 < group ? (item * group + lane / 4 + 8) * d : -1};
    mx_state total = {{-INFINITY, -INFINITY}, {}};
    float all[PARTS][4] = {};
    mx_load_q<D>(f.q, a.op, at);
    f.state = total;
    for (int n = 0; n < PARTS * 4; n++) {
        f.o[n / 4][n % 4] = 0.0f;
    }
    for (int s = alone ? first : first + (int)blockIdx.y; s * WHIM_KV_SEGMENT < f.row.hi;
         s += alone ? 1 : (int)gridDim.y) {
        int page = s * MX_SEGMENT_PAGES, end = page + MX_SEGMENT_PAGES;
        int from = (int)f.row.lo / MX_PAGE, to = ((int)f.row.hi + MX_PAGE - 1) / MX_PAGE;
        f.walk(page > from ? page : from, end < to ? end : to);
        if (alone) {
            mx_add<PARTS>(&total, all, &f.state, f.o);
            continue;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int pair = lane / 4 + i * 8;
            float *part = attn_part(a, item * group + pair, s);
            for (int n = 0; n < PARTS && pair < group; n++) {
                int col = warp * PARTS * 8 + n * 8 + lane % 4 * 2;
                if (col < d) {
                    part[2 + col] = f.o[n][i * 2];
                    part[3 + col] = f.o[n][i * 2 + 1];
                }
                f.o[n][i * 2] = f.o[n][i * 2 + 1] = 0.0f;
            }
            if (pair < group && warp == 0 && lane % 4 == 0) {
                part[0] = f.state.m[i];
                part[1] = f.state.l[i];
            }
            f.state.m[i] = -INFINITY;
            f.state.l[i] = 0.0f;
        }
    }
    if (alone) {
        mx_store<PARTS>(a.op.out, total, all, warp * PARTS * 8, d, at);
        mx_few_tiles<PARTS>(a, all, (int)item, warp * PARTS * 8);
    } else if (attn_is_last(a, item)) {
        mx_few_merge(a, item, f.row, 0, d);
    }
}

#define ATTN_MMA(D)                                                      \
    KERNEL_BOUNDED(128, 2) k_attn_mma_##D(ARGS(whim_attn_paged_args))    \
    {                                                                    \
        BEGIN                                                            \
        mx_many<D>(a);                                                   \
    }                                                                    \
    KERNEL_BOUNDED(128, 2) k_attn_mma_few_##D(ARGS(whim_cuda_attn_args)) \
    {                                                                    \
        BEGIN                                                            \
        mx_few_rows<D>(a);                                               \
    }
ATTN_MMA(64)
ATTN_MMA(128)

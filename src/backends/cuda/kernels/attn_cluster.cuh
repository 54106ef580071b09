/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a few rows on the matrix unit (attn_mma.cuh has its order, attn_rows.cuh more rows): a
 * cluster of four blocks has a segment of one row and a head of keys, because so little is read that
 * waiting is all that counts. Each block brings a quarter of the keys, each warp has the scores of 32,
 * and their weights go to all four blocks. Then each block adds up a quarter of the columns of values
 * over all keys. All that a block reads is asked for at once. */
#pragma once
#include "attn_rows.cuh"

#if __CUDA_ARCH__ >= 900

enum {
    MC_BLOCKS = WHIM_CUDA_MC_BLOCKS,
    MC_WARPS = 4,
    MC_PARTS = WHIM_KV_SEGMENT / 32, /* of 32 keys */
    MC_ROW_BYTES = WHIM_KV_SEGMENT * 2,
    MC_PAGES = MX_SEGMENT_PAGES / MC_BLOCKS, /* whose keys a block has */
};

/* Weights, [16][512], come where the keys were. */
template <int D> struct mc_space {
    enum { COLS = D / MC_BLOCKS, PER = COLS / 8 };
    char keys[MC_PAGES][2 * MX_PAGE * D];
    char values[WHIM_KV_SEGMENT * COLS * 2];
    float m[MC_PARTS][MX_ROWS], l[MC_PARTS][MX_ROWS];
};

/* Vector `chunk` of a key's row in the block's columns of values. */
template <int PER> static uint32_t mc_value_at(int key, int chunk)
{
    return key * PER * 16 + ((chunk ^ (key / (8 / PER) % PER)) << 4);
}

/* Nobody may write into a block that has not begun: each says that it has, and waits for the others
 * where it has waited for the last kernel anyway. */
static void mc_begin()
{
    cluster_arrive();
    BEGIN
    cluster_wait();
}

/* One row of one head of keys. */
template <int D> struct mc_rows {
    typedef mc_space<D> space_type;
    enum { PER = space_type::PER };
    const whim_attn_paged_args &a;
    space_type *space;
    attn_range row;
    int head, group, rank;
    uint32_t q[D / 16][4];
    mx_state state;
    float o[1][4];

    static uint32_t place(const void *p)
    {
        return (uint32_t)__cvta_generic_to_shared(p);
    }

    /* The keys of pages of this block's, and its columns of the values of all pages from .. to - 1;
     * `first` is the segment's first. */
    void fetch(int first, int from, int to) const
    {
        int d = (int)a.kv.d_head, vector = rank * PER + threadIdx.x % PER, lane = threadIdx.x % WARP;
        bool is_there = lane < MX_SEGMENT_PAGES && first + lane >= from && first + lane < to;
        int ids = is_there ? row.pages[first + lane] : 0;
#pragma unroll
        for (int i = 0; i < MC_PAGES; i++) {
            int in_segment = rank * MC_PAGES + i, id = __shfl_sync(ALL_LANES, ids, in_segment);
            if (first + in_segment >= from && first + in_segment < to) {
                mx_fetch_keys(place(space->keys[i]), a.kv, id, head);
            }
        }
        copies_commit();
        for (int page = from; page < to; page++) {
            int id = __shfl_sync(ALL_LANES, ids, page - first);
            const char *values = page_of(a.kv, id).values + (int64_t)head * d * MX_PAGE * 2;
#pragma unroll
            for (int i = 0; i < MX_PAGE * PER / MX_THREADS; i++) {
                int key = threadIdx.x / PER + i * (MX_THREADS / PER);
                uint32_t at = mc_value_at<PER>((page - first) * MX_PAGE + key, threadIdx.x % PER);
                if (vector * 8 < d) {
                    copy_async16_or_zero(place(space->values) + at,
                                         values + (key * d + vector * 8) * 2, true);
                }
            }
        }
        copies_commit();
    }

    /* Weights of 32 keys for each warp, to all blocks. */
    void weigh(int first, int from, int to)
    {
        int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, part = rank * MC_WARPS + warp;
        int page = first + part / 2;
        bool is_there = page >= from && page < to;
        mx_range range[2] = {{(int)row.lo, (int)row.hi}, {(int)row.lo, (int)row.hi}};
        float s[4][4] = {}, m[2] = {-INFINITY, -INFINITY}, sum[1][2];
        uint32_t p[4][2];
        if (is_there) {
            mx_scores<D, 4>(s, q, place(space->keys[warp / 2]), warp % 2 * 4, (int)a.kv.d_head);
            mx_mask<4>(s, range, page * MX_PAGE + warp % 2 * 32, m);
        }
        for (int i = 0; i < 2; i++) {
            float *at = &space->m[part][lane / 4 + i * 8];
            cluster_store(cluster_place(at, lane % 4), whim_f32_bits(m[i]));
        }
        cluster_sync();
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int j = 0; j < MC_PARTS; j++) {
                state.m[i] = fmaxf(state.m[i], space->m[j][lane / 4 + i * 8]);
            }
        }
        if (!is_there) {
            return;
        }
        mx_weights<4>(p, s, state.m, sum);
        for (int i = 0; i < 2; i++) {
            int r = lane / 4 + i * 8;
            float *l = &space->l[part][r];
            cluster_store(cluster_place(l, lane % 4), whim_f32_bits(sum[0][i]));
#pragma unroll
            for (int n = 0; n < 4 && r < group; n++) {
                char *at = space->keys[0] + attn_chunk(r, part * 4 + n, MC_ROW_BYTES) + lane % 4 * 4;
#pragma unroll
                for (int b = 0; b < MC_BLOCKS; b++) {
                    cluster_store(cluster_place(at, b), p[n][i]);
                }
            }
        }
    }

    /* And their values, 8 columns for each warp. */
    void add(int part, int end)
    {
        int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        for (int i = 0; i < 2; i++) {
            for (int j = part; j < end; j++) {
                state.l[i] += space->l[j][lane / 4 + i * 8];
            }
        }
        if (warp >= PER) {
            return;
        }
#pragma unroll 2
        for (; part < end; part++) {
            uint32_t p[2][4], v[4];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                load_parts4(p[k], place(space->keys[0]) +
                                      attn_chunk(lane % 16, part * 4 + k * 2 + lane / 16,
                                                 MC_ROW_BYTES));
            }
            load_turned4(v, place(space->values) + mc_value_at<PER>(part * 32 + lane, warp));
            mma_bf16(o[0], p[0], v[0], v[1]);
            mma_bf16(o[0], p[1], v[2], v[3]);
        }
    }

    /* A segment's sums. */
    void segment(int s)
    {
        int first = s * MX_SEGMENT_PAGES, end = first + MX_SEGMENT_PAGES;
        int from = (int)row.lo / MX_PAGE, to = ((int)row.hi + MX_PAGE - 1) / MX_PAGE;
        from = from > first ? from : first;
        to = to < end ? to : end;
        state = mx_state{{-INFINITY, -INFINITY}, {}};
        o[0][0] = o[0][1] = o[0][2] = o[0][3] = 0.0f;
        fetch(first, from, to);
        copies_wait<1>();
        __syncthreads();
        weigh(first, from, to);
        copies_wait<0>();
        cluster_sync();
        add((from - first) * 2, (to - first) * 2);
        __syncthreads();
    }
};

/* blockIdx.x / 4 is the row and head of keys; clusters of blockIdx.y take segments in turns where
 * there are several, and memory for each. */
template <int D> static void mc_run(const whim_cuda_attn_args &a)
{
    enum { COLS = mc_space<D>::COLS, PER = mc_space<D>::PER };
    DYNAMIC_SHARED(128, memory);
    int n_kv = (int)a.op.kv.n_kv, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t item = blockIdx.x / MC_BLOCKS;
    mc_rows<D> f = {a.op, (mc_space<D> *)memory, attn_range_of(a.op, item / n_kv),
                    (int)(item % n_kv), (int)a.op.n_head / n_kv, (int)blockIdx.x % MC_BLOCKS};
    int first = (int)f.row.lo / WHIM_KV_SEGMENT, last = ((int)f.row.hi - 1) / WHIM_KV_SEGMENT;
    bool alone = gridDim.y == 1 || f.row.lo >= f.row.hi || first == last || last >= a.n_segment;
    if (alone && blockIdx.y > 0) {
        return;
    }
    int d = (int)a.op.kv.d_head, group = f.group, col = f.rank * COLS + warp * 8 + lane % 4 * 2;
    int64_t at[2] = {lane / 4 < group ? (item * group + lane / 4) * d : -1,
                     lane / 4 + 8 < group ? (item * group + lane / 4 + 8) * d : -1};
    mx_state total = {{-INFINITY, -INFINITY}, {}};
    float all[1][4] = {};
    mx_load_q<D>(f.q, a.op, at);
    for (int s = alone ? first : first + (int)blockIdx.y; s * WHIM_KV_SEGMENT < f.row.hi;
         s += alone ? 1 : (int)gridDim.y) {
        f.segment(s);
        if (alone) {
            mx_add<1>(&total, all, &f.state, f.o);
            continue;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int pair = lane / 4 + i * 8;
            float *part = attn_part(a, item * group + pair, s);
            if (pair < group && warp < PER && col < d) {
                *(float2 *)(part + 2 + col) = make_float2(f.o[0][i * 2], f.o[0][i * 2 + 1]);
            }
            if (pair < group && warp == 0 && lane % 4 == 0) { /* the same by all blocks */
                part[0] = f.state.m[i];
                part[1] = f.state.l[i];
            }
        }
    }
    if (!alone) {
        if (attn_is_last(a, item * MC_BLOCKS + f.rank)) {
            int width = d - f.rank * COLS < COLS ? d - f.rank * COLS : COLS;
            mx_few_merge(a, item, f.row, f.rank * COLS, width);
        }
    } else if (warp < PER) {
        mx_store<1>(a.op.out, total, all, f.rank * COLS + warp * 8, d, at);
        mx_few_tiles<1>(a, all, (int)item, f.rank * COLS + warp * 8);
    }
}

#define ATTN_CLUSTER(D)                                                                  \
    KERNEL_IN_CLUSTERS(MC_BLOCKS, 128, 2, k_attn_cluster_##D)(ARGS(whim_cuda_attn_args)) \
    {                                                                                    \
        mc_begin();                                                                      \
        mc_run<D>(a);                                                                    \
    }
#else
/* Never started. */
#define ATTN_CLUSTER(D)                                   \
    KERNEL k_attn_cluster_##D(ARGS(whim_cuda_attn_args))  \
    {                                                     \
    }
#endif
ATTN_CLUSTER(64)
ATTN_CLUSTER(128)

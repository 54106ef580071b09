/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of many rows on the unit of mma_wide.cuh: the order of attn_mma.cuh, and its bits. A block
 * stays alone on its multiprocessor and has 128 pairs of row and head, 64 for either of two groups of
 * four warps, which walk the pages each at its own pace: one multiplies while the other makes weights.
 * Four warps more bring pages, once for both. Pairs and weights are the unit's operand in registers;
 * keys and values lie in shared memory as pages have them, rows of 128 bytes with their vectors turned
 * about as the unit expects it. Sums of the segments before lie there, too. */
#pragma once
#include "attn_rows.cuh"
#include "mma_bulk.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

enum {
    MW_STAGES = WHIM_CUDA_MW_STAGES,
    MW_ADDERS = 2 * MX_THREADS,
    MW_LATE = 2,             /* pages on their way when a third is told to be there */
    MW_COLUMNS = 64,         /* of a row of 128 bytes */
    MW_PART = MX_PAGE * 128, /* bytes of so many columns of a page's values */
};

/* Lines of 64 columns from `at` on; those of 64 more columns are MW_PART behind. */
static uint64_t mw_operand(uint32_t at)
{
    return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)(MW_PART >> 4) << 16 |
           (uint64_t)(8 * 128 >> 4) << 32 | (uint64_t)1 << 62;
}

/* Until the unit has added all; then the sums may be touched. */
template <int N> static void mw_wait(float (&c)[N][4])
{
    wide_commit();
    wide_until<0>();
    wide_added((float(&)[N * 4])c);
}

/* mx_block_of by the lanes of a warp. */
static mx_block mw_block_of(const whim_attn_paged_args &a, int row, int end)
{
    int64_t seq = row_sequence(a.q_start, a.n_seq, row);
    mx_block b = {row, end, INT32_MAX, 0, NULL};
    if (seq < 0) {
        return b;
    }
    b.end = a.q_start[seq + 1] < end ? a.q_start[seq + 1] : end;
    b.pages = a.pages + a.page_start[seq];
    for (int r = row + (int)threadIdx.x % WARP; r < b.end; r += WARP) {
        attn_range range = attn_range_of(a, r);
        if (range.lo < range.hi) {
            b.lo = range.lo < b.lo ? (int)range.lo : b.lo;
            b.hi = range.hi > b.hi ? (int)range.hi : b.hi;
        }
    }
    b.lo = __reduce_min_sync(ALL_LANES, b.lo);
    b.hi = __reduce_max_sync(ALL_LANES, b.hi);
    return b;
}

/* What a block has: some rows, and a ring of pages. */
template <int D> struct mw_block {
    enum { KEYS = 2 * MX_PAGE * D, STAGE = 2 * KEYS };
    const whim_attn_paged_args &a;
    int head, group, first, last; /* rows first .. last - 1 */
    uint32_t ring, full, empty;   /* barriers of 8 bytes for each stage */
    float4 *sums;                 /* [D / 8][MW_ADDERS] */
    int at, parity;

    mw_block(const whim_attn_paged_args &args) : a(args)
    {
        DYNAMIC_SHARED(128, memory);
        uint32_t here = (uint32_t)__cvta_generic_to_shared(memory);
        int n_kv = (int)a.kv.n_kv, n_row = (int)a.n_row;
        group = (int)a.n_head / n_kv;
        int per = WHIM_CUDA_MW_PAIRS / group, n_block = (n_row + per - 1) / per;
        head = blockIdx.x % n_kv;
        first = (n_block - 1 - (int)blockIdx.x / n_kv) * per;
        last = first + per < n_row ? first + per : n_row;
        ring = (here + 1023) / 1024 * 1024;
        full = ring + MW_STAGES * STAGE;
        empty = full + MW_STAGES * 8;
        sums = (float4 *)(memory + (ring - here) + MW_STAGES * (STAGE + 16));
        at = parity = 0;
    }

    void next()
    {
        parity ^= at + 1 == MW_STAGES;
        at = at + 1 == MW_STAGES ? 0 : at + 1;
    }
};

static int mw_end(const mx_block &b)
{
    return (b.hi + MX_PAGE - 1) / MX_PAGE;
}

/* Values as parts of MW_COLUMNS columns. */
template <int D>
static void mw_fetch_values(uint32_t to, const whim_kv_view &kv, int page, int head)
{
    enum { PER_ROW = D / 8, ROWS = MX_THREADS / PER_ROW };
    int t = threadIdx.x % MX_THREADS, row = t / PER_ROW, chunk = t % PER_ROW;
    const char *from = page_of(kv, page).values + (int64_t)head * D * MX_PAGE * 2 + t * 16;
    to += chunk / 8 * MW_PART;
#pragma unroll
    for (int i = 0; i < MX_PAGE / ROWS; i++) {
        copy_async16_or_zero(to + attn_chunk(row + i * ROWS, chunk % 8, 128), from + i * MX_STEP,
                             true);
    }
}

template <int D> static void mw_bring(mw_block<D> b)
{
    int told = 0, n_late = 0; /* the stage to be told of next, and how many are not */
    auto tell = [&] {
        wide_may_read();
        bulk_arrive_here(b.full + told * 8);
        told = told + 1 == MW_STAGES ? 0 : told + 1;
        n_late--;
    };
    for (int row = b.first; row < b.last;) {
        mx_block rows = mw_block_of(b.a, row, b.last);
        for (int page = rows.lo / MX_PAGE; page < mw_end(rows); page++, b.next()) {
            uint32_t stage = b.ring + b.at * mw_block<D>::STAGE;
            int id = rows.pages[page];
            bulk_wait(b.empty + b.at * 8, b.parity ^ 1);
            mx_fetch_keys(stage, b.a.kv, id, b.head);
            mw_fetch_values<D>(stage + mw_block<D>::KEYS, b.a.kv, id, b.head);
            copies_commit();
            if (++n_late > MW_LATE) {
                copies_wait<MW_LATE>();
                tell();
            }
        }
        row = rows.end;
    }
    copies_wait<0>();
    while (n_late > 0) {
        tell();
    }
}

/* mx_add, where the total lies in shared memory. */
template <int N>
static void mw_add_segment(mx_state *total, float4 *sums, bool is_first, mx_state *segment,
                           float (&o)[N][4])
{
    float keep[2], take[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float most = fmaxf(total->m[i], segment->m[i]);
        keep[i] = mx_power(total->m[i] - most);
        take[i] = mx_power(segment->m[i] - most);
        total->l[i] = total->l[i] * keep[i] + segment->l[i] * take[i];
        total->m[i] = most;
        segment->m[i] = -INFINITY;
        segment->l[i] = 0.0f;
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        float4 v = is_first ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : sums[n * MW_ADDERS];
        sums[n * MW_ADDERS] =
            make_float4(v.x * keep[0] + o[n][0] * take[0], v.y * keep[0] + o[n][1] * take[0],
                        v.z * keep[1] + o[n][2] * take[1], v.w * keep[1] + o[n][3] * take[1]);
        o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0.0f;
    }
}

/* Scores of a page, their weights, and the values' sums with those. */
template <int D>
static void mw_page(const mw_block<D> &b, const uint32_t (*q)[4], const mx_range *range, int page,
                    mx_state *segment, float (&o)[D / 8][4])
{
    uint32_t stage = b.ring + b.at * mw_block<D>::STAGE, p[8][2];
    uint64_t keys = mw_operand(stage), values = mw_operand(stage + mw_block<D>::KEYS);
    float s[8][4] = {}, m[2], sum[2][2];
    bulk_wait(b.full + b.at * 8, b.parity);
    wide_begin();
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        wide_mma_turned((float(&)[32])s, q[k], keys + k * (16 * 128 >> 4));
    }
    mw_wait(s);
    mx_mask<8>(s, range, page * MX_PAGE, m);
    mx_grow<D / 8>(segment, o, m);
    mx_weights<8>(p, s, segment->m, sum);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        segment->l[i] = segment->l[i] + sum[0][i] + sum[1][i];
    }
    wide_begin();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t weights[4] = {p[2 * k][0], p[2 * k][1], p[2 * k + 1][0], p[2 * k + 1][1]};
        wide_mma_turned((float(&)[D / 2])o, weights, values + k * (16 * 128 >> 4));
    }
    mw_wait(o);
}

template <int D> static void mw_walk(mw_block<D> b)
{
    const whim_attn_paged_args &a = b.a;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int per = WHIM_CUDA_MW_PAIRS / b.group;
    float4 *sums = b.sums + threadIdx.x;
    for (int row = b.first; row < b.last;) {
        mx_block rows = mw_block_of(a, row, b.last);
        uint32_t q[D / 16][4];
        mx_range range[2];
        mx_state segment = {{-INFINITY, -INFINITY}, {}}, total = segment;
        float o[D / 8][4] = {};
        bool is_first = true;
        int64_t at[2]; /* where this thread's pairs lie in q and out; -1: not of these rows */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int pair = warp * MX_ROWS + lane / 4 + i * 8, r = b.first + pair / b.group;
            bool is_there = pair < per * b.group && r >= rows.row && r < rows.end;
            attn_range keys = attn_range_of(a, is_there ? r : rows.row);
            at[i] = is_there ? ((int64_t)r * a.n_head + b.head * b.group + pair % b.group) * D : -1;
            range[i] = mx_range{(int)keys.lo, is_there ? (int)keys.hi : 0};
        }
        mx_load_q<D>(q, a, at);
        int end = mw_end(rows);
        for (int page = rows.lo / MX_PAGE; page < end; page++, b.next()) {
            mw_page<D>(b, q, range, page, &segment, o);
            if (lane == 0) {
                bulk_arrive_here(b.empty + b.at * 8);
            }
            if ((page + 1) % MX_SEGMENT_PAGES == 0 || page + 1 == end) {
                mw_add_segment(&total, sums, is_first, &segment, o);
                is_first = false;
            }
        }
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            float4 v = is_first ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : sums[n * MW_ADDERS];
            o[n][0] = v.x, o[n][1] = v.y, o[n][2] = v.z, o[n][3] = v.w;
        }
        mx_store<D / 8>(a.out, total, o, 0, D, at);
        row = rows.end;
    }
}

template <int D> static void mw_run(const whim_attn_paged_args &a)
{
    mw_block<D> b(a);
    let_next_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < MW_STAGES; i++) {
            bulk_barrier_init(b.full + i * 8, MX_THREADS);
            bulk_barrier_init(b.empty + i * 8, MW_ADDERS / WARP);
        }
        bulk_barriers_made();
    }
    wait_for_last();
    __syncthreads();
    if (threadIdx.x >= MW_ADDERS) {
        registers_leave<40>();
        mw_bring(b);
    } else {
        registers_take<232>();
        mw_walk(b);
    }
}

#define ATTN_WIDE(D)                                                                    \
    KERNEL_BOUNDED(WHIM_CUDA_MW_THREADS, 1) k_attn_wide_##D(ARGS(whim_attn_paged_args)) \
    {                                                                                   \
        mw_run<D>(a);                                                                   \
    }
#else
/* Never started. */
#define ATTN_WIDE(D)                                   \
    KERNEL k_attn_wide_##D(ARGS(whim_attn_paged_args)) \
    {                                                  \
    }
#endif
ATTN_WIDE(64)
ATTN_WIDE(128)

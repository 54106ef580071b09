/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of few rows, where the latency of memory is all that counts. A block has one row and
 * head and some segments of its keys; values come through a ring in shared memory, from before the
 * scores are known. Where blocks share the segments of a row, each leaves its sums in memory, and
 * the block that ends last merges them in order. */
#pragma once
#include "attn.cuh"

enum {
    ATTN_THREADS = 512,
    ATTN_STAGES = 4,
    ATTN_STAGE_BYTES = WHIM_CUDA_ATTN_RING / ATTN_STAGES,
    ATTN_PER_THREAD = WHIM_CUDA_MAX_HEAD / ATTN_THREADS,
    ATTN_BATCH = 64, /* elements of a key under way */
};

struct attn_few_row : attn_range {
    int64_t head; /* of keys and values */
};

template <whim_kv_type T>
static float attn_few_score(const whim_kv_view &kv, const attn_few_row &row, const float *q,
                            int64_t key)
{
    kv_page page = page_of(kv, row.pages[key / kv.page_len]);
    int64_t place = key % kv.page_len, at = key_at(kv, row.head, place, 0), i = 0;
    float acc = 0.0f;
    for (; i + ATTN_BATCH <= kv.d_head; i += ATTN_BATCH) {
        float k[ATTN_BATCH];
#pragma unroll
        for (int j = 0; j < ATTN_BATCH; j++) {
            k[j] = kv_get<T>(page.keys, at + (i + j) * kv.page_len);
        }
#pragma unroll
        for (int j = 0; j < ATTN_BATCH; j++) {
            acc = whim_fmaf(q[i + j], k[j], acc);
        }
    }
#pragma unroll 8
    for (; i < kv.d_head; i++) {
        acc = whim_fmaf(q[i], kv_get<T>(page.keys, at + i * kv.page_len), acc);
    }
    return T == WHIM_KV_Q8 ? acc * page.scales[row.head * kv.page_len + place] : acc;
}

/* Keys whose values are a stage: a power of two, at most a page. */
static int64_t attn_stage_keys(const whim_kv_view &kv)
{
    int64_t n = kv.page_len;
    while (n > 1 && n * kv.d_head * elem_bytes(kv.type) > ATTN_STAGE_BYTES) {
        n /= 2;
    }
    return n;
}

static void attn_fetch(char *stage, const whim_kv_view &kv, const attn_few_row &row, int64_t key,
                       int64_t n)
{
    kv_page page = page_of(kv, row.pages[key / kv.page_len]);
    int64_t elem = elem_bytes(kv.type), bytes = n * kv.d_head * elem;
    const char *from = page.values + value_at(kv, row.head, key % kv.page_len, 0) * elem;
    uintptr_t odd = (uintptr_t)from | (uintptr_t)bytes;
    if (odd % 16 == 0) {
        EACH_THREAD(i, bytes / 16)
        {
            copy_async16(stage + i * 16, from + i * 16);
        }
    } else if (odd % 4 == 0) {
        EACH_THREAD(i, bytes / 4)
        {
            copy_async4(stage + i * 4, from + i * 4);
        }
    } else {
        EACH_THREAD(i, bytes)
        {
            stage[i] = from[i];
        }
    }
}

/* Weights of n keys from their scores in s->p: their largest score. */
template <whim_kv_type T>
static float attn_few_weights(const whim_kv_view &kv, const attn_few_row &row, attn_space *s,
                              int64_t first, int64_t n)
{
    float largest = -INFINITY;
    EACH_THREAD(j, n)
    {
        s->p[j] = attn_few_score<T>(kv, row, s->q, first + j);
        largest = s->p[j] > largest ? s->p[j] : largest;
    }
    uint32_t order = (uint32_t)block_max(whim_rank_order(largest));
    float max = whim_f32_from_bits((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
    EACH_THREAD(j, n)
    {
        float e = whim_expf(s->p[j] - max), weight = round_like_kv<T>(e);
        if (T == WHIM_KV_Q8) {
            int64_t key = first + j;
            kv_page page = page_of(kv, row.pages[key / kv.page_len]);
            weight *= page.scales[(kv.n_kv + row.head) * kv.page_len + key % kv.page_len];
        }
        s->exps[j] = e;
        s->p[j] = weight;
    }
    __syncthreads();
    return max;
}

struct attn_term {
    float p, v;
};

/* Keys first .. first + n - 1 of one segment: the sums over values in acc, of elements
 * threadIdx.x + i * ATTN_THREADS. */
template <whim_kv_type T>
static void attn_few_segment(const whim_kv_view &kv, const attn_few_row &row, attn_space *s,
                             char *ring, int64_t first, int64_t n, float *acc, float *max,
                             float *sum)
{
    int64_t keys = attn_stage_keys(kv), ahead = first / keys * keys, end = first + n;
    for (int i = 0; i < ATTN_STAGES - 1; i++, ahead += keys) {
        if (ahead < end) {
            attn_fetch(ring + i * ATTN_STAGE_BYTES, kv, row, ahead, keys);
        }
        copies_commit();
    }
    *max = attn_few_weights<T>(kv, row, s, first, n);
    *sum = attn_sum(s, first, n);
#pragma unroll
    for (int i = 0; i < ATTN_PER_THREAD; i++) {
        acc[i] = 0.0f;
    }
    int at = 0;
    for (int64_t chunk = first / keys * keys; chunk < end; chunk += keys) {
        copies_wait<ATTN_STAGES - 2>();
        __syncthreads();
        if (ahead < end) {
            attn_fetch(ring + (at + ATTN_STAGES - 1) % ATTN_STAGES * ATTN_STAGE_BYTES, kv, row,
                       ahead, keys);
            ahead += keys;
        }
        copies_commit();
        int64_t from = first > chunk ? first : chunk, to = chunk + keys < end ? chunk + keys : end;
        const char *stage = ring + at * ATTN_STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < ATTN_PER_THREAD; i++) {
            int64_t d = threadIdx.x + i * ATTN_THREADS;
            if (d < kv.d_head) {
                const float *p = s->p + (chunk - first);
                int d_head = (int)kv.d_head;
                acc[i] = chain<16>(
                    acc[i], (int)(from - chunk), (int)(to - chunk), 1,
                    [=](int key) { return attn_term{p[key], kv_get<T>(stage, key * d_head + d)}; },
                    [](float sum, attn_term t) { return whim_fmaf(t.p, t.v, sum); });
            }
        }
        at = (at + 1) % ATTN_STAGES;
    }
    __syncthreads();
}

/* A segment's sums in memory: max, sum, then [d_head]. */
static float *attn_part(const whim_cuda_attn_args &a, int64_t item, int64_t segment)
{
    return a.parts + (item * a.n_segment + segment) * (a.op.kv.d_head + 2);
}

/* What segments have given so far. */
struct attn_total {
    float max, sum;
    bool started;
};

/* How a segment's sums are added to those before it: out = out * keep + o * take. */
struct attn_share {
    float keep, take;
    bool started;
};

static attn_share attn_total_add(attn_total *t, float max, float sum)
{
    float most = t->started && t->max > max ? t->max : max;
    attn_share share = {t->started ? whim_expf(t->max - most) : 0.0f,
                        t->started ? whim_expf(max - most) : 1.0f, t->started};
    t->sum = t->started ? whim_fmaf(t->sum, share.keep, sum * share.take) : sum;
    t->max = most;
    t->started = true;
    return share;
}

static float attn_shared(const attn_share &share, float out, float o)
{
    return share.started ? whim_fmaf(out, share.keep, o * share.take) : o;
}

/* All segments of a row and head, in order. */
static void attn_few_merge(const whim_cuda_attn_args &a, int64_t item, const attn_few_row &row)
{
    int64_t d = a.op.kv.d_head;
    EACH_THREAD(i, d)
    {
        attn_total total = {};
        float out = 0.0f;
        for (int64_t s = row.lo / WHIM_KV_SEGMENT; s * WHIM_KV_SEGMENT < row.hi; s++) {
            const float *part = attn_part(a, item, s);
            attn_share share = attn_total_add(&total, __ldcg(part), __ldcg(part + 1));
            out = attn_shared(share, out, __ldcg(part + 2 + i));
        }
        a.op.out[item * d + i] = out / total.sum;
    }
}

/* Whether this block is the last of those of an item. */
static bool attn_is_last(const whim_cuda_attn_args &a, int64_t item)
{
    SHARED_FLAG(is_last);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(&a.ended[item], 1) == (int)gridDim.y - 1;
        if (is_last) {
            a.ended[item] = 0; /* for the next launch */
        }
        __threadfence();
    }
    __syncthreads();
    return is_last;
}

/* One block has all segments of a row. */
template <whim_kv_type T>
static void attn_few_alone(const whim_cuda_attn_args &a, int64_t item, const attn_few_row &row,
                           attn_space *s, char *ring)
{
    int64_t d = a.op.kv.d_head;
    attn_total total = {};
    float out[ATTN_PER_THREAD] = {};
    for (int64_t first = row.lo, end; first < row.hi; first = end) {
        float acc[ATTN_PER_THREAD], max, sum;
        end = (first / WHIM_KV_SEGMENT + 1) * WHIM_KV_SEGMENT;
        end = end < row.hi ? end : row.hi;
        attn_few_segment<T>(a.op.kv, row, s, ring, first, end - first, acc, &max, &sum);
        attn_share share = attn_total_add(&total, max, sum);
#pragma unroll
        for (int i = 0; i < ATTN_PER_THREAD; i++) {
            out[i] = attn_shared(share, out[i], acc[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < ATTN_PER_THREAD; i++) {
        int64_t at = threadIdx.x + i * ATTN_THREADS;
        if (at < d) {
            a.op.out[item * d + at] = total.started ? out[i] / total.sum : 0.0f;
        }
    }
}

/* Blocks take the segments of a row in turns. */
template <whim_kv_type T>
static void attn_few_shared(const whim_cuda_attn_args &a, int64_t item, const attn_few_row &row,
                            attn_space *s, char *ring)
{
    int64_t segment = row.lo / WHIM_KV_SEGMENT + blockIdx.y;
    for (; segment * WHIM_KV_SEGMENT < row.hi; segment += gridDim.y) {
        int64_t first = segment * WHIM_KV_SEGMENT, end = first + WHIM_KV_SEGMENT;
        float acc[ATTN_PER_THREAD], max, sum, *part = attn_part(a, item, segment);
        first = first > row.lo ? first : row.lo;
        end = end < row.hi ? end : row.hi;
        attn_few_segment<T>(a.op.kv, row, s, ring, first, end - first, acc, &max, &sum);
#pragma unroll
        for (int i = 0; i < ATTN_PER_THREAD; i++) {
            int64_t at = threadIdx.x + i * ATTN_THREADS;
            if (at < a.op.kv.d_head) {
                part[2 + at] = acc[i];
            }
        }
        if (threadIdx.x == 0) {
            part[0] = max;
            part[1] = sum;
        }
    }
    if (attn_is_last(a, item)) {
        attn_few_merge(a, item, row);
    }
}

/* blockIdx.x is the row and head. Blocks of blockIdx.y beyond the first help where there are
 * several segments, and memory for the sums of each. */
template <whim_kv_type T> static void attn_few(const whim_cuda_attn_args &a)
{
    DYNAMIC_SHARED(16, ring);
    __shared__ attn_space s;
    int64_t item = blockIdx.x, d = a.op.kv.d_head;
    attn_few_row row = {attn_range_of(a.op, item / a.op.n_head),
                        item % a.op.n_head / (a.op.n_head / a.op.kv.n_kv)};
    int64_t last = row.hi > row.lo ? (row.hi - 1) / WHIM_KV_SEGMENT : 0;
    bool alone = gridDim.y == 1 || row.lo >= row.hi || last == row.lo / WHIM_KV_SEGMENT ||
                 last >= a.n_segment;
    if (alone && blockIdx.y > 0) {
        return;
    }
    EACH_THREAD(i, d)
    {
        s.q[i] = round_like_kv<T>(a.op.q[item * d + i] * a.op.scale);
    }
    __syncthreads();
    if (alone) {
        attn_few_alone<T>(a, item, row, &s, ring);
    } else {
        attn_few_shared<T>(a, item, row, &s, ring);
    }
}

#define ATTN_FEW(name, T)                                                        \
    KERNEL_BOUNDED(ATTN_THREADS, 1) k_attn_few_##name(ARGS(whim_cuda_attn_args)) \
    {                                                                            \
        BEGIN                                                                    \
        attn_few<T>(a);                                                          \
    }
ATTN_FEW(f32, WHIM_KV_F32)
ATTN_FEW(bf16, WHIM_KV_BF16)
ATTN_FEW(f16, WHIM_KV_F16)
ATTN_FEW(q8, WHIM_KV_Q8)

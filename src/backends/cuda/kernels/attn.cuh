/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of keys and values, and attention over them (launch_args.h has their form). */
#pragma once
#include "common.cuh"

static int64_t elem_bytes(whim_kv_type type)
{
    return type == WHIM_KV_F32 ? 4 : type == WHIM_KV_Q8 ? 1 : 2;
}

/* One layer's part of one page. */
struct kv_page {
    char *keys, *values;
    float *scales; /* of keys, then of values */
};

static kv_page page_of(const whim_kv_view &kv, int64_t page)
{
    kv_page p;
    int64_t half = kv.n_kv * kv.page_len * kv.d_head * elem_bytes(kv.type);
    p.keys = (char *)kv.pages + page * kv.page_stride + kv.layer_offset;
    p.values = p.keys + half;
    p.scales = (float *)(p.values + half);
    return p;
}

static int64_t key_at(const whim_kv_view &kv, int64_t head, int64_t place, int64_t i)
{
    return (head * kv.d_head + i) * kv.page_len + place;
}

static int64_t value_at(const whim_kv_view &kv, int64_t head, int64_t place, int64_t i)
{
    return (head * kv.page_len + place) * kv.d_head + i;
}

/* An element as stored: for Q8 the integer. */
template <whim_kv_type T> static float kv_get(const char *part, int64_t at)
{
    switch (T) {
    case WHIM_KV_F32:
        return ((const float *)part)[at];
    case WHIM_KV_BF16:
        return whim_bf16_to_f32(((const uint16_t *)part)[at]);
    case WHIM_KV_F16:
        return half_to_float(((const uint16_t *)part)[at]);
    default:
        return (float)((const int8_t *)part)[at];
    }
}

static float kv_get_any(whim_kv_type type, const char *part, int64_t at)
{
    switch (type) {
    case WHIM_KV_F32:
        return kv_get<WHIM_KV_F32>(part, at);
    case WHIM_KV_BF16:
        return kv_get<WHIM_KV_BF16>(part, at);
    case WHIM_KV_F16:
        return kv_get<WHIM_KV_F16>(part, at);
    default:
        return kv_get<WHIM_KV_Q8>(part, at);
    }
}

/* inv: of Q8, one over the scale. */
static void kv_put(whim_kv_type type, char *part, int64_t at, float x, float inv)
{
    switch (type) {
    case WHIM_KV_F32:
        ((float *)part)[at] = whim_f32_sat(x);
        break;
    case WHIM_KV_BF16:
        ((uint16_t *)part)[at] = whim_f32_to_bf16_sat(x);
        break;
    case WHIM_KV_F16:
        ((uint16_t *)part)[at] = whim_f32_to_f16_sat(x);
        break;
    default:
        ((int8_t *)part)[at] = (int8_t)whim_f32_bits(whim_kv_q8_limit(x) * inv + 0x1.8p23f);
    }
}

/* whim_kv_q8_scale by a warp. */
static float warp_q8_scale(const float *x, int64_t n)
{
    uint32_t top = 0;
    for (int64_t i = threadIdx.x % WARP; i < n; i += WARP) {
        uint32_t mag = whim_f32_bits(whim_kv_q8_limit(x[i])) & 0x7fffffffu;
        top = mag > top ? mag : top;
    }
    float s = whim_f32_from_bits(__reduce_max_sync(ALL_LANES, top)) / 127.0f;
    return s >= 0x1p-126f ? s : 0.0f;
}

/* A vector of keys or values to its place, by all threads of a block. */
static void kv_store_vector(const whim_kv_view &kv, int64_t slot, int64_t head, bool is_key,
                            const float *x, float inv)
{
    int own = (int)slot / kv.page_len, place = (int)slot - own * kv.page_len;
    kv_page page = page_of(kv, own);
    EACH_THREAD(i, kv.d_head)
    {
        int64_t at = is_key ? key_at(kv, head, place, i) : value_at(kv, head, place, i);
        kv_put(kv.type, is_key ? page.keys : page.values, at, x[i], inv);
    }
}

/* A warp for each vector of keys or values; blocks of one warp. */
KERNEL k_kv_write(ARGS(whim_kv_write_args))
{
    BEGIN
    int64_t per_row = 2 * a.kv.n_kv, d = a.kv.d_head;
    EACH_ITEM(item, a.n_row * per_row)
    {
        int64_t r = item / per_row, head = item % per_row / 2;
        bool is_key = item % 2 == 0;
        int64_t slot = a.slots[r];
        if (slot < 0) {
            continue;
        }
        const float *x = (is_key ? a.k : a.v) + (r * a.kv.n_kv + head) * d;
        float inv = 0.0f;
        if (a.kv.type == WHIM_KV_Q8) {
            kv_page page = page_of(a.kv, slot / a.kv.page_len);
            int64_t place = slot % a.kv.page_len;
            float s = warp_q8_scale(x, d);
            inv = s > 0.0f ? 1.0f / s : 0.0f;
            page.scales[((is_key ? 0 : a.kv.n_kv) + head) * a.kv.page_len + place] = s;
        }
        kv_store_vector(a.kv, slot, head, is_key, x, inv);
    }
}

KERNEL k_kv_read(ARGS(whim_kv_read_args))
{
    BEGIN
    int64_t per_row = 2 * a.kv.n_kv, d = a.kv.d_head;
    EACH_ITEM(item, a.n_row * per_row)
    {
        int64_t r = item / per_row, head = item % per_row / 2;
        bool is_key = item % 2 == 0;
        int64_t slot = a.slots[r], place = slot < 0 ? 0 : slot % a.kv.page_len;
        kv_page page = page_of(a.kv, slot < 0 ? 0 : slot / a.kv.page_len);
        float *x = (is_key ? a.k : a.v) + (r * a.kv.n_kv + head) * d;
        EACH_THREAD(i, d)
        {
            float y = 0.0f;
            if (slot >= 0) {
                int64_t at = is_key ? key_at(a.kv, head, place, i) : value_at(a.kv, head, place, i);
                y = kv_get_any(a.kv.type, is_key ? page.keys : page.values, at);
                if (a.kv.type == WHIM_KV_Q8) {
                    y *= page.scales[((is_key ? 0 : a.kv.n_kv) + head) * a.kv.page_len + place];
                }
            }
            x[i] = y;
        }
    }
}

/* blockIdx.y is the piece of a page. */
template <class Word> static void pages_zero(const whim_page_zero_args &a)
{
    EACH_ITEM(item, a.n_id)
    {
        if (a.ids[item] >= 0) {
            Word *page = (Word *)((char *)a.pages + a.ids[item] * a.page_bytes);
            for (int64_t i = blockIdx.y * (int64_t)blockDim.x + threadIdx.x;
                 i < a.page_bytes / (int64_t)sizeof(Word); i += gridDim.y * (int64_t)blockDim.x) {
                page[i] = Word();
            }
        }
    }
}

KERNEL k_page_zero(ARGS(whim_page_zero_args))
{
    BEGIN
    if (((uintptr_t)a.pages | (uintptr_t)a.page_bytes) % sizeof(uint4) == 0) {
        pages_zero<uint4>(a);
    } else {
        pages_zero<char>(a);
    }
}

/* --- attention -------------------------------------------------------------------------------- */

/* What a block of threads holds of one row and head. */
struct attn_space {
    float q[WHIM_CUDA_MAX_HEAD]; /* scaled, and rounded as the KV type is */
    float p[WHIM_KV_SEGMENT];    /* weights, as the sum over values takes them */
    float exps[WHIM_KV_SEGMENT]; /* the same before they are rounded */
    float sum;
};

template <whim_kv_type T> static float round_like_kv(float x)
{
    return T == WHIM_KV_BF16 ? whim_bf16_to_f32(whim_f32_to_bf16(x)) : x;
}

struct attn_item {
    const int32_t *pages;
    float *out;
    int64_t head;
    float max, sum;
    bool started;
};

template <whim_kv_type T>
static float attn_score(const whim_kv_view &kv, const attn_item &it, const float *q, int64_t key)
{
    kv_page page = page_of(kv, it.pages[key / kv.page_len]);
    int64_t place = key % kv.page_len;
    int64_t at = key_at(kv, it.head, place, 0);
    float acc = 0.0f;
#pragma unroll 8
    for (int64_t i = 0; i < kv.d_head; i++, at += kv.page_len) {
        acc = whim_fmaf(q[i], kv_get<T>(page.keys, at), acc);
    }
    return T == WHIM_KV_Q8 ? acc * page.scales[it.head * kv.page_len + place] : acc;
}

template <whim_kv_type T>
static float attn_values(const whim_kv_view &kv, const attn_item &it, const float *p,
                         int64_t first, int64_t n, int64_t i)
{
    float acc = 0.0f;
    for (int64_t j = 0; j < n;) {
        kv_page page = page_of(kv, it.pages[(first + j) / kv.page_len]);
        int64_t place = (first + j) % kv.page_len;
        int64_t here = n - j < kv.page_len - place ? n - j : kv.page_len - place;
        int64_t at = value_at(kv, it.head, place, i);
#pragma unroll 8
        for (int64_t m = 0; m < here; m++, at += kv.d_head) {
            acc = whim_fmaf(p[j + m], kv_get<T>(page.values, at), acc);
        }
        j += here;
    }
    return acc;
}

/* The sum of the weights, key j in lane j mod 16 counted from position 0. */
static float attn_sum(attn_space *s, int64_t first, int64_t n)
{
    if (threadIdx.x < WARP) {
        float lane = 0.0f;
        if (threadIdx.x < WHIM_LANES) {
            int64_t skew = (threadIdx.x - first) & (WHIM_LANES - 1);
            lane = chain<16>(
                lane, (int)skew, (int)n, WHIM_LANES, [=](int j) { return s->exps[j]; },
                [](float acc, float x) { return acc + x; });
        }
        lane = fold16(lane);
        if (threadIdx.x == 0) {
            s->sum = lane;
        }
    }
    __syncthreads();
    return s->sum;
}

/* Keys first .. first + n - 1, all in one segment. */
template <whim_kv_type T>
static void attn_segment(const whim_kv_view &kv, attn_item *it, attn_space *s, int64_t first,
                         int64_t n)
{
    float largest = -INFINITY;
    EACH_THREAD(j, n)
    {
        s->p[j] = attn_score<T>(kv, *it, s->q, first + j);
        largest = s->p[j] > largest ? s->p[j] : largest;
    }
    uint32_t order = (uint32_t)block_max(whim_rank_order(largest));
    float max = whim_f32_from_bits((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
    EACH_THREAD(j, n)
    {
        float e = whim_expf(s->p[j] - max), weight = round_like_kv<T>(e);
        if (T == WHIM_KV_Q8) {
            int64_t key = first + j;
            kv_page page = page_of(kv, it->pages[key / kv.page_len]);
            weight *= page.scales[(kv.n_kv + it->head) * kv.page_len + key % kv.page_len];
        }
        s->exps[j] = e;
        s->p[j] = weight;
    }
    __syncthreads();
    float sum = attn_sum(s, first, n);
    float new_max = it->started && it->max > max ? it->max : max;
    float keep = it->started ? whim_expf(it->max - new_max) : 0.0f;
    float take = it->started ? whim_expf(max - new_max) : 1.0f;
    EACH_THREAD(i, kv.d_head)
    {
        float o = attn_values<T>(kv, *it, s->p, first, n, i);
        it->out[i] = it->started ? whim_fmaf(it->out[i], keep, o * take) : o;
    }
    it->sum = it->started ? whim_fmaf(it->sum, keep, sum * take) : sum;
    it->max = new_max;
    it->started = true;
    __syncthreads();
}

/* The keys that a row sees, lo .. hi - 1, and the list of their pages. */
struct attn_range {
    int64_t lo, hi;
    const int32_t *pages;
};

static attn_range attn_range_of(const whim_attn_paged_args &a, int64_t r)
{
    int64_t seq = row_sequence(a.q_start, a.n_seq, r);
    attn_range range = {};
    if (seq >= 0) {
        int64_t after = (int64_t)a.positions[r] + 1, last = a.causal ? after : after - 1 + a.window;
        int64_t len = a.kv_len[seq];
        range.pages = a.pages + a.page_start[seq];
        range.hi = (a.causal || a.window > 0) && last < len ? last : len;
        range.lo = a.window > 0 && after - a.window > a.first ? after - a.window : a.first;
    }
    return range;
}

template <whim_kv_type T> static void attn_rows(const whim_attn_paged_args &a)
{
    __shared__ attn_space s;
    int64_t d = a.kv.d_head;
    EACH_ITEM(item, a.n_row * a.n_head)
    {
        int64_t r = item / a.n_head, h = item % a.n_head;
        attn_range range = attn_range_of(a, r);
        attn_item it = {};
        it.out = a.out + item * d;
        it.head = h / (a.n_head / a.kv.n_kv);
        it.pages = range.pages;
        __syncthreads();
        EACH_THREAD(i, d)
        {
            s.q[i] = round_like_kv<T>(a.q[item * d + i] * a.scale);
        }
        __syncthreads();
        for (int64_t first = range.lo; first < range.hi;) {
            int64_t end = (first / WHIM_KV_SEGMENT + 1) * WHIM_KV_SEGMENT;
            end = end < range.hi ? end : range.hi;
            attn_segment<T>(a.kv, &it, &s, first, end - first);
            first = end;
        }
        EACH_THREAD(i, d)
        {
            it.out[i] = it.started ? it.out[i] / it.sum : 0.0f;
        }
    }
}

KERNEL k_attn_f32(ARGS(whim_attn_paged_args))
{
    BEGIN
    attn_rows<WHIM_KV_F32>(a);
}

KERNEL k_attn_bf16(ARGS(whim_attn_paged_args))
{
    BEGIN
    attn_rows<WHIM_KV_BF16>(a);
}

KERNEL k_attn_f16(ARGS(whim_attn_paged_args))
{
    BEGIN
    attn_rows<WHIM_KV_F16>(a);
}

KERNEL k_attn_q8(ARGS(whim_attn_paged_args))
{
    BEGIN
    attn_rows<WHIM_KV_Q8>(a);
}

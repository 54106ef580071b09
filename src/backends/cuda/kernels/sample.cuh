/* SPDX-License-Identifier: Apache-2.0 */
/* The largest of rows, and the choice of tokens (ops/ref/sample_ref.c has the steps). A block has a
 * row. What has one order in the law, the sums of weights, is done by one thread; the rest by all. */
#pragma once
#include "common.cuh"

/* The largest key of a row below `last`, 0: none. */
static uint64_t next_best(const float *x, int64_t n, uint64_t last)
{
    uint64_t best = 0;
    EACH_THREAD(i, n)
    {
        uint64_t key = whim_rank_key(x[i], i);
        best = key < last && key > best ? key : best;
    }
    return block_max(best);
}

KERNEL k_topk(ARGS(whim_topk_args))
{
    BEGIN
    EACH_ITEM(r, a.n_row)
    {
        const float *x = a.x + r * a.x_stride;
        uint64_t key = UINT64_MAX;
        for (int64_t j = 0; j < a.k_top; j++) {
            key = next_best(x, a.n_col, key);
            if (threadIdx.x == 0) {
                a.values[r * a.k_top + j] = key != 0 ? x[whim_rank_id(key)] : -INFINITY;
                a.ids[r * a.k_top + j] = key != 0 ? whim_rank_id(key) : -1;
            }
        }
    }
}

/* --- sample ----------------------------------------------------------------------------------- */

/* A row's share of the workspace. */
struct slot {
    int32_t n_vocab, n_cand;
    uint64_t *keys;
    float *logits, *weights; /* weights: by place among the candidates, or by rank */
    int32_t *cands, *counts;
    uint8_t *seen;
};

static slot slot_of(const whim_cuda_sample_args &a, int64_t number)
{
    int64_t n = a.op.n_col;
    slot s = {};
    s.n_vocab = (int32_t)n;
    s.keys = (uint64_t *)((char *)a.space + number * whim_sample_slot_bytes(n));
    s.logits = (float *)(s.keys + n);
    s.weights = s.logits + n;
    s.cands = (int32_t *)(s.weights + n);
    s.counts = s.cands + n;
    s.seen = (uint8_t *)(s.counts + n);
    return s;
}

/* What one thread found, for all. */
static int32_t from_first(int32_t value)
{
    __shared__ int32_t shared;
    __syncthreads();
    if (threadIdx.x == 0) {
        shared = value;
    }
    __syncthreads();
    return shared;
}

/* The first i with test(i), n: none. */
template <class Test> static int32_t first_of(int32_t n, Test test)
{
    uint64_t best = 0;
    EACH_THREAD(i, n)
    {
        if (test((int32_t)i)) {
            best = UINT64_MAX - (uint64_t)i;
            break;
        }
    }
    best = block_max(best);
    return best != 0 ? (int32_t)(UINT64_MAX - best) : n;
}

/* As the law's argmax: the first that is not below the largest; a NaN or +inf counts as that. */
static int32_t argmax(const float *x, int32_t n)
{
    uint64_t key = next_best(x, n, UINT64_MAX);
    return key != 0 ? whim_rank_id(key) : n;
}

static bool is_broken(whim_sample_told *told, int32_t id, float value)
{
    if (value > -INFINITY && value < INFINITY) {
        return false;
    }
    bool empty = value == -INFINITY;
    told->state = empty ? WHIM_SAMPLE_EMPTY : WHIM_SAMPLE_BROKEN;
    told->odd_id = empty ? 0 : id;
    told->odd_value = empty ? 0.0f : value;
    return true;
}

static bool has_penalty(const whim_sample_want &p)
{
    return p.repetition_penalty != 1.0f || p.presence_penalty != 0.0f ||
           p.frequency_penalty != 0.0f;
}

static bool in_vocab(const slot &s, int32_t id)
{
    return id >= 0 && id < s.n_vocab;
}

static void repetition_apply(const slot &s, float penalty, const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t id = ids[i];
        if (in_vocab(s, id) && !s.seen[id]) {
            s.seen[id] = 1;
            s.logits[id] = s.logits[id] > 0 ? s.logits[id] / penalty : s.logits[id] * penalty;
        }
    }
}

static void seen_clear(const slot &s, const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (in_vocab(s, ids[i])) {
            s.seen[ids[i]] = 0;
            s.counts[ids[i]] = 0;
        }
    }
}

/* One thread: ids may repeat. */
static void penalties_apply(const slot &s, const whim_sample_want &p, const int32_t *lists)
{
    const int32_t *prompt = lists + p.prompt.at, *output = lists + p.output.at;
    seen_clear(s, prompt, p.prompt.n);
    seen_clear(s, output, p.output.n);
    if (p.repetition_penalty != 1.0f) {
        repetition_apply(s, p.repetition_penalty, prompt, p.prompt.n);
        repetition_apply(s, p.repetition_penalty, output, p.output.n);
    }
    for (int32_t i = 0; i < p.output.n; i++) {
        if (in_vocab(s, output[i])) {
            s.counts[output[i]]++;
        }
    }
    for (int32_t i = 0; i < p.output.n; i++) {
        int32_t id = output[i];
        if (in_vocab(s, id) && s.counts[id] > 0) {
            s.logits[id] -= p.presence_penalty + p.frequency_penalty * (float)s.counts[id];
            s.counts[id] = 0;
        }
    }
}

static void bias_apply(const slot &s, const int32_t *pairs, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (in_vocab(s, pairs[2 * i])) {
            s.logits[pairs[2 * i]] += __int_as_float(pairs[2 * i + 1]);
        }
    }
}

static const float *adjust(const slot &s, const whim_sample_want &p, const int32_t *lists,
                           const float *logits)
{
    if (p.bias.n == 0 && !has_penalty(p) && p.mask.at < 0) {
        return logits;
    }
    EACH_THREAD(i, s.n_vocab)
    {
        s.logits[i] = logits[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        bias_apply(s, lists + p.bias.at, p.bias.n);
        if (has_penalty(p)) {
            penalties_apply(s, p, lists);
        }
    }
    __syncthreads();
    if (p.mask.at >= 0) {
        const int32_t *words = lists + p.mask.at;
        EACH_THREAD(i, s.n_vocab)
        {
            bool in = i >> 5 < p.mask.n && ((uint32_t)words[i >> 5] >> (i & 31) & 1) != 0;
            s.logits[i] = in ? s.logits[i] : -INFINITY;
        }
    }
    __syncthreads();
    return s.logits;
}

static float weight_of(float logit, float largest, float temperature)
{
    float x = (logit - largest) / temperature;
    return x < -28.0f ? 0.0f : whim_expf(x);
}

/* How many threads before this one, and of the whole block, have `is_in`. */
static int32_t count_before(bool is_in, int32_t *all)
{
    __shared__ int32_t each[WARP];
    uint32_t votes = __ballot_sync(ALL_LANES, is_in);
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    __syncthreads();
    if (lane == 0) {
        each[warp] = __popc(votes);
    }
    __syncthreads();
    int32_t before = __popc(votes & ((1u << lane) - 1));
    *all = 0;
    for (int i = 0; i < (int)(blockDim.x / WARP); i++) {
        before += i < warp ? each[i] : 0;
        *all += each[i];
    }
    return before;
}

/* The tokens that can have weight, in the order of ids, and their weights. */
static void candidates_find(slot *s, const float *logits, float largest, float temperature)
{
    float bound = largest + 1.01f * -28.0f * temperature;
    int32_t n = 0;
    for (int64_t at = 0; at < s->n_vocab; at += blockDim.x) {
        int64_t i = at + threadIdx.x;
        bool is_in = i < s->n_vocab && logits[i] >= bound;
        int32_t all, before = count_before(is_in, &all);
        if (is_in) {
            s->cands[n + before] = (int32_t)i;
            s->weights[n + before] = weight_of(logits[i], largest, temperature);
        }
        n += all;
    }
    s->n_cand = n;
    __syncthreads();
}

/* One thread, as the next ones. */
static int32_t draw_by_id(const slot &s, float least, double u)
{
    double total = 0, sum = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < s.n_cand; i++) {
        float weight = s.weights[i];
        total += weight >= least ? (double)weight : 0;
    }
    for (int32_t i = 0; i < s.n_cand; i++) {
        float weight = s.weights[i];
        if (weight < least || weight == 0) {
            continue;
        }
        sum += (double)weight;
        last = s.cands[i];
        if (sum > u * total) {
            break;
        }
    }
    return last;
}

/* What the tokens of ranked keys weigh. */
struct ranked {
    const float *logits; /* by id, or NULL: */
    const float *values; /* by rank */
    float largest, temperature;
};

static float weight_at(const slot &s, const ranked &by, int32_t rank)
{
    float x = by.logits != NULL ? by.logits[whim_rank_id(s.keys[rank])] : by.values[rank];
    return weight_of(x, by.largest, by.temperature);
}

static int32_t nucleus(const slot &s, const ranked &by, int32_t n, int32_t n_ranked, float top_p,
                       double total)
{
    double sum = 0, goal = (double)top_p * total;
    for (int32_t i = 0; i < n; i++) {
        if (i == n_ranked) {
            int32_t more = n - n_ranked < 3 * n_ranked ? n - n_ranked : 3 * n_ranked;
            whim_rank_top(s.keys + n_ranked, s.n_cand - n_ranked, more);
            n_ranked += more;
        }
        sum += (double)weight_at(s, by, i);
        if (sum >= goal) {
            return i + 1;
        }
    }
    return n;
}

static double ranked_sum(const slot &s, const ranked &by, int32_t begin, int32_t end)
{
    double sum = 0;
    for (int32_t i = begin; i < end; i++) {
        sum += (double)weight_at(s, by, i);
    }
    return sum;
}

/* How many of the best n XTC takes out. */
static int32_t n_obvious(const slot &s, const ranked &by, int32_t n, float threshold)
{
    int32_t n_over = 0;
    double least = (double)threshold * ranked_sum(s, by, 0, n);
    while (n_over < n && (double)weight_at(s, by, n_over) >= least) {
        n_over++;
    }
    return n_over > 1 ? n_over - 1 : 0;
}

static int32_t draw_by_rank(const slot &s, const ranked &by, int32_t begin, int32_t n, double u)
{
    double total = ranked_sum(s, by, begin, n), sum = 0;
    int32_t last = whim_rank_id(s.keys[begin]);
    for (int32_t i = begin; i < n; i++) {
        double weight = (double)weight_at(s, by, i);
        if (weight == 0) {
            break;
        }
        sum += weight;
        last = whim_rank_id(s.keys[i]);
        if (sum > u * total) {
            break;
        }
    }
    return last;
}

static int32_t draw_ranked(const slot &s, const whim_sample_want &p, const ranked &by, int32_t n,
                           int32_t n_ranked, double u)
{
    if (p.top_p < 1.0f) {
        bool all = p.top_k == 0 || p.top_k >= s.n_vocab;
        double total = 0;
        for (int32_t i = 0; i < n; i++) {
            total += (double)(all ? s.weights[i] : weight_at(s, by, i));
        }
        n = nucleus(s, by, n, n_ranked, p.top_p, total);
    }
    int32_t kept = 1;
    while (kept < n && weight_at(s, by, kept) >= p.min_p) {
        kept++;
    }
    int32_t begin = p.xtc_threshold > 0 ? n_obvious(s, by, kept, p.xtc_threshold) : 0;
    return draw_by_rank(s, by, begin, kept, u);
}

static double draw_point(const whim_sample_want &p)
{
    uint64_t key = whim_rng_key(p.seed, (uint64_t)p.choice);
    return whim_rng_uniform53_at(key, (uint64_t)p.position);
}

static int32_t draw_filtered(const slot &s, const whim_sample_want &p, const ranked &by)
{
    enum { FIRST = 256 };
    int32_t n = p.top_k > 0 && p.top_k < s.n_cand ? p.top_k : s.n_cand;
    int32_t n_ranked = p.top_k > 0 || p.top_p >= 1.0f || n < FIRST ? n : FIRST;
    EACH_THREAD(i, s.n_cand)
    {
        s.keys[i] = whim_rank_key(by.logits[s.cands[i]], s.cands[i]);
    }
    __syncthreads();
    int32_t id = 0;
    if (threadIdx.x == 0) {
        whim_rank_top(s.keys, s.n_cand, n_ranked);
        id = draw_ranked(s, p, by, n, n_ranked, draw_point(p));
    }
    return from_first(id);
}

/* -1: the mask leaves nothing. */
static int32_t choose(slot *s, const whim_sample_want &p, const int32_t *lists, const float *row)
{
    const float *logits = adjust(*s, p, lists, row);
    int32_t best = argmax(logits, s->n_vocab);
    float largest = logits[best];
    if (largest == -INFINITY) {
        return -1;
    }
    if (p.temperature == 0.0f || p.top_k == 1) {
        return best;
    }
    candidates_find(s, logits, largest, p.temperature);
    if (p.top_k == 0 && p.top_p >= 1.0f && p.xtc_threshold == 0.0f) {
        return from_first(threadIdx.x == 0 ? draw_by_id(*s, p.min_p, draw_point(p)) : 0);
    }
    ranked by = {logits, NULL, largest, p.temperature};
    return draw_filtered(*s, p, by);
}

static int32_t choose_best(const slot &s, const whim_sample_want &p, const float *values,
                           const int32_t *ids)
{
    if (p.temperature == 0.0f || p.top_k == 1) {
        return ids[0];
    }
    int32_t id = 0;
    if (threadIdx.x == 0) {
        ranked by = {NULL, values, values[0], p.temperature};
        for (int32_t i = 0; i < p.top_k; i++) {
            s.keys[i] = whim_rank_key(values[i], ids[i]);
        }
        id = draw_ranked(s, p, by, p.top_k, p.top_k, draw_point(p));
    }
    return from_first(id);
}

/* The law's sum in tiles of 1024: a thread adds one up, one thread the tiles. */
static double log_sum(const slot &s, const float *logits)
{
    enum { SUM_TILE = 1024 };
    int32_t n = s.n_vocab, n_tile = (n + SUM_TILE - 1) / SUM_TILE;
    double *sums = (double *)s.keys;
    float largest = logits[argmax(logits, n)];
    EACH_THREAD(tile, n_tile)
    {
        int32_t at = (int32_t)tile * SUM_TILE, end = n - at < SUM_TILE ? n - at : SUM_TILE;
        double sum = 0;
        for (int32_t i = 0; i < end; i++) {
            sum += (double)whim_expf(logits[at + i] - largest);
        }
        sums[tile] = sum;
    }
    __syncthreads();
    double total = 0;
    for (int32_t i = 0; i < n_tile; i++) {
        total += sums[i];
    }
    __syncthreads();
    return (double)largest + whim_ln(total);
}

static int32_t tell_likeliest(const whim_sample_args &a, int64_t r, const slot &s,
                              const float *logits, double shift)
{
    int32_t k = a.wants[r].n_logprob < s.n_vocab ? a.wants[r].n_logprob : s.n_vocab;
    uint64_t key = UINT64_MAX;
    for (int32_t j = 0; j < k; j++) {
        key = next_best(logits, s.n_vocab, key);
        if (threadIdx.x == 0) {
            int32_t id = whim_rank_id(key);
            a.top_ids[r * WHIM_MAX_LOGPROBS + j] = id;
            a.top_logprobs[r * WHIM_MAX_LOGPROBS + j] = (float)((double)logits[id] - shift);
        }
    }
    return k;
}

static int32_t row_sample(const whim_sample_args &a, int64_t r, slot *s, whim_sample_told *told)
{
    const whim_sample_want &p = a.wants[r];
    const float *logits = a.logits != NULL ? a.logits + r * a.logits_stride : NULL;
    const float *values = a.best_values + r * a.k_best;
    const int32_t *ids = a.best_ids + r * a.k_best;
    bool wants_logprob = p.has_logprob != 0 || p.n_logprob > 0;
    if (p.kind == WHIM_SAMPLE_NOTHING) {
        return -1;
    }
    int32_t odd = logits != NULL ? argmax(logits, s->n_vocab) : 0;
    bool none = logits != NULL && odd == s->n_vocab;
    float most = none ? -INFINITY : logits != NULL ? logits[odd] : values[0];
    if (is_broken(told, logits != NULL ? odd : ids[0], most)) {
        told->logprob = wants_logprob ? NAN : 0.0f;
        return -1;
    }
    int32_t id = p.kind == WHIM_SAMPLE_GIVEN ? p.given
                 : logits != NULL            ? choose(s, p, a.lists, logits)
                                             : choose_best(*s, p, values, ids);
    if (id < 0) {
        told->state = WHIM_SAMPLE_BARRED;
        return -1;
    }
    if (wants_logprob) {
        double shift = log_sum(*s, logits);
        told->n_top = tell_likeliest(a, r, *s, logits, shift);
        told->logprob = (float)((double)logits[id] - shift);
    }
    return id;
}

KERNEL k_sample(ARGS(whim_cuda_sample_args))
{
    BEGIN
    slot s = slot_of(a, blockIdx.x);
    EACH_ITEM(r, a.op.n_row)
    {
        whim_sample_told told = {};
        int32_t token = row_sample(a.op, r, &s, &told);
        if (threadIdx.x == 0) {
            a.op.tokens[r] = token;
            a.op.told[r] = told;
        }
        __syncthreads();
    }
}

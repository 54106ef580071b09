/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a token. Weights are e^((logit - largest) / temperature) in F32, and 0 below e^-28,
 * which is a chance of one in 10^12: most tokens need no second look then. Sums of weights are in
 * double, in one order: of ids where every token may be drawn, of rank where filters have cut.
 * Ranks come from 64-bit keys (logit, then id) that are all different, so that no algorithm of
 * selection can change a result. */
#include "ops/ref/sample_ref.h"

#include "base/math/fmath.h"
#include "base/math/rng.h"
#include "ops/ref/ref.h"
#include "tensor/rank.h"

static const float LEAST_EXPONENT = -28.0f;

/* The largest of x, -inf of nothing; NaN or +inf make it +inf. In lanes, so that a compiler can
 * take them together. */
static float largest_of(const float *x, int32_t n)
{
    enum { LANES = 16 };
    float lane[LANES];
    int32_t i = 0;
    for (int32_t k = 0; k < LANES; k++) {
        lane[k] = -INFINITY;
    }
    for (; i + LANES <= n; i += LANES) {
        for (int32_t k = 0; k < LANES; k++) {
            lane[k] = x[i + k] <= lane[k] ? lane[k] : x[i + k] < INFINITY ? x[i + k] : INFINITY;
        }
    }
    for (; i < n; i++) {
        lane[0] = x[i] <= lane[0] ? lane[0] : x[i] < INFINITY ? x[i] : INFINITY;
    }
    for (int32_t k = 1; k < LANES; k++) {
        lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
    }
    return lane[0];
}

/* What is wrong with a row of which the largest, or the first of those, is known. */
static bool is_broken(whim_sample_told *told, int32_t id, float value)
{
    if (value > -INFINITY && value < INFINITY) {
        return false;
    }
    bool empty = value == -INFINITY;
    *told = (whim_sample_told){.state = empty ? WHIM_SAMPLE_EMPTY : WHIM_SAMPLE_BROKEN,
                               .odd_id = empty ? 0 : id,
                               .odd_value = empty ? 0 : value};
    return true;
}

static bool logits_broken(const float *logits, int32_t n, whim_sample_told *told)
{
    float largest = largest_of(logits, n);
    for (int32_t i = 0; i < n && largest == INFINITY; i++) {
        if (!(logits[i] < INFINITY)) {
            return is_broken(told, i, logits[i]);
        }
    }
    return is_broken(told, 0, largest);
}

/* --- the draw --------------------------------------------------------------------------------- */

/* The lowest id of the largest. */
static int32_t argmax(const float *x, int32_t n)
{
    float largest = largest_of(x, n);
    int32_t best = 0;
    while (x[best] < largest) {
        best++;
    }
    return best;
}

/* No filter by rank: every token of at least `least` weight may come, in the order of ids. */
static int32_t draw_by_id(const whim_sample_slot *s, float least, double u)
{
    double total = 0, sum = 0;
    int32_t last = 0;
    for (int32_t i = 0; i < s->n_cand; i++) {
        float weight = s->weights[s->cands[i]];
        total += weight >= least ? (double)weight : 0;
    }
    for (int32_t i = 0; i < s->n_cand; i++) {
        float weight = s->weights[s->cands[i]];
        if (weight < least || weight == 0) {
            continue;
        }
        sum += (double)weight;
        last = s->cands[i];
        if (sum > u * total) {
            break;
        }
    }
    return last;
}

/* Of the best n, by rank; of all candidates, by id. */
static double total_weight(const whim_sample_slot *s, int32_t n, bool all)
{
    double total = 0;
    for (int32_t i = 0; i < n; i++) {
        total += (double)s->weights[all ? s->cands[i] : whim_rank_id(s->keys[i])];
    }
    return total;
}

/* How many of the best n XTC takes out. */
static int32_t n_obvious(const whim_sample_slot *s, int32_t n, float threshold)
{
    int32_t n_over = 0;
    double least = (double)threshold * total_weight(s, n, false);
    while (n_over < n && (double)s->weights[whim_rank_id(s->keys[n_over])] >= least) {
        n_over++;
    }
    return n_over > 1 ? n_over - 1 : 0;
}

/* The candidates are keys[begin .. n), best first; draw among them. */
static int32_t draw_by_rank(const whim_sample_slot *s, int32_t begin, int32_t n, double u)
{
    double total = 0, sum = 0;
    int32_t last = whim_rank_id(s->keys[begin]);
    for (int32_t i = begin; i < n; i++) {
        total += (double)s->weights[whim_rank_id(s->keys[i])];
    }
    for (int32_t i = begin; i < n; i++) {
        double weight = (double)s->weights[whim_rank_id(s->keys[i])];
        if (weight == 0) {
            break;
        }
        sum += weight;
        last = whim_rank_id(s->keys[i]);
        if (sum > u * total) {
            break;
        }
    }
    return last;
}

/* How many of the best `n` tokens (already ranked: `*n_ranked`, more are ranked when needed) it
 * takes to reach the share `top_p` of `total`. */
static int32_t nucleus(whim_sample_slot *s, int32_t n, int32_t n_ranked, float top_p, double total)
{
    double sum = 0, goal = (double)top_p * total;
    for (int32_t i = 0; i < n; i++) {
        if (i == n_ranked) {
            int32_t more = n - n_ranked < 3 * n_ranked ? n - n_ranked : 3 * n_ranked;
            whim_rank_top(s->keys + n_ranked, s->n_cand - n_ranked, more);
            n_ranked += more;
        }
        sum += (double)s->weights[whim_rank_id(s->keys[i])];
        if (sum >= goal) {
            return i + 1;
        }
    }
    return n;
}

/* keys[0 .. n_ranked) are the best in order; cut the best n by top-p, min-p and XTC, and draw. */
static int32_t draw_ranked(whim_sample_slot *s, const whim_sample_want *p, int32_t n,
                           int32_t n_ranked, double u)
{
    if (p->top_p < 1.0f) {
        bool all = p->top_k == 0 || p->top_k >= s->n_vocab;
        n = nucleus(s, n, n_ranked, p->top_p, total_weight(s, n, all));
    }
    int32_t kept = 1;
    while (kept < n && s->weights[whim_rank_id(s->keys[kept])] >= p->min_p) {
        kept++;
    }
    int32_t begin = p->xtc_threshold > 0 ? n_obvious(s, kept, p->xtc_threshold) : 0;
    return draw_by_rank(s, begin, kept, u);
}

static int32_t draw_filtered(whim_sample_slot *s, const whim_sample_want *p, const float *logits,
                             double u)
{
    enum { FIRST = 256 };
    int32_t n = p->top_k > 0 && p->top_k < s->n_cand ? p->top_k : s->n_cand;
    int32_t n_ranked = p->top_k > 0 || p->top_p >= 1.0f || n < FIRST ? n : FIRST;
    for (int32_t i = 0; i < s->n_cand; i++) {
        s->keys[i] = whim_rank_key(logits[s->cands[i]], s->cands[i]);
    }
    whim_rank_top(s->keys, s->n_cand, n_ranked);
    return draw_ranked(s, p, n, n_ranked, u);
}

/* The place of the draw on the line from 0 to 1. */
static double draw_point(const whim_sample_want *p)
{
    uint64_t key = whim_rng_key(p->seed, (uint64_t)p->choice);
    return whim_rng_uniform53_at(key, (uint64_t)p->position);
}

/* A bias of +-100 cannot overflow; the difference is at most 0 and -inf gives weight 0. */
static float weight_of(float logit, float largest, float temperature)
{
    float x = (logit - largest) / temperature;
    return x < LEAST_EXPONENT ? 0.0f : whim_expf(x);
}

/* Find the tokens that can have weight, and weigh them. The bound is on the safe side of
 * weight_of's. */
static void candidates_find(whim_sample_slot *s, const float *logits, float largest,
                            float temperature)
{
    float bound = largest + 1.01f * LEAST_EXPONENT * temperature;
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_vocab; i++) {
        if (logits[i] >= bound) {
            s->cands[n++] = i;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        s->weights[s->cands[i]] = weight_of(logits[s->cands[i]], largest, temperature);
    }
    s->n_cand = n;
}

/* -1: the mask leaves nothing. */
static int32_t choose(whim_sample_slot *s, const whim_sample_want *p, const int32_t *lists,
                      const float *row)
{
    const float *logits = whim_sample_adjust(s, p, lists, row);
    int32_t best = argmax(logits, s->n_vocab);
    if (logits[best] == -INFINITY) {
        return -1;
    }
    if (p->temperature == 0.0f || p->top_k == 1) {
        return best;
    }
    candidates_find(s, logits, logits[best], p->temperature);
    double u = draw_point(p);
    if (p->top_k == 0 && p->top_p >= 1.0f && p->xtc_threshold == 0.0f) {
        return draw_by_id(s, p->min_p, u);
    }
    return draw_filtered(s, p, logits, u);
}

/* The same from the best alone, of which there are enough. */
static int32_t choose_best(whim_sample_slot *s, const whim_sample_want *p, const float *values,
                           const int32_t *ids)
{
    if (p->temperature == 0.0f || p->top_k == 1) {
        return ids[0];
    }
    for (int32_t i = 0; i < p->top_k; i++) {
        s->keys[i] = whim_rank_key(values[i], ids[i]);
        s->weights[ids[i]] = weight_of(values[i], values[0], p->temperature);
    }
    return draw_ranked(s, p, p->top_k, p->top_k, draw_point(p));
}

/* --- a row ------------------------------------------------------------------------------------ */

static int32_t row_sample(const whim_sample_args *a, int64_t r, whim_sample_slot *s,
                          whim_sample_told *told)
{
    const whim_sample_want *p = &a->wants[r];
    const float *logits = a->logits != NULL ? a->logits + r * a->logits_stride : NULL;
    const float *values = a->best_values + r * a->k_best;
    const int32_t *ids = a->best_ids + r * a->k_best;
    bool wants_logprob = p->has_logprob != 0 || p->n_logprob > 0;
    if (p->kind == WHIM_SAMPLE_NOTHING) {
        return -1;
    }
    /* The first of the best tells all: NaN ranks as +inf, and of those the lowest id comes
     * first. */
    if (logits != NULL ? logits_broken(logits, s->n_vocab, told)
                       : is_broken(told, ids[0], values[0])) {
        told->logprob = wants_logprob ? NAN : 0;
        return -1;
    }
    int32_t id = p->kind == WHIM_SAMPLE_GIVEN ? p->given
                 : logits != NULL             ? choose(s, p, a->lists, logits)
                                              : choose_best(s, p, values, ids);
    if (id < 0) {
        told->state = WHIM_SAMPLE_BARRED;
        return -1;
    }
    if (p->n_logprob > 0) {
        told->n_top = whim_sample_logprobs_top(logits, s->n_vocab, p->n_logprob,
                                               a->top_ids + r * WHIM_MAX_LOGPROBS,
                                               a->top_logprobs + r * WHIM_MAX_LOGPROBS);
    }
    if (wants_logprob) {
        whim_sample_logprobs_at(logits, s->n_vocab, &id, 1, &told->logprob);
    }
    return id;
}

whim_err whim_ref_sample(whim_stream *stream, const whim_sample_args *a)
{
    int64_t n = a->n_col;
    void *space;
    WHIM_TRY(whim_workspace_take(stream, whim_law_workspace(WHIM_OP_sample, a), &space));
    whim_sample_slot s = {.n_vocab = (int32_t)n, .keys = space};
    s.logits = (float *)(s.keys + n);
    s.weights = s.logits + n;
    s.cands = (int32_t *)(s.weights + n);
    s.counts = s.cands + n;
    s.seen = (uint8_t *)(s.counts + n);
    for (int64_t r = 0; r < a->n_row; r++) {
        whim_sample_told told = {0};
        a->tokens[r] = row_sample(a, r, &s, &told);
        a->told[r] = told;
    }
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What `sample` is made of: looking for the largest, changing logits, weights and their sums,
 * drawing by rank. Included once per level by sample_tmpl.h. */
#include "backends/cpu/kernels.h"
#include "base/math/fmath.h"
#include "tensor/rank.h"

enum { SAMPLE_BLOCK = 64 }; /* tokens that are passed over together */

#define SAMPLE_LEAST_EXPONENT (-28.0f) /* what is less likely has no weight */

/* --- one row's part of the workspace ---------------------------------------------------------- */

typedef struct sample_slot {
    int64_t n;
    uint64_t *keys;  /* candidates, the first of them ranked */
    float *weights;  /* of those */
    float *logits;   /* after bias, penalties and mask */
    int32_t *counts; /* of tokens in the output */
} sample_slot;

static inline sample_slot sample_slot_of(const whim_cpu_sample_args *m, int64_t index)
{
    int64_t n = m->op.n_col;
    sample_slot s = {.n = n};
    s.keys = (uint64_t *)((char *)m->space + index * whim_sample_slot_bytes(n));
    s.weights = (float *)(s.keys + n);
    s.logits = s.weights + n;
    s.counts = (int32_t *)(s.logits + n);
    return s;
}

/* --- the largest ------------------------------------------------------------------------------ */

/* The largest number of x, NaN passed over; -inf of nothing. `whole`: there is neither NaN nor
 * +inf. */
static float sample_largest(const float *x, int64_t n, bool *whole)
{
    enum { VECS = 4 };
    vf most[VECS], inf = vf_set1(INFINITY);
    vu odd[VECS];
    float lane[VF], largest = -INFINITY;
    uint32_t odd_lane[VF], any = 0;
    int64_t i = 0;
    for (int v = 0; v < VECS; v++) {
        most[v] = vf_set1(-INFINITY);
        odd[v] = (vu)vf_zero();
    }
    for (; i + VECS * VF <= n; i += VECS * VF) {
        for (int v = 0; v < VECS; v++) {
            vf y = vf_load(x + i + v * VF);
            most[v] = vf_max_over(most[v], y);
            odd[v] |= ~(vu)(y < inf);
        }
    }
    for (int v = 0; v < VECS; v++) {
        vf_store(lane, most[v]);
        memcpy(odd_lane, &odd[v], sizeof odd_lane);
        for (int j = 0; j < VF; j++) {
            largest = lane[j] > largest ? lane[j] : largest;
            any |= odd_lane[j];
        }
    }
    for (; i < n; i++) {
        largest = x[i] > largest ? x[i] : largest;
        any |= !(x[i] < INFINITY);
    }
    *whole = any == 0;
    return largest;
}

/* The first that is not less than `least`; there is one. */
static int64_t sample_first(const float *x, int64_t n, float least)
{
    int64_t i = 0;
    while (n - i > TOPK_BLOCK && !topk_beats(x + i, TOPK_BLOCK, least)) {
        i += TOPK_BLOCK;
    }
    while (x[i] < least) {
        i++;
    }
    return i;
}

/* --- bias, penalties, mask -------------------------------------------------------------------- */

static void sample_bias(float *x, int64_t n, const int32_t *pairs, int64_t n_pair)
{
    for (int64_t i = 0; i < n_pair; i++) {
        float bias;
        memcpy(&bias, &pairs[2 * i + 1], sizeof bias);
        if (pairs[2 * i] >= 0 && pairs[2 * i] < n) {
            x[pairs[2 * i]] += bias;
        }
    }
}

/* Each token once; then its count is -1. */
static void sample_repetition(sample_slot *s, float penalty, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t id = ids[i];
        if (id >= 0 && id < s->n && s->counts[id] == 0) {
            s->counts[id] = -1;
            s->logits[id] = s->logits[id] > 0 ? s->logits[id] / penalty : s->logits[id] * penalty;
        }
    }
}

static void sample_forget(sample_slot *s, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < s->n) {
            s->counts[ids[i]] = 0;
        }
    }
}

static void sample_penalties(sample_slot *s, const whim_sample_want *p, const int32_t *lists)
{
    const int32_t *prompt = lists + p->prompt.at, *output = lists + p->output.at;
    int64_t n_prompt = p->prompt.n, n_output = p->output.n;
    sample_forget(s, prompt, n_prompt);
    sample_forget(s, output, n_output);
    if (p->repetition_penalty != 1.0f) {
        sample_repetition(s, p->repetition_penalty, prompt, n_prompt);
        sample_repetition(s, p->repetition_penalty, output, n_output);
    }
    for (int64_t i = 0; i < n_output; i++) {
        int32_t id = output[i];
        if (id >= 0 && id < s->n) {
            s->counts[id] = s->counts[id] > 0 ? s->counts[id] + 1 : 1;
        }
    }
    for (int64_t i = 0; i < n_output; i++) {
        int32_t id = output[i];
        if (id >= 0 && id < s->n && s->counts[id] > 0) {
            s->logits[id] -= p->presence_penalty + p->frequency_penalty * (float)s->counts[id];
            s->counts[id] = 0;
        }
    }
}

/* Word by word: most words of a mask have all bits or none. */
static void sample_mask(float *x, int64_t n, const int32_t *words, int64_t n_word)
{
    for (int64_t at = 0; at < n; at += 32) {
        uint32_t word = at / 32 < n_word ? (uint32_t)words[at / 32] : 0;
        int64_t end = n - at < 32 ? n - at : 32;
        for (int64_t i = 0; i < end && word != UINT32_MAX; i++) {
            x[at + i] = (word >> i & 1) != 0 ? x[at + i] : -INFINITY;
        }
    }
}

static const float *sample_adjust(const whim_sample_want *p, const int32_t *lists, const float *row,
                                  sample_slot *s)
{
    bool penalty = p->repetition_penalty != 1.0f || p->presence_penalty != 0.0f ||
                   p->frequency_penalty != 0.0f;
    if (p->bias.n == 0 && !penalty && p->mask.at < 0) {
        return row;
    }
    memcpy(s->logits, row, (size_t)s->n * sizeof *row);
    sample_bias(s->logits, s->n, lists + p->bias.at, p->bias.n);
    if (penalty) {
        sample_penalties(s, p, lists);
    }
    if (p->mask.at >= 0) {
        sample_mask(s->logits, s->n, lists + p->mask.at, p->mask.n);
    }
    return s->logits;
}

/* --- weights ---------------------------------------------------------------------------------- */

typedef struct sample_weigh {
    const float *x; /* [n] */
    int64_t n;
    float largest, temperature;
    float bound; /* what is below has no weight: on the safe side of the exponent's */
    float least; /* weights below are left out of a sum */
} sample_weigh;

static inline sample_weigh sample_weigh_of(const float *x, int64_t n, float largest,
                                           float temperature)
{
    return (sample_weigh){.x = x,
                          .n = n,
                          .largest = largest,
                          .temperature = temperature,
                          .bound = largest + 1.01f * SAMPLE_LEAST_EXPONENT * temperature};
}

static inline float sample_weight(const sample_weigh *w, float logit)
{
    float x = (logit - w->largest) / w->temperature;
    return x < SAMPLE_LEAST_EXPONENT ? 0.0f : whim_expf(x);
}

/* Weights of EXP_LANES tokens, 0 for those that are left out. `plain`: the temperature is 1 and
 * none is left out. */
static inline __attribute__((always_inline)) void sample_lanes(const sample_weigh *w,
                                                               const float *x, bool plain,
                                                               vf y[EXP_VECS])
{
    vu none[EXP_VECS];
    EACH_VEC y[v] = vf_load(x + v * VF) - vf_set1(w->largest);
    if (!plain) {
        EACH_VEC y[v] = y[v] / vf_set1(w->temperature);
    }
    EACH_VEC none[v] = (vu)(y[v] < vf_set1(SAMPLE_LEAST_EXPONENT));
    vf_exp_near(y);
    if (!plain) {
        EACH_VEC none[v] |= (vu)(y[v] < vf_set1(w->least));
    }
    EACH_VEC y[v] = (vf)((vu)y[v] & ~none[v]);
}

/* Whether one of SAMPLE_BLOCK tokens may have weight. */
static inline bool sample_may_weigh(const sample_weigh *w, const float *x)
{
    vf most = vf_load(x);
    for (int64_t i = VF; i < SAMPLE_BLOCK; i += VF) {
        most = vf_max_over(most, vf_load(x + i));
    }
    return vf_max_lanes(most) >= w->bound;
}

/* `sum` and the weights of tokens [begin, end) of at least `least`, in the order of ids. Adding 0
 * changes no sum, so that blocks without weight can be passed over. */
static double sample_sum(const sample_weigh *w, int64_t begin, int64_t end, double sum)
{
    float weights[SAMPLE_BLOCK];
    int64_t i = begin;
    for (; i + SAMPLE_BLOCK <= end; i += SAMPLE_BLOCK) {
        if (!sample_may_weigh(w, w->x + i)) {
            continue;
        }
        for (int64_t j = 0; j < SAMPLE_BLOCK; j += EXP_LANES) {
            vf y[EXP_VECS];
            sample_lanes(w, w->x + i + j, false, y);
            EACH_VEC vf_store(weights + j + v * VF, y[v]);
        }
        for (int64_t j = 0; j < SAMPLE_BLOCK; j++) {
            sum += (double)weights[j];
        }
    }
    for (; i < end; i++) {
        float weight = sample_weight(w, w->x[i]);
        sum += weight >= w->least ? (double)weight : 0;
    }
    return sum;
}

/* About the same, and quicker: a block's weights are added in lanes, up to 8 in each one after the
 * other, so that it is off by less than 2^-21 of the sum. */
static inline __attribute__((always_inline)) double sample_about(const sample_weigh *w,
                                                                 int64_t begin, int64_t end,
                                                                 bool plain)
{
    float lane[EXP_LANES];
    double sum = 0;
    int64_t i = begin;
    for (; i + SAMPLE_BLOCK <= end; i += SAMPLE_BLOCK) {
        vf all[EXP_VECS];
        if (!sample_may_weigh(w, w->x + i)) {
            continue;
        }
        EACH_VEC all[v] = vf_zero();
        for (int64_t j = 0; j < SAMPLE_BLOCK; j += EXP_LANES) {
            vf y[EXP_VECS];
            sample_lanes(w, w->x + i + j, plain, y);
            EACH_VEC all[v] = all[v] + y[v];
        }
        EACH_VEC vf_store(lane + v * VF, all[v]);
        for (int64_t j = 0; j < EXP_LANES; j++) {
            sum += (double)lane[j];
        }
    }
    return sample_sum(w, i, end, sum);
}

/* The sum of e^(x - largest), in order. */
static double sample_exp_sum(const float *x, int64_t n, float largest)
{
    float e[EXP_LANES];
    double sum = 0;
    int64_t i = 0;
    for (; i + EXP_LANES <= n; i += EXP_LANES) {
        vf y[EXP_VECS];
        EACH_VEC y[v] = vf_load(x + i + v * VF) - vf_set1(largest);
        vf_exp(y);
        EACH_VEC vf_store(e + v * VF, y[v]);
        for (int64_t j = 0; j < EXP_LANES; j++) {
            sum += (double)e[j];
        }
    }
    for (; i < n; i++) {
        sum += (double)whim_expf(x[i] - largest);
    }
    return sum;
}

/* --- by rank ---------------------------------------------------------------------------------- */

/* Candidates are gathered band by band of likelihood, and those of a band ranked as far as they are
 * asked for. */
enum { SAMPLE_BANDS = 4, SAMPLE_FIRST = 256 };

typedef struct sample_ranks {
    const sample_weigh *w;
    uint64_t *keys; /* [n_key], of which n_ranked are in order */
    float *weights; /* [n_ranked] */
    int32_t n_key, n_ranked, band;
} sample_ranks;

static float sample_band(const sample_weigh *w, int32_t band)
{
    static const float exponents[SAMPLE_BANDS - 1] = {-3.0f, -7.0f, -14.0f};
    return band < SAMPLE_BANDS - 1 ? w->largest + exponents[band] * w->temperature : w->bound;
}

static void sample_gather(sample_ranks *s)
{
    const sample_weigh *w = s->w;
    float low = sample_band(w, s->band);
    float high = s->band > 0 ? sample_band(w, s->band - 1) : INFINITY;
    bool first = s->band++ == 0;
    for (int64_t at = 0; at < w->n; at += TOPK_BLOCK) {
        int64_t n = w->n - at < TOPK_BLOCK ? w->n - at : TOPK_BLOCK;
        if (!topk_beats(w->x + at, n, low)) {
            continue;
        }
        for (int64_t i = at; i < at + n; i++) {
            if (w->x[i] >= low && (first || w->x[i] < high)) {
                s->keys[s->n_key++] = whim_rank_key(w->x[i], i);
            }
        }
    }
}

/* Rank on until item i is among the ranked; false: there are not so many. `limit`: no more will be
 * asked for. */
static bool sample_reach(sample_ranks *s, int64_t i, int32_t limit)
{
    while (i >= s->n_ranked) {
        if (s->n_ranked == s->n_key) {
            if (s->band == SAMPLE_BANDS) {
                return false;
            }
            sample_gather(s);
            continue;
        }
        int64_t more = s->n_ranked > 0 ? 3 * (int64_t)s->n_ranked : SAMPLE_FIRST;
        more = limit - s->n_ranked < more ? limit - s->n_ranked : more;
        more = s->n_key - s->n_ranked < more ? s->n_key - s->n_ranked : more;
        whim_rank_top(s->keys + s->n_ranked, s->n_key - s->n_ranked, (int32_t)more);
        for (int64_t end = s->n_ranked + more; s->n_ranked < end; s->n_ranked++) {
            int32_t id = whim_rank_id(s->keys[s->n_ranked]);
            s->weights[s->n_ranked] = sample_weight(s->w, s->w->x[id]);
        }
    }
    return true;
}

/* How many of the best `limit` it takes to reach the share top_p. */
static int32_t sample_nucleus(sample_ranks *s, const whim_sample_want *p, int32_t limit)
{
    double total = 0, sum = 0;
    int32_t n = 0;
    if (p->top_k == 0 || p->top_k >= s->w->n) {
        total = sample_sum(s->w, 0, s->w->n, 0);
    } else {
        for (int32_t i = 0; i < limit && sample_reach(s, i, limit); i++) {
            total += (double)s->weights[i];
        }
    }
    double goal = (double)p->top_p * total;
    while (n < limit && sample_reach(s, n, limit)) {
        sum += (double)s->weights[n++];
        if (sum >= goal) {
            break;
        }
    }
    return n;
}

/* How many of the best `kept`, which weigh `total`, XTC takes out. */
static int32_t sample_obvious(const sample_ranks *s, int32_t kept, double total, float threshold)
{
    int32_t n_over = 0;
    double least = (double)threshold * total;
    while (n_over < kept && (double)s->weights[n_over] >= least) {
        n_over++;
    }
    return n_over > 1 ? n_over - 1 : 0;
}

static double sample_ranked_sum(const sample_ranks *s, int32_t begin, int32_t end)
{
    double sum = 0;
    for (int32_t i = begin; i < end; i++) {
        sum += (double)s->weights[i];
    }
    return sum;
}

/* Cut by top-k, top-p, min-p and XTC, and draw among what is left, in the order of rank. */
static int32_t sample_by_rank(sample_ranks *s, const whim_sample_want *p, double u)
{
    int32_t limit = p->top_k > 0 ? p->top_k : INT32_MAX;
    int32_t n = p->top_p < 1.0f ? sample_nucleus(s, p, limit) : limit;
    int32_t kept = sample_reach(s, 0, limit) ? 1 : 0, begin = 0;
    double sum = 0;
    while (kept < n && sample_reach(s, kept, limit) && s->weights[kept] >= p->min_p) {
        kept++;
    }
    double total = sample_ranked_sum(s, 0, kept);
    if (p->xtc_threshold > 0) {
        begin = sample_obvious(s, kept, total, p->xtc_threshold);
        total = sample_ranked_sum(s, begin, kept);
    }
    int32_t last = begin < kept ? whim_rank_id(s->keys[begin]) : 0;
    for (int32_t i = begin; i < kept && s->weights[i] != 0; i++) {
        sum += (double)s->weights[i];
        last = whim_rank_id(s->keys[i]);
        if (sum > u * total) {
            break;
        }
    }
    return last;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing tokens: distributions by chi-square against exact ones computed another way, greedy
 * ties, broken logits, ranges. Seeds are fixed, so that a test that passes always passes. */
#include "sample/sampler.h"
#include "support/cmocka.h"

#include <stdint.h>

#include "support/law_sampler.h"

#include "base/alloc.h"
#include "base/math/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_VOCAB = 12, N_DRAW = 40000 };

static const float logits[N_VOCAB] = {0.5f, 2.0f, -1.0f, 2.0f, 0.0f,  -3.0f,
                                      1.5f, 0.1f, -0.2f, 0.9f, -8.0f, 1.0f};
static const int32_t prompt[] = {1, 1, 5, 9};
static const int32_t output[] = {3, 3, 3, 6};

static law_sampler sampler;
static whim_diag diag;

static int open_sampler(void **state)
{
    (void)state;
    sampler = law_sampler_open(N_VOCAB);
    return 0;
}

static int close_sampler(void **state)
{
    (void)state;
    law_sampler_close(&sampler);
    return 0;
}

static law_row row_of(const float *x)
{
    return (law_row){
        .logits = x,
        .ask = {.prompt = prompt, .n_prompt = 4, .output = output, .n_output = 4},
    };
}

/* --- the exact distribution, step by step in double ------------------------------------------- */

static double exact[N_VOCAB];

static bool holds(const int32_t *list, int n, int32_t id)
{
    for (int i = 0; i < n; i++) {
        if (list[i] == id) {
            return true;
        }
    }
    return false;
}

static void normalize(void)
{
    double sum = 0;
    for (int i = 0; i < N_VOCAB; i++) {
        sum += exact[i];
    }
    for (int i = 0; i < N_VOCAB; i++) {
        exact[i] /= sum;
    }
}

/* How many tokens come before i when they are ranked. */
static int rank_of(int i)
{
    int rank = 0;
    for (int j = 0; j < N_VOCAB; j++) {
        rank += exact[j] > exact[i] || (exact[j] == exact[i] && j < i);
    }
    return rank;
}

/* Some of the time, of those above the threshold only the last in rank stays. */
static void exact_xtc(const whim_sample_params *p)
{
    double plain[N_VOCAB], cut[N_VOCAB];
    int last = -1;
    memcpy(plain, exact, sizeof plain);
    for (int i = 0; i < N_VOCAB; i++) {
        if (exact[i] >= p->xtc_threshold && (last < 0 || rank_of(i) > rank_of(last))) {
            last = i;
        }
    }
    for (int i = 0; i < N_VOCAB; i++) {
        cut[i] = last >= 0 && rank_of(i) < rank_of(last) ? 0 : exact[i];
    }
    memcpy(exact, cut, sizeof cut);
    normalize();
    for (int i = 0; i < N_VOCAB; i++) {
        exact[i] = p->xtc_probability * exact[i] + (1 - p->xtc_probability) * plain[i];
    }
}

static void exact_make(const whim_sample_params *p)
{
    double x[N_VOCAB], kept[N_VOCAB];
    for (int i = 0; i < N_VOCAB; i++) {
        x[i] = logits[i];
        for (int j = 0; j < p->n_bias; j++) {
            x[i] += p->bias[j].id == i ? p->bias[j].bias : 0;
        }
        if (holds(prompt, 4, i) || holds(output, 4, i)) {
            x[i] = x[i] > 0 ? x[i] / p->repetition_penalty : x[i] * p->repetition_penalty;
        }
        int count = 0;
        for (int j = 0; j < 4; j++) {
            count += output[j] == i;
        }
        x[i] -= count > 0 ? p->presence_penalty : 0;
        x[i] -= count * p->frequency_penalty;
        exact[i] = exp(x[i] / p->temperature);
    }
    normalize();
    memcpy(kept, exact, sizeof kept);
    for (int i = 0; i < N_VOCAB; i++) {
        kept[i] = p->top_k > 0 && rank_of(i) >= p->top_k ? 0 : exact[i];
    }
    memcpy(exact, kept, sizeof kept);
    normalize();
    for (int i = 0; i < N_VOCAB; i++) {
        double before = 0; /* of the tokens in front: kept when they do not reach p alone */
        for (int j = 0; j < N_VOCAB; j++) {
            before += rank_of(j) < rank_of(i) ? exact[j] : 0;
        }
        kept[i] = before > 0 && before >= p->top_p ? 0 : exact[i];
    }
    memcpy(exact, kept, sizeof kept);
    double most = 0;
    for (int i = 0; i < N_VOCAB; i++) {
        most = exact[i] > most ? exact[i] : most;
    }
    for (int i = 0; i < N_VOCAB; i++) {
        exact[i] = exact[i] < p->min_p * most ? 0 : exact[i];
    }
    normalize();
    exact_xtc(p);
}

/* Draw N_DRAW times and compare. 11 degrees of freedom: chi-square exceeds 38 once in 12,000
 * trials. */
static void expect_exact(whim_sample_params p)
{
    int64_t count[N_VOCAB] = {0};
    double chi = 0;
    law_row row = row_of(logits);
    whim_sampled got;
    exact_make(&p);
    for (int i = 0; i < N_DRAW; i++) {
        p.seed = (uint64_t)i;
        assert_int_equal(law_pick(&sampler, &p, &row, &got, &diag), WHIM_ERR_OK);
        count[got.id]++;
    }
    for (int i = 0; i < N_VOCAB; i++) {
        double want = exact[i] * N_DRAW;
        if (want == 0) {
            assert_int_equal(count[i], 0);
        } else {
            chi += ((double)count[i] - want) * ((double)count[i] - want) / want;
        }
    }
    if (chi > 38) {
        fail_msg("chi-square is %f", chi);
    }
}

static whim_sample_params base(void)
{
    whim_sample_params p;
    whim_sample_params_init(&p);
    return p;
}

static void temperature_is_exact(void **state)
{
    (void)state;
    static const float ts[] = {0.25f, 1.0f, 2.5f};
    for (int i = 0; i < 3; i++) {
        whim_sample_params p = base();
        p.temperature = ts[i];
        expect_exact(p);
    }
}

static void top_k_is_exact(void **state)
{
    (void)state;
    static const int32_t ks[] = {1, 2, 3, 7, 12, 100};
    for (int i = 0; i < 6; i++) {
        whim_sample_params p = base();
        p.top_k = ks[i];
        expect_exact(p);
    }
}

static void top_p_is_exact(void **state)
{
    (void)state;
    static const float ps[] = {0.0f, 0.1f, 0.3f, 0.5f, 0.9f, 0.999f};
    for (int i = 0; i < 6; i++) {
        whim_sample_params p = base();
        p.top_p = ps[i];
        expect_exact(p);
        p.top_k = 5;
        p.temperature = 1.5f;
        expect_exact(p);
    }
}

static void min_p_is_exact(void **state)
{
    (void)state;
    static const float ps[] = {0.05f, 0.3f, 0.7f, 1.0f};
    for (int i = 0; i < 4; i++) {
        whim_sample_params p = base();
        p.min_p = ps[i];
        expect_exact(p);
        p.top_p = 0.95f;
        expect_exact(p);
    }
}

static void xtc_is_exact(void **state)
{
    (void)state;
    static const float thresholds[] = {0.02f, 0.1f, 0.2f, 0.4f};
    for (int i = 0; i < 4; i++) {
        whim_sample_params p = base();
        p.xtc_threshold = thresholds[i];
        expect_exact(p); /* a threshold alone changes nothing */
        p.xtc_probability = i % 2 == 0 ? 0.4f : 1;
        expect_exact(p);
        p.min_p = 0.1f;
        expect_exact(p);
        p.top_p = 0.9f;
        expect_exact(p);
        p.top_k = 6;
        p.temperature = 0.7f;
        expect_exact(p);
    }
}

static void penalties_and_bias_are_exact(void **state)
{
    (void)state;
    static const whim_logit_bias bias[] = {{2, 3.0f}, {1, -100.0f}, {2, 0.5f}};
    whim_sample_params p = base();
    p.repetition_penalty = 1.7f;
    expect_exact(p);
    p = base();
    p.presence_penalty = 1.2f;
    expect_exact(p);
    p = base();
    p.frequency_penalty = 0.8f;
    expect_exact(p);
    p = base();
    p.bias = bias;
    p.n_bias = 3;
    expect_exact(p);
    p.repetition_penalty = 0.8f;
    p.presence_penalty = -0.5f;
    p.frequency_penalty = 0.3f;
    p.top_k = 9;
    p.top_p = 0.97f;
    p.min_p = 0.01f;
    p.temperature = 0.8f;
    expect_exact(p);
}

/* One seed, many places: as good as many seeds. */
static void places_are_independent(void **state)
{
    (void)state;
    whim_sample_params p = base();
    int64_t count[N_VOCAB] = {0};
    double chi = 0;
    p.seed = 77;
    exact_make(&p);
    for (int i = 0; i < N_DRAW; i++) {
        law_row row = {.logits = logits, .ask.n_prompt = i};
        whim_sampled got;
        assert_int_equal(law_pick(&sampler, &p, &row, &got, &diag), WHIM_ERR_OK);
        count[got.id]++;
    }
    for (int i = 0; i < N_VOCAB; i++) {
        double want = exact[i] * N_DRAW;
        chi += ((double)count[i] - want) * ((double)count[i] - want) / want;
    }
    assert_true(chi < 38);
}

static int32_t pick(const whim_sample_params *p, const law_row *row)
{
    whim_sampled got;
    assert_int_equal(law_pick(&sampler, p, row, &got, &diag), WHIM_ERR_OK);
    return got.id;
}

static void seed_choice_and_place_decide_alone(void **state)
{
    (void)state;
    whim_sample_params p = base();
    law_row row = row_of(logits), other = row_of(logits), moved = row_of(logits);
    int differs_choice = 0, differs_place = 0;
    other.ask.choice = 1;
    moved.ask.n_output = 3;
    for (uint64_t seed = 0; seed < 200; seed++) {
        p.seed = seed;
        int32_t first = pick(&p, &row);
        differs_choice += first != pick(&p, &other);
        differs_place += first != pick(&p, &moved);
        assert_int_equal(pick(&p, &row), first);
    }
    assert_true(differs_choice > 100 && differs_place > 100);
}

static void greedy_takes_the_lowest_of_equals(void **state)
{
    (void)state;
    whim_sample_params p = base();
    law_row row = row_of(logits);
    p.temperature = 0;
    assert_int_equal(pick(&p, &row), 1); /* 1 and 3 are equal */
    p.presence_penalty = -1;             /* lifts 3 and 6 */
    assert_int_equal(pick(&p, &row), 3);
    p = base();
    p.top_k = 1;
    assert_int_equal(pick(&p, &row), 1);
    p = base();
    p.top_p = 0;
    assert_int_equal(pick(&p, &row), 1);
    p = base();
    p.temperature = 1e-30f; /* differences overflow, the answer does not */
    int32_t id = pick(&p, &row);
    assert_true(id == 1 || id == 3);
}

static void broken_logits_are_refused(void **state)
{
    (void)state;
    whim_sample_params p = base();
    whim_sampled got;
    for (int t = 0; t < 2; t++) {
        float x[N_VOCAB];
        law_row row = row_of(x);
        p.temperature = (float)t;
        memcpy(x, logits, sizeof x);
        x[7] = NAN;
        assert_int_equal(law_pick(&sampler, &p, &row, &got, &diag), WHIM_ERR_CORRUPT);
        assert_non_null(strstr(diag.text, "logit 7"));
        x[7] = INFINITY;
        assert_int_equal(law_pick(&sampler, &p, &row, &got, &diag), WHIM_ERR_CORRUPT);
        for (int i = 0; i < N_VOCAB; i++) {
            x[i] = -INFINITY;
        }
        assert_int_equal(law_pick(&sampler, &p, &row, &got, &diag), WHIM_ERR_CORRUPT);
        x[4] = -1000; /* one is enough */
        assert_int_equal(law_pick(&sampler, &p, &row, &got, &diag), WHIM_ERR_OK);
        assert_int_equal(got.id, 4);
    }
}

static void ranges_are_checked(void **state)
{
    (void)state;
    static const whim_logit_bias far = {N_VOCAB, 1}, strong = {0, 101}, many[N_VOCAB + 1];
    whim_sample_params good = base(), p;
    assert_int_equal(whim_sample_params_check(&good, N_VOCAB, &diag), WHIM_ERR_OK);
#define REFUSED(change, word)                                                             \
    do {                                                                                  \
        p = base();                                                                       \
        change;                                                                           \
        assert_int_equal(whim_sample_params_check(&p, N_VOCAB, &diag), WHIM_ERR_INVALID); \
        assert_non_null(strstr(diag.text, word));                                         \
    } while (0)
    REFUSED(p.temperature = -0.1f, "temperature");
    REFUSED(p.temperature = NAN, "temperature");
    REFUSED(p.temperature = INFINITY, "temperature");
    REFUSED(p.top_p = 1.1f, "top_p");
    REFUSED(p.min_p = -1, "min_p");
    REFUSED(p.top_k = -1, "top_k");
    REFUSED(p.repetition_penalty = 0, "repetition_penalty");
    REFUSED(p.presence_penalty = 101, "presence_penalty");
    REFUSED(p.frequency_penalty = NAN, "frequency_penalty");
    REFUSED(p.n_logprob = WHIM_MAX_LOGPROBS + 1, "log-probabilities");
    REFUSED((p.bias = &far, p.n_bias = 1), "token 12");
    REFUSED((p.bias = &strong, p.n_bias = 1), "logit_bias");
    REFUSED((p.bias = many, p.n_bias = N_VOCAB + 1), "13 entries");
    REFUSED((p.bias = many, p.n_bias = -1), "-1 entries");
    REFUSED(p.n_bias = 1, "no list");
#undef REFUSED
}

/* A vocabulary as large as a real one, a nucleus of thousands: the set that is drawn from is the
 * right one, and nothing is allocated. */
static void a_large_vocabulary(void **state)
{
    (void)state;
    enum { N = 150000 };
    float *x = malloc(N * sizeof *x);
    whim_sampled got;
    whim_sample_params p = base();
    law_row row = {.logits = x};
    law_sampler large = law_sampler_open(N);
    double total = 0, above = 0;
    for (int i = 0; i < N; i++) {
        x[i] = whim_rng_normal_at(3, (uint64_t)i);
        total += exp((double)x[i]);
    }
    p.top_p = 0.5f;
    int64_t trips = whim_alloc_guard_trips();
    float least = INFINITY;
    whim_alloc_guard_enter();
    for (int i = 0; i < 300; i++) {
        p.seed = (uint64_t)i;
        assert_int_equal(law_pick(&large, &p, &row, &got, &diag), WHIM_ERR_OK);
        least = x[got.id] < least ? x[got.id] : least;
    }
    whim_alloc_guard_leave();
    assert_int_equal(whim_alloc_guard_trips(), trips);
    for (int i = 0; i < N; i++) {
        above += x[i] > least ? exp((double)x[i]) : 0;
    }
    assert_true(above < 0.5 * total); /* the least likely that came was still needed to reach p */
    assert_true(above > 0.48 * total);
    law_sampler_close(&large);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_is_exact),
        cmocka_unit_test(top_k_is_exact),
        cmocka_unit_test(top_p_is_exact),
        cmocka_unit_test(min_p_is_exact),
        cmocka_unit_test(xtc_is_exact),
        cmocka_unit_test(penalties_and_bias_are_exact),
        cmocka_unit_test(places_are_independent),
        cmocka_unit_test(seed_choice_and_place_decide_alone),
        cmocka_unit_test(greedy_takes_the_lowest_of_equals),
        cmocka_unit_test(broken_logits_are_refused),
        cmocka_unit_test(ranges_are_checked),
        cmocka_unit_test(a_large_vocabulary),
    };
    return cmocka_run_group_tests(tests, open_sampler, close_sampler);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The token chosen from the best logits alone is the token chosen from all of them, for every
 * setting that says so, over many seeds and with ties; broken logits give the same message. */
#include "sample/sampler.h"
#include "support/cmocka.h"

#include <stdint.h>

#include "support/law_sampler.h"

#include "base/math/rng.h"
#include "ops/args/row_args.h"
#include "tensor/rank.h"

#include <math.h>
#include <string.h>

enum { N_VOCAB = 300, N_SEED = 400, N_ROW = 8 };

static law_sampler sampler;
static float rows[N_ROW][N_VOCAB];

static int setup(void **state)
{
    (void)state;
    for (int r = 0; r < N_ROW; r++) {
        for (int i = 0; i < N_VOCAB; i++) {
            float x = 3.0f * whim_rng_normal_at((uint64_t)r, (uint64_t)i);
            rows[r][i] = r % 2 == 0 ? x : roundf(x) / 2; /* many equals */
        }
    }
    for (int i = 0; i < N_VOCAB; i++) { /* few that can be drawn; zeros of both signs at the top */
        rows[5][i] = i % 50 == 3 ? 1.0f : -INFINITY;
        rows[7][i] = i % 3 == 0 ? -1.0f : i % 2 == 0 ? 0.0f : -0.0f;
    }
    sampler = law_sampler_open(N_VOCAB);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    law_sampler_close(&sampler);
    return 0;
}

static int32_t needed(const whim_sample_params *p, int32_t n_vocab)
{
    return whim_sample_best_needed(&(whim_sample_ask){.params = p}, n_vocab);
}

typedef struct best_list {
    float values[WHIM_TOPK_MAX];
    int32_t ids[WHIM_TOPK_MAX];
} best_list;

/* A row as a step gives it: the best `n`, and no logits. */
static law_row best_row(const float *x, int32_t n, best_list *list)
{
    uint64_t keys[N_VOCAB];
    for (int32_t i = 0; i < N_VOCAB; i++) {
        keys[i] = whim_rank_key(x[i], i);
    }
    whim_rank_top(keys, N_VOCAB, n);
    for (int32_t i = 0; i < n; i++) {
        list->ids[i] = whim_rank_id(keys[i]);
        list->values[i] = x[list->ids[i]];
    }
    return (law_row){.values = list->values, .ids = list->ids, .n_best = n};
}

static void expect_same(const whim_sample_params *base, int32_t n)
{
    whim_sample_params p = *base;
    for (int r = 0; r < N_ROW; r++) {
        best_list list;
        law_row all = {.logits = rows[r]}, best = best_row(rows[r], n, &list);
        for (uint64_t seed = 0; seed < N_SEED; seed++) {
            whim_diag diag;
            whim_sampled a, b;
            p.seed = seed;
            all.ask.n_prompt = best.ask.n_prompt = (int64_t)seed % 7;
            assert_int_equal(law_pick(&sampler, &p, &all, &a, &diag), WHIM_ERR_OK);
            assert_int_equal(law_pick(&sampler, &p, &best, &b, &diag), WHIM_ERR_OK);
            assert_int_equal(a.id, b.id);
        }
    }
}

static void the_same_token(void **state)
{
    (void)state;
    static const int32_t ks[] = {1, 2, 7, 40, 64};
    static const float top_ps[] = {1.0f, 0.95f, 0.5f, 0.0f};
    whim_sample_params p;
    for (int t = 0; t < 3; t++) {
        for (int k = 0; k < 5; k++) {
            for (int i = 0; i < 8; i++) {
                whim_sample_params_init(&p);
                p.temperature = (float)t * 0.7f; /* 0: greedy */
                p.top_k = ks[k];
                p.top_p = top_ps[i % 4];
                p.min_p = i < 4 ? 0.0f : 0.1f;
                int32_t n = needed(&p, N_VOCAB);
                assert_int_equal(n, t == 0 ? 1 : ks[k]);
                expect_same(&p, n);
                expect_same(&p, WHIM_TOPK_MAX); /* more than needed change nothing */
            }
        }
    }
}

static void all_logits_where_they_count(void **state)
{
    (void)state;
    static const whim_logit_bias bias = {3, 1.0f};
    whim_sample_params p, greedy;
    whim_sample_params_init(&p);
    assert_int_equal(needed(&p, N_VOCAB), 0); /* a draw among all */
    p.top_k = 65;
    assert_int_equal(needed(&p, N_VOCAB), 0);
    p.top_k = 20;
    assert_int_equal(needed(&p, 20), 0); /* the whole vocabulary */
    assert_int_equal(needed(&p, 21), 20);
    whim_sample_params_init(&greedy);
    greedy.temperature = 0;
    assert_int_equal(needed(&greedy, N_VOCAB), 1);
    for (int i = 0; i < 6; i++) {
        p = greedy;
        p.n_bias = i == 0;
        p.bias = &bias;
        p.repetition_penalty = i == 1 ? 1.1f : 1.0f;
        p.presence_penalty = i == 2 ? 0.5f : 0.0f;
        p.frequency_penalty = i == 3 ? 0.5f : 0.0f;
        p.want_logprob = i == 4;
        p.n_logprob = i == 5;
        assert_int_equal(needed(&p, N_VOCAB), 0);
    }
    static const uint32_t mask = 1;
    whim_sample_ask ask = {.params = &greedy, .mask = &mask, .n_mask_word = 1};
    assert_int_equal(whim_sample_best_needed(&ask, N_VOCAB), 0); /* the best need not be allowed */
    ask.is_given = true; /* nothing is chosen, but broken logits are told */
    assert_int_equal(whim_sample_best_needed(&ask, N_VOCAB), 1);
    greedy.want_logprob = true;
    assert_int_equal(whim_sample_best_needed(&ask, N_VOCAB), 0);
    ask.params = NULL; /* nothing is wanted */
    assert_int_equal(whim_sample_best_needed(&ask, N_VOCAB), 1);
}

static void broken_logits_are_told_alike(void **state)
{
    (void)state;
    static const float odd[][2] = {
        {NAN, 0}, {0, INFINITY}, {NAN, INFINITY}, {INFINITY, NAN}, {-NAN, 1}};
    whim_sample_params p;
    whim_sample_params_init(&p);
    p.top_k = 3;
    for (size_t i = 0; i <= sizeof odd / sizeof odd[0]; i++) {
        float x[N_VOCAB];
        for (int v = 0; v < N_VOCAB; v++) {
            x[v] = i == sizeof odd / sizeof odd[0] ? -INFINITY : rows[0][v];
        }
        if (i < sizeof odd / sizeof odd[0]) {
            x[70] = odd[i][0];
            x[130] = odd[i][1];
        }
        best_list list;
        whim_diag a = {{0}}, b = {{0}};
        whim_sampled got;
        law_row all = {.logits = x}, best = best_row(x, 3, &list);
        assert_int_equal(law_pick(&sampler, &p, &all, &got, &a), WHIM_ERR_CORRUPT);
        assert_int_equal(law_pick(&sampler, &p, &best, &got, &b), WHIM_ERR_CORRUPT);
        assert_string_equal(a.text, b.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_token),
        cmocka_unit_test(all_logits_where_they_count),
        cmocka_unit_test(broken_logits_are_told_alike),
    };
    return cmocka_run_group_tests_name("best", tests, setup, teardown);
}

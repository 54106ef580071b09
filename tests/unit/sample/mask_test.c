/* SPDX-License-Identifier: Apache-2.0 */
/* Masks: a token whose bit is 0 never comes, whatever else is asked for; log-probabilities stay
 * those of the model. */
#include <stdint.h>

#include "base/math/rng.h"
#include "ops/ref/sample_ref.h"
#include "support/cmocka.h"
#include "support/law_sampler.h"

#include <math.h>
#include <string.h>

enum { N_VOCAB = 70, N_WORD = 3 };

static float logits[N_VOCAB];
static law_sampler sampler;

static int setup(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_VOCAB; i++) {
        logits[i] = whim_rng_normal_at(3, (uint64_t)i);
    }
    logits[5] = logits[40] = logits[66] = 9.0f; /* the best three are equal */
    sampler = law_sampler_open(N_VOCAB);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    law_sampler_close(&sampler);
    return 0;
}

static bool allowed(const uint32_t *mask, int32_t id)
{
    return (mask[id / 32] >> (id % 32) & 1) != 0;
}

static void greedy_takes_the_best_allowed(void **state)
{
    (void)state;
    whim_sample_params params;
    whim_sampled out;
    uint32_t mask[N_WORD] = {~UINT32_C(0), ~UINT32_C(0), ~UINT32_C(0)};
    whim_sample_params_init(&params);
    params.temperature = 0;
    params.want_logprob = true;
    law_row row = {.logits = logits, .ask = {.mask = mask, .n_mask_word = N_WORD}};
    assert_int_equal(law_pick(&sampler, &params, &row, &out, NULL), WHIM_ERR_OK);
    assert_int_equal(out.id, 5);
    mask[0] &= ~(UINT32_C(1) << 5);
    assert_int_equal(law_pick(&sampler, &params, &row, &out, NULL), WHIM_ERR_OK);
    assert_int_equal(out.id, 40);
    float expected;
    whim_sample_logprobs_at(logits, N_VOCAB, &out.id, 1, &expected);
    assert_true(out.logprob == expected);
    row.ask.n_mask_word = 1; /* ids beyond the mask are out */
    assert_int_equal(law_pick(&sampler, &params, &row, &out, NULL), WHIM_ERR_OK);
    assert_true(out.id < 32 && out.id != 5);
}

static void draws_stay_inside(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3000; i++) {
        whim_sample_params params;
        whim_sampled out;
        uint32_t mask[N_WORD];
        for (int32_t k = 0; k < N_WORD; k++) {
            uint64_t r = whim_rng_at(9, i * 4 + (uint64_t)k);
            mask[k] = (uint32_t)(r & r >> 20 & (i % 2 == 0 ? r >> 32 : ~UINT64_C(0)));
        }
        mask[1] |= 2; /* never empty */
        whim_logit_bias bias = {5, 100};
        whim_sample_params_init(&params);
        params.seed = i;
        params.top_k = i % 3 == 0 ? 20 : 0;
        params.top_p = i % 5 < 2 ? 0.9f : 1;
        params.min_p = i % 7 == 0 ? 0.1f : 0;
        params.n_logprob = 2;
        params.bias = &bias;
        params.n_bias = i % 2;
        params.presence_penalty = i % 4 == 0 ? 1 : 0;
        law_row row = {.logits = logits, .ask = {.mask = mask, .n_mask_word = N_WORD}};
        assert_int_equal(law_pick(&sampler, &params, &row, &out, NULL), WHIM_ERR_OK);
        assert_true(allowed(mask, out.id));
        assert_int_equal(out.top_id[0], 5); /* of the model, not of the mask */
    }
}

/* Masked draws are those of a row in which the others are impossible. */
static void a_mask_is_minus_infinity(void **state)
{
    (void)state;
    uint32_t mask[N_WORD] = {0xF0F0F0F0, 0x0FF00FF0, 0x15};
    float other[N_VOCAB];
    for (int32_t i = 0; i < N_VOCAB; i++) {
        other[i] = allowed(mask, i) ? logits[i] : -INFINITY;
    }
    for (uint64_t i = 0; i < 500; i++) {
        whim_sample_params params;
        whim_sampled one, two;
        whim_sample_params_init(&params);
        params.seed = i;
        params.temperature = 3;
        params.top_p = i % 2 == 0 ? 0.95f : 1;
        law_row masked = {.logits = logits, .ask = {.mask = mask, .n_mask_word = N_WORD}};
        law_row plain = {.logits = other};
        assert_int_equal(law_pick(&sampler, &params, &masked, &one, NULL), WHIM_ERR_OK);
        assert_int_equal(law_pick(&sampler, &params, &plain, &two, NULL), WHIM_ERR_OK);
        assert_int_equal(one.id, two.id);
    }
}

static void an_empty_mask_is_told(void **state)
{
    (void)state;
    whim_sample_params params;
    whim_sampled out;
    whim_diag diag = {{0}};
    uint32_t mask[N_WORD] = {0};
    whim_sample_params_init(&params);
    law_row row = {.logits = logits, .ask = {.mask = mask, .n_mask_word = N_WORD}};
    assert_int_equal(law_pick(&sampler, &params, &row, &out, &diag), WHIM_ERR_INVALID);
    assert_true(diag.text[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_best_allowed),
        cmocka_unit_test(draws_stay_inside),
        cmocka_unit_test(a_mask_is_minus_infinity),
        cmocka_unit_test(an_empty_mask_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a history says about the next token, held against the plainest way to find it. */
#include "base/math/rng.h"
#include "sample/sampler.h"
#include "support/cmocka.h"

#include <math.h>
#include <string.h>

enum { VOCAB = 40, LONGEST = 400 };

static float bias_of(const whim_logit_bias *pairs, int32_t n, int32_t id)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += pairs[i].id == id ? pairs[i].bias : 0;
    }
    return sum;
}

/* --- DRY -------------------------------------------------------------------------------------- */

/* What is taken from the logit of a token: for every place where it stands, the longest beginning
 * that ends both before it and at the end, tried from the longest down. */
static double plain_dry(const whim_history_rules *r, const int32_t *ids, int32_t n, int32_t id)
{
    int32_t first = r->dry_last >= 0 && r->dry_last < n ? n - r->dry_last : 0, best = -1;
    for (int32_t at = first + 1; at < n; at++) {
        for (int32_t m = at - first; ids[at] == id && m > best; m--) {
            bool same = memcmp(&ids[at - m], &ids[n - m], (size_t)m * sizeof *ids) == 0;
            for (int32_t i = 0; i < m && same; i++) {
                same = (r->dry_breakers[0] >> ids[at - 1 - i] & 1) == 0 || ids[at - 1 - i] >= 32;
            }
            best = same ? m : best;
        }
    }
    bool is_breaker = id < 32 && (r->dry_breakers[0] >> id & 1) != 0;
    return best < r->dry_allowed || is_breaker
               ? 0
               : r->dry_multiplier * pow(r->dry_base, best - r->dry_allowed);
}

static void repetitions_cost_as_defined(void **state)
{
    static const uint32_t none = 0, some = 1 << 3 | 1 << 7;
    static int32_t ids[LONGEST];
    int32_t n_found = 0;
    (void)state;
    for (int32_t round = 0; round < 300; round++) {
        int32_t n = 2 + round % 60, n_kind = 2 + round % 9, n_prompt = round % (n + 1);
        for (int32_t i = 0; i < n; i++) { /* few kinds repeat by themselves */
            ids[i] = (int32_t)(whim_rng_uniform53_at((uint64_t)round, (uint64_t)i) * n_kind);
        }
        const whim_history_rules rules = {.dry_multiplier = 0.8f,
                                          .dry_base = 1.5f,
                                          .dry_allowed = round % 4,
                                          .dry_last = round % 3 == 0 ? 20 : -1,
                                          .dry_breakers = round % 2 == 0 ? &none : &some,
                                          .n_breaker_word = 1};
        whim_logit_bias pairs[WHIM_HISTORY_PAIRS];
        int32_t n_pair =
            whim_history_bias(&rules, ids, n_prompt, ids + n_prompt, n - n_prompt, pairs);
        for (int32_t id = 0; id < VOCAB; id++) {
            double want = plain_dry(&rules, ids, n, id);
            assert_true(fabs(bias_of(pairs, n_pair, id) + want) <= 1e-4 * want);
            n_found += want > 0;
        }
    }
    assert_true(n_found > 500);
}

/* As long as can be, of one token and of two in turns: what is asked of a step must not grow with
 * the square of the text. */
static void long_repetitions_count_to_their_bound(void **state)
{
    enum { N = WHIM_DRY_LAST + 500 };
    static const uint32_t none = 0;
    static int32_t ids[N];
    whim_logit_bias pairs[WHIM_HISTORY_PAIRS];
    (void)state;
    for (int32_t kinds = 1; kinds <= 2; kinds++) {
        for (int32_t i = 0; i < N; i++) {
            ids[i] = i % kinds;
        }
        whim_history_rules rules = {.dry_multiplier = 1,
                                    .dry_base = 1.0625f,
                                    .dry_allowed = 8000,
                                    .dry_last = -1,
                                    .dry_breakers = &none,
                                    .n_breaker_word = 1};
        for (int32_t step = 0; step < 200; step++) {
            int32_t n = whim_history_bias(&rules, ids, 77, ids + 77, N - 77, pairs);
            assert_int_equal(n, 1);
            assert_int_equal(pairs[0].id, N % kinds);
            assert_true(fabs(pairs[0].bias + pow(1.0625, WHIM_DRY_MATCH)) < 1);
        }
        rules.dry_allowed = 0; /* then each token loses something, the last 256 of them */
        for (int32_t i = 0; i < N; i++) {
            ids[i] = i % 3000;
        }
        assert_int_equal(whim_history_bias(&rules, ids, 0, ids, N, pairs), WHIM_DRY_TOKENS);
        for (int32_t i = 0; i < WHIM_DRY_TOKENS; i++) {
            assert_int_equal(pairs[i].id, (N - 1 - i) % 3000);
        }
    }
}

/* "abcab" goes on with c, which costs multiplier * base^(2 - 2); one more letter costs base more. */
static void one_that_can_be_reckoned(void **state)
{
    static const int32_t text[] = {9, 1, 2, 3, 9, 1, 2};
    static const uint32_t breakers[] = {0};
    whim_history_rules rules = {.dry_multiplier = 2,
                                .dry_base = 3,
                                .dry_allowed = 2,
                                .dry_last = -1,
                                .dry_breakers = breakers,
                                .n_breaker_word = 1};
    whim_logit_bias pairs[WHIM_HISTORY_PAIRS];
    (void)state;
    assert_int_equal(whim_history_bias(&rules, text + 1, 3, text + 5, 2, pairs), 1);
    assert_true(pairs[0].id == 3 && pairs[0].bias == -2.0f);
    assert_int_equal(whim_history_bias(&rules, text, 4, text + 4, 3, pairs), 1);
    assert_true(pairs[0].id == 3 && pairs[0].bias == -6.0f);
    rules.dry_last = 0;
    assert_int_equal(whim_history_bias(&rules, text, 4, text + 4, 3, pairs), 0);
}

/* What could grow without end has a bound: one token for ever, and every token once and again. */
static void all_is_bounded(void **state)
{
    static int32_t ids[4 * WHIM_DRY_TOKENS];
    static const uint32_t breakers[] = {0};
    whim_history_rules rules = {.dry_multiplier = 1e6f,
                                .dry_base = 1e6f,
                                .dry_last = -1,
                                .dry_breakers = breakers,
                                .n_breaker_word = 1};
    whim_logit_bias pairs[WHIM_HISTORY_PAIRS];
    (void)state;
    assert_int_equal(whim_history_bias(&rules, ids, LONGEST, ids, LONGEST, pairs), 1);
    assert_true(pairs[0].bias == WHIM_BANNED);
    for (int32_t i = 0; i < 4 * WHIM_DRY_TOKENS; i++) {
        ids[i] = i;
    }
    int32_t n = whim_history_bias(&rules, ids, 4 * WHIM_DRY_TOKENS, NULL, 0, pairs);
    assert_int_equal(n, WHIM_DRY_TOKENS);
    assert_int_equal(pairs[0].id, 4 * WHIM_DRY_TOKENS - 1); /* the last ones */
    assert_int_equal(pairs[n - 1].id, 3 * WHIM_DRY_TOKENS);
}

/* --- words ------------------------------------------------------------------------------------ */

static void words_do_not_end(void **state)
{
    static const int32_t ids[] = {5, 6, 7, 8, 6, 9}, output[] = {1, 6, 7}, prompt[] = {6, 7};
    static const whim_ban bans[] = {{0, 1}, {1, 3}, {4, 2}};
    const whim_history_rules rules = {.bans = bans, .n_ban = 3, .ban_ids = ids, .n_ban_id = 6};
    whim_logit_bias pairs[WHIM_HISTORY_PAIRS];
    (void)state;
    int32_t n = whim_history_bias(&rules, prompt, 2, output, 3, pairs);
    assert_int_equal(n, 2);
    assert_true(bias_of(pairs, n, 5) == WHIM_BANNED && bias_of(pairs, n, 8) == WHIM_BANNED);
    n = whim_history_bias(&rules, prompt, 2, output, 2, pairs);
    assert_int_equal(n, 2);
    assert_true(bias_of(pairs, n, 5) == WHIM_BANNED && bias_of(pairs, n, 9) == WHIM_BANNED);
    n = whim_history_bias(&rules, prompt, 2, output, 0,
                          pairs); /* a word of the prompt is its own */
    assert_int_equal(n, 1);
}

/* Behind the bias of the request, in one list. */
static void pairs_are_packed_behind_the_bias(void **state)
{
    static const int32_t word[] = {5}, output[] = {1};
    static const whim_ban bans[] = {{0, 1}};
    static const whim_logit_bias bias[] = {{3, 1.5f}};
    const whim_history_rules rules = {.bans = bans, .n_ban = 1, .ban_ids = word, .n_ban_id = 1};
    int32_t lists[2 * WHIM_HISTORY_PAIRS + 2];
    int64_t used = 0;
    whim_sample_want want;
    whim_sample_params params;
    (void)state;
    whim_sample_params_init(&params);
    params.temperature = 0;
    whim_sample_ask ask = {.params = &params, .output = output, .n_output = 1};
    assert_int_equal(whim_sample_best_needed(&ask, VOCAB), 1);
    assert_int_equal(whim_sample_words(&ask), 0);
    assert_false(whim_sample_params_look_back(&params));
    params.bias = bias;
    params.n_bias = 1;
    params.history = &rules;
    assert_true(whim_sample_params_look_back(&params));
    assert_int_equal(whim_sample_best_needed(&ask, VOCAB), 0);
    whim_sample_pack(&ask, lists, &used, &want);
    assert_int_equal(want.bias.n, 2);
    assert_int_equal(used, 4);
    assert_true(used <= whim_sample_words(&ask));
    assert_true(lists[want.bias.at] == 3 && lists[want.bias.at + 2] == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repetitions_cost_as_defined),
        cmocka_unit_test(long_repetitions_count_to_their_bound),
        cmocka_unit_test(one_that_can_be_reckoned),
        cmocka_unit_test(all_is_bounded),
        cmocka_unit_test(words_do_not_end),
        cmocka_unit_test(pairs_are_packed_behind_the_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

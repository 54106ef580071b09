/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of which a request says by token what may come: each is the one that the law gives to its
 * row, in a batch as alone. */
#include "unit/engine/service_fixture.h"

enum { N_ALLOWED = 9 };
static int32_t allowed[N_ALLOWED];

/* Greedy, drawn from the best, drawn from all; each from tokens of its own choice. */
static whim_job_cfg listed_cfg(int32_t k, int64_t max_tokens)
{
    whim_job_cfg cfg = job_cfg(k, 40 + k, max_tokens);
    for (int32_t i = 0; i < N_ALLOWED; i++) {
        allowed[i] = (i * 31 + 7) % config->n_vocab;
    }
    cfg.allowed = allowed;
    cfg.n_allowed = 1 + k % N_ALLOWED;
    return cfg;
}

static void only_what_is_allowed_comes(void **state)
{
    enum { N = 12 };
    static int32_t ids[N][MAX_MADE];
    static answer a;
    whim_job *jobs[N];
    for (int32_t k = 0; k < N; k++) {
        whim_job_cfg cfg = listed_cfg(k, 20);
        assert_int_equal(alone(&cfg, ids[k]), 20);
    }
    start(state);
    for (int32_t k = 0; k < N; k++) {
        whim_job_cfg cfg = listed_cfg(k, 20);
        jobs[k] = submit(&cfg);
    }
    for (int32_t k = 0; k < N; k++) {
        read_all(jobs[k], &a);
        assert_false(a.failed);
        assert_int_equal(a.n[0], 20);
        assert_memory_equal(a.ids[0], ids[k], 20 * sizeof(int32_t));
    }
    assert_true(whim_service_get_stats(service).n_ahead > 0); /* the list is the next step's, too */
    stop(state);
}

/* A list without an end is not made longer by min_tokens; one of nothing but an end is. */
static void an_end_that_alone_is_allowed_comes(void **state)
{
    static answer a;
    start(state);
    whim_job_cfg cfg = listed_cfg(0, 20); /* one token */
    cfg.stop_ids = cfg.allowed;
    cfg.n_stop_id = 1;
    cfg.min_tokens = 5;
    read_all(submit(&cfg), &a);
    assert_false(a.failed);
    assert_int_equal(a.n[0], 1);
    assert_int_equal(a.end[0], WHIM_END_EOS);
    cfg = listed_cfg(1, 20); /* two, of which one is an end */
    cfg.stop_ids = cfg.allowed;
    cfg.n_stop_id = 1;
    cfg.min_tokens = 5;
    read_all(submit(&cfg), &a);
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(a.ids[0][i], allowed[1]);
    }
    stop(state);
}

/* --- what came before ------------------------------------------------------------------------- */

enum { N_BACK = 9 };

/* Repetitions, and two tokens of which either answer alone has many, in turns. */
static whim_job_cfg back_cfg(int32_t k, const int32_t *often)
{
    static whim_ban bans[N_BACK][2];
    static whim_history_rules rules[N_BACK];
    static const uint32_t breakers[] = {1 << 5};
    whim_job_cfg cfg = job_cfg(k, 40 + k, 30);
    bans[k][0] = (whim_ban){0, 1};
    bans[k][1] = (whim_ban){1, 2};
    rules[k] =
        k % 2 == 0
            ? (whim_history_rules){.dry_multiplier = 4,
                                   .dry_base = 2,
                                   .dry_allowed = k % 3,
                                   .dry_last = -1,
                                   .dry_breakers = breakers,
                                   .n_breaker_word = 1}
            : (whim_history_rules){.bans = bans[k], .n_ban = 2, .ban_ids = often, .n_ban_id = 3};
    cfg.params.history = &rules[k];
    return cfg;
}

static void the_past_counts_as_the_law_has_it(void **state)
{
    static int32_t ids[N_BACK][MAX_MADE], plain[N_BACK][MAX_MADE];
    static answer a;
    whim_job *jobs[N_BACK];
    int32_t n_other = 0;
    for (int32_t k = 0; k < N_BACK; k++) {
        whim_job_cfg cfg = job_cfg(k, 40 + k, 30);
        alone(&cfg, plain[k]);
        cfg = back_cfg(k, plain[k]);
        alone(&cfg, ids[k]);
        n_other += memcmp(ids[k], plain[k], 30 * sizeof **plain) != 0;
        for (int32_t i = 0; k % 2 == 1 && i < 30; i++) {
            assert_int_not_equal(ids[k][i], plain[k][0]);
            assert_false(i > 0 && ids[k][i - 1] == plain[k][1] && ids[k][i] == plain[k][2]);
        }
    }
    assert_true(n_other >= N_BACK / 2);
    start(state);
    for (int32_t k = 0; k < N_BACK; k++) {
        whim_job_cfg cfg = back_cfg(k, plain[k]);
        jobs[k] = submit(&cfg);
    }
    for (int32_t k = 0; k < N_BACK; k++) {
        read_all(jobs[k], &a);
        assert_int_equal(a.n[0], 30);
        assert_memory_equal(a.ids[0], ids[k], 30 * sizeof(int32_t));
    }
    assert_int_equal(whim_service_get_stats(service).n_ahead, 0); /* each token counts */
    stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_allowed_comes),
        cmocka_unit_test(the_past_counts_as_the_law_has_it),
        cmocka_unit_test(an_end_that_alone_is_allowed_comes),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

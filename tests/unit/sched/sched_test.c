/* SPDX-License-Identifier: Apache-2.0 */
/* Requests coming and going: limits, refusals, cancelling, what a failed step leaves behind. */
#include "tiny_sched.h"

#include "base/alloc.h"
#include "support/death.h"

static void refusals_say_why(void **state)
{
    (void)state;
    tiny_sched t;
    whim_diag diag;
    whim_sched_cfg cfg = tiny_cfg();
    tiny_open(&t, 4, true, cfg);
    static const whim_sched_add bad[] = {
        {.n_tok = 0, .max_tok = 1},
        {.n_tok = 5, .max_tok = 4},
        {.n_tok = TINY_CTX, .max_tok = TINY_CTX},
        {.n_tok = 5, .max_tok = TINY_CTX + 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tiny_try(&t, bad[i], &diag), WHIM_ERR_INVALID);
    }
    /* 4 pages: the last token is never fed. */
    assert_int_equal(tiny_try(&t, (whim_sched_add){.n_tok = 9, .max_tok = 4 * P + 2}, &diag),
                     WHIM_ERR_NO_FIT);
    assert_non_null(strstr(diag.text, "need 5 KV pages of 32 tokens, there are 4"));
    assert_int_equal(
        tiny_try(&t, (whim_sched_add){.n_tok = 4 * P + 1, .max_tok = 4 * P + 1}, &diag),
        WHIM_ERR_NO_FIT);
    tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = 9, .max_tok = 4 * P + 1});
    tiny_add(&t, (whim_sched_add){.n_tok = 4 * P, .max_tok = 4 * P});
    tiny_step(&t, NULL);
    assert_true(whim_sched_req_get(a->req).running);
    tiny_close(&t);
}

static void removing_keeps_full_pages(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 8, true, tiny_cfg());
    tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = P + 8, .max_tok = 4 * P});
    tiny_job *b = tiny_add(&t, (whim_sched_add){.n_tok = P, .max_tok = 4 * P});
    whim_sched_remove(t.sched, b->req);
    tiny_step(&t, NULL);
    whim_sched_stats stats = whim_sched_get_stats(t.sched);
    assert_int_equal(stats.n_running, 1);
    assert_int_equal(stats.n_waiting, 0);
    assert_int_equal(stats.pages_used, 2);
    assert_int_equal(stats.pages_cached, 0);
    whim_sched_remove(t.sched, a->req);
    stats = whim_sched_get_stats(t.sched);
    assert_int_equal(stats.n_running, 0);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.pages_cached, 1);
    assert_int_equal(stats.pages_total, 8);
    tiny_close(&t);
}

static void the_chosen_token_is_fed_next(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 8, true, tiny_cfg());
    tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = 5, .max_tok = 8});
    tiny_plan(&t);
    const whim_plan_item *item = tiny_item(&t, a);
    assert_true(item->chooses && item->is_prefill && item->n_out == 1 && item->n_tok == 5);
    tiny_commit(&t, NULL);
    assert_int_equal(a->tokens[5], 5);
    assert_int_equal(whim_sched_req_get(a->req).n_tok, 6);
    tiny_plan(&t);
    item = tiny_item(&t, a);
    assert_true(item->chooses && !item->is_prefill && item->n_out == 1 && item->n_tok == 1);
    assert_int_equal(item->tokens[0], 5);
    tiny_commit(&t, NULL);
    tiny_step(&t, a);
    assert_null(a->req);
    tiny_plan(&t);
    assert_int_equal(t.plan.n_item, 0);
    tiny_close(&t);
}

static void a_failed_step_changes_nothing(void **state)
{
    (void)state;
    for (int grown = 0; grown < 2; grown++) {
        tiny_sched t;
        tiny_open(&t, 8, true, tiny_cfg());
        tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = 20, .max_tok = 3 * P});
        tiny_step(&t, NULL);
        tiny_job *b = tiny_add(&t, (whim_sched_add){.n_tok = 40, .max_tok = 3 * P});
        int64_t before = t.pool.n_free;
        tiny_plan(&t);
        assert_true(tiny_rows(&t, a) == 1 && tiny_rows(&t, b) == 40);
        for (int64_t i = 0; grown != 0 && i < t.plan.n_item; i++) {
            assert_int_equal(
                whim_sequence_grow(t.plan.items[i].seq, &t.pool, t.plan.items[i].n_tok),
                WHIM_ERR_OK);
        }
        whim_sched_abort(t.sched, &t.plan);
        assert_int_equal(t.pool.n_free, before);
        assert_int_equal(whim_sched_req_get(a->req).n_fed, 20);
        assert_true(whim_sched_req_get(a->req).running);
        assert_false(whim_sched_req_get(b->req).running);
        tiny_plan(&t); /* the same again */
        assert_true(tiny_rows(&t, a) == 1 && tiny_rows(&t, b) == 40);
        tiny_commit(&t, NULL);
        tiny_close(&t);
    }
}

static void a_full_context_must_end(void *ctx)
{
    tiny_sched t;
    tiny_open(&t, 4, true, tiny_cfg());
    tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = 5, .max_tok = 6});
    tiny_step(&t, *(int *)ctx != 0 ? a : NULL);
}

static void going_past_max_tok_ends_the_process(void **state)
{
    (void)state;
    int yes = 1, no = 0;
    assert_int_equal(death_signal(a_full_context_must_end, &yes), 0);
    assert_int_equal(death_signal(a_full_context_must_end, &no), SIGABRT);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    whim_page_pool pool, states;
    whim_sched *sched;
    whim_sched_cfg cfg = tiny_cfg();
    assert_int_equal(whim_page_pool_init(&pool, 8, P), WHIM_ERR_OK);
    assert_int_equal(whim_page_pool_init(&states, cfg.max_seqs + 2, 1), WHIM_ERR_OK);
    cfg.pool = &pool;
    cfg.states = &states;
    cfg.copy_state = tiny_copy_state;
    whim_err err = WHIM_ERR_NO_MEMORY;
    int64_t n = 0;
    for (; err != WHIM_ERR_OK; n++) {
        whim_alloc_fail_after(n);
        err = whim_sched_create(&cfg, &sched);
        whim_alloc_fail_after(-1);
        assert_true(err == WHIM_ERR_OK || err == WHIM_ERR_NO_MEMORY);
        assert_int_equal(states.n_free, err == WHIM_ERR_OK ? 2 : states.n_page);
    }
    assert_true(n > 6);
    static int32_t tokens[8];
    whim_sched_add add = {.tokens = tokens, .n_tok = 4, .max_tok = 8};
    whim_sched_req *req;
    whim_diag diag;
    for (n = 0; n < 2; n++) { /* the request, then the queue or the client */
        whim_alloc_fail_after(n);
        assert_int_equal(whim_sched_submit(sched, &add, &req, &diag), WHIM_ERR_NO_MEMORY);
        whim_alloc_fail_after(-1);
        assert_int_equal(whim_sched_get_stats(sched).n_waiting, 0);
    }
    assert_int_equal(whim_sched_submit(sched, &add, &req, &diag), WHIM_ERR_OK);
    whim_sched_destroy(sched);
    whim_sched_destroy(NULL);
    cfg.max_outs = 0;
    assert_int_equal(whim_sched_create(&cfg, &sched), WHIM_ERR_INVALID);
    whim_page_pool_deinit(&states);
    whim_page_pool_deinit(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(removing_keeps_full_pages),
        cmocka_unit_test(the_chosen_token_is_fed_next),
        cmocka_unit_test(a_failed_step_changes_nothing),
        cmocka_unit_test(going_past_max_tok_ends_the_process),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}

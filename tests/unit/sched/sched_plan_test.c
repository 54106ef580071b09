/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: budgets, order, prefix hits, preemption. Random traces are in tests/sim. */
#include "tiny_sched.h"

static void prefill_is_cut_and_mixed_with_decode(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 32, true, tiny_cfg());
    tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = 30, .max_tok = 200});
    tiny_step(&t, NULL);
    tiny_job *b = tiny_add(&t, (whim_sched_add){.n_tok = 100, .max_tok = 200});
    tiny_job *c = tiny_add(&t, (whim_sched_add){.n_tok = 40, .max_tok = 200});
    static const int64_t rows[][3] = {{1, 63, 0}, {1, 37, 26}, {1, 1, 14}, {1, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tiny_plan(&t);
        assert_int_equal(tiny_rows(&t, a), rows[i][0]);
        assert_int_equal(tiny_rows(&t, b), rows[i][1]);
        assert_int_equal(tiny_rows(&t, c), rows[i][2]);
        assert_int_equal(t.plan.n_row, rows[i][0] + rows[i][1] + rows[i][2]);
        tiny_commit(&t, NULL);
    }
    tiny_close(&t);
}

static void the_budget_can_be_made_smaller(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 32, true, tiny_cfg());
    tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = 300, .max_tok = 400});
    static const int64_t budgets[][2] = {
        {20, 20}, {0, 4}, {1000, 64}}; /* 4 may run, 64 is the limit */
    for (size_t i = 0; i < 3; i++) {
        whim_sched_set_budget(t.sched, budgets[i][0]);
        tiny_plan(&t);
        assert_int_equal(tiny_rows(&t, a), budgets[i][1]);
        tiny_commit(&t, NULL);
    }
    tiny_close(&t);
}

static void a_hit_leaves_one_token(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 32, true, tiny_cfg());
    static const struct {
        int64_t n_shared, n_tok, n_cached;
        const char *miss;
    } cases[] = {
        {4 * P, 4 * P + 1, 4 * P, "nothing missed"},
        {4 * P, 4 * P, 3 * P, "nothing missed"}, /* the last token is fed */
        {3 * P + 5, 4 * P, 3 * P, "nothing missed"},
        {2 * P + 5, 4 * P, 2 * P, "new"},
        {0, 2 * P, 0, "new"},
        {P, P, 0, "short"},
    };
    tiny_job *first =
        tiny_add_shared(&t, 7, 4 * P + 1, (whim_sched_add){.n_tok = 4 * P + 1, .max_tok = 200});
    tiny_finish(&t, first);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_job *job = tiny_add_shared(&t, 7, cases[i].n_shared,
                                        (whim_sched_add){.n_tok = cases[i].n_tok, .max_tok = 200});
        tiny_plan(&t);
        whim_sched_req_info info = whim_sched_req_get(job->req);
        assert_int_equal(info.n_cached, cases[i].n_cached);
        assert_string_equal(whim_miss_name(info.miss), cases[i].miss);
        tiny_commit(&t, job);
        while (job->req != NULL) {
            tiny_step(&t, job);
        }
    }
    whim_sched_stats stats = whim_sched_get_stats(t.sched);
    assert_int_equal(stats.n_hit_tokens, 12 * P);
    assert_int_equal(stats.n_prompt_tokens, 23 * P + 2);
    tiny_close(&t);
}

static void the_reason_of_a_miss_is_known(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 6, true, tiny_cfg());
    whim_sched_add add = {.n_tok = 2 * P + 1, .max_tok = 100};
    tiny_finish(&t, tiny_add_shared(&t, 1, 100, add));
    tiny_finish(&t, tiny_add(&t, (whim_sched_add){.n_tok = 6 * P, .max_tok = 6 * P}));
    assert_true(whim_sched_get_stats(t.sched).n_evicted >= 2);
    tiny_job *again = tiny_add_shared(&t, 1, 100, add);
    tiny_plan(&t);
    assert_string_equal(whim_miss_name(whim_sched_req_get(again->req).miss), "evicted");
    tiny_commit(&t, NULL);
    tiny_finish(&t, again);
    add.all_rows = true;
    tiny_job *rows = tiny_add_shared(&t, 1, 100, add);
    tiny_plan(&t);
    assert_string_equal(whim_miss_name(whim_sched_req_get(rows->req).miss), "rows wanted");
    assert_int_equal(whim_sched_req_get(rows->req).n_cached, 0);
    tiny_commit(&t, NULL);
    tiny_close(&t);
    tiny_open(&t, 6, false, tiny_cfg());
    tiny_job *plain = tiny_add(&t, (whim_sched_add){.n_tok = 2 * P + 1, .max_tok = 100});
    assert_string_equal(whim_miss_name(whim_sched_req_get(plain->req).miss), "not admitted");
    tiny_plan(&t);
    assert_string_equal(whim_miss_name(whim_sched_req_get(plain->req).miss), "no cache");
    tiny_commit(&t, NULL);
    tiny_close(&t);
}

static void all_rows_keep_to_the_results_of_a_step(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 32, true, tiny_cfg());
    tiny_job *other = tiny_add(&t, (whim_sched_add){.n_tok = 3, .max_tok = 200});
    tiny_step(&t, NULL);
    tiny_job *job = tiny_add(&t, (whim_sched_add){.n_tok = 17, .max_tok = 200, .all_rows = true});
    static const int64_t rows[] = {7, 7, 3, 1};
    for (size_t i = 0; i < 4; i++) {
        tiny_plan(&t);
        const whim_plan_item *item = tiny_item(&t, job);
        assert_int_equal(item->n_tok, rows[i]);
        assert_int_equal(item->n_out, rows[i]);
        assert_int_equal(item->chooses, i >= 2);
        assert_int_equal(tiny_rows(&t, other), 1);
        assert_true(t.plan.n_out <= 8);
        tiny_commit(&t, NULL);
    }
    tiny_close(&t);
}

static void the_same_prompt_is_computed_once(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 64, true, tiny_cfg());
    whim_sched_add add = {.n_tok = 6 * P + 3, .max_tok = 300};
    tiny_job *a = tiny_add_shared(&t, 1, 1000, add), *b = tiny_add_shared(&t, 1, 1000, add);
    tiny_job *c = tiny_add_shared(&t, 1, 5 * P, add);
    tiny_job *d = tiny_add(&t, (whim_sched_add){.n_tok = 5, .max_tok = 100});
    int64_t rows = 0;
    for (int i = 0; i < 4; i++) {
        tiny_plan(&t);
        rows += t.plan.n_row;
        assert_true(i > 0 || (tiny_rows(&t, a) == 64 && t.plan.n_item == 1));
        tiny_commit(&t, NULL);
    }
    assert_int_equal(whim_sched_req_get(b->req).n_cached, 6 * P);
    assert_int_equal(whim_sched_req_get(c->req).n_cached, 5 * P);
    assert_true(whim_sched_req_get(d->req).running); /* did not wait behind them */
    assert_int_equal(whim_sched_req_get(d->req).n_prompt, 5);
    assert_true(rows < 64 * 4);
    tiny_close(&t);
}

/* Only as long as the other one gets on: here every step fails. */
static void waiting_for_another_has_an_end(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 64, true, tiny_cfg());
    whim_sched_add add = {.n_tok = 64 + 50, .max_tok = 300};
    tiny_job *a = tiny_add_shared(&t, 1, 1000, add);
    tiny_step(&t, NULL);
    tiny_job *b = tiny_add_shared(&t, 1, 1000, add);
    int n = 0;
    for (bool both = false; !both; n++) {
        assert_true(n < 30);
        tiny_plan(&t);
        assert_int_equal(tiny_rows(&t, a), 50);
        both = tiny_item(&t, b) != NULL;
        whim_sched_abort(t.sched, &t.plan);
    }
    assert_true(n > 8);
    tiny_close(&t);
}

static void priorities_go_first_and_take_places(void **state)
{
    (void)state;
    tiny_sched t;
    whim_sched_cfg cfg = tiny_cfg();
    cfg.max_seqs = 2;
    tiny_open(&t, 32, true, cfg);
    tiny_job *low = tiny_add(&t, (whim_sched_add){.n_tok = 4, .max_tok = 200, .priority = 3});
    tiny_job *mid = tiny_add(&t, (whim_sched_add){.n_tok = 4, .max_tok = 200, .priority = 1});
    tiny_job *mid2 = tiny_add(&t, (whim_sched_add){.n_tok = 4, .max_tok = 200, .priority = 1});
    tiny_plan(&t);
    assert_true(tiny_item(&t, mid) != NULL && tiny_item(&t, mid2) != NULL);
    tiny_commit(&t, NULL);
    tiny_job *high = tiny_add(&t, (whim_sched_add){.n_tok = 4, .max_tok = 200, .priority = -1});
    tiny_plan(&t);
    assert_int_equal(t.plan.n_preempted, 1);
    assert_non_null(tiny_item(&t, high));
    assert_non_null(tiny_item(&t, mid));
    assert_null(tiny_item(&t, mid2)); /* the youngest of the least important */
    tiny_commit(&t, high);
    tiny_plan(&t);
    assert_non_null(tiny_item(&t, mid2)); /* resumes before who never ran */
    assert_null(tiny_item(&t, low));
    assert_int_equal(tiny_rows(&t, mid2), 5); /* all its tokens: no page was full */
    assert_int_equal(whim_sched_req_get(mid2->req).n_preempted, 1);
    tiny_commit(&t, mid);
    tiny_plan(&t);
    assert_non_null(tiny_item(&t, low));
    tiny_commit(&t, NULL);
    tiny_close(&t);
}

static void clients_take_turns(void **state)
{
    (void)state;
    tiny_sched t;
    whim_sched_cfg cfg = tiny_cfg();
    cfg.max_seqs = 1;
    tiny_open(&t, 32, true, cfg);
    tiny_job *many[6], *few[2];
    for (int i = 0; i < 6; i++) {
        many[i] = tiny_add(&t, (whim_sched_add){.n_tok = 40, .max_tok = 50, .client = 1});
    }
    tiny_step(&t, NULL);
    for (int i = 0; i < 2; i++) { /* came last, but its client had nothing yet */
        few[i] = tiny_add(&t, (whim_sched_add){.n_tok = 40, .max_tok = 50, .client = 2});
    }
    /* the first takes the place of the one that runs, which goes on behind it */
    tiny_job *const order[] = {few[0], many[0], many[1], few[1], many[2], many[3]};
    for (int i = 0; i < 6; i++) {
        tiny_plan(&t);
        assert_int_equal(t.plan.n_item, 1);
        assert_ptr_equal(whim_sched_req_user(t.plan.items[0].req), order[i]);
        tiny_commit(&t, order[i]);
    }
    tiny_close(&t);
}

/* How many requests of 40 tokens go before one that is a step less important. */
static int overtaken_by(int64_t age_tokens, int64_t later_age, int n_other)
{
    tiny_sched t;
    whim_sched_cfg cfg = tiny_cfg();
    cfg.max_seqs = 1;
    cfg.age_tokens = age_tokens;
    tiny_open(&t, 32, true, cfg);
    if (later_age > 0) {
        whim_sched_set_age(t.sched, later_age);
    }
    for (int i = 0; i < n_other; i++) { /* clients that wait for long */
        tiny_add(&t, (whim_sched_add){.n_tok = 40,
                                      .max_tok = 40,
                                      .priority = 4,
                                      .among_all = true,
                                      .client = (uint64_t)(1000 + i)});
    }
    tiny_job *low = tiny_add(
        &t, (whim_sched_add){
                .n_tok = 40, .max_tok = 40, .priority = 1, .among_all = true, .client = 999});
    int n = 0;
    for (; !whim_sched_req_get(low->req).running;
         n++) { /* always another one that is more important */
        assert_true(n < 50);
        tiny_job *job =
            tiny_add(&t, (whim_sched_add){.n_tok = 40, .max_tok = 40, .client = (uint64_t)n});
        tiny_plan(&t);
        if (tiny_item(&t, low) != NULL) {
            tiny_commit(&t, low);
            break;
        }
        tiny_commit(&t, job);
    }
    tiny_close(&t);
    return n;
}

static void waiting_ages(void **state)
{
    (void)state;
    int n = overtaken_by(200, 0, 0);
    assert_true(n > 3 && n < 20);
    assert_int_equal(overtaken_by(0, 200, 0), n);
    assert_true(overtaken_by(200, 20, 0) < n);
    /* It counts what is served, however many share it. */
    int among_many = overtaken_by(200, 0, 8);
    assert_true(among_many > n / 2 && among_many < 2 * n);
}

static void preemption_loses_nothing(void **state)
{
    (void)state;
    tiny_sched t;
    tiny_open(&t, 4, true, tiny_cfg());
    tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = P + 30, .max_tok = 4 * P});
    tiny_job *b = tiny_add(&t, (whim_sched_add){.n_tok = P + 20, .max_tok = 4 * P});
    int steps = 0;
    for (; whim_sched_req_get(b->req).n_preempted == 0; steps++) { /* until a needs a fifth page */
        assert_true(steps < 40);
        tiny_step(&t, NULL);
    }
    whim_sched_req_info info = whim_sched_req_get(b->req);
    assert_false(info.running);
    assert_true(info.n_tok > P + 20);
    int64_t known = info.n_tok;
    assert_true(whim_sched_req_get(a->req).running);
    int32_t before[TINY_CTX];
    memcpy(before, b->tokens, sizeof before);
    while (whim_sched_req_get(a->req).n_tok < 3 * P) {
        tiny_step(&t, NULL);
        assert_false(whim_sched_req_get(b->req).running);
    }
    tiny_finish(&t, a);
    tiny_plan(&t);
    assert_non_null(tiny_item(&t, b));
    info = whim_sched_req_get(b->req);
    assert_int_equal(info.n_tok, known);
    assert_memory_equal(before, b->tokens, (size_t)known * sizeof *before);
    tiny_commit(&t, NULL);
    tiny_finish(&t, b);
    for (int64_t i = P + 20; i <= known; i++) {
        assert_int_equal(b->tokens[i], (int32_t)i); /* what tiny_commit chooses */
    }
    tiny_close(&t);
}

typedef struct disk {
    tiny_sched *t;
    int64_t n_page, max, n; /* as it was asked; what it gives */
} disk;

static int64_t fake_fetch(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max,
                          int32_t *pages)
{
    disk *d = ctx;
    (void)tokens;
    d->n_page = n_page;
    d->max = max;
    for (int64_t i = 0; i < d->n; i++) {
        pages[i] = whim_page_pool_take(&d->t->pool);
        assert_true(pages[i] >= 0);
    }
    return d->n;
}

static void more_comes_from_the_disk(void **state)
{
    (void)state;
    tiny_sched t;
    disk d = {.t = &t, .n = 0};
    whim_sched_cfg cfg = tiny_cfg();
    cfg.store = (whim_sched_store){.fetch = fake_fetch, .ctx = &d};
    tiny_open(&t, 6, true, cfg);
    tiny_finish(&t, tiny_add_shared(&t, 1, P, (whim_sched_add){.n_tok = 4 * P, .max_tok = 190}));
    d.n = 2;
    tiny_job *job = tiny_add_shared(&t, 1, 5 * P, (whim_sched_add){.n_tok = 5 * P, .max_tok = 190});
    tiny_plan(&t); /* evicts to make room for the disk's pages */
    assert_int_equal(d.n_page, 1);
    assert_int_equal(d.max, 3);
    assert_int_equal(whim_sched_req_get(job->req).n_cached, 3 * P);
    assert_int_equal(tiny_rows(&t, job), 64);
    assert_int_equal(whim_prefix_tree_peek(t.tree, job->tokens, 5 * P),
                     3); /* others have them too */
    tiny_commit(&t, NULL);
    tiny_close(&t);
}

/* Three requests that begin alike: what they share is computed once, whether the others came with
 * the first one or while it was under way; so is a whole prompt. */
static void hybrids_share_what_is_underway(void **state)
{
    (void)state;
    enum { SHARED = 10 * P, N = 12 * P + 1 };
    for (int late = 0; late < 2; late++) {
        for (int equal = 0; equal < 2; equal++) {
            int64_t n_shared = equal ? N : SHARED + 3, n_row = 0;
            whim_sched_add add = {.n_tok = N, .max_tok = N + 9};
            tiny_sched t;
            tiny_job *jobs[3];
            tiny_open_hybrid(&t, 128, 16, tiny_cfg());
            jobs[0] = tiny_add_shared(&t, 3, n_shared, add);
            for (int i = 0; i < late; i++) {
                tiny_plan(&t);
                n_row += t.plan.n_row;
                tiny_commit(&t, NULL);
            }
            jobs[1] = tiny_add_shared(&t, 3, n_shared, add);
            jobs[2] = tiny_add_shared(&t, 3, n_shared, add);
            for (int i = 0; i < 40 && whim_sched_req_get(jobs[2]->req).n_tok == N; i++) {
                tiny_plan(&t);
                n_row += t.plan.n_row;
                tiny_commit(&t, jobs[0]->req != NULL ? jobs[0] : jobs[1]);
            }
            int64_t cached = equal ? N - 1 : SHARED;
            assert_int_equal(whim_sched_req_get(jobs[2]->req).n_cached, cached);
            assert_true(n_row <= N + 2 * (N - cached) + 8);
            tiny_close(&t);
        }
    }
}

static void nobody_waits_for_what_is_not_kept(void **state)
{
    (void)state;
    enum { N = P + 1 };
    tiny_sched t;
    tiny_open_hybrid(&t, 64, 4, tiny_cfg()); /* a state for each that runs, and no more */
    tiny_add_shared(&t, 3, N, (whim_sched_add){.n_tok = N, .max_tok = N + 9});
    tiny_job *b = tiny_add_shared(&t, 3, N, (whim_sched_add){.n_tok = N, .max_tok = N + 9});
    tiny_plan(&t);
    assert_true(tiny_rows(&t, b) > 0);
    tiny_commit(&t, NULL);
    tiny_close(&t);
}

/* One row each, then proposals as far as rows, results and free pages go. */
static void proposals_take_what_is_left(void **state)
{
    (void)state;
    static const int32_t guess[] = {500, 501, 502, 503, 504, 505, 506, 507};
    tiny_sched t;
    whim_sched_cfg cfg = tiny_cfg();
    cfg.max_outs = 8;
    tiny_open(&t, 8, true, cfg);
    tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = 5, .max_tok = 100});
    tiny_job *b = tiny_add(&t, (whim_sched_add){.n_tok = 5, .max_tok = 9});
    whim_sched_propose(t.sched, a->req, guess, 8); /* it waits: nothing comes of it */
    tiny_step(&t, NULL);
    assert_int_equal(t.plan.n_proposed, 0);
    whim_sched_set_budget(t.sched, 4); /* proposals are apart from it */
    whim_sched_propose(t.sched, a->req, guess, 4);
    whim_sched_propose(t.sched, b->req, guess, 8); /* 6 tokens of 9: one more is chosen after two */
    tiny_plan(&t);
    assert_int_equal(tiny_item(&t, a)->n_proposed, 4);
    assert_int_equal(tiny_item(&t, b)->n_proposed, 2);
    assert_int_equal(t.plan.n_row, 8);
    assert_int_equal(t.plan.n_out, 8);
    assert_false(tiny_item(&t, a)->is_prefill);
    assert_memory_equal(tiny_item(&t, a)->tokens + 1, guess, 4 * sizeof *guess);
    /* Two of a's are right, none of b's. */
    static const int32_t made_a[] = {500, 501, 9}, made_b[] = {7};
    whim_sched_made made[2];
    for (int64_t i = 0; i < 2; i++) {
        const whim_plan_item *item = &t.plan.items[i];
        bool is_a = whim_sched_req_user(item->req) == a;
        assert_int_equal(whim_sequence_grow(item->seq, &t.pool, item->n_tok), WHIM_ERR_OK);
        made[i] = (whim_sched_made){is_a ? made_a : made_b, is_a ? 3 : 1, false};
    }
    whim_sched_commit(t.sched, &t.plan, made);
    assert_int_equal(whim_sched_req_get(a->req).n_tok, 9);
    assert_int_equal(whim_sched_req_get(a->req).n_fed, 8);
    assert_int_equal(whim_sched_req_get(b->req).n_tok, 7);
    assert_int_equal(whim_sched_req_get(b->req).n_fed, 6);
    assert_int_equal(a->tokens[8], 9);
    tiny_plan(&t); /* they were for one plan only */
    assert_int_equal(t.plan.n_row, 2);
    assert_int_equal(tiny_item(&t, a)->seq->len, 8);
    tiny_commit(&t, NULL);
    tiny_close(&t);
}

static void proposals_evict_and_preempt_nobody(void **state)
{
    (void)state;
    static const int32_t guess[] = {500, 501, 502, 503};
    for (int n_page = 2; n_page <= 3; n_page++) {
        tiny_sched t;
        tiny_open(&t, n_page, true, tiny_cfg());
        tiny_job *old = tiny_add(&t, (whim_sched_add){.n_tok = P, .max_tok = P + 1});
        tiny_finish(&t, old); /* its page is the tree's now */
        tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = P - 2, .max_tok = 2 * P});
        tiny_step(&t, NULL);
        whim_sched_propose(t.sched, a->req, guess, 4);
        tiny_plan(&t); /* position P - 2, one more on the page, then another page */
        assert_int_equal(tiny_item(&t, a)->n_proposed, n_page == 2 ? 1 : 4);
        assert_int_equal(whim_sched_get_stats(t.sched).n_evicted, 0);
        tiny_commit(&t, NULL);
        tiny_close(&t);
    }
}

/* Of a model with states the whole step is kept, and none goes beyond a place where a state is. */
static void proposals_of_hybrids(void **state)
{
    (void)state;
    static const int32_t guess[] = {500, 501, 502, 503, 504, 505};
    static const struct {
        int64_t n_tok, max_kept, n_proposed;
    } cases[] = {{5, 0, 0}, {5, 1, 0}, {5, 4, 3}, {5, 64, 6}, {2 * P - 4, 64, 3}, {2 * P, 64, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_sched t;
        whim_sched_cfg cfg = tiny_cfg();
        cfg.max_kept = cases[i].max_kept;
        cfg.state_every = 2 * P;
        tiny_open_hybrid(&t, 8, 8, cfg);
        tiny_job *a = tiny_add(&t, (whim_sched_add){.n_tok = cases[i].n_tok, .max_tok = 5 * P});
        for (int k = 0; whim_sched_req_get(a->req).n_tok == cases[i].n_tok; k++) {
            assert_true(k < 10);
            tiny_step(&t, NULL);
        }
        whim_sched_propose(t.sched, a->req, guess, 6);
        tiny_plan(&t);
        assert_int_equal(tiny_item(&t, a)->n_proposed, cases[i].n_proposed);
        tiny_commit(&t, NULL);
        tiny_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hybrids_share_what_is_underway),
        cmocka_unit_test(nobody_waits_for_what_is_not_kept),
        cmocka_unit_test(prefill_is_cut_and_mixed_with_decode),
        cmocka_unit_test(the_budget_can_be_made_smaller),
        cmocka_unit_test(a_hit_leaves_one_token),
        cmocka_unit_test(the_reason_of_a_miss_is_known),
        cmocka_unit_test(all_rows_keep_to_the_results_of_a_step),
        cmocka_unit_test(the_same_prompt_is_computed_once),
        cmocka_unit_test(waiting_for_another_has_an_end),
        cmocka_unit_test(priorities_go_first_and_take_places),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(waiting_ages),
        cmocka_unit_test(preemption_loses_nothing),
        cmocka_unit_test(more_comes_from_the_disk),
        cmocka_unit_test(proposals_take_what_is_left),
        cmocka_unit_test(proposals_evict_and_preempt_nobody),
        cmocka_unit_test(proposals_of_hybrids),
    };
    return cmocka_run_group_tests_name("sched_plan", tests, NULL, NULL);
}

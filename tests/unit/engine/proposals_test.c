/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals from end to end, without a service: scheduler, prefix tree and runner on tiny
 * checkpoints, recurrent ones among them. A proposer that knows the plain text says some of it and
 * some nonsense; pages and states are few, so that requests are preempted and go on from
 * checkpoints; steps fail. Every text is the plain one, cold and out of the tree. */
#include "sched/sched.h"
#include "support/cmocka.h"
#include "support/drive.h"

#include <stdio.h>
#include <string.h>

enum { CTX = 128, MAX_SEQS = 3, STEP = 20, OUTS = 16, KEPT = 12, N_JOB = 6, MADE = 36, PAGES = 6 };

typedef struct job {
    int32_t expected[CTX], tokens[CTX];
    int64_t n_prompt;
    whim_sched_req *req;
} job;

typedef struct world {
    whim_engine *engine;
    whim_runner *runner;
    whim_prefix_tree *tree;
    whim_sched *sched;
    bool has_states;
    job jobs[N_JOB];
    uint32_t draws;
    int64_t n_right, n_wrong, n_failed, n_preempted, n_cached;
} world;

static uint32_t draw(world *w, uint32_t n)
{
    w->draws = w->draws * 1664525u + 1013904223u;
    return (w->draws >> 16) % n;
}

/* --- the plain text --------------------------------------------------------------------------- */

static void make_expected(world *w, job *j)
{
    whim_diag diag = {""};
    whim_sequence *seq;
    assert_int_equal(whim_runner_sequence_create(w->runner, &seq), WHIM_ERR_OK);
    for (int64_t at = 0; at < j->n_prompt + MADE - 1;) {
        int64_t left = j->n_prompt - at, n = left > STEP ? STEP : left > 1 ? left : 1;
        whim_step_part part = {seq, j->expected + at, n, 1, 1};
        assert_int_equal(whim_runner_step(w->runner, &part, 1, &diag), WHIM_ERR_OK);
        at += n;
        if (at >= j->n_prompt) {
            j->expected[at] = whim_exec_best(whim_runner_exec(w->runner), 0).ids[0];
        }
    }
    whim_runner_sequence_destroy(w->runner, seq);
}

/* --- one step --------------------------------------------------------------------------------- */

static void propose(world *w)
{
    for (int i = 0; i < N_JOB; i++) {
        job *j = &w->jobs[i];
        int32_t guess[6];
        int64_t n = draw(w, 7);
        if (j->req == NULL || n == 0) {
            continue;
        }
        int64_t at = whim_sched_req_get(j->req).n_tok;
        for (int64_t k = 0; k < n; k++) {
            bool right = at + k < j->n_prompt + MADE && draw(w, 5) > 0;
            guess[k] = right ? j->expected[at + k] : (int32_t)draw(w, 32);
        }
        whim_sched_propose(w->sched, j->req, guess, n);
    }
}

/* What came of an item whose outputs begin at `out`: the proposals that were right and one more, up
 * to the end of the text. */
static whim_sched_made made_of(world *w, const whim_plan_item *item, int64_t out, int32_t *tokens)
{
    const job *j = whim_sched_req_user(item->req);
    whim_sched_made made = {.tokens = tokens};
    int64_t n_tok = whim_sched_req_get(item->req).n_tok;
    bool right = item->chooses;
    while (right && !made.ended) {
        tokens[made.n] = whim_exec_best(whim_runner_exec(w->runner), out + made.n).ids[0];
        assert_int_equal(tokens[made.n], j->expected[n_tok + made.n]);
        right = made.n < item->n_proposed && item->tokens[1 + made.n] == tokens[made.n];
        made.n++;
        made.ended = n_tok + made.n == j->n_prompt + MADE;
    }
    return made;
}

static void take(world *w, const whim_plan *plan)
{
    int32_t tokens[MAX_SEQS][8];
    whim_sched_made made[MAX_SEQS];
    whim_taken taken[MAX_SEQS];
    whim_diag diag = {""};
    int64_t out = 0, n_taken = 0;
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        made[i] = made_of(w, item, out, tokens[i]);
        out += item->n_out;
        if (item->n_proposed > 0) {
            w->n_right += made[i].n - 1;
            w->n_wrong += item->n_proposed - (made[i].n - 1);
            taken[n_taken++] = (whim_taken){item->seq, made[i].n};
        }
        if (made[i].ended) {
            whim_sched_req_info info = whim_sched_req_get(item->req);
            w->n_preempted += info.n_preempted;
            w->n_cached += info.n_cached;
            ((job *)whim_sched_req_user(item->req))->req = NULL;
        }
    }
    if (w->has_states && whim_runner_advance(w->runner, taken, n_taken, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_sched_commit(w->sched, plan, made);
}

/* False: there is nothing to do. */
static bool step(world *w)
{
    whim_plan plan;
    whim_step_part parts[MAX_SEQS];
    whim_diag diag = {""};
    propose(w);
    whim_sched_plan(w->sched, &plan);
    for (int64_t i = 0; i < plan.n_item; i++) {
        const whim_plan_item *item = &plan.items[i];
        parts[i] = (whim_step_part){.seq = item->seq,
                                    .tokens = item->tokens,
                                    .n_tok = item->n_tok,
                                    .n_out = item->n_out,
                                    .n_top = 1,
                                    .keeps_state = w->has_states && item->n_proposed > 0};
    }
    if (plan.n_item == 0) {
        return false;
    }
    if (whim_runner_step(w->runner, parts, plan.n_item, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    if (draw(w, 40) == 0) { /* nobody hears of its results */
        whim_sched_abort(w->sched, &plan);
        w->n_failed++;
        return true;
    }
    take(w, &plan);
    return true;
}

/* --- a world ---------------------------------------------------------------------------------- */

static bool copy_state(void *ctx, int32_t from, int32_t to)
{
    const world *w = ctx;
    return whim_exec_state_copy(whim_runner_exec(w->runner), 0, from, to) == WHIM_ERR_OK;
}

static void open_world(world *w, const char *model, const char *backend, bool graphs)
{
    char path[128];
    whim_diag diag = {""};
    snprintf(path, sizeof path, "tests/data/golden/%s", model);
    whim_engine_cfg cfg = {.model = path,
                           .backend = backend,
                           .n_thread = 1,
                           .n_checkpoint = 3,
                           .max_kept = KEPT,
                           .max_step_tokens = STEP,
                           .max_seqs = MAX_SEQS,
                           .max_outs = OUTS,
                           .graphs = graphs ? WHIM_GRAPHS_ON : WHIM_GRAPHS_OFF,
                           .ctx = CTX};
    *w = (world){.engine = drive_open(&cfg, &diag)};
    assert_non_null(w->engine);
    cfg.kv_mem = whim_engine_runner_plan(w->engine)->page_bytes * PAGES;
    whim_engine_close(w->engine);
    w->engine = drive_open(&cfg, &diag);
    assert_non_null(w->engine);
    w->runner = whim_engine_runner(w->engine);
    int32_t n_vocab = whim_engine_config(w->engine)->n_vocab;
    for (int32_t i = 0; i < N_JOB; i++) {
        job *j = &w->jobs[i];
        j->n_prompt = 30 + 9 * i;
        for (int32_t k = 0; k < j->n_prompt; k++) { /* alike for a page, then each its own */
            j->expected[k] = (k * 37 + 5 + (k < 32 ? 0 : i * 11)) % n_vocab;
        }
        make_expected(w, j);
    }
}

static void open_sched(world *w)
{
    whim_page_pool *states = whim_runner_states(w->runner);
    w->has_states = states->n_page > 0;
    whim_sched_cfg cfg = {
        .max_seqs = MAX_SEQS,
        .max_step_tokens = STEP,
        .max_outs = OUTS,
        .max_ctx = CTX,
        .pool = whim_runner_pool(w->runner),
        .states = w->has_states ? states : NULL,
        .state_every = whim_engine_limits(w->engine)->page_len,
        .max_kept = whim_engine_limits(w->engine)->max_kept,
        .copy_state = copy_state,
        .copy_ctx = w,
    };
    assert_int_equal(whim_prefix_tree_create(cfg.pool, NULL, NULL, &w->tree), WHIM_ERR_OK);
    if (w->has_states) {
        assert_int_equal(whim_prefix_tree_set_states(w->tree, states), WHIM_ERR_OK);
    }
    cfg.tree = w->tree;
    assert_int_equal(whim_sched_create(&cfg, &w->sched), WHIM_ERR_OK);
}

static void run_all(world *w)
{
    for (int i = 0; i < N_JOB; i++) {
        job *j = &w->jobs[i];
        whim_diag diag = {""};
        memcpy(j->tokens, j->expected, (size_t)j->n_prompt * sizeof *j->tokens);
        whim_sched_add add = {
            .tokens = j->tokens, .n_tok = j->n_prompt, .max_tok = j->n_prompt + MADE, .user = j};
        assert_int_equal(whim_sched_submit(w->sched, &add, &j->req, &diag), WHIM_ERR_OK);
    }
    for (int n = 0; step(w); n++) {
        assert_true(n < 3000);
    }
    for (int i = 0; i < N_JOB; i++) {
        assert_null(w->jobs[i].req);
    }
}

static void texts_are_the_plain_ones(void **state)
{
    (void)state;
    static const struct {
        const char *model, *backend;
        bool graphs;
    } cases[] = {
        {"llama-bf16", "cpu", false},    {"qwen35-f32", "cpu", false},
        {"qwen35-f32", "cpu", true},     {"qwen35-f32", "guard", false},
        {"qwen35-f32", "guard", true},   {"qwen35-moe", "cpu", true},
        {"qwen3next-f32", "cpu", false}, {"qwen3next-f32", "guard", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static world w;
        open_world(&w, cases[i].model, cases[i].backend, cases[i].graphs);
        open_sched(&w);
        run_all(&w); /* cold */
        run_all(&w); /* from the tree */
        print_message("%s on %s: %d proposals right, %d wrong, %d steps failed, %d preempted\n",
                      cases[i].model, cases[i].backend, (int)w.n_right, (int)w.n_wrong,
                      (int)w.n_failed, (int)w.n_preempted);
        assert_true(w.n_right > 100 && w.n_wrong > 20 && w.n_failed > 0);
        assert_true(w.n_preempted > 0 && w.n_cached > 0);
        whim_sched_destroy(w.sched);
        whim_prefix_tree_destroy(w.tree);
        whim_engine_close(w.engine);
    }
}

/* The plan says what kept rows take, of models that need them. */
static void the_plan_has_kept_rows(void **state)
{
    (void)state;
    static const char *const models[] = {"tests/data/golden/qwen35-f32",
                                         "tests/data/golden/llama-bf16"};
    for (int i = 0; i < 4; i++) {
        whim_diag diag = {""};
        whim_engine *engine;
        whim_engine_cfg cfg = {.model = models[i / 2], .max_kept = i % 2 == 0 ? KEPT : 0};
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
        const whim_memory_plan *plan = whim_engine_plan(engine);
        int n = 0;
        for (int32_t p = 0; p < plan->n_part; p++) {
            n += strcmp(plan->parts[p].name, "proposals") == 0 && plan->parts[p].bytes > 0;
        }
        assert_int_equal(n, i == 0);
        whim_engine_close(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_the_plain_ones),
        cmocka_unit_test(the_plan_has_kept_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

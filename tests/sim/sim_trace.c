/* SPDX-License-Identifier: Apache-2.0 */
/* A random trace: requests come, are cancelled, end; steps fail; all within a small pool. */
#include "sim.h"

#include "base/alloc.h"

#include <string.h>

enum { N_STEM = 4 };

/* --- jobs ------------------------------------------------------------------------------------- */

/* Pages of only two kinds: the same tokens after others are another page. */
static void repeat_pages(sim_world *w, sim_job *job, int64_t n)
{
    uint64_t kinds = (uint64_t)sim_draw(w, 1 << 20);
    for (int64_t i = 0; i < n; i++) {
        uint64_t kind = kinds >> (i / SIM_PAGE) % 20 & 1;
        job->tokens[i] = (int32_t)(sim_hash(kind, (int32_t)(i % SIM_PAGE)) % SIM_VOCAB);
    }
}

/* Prompts share beginnings: some pages of one of a few stems, then tokens of their own, or those of
 * another. */
static void job_prompt(sim_world *w, sim_job *job, int64_t max)
{
    int64_t n = 1 + sim_draw(w, sim_draw(w, 3) == 0 ? max : max / 2 + 1);
    if (w->n_job > 0 && sim_draw(w, 4) == 0) {
        const sim_job *other = &w->jobs[sim_draw(w, w->n_job)];
        int64_t known =
            other->n_end; /* a conversation that goes on, or the same prompt once more */
        n = sim_draw(w, 2) == 0 || n > known ? (other->n_prompt < max ? other->n_prompt : max) : n;
        memcpy(job->tokens, other->expected, (size_t)n * sizeof *job->tokens);
    } else if (sim_draw(w, 4) == 0) {
        repeat_pages(w, job, n);
    } else {
        uint64_t stem = (uint64_t)sim_draw(w, N_STEM);
        int64_t shared = sim_draw(w, n + 1);
        for (int64_t i = 0; i < n; i++) {
            uint64_t h = sim_hash(stem, (int32_t)i);
            job->tokens[i] =
                i < shared ? (int32_t)(h % SIM_VOCAB) : (int32_t)sim_draw(w, SIM_VOCAB);
        }
    }
    job->n_prompt = n;
}

/* What it says when it runs alone. */
static void job_expect(sim_job *job)
{
    uint64_t made_from = 0;
    for (int64_t i = 0; i < job->n_end; i++) {
        job->expected[i] = i < job->n_prompt ? job->tokens[i] : sim_next_token(made_from);
        made_from = sim_hash(made_from, job->expected[i]);
    }
}

static bool job_submit(sim_world *w)
{
    sim_job *job = &w->jobs[w->n_job];
    int64_t fits = w->pool.n_page * SIM_PAGE;
    int64_t max = w->cfg.max_ctx < fits ? w->cfg.max_ctx : fits;
    *job = (sim_job){.submitted_at = w->n_step, .all_rows = sim_draw(w, 8) == 0};
    job_prompt(w, job, max - 1);
    job->max_tok = job->n_prompt + sim_draw(w, max - job->n_prompt + 1);
    int64_t longest = job->max_tok - job->n_prompt;
    job->n_end =
        job->n_prompt + (longest > 0 && sim_draw(w, 3) > 0 ? sim_draw(w, longest + 1) : longest);
    job_expect(job);
    whim_sched_add add = {
        .tokens = job->tokens,
        .n_tok = job->n_prompt,
        .max_tok = job->max_tok,
        .priority = (int32_t)sim_draw(w, 5) - 2,
        .among_all = sim_draw(w, 3) == 0,
        .client = (uint64_t)sim_draw(w, 4) * !w->is_lone,
        .all_rows = job->all_rows,
        .user = job,
    };
    whim_diag diag;
    whim_err err = whim_sched_submit(w->sched, &add, &job->req, &diag);
    if (err != WHIM_ERR_OK) {
        return sim_fail(w, "a request that fits is refused: %s", diag.text);
    }
    w->n_job++;
    w->n_live++;
    w->work += job->n_end + 1;
    return true;
}

static void job_over(sim_world *w, sim_job *job)
{
    job->req = NULL;
    job->is_over = true;
    w->n_live--;
}

static void cancel_some(sim_world *w)
{
    for (int64_t i = 0; i < w->n_job; i++) {
        sim_job *job = &w->jobs[i];
        if (job->req != NULL && sim_draw(w, w->cancel_one_in) == 0) {
            whim_sched_remove(w->sched, job->req);
            job->cancelled = true;
            w->n_cancelled++;
            job_over(w, job);
        }
    }
}

/* A smaller step, but never too small for a row of everyone who can run. */
static void change_budget(sim_world *w)
{
    int64_t all = w->cfg.max_seqs < w->cfg.max_outs ? w->cfg.max_seqs : w->cfg.max_outs;
    int64_t n = 1 + sim_draw(w, w->cfg.max_step_tokens);
    whim_sched_set_budget(w->sched, n);
    w->max_rows = n > all ? n : all;
    w->max_rows = w->max_rows < w->cfg.max_step_tokens ? w->max_rows : w->cfg.max_step_tokens;
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Some guesses are a draft's, which has passes of its own before the step. */
static bool draft_some(sim_world *w, sim_job *job, int64_t n)
{
    whim_sequence *seq = whim_sched_at_last(job->req);
    bool ran = false;
    if (seq == NULL || n == 0 || sim_draw(w, 2) == 0) {
        return true;
    }
    bool good = sim_draft(w, seq, 1 + n, &ran);
    w->n_drafted += ran;
    return good;
}

/* Guesses of what comes next, some of them right, of any number. */
static bool propose_some(sim_world *w)
{
    for (int64_t i = 0; i < w->n_job && w->with_proposals; i++) {
        sim_job *job = &w->jobs[i];
        int32_t tokens[SIM_MAX_PROPOSED];
        int64_t n = sim_draw(w, SIM_MAX_PROPOSED + 1), good = 1 + sim_draw(w, 8);
        if (job->req == NULL || sim_draw(w, 3) == 0) {
            continue;
        }
        int64_t at = whim_sched_req_get(job->req).n_tok;
        for (int64_t k = 0; k < n; k++) {
            bool known = at + k < job->n_end && sim_draw(w, good) > 0;
            tokens[k] = known ? job->expected[at + k] : (int32_t)sim_draw(w, SIM_VOCAB);
        }
        if (!draft_some(w, job, n)) {
            return false;
        }
        whim_sched_propose(w->sched, job->req, tokens, n);
    }
    return true;
}

/* The proposals of a step that failed. */
static void count_lost(const whim_plan *plan)
{
    for (int64_t i = 0; i < plan->n_item; i++) {
        if (plan->items[i].req != NULL && plan->items[i].n_proposed > 0) {
            sim_job *job = whim_sched_req_user(plan->items[i].req);
            job->n_lost++;
        }
    }
}

/* Tokens of an item, up to the one that ends its request. */
static bool take_tokens(sim_world *w, const sim_job *job, int64_t n_tok, const sim_chosen *chosen,
                        whim_sched_made *made)
{
    for (int64_t k = 0; k < chosen->n && !made->ended; k++) {
        if (n_tok + k < job->n_end && chosen->tokens[k] != job->expected[n_tok + k]) {
            return sim_fail(w, "token %lld is not that of a run alone", (long long)(n_tok + k));
        }
        made->n = k + 1;
        made->ended = n_tok + k + 1 >= job->n_end || n_tok + k + 1 >= job->max_tok;
    }
    return true;
}

/* Note what came and say who is over. */
static bool take_results(sim_world *w, const whim_plan *plan, const sim_chosen *chosen,
                         whim_sched_made *made)
{
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        if (item->req == NULL) {
            continue; /* it ended, or was cancelled, while its step was under way */
        }
        sim_job *job = whim_sched_req_user(item->req);
        whim_sched_req_info info = whim_sched_req_get(item->req);
        if (job->all_rows && job->n_rows < job->n_prompt && item->n_out > 0) {
            job->n_rows += item->n_out;
        }
        made[i] = (whim_sched_made){.tokens = chosen[i].tokens};
        if (!item->chooses) {
            continue;
        }
        if (!take_tokens(w, job, info.n_tok, &chosen[i], &made[i])) {
            return false;
        }
        w->n_proposed += item->n_proposed;
        w->n_right += made[i].n - 1;
        job->n_right += made[i].n - 1;
        sim_advance(w, item, made[i].n - 1);
        sim_forget(w, item, made[i].n - 1);
        if (made[i].ended) {
            if (job->all_rows && job->n_rows != job->n_prompt) {
                return sim_fail(w, "%lld of %lld prompt rows came", (long long)job->n_rows,
                                (long long)job->n_prompt);
            }
            w->n_ended++;
            w->n_resumed += info.n_preempted > 0;
            w->n_all += info.n_preempted > 0 && job->n_lost > 0 && job->n_right > 0;
            w->n_cached += info.n_cached;
            job_over(w, job);
        }
    }
    return true;
}

/* Now and then a step that fails takes all that pages and states hold with it. */
static bool lose_all(sim_world *w)
{
    if (sim_draw(w, 60) > 0) { /* seldom, or long ones would never end */
        return true;
    }
    whim_sched_lose(w->sched);
    memset(w->pages, 0x5a, sizeof w->pages);
    memset(w->state_of, 0x5a, sizeof w->state_of);
    w->n_lost++;
    return w->pool.n_free == w->pool.n_page ||
           sim_fail(w, "%lld of %lld pages are free after a loss", (long long)w->pool.n_free,
                    (long long)w->pool.n_page);
}

static void plan_note(sim_world *w, const whim_plan *plan)
{
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        const sim_job *job = whim_sched_req_user(item->req);
        w->plans = sim_hash(w->plans, (int32_t)(job - w->jobs));
        w->plans = sim_hash(w->plans, (int32_t)(item->n_tok * 100 + item->n_out));
    }
    w->plans = sim_hash(w->plans, (int32_t)plan->n_preempted);
}

/* A new plan, and its step. False in *more: there is nothing to do, or the step failed. */
static bool begin(sim_world *w, bool *more)
{
    *more = false;
    if (!propose_some(w) || !sim_check_pages(w)) {
        return false;
    }
    whim_alloc_guard_enter(); /* trips in a test build when a plan allocates */
    whim_sched_plan(w->sched, &w->plan);
    whim_alloc_guard_leave();
    plan_note(w, &w->plan);
    if (!sim_check_pages(w) || !sim_check_plan(w, &w->plan)) {
        return false;
    }
    if (w->plan.n_item == 0) {
        return w->n_live == 0 ||
               sim_fail(w, "nothing is planned for %lld requests", (long long)w->n_live);
    }
    w->n_step++;
    *more = sim_draw(w, 20) > 0 && sim_step(w, &w->plan, w->chosen);
    if (!*more && w->failure[0] == '\0') { /* it failed before the sequences grew */
        count_lost(&w->plan);
        whim_sched_abort(w->sched, &w->plan);
        w->n_aborted++;
        return lose_all(w) && sim_check_pages(w);
    }
    return w->failure[0] == '\0' && sim_check_pages(w);
}

/* The step after the one that has run, before that one is committed; the device knows the
 * tokens. */
static bool go_ahead(sim_world *w, whim_plan *ahead, sim_chosen *chosen)
{
    bool over[64] = {false};
    for (int64_t i = 0; i < w->plan.n_item; i++) {
        const whim_plan_item *item = &w->plan.items[i];
        if (item->req != NULL) {
            sim_job *job = whim_sched_req_user(item->req);
            over[i] = whim_sched_req_get(item->req).n_tok + 1 >= job->max_tok;
            if (item->chooses && !over[i] && item->n_proposed == 0) {
                job->tokens[item->seq->len] = w->chosen[i].tokens[0];
            }
        }
    }
    whim_sched_plan_ahead(w->sched, &w->plan, over, ahead);
    plan_note(w, ahead);
    w->n_ahead += ahead->n_item > 0;
    w->n_step += ahead->n_item > 0;
    return sim_check_ahead(w, ahead) && sim_step(w, ahead, chosen) && sim_check_pages(w);
}

static bool one_step(sim_world *w)
{
    whim_plan ahead = {0};
    sim_chosen later[64];
    whim_sched_made made[64] = {{0}};
    bool more = w->is_underway;
    if (!more && (!begin(w, &more) || !more)) {
        return w->failure[0] == '\0';
    }
    w->is_underway = false;
    if (w->with_ahead && sim_draw(w, 4) > 0 && !go_ahead(w, &ahead, later)) {
        return false;
    }
    int64_t fate = sim_draw(w, 20);
    if (fate == 0 && (!w->with_states || sim_draw(w, 10) == 0)) {
        /* It failed after the sequences grew; with states it begins again then, so not too
         * often. */
        for (int64_t i = 0; i < w->plan.n_item; i++) {
            if (w->plan.items[i].req != NULL) {
                sim_forget(w, &w->plan.items[i], 0);
            }
        }
        for (int64_t i = 0; i < ahead.n_item; i++) {
            ahead.items[i].n_proposed = 1; /* its one row */
            sim_forget(w, &ahead.items[i], 0);
        }
        count_lost(&w->plan);
        whim_sched_abort(w->sched, &w->plan);
        w->n_aborted++;
        return lose_all(w) && sim_check_pages(w);
    }
    if (!take_results(w, &w->plan, w->chosen, made)) {
        return false;
    }
    whim_alloc_guard_enter();
    whim_sched_commit(w->sched, &w->plan, made);
    whim_alloc_guard_leave();
    w->is_underway = ahead.n_item > 0;
    w->plan = ahead;
    memcpy(w->chosen, later, sizeof later);
    return sim_check_pages(w);
}

/* Nobody waits longer than all work of the trace takes one row at a time, thrice over for what is
 * computed again and for steps that fail. */
static bool check_waiting(sim_world *w)
{
    for (int64_t i = 0; i < w->n_job; i++) {
        const sim_job *job = &w->jobs[i];
        if (job->req != NULL &&
            w->n_step - job->submitted_at > (w->with_states ? 9 : 3) * w->work + 100) {
            return sim_fail(w, "request %lld did not end in %lld steps", (long long)i,
                            (long long)(w->n_step - job->submitted_at));
        }
    }
    return true;
}

static bool run(sim_world *w)
{
    int64_t n_jobs = 4 + sim_draw(w, SIM_MAX_JOBS - 4), pace = 1 + sim_draw(w, 12);
    for (int64_t tries = 0; w->n_live > 0 || tries < n_jobs;) {
        for (; tries < n_jobs && sim_draw(w, pace) == 0; tries++) {
            if (!job_submit(w)) {
                return false;
            }
        }
        cancel_some(w);
        if (sim_draw(w, 20) == 0) {
            change_budget(w);
        }
        if (!sim_check_pages(w) || !one_step(w) || !sim_check_order(w) || !check_waiting(w)) {
            return false;
        }
    }
    if (w->tree != NULL && !whim_prefix_tree_evict(w->tree, w->pool.n_page)) {
        return sim_fail(w, "pages are left in the tree that nobody holds");
    }
    return w->pool.n_free == w->pool.n_page || sim_fail(w, "pages are lost at the end");
}

bool sim_trace(sim_world *w, uint64_t seed, bool is_lone)
{
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->is_lone = is_lone;
    int64_t n_page = 1 + sim_draw(w, sim_draw(w, 2) == 0 ? 8 : SIM_MAX_PAGES);
    if (whim_page_pool_init(&w->pool, n_page, SIM_PAGE) != WHIM_ERR_OK ||
        (sim_draw(w, 8) > 0 &&
         whim_prefix_tree_create(&w->pool, sim_evicted, w, &w->tree) != WHIM_ERR_OK)) {
        return sim_fail(w, "no memory");
    }
    w->cfg = (whim_sched_cfg){
        .max_seqs = 1 + sim_draw(w, 10),
        .max_step_tokens = 1 + sim_draw(w, sim_draw(w, 2) == 0 ? 8 : 128),
        .max_outs = 1 + sim_draw(w, 16),
        .max_ctx = 2 + sim_draw(w, SIM_MAX_CTX - 2),
        .age_tokens = 1 + sim_draw(w, 400),
        .pool = &w->pool,
        .tree = w->tree,
        .store = sim_draw(w, 3) == 0 ? sim_store(w) : (whim_sched_store){0},
    };
    if (w->tree != NULL && sim_draw(w, 3) == 0) {
        int64_t n_state = w->cfg.max_seqs + sim_draw(w, SIM_MAX_STATES - w->cfg.max_seqs);
        w->with_states = true;
        w->cfg.states = &w->states;
        w->cfg.state_every = 1 + sim_draw(w, 200);
        w->cfg.max_kept = sim_draw(w, 4) == 0 ? 0 : 1 + sim_draw(w, 24);
        w->cfg.copy_state = sim_copy_state;
        w->cfg.copy_ctx = w;
        if (whim_page_pool_init(&w->states, n_state, 1) != WHIM_ERR_OK ||
            whim_prefix_tree_set_states(w->tree, &w->states) != WHIM_ERR_OK) {
            return sim_fail(w, "no memory");
        }
    }
    w->with_proposals = sim_draw(w, 2) == 0;
    w->with_ahead = sim_draw(w, 2) == 0;
    w->max_rows = w->cfg.max_step_tokens;
    w->cancel_one_in = sim_draw(w, 2) == 0 ? 100 : 10000;
    bool good = whim_sched_create(&w->cfg, &w->sched) == WHIM_ERR_OK && run(w);
    whim_sched_destroy(w->sched);
    whim_prefix_tree_destroy(w->tree);
    if (good && w->pool.n_free != w->pool.n_page) {
        good = sim_fail(w, "pages are lost after everything was closed");
    }
    if (good && w->states.n_free != w->states.n_page) {
        good = sim_fail(w, "states are lost after everything was closed");
    }
    whim_page_pool_deinit(&w->states);
    whim_page_pool_deinit(&w->pool);
    return good && w->failure[0] == '\0';
}

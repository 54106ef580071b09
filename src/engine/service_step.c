/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of the loop. */
#include "engine/service_step.h"

#include "base/clock.h"
#include "engine/service_draft.h"
#include "runner/page_store.h"

#include <string.h>

/* How long a step with prompt tokens should take: streams that wait for their next token feel
 * it. */
enum { STEP_GOAL_NS = 250 * 1000 * 1000, LEAST_ROWS = WHIM_SERVICE_LEAST_ROWS };

/* How long a request may wait for those of its client (or of one whose priority counts among all)
 * that are one step of priority before it, on a busy machine. */
#define PATIENCE_NS INT64_C(15000000000)

void whim_service_enter(whim_service *s, whim_choice *c)
{
    const whim_job_cfg *cfg = &c->job->cfg;
    whim_sched_add add = {
        .tokens = c->tokens,
        .n_tok = cfg->n_prompt,
        .max_tok = c->max_tok,
        .priority = cfg->priority,
        .among_all = cfg->priority_among_all,
        .client = cfg->client,
        .all_rows = cfg->prompt_logprobs >= 0 && c->index == 0,
        .user = c,
    };
    whim_diag diag = {""};
    whim_err err = whim_sched_submit(s->sched, &add, &c->req, &diag);
    if (err != WHIM_ERR_OK) {
        c->job->trouble = diag;
        whim_log_error(s->cfg.log, "enter", whim_log_text("id", c->job->cfg.id),
                       whim_log_text("error", diag.text));
        whim_job_cancel(c->job, whim_job_failure(err));
    }
}

void whim_service_fail_job(whim_service *s, whim_job *job, whim_err err, whim_job_reason reason,
                           const char *message)
{
    for (int32_t i = 0; i < job->cfg.n_choice; i++) {
        whim_choice *c = &job->choices[i];
        if (c->req != NULL) {
            whim_sched_remove(s->sched, c->req);
            c->req = NULL;
        }
        c->ended = true;
    }
    job->times.reason = reason;
    whim_job_finish(job, err, message);
}

static void admit(whim_service *s, whim_choice *c)
{
    whim_job *job = c->job;
    if (!c->let_in) {
        c->let_in = true;
        whim_choice_propose_init(c);
        job->n_let_in++;
        atomic_fetch_sub(&s->n_waiting, 1);
    }
    if (job->admitted) {
        return;
    }
    whim_sched_req_info info = whim_sched_req_get(c->req);
    job->admitted = true;
    job->times.admitted = whim_clock_ns();
    job->times.n_cached = info.n_cached;
    whim_service_count_admitted(s, job);
    whim_job_push(job, &(whim_job_event){.kind = WHIM_JOB_ADMITTED, .n_cached = info.n_cached});
    whim_log_debug(s->cfg.log, "admit", whim_log_text("id", job->cfg.id),
                   whim_log_int("prompt", job->cfg.n_prompt), whim_log_int("cached", info.n_cached),
                   whim_log_text("miss", whim_miss_name(info.miss)));
}

void whim_service_followers_enter(whim_service *s, whim_job *job)
{
    if (job->followed) {
        return;
    }
    job->followed = true;
    for (int32_t i = 1; i < job->cfg.n_choice; i++) {
        if (!job->choices[i].ended) {
            whim_service_enter(s, &job->choices[i]);
        }
    }
}

/* Whether the rows of a choice's prompt are told. */
static bool tells_prompt(const whim_choice *c)
{
    return c->job->cfg.prompt_logprobs >= 0 && c->index == 0;
}

static void parts_make(whim_service *s, whim_flight *f)
{
    whim_sample_ask *asks = s->asks;
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[i];
        whim_choice *c = whim_sched_req_user(item->req);
        memset(asks, 0, (size_t)item->n_out * sizeof *asks);
        if (tells_prompt(c)) {
            int64_t at = item->seq->len + item->n_tok - item->n_out;
            whim_choice_prepare_prompt(c, at, item->n_out, asks);
        }
        if (item->chooses && c->job->cfg.max_tokens >= 0) {
            whim_sample_ask *first = &asks[item->n_out - 1 - item->n_proposed];
            whim_choice_prepare(c, item->n_proposed, &s->masks[(first - s->asks) * s->n_mask_word],
                                first);
        }
        admit(s, c);
        f->choices[i] = c;
        f->parts[i] = (whim_step_part){
            .seq = item->seq,
            .tokens = item->tokens,
            .n_tok = item->n_tok,
            .n_out = item->n_out,
            .asks = asks,
            .keeps_state = s->has_states && item->n_proposed > 0,
        };
        asks += item->n_out;
    }
}

/* The result of the step before that each item of a plan ahead begins with. Both have their items
 * in the same order. */
static void parts_make_ahead(whim_service *s, const whim_flight *before, whim_flight *f)
{
    int64_t out = 0, at = 0;
    for (int64_t i = 0; i < before->plan.n_item && at < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[at];
        out += before->plan.items[i].n_out;
        if (before->plan.items[i].req == item->req) {
            whim_choice_prepare_next(before->choices[i], &s->asks[at]);
            f->token[at] = whim_step_result_token(out - 1);
            f->choices[at] = before->choices[i];
            f->parts[at] = (whim_step_part){.seq = item->seq,
                                            .tokens = &f->token[at],
                                            .n_tok = 1,
                                            .n_out = 1,
                                            .asks = &s->asks[at]};
            at++;
        }
    }
}

/* Take what was chosen from the rows of an item that chooses: proposals are right as long as each
 * row chose the one after it, and the first row that did not has the token that comes. */
static whim_err tokens_take(whim_choice *c, const whim_plan_item *item, int64_t out,
                            int32_t *tokens, int64_t *n, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    bool goes_on = true;
    int64_t n_asked = item->n_proposed > 0 ? c->n_asked : 0;
    for (*n = 0; goes_on && *n <= n_asked; ++*n) {
        int64_t at = c->job->cfg.n_prompt + c->n_made;
        int32_t proposed = *n < n_asked ? c->tokens[at] : -1;
        err = whim_choice_pick(c, out + *n, &tokens[*n], diag);
        goes_on = err == WHIM_ERR_OK && !c->ended && tokens[*n] == proposed;
    }
    whim_choice_proposed(c, item->n_proposed, *n - 1);
    return err;
}

/* Choose for every item that does. A choice whose logits make no sense ends its job, and only
 * that. */
static void results_take(whim_service *s, const whim_flight *f)
{
    int64_t out = 0;
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[i];
        whim_choice *c = f->choices[i];
        whim_diag diag = {""};
        int32_t *tokens = &s->token[out];
        tokens[0] = 0;
        s->made[i] = (whim_sched_made){.tokens = tokens};
        out += item->n_out;
        if (item->req == NULL) {
            continue; /* it has ended while the step was under way */
        }
        if (item->n_out > 0 && tells_prompt(c)) {
            int64_t at = f->len[i] + item->n_tok - item->n_out;
            whim_choice_prompt_rows(c, out - item->n_out, at, item->n_out);
        }
        whim_err err = item->chooses ? tokens_take(c, item, out - 1 - item->n_proposed, tokens,
                                                   &s->made[i].n, &diag)
                                     : WHIM_ERR_OK;
        if (err != WHIM_ERR_OK) {
            whim_diag_prefix(&diag, "after %lld tokens: ", (long long)item->seq->len);
            c->job->trouble = diag;
            whim_log_error(s->cfg.log, "choose", whim_log_text("id", c->job->cfg.id),
                           whim_log_text("error", diag.text));
            whim_job_cancel(c->job, whim_job_failure(err));
            s->made[i].n = 0;
            s->made[i].ended = true;
        }
        s->made[i].ended = s->made[i].ended || c->ended;
    }
}

/* Recurrent states go on by the rows that were right. */
static whim_err states_advance(whim_service *s, const whim_flight *f, whim_diag *diag)
{
    int64_t n = 0;
    for (int64_t i = 0; s->has_states && i < f->plan.n_item; i++) {
        const whim_plan_item *item = &f->plan.items[i];
        if (item->req != NULL && item->n_proposed > 0) {
            s->taken[n++] = (whim_taken){item->seq, s->made[i].n > 0 ? s->made[i].n : 1};
        }
    }
    return n > 0 ? whim_runner_advance(s->runner, s->taken, n, diag) : WHIM_ERR_OK;
}

/* Commit. Forget requests that it took out; let the other choices of a job in when its first has
 * made a token. */
static void jobs_go_on(whim_service *s, const whim_flight *f)
{
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        if (f->plan.items[i].req == NULL) {
            f->choices[i] = NULL; /* gone, perhaps with its job */
        }
    }
    whim_sched_commit(s->sched, &f->plan, s->made);
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        whim_choice *c = f->choices[i];
        if (c != NULL && s->made[i].ended) {
            c->req = NULL; /* commit took it out */
        }
        if (c != NULL && (c->n_made > 0 || c->ended)) {
            whim_service_followers_enter(s, c->job);
        }
    }
}

/* Keep steps near their goal and patience near its time: what rows of recent steps cost tells how
 * many the next may have, and how many pass meanwhile. */
static void pace(whim_service *s, const whim_plan *plan, int64_t took_ns)
{
    int64_t per_row = took_ns / plan->n_row;
    if (plan->n_row >= LEAST_ROWS / 2) {
        s->ns_per_row = s->ns_per_row == 0 ? per_row : (3 * s->ns_per_row + per_row) / 4;
        int64_t rows = s->ns_per_row > 0 ? STEP_GOAL_NS / s->ns_per_row : s->cfg.max_step_tokens;
        rows = rows < LEAST_ROWS ? LEAST_ROWS : rows;
        whim_sched_set_budget(s->sched,
                              rows < s->cfg.max_step_tokens ? rows : s->cfg.max_step_tokens);
        whim_sched_set_age(s->sched, s->ns_per_row > 0 ? PATIENCE_NS / s->ns_per_row : INT64_MAX);
    }
}

/* What steps cost in which every row is a token that may come next: all the time since the one
 * before, as a step that waits for proposals is planned while nothing else runs. */
static void costs_learn(whim_service *s, const whim_flight *f, int64_t last_end_ns)
{
    int64_t since = last_end_ns > s->woken_ns ? last_end_ns : s->woken_ns;
    int64_t drafted_ns = s->drafts.spent_ns, took_ns = s->step_end_ns - since - drafted_ns;
    s->drafts.spent_ns = 0;
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        if (!f->plan.items[i].chooses || f->plan.items[i].is_prefill) {
            return;
        }
    }
    whim_step_costs_learn(&s->costs, f->plan.n_row,
                          s->cfg.step_ns != NULL ? s->cfg.step_ns(f->plan.n_row) : took_ns);
    if (drafted_ns == 0) {
        whim_service_not_drafted(s);
    }
}

/* --- steps under way
 * ----------------------------------------------------------------------------- */

static int64_t in_flight(const whim_service *s)
{
    return s->n_begun - s->n_taken;
}

static whim_flight *oldest(whim_service *s)
{
    return &s->flights[s->n_taken % WHIM_EXEC_FLIGHT];
}

#define REJOIN_NS (2 * WHIM_NS_PER_S) /* between two attempts */

/* Ranks were lost, with their part of every page: requests begin again from their tokens when the
 * others are there again, and answers go on as if nothing had happened. */
static void ranks_rejoin(whim_service *s)
{
    whim_diag diag = {""};
    int64_t begun = whim_clock_ns();
    atomic_store(&s->is_apart, true);
    whim_sched_lose(s->sched);
    atomic_store(&s->rejoins, true);
    whim_err err = whim_engine_rejoin(s->cfg.engine, &diag);
    if (err == WHIM_ERR_OK) {
        whim_exec_store_rejoin(whim_runner_exec(s->runner));
        whim_log_info(s->cfg.log, "ranks",
                      whim_log_int("rejoined_ms", (whim_clock_ns() - begun) / WHIM_NS_PER_MS));
    } else { /* tried again after a while, whether anybody asks or not */
        s->rejoin_at_ns = whim_clock_ns() + REJOIN_NS;
        whim_log_error(s->cfg.log, "ranks", whim_log_text("error", diag.text));
        for (whim_job *job = s->active; job != NULL; job = job->next) {
            job->trouble = diag;
            whim_job_cancel(job, WHIM_REASON_FAILED);
        }
    }
    atomic_store(&s->heartbeat_ns, whim_clock_ns());
    atomic_store(&s->rejoins, false);
    atomic_store(&s->is_apart, err != WHIM_ERR_OK);
}

enum { MOST_APART = 2 }; /* a request that was in so many lost steps may be why they were */

/* A step failed on the device: the jobs of all that is under way cannot go on, the others can.
 * Where ranks were lost all can begin again, unless tokens of the step were handed out already. */
static void steps_failed(whim_service *s, bool handed_out, const whim_diag *diag)
{
    const whim_plan *plan = &oldest(s)->plan;
    bool apart = whim_engine_is_apart(s->cfg.engine, NULL);
    whim_log_error(s->cfg.log, "step", whim_log_text("error", diag->text),
                   whim_log_int("items", plan->n_item));
    for (int64_t i = 0; i < plan->n_item; i++) {
        whim_choice *c = plan->items[i].req != NULL ? oldest(s)->choices[i] : NULL;
        if (c == NULL) {
            continue;
        }
        plan->items[i].seq->state_at = -1;
        whim_runner_sequence_cut(s->runner, plan->items[i].seq, oldest(s)->len[i]);
        if (!apart || handed_out || ++c->n_apart >= MOST_APART) {
            c->job->trouble = *diag;
            whim_job_cancel(c->job, WHIM_REASON_FAILED);
        }
    }
    whim_sched_abort(s->sched, plan);
    while (whim_exec_in_flight(whim_runner_exec(s->runner)) > 0) {
        whim_diag ignored = {""};
        whim_err err = whim_runner_collect(s->runner, &ignored);
        (void)err; /* it went on from what failed */
    }
    s->n_taken = s->n_begun;
    if (apart) {
        ranks_rejoin(s);
    } else if (!atomic_load(&s->is_lost) &&
               whim_engine_check(s->cfg.engine, &s->lost) != WHIM_ERR_OK) {
        atomic_store(&s->is_lost, true);
    }
}

/* Queue the step of a flight whose parts are made. */
static whim_err submit(whim_service *s, whim_flight *f, whim_diag *diag)
{
    for (int64_t i = 0; i < f->plan.n_item; i++) {
        f->len[i] = f->parts[i].seq->len;
    }
    f->begun_ns = whim_clock_ns();
    s->n_begun++;
    return whim_runner_submit(s->runner, f->parts, f->plan.n_item, diag);
}

/* Put the step after the oldest under way, where nothing in it depends on what is chosen here. */
static whim_err go_ahead(whim_service *s, whim_diag *diag)
{
    const whim_flight *before = oldest(s);
    whim_flight *f = &s->flights[s->n_begun % WHIM_EXEC_FLIGHT];
    for (int64_t i = 0; i < before->plan.n_item; i++) {
        const whim_plan_item *item = &before->plan.items[i];
        const whim_choice *c = before->choices[i];
        s->over[i] = item->req != NULL && item->chooses && whim_choice_is_last(c);
        if (item->req != NULL && !s->over[i] && !whim_choice_may_follow(c)) {
            return WHIM_ERR_OK;
        }
    }
    if (before->plan.n_proposed > 0 || whim_service_would_propose(s)) {
        return WHIM_ERR_OK;
    }
    whim_sched_plan_ahead(s->sched, &before->plan, s->over, &f->plan);
    if (f->plan.n_item == 0) {
        return WHIM_ERR_OK;
    }
    parts_make_ahead(s, before, f);
    WHIM_TRY(submit(s, f, diag));
    s->counts.n_ahead++;
    if (whim_exec_begin(whim_runner_exec(s->runner), diag) != WHIM_ERR_OK) {
        whim_log_error(s->cfg.log, "ahead", whim_log_text("error", diag->text));
        s->goes_ahead = false; /* what is queued runs when it is waited for */
    }
    return WHIM_ERR_OK;
}

/* Take what came of the oldest step. */
static void take(whim_service *s)
{
    whim_flight *f = oldest(s);
    whim_diag diag = {""};
    atomic_store(&s->step_rows, f->plan.n_row);
    atomic_store(&s->step_items, f->plan.n_item);
    whim_err err = whim_runner_collect(s->runner, &diag);
    int64_t last_end = s->step_end_ns;
    int64_t before = last_end > f->begun_ns ? last_end : f->begun_ns;
    s->step_end_ns = whim_clock_ns();
    int64_t took = s->step_end_ns - before;
    atomic_store(&s->step_rows, 0);
    atomic_fetch_add(&s->n_step, 1);
    if (err != WHIM_ERR_OK) {
        steps_failed(s, false, &diag);
        return;
    }
    whim_service_count_step(s, &f->plan, took);
    results_take(s, f);
    err = states_advance(s, f, &diag);
    if (err != WHIM_ERR_OK) {
        steps_failed(s, true, &diag);
        return;
    }
    s->n_taken++;
    jobs_go_on(s, f);
    pace(s, &f->plan, took);
    costs_learn(s, f, last_end);
    s->counts.step_ns += took;
}

/* Ranks may be lost while nobody asks: the next request need not pay for it, nor probes say that
 * all is well. */
static void idle(whim_service *s)
{
    whim_diag why = {""};
    if (whim_engine_is_apart(s->cfg.engine, &why)) {
        whim_log_error(s->cfg.log, "ranks", whim_log_text("lost", why.text));
        ranks_rejoin(s);
    }
}

bool whim_service_step(whim_service *s)
{
    whim_diag diag = {""};
    whim_err err = WHIM_ERR_OK;
    if (s->cfg.plan_pause_ns > 0) {
        whim_clock_sleep_ns(s->cfg.plan_pause_ns);
    }
    int64_t start = whim_clock_ns();
    if (atomic_load(&s->is_apart)) {
        if (start >= s->rejoin_at_ns) {
            ranks_rejoin(s);
        }
        return false;
    }
    if (in_flight(s) == 0) {
        whim_flight *f = oldest(s);
        whim_service_propose(s);
        whim_sched_plan(s->sched, &f->plan);
        if (f->plan.n_item == 0) {
            idle(s);
            return false;
        }
        parts_make(s, f);
        err = submit(s, f, &diag);
    }
    if (err == WHIM_ERR_OK && s->goes_ahead) {
        err = go_ahead(s, &diag);
    }
    if (err != WHIM_ERR_OK) {
        steps_failed(s, false, &diag);
    } else {
        take(s);
    }
    s->counts.busy_ns += whim_clock_ns() - start;
    return true;
}

void whim_service_land(whim_service *s)
{
    if (in_flight(s) > 0) {
        whim_diag diag = {""};
        whim_err err = whim_runner_collect(s->runner, &diag);
        (void)err;
        whim_sched_abort(s->sched, &oldest(s)->plan);
        s->n_taken++;
    }
}

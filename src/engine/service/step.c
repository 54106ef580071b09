/* SPDX-License-Identifier: Apache-2.0 */
/* One turn of the loop. */
#include "engine/service/step.h"

#include "base/clock.h"
#include "engine/service/draft.h"
#include "engine/service/groups.h"
#include "runner/page_store.h"

/* How long a step with prompt tokens should take: streams that wait for their next token feel
 * it. */
enum { STEP_GOAL_NS = 250 * 1000 * 1000, LEAST_ROWS = WHIM_SERVICE_LEAST_ROWS };

/* How long a request may wait for those of its client (or of one whose priority counts among all)
 * that are one step of priority before it, on a busy machine. */
#define PATIENCE_NS INT64_C(15000000000)

/* Keep steps near their goal and patience near its time: what rows of recent steps cost tells how
 * many the next may have, and how many pass meanwhile. */
static void pace(whim_service *s, int64_t n_row, int64_t took_ns)
{
    int64_t per_row = took_ns / n_row;
    if (n_row >= LEAST_ROWS / 2) {
        s->ns_per_row = s->ns_per_row == 0 ? per_row : (3 * s->ns_per_row + per_row) / 4;
        int64_t rows = s->ns_per_row > 0 ? STEP_GOAL_NS / s->ns_per_row : s->cfg.max_step_tokens;
        rows = rows < LEAST_ROWS ? LEAST_ROWS : rows;
        whim_groups_set_pace(s, rows < s->cfg.max_step_tokens ? rows : s->cfg.max_step_tokens,
                             s->ns_per_row > 0 ? PATIENCE_NS / s->ns_per_row : INT64_MAX);
    }
}

/* What steps cost in which every row is a token that may come next: all the time since the one
 * before, as a step that waits for proposals is planned while nothing else runs. Groups take a step
 * side by side, so the largest one's rows count. */
static void costs_learn(whim_service *s, const whim_groups_sum *sum, int64_t last_end_ns)
{
    int64_t since = last_end_ns > s->woken_ns ? last_end_ns : s->woken_ns;
    int64_t drafted_ns = s->drafts.spent_ns, took_ns = s->step_end_ns - since - drafted_ns;
    s->drafts.spent_ns = 0;
    if (!sum->all_choose) {
        return;
    }
    int64_t n_row = sum->most_rows;
    whim_step_costs_learn(&s->costs, n_row,
                          s->cfg.step_ns != NULL ? s->cfg.step_ns(n_row) : took_ns);
    if (drafted_ns == 0) {
        whim_service_not_drafted(s);
    }
}

/* --- steps under way -------------------------------------------------------------------------- */

static int64_t in_flight(const whim_service *s)
{
    return s->n_begun - s->n_taken;
}

#define REJOIN_NS (2 * WHIM_NS_PER_S) /* between two attempts */

/* Ranks were lost, with their part of every page: requests begin again from their tokens when the
 * others are there again, and answers go on as if nothing had happened. */
static void ranks_rejoin(whim_service *s)
{
    whim_diag diag = {""};
    int64_t begun = whim_clock_ns();
    atomic_store(&s->is_apart, true);
    whim_groups_lose(s);
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

/* A step failed on the device: the jobs of all that is under way cannot go on, the others can.
 * Where ranks were lost all can begin again, unless tokens of the step were handed out already. */
static void steps_failed(whim_service *s, bool handed_out, const whim_diag *diag)
{
    bool apart = whim_engine_is_apart(s->cfg.engine, NULL);
    whim_log_error(s->cfg.log, "step", whim_log_text("error", diag->text),
                   whim_log_int("items", whim_groups_sum_of(s, s->n_taken).n_item));
    whim_groups_failed(s, s->n_taken, apart && !handed_out, diag);
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

/* Queue the next step, whose parts are made. */
static whim_err submit(whim_service *s, whim_diag *diag)
{
    int64_t turn = s->n_begun++;
    s->begun_ns[turn % WHIM_EXEC_FLIGHT] = whim_clock_ns();
    return whim_groups_submit(s, turn, diag);
}

/* Put the step after the oldest under way, where nothing in it depends on what is chosen here. */
static whim_err go_ahead(whim_service *s, whim_diag *diag)
{
    if (whim_service_would_propose(s) || !whim_groups_plan_ahead(s, s->n_taken)) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(submit(s, diag));
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
    whim_groups_sum sum = whim_groups_sum_of(s, s->n_taken);
    whim_diag diag = {""};
    atomic_store(&s->step_rows, sum.n_row);
    atomic_store(&s->step_items, sum.n_item);
    whim_err err = whim_runner_collect(s->runner, &diag);
    int64_t last_end = s->step_end_ns;
    int64_t begun = s->begun_ns[s->n_taken % WHIM_EXEC_FLIGHT];
    int64_t before = last_end > begun ? last_end : begun;
    s->step_end_ns = whim_clock_ns();
    int64_t took = s->step_end_ns - before;
    atomic_store(&s->step_rows, 0);
    atomic_fetch_add(&s->n_step, 1);
    if (err != WHIM_ERR_OK) {
        steps_failed(s, false, &diag);
        return;
    }
    whim_service_count_step(s, sum.n_item, sum.n_row, sum.n_prefill, took);
    whim_groups_results_take(s, s->n_taken);
    err = whim_groups_states_advance(s, s->n_taken, &diag);
    if (err != WHIM_ERR_OK) {
        steps_failed(s, true, &diag);
        return;
    }
    whim_groups_commit(s, s->n_taken++);
    pace(s, sum.most_rows, took);
    costs_learn(s, &sum, last_end);
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
        whim_service_propose(s);
        if (!whim_groups_plan(s, s->n_begun)) {
            idle(s);
            return false;
        }
        err = submit(s, &diag);
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
        whim_groups_abort(s, s->n_taken++);
    }
}

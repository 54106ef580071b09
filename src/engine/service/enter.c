/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a request into its group, and out of it. */
#include "engine/service/enter.h"

#include "base/clock.h"
#include "engine/service/draft.h"
#include "engine/service/groups.h"

void whim_service_enter(whim_service *s, whim_choice *c)
{
    const whim_job_cfg *cfg = &c->job->cfg;
    c->group = whim_groups_choose(s, c->tokens, cfg->n_prompt);
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
    whim_err err = whim_sched_submit(c->group->sched, &add, &c->req, &diag);
    if (err != WHIM_ERR_OK) {
        c->job->trouble = diag;
        whim_log_error(s->cfg.log, "enter", whim_log_text("id", c->job->cfg.id),
                       whim_log_text("error", diag.text));
        whim_job_cancel(c->job, whim_job_failure(err));
    }
}

void whim_choice_leave(whim_choice *c)
{
    if (c->req != NULL) {
        whim_sched_remove(c->group->sched, c->req);
        c->req = NULL;
    }
}

void whim_job_fail(whim_job *job, whim_err err, whim_job_reason reason, const char *message)
{
    for (int32_t i = 0; i < job->cfg.n_choice; i++) {
        whim_choice *c = &job->choices[i];
        whim_choice_leave(c);
        c->ended = true;
    }
    job->times.reason = reason;
    whim_job_finish(job, err, message);
}

void whim_choice_admit(whim_choice *c)
{
    whim_service *s = c->job->service;
    whim_job *job = c->job;
    if (!c->let_in) {
        c->let_in = true;
        whim_choice_propose_init(c);
        pthread_mutex_lock(&s->lock);
        whim_queue_let_in(&s->queue, job);
        pthread_mutex_unlock(&s->lock);
    }
    if (job->admitted) {
        return;
    }
    whim_sched_req_info info = whim_sched_req_get(c->req);
    job->admitted = true;
    job->times.admitted = whim_clock_ns();
    job->times.n_cached = info.n_cached;
    atomic_store_explicit(&job->n_read, info.n_cached, memory_order_relaxed);
    atomic_store_explicit(&job->n_known, info.n_cached, memory_order_relaxed);
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

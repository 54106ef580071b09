/* SPDX-License-Identifier: Apache-2.0 */
/* A service whose jobs replay a script. The definitions here stand in place of those of
 * engine/service, so each test program includes this once. */
#ifndef WHIM_TESTS_FAKE_JOBS_H
#define WHIM_TESTS_FAKE_JOBS_H

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/service.h"
#include "library/model_impl.h"
#include "support/cmocka.h"

#include <stdatomic.h>
#include <string.h>

/* What every submitted job does; its last event is DONE or FAILED unless `hold` (then the test adds
 * it). */
static const whim_job_event *script;
static int64_t n_script;
static whim_job_cfg last_cfg; /* of the last submit; its pointers are dead */
static int32_t last_prompt[64];
static int64_t n_submitted;
static whim_err submit_err;
static whim_job_reason cancelled; /* why, of the last cancel */
static int stopped_choice;
static whim_job_reason end_reason = WHIM_REASON_STOP;

/* A script that jobs begin again at its end, for as long as it is here. */
static _Atomic(const whim_job_event *) repeated;

struct whim_job {
    whim_job_cfg cfg;
    const whim_job_event *script;
    int64_t n_script;
    int64_t at;
    bool over;
};

static int32_t n_together; /* jobs of the last submit */

static inline whim_job *fake_job(const whim_job_cfg *cfg)
{
    whim_job *job = whim_alloc(sizeof *job);
    assert_non_null(job);
    job->cfg = last_cfg = *cfg;
    job->script = script;
    job->n_script = n_script;
    memcpy(last_prompt, cfg->prompt,
           sizeof *cfg->prompt * (size_t)(cfg->n_prompt < 64 ? cfg->n_prompt : 64));
    n_submitted++;
    cfg->wake(cfg->wake_ctx, job);
    return job;
}
whim_err whim_service_create(const whim_service_cfg *cfg, whim_service **out, whim_diag *diag)
{
    (void)cfg;
    (void)out;
    return whim_fail(diag, WHIM_ERR_UNSUPPORTED, "there is no engine");
}
void whim_service_destroy(whim_service *service)
{
    (void)service;
}
int64_t whim_service_ctx(const whim_service *service)
{
    (void)service;
    return 100;
}
static bool is_draining; /* what the service says of itself */
bool whim_service_is_apart(const whim_service *s)
{
    (void)s;
    return false;
}

bool whim_service_is_draining(whim_service *service)
{
    (void)service;
    return is_draining;
}
whim_err whim_service_submit(whim_service *service, const whim_job_cfg *cfgs, int32_t n,
                             whim_job **out, whim_diag *diag)
{
    (void)service;
    if (submit_err != WHIM_ERR_OK) {
        return whim_fail(diag, submit_err, "the queue is full");
    }
    for (int32_t i = 0; i < n; i++) {
        out[i] = fake_job(&cfgs[i]);
    }
    n_together = n;
    return WHIM_ERR_OK;
}
/* Where the test hands out each event by itself. */
static bool is_held;
static const whim_job_event *held_event;
bool whim_job_next(whim_job *job, whim_job_event *out)
{
    if (is_held) {
        bool has_one = held_event != NULL;
        *out = has_one ? *held_event : (whim_job_event){0};
        held_event = NULL;
        return has_one;
    }
    if (job->over) {
        return false;
    }
    if (job->at == job->n_script && job->n_script > 0 && job->script == atomic_load(&repeated)) {
        job->at = 0;
    }
    if (job->at == job->n_script || cancelled != WHIM_REASON_NONE) {
        *out = (whim_job_event){.kind = WHIM_JOB_DONE, .n_cached = 2};
        job->over = true;
        return true;
    }
    *out = job->script[job->at++];
    out->message = out->message != NULL ? out->message : "";
    job->over = out->kind == WHIM_JOB_FAILED;
    return true;
}
void whim_job_cancel(whim_job *job, whim_job_reason why)
{
    (void)job;
    cancelled = why;
}
void whim_job_stop_choice(whim_job *job, int32_t choice)
{
    (void)job;
    stopped_choice = choice;
}
whim_job_times whim_job_get_times(const whim_job *job)
{
    return (whim_job_times){.submitted = 1, .n_prompt = job->cfg.n_prompt, .reason = end_reason};
}
whim_job_look whim_job_look_at(const whim_job *job)
{
    return (whim_job_look){.is_running = job->at > 0,
                           .n_prompt = job->cfg.n_prompt,
                           .n_read = job->at > 1 ? job->cfg.n_prompt : 0};
}
void whim_job_release(whim_job *job)
{
    whim_free(job);
}

static int64_t heartbeat_age_ns;
void whim_service_look_ranks(const whim_service *service, whim_meters *meters)
{
    (void)service;
    (void)meters;
}
whim_service_stats whim_service_get_stats(whim_service *service)
{
    (void)service;
    return (whim_service_stats){.sched = {1, 2, 3, 4, 5, {[WHIM_PREEMPT_SHARE] = 6}, 0, 0, 0}};
}
int64_t whim_service_heartbeat_ns(const whim_service *service)
{
    (void)service;
    return whim_clock_ns() - heartbeat_age_ns;
}

/* A model that was opened and loaded, as far as routes look at it. `tok` becomes its own. */
static whimbrel_model fake_model;
static inline whimbrel_model *fake_model_open(whim_tokenizer *tok)
{
    fake_model = (whimbrel_model){
        .text = {.tok = tok},
        .service = (whim_service *)&fake_model,
        .info = {.n_vocab = 277, .has_text = true},
        .ctx = 100,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .vocab_lock = PTHREAD_MUTEX_INITIALIZER,
    };
    return &fake_model;
}
static inline void fake_model_close(void)
{
    whim_grammar_vocab_destroy(fake_model.vocab);
    whim_tokenizer_close(fake_model.text.tok);
}

#define ADMITTED                                 \
    {                                            \
        .kind = WHIM_JOB_ADMITTED, .n_cached = 2 \
    }
#define TOKEN(c, i, s)                                                                   \
    {                                                                                    \
        .kind = WHIM_JOB_TOKEN, .choice = c, .id = i, .text = s, .n_text = sizeof(s) - 1 \
    }
#define END_TOKEN(c)                                                               \
    {                                                                              \
        .kind = WHIM_JOB_TOKEN, .choice = c, .id = 259, .is_end = true, .text = "" \
    }
#define CHOICE_END(c, e)                                                           \
    {                                                                              \
        .kind = WHIM_JOB_CHOICE_END, .choice = c, .end = e, .stop = -1, .text = "" \
    }
#define N_OF(events) ((int64_t)(sizeof(events) / sizeof(events)[0]))

#endif

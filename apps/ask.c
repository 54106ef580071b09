/* SPDX-License-Identifier: Apache-2.0 */
/* One prompt after the other through a service. */
#include "ask.h"

#include "base/clock.h"

#include <semaphore.h>
#include <signal.h>

volatile sig_atomic_t interrupted;
static volatile sig_atomic_t second_ends;
static sem_t news; /* an event came, or Ctrl-C: a signal handler may post to a semaphore */

static void on_interrupt(int sig)
{
    if (interrupted && second_ends) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
    interrupted = 1;
    sem_post(&news);
}

void catch_interrupt(bool twice_ends)
{
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: reads end, too */
    second_ends = twice_ends;
    sem_init(&news, 0, 0);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

whim_service *ask_open(const text_model *tm, const answer_form *form, whim_engine *engine)
{
    whim_diag diag = {""};
    whim_service *service = NULL;
    const whim_exec_cfg *limits = whim_engine_limits(engine);
    whim_service_cfg cfg = {
        .engine = engine,
        .tok = tm->tok,
        .vocab = form->vocab,
        .stop_ids = tm->stop_ids,
        .n_stop_id = tm->n_stop_id,
        .max_seqs = limits->max_seqs,
        .max_step_tokens = limits->max_rows,
        .max_outs = limits->max_outs,
        .ctx = whim_engine_ctx(engine) + 1, /* the last token needs no place */
        .max_queued_bytes = INT64_MAX,      /* a pager may be slow */
    };
    if (whim_service_create(&cfg, &service, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return NULL;
    }
    return service;
}

whim_job_cfg ask_cfg(const text_model *tm, const whim_options *options, const whim_ids *prompt,
                     bool open_think)
{
    return (whim_job_cfg){
        .prompt = prompt->ids,
        .n_prompt = prompt->n,
        .n_choice = 1,
        .params = tm->params,
        .stops = options->stop.v,
        .n_stop = options->stop.n,
        .max_tokens = options->max_tokens,
        .prompt_logprobs = -1,
        .think_open = open_think,
        .think_budget = options->think_budget,
        .think_end = "</think>",
    };
}

static void on_wake(void *ctx, whim_job *job)
{
    (void)ctx;
    (void)job;
    sem_post(&news);
}

/* False after the last event. */
static bool take(const whim_job_event *event, asked *out, whim_err *err, whim_diag *diag)
{
    switch (event->kind) {
    case WHIM_JOB_TOKEN:
        out->n_id++;
        return true;
    case WHIM_JOB_CHOICE_END: /* a stop without a string is ours */
        out->end = event->end == WHIM_END_STOP && event->stop < 0 ? WHIM_END_INTERRUPT : event->end;
        out->stop = event->stop;
        return true;
    case WHIM_JOB_FAILED:
        *err = whim_fail(diag, event->err, "%s",
                         event->detail[0] != '\0' ? event->detail : event->message);
        return false;
    case WHIM_JOB_DONE:
        return false;
    default:
        return true;
    }
}

static double seconds(int64_t from, int64_t to)
{
    return (double)(to - from) / (double)WHIM_NS_PER_S;
}

whim_err ask(whim_service *service, const whim_job_cfg *cfg, ask_event_fn *fn, void *ctx,
             asked *out, whim_diag *diag)
{
    whim_job_cfg with_wake = *cfg;
    whim_job *job;
    whim_job_event event;
    whim_err err = WHIM_ERR_OK;
    *out = (asked){.stop = -1};
    with_wake.wake = on_wake;
    WHIM_TRY(whim_service_submit(service, &with_wake, &job, diag));
    for (bool more = true; more;) {
        if (interrupted) {
            whim_job_stop_choice(job, 0);
        }
        if (whim_job_next(job, &event)) {
            fn(ctx, &event);
            more = take(&event, out, &err, diag);
        } else {
            sem_wait(&news); /* a signal ends it, too */
        }
    }
    whim_job_times times = whim_job_get_times(job);
    int64_t begun = times.first_token > 0 ? times.first_token : times.ended;
    out->prompt_s = seconds(times.submitted, begun);
    out->gen_s = seconds(begun, times.ended);
    out->n_context = out->n_id > 0 ? cfg->n_prompt + out->n_id - 1 : 0;
    whim_job_release(job);
    return err;
}

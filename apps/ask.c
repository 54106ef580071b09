/* SPDX-License-Identifier: Apache-2.0 */
/* One request after the other. */
#include "ask.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>

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

void ask_wake(void *ctx)
{
    (void)ctx;
    sem_post(&news);
}

whimbrel_request_options ask_options(const whim_options *o, const sampling *s, const form *f)
{
    return (whimbrel_request_options){
        .size = sizeof(whimbrel_request_options),
        .sampling = &s->v,
        .logprobs = o->logprobs > 0,
        .top_logprobs = (int32_t)o->logprobs,
        .stops = o->stop.v,
        .n_stop = o->stop.n,
        .max_tokens = o->max_tokens,
        .ignore_end = o->ignore_eos,
        .think_budget = o->think_budget,
        .regex = f->regex,
        .schema_json = f->schema,
        .tools_json = f->tools,
        .must_call = f->must_call,
    };
}

static void take(const whimbrel_event *event, asked *out, whimbrel_error *error)
{
    switch (event->kind) {
    case WHIMBREL_EVENT_END:
        out->end = event->end;
        out->stop = event->stop;
        break;
    case WHIMBREL_EVENT_DONE:
        out->n_id = event->usage.n_made;
        out->n_context = out->n_id > 0 ? event->usage.n_prompt + out->n_id - 1 : 0;
        out->prompt_s = event->usage.prompt_s;
        out->gen_s = event->usage.made_s;
        break;
    case WHIMBREL_EVENT_FAILED:
        *error = (whimbrel_error){.status = event->status};
        snprintf(error->text, sizeof error->text, "%s", event->text);
        break;
    default:
        break;
    }
}

whimbrel_status ask(whimbrel_request *request, ask_event_fn *fn, void *ctx, asked *out,
                    whimbrel_error *error)
{
    *out = (asked){.stop = -1};
    whimbrel_status status = whimbrel_start(request, error);
    for (bool more = status == WHIMBREL_OK; more;) {
        if (interrupted) {
            whimbrel_cancel(request);
        }
        const whimbrel_event *event = whimbrel_next(request);
        if (event == NULL) {
            sem_wait(&news); /* a signal ends it, too */
            continue;
        }
        fn(ctx, event);
        take(event, out, error);
        status = event->kind == WHIMBREL_EVENT_FAILED ? event->status : status;
        more = event->kind != WHIMBREL_EVENT_DONE && event->kind != WHIMBREL_EVENT_FAILED;
    }
    return status;
}

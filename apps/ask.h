/* SPDX-License-Identifier: Apache-2.0 */
/* One prompt after the other through a service with one sequence: what `run` and `chat` share. A
 * prompt that begins like the tokens before finds their pages in the prefix tree.
 * Threads: the main thread. */
#ifndef WHIM_APPS_ASK_H
#define WHIM_APPS_ASK_H

#include "answer_form.h"
#include "engine/service.h"
#include "text_model.h"

#include <signal.h>

/* Ctrl-C sets `interrupted`, and so may whoever finds that nobody reads; it ends an answer with
 * what was made. With `twice_ends`, a second Ctrl-C that nobody has answered ends the program. To
 * be called before the first ask. */
extern volatile sig_atomic_t interrupted;
void catch_interrupt(bool twice_ends);

/* A service of a loaded engine; `form` must outlive it. NULL after a complaint. */
whim_service *ask_open(const text_model *tm, const answer_form *form, whim_engine *engine);

/* What model and command line say of a request for these ids, which must outlive its submission.
 * `open_think`: they leave reasoning open. */
whim_job_cfg ask_cfg(const text_model *tm, const whim_options *options, const whim_ids *prompt,
                     bool open_think);

/* How an answer came out. */
typedef struct asked {
    whim_end end;
    int32_t stop;      /* index of the stop string, -1 otherwise */
    int64_t n_id;      /* tokens made, an end token too */
    int64_t n_context; /* positions that the sequence took */
    double prompt_s, gen_s;
} asked;

/* Submit and hand every event to `fn` until the last. NO_FIT when the prompt does not fit the
 * context or the KV memory; after an error `out` says nothing. */
typedef void ask_event_fn(void *ctx, const whim_job_event *event);
WHIM_MUST_CHECK whim_err ask(whim_service *service, const whim_job_cfg *cfg, ask_event_fn *fn,
                             void *ctx, asked *out, whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One request after the other, as `run` and `chat` make them, and Ctrl-C. A prompt that begins like
 * the tokens before finds their pages in the prefix tree.
 * Threads: the main thread. */
#ifndef WHIM_APPS_ASK_H
#define WHIM_APPS_ASK_H

#include "form.h"
#include "model.h"
#include "sampling.h"

#include <signal.h>

/* Ctrl-C sets `interrupted`, and so may code that finds the output closed; an answer then ends with
 * what was made. With `twice_ends`, a second Ctrl-C before the first is handled ends the program.
 * Call it before the first ask. */
extern volatile sig_atomic_t interrupted;
void catch_interrupt(bool twice_ends);

/* For whimbrel_model_options.wake of models that are asked. */
void ask_wake(void *ctx);

/* What the command line says of a request; the prompt is the caller's. */
whimbrel_request_options ask_options(const whim_options *options, const sampling *sampling,
                                     const form *form);

/* How an answer came out. */
typedef struct asked {
    whimbrel_end end;
    int32_t stop;      /* index of the stop string, -1 otherwise */
    int64_t n_id;      /* tokens made, an end token too */
    int64_t n_context; /* positions that the sequence took */
    double prompt_s, gen_s;
} asked;

/* Start a request and hand every event to `fn` until the last. NO_FIT when the prompt does not fit
 * the context or the KV memory; after an error `out` says nothing. */
typedef void ask_event_fn(void *ctx, const whimbrel_event *event);
whimbrel_status ask(whimbrel_request *request, ask_event_fn *fn, void *ctx, asked *out,
                    whimbrel_error *error);

#endif

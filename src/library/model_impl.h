/* SPDX-License-Identifier: Apache-2.0 */
/* A model, as the files of the library see it. */
#ifndef WHIM_LIBRARY_MODEL_IMPL_H
#define WHIM_LIBRARY_MODEL_IMPL_H

#include "base/arena.h"
#include "library/library.h"

#include <pthread.h>

/* A reader that waits for an event, on its own stack: a job's wake may come when its request is
 * gone already, and never when its model is. */
typedef struct whim_waiter {
    const whim_job *job;
    bool is_woken;
    pthread_cond_t news;
    struct whim_waiter *next;
} whim_waiter;

struct whimbrel_model {
    whim_arena arena; /* texts of options and info */
    whimbrel_model_options options;
    whim_engine *engine;
    whim_text_side text;
    whim_grammar_cache *grammars;
    whim_meters *meters;      /* or NULL */
    int64_t ctx;              /* a prompt is shorter than this */
    bool load_begun;          /* by whimbrel_load */
    whim_service *service;    /* NULL until it runs */
    const char *draft_unused; /* see whimbrel_info */
    const char *ranks_unused; /* see whim_library_ranks_unused */
    whimbrel_info info;
    whimbrel_plan_part plan[WHIM_PLAN_MAX_PARTS];
    pthread_mutex_t lock;
    whim_waiter *waiters;       /* under it: who waits for an event */
    pthread_mutex_t vocab_lock; /* of its own: making it takes long */
    whim_grammar_vocab *vocab;  /* under it; NULL: not needed yet */
};

/* Copy a caller's struct of `size` bytes over one of ours of `own` bytes, which keeps what it holds
 * where the caller knows of nothing. False: there is no size, or it is larger, and holds something
 * that we do not know. */
bool whim_options_copy(void *to, size_t own, const void *from, size_t size);

/* Prepare m->engine as m->options and `extra` (which may be NULL) say, without a draft and ranks
 * that were not asked for if they cannot be used. `field` names the option that is wrong. */
WHIM_MUST_CHECK whim_err whim_model_prepare(whimbrel_model *m, const whim_library_extra *extra,
                                            const char **field, whim_diag *diag);

/* Numbers that are less than they may be are refused, by name. */
typedef struct whim_number {
    const char *field;
    int64_t value, least;
} whim_number;
WHIM_MUST_CHECK whim_err whim_numbers_check(const whim_number *numbers, int32_t n,
                                            const char **field, whim_diag *diag);

/* Tell the caller of a public call how it went. */
whimbrel_status whim_library_tell(whimbrel_error *error, whim_err err, const char *field,
                                  const whim_diag *diag);

/* For whim_job_cfg.wake; the context is the model. */
void whim_library_wake(void *ctx, whim_job *job);

#endif

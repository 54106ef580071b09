/* SPDX-License-Identifier: Apache-2.0 */
/* What memory has room for: recurrent states, then a context and its KV pages. Threads: functions
 * of their arguments. */
#ifndef WHIM_ENGINE_MEMORY_FIT_H
#define WHIM_ENGINE_MEMORY_FIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_state_fit {
    int64_t slot_bytes;   /* of one state; 0: the model has none */
    int64_t n_checkpoint; /* wanted for reuse */
    bool may_lower;       /* nobody set max_seqs: lower it to what half of the memory holds */
    int64_t max_seqs;     /* in and out */
    int64_t n_state;      /* out: one for each sequence, and the checkpoints */
} whim_state_fit;

/* Choose for `left` bytes of memory, and return what is left then. Checkpoints take at most an
 * eighth of what the sequences leave, but are two if there is room for two. */
int64_t whim_state_fit_choose(whim_state_fit *fit, int64_t left);

/* --- context and pages ------------------------------------------------------------------------ */

enum { WHIM_FIT_LEAST_CTX = 2048, WHIM_FIT_USUAL_CTX = 8192, WHIM_FIT_ROUND_CTX = 1024 };

typedef struct whim_page_fit {
    int64_t page_bytes;
    int32_t page_len;    /* tokens of a page */
    int64_t model_ctx;   /* the longest that the model was made for */
    int64_t asked_ctx;   /* 0: as long as memory gives */
    int64_t asked_bytes; /* of pages; 0: not asked for */
    int64_t n_seq;       /* sequences that should reach their longest */
    double share;        /* of memory that pages may take for that; 0: as much as they need */
    double one_share;    /* of memory that one sequence may take if no context was asked for */
    int64_t ctx, n_page; /* out */
} whim_page_fit;

/* Choose for `left` bytes of memory. Pages are for n_seq sequences at their longest, within their
 * share, but always enough for one. If no context was asked for, that one has its own share, or
 * WHIM_FIT_USUAL_CTX if that is more, or all of the memory if that is less. The context is what it
 * holds then: rounded down to WHIM_FIT_ROUND_CTX, and at least WHIM_FIT_LEAST_CTX, which the plan
 * refuses if it is too much. Where somebody asked for bytes, these are the pages, and the context
 * is not cut to them. */
void whim_page_fit_choose(whim_page_fit *fit, int64_t left);

#endif

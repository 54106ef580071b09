/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence's place in the KV pool: its pages in order of position, and how many positions are
 * filled. Accounting only.
 * Invariants: n_page == ceil(len / page_len) outside whim_sequence_grow; a page on which others
 * have a reference is full and does not change: a sequence grows only in pages that it alone holds.
 * Threads: one owner. */
#ifndef WHIM_KV_SEQUENCE_H
#define WHIM_KV_SEQUENCE_H

#include "base/err.h"
#include "kv/page_pool.h"

#include <stdint.h>

/* How many pages these positions take. */
static inline int64_t whim_kv_pages(int64_t n_tok, int32_t page_len)
{
    return (n_tok + page_len - 1) / page_len;
}

typedef struct whim_sequence {
    int32_t *pages; /* [max_page] */
    int64_t n_page, max_page;
    int32_t page_len;
    int32_t group; /* whose pool has its pages; a runner may have several */
    int64_t len;   /* positions filled */
    int64_t step;  /* the runner's number of the last step that it was part of */
    int32_t state; /* its slot of recurrent state; -1: the model has none */
    /* positions that the state is after; at 0 the state is empty, whatever the slot has */
    int64_t state_at;
    /* The rows that it had on trial: in which step of the runner's, from which row on, how many. */
    int64_t trial, trial_row, n_trial;
} whim_sequence;

WHIM_MUST_CHECK whim_err whim_sequence_init(whim_sequence *seq, int64_t max_ctx, int32_t page_len);

/* Take a slot of recurrent state for the life of the sequence; FULL if none is free. If `states`
 * has no slots at all, the model has no such states. */
WHIM_MUST_CHECK whim_err whim_sequence_take_state(whim_sequence *seq, whim_page_pool *states);

/* Give the slot back, before deinit. */
void whim_sequence_give_state(whim_sequence *seq, whim_page_pool *states);

/* Gives all pages back. */
void whim_sequence_deinit(whim_sequence *seq, whim_page_pool *pool);

/* Pages that `n_tok` more positions would take from the pool. */
int64_t whim_sequence_pages_needed(const whim_sequence *seq, int64_t n_tok);

/* Start an empty sequence with `n` full pages; the sequence takes over one reference on each. */
void whim_sequence_share(whim_sequence *seq, const int32_t *pages, int64_t n);

/* Make room for `n_tok` more positions and count them as filled. FULL and INVALID (longer than
 * max_ctx) change nothing. Growing in a page that others hold, too, is a bug and ends the
 * process. */
WHIM_MUST_CHECK whim_err whim_sequence_grow(whim_sequence *seq, whim_page_pool *pool,
                                            int64_t n_tok);

/* Forget the positions from `len` on and give their pages back. */
void whim_sequence_cut(whim_sequence *seq, whim_page_pool *pool, int64_t len);

/* The slot (page * page_len + place) of a filled position. */
int32_t whim_sequence_slot(const whim_sequence *seq, int64_t position);

#endif

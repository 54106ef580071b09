/* SPDX-License-Identifier: Apache-2.0 */
/* Where an answer stands in a text that somebody predicted it to be: at first at its beginning,
 * then behind each token that is as predicted; after one that is not, where its last tokens stand
 * in that text, near the place that it left if they stand there.
 * Threads: one owner; the text and its index are only read. */
#ifndef WHIM_DRAFT_FOLLOW_H
#define WHIM_DRAFT_FOLLOW_H

#include "draft/lookup.h"

enum {
    WHIM_FOLLOW_NEAR = 64
}; /* tokens behind the place that was left in which it is looked for */

/* {0} is an answer without tokens. */
typedef struct whim_follow {
    int64_t at;      /* the token of the text that may come next */
    bool is_lost;    /* it stands nowhere in the text; `at` is where it left it */
    int64_t n_taken; /* tokens of the answer so far */
    int64_t n_right; /* those that were as predicted */
} whim_follow;

/* The answer has grown to n tokens. `index` knows all of the text. */
void whim_follow_take(whim_follow *follow, const whim_lookup *index, const int32_t *text,
                      const int32_t *answer, int64_t n);

/* Up to `max` tokens of the text that may come next; returns how many. */
int64_t whim_follow_propose(const whim_follow *follow, const whim_lookup *index,
                            const int32_t *text, int32_t *out, int64_t max);

#endif

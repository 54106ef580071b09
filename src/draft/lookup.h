/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals without a draft model: where the last tokens of a text stood before, what came then may
 * come again. The index of a text says where each run of WHIM_LOOKUP_RUN tokens stood; it grows
 * with the text and never changes what it said of it.
 * Threads: one owner. */
#ifndef WHIM_DRAFT_LOOKUP_H
#define WHIM_DRAFT_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_LOOKUP_RUN = 3,      /* a shorter run comes again by chance */
    WHIM_LOOKUP_LONGEST = 32, /* of two places the one before which more is the same is taken */
};

/* {0} is the index of an empty text. */
typedef struct whim_lookup {
    int32_t *last;   /* [n_slot] by hash of a run: the newest place after such a run, from 1 on */
    int32_t *before; /* [cap] by place: the one before it with the same hash, 0: none */
    int64_t n_slot, cap;
    int64_t n; /* tokens that it knows */
} whim_lookup;

void whim_lookup_deinit(whim_lookup *lookup);

/* The text has grown to n tokens. False: there is no memory, and the index knows what it knew. */
bool whim_lookup_grow(whim_lookup *lookup, const int32_t *text, int64_t n);

/* What followed the last tokens of `tail` [n_tail] where they stood in the text of the index: up to
 * `max` tokens; returns how many. The tail may be the end of that text itself; a proposal may go on
 * into what it proposes, as a text that goes in circles does. */
int64_t whim_lookup_find(const whim_lookup *lookup, const int32_t *text, const int32_t *tail,
                         int64_t n_tail, int32_t *out, int64_t max);

/* The place of the token that find would begin with; 0: there is none. */
int64_t whim_lookup_place(const whim_lookup *lookup, const int32_t *text, const int32_t *tail,
                          int64_t n_tail);

#endif

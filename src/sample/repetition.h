/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an answer goes round in a circle: its last tokens are one cycle of at most
 * WHIM_REPETITION_CYCLE tokens, over and over, without any change. Exact: ids are compared, nothing
 * is guessed, so text that repeats with a counter in it does not count.
 *
 * How many tokens must repeat is the caller's choice. A stop that comes late costs seconds; one
 * that should not be costs an answer. So the usual number (a cycle of 64 tokens 32 times, one of 10
 * tokens 204 times) is above what people ask for: a grid of 20 x 20 zeros, a hundred equal lines or
 * rows of a table. It still ends the endless blanks that models write in JSON.
 * Threads: one owner. */
#ifndef WHIM_SAMPLE_REPETITION_H
#define WHIM_SAMPLE_REPETITION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_REPETITION_CYCLE = 64,   /* the longest cycle that is looked for, in tokens */
    WHIM_REPETITION_LIMIT = 2048, /* repeated tokens that end an answer */
};

/* {0} has seen nothing. */
typedef struct whim_repetition {
    /* [p - 1]: how many of the last tokens, one after the other, equal the token p before them */
    int64_t same[WHIM_REPETITION_CYCLE];
} whim_repetition;

/* Look at the last of the n >= 1 tokens; to be called once for each, with the same limit. True when
 * the last `limit` tokens are one cycle that stands there at least twice. */
bool whim_repetition_push(whim_repetition *r, const int32_t *tokens, int64_t n, int64_t limit);

#endif

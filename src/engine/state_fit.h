/* SPDX-License-Identifier: Apache-2.0 */
/* How many recurrent states memory has room for. Threads: a function of its arguments. */
#ifndef WHIM_ENGINE_STATE_FIT_H
#define WHIM_ENGINE_STATE_FIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_state_fit {
    int64_t slot_bytes;   /* of one state; 0: the model has none */
    int64_t n_checkpoint; /* wanted for reuse */
    bool may_lower;       /* nobody asked for max_seqs: lower it to what half of the memory holds */
    int64_t max_seqs;     /* in and out */
    int64_t n_state;      /* out: one for each sequence, and the checkpoints */
} whim_state_fit;

/* Choose for `left` bytes of memory, and return what is left then. Checkpoints take at most an eighth of what the
 * sequences leave, but are two if there is room for two. */
int64_t whim_state_fit_choose(whim_state_fit *fit, int64_t left);

#endif

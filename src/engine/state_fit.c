/* SPDX-License-Identifier: Apache-2.0 */
/* States before pages: a sequence cannot do without its state, and pages make do with what is left. */
#include "engine/state_fit.h"

int64_t whim_state_fit_choose(whim_state_fit *fit, int64_t left)
{
    int64_t slot = fit->slot_bytes;
    fit->n_state = 0;
    if (slot == 0) {
        return left;
    }
    int64_t most = left / 2 / slot > 1 ? left / 2 / slot : 1;
    if (fit->may_lower && fit->max_seqs > most) {
        fit->max_seqs = most;
    }
    left -= fit->max_seqs * slot;
    int64_t room = left < 2 * slot ? 0 : left / 8 / slot > 2 ? left / 8 / slot : 2;
    int64_t n_checkpoint = fit->n_checkpoint < room ? fit->n_checkpoint : room;
    fit->n_state = fit->max_seqs + n_checkpoint;
    return left - n_checkpoint * slot;
}

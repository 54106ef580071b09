/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of a thread. */
#include "base/turn.h"

#include <stddef.h>

static _Thread_local whim_turn_fn *turn_fn;
static _Thread_local void *turn_ctx;

void whim_turn_set(whim_turn_fn *fn, void *ctx)
{
    turn_fn = fn;
    turn_ctx = ctx;
}

void whim_turn_give(void)
{
    if (turn_fn != NULL) {
        turn_fn(turn_ctx);
    }
}

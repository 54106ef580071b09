/* SPDX-License-Identifier: Apache-2.0 */
/* Long work that lets others have turns: the thread's owner says what to do then, and whoever works
 * long calls whim_turn_give every few milliseconds, with no lock held.
 * Threads: each has its own. */
#ifndef WHIM_BASE_TURN_H
#define WHIM_BASE_TURN_H

typedef void whim_turn_fn(void *ctx);

/* From now on whim_turn_give on this thread calls fn(ctx); NULL: it does nothing. */
void whim_turn_set(whim_turn_fn *fn, void *ctx);
void whim_turn_give(void);

#endif

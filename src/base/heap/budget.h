/* SPDX-License-Identifier: Apache-2.0 */
/* One account of the heap, and a limit on what comes from outside. Everything that whim_alloc and
 * the JSON library take is counted, whatever it is for: bodies, their values, prompts, grammars,
 * events, replies that nobody reads. Threads that work for somebody outside have a share of the
 * budget: where their next allocation would go beyond it, it fails, and the request with it. Other
 * threads, which bring under way what was accepted, are counted but never refused.
 * Threads: any. A share belongs to its thread. The count of another thread may be late by
 * WHIM_BUDGET_LATE bytes. */
#ifndef WHIM_BASE_HEAP_BUDGET_H
#define WHIM_BASE_HEAP_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WHIM_BUDGET_LATE = 1 << 16, WHIM_BUDGET_WHOLE = 8 };

/* From now on what is taken beyond what the heap holds now may be so much; 0: any. */
void whim_budget_set(int64_t bytes);
int64_t whim_budget_bytes(void);
int64_t whim_budget_used(void); /* since it was set */

/* Whether more than so many eighths are taken; never without a budget. */
bool whim_budget_is_over(int32_t eighths);

/* So many bytes for one of many that have them, or a sixteenth of the budget if that is less. */
int64_t whim_budget_most_of(int64_t bytes);

/* This thread's share from now on, in eighths of the budget; 0: it is never refused. Returns the
 * share that it had. */
int32_t whim_budget_share(int32_t eighths);

/* How often somebody was refused for lack of it since the start; one more. */
int64_t whim_budget_refused(void);
void whim_budget_refuse(void);

/* Allocations of this thread that failed so far, for whatever reason: work that continues with less
 * where memory is short can be told from work that was whole. */
int64_t whim_heap_failures(void);

/* What was counted for an allocation; 0 for NULL. */
int64_t whim_heap_bytes(const void *taken);

/* As malloc and realloc, for libraries that take their memory from us; whim_free gives it back. */
void *whim_alloc_plain(size_t bytes);
void *whim_realloc_plain(void *old, size_t bytes);

/* What this thread has taken so far, less what it has given back: across some work, what that has
 * left behind. */
int64_t whim_budget_taken_here(void);

/* For allocators: whether this thread may take so much, and that it was taken (or given back, where
 * it is negative). */
bool whim_budget_allows(int64_t bytes);
void whim_budget_count(int64_t bytes);
/* Both at once: of threads that want the same room, the first that counts has it. Exact for twice
 * WHIM_BUDGET_LATE bytes and more. */
bool whim_budget_take(int64_t bytes);

#endif

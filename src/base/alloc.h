/* SPDX-License-Identifier: Apache-2.0 */
/* The heap, with two tests built in: a guard that trips when a step allocates, and a countdown that
 * makes the n-th allocation fail. Everything in src/ takes memory here or from an allocator built
 * on it: arena (engine and request lifetimes).
 * Threads: whim_alloc and whim_free from any thread; the guard is per thread; the countdown is for
 * single-threaded tests. */
#ifndef WHIM_BASE_ALLOC_H
#define WHIM_BASE_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* Up to the next multiple of 64: where memory after so many bytes may begin. */
static inline int64_t whim_aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Zeroed memory, aligned to 64 bytes, or NULL. Zero or negative sizes give one byte. */
void *whim_alloc(int64_t bytes);

/* `count * size` with overflow check. */
void *whim_alloc_array(int64_t count, int64_t size);

/* Grow or shrink, keeping the contents; the new part is zeroed. NULL leaves `old` as it was. */
void *whim_realloc(void *old, int64_t old_bytes, int64_t new_bytes);

/* Room for `need` elements of `size` bytes in all: the array, whose address is given, at least
 * doubles when its `*cap` are too few. False without memory; then nothing changed. */
bool whim_grow(void *array, int64_t need, int64_t *cap, int64_t size);

/* NULL is legal. */
void whim_free(void *ptr);

/* Between enter and leave, whim_alloc on this thread is a bug: it ends the process with a message
 * in debug builds (WHIM_DEBUG) and is counted in all builds. The calls nest. */
void whim_alloc_guard_enter(void);
void whim_alloc_guard_leave(void);

/* How many allocations happened under a guard in this process so far. */
int64_t whim_alloc_guard_trips(void);

/* Fault tests: let `n` allocations succeed, then fail every one; negative: never fail. */
void whim_alloc_fail_after(int64_t n);

#endif

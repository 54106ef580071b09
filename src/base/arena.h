/* SPDX-License-Identifier: Apache-2.0 */
/* Bump allocators, for what lives as long as its owner (tables, names, bound tensors). All memory
 * goes at once; there is no free of a single piece.
 * Threads: an arena belongs to one thread at a time. */
#ifndef WHIM_BASE_ARENA_H
#define WHIM_BASE_ARENA_H

#include <stdint.h>

typedef struct whim_arena_chunk whim_arena_chunk;

typedef struct whim_arena {
    whim_arena_chunk *chunks; /* newest first */
    char *at;                 /* next free byte */
    char *end;
    int64_t total; /* bytes handed out, alignment included */
} whim_arena;

/* It takes nothing until first used; {0} is the same. */
void whim_arena_init(whim_arena *arena);

/* Zeroed memory aligned to 64 bytes; NULL when the heap has no room. */
void *whim_arena_alloc(whim_arena *arena, int64_t bytes);
void *whim_arena_alloc_array(whim_arena *arena, int64_t count, int64_t size);

/* Room for one element more in an array of n that is in the arena: it doubles whenever n is a
 * power of two, and its old copies stay. NULL without memory; then nothing changed. */
void *whim_arena_grow(whim_arena *arena, void *array, int64_t n, int64_t size);

/* A NUL-terminated copy of `n` bytes of text. */
char *whim_arena_strndup(whim_arena *arena, const char *text, int64_t n);

/* Forget all pieces and give their memory back. */
void whim_arena_reset(whim_arena *arena);

#endif

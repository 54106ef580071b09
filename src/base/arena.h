/* SPDX-License-Identifier: Apache-2.0 */
/* Bump allocators. A growing arena holds what lives as long as the engine (tables, names, bound
 * tensors); a fixed arena lives in a buffer of the caller and is reset each step. All memory goes
 * at once; there is no free of a single piece.
 * Threads: an arena belongs to one thread at a time. */
#ifndef WHIM_BASE_ARENA_H
#define WHIM_BASE_ARENA_H

#include <stdint.h>

typedef struct whim_arena_chunk whim_arena_chunk;

typedef struct whim_arena {
    whim_arena_chunk *chunks; /* newest first; NULL in a fixed arena */
    char *at;                 /* next free byte */
    char *end;
    char *fixed;   /* start of the caller's buffer, or NULL for a growing arena */
    int64_t total; /* bytes handed out, alignment included */
    int64_t peak;  /* largest `total` since init */
} whim_arena;

/* A growing arena takes nothing until first used. */
void whim_arena_init(whim_arena *arena);

/* A fixed arena over `bytes` at `buffer`, which the caller keeps. It never grows. */
void whim_arena_init_fixed(whim_arena *arena, void *buffer, int64_t bytes);

/* Zeroed memory aligned to 64 bytes; NULL when the heap or the fixed buffer has no room. */
void *whim_arena_alloc(whim_arena *arena, int64_t bytes);
void *whim_arena_alloc_array(whim_arena *arena, int64_t count, int64_t size);

/* A NUL-terminated copy of `n` bytes of text. */
char *whim_arena_strndup(whim_arena *arena, const char *text, int64_t n);

/* Forget all pieces: a growing arena gives its memory back, a fixed one starts over. */
void whim_arena_reset(whim_arena *arena);

#endif

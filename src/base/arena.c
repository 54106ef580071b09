/* SPDX-License-Identifier: Apache-2.0 */
/* Bump allocation in chunks. */
#include "base/arena.h"

#include "base/alloc.h"

#include <string.h>

enum { ARENA_ALIGN = 64, ARENA_CHUNK = 64 * 1024 };

struct whim_arena_chunk {
    whim_arena_chunk *next;
    char pad[ARENA_ALIGN - sizeof(whim_arena_chunk *)]; /* keeps data aligned */
    char data[];
};

void whim_arena_init(whim_arena *arena)
{
    *arena = (whim_arena){0};
}

static int arena_grow(whim_arena *arena, int64_t bytes)
{
    int64_t size = bytes > ARENA_CHUNK ? bytes : ARENA_CHUNK;
    whim_arena_chunk *chunk = whim_alloc((int64_t)sizeof *chunk + size);
    if (chunk == NULL) {
        return 0;
    }
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->at = chunk->data;
    arena->end = chunk->data + size;
    return 1;
}

void *whim_arena_alloc(whim_arena *arena, int64_t bytes)
{
    if (bytes < 0 || bytes > INT64_MAX - ARENA_ALIGN) {
        return NULL;
    }
    bytes = bytes == 0 ? 1 : bytes; /* NULL is for failure only */
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (arena->end - arena->at < bytes && !arena_grow(arena, bytes)) {
        return NULL;
    }
    char *piece = arena->at;
    arena->at += bytes;
    arena->total += bytes;
    return memset(piece, 0, (size_t)bytes);
}

void *whim_arena_alloc_array(whim_arena *arena, int64_t count, int64_t size)
{
    int64_t bytes;
    if (count < 0 || size < 0 || __builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return whim_arena_alloc(arena, bytes);
}

void *whim_arena_grow(whim_arena *arena, void *array, int64_t n, int64_t size)
{
    if ((n & (n - 1)) != 0) {
        return array;
    }
    void *grown = whim_arena_alloc_array(arena, n == 0 ? 1 : 2 * n, size);
    if (grown != NULL && n > 0) {
        memcpy(grown, array, (size_t)(n * size));
    }
    return grown;
}

char *whim_arena_strndup(whim_arena *arena, const char *text, int64_t n)
{
    char *copy = whim_arena_alloc(arena, n + 1);
    if (copy != NULL) {
        memcpy(copy, text, (size_t)n);
        copy[n] = '\0';
    }
    return copy;
}

void whim_arena_reset(whim_arena *arena)
{
    for (whim_arena_chunk *chunk = arena->chunks; chunk != NULL;) {
        whim_arena_chunk *next = chunk->next;
        whim_free(chunk);
        chunk = next;
    }
    whim_arena_init(arena);
}

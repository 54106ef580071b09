/* SPDX-License-Identifier: Apache-2.0 */
/* A blob that is being fetched in pieces, in a file that knows which of its bytes are good. Behind
 * the room for the content stands a table: for each piece, how many bytes from its beginning are
 * there. Content is written before the table says so, so that a process may end at any moment, by
 * any signal, and the next one continues. After a crash of the machine the table may be wrong: the
 * checksum of the whole decides.
 * Threads: writes from any thread; open, reset and close from one. One process at a time, see
 * whim_hub_lock. */
#ifndef WHIM_HUB_PARTIAL_H
#define WHIM_HUB_PARTIAL_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_hub_partial {
    int fd;           /* -1: closed */
    const char *path; /* borrowed */
    int64_t bytes, piece_bytes;
    int32_t n_piece;
    pthread_rwlock_t seal_lock; /* held by writers, and taken whole to seal */
    bool sealed;
    pthread_mutex_t lock;
    /* Under the lock. */
    int64_t *good;   /* [n_piece] bytes from the piece's beginning */
    int64_t *stored; /* [n_piece] the same as the file's table has it */
} whim_hub_partial;

/* Begin, or continue with what is there when it is of the same size and pieces. */
WHIM_MUST_CHECK whim_err whim_hub_partial_open(whim_hub_partial *partial, const char *path,
                                               int64_t bytes, int64_t piece_bytes, whim_diag *diag);

/* Where a piece begins and ends, and how much of it, or of all pieces, is there. */
int64_t whim_hub_partial_start(const whim_hub_partial *partial, int32_t piece);
int64_t whim_hub_partial_end(const whim_hub_partial *partial, int32_t piece);
int64_t whim_hub_partial_good(whim_hub_partial *partial, int32_t piece);
int64_t whim_hub_partial_total(whim_hub_partial *partial);

/* Write bytes at an offset of the content; *fresh is how many of them were not there before.
 * Sealed, it takes no more. */
WHIM_MUST_CHECK whim_err whim_hub_partial_write(whim_hub_partial *partial, int64_t offset,
                                                const char *bytes, int64_t n, int64_t *fresh,
                                                whim_diag *diag);

/* From now on nothing is written, so that the content can be checked. Waits for writes
 * that have begun. */
void whim_hub_partial_seal(whim_hub_partial *partial);

/* The content is no longer valid; writing begins again. */
WHIM_MUST_CHECK whim_err whim_hub_partial_reset(whim_hub_partial *partial, whim_diag *diag);

/* It is sealed and its content right: cut the table off, get the content to the disk and give the
 * file its name. */
WHIM_MUST_CHECK whim_err whim_hub_partial_publish(whim_hub_partial *partial, const char *path,
                                                  whim_diag *diag);

/* It is sealed and its content wrong: delete it. */
void whim_hub_partial_discard(whim_hub_partial *partial);

/* Keep what is there for the next time, when it is neither published nor discarded. A closed one is
 * legal. */
void whim_hub_partial_close(whim_hub_partial *partial);

/* Hold the lock of a blob, as Hugging Face's own tools do. Waits for other processes, telling
 * `waiting` once (may be NULL); *stop (may be NULL) ends that with IO. The descriptor is the
 * caller's to close, which releases it; -1 where the file system has no locks. */
WHIM_MUST_CHECK whim_err whim_hub_lock(const char *path, int *fd, const atomic_bool *stop,
                                       void (*waiting)(void *ctx), void *ctx, whim_diag *diag);

#endif

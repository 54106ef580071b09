/* SPDX-License-Identifier: Apache-2.0 */
/* Threads with names, and a loop shared by several of them. Mutexes and conditions are those of
 * pthreads. */
#ifndef WHIM_BASE_THREAD_H
#define WHIM_BASE_THREAD_H

#include "base/err.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* A condition whose waits end by the clock of whim_clock_after. */
static inline void whim_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* Caller's storage; stays where it is until joined. */
typedef struct whim_thread {
    pthread_t handle;
    void (*fn)(void *ctx);
    void *ctx;
    char name[16]; /* seen in ps and gdb; longer names are cut */
} whim_thread;

/* Run fn(ctx) on a new thread, which may use every CPU of the process even if its creator is
 * pinned, and which gets no signals (they belong to the threads that apps/ makes). */
WHIM_MUST_CHECK whim_err whim_thread_create(whim_thread *thread, const char *name,
                                            void (*fn)(void *ctx), void *ctx, whim_diag *diag);

/* Wait for its end. Exactly once for each thread created. */
void whim_thread_join(whim_thread *thread);

/* One item of a loop; `worker` is 0 .. n_thread-1, so that workers can own buffers. */
typedef whim_err (*whim_parallel_fn)(void *ctx, int64_t item, int32_t worker);

/* Call fn for items 0 .. n_item-1 on up to n_thread threads, the caller's among them (worker 0).
 * Items are handed out in order, one at a time. After a failure no new item is begun; the result is
 * the error of the lowest item that failed, whatever the timing. When the system has no thread
 * left, fewer do the work. */
WHIM_MUST_CHECK whim_err whim_parallel_for(int32_t n_thread, int64_t n_item, whim_parallel_fn fn,
                                           void *ctx);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Threads over pthreads. */
#include "base/thread.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/os/cpu.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static void *thread_main(void *arg)
{
    whim_thread *thread = arg;
    whim_os_thread_name(thread->name);
    whim_os_thread_unpin();
    thread->fn(thread->ctx);
    return NULL;
}

whim_err whim_thread_create(whim_thread *thread, const char *name, void (*fn)(void *ctx), void *ctx,
                            whim_diag *diag)
{
    *thread = (whim_thread){.fn = fn, .ctx = ctx};
    snprintf(thread->name, sizeof thread->name, "%s", name);
    sigset_t all, old;
    sigfillset(&all);
    /* A fault must still end the process where it happens. */
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGTRAP);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread->handle, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "cannot start thread \"%s\": %s", name,
                         strerror(rc));
    }
    return WHIM_ERR_OK;
}

void whim_thread_join(whim_thread *thread)
{
    whim_check(pthread_join(thread->handle, NULL) == 0);
}

typedef struct parallel_loop {
    whim_parallel_fn fn;
    void *ctx;
    int64_t n_item;
    atomic_llong next;
    atomic_bool failed;
    pthread_mutex_t lock;
    int64_t err_item; /* under lock: lowest failed item and its error */
    whim_err err;
} parallel_loop;

typedef struct parallel_worker {
    whim_thread thread;
    parallel_loop *loop;
    int32_t index;
} parallel_worker;

static void parallel_walk(parallel_loop *loop, int32_t worker)
{
    /* The flag is read before an item is taken, never after: an item that was handed out always
     * runs, so all items below a failed one run, and the lowest failure is always found. */
    while (!atomic_load(&loop->failed)) {
        int64_t item = atomic_fetch_add(&loop->next, 1);
        if (item >= loop->n_item) {
            return;
        }
        whim_err err = loop->fn(loop->ctx, item, worker);
        if (err != WHIM_ERR_OK) {
            pthread_mutex_lock(&loop->lock);
            if (loop->err == WHIM_ERR_OK || item < loop->err_item) {
                loop->err = err;
                loop->err_item = item;
            }
            pthread_mutex_unlock(&loop->lock);
            atomic_store(&loop->failed, true);
        }
    }
}

static void parallel_main(void *ctx)
{
    parallel_worker *worker = ctx;
    parallel_walk(worker->loop, worker->index);
}

whim_err whim_parallel_for(int32_t n_thread, int64_t n_item, whim_parallel_fn fn, void *ctx)
{
    parallel_loop loop = {.fn = fn, .ctx = ctx, .n_item = n_item};
    pthread_mutex_init(&loop.lock, NULL);
    int64_t n_extra = n_thread < n_item ? n_thread - 1 : n_item - 1;
    parallel_worker *extra = NULL;
    if (n_extra > 0) {
        extra = whim_alloc_array(n_extra, sizeof *extra);
    }
    int64_t n_started = 0;
    while (extra != NULL && n_started < n_extra) {
        parallel_worker *worker = &extra[n_started];
        worker->loop = &loop;
        worker->index = (int32_t)n_started + 1;
        if (whim_thread_create(&worker->thread, "whim-loop", parallel_main, worker, NULL) !=
            WHIM_ERR_OK) {
            break;
        }
        n_started++;
    }
    parallel_walk(&loop, 0);
    for (int64_t i = 0; i < n_started; i++) {
        whim_thread_join(&extra[i].thread);
    }
    whim_free(extra);
    pthread_mutex_destroy(&loop.lock);
    return loop.err;
}

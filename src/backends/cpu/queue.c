/* SPDX-License-Identifier: Apache-2.0 */
/* The order of parts, and the thread that may run them. */
#include "backends/cpu/queue.h"

#include "base/alloc.h"
#include "base/check.h"

whim_err whim_cpu_queue_init(whim_cpu_queue *q, whim_cpu_workers *workers)
{
    q->workers = workers;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    for (int32_t i = 0; i < CPU_PARTS; i++) {
        q->parts[i].list = whim_alloc_array(CPU_LIST_MAX, sizeof *q->parts[i].list);
        if (q->parts[i].list == NULL) {
            return WHIM_ERR_NO_MEMORY;
        }
    }
    return WHIM_ERR_OK;
}

void whim_cpu_queue_deinit(whim_cpu_queue *q)
{
    if (q->has_thread) {
        pthread_mutex_lock(&q->lock);
        q->quit = true;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->lock);
        whim_thread_join(&q->thread);
    }
    for (int32_t i = 0; i < CPU_PARTS; i++) {
        whim_free(q->parts[i].list);
    }
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
}

whim_cpu_part *whim_cpu_queue_part(whim_cpu_queue *q)
{
    return &q->parts[q->n_closed % CPU_PARTS];
}

/* Unless one before it failed. */
static whim_err part_run(whim_cpu_queue *q, whim_cpu_part *part, whim_err failed)
{
    q->run_err = failed;
    for (int32_t i = 0; i < part->n_run && q->run_err == WHIM_ERR_OK; i++) {
        whim_cpu_workers_run(q->workers, part->runs[i].commands, part->runs[i].n_command);
    }
    part->n_run = 0;
    return q->run_err;
}

/* The oldest part, without the lock. */
static void run_next(whim_cpu_queue *q)
{
    whim_cpu_part *part = &q->parts[q->n_done % CPU_PARTS];
    whim_err failed = q->failed;
    pthread_mutex_unlock(&q->lock);
    whim_err err = part_run(q, part, failed);
    pthread_mutex_lock(&q->lock);
    q->n_done++;
    if (err != WHIM_ERR_OK && failed == WHIM_ERR_OK) {
        q->failed = err;
        q->first_failed = q->n_done;
    }
    q->n_begun = q->n_begun > q->n_done ? q->n_begun : q->n_done;
    pthread_cond_broadcast(&q->changed);
}

static void thread_main(void *ctx)
{
    whim_cpu_queue *q = ctx;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (q->n_done == q->n_begun && !q->quit) {
            pthread_cond_wait(&q->changed, &q->lock);
        }
        if (q->n_done == q->n_begun) {
            break;
        }
        run_next(q);
    }
    pthread_mutex_unlock(&q->lock);
}

bool whim_cpu_queue_idle(whim_cpu_queue *q)
{
    pthread_mutex_lock(&q->lock);
    bool idle = q->n_done == q->n_closed;
    pthread_mutex_unlock(&q->lock);
    return idle;
}

/* Until the part is done. Lock held. */
static void wait_done(whim_cpu_queue *q, whim_event event)
{
    while (q->n_done < event && q->n_done < q->n_begun) {
        pthread_cond_wait(&q->changed, &q->lock);
    }
    while (q->n_done < event) { /* the queue's thread was not told of these */
        run_next(q);
    }
}

whim_err whim_cpu_queue_wait(whim_cpu_queue *q, whim_event event)
{
    whim_check(event <= q->n_closed);
    pthread_mutex_lock(&q->lock);
    wait_done(q, event);
    whim_err err = event >= q->first_failed ? q->failed : WHIM_ERR_OK;
    if (event == q->n_closed) {
        q->failed = WHIM_ERR_OK;
    }
    pthread_mutex_unlock(&q->lock);
    return err;
}

whim_event whim_cpu_queue_close(whim_cpu_queue *q)
{
    whim_event event = q->n_closed + 1;
    if (event > WHIM_STREAM_EVENTS) { /* its error is told to whoever waits for it */
        pthread_mutex_lock(&q->lock);
        wait_done(q, event - WHIM_STREAM_EVENTS);
        pthread_mutex_unlock(&q->lock);
    }
    q->n_closed = event;
    return event;
}

whim_err whim_cpu_queue_begin(whim_cpu_queue *q, whim_diag *diag)
{
    if (!q->has_thread) {
        WHIM_TRY(whim_thread_create(&q->thread, "whim-cpu-lead", thread_main, q, diag));
        q->has_thread = true;
    }
    pthread_mutex_lock(&q->lock);
    q->n_begun = q->n_closed;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return WHIM_ERR_OK;
}

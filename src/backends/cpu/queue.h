/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a stream's work in order, and who runs them: the thread that waits for them, or, once
 * begin was called, a thread of the queue's own. Either is worker 0 while it runs a list.
 * Threads: one owner records and waits; the queue's own thread runs. */
#ifndef WHIM_BACKENDS_CPU_QUEUE_H
#define WHIM_BACKENDS_CPU_QUEUE_H

#include "backends/cpu/workers.h"
#include "device/device.h"

enum {
    CPU_LIST_MAX = 4096, /* commands of one part that are not those of graphs */
    CPU_RUNS_MAX = 16,   /* runs of commands of one part: own ones, graphs, own ones ... */
    CPU_PARTS = WHIM_STREAM_EVENTS + 1, /* those that are closed, and the one that is recorded */
};

/* Commands that lie together. A run begins when the one before it has ended. */
typedef struct whim_cpu_run {
    const whim_cpu_command *commands;
    int64_t n_command;
} whim_cpu_run;

typedef struct whim_cpu_part {
    whim_cpu_command *list; /* [CPU_LIST_MAX] */
    whim_cpu_run runs[CPU_RUNS_MAX];
    int32_t n_run;
} whim_cpu_part;

typedef struct whim_cpu_queue {
    whim_cpu_workers *workers;
    whim_cpu_part parts[CPU_PARTS]; /* part n is at n % CPU_PARTS */
    int64_t n_closed;  /* the owner's: parts that have an event; the next one is recorded */
    whim_err run_err;  /* of who runs a part: a command of it failed, and stopped its list */
    whim_err team_err; /* of the collective that workers do together */
    bool has_thread;
    whim_thread thread;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    int64_t n_begun; /* parts that the queue's thread may run */
    int64_t n_done;
    whim_err failed; /* parts from first_failed on; none of them runs after that */
    int64_t first_failed;
    bool quit;
} whim_cpu_queue;

WHIM_MUST_CHECK whim_err whim_cpu_queue_init(whim_cpu_queue *queue, whim_cpu_workers *workers);
void whim_cpu_queue_deinit(whim_cpu_queue *queue);

/* The part that is recorded. */
whim_cpu_part *whim_cpu_queue_part(whim_cpu_queue *queue);

/* Whether all that has an event is done. */
bool whim_cpu_queue_idle(whim_cpu_queue *queue);

/* End the part that is recorded; returns its event. Waits for the oldest part where there
 * would be too many. */
whim_event whim_cpu_queue_close(whim_cpu_queue *queue);

/* The error of the part, or of one before it that was still under way with it. What is queued when
 * the last one was waited for begins again. */
WHIM_MUST_CHECK whim_err whim_cpu_queue_wait(whim_cpu_queue *queue, whim_event event);

/* Run the parts that are closed now without being waited for. */
WHIM_MUST_CHECK whim_err whim_cpu_queue_begin(whim_cpu_queue *queue, whim_diag *diag);

#endif

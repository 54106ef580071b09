/* SPDX-License-Identifier: Apache-2.0 */
/* Showing how far long work has come. Invariants:
 *  1. On a terminal one line is redrawn at most 10 times a second; elsewhere whole lines are
 *     written, the first, the last, and between them at most one each 2 seconds; in quiet mode
 *     nothing is.
 *  2. What is on the screen ends with a newline once the work is finished, well or not.
 * Threads: add and hide from any thread; init and finish from one, before and after all others. */
#ifndef WHIM_BASE_REPORT_PROGRESS_H
#define WHIM_BASE_REPORT_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum whim_progress_mode {
    WHIM_PROGRESS_AUTO, /* a bar when the descriptor is a terminal, else lines */
    WHIM_PROGRESS_BAR,
    WHIM_PROGRESS_LINES,
    WHIM_PROGRESS_QUIET,
} whim_progress_mode;

typedef struct whim_progress_cfg {
    const char *label; /* "load model", borrowed until finish */
    int64_t total;     /* units of the whole work; <= 0: unknown */
    bool bytes;        /* units are bytes, else things that are counted */
    int64_t delay_ns;  /* work that is done before shows nothing at all */
    int fd;
    whim_progress_mode mode;
    int64_t (*now)(void); /* NULL: whim_clock_ns; for tests, in which no time passes by itself */
} whim_progress_cfg;

/* Caller's storage; stays where it is from init to finish. */
typedef struct whim_progress {
    whim_progress_cfg cfg;
    int64_t start_ns;
    atomic_llong done;
    atomic_llong next_ns; /* not to be drawn before */
    pthread_mutex_t lock; /* for what follows and for the descriptor */
    int32_t shown;        /* columns of the bar on the screen */
    bool drawn;           /* ever */
    bool finished;
} whim_progress;

void whim_progress_init(whim_progress *progress, const whim_progress_cfg *cfg);

/* So many more units are done. Cheap enough for every slab of a load. NULL is legal. */
void whim_progress_add(whim_progress *progress, int64_t units);

/* Take the bar off the screen so that something else can be written; it comes back by itself. */
void whim_progress_hide(whim_progress *progress);

/* The last line: what was done and how long it took, or where it stopped. Exactly once. */
void whim_progress_finish(whim_progress *progress, bool ok);

#endif

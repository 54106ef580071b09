/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one event per line, as key=value words,
 *     time=2026-01-31T12:00:00.000Z level=info event=model_loaded path=/m seconds=1.2
 * written with one write, so that lines of several threads and processes do not mix. Line breaks and
 * other control characters inside a message are escaped: no outside text can forge a line.
 * Nobody waits for a reader of the log: a line that a full pipe does not take is dropped, and the next one that gets
 * through ends with dropped=N.
 * Threads: any, except init, attach's lifetime and deinit. */
#ifndef WHIM_BASE_LOG_H
#define WHIM_BASE_LOG_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct whim_progress;

typedef enum whim_log_level {
    WHIM_LOG_ERROR,
    WHIM_LOG_WARN,
    WHIM_LOG_INFO,
    WHIM_LOG_DEBUG,
} whim_log_level;

typedef struct whim_log {
    int fd;
    whim_log_level level; /* events above it are dropped */
    pthread_mutex_t lock;
    /* Under the lock. */
    struct whim_progress *bar;
    int64_t dropped; /* lines since the last one that was written */
    bool is_torn;    /* the last bytes written are no whole line */
} whim_log;

void whim_log_init(whim_log *log, int fd, whim_log_level level);
void whim_log_deinit(whim_log *log);

/* "error", "warn", "info" or "debug"; false for other words. */
bool whim_log_level_parse(const char *name, whim_log_level *out);

/* While this bar (NULL: none) is on the screen, take it off before each line. */
void whim_log_attach(whim_log *log, struct whim_progress *bar);

/* One event: its name, then key=value words. A NULL log drops it. Lines end at 4 KiB, with cut=1. */
void whim_log_event(whim_log *log, whim_log_level level, const char *fmt, ...) WHIM_PRINTF(3, 4);

#define whim_log_error(log, ...) whim_log_event(log, WHIM_LOG_ERROR, __VA_ARGS__)
#define whim_log_warn(log, ...) whim_log_event(log, WHIM_LOG_WARN, __VA_ARGS__)
#define whim_log_info(log, ...) whim_log_event(log, WHIM_LOG_INFO, __VA_ARGS__)
#define whim_log_debug(log, ...) whim_log_event(log, WHIM_LOG_DEBUG, __VA_ARGS__)

/* A value that may hold blanks, quotes or nothing: as it is, or quoted into buf (cut to fit). */
const char *whim_log_value(char *buf, int64_t n, const char *value);

/* For events that outsiders can cause at will: at most one each interval. Static or caller's storage,
 * {0} to begin with. */
typedef struct whim_log_limit {
    atomic_llong next_ns;
    atomic_llong held_back;
} whim_log_limit;

/* True when the event may be written now; *held_back is how many were not since the last time. */
bool whim_log_allow(whim_log_limit *limit, int64_t interval_ns, int64_t *held_back);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one event per line, a name and fields, as words or as a JSON object:
 *     time=2026-01-31T12:00:00.000Z level=info event=ready model=m port=8080
 *     {"time":"2026-01-31T12:00:00.000Z","level":"info","event":"ready","model":"m","port":8080}
 * written with one write, so that lines of several threads and processes do not mix. Fields are
 * data: quoting and escaping happen here and nowhere else, so no outside text can forge a line or a
 * field, and what comes out is UTF-8. Nobody waits for a reader of the log: a line that a full pipe
 * does not take is dropped, and the next one that gets through ends with dropped=N.
 * Threads: any, except init and deinit. */
#ifndef WHIM_BASE_REPORT_LOG_H
#define WHIM_BASE_REPORT_LOG_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum whim_log_level {
    WHIM_LOG_ERROR,
    WHIM_LOG_WARN,
    WHIM_LOG_INFO,
    WHIM_LOG_DEBUG,
} whim_log_level;

typedef struct whim_log {
    int fd;
    whim_log_level level; /* events above it are dropped */
    bool is_json;         /* else words */
    bool is_journal;      /* lines begin with "<priority>", which journald takes off */
    pthread_mutex_t lock;
    /* Under the lock. */
    int64_t dropped; /* lines since the last one that was written */
    bool is_torn;    /* the last bytes written are no whole line */
} whim_log;

/* Words, not for the journal; the owner may change both before the first event. */
void whim_log_init(whim_log *log, int fd, whim_log_level level);
void whim_log_deinit(whim_log *log);

/* "error", "warn", "info" or "debug"; false for other words. */
bool whim_log_level_parse(const char *name, whim_log_level *out);

/* --- fields ----------------------------------------------------------------------------------- */

typedef enum whim_log_kind { WHIM_LOG_TEXT, WHIM_LOG_INT, WHIM_LOG_REAL } whim_log_kind;

typedef struct whim_log_field {
    const char *key; /* ours: letters, digits and _; NULL ends a list */
    whim_log_kind kind;
    const char *text; /* any bytes, n of them; NULL: there is none */
    int64_t n;        /* of the text, or the number */
    double real;
    int digits; /* of the real, behind the point */
} whim_log_field;

static inline whim_log_field whim_log_text_n(const char *key, const char *text, int64_t n)
{
    return (whim_log_field){.key = key, .kind = WHIM_LOG_TEXT, .text = text, .n = n};
}

static inline whim_log_field whim_log_text(const char *key, const char *text)
{
    return whim_log_text_n(key, text, text == NULL ? 0 : (int64_t)strlen(text));
}

static inline whim_log_field whim_log_int(const char *key, int64_t value)
{
    return (whim_log_field){.key = key, .kind = WHIM_LOG_INT, .n = value};
}

static inline whim_log_field whim_log_real(const char *key, double value, int digits)
{
    return (whim_log_field){.key = key, .kind = WHIM_LOG_REAL, .real = value, .digits = digits};
}

/* --- events ----------------------------------------------------------------------------------- */

/* One event. A NULL log drops it. Lines end at 4 KiB: a text is cut between characters, later
 * fields are left out, and cut=1 says so. */
void whim_log_event(whim_log *log, whim_log_level level, const char *event,
                    const whim_log_field *fields);

/* whim_log_info(log, "ready", whim_log_text("model", name), whim_log_int("port", port)); at least
 * one field. */
#define whim_log_at(log, level, event, ...) \
    whim_log_event(log, level, event, (const whim_log_field[]){__VA_ARGS__, {.key = NULL}})
#define whim_log_error(log, event, ...) whim_log_at(log, WHIM_LOG_ERROR, event, __VA_ARGS__)
#define whim_log_warn(log, event, ...) whim_log_at(log, WHIM_LOG_WARN, event, __VA_ARGS__)
#define whim_log_info(log, event, ...) whim_log_at(log, WHIM_LOG_INFO, event, __VA_ARGS__)
#define whim_log_debug(log, event, ...) whim_log_at(log, WHIM_LOG_DEBUG, event, __VA_ARGS__)

/* A text of any length in as many events as it takes, each with id, part, parts and text. */
void whim_log_long_text(whim_log *log, whim_log_level level, const char *event, const char *id,
                        const char *text, int64_t n);

/* For events that outsiders can cause at will: at most one each interval. Static or caller's
 * storage, {0} to begin with. */
typedef struct whim_log_limit {
    atomic_llong next_ns;
    atomic_llong held_back;
} whim_log_limit;

/* True when the event may be written now; *held_back is how many were not since the last time. */
bool whim_log_allow(whim_log_limit *limit, int64_t interval_ns, int64_t *held_back);

#endif

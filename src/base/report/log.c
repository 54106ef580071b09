/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the log. No memory is taken, so that the log also works when there is none. */
#include "base/report/log.h"

#include "base/clock.h"
#include "base/report/log_line.h"
#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* A line is no longer than PIPE_BUF: a pipe that takes bytes at all takes the whole of it. */
enum { LOG_LINE = 4096, PART = 600 /* a byte takes up to 6 when it is escaped */ };

static const char *const level_names[] = {
    [WHIM_LOG_ERROR] = "error",
    [WHIM_LOG_WARN] = "warn",
    [WHIM_LOG_INFO] = "info",
    [WHIM_LOG_DEBUG] = "debug",
};

/* The priorities of syslog. */
static const int journal_levels[] = {
    [WHIM_LOG_ERROR] = 3,
    [WHIM_LOG_WARN] = 4,
    [WHIM_LOG_INFO] = 6,
    [WHIM_LOG_DEBUG] = 7,
};

void whim_log_init(whim_log *log, int fd, whim_log_level level)
{
    *log = (whim_log){.fd = fd, .level = level};
    pthread_mutex_init(&log->lock, NULL);
}

void whim_log_deinit(whim_log *log)
{
    pthread_mutex_destroy(&log->lock);
}

bool whim_log_level_parse(const char *name, whim_log_level *out)
{
    for (int i = 0; i <= WHIM_LOG_DEBUG; i++) {
        if (strcasecmp(name, level_names[i]) == 0) {
            *out = (whim_log_level)i;
            return true;
        }
    }
    return false;
}

static void format_time(char *buf, size_t n)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(buf, n, "%s.%03dZ", stamp, (int)(now.tv_nsec / WHIM_NS_PER_MS));
}

static bool takes_bytes(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0;
}

/* Write a line, or count it as dropped: never wait for a reader. Lock held. */
static void put_line(whim_log *log, const char *line, int64_t n)
{
    int64_t sent = 0;
    while (sent < n && takes_bytes(log->fd)) {
        ssize_t wrote = write(log->fd, line + sent, (size_t)(n - sent));
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            break; /* there is nowhere to report that the log is gone */
        }
        sent += wrote;
    }
    log->is_torn = sent == 0 ? log->is_torn : sent < n;
    log->dropped = sent < n ? log->dropped + 1 : 0;
}

void whim_log_event(whim_log *log, whim_log_level level, const char *event,
                    const whim_log_field *fields)
{
    if (log == NULL || level > log->level) {
        return;
    }
    char buf[LOG_LINE], stamp[48];
    whim_log_line line;
    buf[0] = '\n'; /* goes out only after a line that was torn */
    int64_t head = 1 + (log->is_journal ? sprintf(buf + 1, "<%d>", journal_levels[level]) : 0);
    format_time(stamp, sizeof stamp);
    whim_log_line_begin(&line, buf + head, LOG_LINE - head, log->is_json);
    const whim_log_field first[] = {whim_log_text("time", stamp),
                                    whim_log_text("level", level_names[level]),
                                    whim_log_text("event", event)};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        whim_log_line_add(&line, &first[i]);
    }
    for (; fields->key != NULL; fields++) {
        whim_log_line_add(&line, fields);
    }
    pthread_mutex_lock(&log->lock);
    whim_log_line_end(&line, log->dropped);
    int64_t from = log->is_torn ? 0 : 1;
    put_line(log, buf + from, head + line.at - from);
    pthread_mutex_unlock(&log->lock);
}

/* Bytes of the next part: whole characters, as many as fit in a line however they are written. */
static int64_t part_length(const char *text, int64_t n)
{
    int64_t at = 0;
    while (at < n && at < PART) {
        int32_t len = whim_utf8_char_length(text + at, n - at);
        at += len == 0 ? 1 : len;
    }
    return at;
}

void whim_log_long_text(whim_log *log, whim_log_level level, const char *event, const char *id,
                        const char *text, int64_t n)
{
    int64_t parts = 0, at = 0, part = 0;
    for (int64_t i = 0; i < n; parts++) {
        i += part_length(text + i, n - i);
    }
    while (at < n) {
        int64_t len = part_length(text + at, n - at);
        whim_log_at(log, level, event, whim_log_text("id", id), whim_log_int("part", ++part),
                    whim_log_int("parts", parts), whim_log_text_n("text", text + at, len));
        at += len;
    }
}

bool whim_log_allow(whim_log_limit *limit, int64_t interval_ns, int64_t *held_back)
{
    int64_t now = whim_clock_ns();
    long long due = atomic_load(&limit->next_ns);
    if (now < due || !atomic_compare_exchange_strong(&limit->next_ns, &due, now + interval_ns)) {
        atomic_fetch_add(&limit->held_back, 1);
        return false;
    }
    *held_back = atomic_exchange(&limit->held_back, 0);
    return true;
}

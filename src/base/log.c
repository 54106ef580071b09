/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the log. No memory is taken, so that the log also works when there is none. */
#include "base/log.h"

#include "base/clock.h"
#include "base/progress.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* A line is no longer than PIPE_BUF: a pipe that takes bytes at all takes the whole of it. */
enum { LOG_LINE = 4096, LOG_TAIL = 48 };

static const char *const level_names[] = {
    [WHIM_LOG_ERROR] = "error",
    [WHIM_LOG_WARN] = "warn",
    [WHIM_LOG_INFO] = "info",
    [WHIM_LOG_DEBUG] = "debug",
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

void whim_log_attach(whim_log *log, whim_progress *bar)
{
    pthread_mutex_lock(&log->lock);
    log->bar = bar;
    pthread_mutex_unlock(&log->lock);
}

/* Append text with control characters escaped; false when it did not fit. */
static bool append_escaped(char *line, int64_t *at, int64_t cap, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        unsigned char next = (unsigned char)text[1];
        char piece[12];
        if (c == '\n') {
            strcpy(piece, "\\n");
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(piece, sizeof piece, "\\x%02x", c);
        } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) { /* U+0080 to U+009F */
            snprintf(piece, sizeof piece, "\\x%02x\\x%02x", c, next);
            text++;
        } else {
            piece[0] = (char)c;
            piece[1] = '\0';
        }
        int64_t n = (int64_t)strlen(piece);
        if (*at + n > cap) {
            return false;
        }
        memcpy(line + *at, piece, (size_t)n);
        *at += n;
    }
    return true;
}

static int64_t format_head(char *line, int64_t n, whim_log_level level)
{
    struct timespec now;
    struct tm utc;
    char stamp[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    return snprintf(line, (size_t)n, "time=%s.%03dZ level=%s event=", stamp,
                    (int)(now.tv_nsec / WHIM_NS_PER_MS), level_names[level]);
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
    if (takes_bytes(log->fd)) {
        whim_progress_hide(log->bar);
    }
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

void whim_log_event(whim_log *log, whim_log_level level, const char *fmt, ...)
{
    if (log == NULL || level > log->level) {
        return;
    }
    char text[LOG_LINE];
    char line[LOG_LINE];
    line[0] = '\n'; /* goes out only after a line that was torn */
    va_list ap;
    va_start(ap, fmt);
    int wanted = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int64_t at = 1 + format_head(line + 1, LOG_LINE - 1, level);
    bool whole = append_escaped(line, &at, LOG_LINE - LOG_TAIL, text);
    if (!whole || wanted >= (int)sizeof text) {
        memcpy(line + at, " cut=1", 6);
        at += 6;
    }
    pthread_mutex_lock(&log->lock);
    if (log->dropped > 0) {
        at +=
            snprintf(line + at, (size_t)(LOG_LINE - at), " dropped=%lld", (long long)log->dropped);
    }
    line[at++] = '\n';
    int64_t from = log->is_torn ? 0 : 1;
    put_line(log, line + from, at - from);
    pthread_mutex_unlock(&log->lock);
}

const char *whim_log_value(char *buf, int64_t n, const char *value)
{
    if (value[0] != '\0' && strpbrk(value, " \t\n\"=\\") == NULL) {
        return value;
    }
    if (n < 3) {
        return "";
    }
    int64_t at = 0;
    buf[at++] = '"';
    for (; *value != '\0'; value++) {
        bool special = *value == '"' || *value == '\\';
        if (at + 1 + special > n - 2) {
            break;
        }
        if (special) {
            buf[at++] = '\\';
        }
        buf[at++] = *value;
    }
    buf[at++] = '"';
    buf[at] = '\0';
    return buf;
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

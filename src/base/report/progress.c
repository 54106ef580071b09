/* SPDX-License-Identifier: Apache-2.0 */
/* Bars and lines. */
#include "base/report/progress.h"

#include "base/clock.h"
#include "base/os/facts.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_LEN = 512, BAR_MIN = 10, BAR_MAX = 40 };

static const int64_t bar_interval_ns = 100 * WHIM_NS_PER_MS;
static const int64_t line_interval_ns = 2 * WHIM_NS_PER_S;

static void write_all(int fd, const char *text, int64_t n)
{
    while (n > 0) {
        ssize_t wrote = write(fd, text, (size_t)n);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return; /* nobody looks; the work goes on */
        }
        text += wrote;
        n -= wrote;
    }
}

static void format_units(char *buf, int64_t n, bool bytes, int64_t units)
{
    if (bytes) {
        whim_format_bytes(buf, n, units);
    } else {
        snprintf(buf, (size_t)n, "%lld", (long long)units);
    }
}

static void format_seconds(char *buf, int64_t n, double s)
{
    if (s < 10) {
        snprintf(buf, (size_t)n, "%.1f s", s);
    } else if (s < 120) {
        snprintf(buf, (size_t)n, "%.0f s", s);
    } else if (s < 7200) {
        snprintf(buf, (size_t)n, "%.0f min", s / 60);
    } else {
        snprintf(buf, (size_t)n, "%.1f h", s / 3600);
    }
}

/* What has been reached, e.g. "45%  1.20 GiB of 2.66 GiB  1.10 GiB/s  1.3 s left". */
static void format_state(const whim_progress *p, bool last, char *buf, int64_t n)
{
    int64_t done = atomic_load(&p->done);
    double seconds = (double)(p->cfg.now() - p->start_ns) / (double)WHIM_NS_PER_S;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    char amount[32], total[48] = "", percent[16] = "", speed[32], time[32];
    format_units(amount, sizeof amount, p->cfg.bytes, done);
    format_units(speed, sizeof speed, p->cfg.bytes, (int64_t)rate);
    if (p->cfg.total > 0) {
        char all[32];
        int64_t reached = done < p->cfg.total ? done : p->cfg.total;
        format_units(all, sizeof all, p->cfg.bytes, p->cfg.total);
        snprintf(total, sizeof total, " of %s", all);
        snprintf(percent, sizeof percent, "%3d%%  ",
                 (int)((double)reached / (double)p->cfg.total * 100));
    }
    if (last) {
        format_seconds(time, sizeof time, seconds);
        snprintf(buf, (size_t)n, "%s%s%s  %s/s  in %s", percent, amount, total, speed, time);
    } else if (p->cfg.total > done && done > 0 && rate > 0) {
        format_seconds(time, sizeof time, (double)(p->cfg.total - done) / rate);
        snprintf(buf, (size_t)n, "%s%s%s  %s/s  %s left", percent, amount, total, speed, time);
    } else {
        snprintf(buf, (size_t)n, "%s%s%s", percent, amount, total);
    }
}

/* Put text in place of the bar that is shown, covering all of it. Lock held. */
static void bar_replace(whim_progress *p, const char *text, int32_t columns)
{
    char line[2 * LINE_MAX_LEN];
    int32_t cover = p->shown > columns ? p->shown - columns : 0;
    int n = snprintf(line, sizeof line, "\r%.*s%*s%s", columns, text, cover, "",
                     columns == 0 ? "\r" : "");
    write_all(p->cfg.fd, line, n);
    p->shown = columns;
}

static void bar_draw(whim_progress *p, const char *label, const char *state)
{
    char line[LINE_MAX_LEN];
    char bar[BAR_MAX + 4] = "";
    int32_t width = whim_os_term_width(p->cfg.fd) - 1; /* a full last column would wrap */
    width = width < LINE_MAX_LEN - 1 ? width : LINE_MAX_LEN - 1;
    int32_t room = width - (int32_t)(strlen(label) + strlen(state)) - 6;
    room = room < BAR_MAX ? room : BAR_MAX;
    if (p->cfg.total > 0 && room >= BAR_MIN) {
        double part = (double)atomic_load(&p->done) / (double)p->cfg.total;
        int32_t full = (int32_t)((part < 1 ? part : 1) * room);
        bar[0] = '[';
        memset(bar + 1, '#', (size_t)full);
        memset(bar + 1 + full, '.', (size_t)(room - full));
        bar[room + 1] = ']';
        bar[room + 2] = ' ';
        bar[room + 3] = '\0';
    }
    snprintf(line, sizeof line, "%s  %s%s", label, bar, state);
    int32_t columns = (int32_t)strlen(line);
    bar_replace(p, line, columns < width ? columns : width);
}

/* Lock held. */
static void progress_draw(whim_progress *p)
{
    char state[LINE_MAX_LEN / 2];
    p->drawn = true;
    format_state(p, false, state, sizeof state);
    if (p->cfg.mode == WHIM_PROGRESS_BAR) {
        bar_draw(p, p->cfg.label, state);
    } else {
        char line[LINE_MAX_LEN];
        snprintf(line, sizeof line - 1, "%.200s: %s", p->cfg.label, state);
        strcat(line, "\n");
        write_all(p->cfg.fd, line, (int64_t)strlen(line));
    }
}

void whim_progress_init(whim_progress *p, const whim_progress_cfg *cfg)
{
    memset(p, 0, sizeof *p);
    p->cfg = *cfg;
    if (p->cfg.mode == WHIM_PROGRESS_AUTO) {
        p->cfg.mode = whim_os_term_is(cfg->fd) ? WHIM_PROGRESS_BAR : WHIM_PROGRESS_LINES;
    }
    pthread_mutex_init(&p->lock, NULL);
    p->cfg.now = cfg->now != NULL ? cfg->now : whim_clock_ns;
    p->start_ns = p->cfg.now();
    int64_t interval = p->cfg.mode == WHIM_PROGRESS_BAR ? bar_interval_ns : line_interval_ns;
    atomic_store(&p->next_ns, p->start_ns + (cfg->delay_ns > 0 ? cfg->delay_ns : interval));
    if (p->cfg.mode != WHIM_PROGRESS_QUIET && cfg->delay_ns == 0) {
        progress_draw(p);
    }
}

void whim_progress_add(whim_progress *p, int64_t units)
{
    if (p == NULL) {
        return;
    }
    atomic_fetch_add(&p->done, units);
    if (p->cfg.mode == WHIM_PROGRESS_QUIET) {
        return;
    }
    int64_t now = p->cfg.now();
    long long due = atomic_load(&p->next_ns);
    int64_t interval = p->cfg.mode == WHIM_PROGRESS_BAR ? bar_interval_ns : line_interval_ns;
    /* One thread wins the right to draw; the others go on with their work. */
    if (now < due || !atomic_compare_exchange_strong(&p->next_ns, &due, now + interval)) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    if (!p->finished) {
        progress_draw(p);
    }
    pthread_mutex_unlock(&p->lock);
}

void whim_progress_hide(whim_progress *p)
{
    if (p == NULL || p->cfg.mode != WHIM_PROGRESS_BAR) {
        return;
    }
    pthread_mutex_lock(&p->lock);
    if (p->shown > 0 && !p->finished) {
        bar_replace(p, "", 0);
    }
    pthread_mutex_unlock(&p->lock);
}

void whim_progress_finish(whim_progress *p, bool ok)
{
    pthread_mutex_lock(&p->lock);
    p->finished = true;
    if (p->drawn ||
        (p->cfg.mode != WHIM_PROGRESS_QUIET && p->cfg.now() - p->start_ns >= p->cfg.delay_ns)) {
        char state[LINE_MAX_LEN / 2];
        char line[LINE_MAX_LEN];
        format_state(p, true, state, sizeof state);
        if (p->shown > 0) {
            bar_replace(p, "", 0);
        }
        snprintf(line, sizeof line - 1, "%.200s: %s%s", p->cfg.label, ok ? "" : "stopped at ",
                 state);
        strcat(line, "\n");
        write_all(p->cfg.fd, line, (int64_t)strlen(line));
    }
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_destroy(&p->lock);
}

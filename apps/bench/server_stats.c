/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a level: samples, sums, percentiles, failures by kind. */
#include "base/alloc.h"
#include "base/clock.h"
#include "bench/server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- samples ---------------------------------------------------------------------------------- */

static bool add_sample(server_samples *s, int64_t ns)
{
    if (!whim_grow(&s->v, s->n + 1, &s->max, sizeof *s->v)) {
        return false;
    }
    s->v[s->n++] = (double)ns / (double)WHIM_NS_PER_MS;
    return true;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the two samples around the place, in proportion. */
static double percentile(const server_samples *s, double share)
{
    if (s->n == 0) {
        return NAN;
    }
    double place = share * (double)(s->n - 1);
    int64_t low = (int64_t)place, high = low + 1 < s->n ? low + 1 : low;
    return s->v[low] + (place - (double)low) * (s->v[high] - s->v[low]);
}

static server_percentiles percentiles(server_samples *s)
{
    if (s->n > 0) {
        qsort(s->v, (size_t)s->n, sizeof *s->v, compare_doubles);
    }
    return (server_percentiles){percentile(s, 0.5), percentile(s, 0.9), percentile(s, 0.99)};
}

/* --- requests --------------------------------------------------------------------------------- */

static void add_failure(server_level *level, server_fault fault, int32_t status,
                        const char *message)
{
    int32_t i = 0;
    status = fault == SERVER_FAULT_STATUS ? status : 0;
    while (i < level->n_failure &&
           (level->failures[i].fault != fault || level->failures[i].status != status)) {
        i++;
    }
    if (i == SERVER_MAX_FAILURES) {
        i--; /* more kinds than anyone reads: the last one stands for them */
    } else if (i == level->n_failure) {
        server_failure *new = &level->failures[level->n_failure++];
        *new = (server_failure){.fault = fault, .status = status};
        snprintf(new->message, sizeof new->message, "%s", message);
    }
    level->failures[i].n++;
    level->errors++;
}

static bool add_times(server_level *level, const server_reply *a, int64_t start, int64_t n_token)
{
    int64_t first = a->times[0], last = a->times[a->n_time - 1];
    bool ok = add_sample(&level->ttft, first - start);
    if (a->n_time > 1 && n_token > 1) {
        ok = add_sample(&level->tpot, (last - first) / (n_token - 1)) && ok;
    }
    for (int64_t i = 1; i < a->n_time; i++) {
        ok = add_sample(&level->itl, a->times[i] - a->times[i - 1]) && ok;
    }
    return ok;
}

void server_level_add(server_level *level, const server_reply *a, int64_t start, int64_t words)
{
    int64_t n_token = a->has_usage ? a->gen_tokens : a->n_time;
    if (a->fault != SERVER_FAULT_NONE) {
        add_failure(level, a->fault, a->status, a->message);
        return;
    }
    if (!add_times(level, a, start, n_token)) {
        add_failure(level, SERVER_FAULT_MEMORY, 0, "");
        return;
    }
    level->n_ok++;
    level->n_usage += a->has_usage;
    level->prompt_tokens += a->has_usage ? a->prompt_tokens : words;
    level->gen_tokens += n_token;
    level->cached_tokens += a->cached_tokens;
}

/* --- the level -------------------------------------------------------------------------------- */

void server_level_finish(server_level *level)
{
    level->ttft_ms = percentiles(&level->ttft);
    level->tpot_ms = percentiles(&level->tpot);
    level->itl_ms = percentiles(&level->itl);
}

void server_level_free(server_level *level)
{
    whim_free(level->ttft.v);
    whim_free(level->tpot.v);
    whim_free(level->itl.v);
    *level = (server_level){0};
}

const char *server_tokens_from(const server_level *level)
{
    return level->n_usage == 0 ? "chunks" : level->n_usage == level->n_ok ? "usage" : "mixed";
}

double server_rate(const server_level *level, int64_t count)
{
    return level->duration_s > 0 ? (double)count / level->duration_s : 0;
}

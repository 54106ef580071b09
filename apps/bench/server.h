/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `whimbrel bench --serve` share: the server to measure, the load on it, its
 * figures.
 * Threads: the main thread; one epoll loop drives all clients, so that the load costs the server
 * little CPU. */
#ifndef WHIM_APPS_BENCH_SERVER_H
#define WHIM_APPS_BENCH_SERVER_H

#include "base/report/progress.h"
#include "client/link.h"
#include "cmd.h"

/* The server and what every request says. */
typedef struct server_target {
    const whim_options *options;
    server_address address;
    char model[256];
    bool chat;
    int64_t prompt_words, tokens;
    uint64_t seed; /* of the prompts: another one each run, or a server's cache would know them */
} server_target;

typedef struct server_samples {
    double *v;
    int64_t n, max;
} server_samples;

/* Requests that ended badly in the same way. */
typedef struct server_failure {
    server_fault fault;
    int32_t status; /* for SERVER_FAULT_STATUS */
    int64_t n;
    char message[160]; /* of the first */
} server_failure;

typedef struct server_percentiles {
    double p50, p90, p99;
} server_percentiles;

enum { SERVER_MAX_FAILURES = 16 };

/* One row: this many clients at once. Milliseconds; only of requests that were answered to the
 * end. */
typedef struct server_level {
    int64_t clients, requests, errors;
    double duration_s;
    int64_t n_ok, n_usage; /* answered, and those with token counts by the server */
    int64_t prompt_tokens, gen_tokens, cached_tokens;
    server_samples ttft, tpot, itl;
    server_percentiles ttft_ms, tpot_ms, itl_ms; /* once the level is done; NaN without samples */
    server_failure failures[SERVER_MAX_FAILURES];
    int32_t n_failure;
} server_level;

/* --- bench_serve.c */

/* Measure the server of --serve; the exit code. */
int bench_serve(const whim_options *options);

/* Whether none of the options for --serve was given without it; complains otherwise. */
bool check_serving_options(const whim_options *options);

/* --- server_target.c */

/* Host, port and path of the URL; resolved, and the model's name asked for when none was given. */
WHIM_MUST_CHECK whim_err server_target_open(server_target *t, const whim_options *options,
                                            whim_diag *diag);

/* The bytes of request number `number`, unlike those of all others after the shared prefix. */
void server_request_append(const server_target *t, int64_t number, whim_str *out);

/* --- server_load.c */

/* `level->requests` requests with `level->clients` at once, numbered from `first`. The caller frees
 * the level. */
WHIM_MUST_CHECK whim_err server_load(const server_target *t, int64_t first, server_level *level,
                                     whim_progress *bar, whim_diag *diag);

/* --- server_stats.c */

/* One request ended; `start` is when it began. `words` stand for the prompt's tokens where nobody
 * counted. */
void server_level_add(server_level *level, const server_reply *a, int64_t start, int64_t words);

/* Percentiles, once all requests ended. Sorts the samples. */
void server_level_finish(server_level *level);
void server_level_free(server_level *level);

/* What counted the tokens: "usage" (the server), "chunks" (of the streams) or "mixed". */
const char *server_tokens_from(const server_level *level);
double server_rate(const server_level *level, int64_t count);

/* --- server_output.c */
void server_append_head(const server_target *t, whim_str *out);
void server_append_row(const server_level *level, whim_str *out);
void server_append_notes(const server_level *levels, int32_t n, whim_str *out);
void server_append_json(const server_target *t, const server_level *level, whim_str *out);

/* --- server_plot.c */
void server_append_svg(const server_target *t, const server_level *levels, int32_t n,
                       whim_str *out);

#endif

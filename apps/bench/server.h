/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `whimbrel bench --serve` share: the server to measure, the load on it, its
 * figures.
 * Threads: the main thread; one epoll loop drives all clients, so that the load costs the server
 * little CPU. */
#ifndef WHIM_APPS_BENCH_SERVER_H
#define WHIM_APPS_BENCH_SERVER_H

#include "base/report/progress.h"
#include "bench/server_answer.h"
#include "cmd.h"

#include <sys/socket.h>

/* The server and what every request says. */
typedef struct serve_target {
    const whim_options *options;
    char host[256], port[8]; /* host without brackets */
    char authority[272];     /* as the Host header has it */
    char base[512];          /* path before /completions and /models */
    char model[256];
    bool chat;
    int64_t prompt_words, tokens;
    uint64_t seed; /* of the prompts: another one each run, or a server's cache would know them */
    struct sockaddr_storage address;
    socklen_t address_bytes;
} serve_target;

typedef struct serve_samples {
    double *v;
    int64_t n, max;
} serve_samples;

/* Requests that ended badly in the same way. */
typedef struct serve_failure {
    serve_fault fault;
    int32_t status; /* for SERVE_FAULT_STATUS */
    int64_t n;
    char message[160]; /* of the first */
} serve_failure;

typedef struct serve_percentiles {
    double p50, p90, p99;
} serve_percentiles;

enum { SERVE_MAX_FAILURES = 16 };

/* One row: so many clients at once. Milliseconds; only of requests that were answered to the
 * end. */
typedef struct serve_level {
    int64_t clients, requests, errors;
    double duration_s;
    int64_t n_ok, n_usage; /* answered, and those with token counts by the server */
    int64_t prompt_tokens, gen_tokens, cached_tokens;
    serve_samples ttft, tpot, itl;
    serve_percentiles ttft_ms, tpot_ms, itl_ms; /* once the level is done; NaN without samples */
    serve_failure failures[SERVE_MAX_FAILURES];
    int32_t n_failure;
} serve_level;

/* --- bench_serve.c */

/* Measure the server of --serve; the exit code. */
int bench_serve(const whim_options *options);

/* Whether none of the options for --serve was given without it; complains otherwise. */
bool check_serving_options(const whim_options *options);

/* --- bench_serve_target.c */

/* Host, port and path of the URL; resolved, and the model's name asked for when none was given. */
WHIM_MUST_CHECK whim_err serve_target_open(serve_target *t, const whim_options *options,
                                           whim_diag *diag);

/* The bytes of request number `number`, unlike those of all others after the shared prefix. */
void serve_request_append(const serve_target *t, int64_t number, whim_str *out);
void serve_get_append(const serve_target *t, const char *path, whim_str *out);

/* --- bench_serve_load.c */

/* `level->requests` requests with `level->clients` at once, numbered from `first`. The caller frees
 * the level. */
WHIM_MUST_CHECK whim_err serve_load(const serve_target *t, int64_t first, serve_level *level,
                                    whim_progress *bar, whim_diag *diag);

/* GET a document into `a`, which the caller deinits. An answer of any status is a success. */
WHIM_MUST_CHECK whim_err serve_get(const serve_target *t, const char *path, serve_answer *a,
                                   whim_diag *diag);

/* --- bench_serve_stats.c */

/* One request ended; `start` is when it began. `words` stand for the prompt's tokens where nobody
 * counted. */
void serve_level_add(serve_level *level, const serve_answer *a, int64_t start, int64_t words);

/* Percentiles, once all requests ended. Sorts the samples. */
void serve_level_finish(serve_level *level);
void serve_level_free(serve_level *level);

/* What counted the tokens: "usage" (the server), "chunks" (of the streams) or "mixed". */
const char *serve_tokens_from(const serve_level *level);
double serve_rate(const serve_level *level, int64_t count);

/* --- bench_serve_output.c */
void serve_append_head(const serve_target *t, whim_str *out);
void serve_append_row(const serve_level *level, whim_str *out);
void serve_append_notes(const serve_level *levels, int32_t n, whim_str *out);
void serve_append_json(const serve_target *t, const serve_level *level, whim_str *out);

/* --- bench_serve_plot.c */
void serve_append_svg(const serve_target *t, const serve_level *levels, int32_t n, whim_str *out);

#endif

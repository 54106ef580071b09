/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel bench --serve: rows of load on a server, from few clients to many. */
#include "bench/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT_TOKENS = 128, ANSWER_TOKENS = 64, REQUESTS_PER_CLIENT = 4, MIN_REQUESTS = 16 };

typedef struct sweep {
    server_target target;
    server_level levels[WHIM_OPTION_MAX_INTS];
    int32_t n_level;
    whim_progress bar;
    int64_t next; /* number of the next request */
} sweep;

/* --- options ---------------------------------------------------------------------------------- */

typedef struct given_option {
    const void *field;
    const char *name;
} given_option;

/* The name of the first of these options that was given, or NULL. */
static const char *first_given(const whim_options *options, const given_option *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (whim_options_gave(options, list[i].field)) {
            return list[i].name;
        }
    }
    return NULL;
}

bool check_serving_options(const whim_options *o)
{
    const given_option list[] = {
        {&o->clients, "clients"},
        {&o->requests, "requests"},
        {&o->prefix_tokens, "prefix-tokens"},
        {&o->server_temp, "temp"},
        {&o->endpoint, "endpoint"},
        {&o->server_model, "model"},
        {&o->server_key, "api-key"},
        {&o->warmup, "warmup"},
        {&o->timeout, "timeout"},
        {&o->plot, "plot"},
    };
    const char *name = first_given(o, list, sizeof list / sizeof list[0]);
    if (name != NULL) {
        complain(EXIT_USAGE, "--%s is for servers: give --serve URL too", name);
    }
    return name == NULL;
}

/* What only a model of our own takes. */
static bool check_options(const whim_options *o)
{
    const given_option list[] = {
        {&o->batch, "batch"}, {&o->depth, "depth"},           {&o->repeats, "repeats"},
        {&o->peer, "peer"},   {&o->write_gguf, "write-gguf"}, {&o->load_format, "load-format"},
    };
    const char *name = first_given(o, list, sizeof list / sizeof list[0]);
    if (o->model != NULL) {
        complain(EXIT_USAGE,
                 "--serve measures the server's model, so leave out \"%s\"; to choose one of "
                 "several models of a server, use --model",
                 o->model);
        return false;
    }
    if (name != NULL) {
        complain(EXIT_USAGE, "--%s has no meaning with --serve", name);
        return false;
    }
    for (const char *c = o->server_key; c != NULL && *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') {
            complain(EXIT_USAGE, "--api-key: a key has no spaces and no control characters");
            return false;
        }
    }
    return true;
}

static int64_t level_requests(const whim_options *o, int64_t clients)
{
    int64_t n = REQUESTS_PER_CLIENT * clients;
    return o->requests > 0 ? o->requests : n > MIN_REQUESTS ? n : MIN_REQUESTS;
}

/* --- rows ------------------------------------------------------------------------------------- */

static whim_err run_level(sweep *s, server_level *level, whim_diag *diag)
{
    whim_err err = server_load(&s->target, s->next, level, &s->bar, diag);
    s->next += level->requests;
    whim_progress_hide(&s->bar);
    return err;
}

/* Failures here show again in the rows. */
static whim_err warm_up(sweep *s, whim_diag *diag)
{
    int64_t n = s->target.options->warmup;
    server_level level = {.clients = n < 8 ? n : 8, .requests = n};
    whim_err err = n > 0 ? run_level(s, &level, diag) : WHIM_ERR_OK;
    server_level_free(&level);
    return err;
}

static whim_err run_levels(sweep *s, whim_str *out, whim_diag *diag)
{
    const whim_options *o = s->target.options;
    WHIM_TRY(warm_up(s, diag));
    for (int32_t i = 0; i < o->clients.n; i++) {
        server_level *level = &s->levels[i];
        level->clients = o->clients.v[i];
        level->requests = level_requests(o, level->clients);
        s->n_level = i + 1;
        WHIM_TRY(run_level(s, level, diag));
        if (o->json) {
            server_append_json(&s->target, level, out);
        } else {
            server_append_row(level, out);
        }
        if (!print_out(out)) {
            return whim_fail(diag, WHIM_ERR_IO, "the results could not be written");
        }
    }
    if (!o->json) {
        server_append_notes(s->levels, s->n_level, out);
    }
    return print_out(out) ? WHIM_ERR_OK
                          : whim_fail(diag, WHIM_ERR_IO, "the results could not be written");
}

/* --- the plot --------------------------------------------------------------------------------- */

/* Before the work, so that a bad path is told at once. */
static whim_err check_plot(const char *path, whim_diag *diag)
{
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (path != NULL && (file == NULL || fclose(file) != 0)) {
        return whim_fail(diag, WHIM_ERR_IO, "--plot: %s cannot be written: %s", path,
                         strerror(errno));
    }
    return WHIM_ERR_OK;
}

static whim_err write_plot(const sweep *s, whim_diag *diag)
{
    const char *path = s->target.options->plot;
    whim_str svg = {0};
    server_append_svg(&s->target, s->levels, s->n_level, &svg);
    FILE *file = fopen(path, "w");
    bool ok = file != NULL && !svg.failed &&
              fwrite(whim_str_text(&svg), 1, (size_t)svg.len, file) == (size_t)svg.len;
    ok = file != NULL && fclose(file) == 0 && ok;
    whim_str_deinit(&svg);
    return ok ? WHIM_ERR_OK
              : whim_fail(diag, WHIM_ERR_IO, "--plot: %s could not be written: %s", path,
                          strerror(errno));
}

/* --- all -------------------------------------------------------------------------------------- */

static whim_err run_sweep(sweep *s, whim_diag *diag)
{
    const whim_options *o = s->target.options;
    whim_str out = {0};
    int64_t total = o->warmup;
    for (int32_t i = 0; i < o->clients.n; i++) {
        total += level_requests(o, o->clients.v[i]);
    }
    whim_err err = WHIM_ERR_OK;
    if (!o->json) {
        server_append_head(&s->target, &out);
        err = print_out(&out) ? WHIM_ERR_OK : WHIM_ERR_IO;
    }
    whim_progress_init(&s->bar, &(whim_progress_cfg){
                                    .label = "bench (requests)",
                                    .total = total,
                                    .fd = STDERR_FILENO,
                                    .mode = o->quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO,
                                });
    if (err == WHIM_ERR_OK) {
        err = run_levels(s, &out, diag);
    }
    whim_progress_finish(&s->bar, err == WHIM_ERR_OK);
    whim_str_deinit(&out);
    return err;
}

int bench_serve(const whim_options *given)
{
    static sweep s; /* zeroed, and the bar must not move */
    whim_options options = *given;
    whim_diag diag = {""};
    int64_t n_ok = 0;
    if (!check_options(given)) {
        return EXIT_USAGE;
    }
    if (!whim_options_gave(given, &given->prompt_tokens)) {
        options.prompt_tokens = PROMPT_TOKENS;
    }
    if (!whim_options_gave(given, &given->tokens)) {
        options.tokens = ANSWER_TOKENS;
    }
    whim_err err = server_target_open(&s.target, &options, &diag);
    if (err == WHIM_ERR_OK) {
        err = check_plot(options.plot, &diag);
    }
    if (err == WHIM_ERR_OK) {
        err = run_sweep(&s, &diag);
    }
    if (err == WHIM_ERR_OK && options.plot != NULL) {
        err = write_plot(&s, &diag);
    }
    server_address_deinit(&s.target.address);
    for (int32_t i = 0; i < s.n_level; i++) {
        n_ok += s.levels[i].n_ok;
        server_level_free(&s.levels[i]);
    }
    if (err != WHIM_ERR_OK) {
        return complain(err == WHIM_ERR_INVALID || err == WHIM_ERR_UNSUPPORTED ? EXIT_USAGE
                                                                               : EXIT_FAILED,
                        "%s", diag.text);
    }
    return n_ok > 0 ? EXIT_OK : complain(EXIT_FAILED, "all requests failed");
}

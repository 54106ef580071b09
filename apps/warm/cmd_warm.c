/* SPDX-License-Identifier: Apache-2.0 */
/* `whimbrel warm`: a server of its own on this machine's loopback, or one that runs, is asked for
 * one token of each prompt. So prompts are made, cut and kept by the code that answers them
 * later. */
#include "warm/warm.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/report/progress.h"
#include "client/link.h"
#include "local/offer.h"
#include "local/running.h"
#include "warm/own_server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Progress comes with every step, so that even a long prompt causes no long silence. */
#define SILENCE_S 3600.0
#define FIND_S 60.0
#define SAVE_NS (3600 * WHIM_NS_PER_S)

typedef struct warming {
    whim_options own;
    const char *file;
    char dir[MODEL_PATH_MAX], path_buf[MODEL_PATH_MAX], key[512];
    warm_list list;
    serve server;
    server_address address;
    int64_t at; /* the prompt */
    char label[48];
    whim_progress bar;
    bool has_bar;
    int64_t done;              /* of its tokens */
    int64_t n_token, n_cached; /* of all prompts so far */
} warming;

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
    stopped = 1;
    signal(sig, SIG_DFL); /* the second one ends it at once */
}

/* --- a prompt --------------------------------------------------------------------------------- */

static void on_chunk(void *ctx, const whim_json *chunk)
{
    warming *w = ctx;
    const whim_json *p = json_object_get(chunk, "prompt_progress");
    int64_t total = json_integer_value(json_object_get(p, "total"));
    int64_t done = json_integer_value(json_object_get(p, "processed"));
    if (p == NULL) {
        return;
    }
    if (!w->has_bar) {
        snprintf(w->label, sizeof w->label, "prompt %lld of %lld", (long long)w->at + 1,
                 (long long)w->list.n);
        whim_progress_init(
            &w->bar,
            &(whim_progress_cfg){.label = w->label,
                                 .total = total,
                                 .delay_ns = WHIM_NS_PER_S,
                                 .fd = STDERR_FILENO,
                                 .mode = w->own.quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO});
        w->has_bar = true;
        w->done = 0;
    }
    whim_progress_add(&w->bar, done - w->done);
    w->done = done;
}

/* Wait until the disk has all pages: the next prompt may take their memory. */
static void saved_wait(const warming *w)
{
    const whim_service *service = w->server.service;
    while (service != NULL && !whim_service_is_saved(service) && !stopped) {
        whim_clock_sleep_ns(5 * WHIM_NS_PER_MS);
    }
}

static bool prompt_read(warming *w, const warm_request *request)
{
    server_link link = {.fd = -1, .wants_stream = true};
    link.reply.on_chunk = on_chunk;
    link.reply.ctx = w;
    w->has_bar = false;
    server_head_append(&w->address, "POST", request->is_chat ? "/chat/completions" : "/completions",
                       request->n_body, &link.out);
    whim_str_append_n(&link.out, request->body, request->n_body);
    server_exchange(&link, &w->address, SILENCE_S, &stopped);
    const server_reply *a = &link.reply;
    /* the model may have had no word to say */
    bool ok = a->fault == SERVER_FAULT_NONE || a->fault == SERVER_FAULT_EMPTY;
    if (w->has_bar) {
        whim_progress_finish(&w->bar, ok);
    }
    w->n_token += a->prompt_tokens;
    w->n_cached += a->cached_tokens;
    if (!ok && a->fault != SERVER_FAULT_STOPPED) {
        static const char *const texts[] = {
#define X(NAME, name, text) [SERVER_FAULT_##NAME] = (text),
            SERVER_FAULTS(X)
#undef X
        };
        complain(EXIT_FAILED, "%s: prompt %lld of %lld: %s%s%s", w->file, (long long)w->at + 1,
                 (long long)w->list.n, a->message[0] != '\0' ? a->message : texts[a->fault],
                 a->message[0] != '\0' ? "" : " by the server",
                 w->at > 0 && w->own.url == NULL ? "; those before it are kept" : "");
    }
    server_link_deinit(&link);
    if (ok) {
        saved_wait(w);
    }
    return ok;
}

/* --- the server ------------------------------------------------------------------------------- */

/* After a failure: another process may have the folder, and if it is a server, it can do this. */
static void tell_who_has(const char *path)
{
    static running_list running;
    running_find(&running);
    for (int32_t i = 0; i < running.n; i++) {
        if (running_has(&running.v[i], path)) {
            tell_of("warm", "the server at %s has this model: --url %s lets it do this",
                    running.v[i].url, running.v[i].url);
        }
    }
}

static bool server_own(warming *w)
{
    serve *s = &w->server;
    whim_options *o = &w->own;
    model_auto(o);
    const char *path = choose_model(o, w->path_buf);
    if (path == NULL || !serve_kv_dir_insist(o, w->dir)) {
        return false;
    }
    o->kv_dir = w->dir;
    if (!own_server_open(s, o, w->file)) {
        return false;
    }
    s->save_ns = SAVE_NS;
    if (!serve_model_open(s, path)) {
        if (s->service == NULL && s->kv_space.name[0] != '\0') {
            tell_who_has(path);
        }
        return false;
    }
    return own_server_find(s, &w->address);
}

/* That of --url, with the key that it wants. */
static bool server_other(warming *w)
{
    key_list keys = {0};
    whim_diag diag = {""};
    server_reply models = {0};
    if (!keys_read(&keys, &w->own)) {
        return false;
    }
    snprintf(w->key, sizeof w->key, "%s", keys.n > 0 ? keys.v[0].text : "");
    keys_free(&keys);
    const server_place place = {.option = "--url",
                                .url = w->own.url,
                                .key = w->key[0] != '\0' ? w->key : NULL,
                                .ca_file = w->own.ca_file};
    whim_err err = server_address_read(&w->address, &place, &diag);
    err = err == WHIM_ERR_OK ? server_address_find(&w->address, "/models", FIND_S, &models, &diag)
                             : err;
    server_reply_deinit(&models);
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
    }
    return err == WHIM_ERR_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static bool all_read(warming *w)
{
    for (w->at = 0; w->at < w->list.n && !stopped; w->at++) {
        if (!prompt_read(w, &w->list.v[w->at])) {
            return false;
        }
    }
    return !stopped;
}

/* Whether the disk has all that was computed; true where it is another server's. */
static bool is_kept(const warming *w)
{
    char bytes[32];
    if (w->server.service == NULL) {
        return true;
    }
    whim_service_stats stats = whim_service_get_stats(w->server.service);
    if (stats.disk_errors > 0) {
        complain(EXIT_FAILED, "%s: the disk is full or failed; not all prompts are kept", w->dir);
    } else if (stats.disk_lost > 0) {
        whim_format_bytes(bytes, sizeof bytes, stats.disk_limit);
        complain(EXIT_FAILED,
                 "%s may take %s, and %lld pages of these prompts had to make room for others; "
                 "not all prompts are kept: --kv-dir-size, here and of the server, gives more",
                 w->dir, bytes, (long long)stats.disk_lost);
    }
    return stats.disk_errors == 0 && stats.disk_lost == 0;
}

static bool sum_up(const warming *w)
{
    whim_str out = {0};
    whim_str_printf(&out, "%lld prompt%s, %lld tokens: %lld computed, %lld known before",
                    (long long)w->list.n, w->list.n == 1 ? "" : "s", (long long)w->n_token,
                    (long long)(w->n_token - w->n_cached), (long long)w->n_cached);
    if (w->own.url == NULL) {
        whim_str_printf(&out, "; kept in %s", w->dir);
    }
    whim_str_append_char(&out, '\n');
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    return ok;
}

static int run(warming *w)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP};
    bool ok = w->own.url != NULL ? server_other(w) : server_own(w);
    if (!ok) {
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        sigaction(all[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
    }
    ok = all_read(w);
    if (stopped) {
        return is_kept(w) ? complain(EXIT_INTERRUPTED, "stopped%s",
                                     w->own.url == NULL ? "; what was computed is kept" : "")
                          : EXIT_INTERRUPTED;
    }
    return ok && is_kept(w) && sum_up(w) ? EXIT_OK : EXIT_FAILED;
}

int cmd_warm(const whim_options *options)
{
    static warming w;
    whim_diag diag = {""};
    whim_json_count_memory(); /* before anybody reads JSON */
    w.own = *options;
    w.file = options->model;
    if (w.file == NULL) {
        return complain(EXIT_USAGE, "warm which prompts? write whimbrel warm FILE.json [MODEL]");
    }
    if (options->url != NULL && options->output != NULL) {
        return complain(EXIT_USAGE, "with --url the server that runs computes, with its own model: "
                                    "leave MODEL out");
    }
    w.own.model = options->output;
    w.own.output = NULL;
    if (warm_list_read(&w.list, w.file, &diag) != WHIM_ERR_OK) {
        warm_list_deinit(&w.list);
        return complain(EXIT_FAILED, "%s", diag.text);
    }
    int code = run(&w);
    if (w.own.url == NULL) {
        serve_close(&w.server);
        whim_log_deinit(&w.server.log);
    }
    server_address_deinit(&w.address);
    warm_list_deinit(&w.list);
    return code;
}

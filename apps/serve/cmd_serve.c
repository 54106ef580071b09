/* SPDX-License-Identifier: Apache-2.0 */
/* `whimbrel serve`: bind, load, answer, watch, drain. Signals have a thread of their own. */
#include "base/clock.h"
#include "base/json.h"
#include "base/os/facts.h"
#include "base/os/mem.h"
#include "commit.inc"
#include "http/tls.h"
#include "local/offer.h"
#include "serve/serve.h"
#include "serve/signals.h"
#include "server/metrics/metrics.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* --- listening -------------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

static bool proxies_read(serve *s)
{
    const whim_string_list *list = &s->options->trusted_proxy;
    whim_diag diag = {""};
    for (int32_t i = 0; i < list->n; i++) {
        if (whim_network_parse(list->v[i], &s->proxies[i], &diag) != WHIM_ERR_OK) {
            complain(EXIT_USAGE, "--trusted-proxy: %s", diag.text);
            return false;
        }
    }
    return true;
}

static bool options_are_sound(serve *s)
{
    whim_diag diag = {""};
    for (int32_t i = 0; i < s->options->metrics_compat.n; i++) {
        if (whim_compat_parse(s->options->metrics_compat.v[i], &s->compat, &diag) != WHIM_ERR_OK) {
            complain(EXIT_USAGE, "--metrics-compat: %s", diag.text);
            return false;
        }
    }
    if ((s->options->tls_cert == NULL) != (s->options->tls_key == NULL)) {
        complain(EXIT_USAGE, "--tls-cert and --tls-key belong together");
        return false;
    }
    const whim_string_list *hosts = &s->options->host;
    for (int32_t i = 0; i < hosts->n; i++) {
        if (is_loopback(hosts->v[i]) || s->keys.n > 0 || s->options->allow_no_key) {
            continue;
        }
        if (env_is_container() &&
            !s->log
                 /* there it is the only way in, and whoever sees the log may have the key */
                 .is_json) {
            s->key_is_made = keys_make(&s->keys);
        } else {
            complain(
                EXIT_USAGE,
                "--host %s can be reached from other machines, and there is no key: give one by "
                "--api-key-file or WHIMBREL_API_KEY, or say --allow-no-key",
                hosts->v[i]);
        }
        if (s->keys.n == 0) {
            return false;
        }
    }
    return true;
}

bool serve_listen(serve *s)
{
    static const char *const own[] = {"127.0.0.1", "::1"};
    const whim_options *o = s->options;
    whim_diag diag = {""};
    whim_http_cfg http = {
        .hosts = o->host.n > 0 ? o->host.v : own,
        .n_host = o->host.n > 0 ? o->host.n : 2,
        .port = (int32_t)o->port,
        .tls_cert = o->tls_cert,
        .tls_key = o->tls_key,
        .limits = {.max_body = o->max_body,
                   .max_headers = o->max_headers,
                   .max_line = o->max_line,
                   .header_ns = (int64_t)(o->header_time * (double)WHIM_NS_PER_S),
                   .body_ns = (int64_t)(o->body_time * (double)WHIM_NS_PER_S),
                   .idle_ns = (int64_t)(o->idle_time * (double)WHIM_NS_PER_S),
                   .max_connections = (int32_t)o->max_connections},
        .proxies = s->proxies,
        .n_proxy = o->trusted_proxy.n,
        .log = &s->log,
    };
    whim_server_cfg cfg = {
        .http = http,
        .keys = s->keys.v,
        .n_key = s->keys.n,
        .origins = o->cors_origin.v,
        .n_origin = o->cors_origin.n,
        .allow_hosts = o->allow_host.v,
        .n_allow_host = o->allow_host.n,
        .commit = WHIM_COMMIT,
        .compat = s->compat,
        .stale_ns = (int64_t)(o->step_limit / 2 * (double)WHIM_NS_PER_S), /* told before the end */
    };
    whim_err err = whim_server_open(&cfg, &s->server, &diag);
    err = err == WHIM_ERR_OK ? whim_server_start(s->server, &diag) : err;
    if (err == WHIM_ERR_BUSY) {
        complain_port_taken(http.hosts[0], http.port);
    } else if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
    }
    return err == WHIM_ERR_OK;
}

/* Many connections need many descriptors; the soft limit is often 1024. */
static void files_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* --- running ---------------------------------------------------------------------------------- */

/* A step that hangs will not come back, and requests wait behind it; nor will a device that is
 * lost. Whoever started us should start us again. */
static void watch(serve *s)
{
    int64_t now = whim_clock_ns(), beat = whim_service_heartbeat_ns(s->service);
    if (now - s->looked_ns > WHIM_NS_PER_S) {
        s->awake_ns =
            now; /* this thread slept as well: Ctrl-Z, a debugger, a machine that was paused */
    }
    s->looked_ns = now;
    int64_t quiet = now - (beat > s->awake_ns ? beat : s->awake_ns);
    const char *lost = whim_service_lost(s->service);
    if (lost != NULL) {
        whim_log_error(&s->log, "lost", whim_log_text("device", lost));
        _exit(EXIT_FAILED);
    }
    notify_alive(s, quiet);
    if ((double)quiet < s->options->step_limit * (double)WHIM_NS_PER_S) {
        return;
    }
    whim_str state = {0};
    whim_service_describe(s->service, &state);
    whim_log_error(&s->log, "hang", whim_log_text("state", whim_str_text(&state)));
    _exit(EXIT_FAILED);
}

static void reload_files(serve *s)
{
    key_list keys = {0};
    whim_diag diag = {""};
    if (!keys_read(&keys, s->options) || (keys.n == 0 && s->key_is_made)) {
        keys_free(&keys);
        return; /* the old ones stay */
    }
    if (whim_server_reload(s->server, keys.v, keys.n, &diag) != WHIM_ERR_OK) {
        whim_log_error(&s->log, "reload", whim_log_text("error", diag.text));
        keys_free(&keys);
        return;
    }
    keys_free(&s->keys);
    s->keys = keys;
    whim_log_info(&s->log, "reload", whim_log_int("keys", keys.n));
}

static void reload(serve *s)
{
    notify_reloading(s);
    reload_files(s);
    notify_ready(s);
}

/* Until a signal says stop. */
static void run(serve *s)
{
    for (;;) {
        signal_wish wish = signals_wait();
        if (wish == SIGNAL_RELOAD) {
            reload(s);
        } else if (wish != SIGNAL_NONE) {
            return;
        }
        watch(s);
        whim_server_tidy(s->server);
        s->looked_ns = whim_clock_ns(); /* what that took is no sleep of the machine */
    }
}

/* Let answers finish, at most --drain seconds; a second signal ends the wait. */
static void drain(serve *s)
{
    if (whim_os_term_is(STDERR_FILENO)) {
        fputc('\n', stderr); /* behind the ^C that the terminal wrote */
    }
    whim_server_drain(s->server);
    int64_t left = whim_server_active(s->server);
    int64_t until = whim_clock_ns() + (int64_t)(s->options->drain * (double)WHIM_NS_PER_S);
    notify_stopping(s, left);
    if (left > 0 && !s->options->quiet) {
        fprintf(stderr, "whimbrel: finishing %lld request%s; once more to stop now\n",
                (long long)left, left == 1 ? "" : "s");
    }
    while (whim_server_active(s->server) > 0 && whim_clock_ns() < until &&
           signals_wait() != SIGNAL_STOP_NOW) {
        watch(s);
    }
    /* Only now, because a request that came in before the signal may still be read. */
    whim_service_drain(s->service);
}

/* A line about what the server has done. "busy" is the time in which the loop had work, and "steps"
 * is the part of it that the model took. */
static void sum_up(serve *s)
{
    whim_service_stats stats = whim_service_get_stats(s->service);
    whim_log_info(&s->log, "end", whim_log_int("requests", stats.n_jobs),
                  whim_log_int("prompt", stats.n_prompt_tokens),
                  whim_log_int("cached", stats.n_cached_tokens),
                  whim_log_int("new", stats.n_made_tokens), whim_log_int("steps", stats.n_step),
                  whim_log_real("step_s", (double)stats.step_ns / (double)WHIM_NS_PER_S, 3),
                  whim_log_real("busy_s", (double)stats.busy_ns / (double)WHIM_NS_PER_S, 3));
}

/* Faster ways that this machine refuses are told once; nothing fails for them. */
static void log_refused(serve *s)
{
    char calls[128];
    if (whim_os_refused(calls, sizeof calls) > 0) {
        whim_log_warn(&s->log, "refused", whim_log_text("calls", calls),
                      whim_log_text("reason", "a sandbox or the system forbids them; slower, the "
                                              "same answers"));
    }
    if (s->chat.tok != NULL && !whim_tokenizer_has_jit(s->chat.tok)) {
        whim_log_warn(&s->log, "jit", whim_log_text("used", "no"),
                      whim_log_text("reason", "the system does not let PCRE2 compile; tokenizing "
                                              "is slower, the tokens are the same"));
    }
}

static bool serve_run(serve *s)
{
    char buf[MODEL_PATH_MAX];
    whim_str ready = {0};
    if (!signals_start() || !serve_listen(s)) {
        return false;
    }
    serve_register(s, NULL);
    notify_fetching(s);
    const char *path = serve_model_find(s, buf);
    notify_fetched(s);
    serve_register(s, path);
    if (path == NULL || !serve_model_open(s, path)) {
        return false;
    }
    signals_loaded();
    serve_register(s, path);
    if (!s->log.is_json) {
        serve_ready_text(s, &ready);
        fputs(whim_str_text(&ready), stderr);
    }
    whim_str_deinit(&ready);
    serve_model_log(s);
    log_refused(s);
    notify_ready(s);
    run(s);
    drain(s);
    sum_up(s);
    return true;
}

void serve_log_open(serve *s)
{
    whim_log_level level = WHIM_LOG_INFO;
    whim_log_level_parse(s->options->log_level, &level);
    whim_log_init(&s->log, STDERR_FILENO, level);
    s->log.is_json = strcmp(s->options->log_format, "json") == 0;
    s->log.is_journal = env_is_journal(STDERR_FILENO);
    if (s->log.is_json || s->log.is_journal) {
        complain_to(&s->log); /* a program reads it */
    }
    if (s->options->log_content) {
        whim_log_warn(&s->log, "content",
                      whim_log_text("reason", "--log-content: all that clients send and all that "
                                              "the model answers is written to this log"));
    }
}

void serve_close(serve *s)
{
    serve_model_close(s); /* ends what is left; its last words still go out */
    whim_server_close(s->server);
    json_decref(s->about);
    whimbrel_close(s->model);
    keys_free(&s->keys);
}

int cmd_serve(const whim_options *options)
{
    whim_options own = *options;
    serve s = {.options = &own, .created = (int64_t)time(NULL), .running = {.fd = -1}};
    whim_os_mem_keep_little();                 /* or clients' memory would be twice as much */
    whim_json_count_memory();                  /* before anybody reads JSON, */
    bool counts_tls = whim_tls_count_memory(); /* or uses OpenSSL */
    own.quiet |= strcmp(own.log_format, "json") == 0; /* nothing else is printed */
    serve_log_open(&s);
    if (!counts_tls) {
        whim_log_warn(&s.log, "tls",
                      whim_log_text("reason", "its memory is not counted among that of requests"));
    }
    notify_open(&s);
    files_raise();
    bool ok = nodes_choose(&s.nodes, options);
    bool is_agent = ok && s.nodes.cfg.node > 0; /* has no clients */
    ok = ok &&
         (is_agent || (keys_read(&s.keys, options) && options_are_sound(&s) && proxies_read(&s)));
    int code = ok ? EXIT_FAILED : EXIT_USAGE;
    if (ok && s.nodes.cfg.n_node == 1) { /* several machines must have the same one */
        model_auto(&own);
        model_offer(&own);
    }
    if (ok && options->api_key != NULL) {
        whim_log_warn(
            &s.log, "key",
            whim_log_text("reason",
                          "--api-key can be seen in the list of processes; use --api-key-file "
                          "or WHIMBREL_API_KEY"));
    }
    if (ok) {
        code = (is_agent ? serve_agent_run(&s) : serve_run(&s)) ? EXIT_OK : EXIT_FAILED;
    }
    running_forget(&s.running);
    serve_close(&s);
    explicit_bzero(s.nodes.secret, sizeof s.nodes.secret);
    notify_close(&s);
    complain_to(NULL);
    whim_log_deinit(&s.log);
    return code;
}

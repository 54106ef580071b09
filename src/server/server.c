/* SPDX-License-Identifier: Apache-2.0 */
/* The server put together. Health is answered in the gate, on the I/O thread, from what is known
 * there: it never waits for a handler or for the engine. */
#include "server/server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "server/answer/answer.h"
#include "server/gate.h"
#include "server/metrics/history.h"
#include "server/metrics/metrics.h"
#include "server/responses/store.h"
#include "server/router.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define HEALTH_METHODS "GET, HEAD, OPTIONS"

typedef enum server_state {
    LOADING = WHIM_LABEL_STATE_LOADING,
    READY = WHIM_LABEL_STATE_READY,
    DRAINING = WHIM_LABEL_STATE_DRAINING,
} server_state;

struct whim_server {
    whim_http *http;
    whim_answer_thread *answer_thread;
    whim_response_store *responses;
    whim_log *log;
    whim_api early; /* what is known while the model loads */
    whim_api api;   /* written before the state is READY */
    atomic_int state;
    atomic_bool has_api;   /* api may be used: from ready until the service goes */
    atomic_int n_handling; /* routes that run */
    atomic_int progress;   /* in thousandths */
    int64_t stale_ns, start_ns;
    whim_meters meters;
    whim_history *history;
    pthread_rwlock_t lock; /* of gate, which a reload replaces, of service and is_loaded */
    whim_gate *gate;
    whim_service *service; /* NULL: not there yet, or no more */
    bool is_loaded;        /* api is written */
    whim_server_cfg cfg;   /* without the keys after open */
};

static const int64_t stale_default_ns = 60 * WHIM_NS_PER_S;

/* --- health ----------------------------------------------------------------------------------- */

static void reply_health(whim_exchange *ex, int status, const whim_str *body)
{
    status = body->failed ? 503 : status; /* memory ran out: it is not known here */
    whim_exchange_add_header(ex, "Cache-Control", "no-store");
    whim_exchange_get_notes(ex)->reason = -1; /* also a 503 is what was asked for */
    if (status == 503) {
        whim_exchange_add_header(ex, "Retry-After", "5");
    }
    whim_exchange_reply_json(ex, status, body);
}

/* 0: there is no loop. The lock is held. */
static int64_t heartbeat_age(const whim_server *s)
{
    return s->service == NULL ? 0 : whim_clock_ns() - whim_service_heartbeat_ns(s->service);
}

static void reply_livez(whim_server *s, whim_exchange *ex)
{
    whim_str body = {0};
    int status = 200;
    pthread_rwlock_rdlock(&s->lock);
    int64_t age = heartbeat_age(s);
    pthread_rwlock_unlock(&s->lock);
    if (age > s->stale_ns) {
        status = 503;
        whim_str_printf(&body, "{\"status\":\"stalled\",\"heartbeat_age_s\":%.1f}",
                        (double)age / 1e9);
    } else {
        whim_str_append(&body, "{\"status\":\"ok\"}");
    }
    reply_health(ex, status, &body);
    whim_str_deinit(&body);
}

/* Choices, and pages of keys and values: those that requests hold, those that only the prefix tree
 * keeps, all. */
static void put_load(whim_str *body, whim_service *service)
{
    whim_sched_stats stats = whim_service_get_stats(service).sched;
    whim_put_form(body,
                  ",'running':%l,'waiting':%l,'kv_pages_used':%l,'kv_pages_cached':%l,"
                  "'kv_pages_total':%l,'preempted_total':%l",
                  stats.n_running, stats.n_waiting, stats.pages_used, stats.pages_cached,
                  stats.pages_total, whim_sched_preempted(&stats));
}

static void reply_readyz(whim_server *s, whim_exchange *ex, bool details)
{
    static const char *const names[] = {"loading", "ready", "draining"};
    int state = atomic_load(&s->state);
    whim_str body = {0};
    pthread_rwlock_rdlock(&s->lock);
    bool apart = state == READY && s->service != NULL && whim_service_is_apart(s->service);
    pthread_rwlock_unlock(&s->lock);
    whim_str_printf(&body, "{\"status\":\"%s\"", apart ? "restarting" : names[state]);
    if (state == LOADING) {
        whim_str_printf(&body, ",\"progress\":%.3f", (double)atomic_load(&s->progress) / 1000);
    }
    if (details) {
        whim_http_stats http = whim_http_get_stats(s->http);
        whim_put_form(&body,
                      ",'server':'whimbrel','version':%q,'uptime_s':%l,'connections':%l,"
                      "'requests_total':%l,'answers_active':%l,",
                      WHIM_VERSION, (whim_clock_ns() - s->start_ns) / WHIM_NS_PER_S,
                      http.n_connections, http.n_requests,
                      whim_answer_thread_active(s->answer_thread));
        pthread_rwlock_rdlock(&s->lock);
        whim_str_printf(&body, "\"heartbeat_age_s\":%.1f", (double)heartbeat_age(s) / 1e9);
        whim_put_form(&body, ",'model':%q", s->service == NULL ? NULL : s->api.name);
        if (s->service != NULL) {
            put_load(&body, s->service);
        }
        pthread_rwlock_unlock(&s->lock);
    }
    whim_str_append_char(&body, '}');
    reply_health(ex, state == READY && !apart ? 200 : 503, &body);
    whim_str_deinit(&body);
}

/* Whether the path was one of health's, and is answered. */
static bool health(whim_server *s, whim_exchange *ex)
{
    const whim_http_request *r = whim_exchange_request(ex);
    if (!whim_http_is_health(r->path)) {
        return false;
    }
    if (strcmp(r->method, "GET") != 0) {
        whim_fault fault;
        whim_fault_set(&fault, WHIM_FAULT_METHOD, NULL, "%s takes GET, not %.20s", r->path,
                       r->method);
        whim_exchange_add_header(ex, "Allow", HEALTH_METHODS);
        whim_fault_reply(ex, &fault, WHIM_DIALECT_OPENAI);
    } else if (strcmp(r->path, "/livez") == 0) {
        reply_livez(s, ex);
    } else {
        reply_readyz(s, ex, strcmp(r->path, "/health") == 0);
    }
    return true;
}

/* --- the gate and the handler ----------------------------------------------------------------- */

static int refuse(whim_server *s, whim_exchange *ex, const whim_fault *fault)
{
    whim_api_refuse(&s->early, ex, fault);
    return 1;
}

static const whim_route *find_route(whim_exchange *ex, whim_fault *fault)
{
    const whim_http_request *r = whim_exchange_request(ex);
    const char *allow = NULL;
    const whim_route *route = whim_router_find(r->method, r->path, &allow, fault);
    if (route == NULL && allow != NULL) {
        whim_exchange_add_header(ex, "Allow", allow);
    }
    return route;
}

static int refuse_state(whim_server *s, whim_exchange *ex)
{
    whim_fault fault;
    if (atomic_load(&s->state) == LOADING) {
        whim_fault_set(&fault, WHIM_FAULT_LOADING, NULL, "the model is still loading (%d%%)",
                       atomic_load(&s->progress) / 10);
    } else {
        whim_fault_set(&fault, WHIM_FAULT_DRAINING, NULL, "the server is stopping");
    }
    return refuse(s, ex, &fault);
}

/* OPTIONS tells what its path takes; the answer itself is given by the gate's rules. */
static void tell_methods(whim_exchange *ex)
{
    const whim_http_request *r = whim_exchange_request(ex);
    whim_fault fault;
    if (strcmp(r->method, "OPTIONS") != 0) {
        return;
    }
    if (whim_http_is_health(r->path)) {
        whim_exchange_add_header(ex, "Allow", HEALTH_METHODS);
    } else {
        find_route(ex, &fault);
    }
}

static int pass_gate(void *ctx, whim_exchange *ex)
{
    whim_server *s = ctx;
    whim_fault fault;
    whim_exchange_get_notes(ex)->route = whim_router_number(whim_exchange_request(ex)->path);
    tell_methods(ex);
    pthread_rwlock_rdlock(&s->lock);
    int replied = whim_gate_check(s->gate, ex);
    pthread_rwlock_unlock(&s->lock);
    if (replied) {
        whim_request_log(s->log, ex, whim_exchange_status(ex), NULL);
        return 1;
    }
    if (health(s, ex)) {
        return 1;
    }
    const whim_route *route = find_route(ex, &fault);
    if (route == NULL) {
        return refuse(s, ex, &fault);
    }
    return atomic_load(&s->state) == READY || route->early ? 0 : refuse_state(s, ex);
}

/* What a route works with now, or NULL: it is refused. Whom the gate let in before a drain is still
 * answered. */
static const whim_api *api_for(const whim_server *s, const whim_route *route)
{
    return atomic_load(&s->has_api) ? &s->api : route->early ? &s->early : NULL;
}

static void handle(void *ctx, whim_exchange *ex)
{
    whim_server *s = ctx;
    whim_fault fault;
    const whim_route *route = find_route(ex, &fault);
    /* Counted before has_api is looked at: detach takes it away, then waits for the count. */
    atomic_fetch_add(&s->n_handling, 1);
    const whim_api *api = route == NULL ? NULL : api_for(s, route);
    if (route == NULL) {
        refuse(s, ex, &fault);
    } else if (api == NULL) {
        refuse_state(s, ex);
    } else {
        route->handle(api, ex);
    }
    atomic_fetch_sub(&s->n_handling, 1);
}

/* What HTTP and the gate's rules refuse by themselves. */
static int error_body(void *ctx, const char *path, int status, const char *message,
                      const char *request_id, whim_str *out)
{
    whim_fault fault;
    (void)ctx;
    whim_fault_set(&fault, whim_fault_of_status(status), NULL, "%s", message);
    whim_fault_body(&fault, whim_dialect_of(path), request_id, out);
    return whim_fault_status(&fault, whim_dialect_of(path));
}

/* --- metrics ---------------------------------------------------------------------------------- */

static void on_status(void *ctx, whim_exchange *ex, int status)
{
    whim_server *s = ctx;
    whim_metrics_count(&s->meters, ex, status);
}

/* The lock is held. */
static void look(whim_server *s)
{
    whim_metrics_look(&s->meters, &(whim_metrics_now){.http = whim_http_get_stats(s->http),
                                                      .service = s->service,
                                                      .state = atomic_load(&s->state),
                                                      .progress = atomic_load(&s->progress)});
}

static void put_history(void *ctx, whim_str *out)
{
    whim_server *s = ctx;
    whim_history_write(s->history, whim_clock_ns(), out);
}

static void put_metrics(void *ctx, whim_str *out)
{
    whim_server *s = ctx;
    whim_metrics_info info = {.version = WHIM_VERSION, .commit = s->cfg.commit};
    info.compat = s->cfg.compat;
    pthread_rwlock_rdlock(&s->lock);
    if (s->is_loaded) {
        info.model = s->api.name;
        info.isa = s->api.isa;
        info.draft = s->api.draft;
        info.draft_kind = s->api.draft_kind;
        info.lookup = s->api.lookup;
    }
    look(s);
    pthread_rwlock_unlock(&s->lock);
    whim_metrics_write(&s->meters, &info, out);
}

whim_meters *whim_server_meters(whim_server *s)
{
    return &s->meters;
}

/* --- life ------------------------------------------------------------------------------------- */

static whim_err make_gate(whim_server *s, const whim_api_key *keys, int32_t n_key, whim_gate **out,
                          whim_diag *diag)
{
    whim_gate_cfg cfg = {
        .keys = keys,
        .n_key = n_key,
        .hosts = s->cfg.allow_hosts,
        .n_host = s->cfg.n_allow_host,
        .origins = s->cfg.origins,
        .n_origin = s->cfg.n_origin,
        .error_body = error_body,
        .ctx = s,
    };
    return whim_gate_create(&cfg, out, diag);
}

whim_err whim_server_open(const whim_server_cfg *cfg, whim_server **out, whim_diag *diag)
{
    whim_server *s = whim_alloc(sizeof *s);
    whim_err err = WHIM_ERR_OK;
    if (s == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the server");
    }
    s->cfg = *cfg;
    s->log = cfg->http.log;
    s->start_ns = whim_clock_ns();
    s->early = (whim_api){.version = WHIM_VERSION,
                          .commit = cfg->commit,
                          .log = cfg->http.log,
                          .put_metrics = put_metrics,
                          .put_history = put_history,
                          .metrics_ctx = s};
    s->stale_ns = cfg->stale_ns == 0 ? stale_default_ns : cfg->stale_ns;
    pthread_rwlock_init(&s->lock, NULL);
    whim_http_cfg http = cfg->http;
    http.gate = pass_gate;
    http.handle = handle;
    http.error_body = error_body;
    http.on_status = on_status;
    http.ctx = s;
    WHIM_TRY_OUT(make_gate(s, cfg->keys, cfg->n_key, &s->gate, diag));
    WHIM_TRY_OUT(whim_answer_thread_open(cfg->http.log, &s->answer_thread, diag));
    s->responses = whim_response_store_create(WHIM_RESPONSES_BYTES);
    WHIM_TRY_OUT(whim_got(s->responses != NULL, diag, "no memory for responses that are kept"));
    s->history = whim_history_create();
    WHIM_TRY_OUT(whim_got(s->history != NULL, diag, "no memory for the dashboard's hour"));
    WHIM_TRY_OUT(whim_http_open(&http, &s->http, diag));
    *out = s;
    return WHIM_ERR_OK;
out:
    whim_server_close(s);
    return err;
}

whim_err whim_server_start(whim_server *s, whim_diag *diag)
{
    return whim_http_start(s->http, diag);
}

int32_t whim_server_port(const whim_server *s)
{
    return whim_http_port(s->http);
}

void whim_server_set_progress(whim_server *s, double progress)
{
    atomic_store(&s->progress, (int)(progress * 1000));
}

void whim_server_set_ready(whim_server *s, const whim_api *api)
{
    int loading = LOADING;
    s->api = *api;
    s->api.answer_thread = s->answer_thread;
    s->api.responses = s->responses;
    s->api.put_metrics = put_metrics;
    s->api.put_history = put_history;
    s->api.metrics_ctx = s;
    pthread_rwlock_wrlock(&s->lock);
    s->service = whim_library_service(api->model);
    s->is_loaded = true;
    pthread_rwlock_unlock(&s->lock);
    whim_budget_set(api->request_bytes);
    if (api->request_bytes > 0) { /* else what is kept could take all that requests have */
        whim_response_store_limit(s->responses, api->request_bytes / 8);
    }
    atomic_store(&s->has_api, true);
    atomic_compare_exchange_strong(&s->state, &loading, READY); /* a drain may have come before */
}

void whim_server_drain(whim_server *s)
{
    whim_http_drain(s->http); /* first: no refusal without Connection: close */
    atomic_store(&s->state, DRAINING);
}

void whim_server_detach(whim_server *s)
{
    whim_server_drain(s);
    pthread_rwlock_wrlock(&s->lock);
    s->service = NULL;
    pthread_rwlock_unlock(&s->lock);
    atomic_store(&s->has_api, false);
    while (atomic_load(&s->n_handling) > 0) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

int64_t whim_server_active(whim_server *s)
{
    /* In this order: a request is counted there before it leaves here. */
    int64_t let_in = whim_http_get_stats(s->http).n_let_in;
    return let_in + whim_answer_thread_active(s->answer_thread);
}

void whim_server_tidy(whim_server *s)
{
    int64_t now = whim_clock_ns();
    whim_http_tidy(s->http);
    if (whim_http_get_stats(s->http).n_in_flight == 0 && whim_server_active(s) == 0) {
        /* What is held now is what the server itself has learnt: pages on disk, grammars. */
        whim_http_set_zero(s->http);
    }
    if (whim_history_is_due(s->history, now)) {
        pthread_rwlock_rdlock(&s->lock);
        look(s);
        pthread_rwlock_unlock(&s->lock);
        whim_history_take(s->history, &s->meters, now);
    }
}

whim_err whim_server_reload(whim_server *s, const whim_api_key *keys, int32_t n_key,
                            whim_diag *diag)
{
    whim_gate *fresh = NULL;
    WHIM_TRY(make_gate(s, keys, n_key, &fresh, diag));
    pthread_rwlock_wrlock(&s->lock);
    whim_gate *old = s->gate;
    s->gate = fresh;
    pthread_rwlock_unlock(&s->lock);
    whim_gate_destroy(old);
    return s->cfg.http.tls_cert == NULL ? WHIM_ERR_OK : whim_http_reload_tls(s->http, diag);
}

/* Let the last bytes go out: at most two seconds. */
static void wait_for_last_bytes(whim_server *s)
{
    for (int i = 0; i < 200 && (whim_answer_thread_active(s->answer_thread) > 0 ||
                                whim_http_get_stats(s->http).n_in_flight > 0);
         i++) {
        whim_clock_sleep_ns(10 * WHIM_NS_PER_MS);
    }
}

void whim_server_close(whim_server *s)
{
    if (s == NULL) {
        return;
    }
    if (s->http != NULL) {
        wait_for_last_bytes(s);
        whim_http_close(s->http);
    }
    whim_answer_thread_close(s->answer_thread);
    whim_response_store_destroy(s->responses);
    whim_history_destroy(s->history);
    whim_gate_destroy(s->gate);
    pthread_rwlock_destroy(&s->lock);
    whim_free(s);
}

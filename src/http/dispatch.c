/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to requests, on the I/O thread: who is refused, who is handed to a handler. */
#include "base/clock.h"
#include "base/heap/budget.h"
#include "http/internal.h"

#include <arpa/inet.h>
#include <string.h>

#define LOG_EVERY_NS WHIM_NS_PER_S
enum { MAX_METHOD = 20 };

static void set_client(whim_exchange *ex, const struct in6_addr *a)
{
    if (IN6_IS_ADDR_V4MAPPED(a)) {
        inet_ntop(AF_INET, &a->s6_addr[12], ex->client, sizeof ex->client);
    } else {
        inet_ntop(AF_INET6, a, ex->client, sizeof ex->client);
    }
}

static bool begin_exchange(whim_http *http, whim_conn *conn)
{
    conn->ex = whim_exchange_create(http, conn);
    if (conn->ex == NULL) {
        whim_conn_kill(http, conn);
        return false;
    }
    set_client(conn->ex, &conn->address);
    atomic_fetch_add(&http->n_in_flight, 1);
    return true;
}

/* Take the client's own id for the request if it cannot hurt a log or a header. */
static void take_request_id(whim_exchange *ex)
{
    const char *id = whim_http_parser_header(&ex->parser, "x-request-id");
    size_t n = id == NULL ? 0 : strlen(id);
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (n > 0 && n <= 128 && strspn(id, allowed) == n) {
        memcpy(ex->request_id, id, n + 1);
    }
}

/* Behind trusted proxies the client is whom they name. Of several headers the last was written
 * nearest to us. */
static void take_client(const whim_http *http, whim_conn *conn)
{
    const whim_http_parser *p = &conn->ex->parser;
    struct in6_addr client = conn->address;
    bool goes_on = http->cfg.n_proxy > 0;
    for (int32_t i = p->n_field - 1; goes_on && i >= 0; i--) {
        if (strcmp(p->head.text + p->fields[i].name, "x-forwarded-for") == 0) {
            goes_on = whim_forwarded_walk(http->cfg.proxies, http->cfg.n_proxy,
                                          p->head.text + p->fields[i].value, &client);
        }
    }
    set_client(conn->ex, &client);
    conn->place = whim_conn_place(&client);
}

/* What is known of the request so far; also of a bad one. */
static void fill_request(whim_exchange *ex)
{
    const whim_http_parser *p = &ex->parser;
    const char *method = p->target > 0 ? whim_http_parser_method(p) : "";
    ex->request.is_head = strcmp(method, "HEAD") == 0;
    ex->request.method = ex->request.is_head ? "GET" : method;
    ex->request.path = p->path != NULL ? p->path : "";
    ex->request.raw_path = p->raw_path != NULL ? p->raw_path : "";
    ex->request.query = p->query != NULL ? p->query : "";
    if (!p->head.failed) {
        take_request_id(ex);
    }
}

/* The log's line about a refusal. It is written only now and then, because anybody can send bytes
 * that are no request. A request that waited was let in, so it always gets its line. The line names
 * no route, because the target itself may be wrong. */
static void log_refusal(whim_http *http, const whim_exchange *ex, bool waited, int status,
                        const char *message)
{
    int64_t held_back = 0;
    if (!waited && !whim_log_allow(&http->refuse_limit, LOG_EVERY_NS, &held_back)) {
        return;
    }
    const char *method = ex->request.is_head ? "HEAD" : ex->request.method;
    double ms = (double)(whim_clock_ns() - ex->start_ns) / 1e6;
    whim_log_info(http->cfg.log, "request", whim_log_text("id", ex->request_id),
                  whim_log_text_n("method", method[0] == '\0' ? "-" : method,
                                  (int64_t)strnlen(method[0] == '\0' ? "-" : method, MAX_METHOD)),
                  whim_log_text("route", NULL), whim_log_int("status", status),
                  whim_log_text("reason", message), whim_log_real("total_ms", ms, 1),
                  whim_log_text("client", ex->client), whim_log_int("held_back", held_back));
}

/* The request is complete, or is not read on; its reply is waited for. */
static void await_reply(whim_http *http, whim_conn *conn, int64_t deadline_ns)
{
    conn->state = WHIM_CONN_REPLY;
    conn->asked_ns = whim_clock_ns();
    whim_conn_deadline(http, conn, deadline_ns);
}

static void refuse(whim_http *http, whim_conn *conn, bool waited, int status, const char *message)
{
    whim_exchange *ex = conn->ex;
    fill_request(ex);
    ex->keeps_alive = false;
    await_reply(http, conn, 0);
    atomic_fetch_add(&http->n_refused, 1);
    if (status == 503) {
        whim_exchange_add_header(ex, "Retry-After", "1");
    }
    whim_str body = {0};
    status = http->cfg.error_body(http->cfg.ctx, ex->request.path, status, message, ex->request_id,
                                  &body);
    log_refusal(http, ex, waited, status, message);
    whim_exchange_reply_json(ex, status, &body);
    whim_str_deinit(&body);
}

void whim_conn_refuse(whim_http *http, whim_conn *conn, int status, const char *message)
{
    if (conn->ex != NULL || begin_exchange(http, conn)) {
        refuse(http, conn, false, status, message);
    }
}

/* In place of the exchange that waits: it is another thread's. */
static bool replace_exchange(whim_http *http, whim_conn *conn)
{
    whim_exchange *old = whim_exchange_ref(conn->ex);
    const int32_t place = conn->place;
    old->has_head = false; /* the status that is told is the new one's */
    whim_conn_drop_exchange(http, conn);
    bool ok = begin_exchange(http, conn);
    if (ok) {
        whim_exchange *ex = conn->ex;
        const char *method = old->request.is_head ? "HEAD" : old->request.method;
        conn->place = place;
        ex->start_ns = old->start_ns;
        ex->headers = old->gate_headers;
        old->gate_headers = (whim_str){0};
        whim_str_append_n(&ex->parser.head, method, (int64_t)strlen(method) + 1);
        ex->parser.target = ex->parser.head.len;
        memcpy(ex->request_id, old->request_id, sizeof ex->request_id);
        memcpy(ex->client, old->client, sizeof ex->client);
        atomic_store(&ex->notes.route, atomic_load(&old->notes.route));
        ex->notes.client = old->notes.client;
        ex->parser.path = whim_http_copy(old->request.path, strlen(old->request.path));
        ex->parser.version = old->parser.version;
        ex->parser.state = WHIM_HTTP_S_DONE; /* all of it was read */
    }
    whim_exchange_unref(old);
    return ok;
}

void whim_conn_refuse_waiting(whim_http *http, whim_conn *conn, int status, const char *message,
                              int64_t held)
{
    if (!whim_exchange_silence(conn->ex)) {
        return;
    }
    if (!whim_http_take_back(http, conn->ex)) {
        whim_exchange_leave(conn->ex, held);
    }
    if (replace_exchange(http, conn)) {
        refuse(http, conn, true, status, message);
    }
}

bool whim_http_is_health(const char *path)
{
    return strcmp(path, "/livez") == 0 || strcmp(path, "/readyz") == 0 ||
           strcmp(path, "/health") == 0;
}

/* Metrics are wanted most when everything is full. */
bool whim_http_is_always_answered(const char *path)
{
    return whim_http_is_health(path) || strcmp(path, "/metrics") == 0;
}

/* All connections are taken, and no client that has more of them can leave one. */
static bool is_too_many(whim_http *http, const whim_conn *conn)
{
    const whim_http_limits *l = &http->cfg.limits;
    if (!conn->is_over_number || whim_http_is_always_answered(conn->ex->request.path) ||
        atomic_load(&http->n_connections) <= l->max_connections - l->kept_for_health) {
        return false;
    }
    whim_conn *other = whim_conn_crowding(http, conn);
    int64_t held_back;
    if (other != NULL) {
        if (whim_log_allow(&http->drop_limit, LOG_EVERY_NS, &held_back)) {
            whim_log_warn(http->cfg.log, "connection_dropped",
                          whim_log_text("reason", "all are taken, and its client has most of them"),
                          whim_log_int("max", l->max_connections),
                          whim_log_int("held_back", held_back));
        }
        whim_conn_kill(http, other);
    }
    return other == NULL;
}

/* Whether this request has memory, if need be after those who hold more have made way. What they
 * hold may come free only when a handler or a step is through with it, after any time. This request
 * does not wait for that: it would hold a connection, and what it has sent, without having been let
 * in. Its client comes again in a second. */
static bool has_memory(whim_http *http, whim_conn *conn)
{
    if (whim_http_is_always_answered(conn->ex->request.path)) {
        return true;
    }
    whim_conn_make_way(http, conn);
    whim_conn_refuse_heads(http, conn);
    return !whim_budget_is_over(WHIM_BUDGET_WHOLE);
}

/* The head is complete: everything that can be refused without the body. */
static void on_head(whim_http *http, whim_conn *conn, bool has_body)
{
    whim_exchange *ex = conn->ex;
    const whim_http_parser *p = &ex->parser;
    fill_request(ex);
    ex->has_head = true;
    take_client(http, conn);
    atomic_fetch_add(&http->n_requests, 1);
    if (is_too_many(http, conn)) {
        whim_conn_refuse(http, conn, 503, "too many connections");
        return;
    }
    bool keeps_alive = p->version == 11 ? !p->wants_close : p->wants_keep && !p->wants_close;
    ex->keeps_alive = keeps_alive && !has_body; /* a reply before the body ends the connection */
    /* Counted before the gate looks whether the server drains: what the gate lets in is waited
     * for. */
    atomic_fetch_add(&http->n_let_in, 1);
    if (http->cfg.gate != NULL && http->cfg.gate(http->cfg.ctx, ex) != 0) {
        atomic_fetch_sub(&http->n_let_in, 1);
        await_reply(http, conn, 0);
        return;
    }
    whim_str_append_n(&ex->gate_headers, whim_str_text(&ex->headers), ex->headers.len);
    ex->is_let_in = true;
    ex->keeps_alive = keeps_alive;
    if (!has_memory(http, conn)) {
        whim_budget_refuse();
        whim_conn_refuse(http, conn, 503, "the memory for requests and answers is used up");
        return;
    }
    if (p->status != 0) {
        whim_conn_refuse(http, conn, p->status, p->message);
        return;
    }
    if (has_body) {
        conn->state = WHIM_CONN_BODY;
        whim_conn_deadline(http, conn, http->cfg.limits.body_ns);
        if (p->expects_continue) {
            whim_exchange_send_raw(ex, "HTTP/1.1 100 Continue\r\n\r\n");
        }
    }
}

static void on_request(whim_http *http, whim_conn *conn)
{
    whim_exchange *ex = conn->ex;
    ex->request.body = whim_str_text(&ex->parser.body);
    ex->request.n_body = ex->parser.body.len;
    atomic_store(&ex->n_body, ex->parser.body.cap);
    await_reply(http, conn, conn->is_halfway ? WHIM_HTTP_HALFWAY_NS : 0);
    ex->is_let_in = false;
    whim_http_hand_over(http, ex);
}

/* Many clients that each send the largest body must not take all memory. */
static bool has_room(whim_http *http, whim_conn *conn)
{
    whim_exchange *ex = conn->ex;
    int64_t more = ex->parser.body.len - ex->n_counted;
    ex->n_counted += more;
    int64_t all = atomic_fetch_add(&http->bodies->n_bytes, more) + more;
    return more == 0 || all <= WHIM_HTTP_BODIES_MAX * http->cfg.limits.max_body;
}

static void on_parsed(whim_http *http, whim_conn *conn, whim_http_parsed parsed)
{
    whim_exchange *ex = conn->ex;
    switch (parsed) {
    case WHIM_HTTP_MORE:
        if (conn->state == WHIM_CONN_IDLE && whim_http_parser_begun(&ex->parser)) {
            conn->state = WHIM_CONN_HEAD;
            whim_conn_deadline(http, conn, http->cfg.limits.header_ns);
        }
        break;
    case WHIM_HTTP_HEAD: {
        int64_t used;
        bool has_body = ex->parser.status != 0 ||
                        whim_http_parser_feed(&ex->parser, "", 0, &used) != WHIM_HTTP_DONE;
        conn->state = WHIM_CONN_HEAD;
        on_head(http, conn, has_body);
        if (!has_body && conn->state == WHIM_CONN_HEAD) {
            on_request(http, conn);
        }
        break;
    }
    case WHIM_HTTP_DONE:
        on_request(http, conn);
        break;
    case WHIM_HTTP_BAD:
        whim_conn_refuse(http, conn, ex->parser.status, ex->parser.message);
        break;
    }
}

int64_t whim_conn_parse(whim_http *http, whim_conn *conn, const char *bytes, int64_t n)
{
    int64_t at = 0;
    while (at < n && (conn->state == WHIM_CONN_IDLE || conn->state == WHIM_CONN_HEAD ||
                      conn->state == WHIM_CONN_BODY)) {
        if (conn->ex == NULL && !begin_exchange(http, conn)) {
            break;
        }
        int64_t used;
        whim_http_parser *p = &conn->ex->parser;
        int32_t share =
            conn->state == WHIM_CONN_BODY ? whim_http_share(false, p->body.len + n - at) : 0;
        whim_conn_make_room(http, conn, share, n - at);
        int32_t had = whim_budget_share(share);
        whim_http_parsed parsed = whim_http_parser_feed(p, bytes + at, n - at, &used);
        whim_budget_share(had);
        at += used;
        if (has_room(http, conn)) {
            on_parsed(http, conn, parsed);
        } else {
            whim_conn_refuse(http, conn, 503, "too many large requests at once");
        }
    }
    return at;
}

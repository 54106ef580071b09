/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its reply, as handlers see it: replies, streams, references, the end. */
#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/heap/budget.h"
#include "http/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Bytes of one exchange that are sent at once; others want to be served too. */
enum { FLUSH_MAX = 1 << 20 };

/* The buffer of a body doubles as it grows. If it can never fit into its share of the memory for
 * requests, the body is too large at any time, and its sender is not told to try again. */
static whim_http_parse_limits limits_of(whim_exchange *ex, const whim_http_limits *l)
{
    whim_http_parse_limits limits = {
        .max_body = l->max_body, .max_headers = l->max_headers, .max_line = l->max_line};
    const int64_t all = whim_budget_bytes();
    const int64_t share = all / WHIM_BUDGET_WHOLE * WHIM_HTTP_SHARE_LARGE;
    int64_t cap = WHIM_HTTP_LARGE_BODY;
    while (3 * cap < share) { /* both buffers are there while it doubles */
        cap *= 2;
    }
    if (all > 0 && cap - 1 < l->max_body) {
        limits.max_body = cap - 1;
        snprintf(ex->too_large, sizeof ex->too_large,
                 "the request body is too large: the memory for requests and answers has room for "
                 "one of less than %lld KiB",
                 (long long)(cap >> 10));
        limits.too_large = ex->too_large;
    }
    return limits;
}

whim_exchange *whim_exchange_create(whim_http *http, whim_conn *conn)
{
    whim_exchange *ex = whim_alloc(sizeof *ex);
    if (ex == NULL) {
        return NULL;
    }
    whim_http_parse_limits limits = limits_of(ex, &http->cfg.limits);
    atomic_init(&ex->refs, 1);
    ex->http = http;
    ex->bodies = http->bodies;
    atomic_fetch_add(&ex->bodies->refs, 1);
    ex->conn = conn;
    ex->start_ns = whim_clock_ns();
    ex->is_halfway = conn->is_halfway;
    pthread_mutex_init(&ex->lock, NULL);
    whim_http_parser_init(&ex->parser, &limits);
    uint8_t random[12] = {0};
    if (getrandom(random, sizeof random, 0) < 0) {
        memcpy(random, &ex->start_ns,
               sizeof ex->start_ns); /* no names are secret; distinct will do */
    }
    memcpy(ex->request_id, "req_", 4);
    for (size_t i = 0; i < sizeof random; i++) {
        static const char hex[] = "0123456789abcdef";
        ex->request_id[4 + 2 * i] = hex[random[i] >> 4];
        ex->request_id[5 + 2 * i] = hex[random[i] & 15];
    }
    ex->request = (whim_http_request){.method = "",
                                      .path = "",
                                      .raw_path = "",
                                      .query = "",
                                      .body = "",
                                      .client = ex->client,
                                      .request_id = ex->request_id,
                                      .is_tls = conn->tls != NULL};
    return ex;
}

void whim_bodies_unref(whim_bodies *bodies)
{
    if (bodies != NULL && atomic_fetch_sub(&bodies->refs, 1) == 1) {
        whim_free(bodies);
    }
}

whim_exchange *whim_exchange_ref(whim_exchange *ex)
{
    atomic_fetch_add_explicit(&ex->refs, 1, memory_order_relaxed);
    return ex;
}

void whim_exchange_drop_body(whim_exchange *ex)
{
    whim_str_deinit(&ex->parser.body);
    ex->request.body = "";
    ex->request.n_body = 0;
    atomic_fetch_sub(&ex->bodies->n_bytes, ex->n_counted);
    pthread_mutex_lock(&ex->lock);
    const int64_t n_out = ex->out.cap;
    const int64_t n_body = atomic_exchange(&ex->n_body, 0);
    if (ex->n_leaving > 0) {
        ex->n_leaving -= n_body;
        atomic_fetch_sub(&ex->bodies->n_leaving, n_body);
    }
    pthread_mutex_unlock(&ex->lock);
    if (ex->n_counted > WHIM_HTTP_TIDY_BODY || n_out > WHIM_HTTP_TIDY_BODY) {
        atomic_store(&ex->bodies->was_large, true);
    }
    ex->n_counted = 0;
}

void whim_exchange_unref(whim_exchange *ex)
{
    if (atomic_fetch_sub_explicit(&ex->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    whim_exchange_drop_body(ex);
    atomic_fetch_sub(&ex->bodies->n_leaving, ex->n_leaving);
    whim_http_parser_deinit(&ex->parser);
    whim_bodies_unref(ex->bodies);
    whim_str_deinit(&ex->headers);
    whim_str_deinit(&ex->gate_headers);
    whim_str_deinit(&ex->out);
    pthread_mutex_destroy(&ex->lock);
    whim_free(ex);
}

static void tell_status(whim_exchange *ex, int status)
{
    ex->status = status;
    if (ex->http->cfg.on_status != NULL) {
        ex->http->cfg.on_status(ex->http->cfg.ctx, ex, status);
    }
}

bool whim_exchange_silence(whim_exchange *ex)
{
    pthread_mutex_lock(&ex->lock);
    bool is_silent = ex->reply == WHIM_REPLY_NONE && whim_exchange_take_line(ex);
    ex->conn = is_silent ? NULL : ex->conn;
    pthread_mutex_unlock(&ex->lock);
    return is_silent;
}

void whim_exchange_leave(whim_exchange *ex, int64_t held)
{
    pthread_mutex_lock(&ex->lock);
    ex->n_leaving = held + atomic_load(&ex->n_body);
    atomic_fetch_add(&ex->bodies->n_leaving, ex->n_leaving);
    pthread_mutex_unlock(&ex->lock);
}

void whim_exchange_detach(whim_exchange *ex)
{
    pthread_mutex_lock(&ex->lock);
    if (ex->status == 0 && ex->has_head) {
        tell_status(ex, 499);
    }
    bool gone = ex->is_broken || ex->reply != WHIM_REPLY_DONE || ex->out.len > 0;
    ex->conn = NULL;
    ex->is_over = true;
    ex->was_gone = gone;
    whim_str_deinit(&ex->out);
    void (*fn)(void *, bool) = ex->on_close;
    void *ctx = ex->on_close_ctx;
    pthread_mutex_unlock(&ex->lock);
    if (fn != NULL) {
        fn(ctx, gone);
    }
    whim_exchange_unref(ex);
}

void whim_exchange_on_close(whim_exchange *ex, void (*fn)(void *ctx, bool gone), void *ctx)
{
    pthread_mutex_lock(&ex->lock);
    bool over = ex->is_over, gone = ex->was_gone;
    ex->on_close = fn;
    ex->on_close_ctx = ctx;
    pthread_mutex_unlock(&ex->lock);
    if (over) {
        fn(ctx, gone);
    }
}

/* --- sending, under the lock ------------------------------------------------------------------ */

static _Thread_local int64_t queued_here;

int64_t whim_exchange_queued_here(void)
{
    return queued_here;
}

static int64_t flush(whim_exchange *ex)
{
    whim_conn *conn = ex->conn;
    int64_t total = 0;
    while (ex->out_at < ex->out.len && total < FLUSH_MAX) {
        int64_t n = ex->out.len - ex->out_at;
        char *bytes = ex->out.text + ex->out_at;
        int64_t sent;
        bool is_full;
        if (conn->tls != NULL) {
            sent = whim_tls_run(conn->tls, WHIM_TLS_WRITE, bytes, n);
            is_full = sent == WHIM_TLS_WANT_READ || sent == WHIM_TLS_WANT_WRITE;
        } else {
            sent = send(conn->fd, bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
            is_full = sent < 0 && (errno == EAGAIN || errno == EINTR);
        }
        if (is_full) {
            break;
        }
        if (sent <= 0) {
            return -1;
        }
        ex->out_at += sent;
        total += sent;
    }
    int64_t left = ex->out.len - ex->out_at;
    if (left > 0) {
        /* To the front, or a reader that never catches up would grow the buffer; but not each time:
         * it may be large. */
        if (ex->out_at >= left) {
            memcpy(ex->out.text, ex->out.text + ex->out_at, (size_t)left);
            ex->out.len = left;
            ex->out_at = 0;
        }
        return total;
    }
    whim_str_deinit(&ex->out); /* a stream that waits holds no buffer */
    ex->out_at = 0;
    return total;
}

int64_t whim_exchange_flush(whim_exchange *ex)
{
    int64_t sent = flush(ex);
    ex->read_ns = sent > 0 ? whim_clock_ns() : ex->read_ns;
    return sent;
}

/* As much of the parts as the socket takes now; -1: it is broken. */
static int64_t send_now(const whim_exchange *ex, struct iovec *parts, int n_part)
{
    struct msghdr msg = {.msg_iov = parts, .msg_iovlen = (size_t)n_part};
    int64_t sent = sendmsg(ex->conn->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

/* Send the parts as one write if nothing is queued, and queue what the socket does not take. The
 * I/O thread is needed when something is queued or broken; while a queue lasts it looks by
 * itself. */
static void put(whim_exchange *ex, struct iovec *parts, int n_part)
{
    int32_t had = whim_budget_share(0); /* what is said already must be said to its end */
    bool had_queue = ex->out.len > 0;
    int64_t sent = ex->is_broken                        ? -1
                   : had_queue || ex->conn->tls != NULL ? 0
                                                        : send_now(ex, parts, n_part);
    const int64_t before = whim_budget_taken_here();
    for (int i = 0; i < n_part && sent >= 0; i++) {
        int64_t n = (int64_t)parts[i].iov_len;
        int64_t skip = sent < n ? sent : n;
        whim_str_append_n(&ex->out, (const char *)parts[i].iov_base + skip, n - skip);
        sent -= skip;
    }
    queued_here += whim_budget_taken_here() - before;
    ex->is_broken = sent < 0 || ex->out.failed;
    ex->read_ns = had_queue ? ex->read_ns : whim_clock_ns();
    if (ex->is_broken || (ex->out.len > 0 && !had_queue)) {
        whim_http_wake(ex->http, ex);
    }
    whim_budget_share(had);
}

static struct iovec part(const char *bytes, int64_t n)
{
    return (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = (size_t)n};
}

static void done(whim_exchange *ex)
{
    ex->reply = WHIM_REPLY_DONE;
    ex->read_ns = ex->done_ns = whim_clock_ns();
    whim_http_wake(ex->http, ex);
}

void whim_exchange_send_raw(whim_exchange *ex, const char *bytes)
{
    struct iovec one = part(bytes, (int64_t)strlen(bytes));
    pthread_mutex_lock(&ex->lock);
    put(ex, &one, 1);
    pthread_mutex_unlock(&ex->lock);
}

/* --- replies ---------------------------------------------------------------------------------- */

void whim_exchange_add_header(whim_exchange *ex, const char *name, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7F) {
            return; /* it would end the line and begin another */
        }
    }
    int32_t had = whim_budget_share(0); /* a refusal for want of memory has headers, too */
    whim_str_printf(&ex->headers, "%s: %s\r\n", name, value);
    whim_budget_share(had);
}

/* What is said where there is no memory for a head. */
static const char no_memory[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                                "Content-Length: 0\r\nConnection: close\r\n\r\n";

/* The head and, unless it is a stream (n < 0), the body. */
void whim_exchange_reply(whim_exchange *ex, int status, const char *content_type, const char *body,
                         int64_t n)
{
    bool is_stream = n < 0;
    bool has_body = n > 0 && !ex->request.is_head && status != 204 && status != 304;
    whim_str head = {0};
    int32_t had = whim_budget_share(0); /* whatever is said needs a head */
    pthread_mutex_lock(&ex->lock);
    whim_assert(ex->reply == WHIM_REPLY_NONE);
    if (ex->conn != NULL && ex->reply == WHIM_REPLY_NONE) {
        ex->keeps_alive = ex->keeps_alive && !atomic_load(&ex->http->is_draining) &&
                          (!is_stream || ex->parser.version == 11);
        ex->reply = WHIM_REPLY_STREAM;
        whim_reply_head(ex, status, content_type, n, &head);
        const bool failed = head.failed || ex->headers.failed;
        ex->keeps_alive = ex->keeps_alive && !failed;
        tell_status(ex, failed ? 503 : status);
        ex->is_broken |= is_stream && ex->is_halfway;
        struct iovec parts[2] = {failed ? part(no_memory, sizeof no_memory - 1)
                                        : part(whim_str_text(&head), head.len),
                                 part(body, n)};
        put(ex, parts, has_body && !failed ? 2 : 1);
        if (!is_stream || failed) {
            done(ex);
        }
    }
    pthread_mutex_unlock(&ex->lock);
    whim_str_deinit(&head);
    whim_budget_share(had);
}

void whim_exchange_stream_begin(whim_exchange *ex, const char *content_type)
{
    whim_exchange_reply(ex, 200, content_type, NULL, -1);
}

/* What is unread is too much. An event is no fault of its reader: one of any size may follow one of
 * any size, as the first two of a reply that repeats a long request do. */
static bool is_behind(whim_exchange *ex, int64_t n)
{
    const int64_t most = whim_budget_most_of(ex->http->cfg.limits.max_queued);
    ex->n_largest = n > ex->n_largest ? n : ex->n_largest;
    return ex->out.len - ex->out_at > most + 2 * ex->n_largest;
}

bool whim_exchange_write(whim_exchange *ex, const char *bytes, int64_t n)
{
    pthread_mutex_lock(&ex->lock);
    bool open = ex->conn != NULL && !ex->is_broken && ex->reply == WHIM_REPLY_STREAM;
    if (open && n > 0 && !ex->request.is_head) {
        char size[24];
        int n_size = snprintf(size, sizeof size, "%llx\r\n", (unsigned long long)n);
        struct iovec parts[3] = {part(size, n_size), part(bytes, n), part("\r\n", 2)};
        bool is_old = ex->parser.version == 10; /* without chunks */
        ex->is_broken = is_behind(ex, n);
        put(ex, is_old ? &parts[1] : parts, is_old ? 1 : 3);
        open = !ex->is_broken;
    }
    pthread_mutex_unlock(&ex->lock);
    return open;
}

static void end_stream(whim_exchange *ex, bool is_whole)
{
    pthread_mutex_lock(&ex->lock);
    if (ex->conn != NULL && ex->reply == WHIM_REPLY_STREAM) {
        struct iovec last = part("0\r\n\r\n", 5);
        ex->keeps_alive = ex->keeps_alive && is_whole;
        if (is_whole && ex->parser.version == 11 && !ex->request.is_head) {
            put(ex, &last, 1);
        }
        done(ex);
    }
    pthread_mutex_unlock(&ex->lock);
}

void whim_exchange_stream_end(whim_exchange *ex)
{
    end_stream(ex, true);
}

void whim_exchange_stream_abort(whim_exchange *ex)
{
    end_stream(ex, false); /* what was written still goes out; the end of the chunks is missing */
}

/* --- what handlers ask ------------------------------------------------------------------------ */

const whim_http_request *whim_exchange_request(const whim_exchange *ex)
{
    return &ex->request;
}

const char *whim_exchange_header(const whim_exchange *ex, const char *name)
{
    if (ex->parser.authority != NULL && strcasecmp(name, "host") == 0) {
        return ex->parser.authority; /* a target with a host overrules the header */
    }
    return whim_http_parser_header(&ex->parser, name);
}

whim_exchange_notes *whim_exchange_get_notes(whim_exchange *ex)
{
    return &ex->notes;
}

int whim_exchange_status(const whim_exchange *ex)
{
    return atomic_load(&ex->status);
}

int64_t whim_exchange_start_ns(const whim_exchange *ex)
{
    return ex->start_ns;
}

bool whim_exchange_take_line(whim_exchange *ex)
{
    return !atomic_exchange(&ex->has_line, true);
}

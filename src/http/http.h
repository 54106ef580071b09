/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 over epoll: one thread moves bytes, a few threads run handlers, streams are written from
 * any thread. It knows connections, limits, deadlines, TLS, JSON error bodies, and when a client
 * has gone; what a route means is the handler's.
 *
 * Invariants:
 *  1. Every exchange gets exactly one reply: a whole one, or a stream that ends.
 *  2. on_close is called exactly once for each exchange, after its last byte went out or its client
 *     went away (noticed at once, also while nothing is written: the socket itself is watched).
 *  3. A client that shuts its side of the connection counts as gone: at once if its reply is a
 *     stream; else when the complete request is one second old, so that a short reply still
 *     reaches `printf ... | nc -N`.
 *  4. What a client does costs other clients nothing but fair shares: no handler thread waits for a
 *     socket.
 *  5. Clients have turns with requests that are complete (notes.client, which the gate sets), each
 *     in the order in which they were complete, and none has the last of more than two handler
 *     threads while it has all others. Slow ones, which may take seconds, wait apart and
 *     have at most n_handler - 2 of the handler threads (at least 1): those with a body of more
 *     than 256 KiB, and those that their handler puts off. While one of them is handled that works
 *     long and calls whim_turn_give, one of another client may be handled inside that call, one of
 *     each client in all, and never two at a time.
 *  6. When all connections but those kept for health are taken, one without a request under way is
 *     closed for one that comes; for a request of another client, one of an address (that of the
 *     client that a trusted proxy names) that has more of them, whose reply has not begun, or is
 *     whole and was not read for a second.
 *  7. Where memory for requests is short, the client that holds most of it makes room for a request
 *     of one that holds less: its unfinished requests, then those of whose reply nothing is said,
 *     the newest first, get 503. One whose head is unfinished is closed without a word.
 *  8. TLS handshakes are done in turns, one step between two looks at everything else: one for
 *     each address that wants any. They take half of the I/O thread's time at most.
 * Threads: handlers run on the server's handler threads; exchange calls from any thread. */
#ifndef WHIM_HTTP_HTTP_H
#define WHIM_HTTP_HTTP_H

#include "base/err.h"
#include "base/report/log.h"
#include "base/str.h"
#include "http/forwarded.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_http whim_http;
typedef struct whim_exchange whim_exchange; /* one request and its reply */

typedef struct whim_http_limits {
    int64_t max_body, max_headers, max_line;  /* 32 MiB, 32 KiB, 8 KiB */
    int64_t header_ns, body_ns, idle_ns;      /* 10 s, 60 s, 75 s */
    int32_t max_connections, kept_for_health; /* 1024; 16, at most half */
    int64_t max_queued; /* bytes a slow reader may leave unread, beside two events; 4 MiB,
                           or a sixteenth of the memory for requests */
} whim_http_limits;

/* Put the usual values where there is 0. */
void whim_http_limits_fill(whim_http_limits *limits);

/* What a request looks like. All texts are NUL-terminated and live as long as the exchange. */
typedef struct whim_http_request {
    const char *method;   /* "GET"; HEAD comes as GET with is_head */
    const char *path;     /* decoded, without query and trailing slash; "/" stays */
    const char *raw_path; /* as sent, without query */
    const char *query;    /* after '?', "" when none */
    const char *body;     /* [n_body], NUL after it */
    int64_t n_body;
    const char *client; /* address without port; behind a trusted proxy that of whom it serves */
    const char *request_id; /* echoed or made */
    bool is_head, is_tls;
    bool is_slow;       /* it has one of the places for slow requests: see invariant 5 */
    int64_t put_off_ns; /* when it was put off: it is handled for the second time; 0: it was not */
} whim_http_request;

/* Called on a handler thread; must reply, begin a stream, now or later, or put it off. */
typedef void whim_http_handler(void *ctx, whim_exchange *ex);

/* Checks that come before the body is read (key, host, origin, route): return 0 to go on, or have
 * replied and return 1. Called on the I/O thread: must be quick. */
typedef int whim_http_gate(void *ctx, whim_exchange *ex);

/* Write the error body of a failure that HTTP itself found (400, 408, 413, 414, 415, 431, ...; 503:
 * too much is going on) for this path; the status to reply with, which the path's dialect may have
 * its own of. */
typedef int whim_http_error_body(void *ctx, const char *path, int status, const char *message,
                                 const char *request_id, whim_str *out);

/* A reply's status is decided, before its first byte goes out; 499: the client left before that.
 * Once for each request whose head came whole or that is answered. Any thread; must be quick, and
 * may only look at the exchange. */
typedef void whim_http_on_status(void *ctx, whim_exchange *ex, int status);

typedef struct whim_http_cfg {
    const char *const
        *hosts; /* addresses to listen on; those that fail but the first are left out */
    int32_t n_host;
    int32_t port;                   /* 0: any free one */
    const char *tls_cert, *tls_key; /* PEM files, NULL: plain */
    whim_http_limits limits;
    int32_t n_handler; /* threads; 0: 4; see invariant 5 */
    whim_http_gate *gate;
    whim_http_handler *handle;
    whim_http_error_body *error_body;
    whim_http_on_status *on_status; /* NULL: not counted */
    void *ctx;
    const whim_network *proxies; /* whose X-Forwarded-For is believed */
    int32_t n_proxy;
    whim_log *log;
} whim_http_cfg; /* its texts live until the server is closed; limits of 0 are the usual ones */

/* Binds at once (so that a taken port is reported before a model loads); answers after start. */
WHIM_MUST_CHECK whim_err whim_http_open(const whim_http_cfg *cfg, whim_http **out, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_http_start(whim_http *http, whim_diag *diag);
int32_t whim_http_port(const whim_http *http);

/* Replies carry Connection: close, and connections end after the reply they wait for. New
 * connections are still accepted, so that a probe or a client learns what continues: that is the
 * gate's to say. */
void whim_http_drain(whim_http *http);

/* Give memory that large requests, or many, have left unused back to the system. Now and then, on a
 * thread that no request waits for: every thread that wants memory waits meanwhile, about a
 * millisecond for each ten megabytes. So for many small requests it is done every few seconds at
 * most. Whether it was done. */
bool whim_http_tidy(whim_http *http);

/* What is held now is no longer part of the memory for requests. On the thread that tidies. */
void whim_http_set_zero(whim_http *http);

/* Certificate and key again from their files. */
WHIM_MUST_CHECK whim_err whim_http_reload_tls(whim_http *http, whim_diag *diag);

/* Closes what is left, joins all threads, calls the on_close of every open exchange. */
void whim_http_close(whim_http *http);

typedef struct whim_http_stats {
    int64_t n_connections, n_accepted, n_requests, n_in_flight, n_refused;
    int64_t n_let_in; /* requests at or past the gate whose handler has not come back */
} whim_http_stats;
whim_http_stats whim_http_get_stats(const whim_http *http);

/* Whether the path is one of the probes that limits.kept_for_health is for, beside /metrics. */
bool whim_http_is_health(const char *path);

/* --- exchanges -------------------------------------------------------------------------------- */

const whim_http_request *whim_exchange_request(const whim_exchange *ex);

/* A header's value (name in any case), or NULL. */
const char *whim_exchange_header(const whim_exchange *ex, const char *name);

/* The request's body is no longer needed: its memory is for others. On the handler's thread, which
 * does not put the request off after that. */
void whim_exchange_drop_body(whim_exchange *ex);

/* Add a header of the reply, before reply or stream_begin; a value with a control byte is left
 * out. */
void whim_exchange_add_header(whim_exchange *ex, const char *name, const char *value);

/* The whole reply. Content-Length, Date, x-request-id and request-id are added. */
void whim_exchange_reply(whim_exchange *ex, int status, const char *content_type, const char *body,
                         int64_t n);

/* A JSON document; where memory ran out for it the status comes alone, because half a document
 * would be read as one. */
static inline void whim_exchange_reply_json(whim_exchange *ex, int status, const whim_str *body)
{
    whim_exchange_reply(ex, status, "application/json", whim_str_text(body),
                        body->failed ? 0 : body->len);
}

/* It turned out that this takes long: let it be handled once more, from the beginning, when a place
 * for slow requests is free. Only for a handler whose request is not slow yet; it leaves the
 * exchange alone after that. */
void whim_exchange_put_off(whim_exchange *ex);

/* Status 200 and headers go out now (Cache-Control: no-cache and X-Accel-Buffering: no among them);
 * then pieces, each as one write; then the end. */
void whim_exchange_stream_begin(whim_exchange *ex, const char *content_type);
/* False when the client is gone or reads too slowly (then it is being closed): stop the work. */
bool whim_exchange_write(whim_exchange *ex, const char *bytes, int64_t n);
void whim_exchange_stream_end(whim_exchange *ex);
/* Break the stream off without its proper end; what was written still goes out. */
void whim_exchange_stream_abort(whim_exchange *ex);

/* fn(ctx, gone) once, see invariant 2; `gone`: the client left before its reply was complete. On
 * the I/O thread; if the exchange is over already, at once. The exchange is freed after it: a
 * caller that still writes must hold a reference. */
void whim_exchange_on_close(whim_exchange *ex, void (*fn)(void *ctx, bool gone), void *ctx);
whim_exchange *whim_exchange_ref(whim_exchange *ex);
void whim_exchange_unref(whim_exchange *ex);

/* What the gate, or a refusal, notes for on_status; 0: nothing; a reason of -1: whatever the
 * status, it is no refusal. */
typedef struct whim_exchange_notes {
    atomic_int route, reason;
    /* Of the gate, for the handler: a number for the client, and whether its priority counts
     * among all. */
    uint64_t client;
    bool may_pass;
} whim_exchange_notes;
whim_exchange_notes *whim_exchange_get_notes(whim_exchange *ex);

/* For the log at its end. */
int whim_exchange_status(const whim_exchange *ex);
int64_t whim_exchange_start_ns(const whim_exchange *ex);

/* Whether its line of the log is the caller's to write: for the first who asks. One that gave way
 * (invariant 7) has its line; one whose line is taken gives way no more. */
bool whim_exchange_take_line(whim_exchange *ex);

#endif

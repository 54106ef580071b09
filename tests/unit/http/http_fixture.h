/* SPDX-License-Identifier: Apache-2.0 */
/* A server with a small handler, and raw sockets against it. Paths of the handler:
 *  /echo     the body back; /echo?kept: and the test has the exchange; /info: how the request was read, one line each
 *  /stream   "one", "two", "three" as a stream; with a query, so many pieces
 *  /wait     no answer until the test gives one
 *  /hold     keeps its handler thread until f->released; /hold?slow: is put off first
 *  /long     works until f->released, and gives turns meanwhile; /long?slow: is put off first
 *  /pour     a stream that writes until it is told to stop
 *  /denied   refused by the gate with 401 */
#ifndef WHIM_TESTS_UNIT_HTTP_HTTP_FIXTURE_H
#define WHIM_TESTS_UNIT_HTTP_HTTP_FIXTURE_H

#include "base/clock.h"
#include "base/turn.h"
#include "http/http.h"
#include "support/cmocka.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct fixture {
    whim_http *http;
    whim_log log;
    atomic_int n_closed, n_gone, n_handled;
    _Atomic(whim_exchange *) waiting; /* holds a reference */
    atomic_llong poured;
    atomic_bool released;
    char text[1 << 18]; /* the last answer */
    int64_t n_text;
} fixture;

static inline void fixture_closed(void *ctx, bool gone)
{
    fixture *f = ctx;
    atomic_fetch_add(&f->n_gone, gone ? 1 : 0);
    atomic_fetch_add(&f->n_closed, 1);
}

static inline void fixture_info(whim_exchange *ex)
{
    const whim_http_request *r = whim_exchange_request(ex);
    const char *host = whim_exchange_header(ex, "HOST"), *test = whim_exchange_header(ex, "x-test");
    whim_str out = {0};
    whim_str_printf(&out, "method=%s\npath=%s\nraw=%s\nquery=%s\nn=%lld\nhead=%d\ntls=%d\n",
                    r->method, r->path, r->raw_path, r->query, (long long)r->n_body, r->is_head,
                    r->is_tls);
    whim_str_printf(&out, "client=%s\nhost=%s\ntest=[%s]\n", r->client, host ? host : "-",
                    test ? test : "-");
    whim_exchange_reply(ex, 200, "text/plain", whim_str_text(&out), out.len);
    whim_str_deinit(&out);
}

static inline void fixture_pour(fixture *f, whim_exchange *ex)
{
    static const char piece[16384];
    whim_exchange_stream_begin(ex, "application/octet-stream");
    while (whim_exchange_write(ex, piece, sizeof piece)) {
        atomic_fetch_add(&f->poured, (long long)sizeof piece);
        whim_clock_sleep_ns(100000);
    }
    whim_exchange_stream_end(ex);
}

static inline void fixture_handle(void *ctx, whim_exchange *ex)
{
    fixture *f = ctx;
    const whim_http_request *r = whim_exchange_request(ex);
    if (r->put_off_ns == 0) {
        whim_exchange_on_close(ex, fixture_closed, f);
        atomic_fetch_add(&f->n_handled, 1);
    }
    if (strcmp(r->path, "/echo") == 0) {
        if (strcmp(r->query, "kept") == 0) {
            atomic_store(&f->waiting, whim_exchange_ref(ex));
        }
        whim_exchange_reply(ex, 200, "text/plain", r->body, r->n_body);
    } else if (strcmp(r->path, "/stream") == 0) {
        int n = r->query[0] != '\0' ? atoi(r->query) : 3;
        static const char *const words[] = {"one", "two", "three"};
        whim_exchange_stream_begin(ex, "text/event-stream; charset=utf-8");
        for (int i = 0; i < n; i++) {
            whim_exchange_write(ex, words[i % 3], (int64_t)strlen(words[i % 3]));
        }
        whim_exchange_stream_end(ex);
    } else if (strcmp(r->path, "/wait") == 0) {
        atomic_store(&f->waiting, whim_exchange_ref(ex));
    } else if (strcmp(r->query, "slow") == 0 && !r->is_slow) {
        whim_exchange_put_off(ex);
    } else if (strcmp(r->path, "/hold") == 0 || strcmp(r->path, "/long") == 0) {
        while (!atomic_load(&f->released)) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
            if (r->path[1] == 'l') {
                whim_turn_give();
            }
        }
        whim_exchange_add_header(ex, "x-held", "long");
        whim_exchange_reply(ex, 200, "text/plain", "held", 4);
    } else if (strcmp(r->path, "/pour") == 0) {
        fixture_pour(f, ex);
    } else if (strcmp(r->path, "/abort") == 0) {
        whim_exchange_stream_begin(ex, "text/plain");
        whim_exchange_write(ex, "part", 4);
        whim_exchange_stream_abort(ex);
    } else {
        fixture_info(ex);
    }
}

static inline int fixture_gate(void *ctx, whim_exchange *ex)
{
    (void)ctx;
    const char *client = whim_exchange_request(ex)->client;
    whim_exchange_get_notes(ex)->client = (unsigned char)client[strlen(client) - 1];
    whim_exchange_add_header(ex, "x-gate", "seen");
    whim_exchange_add_header(ex, "x-split", "a\r\nx-forged: 1");
    if (strcmp(whim_exchange_request(ex)->path, "/denied") == 0) {
        whim_exchange_reply(ex, 401, "application/json", "{}", 2);
        return 1;
    }
    return 0;
}

static inline int fixture_error(void *ctx, const char *path, int status, const char *message,
                                const char *request_id, whim_str *out)
{
    (void)ctx, (void)request_id;
    whim_str_printf(out, "{\"status\":%d,\"path\":\"%s\",\"message\":\"%s\"}", status, path,
                    message);
    return status;
}

static inline void fixture_open(fixture *f, const whim_http_cfg *special)
{
    static const char *const hosts[] = {"127.0.0.1"};
    whim_http_cfg cfg = *special;
    memset(f, 0, offsetof(fixture, text));
    whim_log_init(&f->log, STDERR_FILENO, WHIM_LOG_ERROR);
    if (cfg.hosts == NULL) {
        cfg.hosts = hosts;
        cfg.n_host = 1;
    }
    cfg.gate = cfg.gate != NULL ? cfg.gate : fixture_gate;
    cfg.handle = fixture_handle;
    cfg.error_body = fixture_error;
    cfg.ctx = f;
    cfg.log = cfg.log != NULL ? cfg.log : &f->log;
    whim_diag diag = {{0}};
    assert_int_equal(whim_http_open(&cfg, &f->http, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_http_start(f->http, &diag), WHIM_ERR_OK);
}

static inline void fixture_close(fixture *f)
{
    whim_http_close(f->http);
    whim_exchange *ex = atomic_exchange(&f->waiting, NULL);
    if (ex != NULL) {
        whim_exchange_unref(ex);
    }
    whim_log_deinit(&f->log);
    assert_int_equal(atomic_load(&f->n_closed), atomic_load(&f->n_handled)); /* invariant 2 */
}

static inline int dial(const fixture *f)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)whim_http_port(f->http)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

static inline void say_n(int fd, const char *bytes, int64_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return; /* the server may have had enough */
        }
        bytes += sent;
        n -= sent;
    }
}

static inline void say(int fd, const char *text)
{
    say_n(fd, text, (int64_t)strlen(text));
}

/* Bytes into f->text until it holds `until` (NULL: until the server closes). False after a minute or
 * a reset. */
static inline bool hear(fixture *f, int fd, const char *until)
{
    f->n_text = 0;
    f->text[0] = '\0';
    for (;;) {
        if (until != NULL && memmem(f->text, (size_t)f->n_text, until, strlen(until)) != NULL) {
            return true;
        }
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 60000) != 1) {
            return false;
        }
        ssize_t n =
            recv(fd, f->text + f->n_text, sizeof f->text - 1 - (size_t)f->n_text, MSG_DONTWAIT);
        if (n < 0 || (n == 0 && until != NULL)) {
            return false;
        }
        if (n == 0) {
            return true;
        }
        f->n_text += n;
        f->text[f->n_text] = '\0';
    }
}

/* One request on a connection of its own, everything until the server closes. */
static inline const char *ask_n(fixture *f, const char *request, int64_t n)
{
    int fd = dial(f);
    say_n(fd, request, n);
    assert_true(hear(f, fd, NULL));
    close(fd);
    return f->text;
}

static inline const char *ask(fixture *f, const char *request)
{
    return ask_n(f, request, (int64_t)strlen(request));
}

static inline int status_of(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

static inline bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Wait until *value is `want`, at most a minute. */
static inline bool becomes(atomic_int *value, int want)
{
    for (int i = 0; i < 60000; i++) {
        if (atomic_load(value) == want) {
            return true;
        }
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    return false;
}

static inline whim_exchange *take_waiting(fixture *f)
{
    for (int i = 0; i < 60000; i++) {
        whim_exchange *ex = atomic_exchange(&f->waiting, NULL);
        if (ex != NULL) {
            return ex;
        }
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    return NULL;
}

#endif

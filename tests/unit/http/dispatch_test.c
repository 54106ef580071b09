/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile or clumsy client may do: after each, the next request works. */
#include "unit/http/http_fixture.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>

static fixture f;

/* Small sizes, and the usual times: a busy machine may be late with a client's next byte. */
static const whim_http_limits small = {.max_body = 1000,
                                       .max_headers = 2000,
                                       .max_line = 300,
                                       .max_connections = 24,
                                       .kept_for_health = 4,
                                       .max_queued = 100000};

static int open_small(void **state)
{
    (void)state;
    fixture_open(&f, &(whim_http_cfg){.limits = small});
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    fixture_close(&f);
    return 0;
}

static void still_works(void)
{
    assert_int_equal(status_of(ask(&f, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")),
                     200);
}

#define GET "GET / HTTP/1.1\r\nHost: h\r\n"
#define POST "POST /echo HTTP/1.1\r\nHost: h\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"

static void test_hostile(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *request;
    } rows[] = {
        {400, "GARBAGE\r\n\r\n"},
        {400, "GET /\r\n\r\n"},
        {400, "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, " GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"},
        {400, "GET / HTTX/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / http/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1.1\nHost: h\n\n"},
        {400, "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1.1\rHost: h\r\n\r\n"},
        {400, "G\x01T / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET relative HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET * HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET http:///x HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET http://u@h/x HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /%0a HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /%4 HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n"},
        {400, "GET /%ff HTTP/1.1\r\nHost: h\r\n\r\n"},
        {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
        {505, "GET / HTTP/3.0\r\nHost: h\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {400, GET "Host: h\r\n\r\n"},
        {400, GET "Host: other\r\n\r\n"},
        {400, GET "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"},
        {400, GET "Name : v\r\n\r\n"},
        {400, GET " Name: v\r\n\r\n"},
        {400, GET ": v\r\n\r\n"},
        {400, GET "no colon\r\n\r\n"},
        {400, GET "A: b\r\n folded\r\n\r\n"},
        {400, GET "A: b\r\n\tfolded\r\n\r\n"},
        {400, GET "A: b\x01\r\n\r\n"},
        {400, GET "A: b\x7f\r\n\r\n"},
        {400, GET "A: b\rC: d\r\n\r\n"},
        {400, GET "A: b\nC: d\r\n\r\n"},
        {400, POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
        {400, POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
        {400, POST "Content-Length: 3, 3\r\n\r\nabc"},
        {400, POST "Content-Length: -1\r\n\r\n"},
        {400, POST "Content-Length: +1\r\n\r\na"},
        {400, POST "Content-Length: 0x1\r\n\r\na"},
        {400, POST "Content-Length: 1 1\r\n\r\na"},
        {400, POST "Content-Length:\r\n\r\n"},
        {413, POST "Content-Length: 1001\r\n\r\n"},
        {413, POST "Content-Length: 99999999999999999999999999999\r\n\r\n"},
        {501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {501, POST "Transfer-Encoding: identity\r\n\r\n"},
        {400, POST "Transfer-Encoding: \x0b"
                   "chunked\r\n\r\n"},
        {400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {415, POST "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"},
        {415, POST "Content-Encoding: gzip\r\n\r\n"},
        {400, CHUNKED "g\r\n"},
        {400, CHUNKED "\r\n"},
        {400, CHUNKED "-1\r\n"},
        {400, CHUNKED " 1\r\na\r\n0\r\n\r\n"},
        {400, CHUNKED "1 \r\na\r\n0\r\n\r\n"},
        {400, CHUNKED "0x1\r\na\r\n0\r\n\r\n"},
        {400, CHUNKED "1\na\r\n0\r\n\r\n"},
        {400, CHUNKED "1\r\nab\r\n0\r\n\r\n"},
        {400, CHUNKED "1\r\na\n0\r\n\r\n"},
        {400, CHUNKED "1;a\x01\r\na\r\n0\r\n\r\n"},
        {400, CHUNKED "0\r\nA: \x01\r\n\r\n"},
        {413, CHUNKED "3e9\r\n"},
        {413, CHUNKED "ffffffffffffffffffffffff\r\n"},
        /* Legal, though rare. */
        {200, POST "Content-Length: 3\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"},
        {200, POST "Content-Length: 0003\r\nConnection: close\r\n\r\nabc"},
        {200, POST "Content-Encoding: identity\r\nContent-Length: 1\r\nConnection: close\r\n\r\na"},
        {200, CHUNKED "1;name=\"v\"\r\na\r\n000\r\nTrailer: x\r\n\r\n"},
        {200, GET "X: \xc3\xa4\tb\r\nEmpty:\r\nConnection: keep-alive, Close\r\n\r\n"},
        {200, "GET / HTTP/1.9\r\nHost:h\r\nConnection:close\r\n\r\n"},
        {200, "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"},
        {200, GET "Expect: the worst\r\nConnection: close\r\n\r\n"},
        {200, "GET / HTTP/1.0\r\n\r\n"},
        {200, "GET http://h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *a = ask(&f, rows[i].request);
        if (status_of(a) != rows[i].status) {
            print_error("row %zu: %d, wanted %d: %s\n", i, status_of(a), rows[i].status,
                        rows[i].request);
        }
        assert_int_equal(status_of(a), rows[i].status);
        if (rows[i].status >= 400) {
            assert_true(has(a, "\r\nContent-Type: application/json\r\n") && has(a, "\"status\":"));
            assert_true(has(a, "\r\nConnection: close\r\n"));
        }
    }
    still_works();
}

static void test_nul(void **state)
{
    (void)state;
    static const char in_line[] = "GET /a\0b HTTP/1.1\r\nHost: h\r\n\r\n";
    static const char in_name[] = GET "A\0: b\r\n\r\n";
    static const char in_value[] = GET "A: b\0c\r\n\r\n";
    assert_int_equal(status_of(ask_n(&f, in_line, sizeof in_line - 1)), 400);
    assert_int_equal(status_of(ask_n(&f, in_name, sizeof in_name - 1)), 400);
    assert_int_equal(status_of(ask_n(&f, in_value, sizeof in_value - 1)), 400);
    /* In a body it is a byte like others. */
    static const char in_body[] = POST "Content-Length: 3\r\nConnection: close\r\n\r\na\0b";
    assert_int_equal(status_of(ask_n(&f, in_body, sizeof in_body - 1)), 200);
    assert_memory_equal(f.text + f.n_text - 3, "a\0b", 3);
}

/* The limits to the byte. */
static void test_sizes(void **state)
{
    (void)state;
    whim_str r = {0};
    for (int over = 0; over <= 1; over++) {
        whim_str_clear(&r);
        int n = (int)small.max_line - (int)strlen("GET / HTTP/1.1\r\n") + over;
        whim_str_printf(&r, "GET /%0*d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", n, 0);
        assert_int_equal(status_of(ask_n(&f, r.text, r.len)), over ? 414 : 200);
        whim_str_clear(&r);
        n = (int)small.max_headers - (int)strlen("Host: h\r\nConnection: close\r\nA: \r\n\r\n") +
            over;
        whim_str_printf(&r, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nA: %0*d\r\n\r\n", n,
                        0);
        assert_int_equal(status_of(ask_n(&f, r.text, r.len)), over ? 431 : 200);
        whim_str_clear(&r);
        n = (int)small.max_body + over;
        whim_str_printf(&r, POST "Connection: close\r\nContent-Length: %d\r\n\r\n%0*d", n, n, 0);
        assert_int_equal(status_of(ask_n(&f, r.text, r.len)), over ? 413 : 200);
        whim_str_clear(&r);
        whim_str_printf(&r, CHUNKED "3e0\r\n%0992d\r\n%x\r\n%0*d\r\n0\r\n\r\n", 0, 8 + over,
                        8 + over, 0);
        assert_int_equal(status_of(ask_n(&f, r.text, r.len)), over ? 413 : 200);
        whim_str_clear(&r);
        whim_str_append(&r, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n");
        for (int i = 0; i < 126 + over; i++) {
            whim_str_append(&r, "A:\r\n");
        }
        whim_str_append(&r, "\r\n");
        assert_int_equal(status_of(ask_n(&f, r.text, r.len)), over ? 431 : 200);
    }
    /* An endless trailer, and chunk lines without data. */
    whim_str_clear(&r);
    whim_str_printf(&r, CHUNKED "0\r\nA: %02000d\r\n\r\n", 0);
    assert_int_equal(status_of(ask_n(&f, r.text, r.len)), 431);
    whim_str_clear(&r);
    whim_str_printf(&r, CHUNKED "1;%0300d\r\n", 0);
    assert_int_equal(status_of(ask_n(&f, r.text, r.len)), 400);
    whim_str_deinit(&r);
    still_works();
}

/* A refusal reaches a client that writes all of its body first. */
static void test_large_body(void **state)
{
    (void)state;
    enum { N = 3 << 20 };
    char *body = calloc(1, N);
    int fd = dial(&f);
    int64_t left = (int64_t)small.max_body * 4; /* what is dropped after an answer */
    say(fd, POST "Content-Length: 3145728\r\n\r\n");
    say_n(fd, body, left);
    assert_true(hear(&f, fd, NULL));
    assert_int_equal(status_of(f.text), 413);
    close(fd);
    free(body);
    still_works();
}

/* Many large bodies at once: the one that would take too much memory is refused, the others are
 * served. */
static void test_large_bodies(void **state)
{
    (void)state;
    int fds[9];
    whim_str r = {0};
    whim_str_printf(&r, POST "Connection: close\r\nContent-Length: 1000\r\n\r\n%0950d", 0);
    for (int i = 0; i < 9; i++) {
        fds[i] = dial(&f);
        say_n(fds[i], r.text, r.len);
    }
    assert_true(hear(&f, fds[8], NULL));
    assert_int_equal(status_of(f.text), 503);
    assert_true(has(f.text, "\r\nRetry-After: "));
    close(fds[8]);
    for (int i = 0; i < 8; i++) {
        char rest[51];
        snprintf(rest, sizeof rest, "%050d", i);
        say(fds[i], rest);
        assert_true(hear(&f, fds[i], NULL));
        assert_int_equal(status_of(f.text), 200);
        close(fds[i]);
    }
    whim_str_deinit(&r);
    still_works();
}

/* A body counts as long as it is in memory, also when its client has left and only the work on it
 * goes on. */
static void test_bodies_of_clients_gone(void **state)
{
    (void)state;
    enum { N = 8 };
    whim_exchange *held[N];
    whim_str r = {0};
    for (int i = 0; i < N; i++) {
        int gone = atomic_load(&f.n_gone);
        int fd = dial(&f);
        struct linger hard = {.l_onoff = 1};
        whim_str_clear(&r);
        whim_str_printf(&r, "POST /wait HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n%01000d",
                        i);
        say_n(fd, r.text, r.len);
        held[i] = take_waiting(&f);
        assert_non_null(held[i]);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(fd);
        assert_true(becomes(&f.n_gone, gone + 1));
    }
    static const char one[] = POST "Connection: close\r\nContent-Length: 1\r\n\r\na";
    assert_int_equal(status_of(ask(&f, one)), 503);
    for (int i = 0; i < N; i++) {
        whim_exchange_unref(held[i]);
    }
    assert_int_equal(status_of(ask(&f, one)), 200);
    whim_str_deinit(&r);
}

static int64_t timed_ask(fixture *g, const char *request)
{
    int64_t begin = whim_clock_ns();
    ask(g, request);
    return (whim_clock_ns() - begin) / WHIM_NS_PER_MS;
}

static void test_deadlines(void **state)
{
    (void)state;
    static fixture g;
    whim_http_limits soon = small;
    /* Long enough for a busy machine to send what is meant to be in time. */
    soon.header_ns = 1000 * WHIM_NS_PER_MS;
    soon.body_ns = 1100 * WHIM_NS_PER_MS;
    soon.idle_ns = 1200 * WHIM_NS_PER_MS;
    fixture_open(&g, &(whim_http_cfg){.limits = soon});
    int64_t ms = timed_ask(&g, "GET / HTTP/1.1\r\nHost: ");
    assert_int_equal(status_of(g.text), 408);
    assert_true(ms >= 900);
    ms = timed_ask(&g, POST "Content-Length: 9\r\n\r\nabc");
    assert_int_equal(status_of(g.text), 408);
    assert_true(ms >= 1000);
    ms = timed_ask(&g, "");
    assert_int_equal(g.n_text, 0);
    assert_true(ms >= 1100);
    timed_ask(&g, "\r\n\r\n");
    assert_int_equal(g.n_text, 0);
    /* An idle connection that was used ends the same way. */
    int fd = dial(&g);
    say(fd, GET "\r\n");
    assert_true(hear(&g, fd, "test=[-]\n"));
    assert_true(hear(&g, fd, NULL));
    assert_int_equal(g.n_text, 0);
    /* Bytes that keep coming do not move the deadline of the headers. */
    close(fd);
    fd = dial(&g);
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    const char *line = "GET / HTTP/1.1\r\nHost: slow.loris.example.and.so.on\r\nX: ";
    for (int i = 0; i < 300 && poll(&answer, 1, 25) == 0; i++) { /* fewer than it refuses */
        say_n(fd, *line != '\0' ? line++ : "a", 1);
    }
    assert_int_equal(answer.revents & POLLIN, POLLIN); /* while they came */
    assert_true(hear(&g, fd, NULL));
    assert_int_equal(status_of(g.text), 408);
    close(fd);
    /* A waiting answer has none. */
    fd = dial(&g);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    whim_exchange *ex = take_waiting(&g);
    assert_non_null(ex);
    whim_clock_sleep_ns(1500 * WHIM_NS_PER_MS);
    whim_exchange_reply(ex, 200, "text/plain", "late", 4);
    whim_exchange_unref(ex);
    assert_true(hear(&g, fd, NULL));
    assert_true(has(g.text, "\r\n\r\nlate"));
    close(fd);
    fixture_close(&g);
}

/* The client leaves: before a stream, in it, while nothing is said; with and without a reset. */
static void test_gone(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        bool is_stream = how < 2, is_reset = how % 2 == 1;
        int gone = atomic_load(&f.n_gone);
        int fd = dial(&f);
        say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
        whim_exchange *ex = take_waiting(&f);
        assert_non_null(ex);
        if (is_stream) {
            whim_exchange_stream_begin(ex, "text/event-stream");
            assert_true(whim_exchange_write(ex, "data", 4));
            assert_true(hear(&f, fd, "data\r\n"));
        }
        if (is_reset) {
            struct linger hard = {.l_onoff = 1};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        }
        close(fd);
        assert_true(becomes(&f.n_gone, gone + 1)); /* though nobody writes */
        assert_false(whim_exchange_write(ex, "more", 4));
        whim_exchange_stream_end(ex);
        whim_exchange_unref(ex);
    }
    still_works();
}

/* One that has shut its side is answered if that takes less than a second. */
static bool answers_half_closed(void)
{
    int gone = atomic_load(&f.n_gone);
    int fd = dial(&f);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    shutdown(fd, SHUT_WR);
    whim_exchange *ex = take_waiting(&f);
    assert_non_null(ex);
    whim_clock_sleep_ns(100 * WHIM_NS_PER_MS);
    whim_exchange_reply(ex, 200, "text/plain", "in time", 7);
    whim_exchange_unref(ex);
    bool heard = hear(&f, fd, NULL) && has(f.text, "\r\n\r\nin time");
    close(fd);
    return heard && atomic_load(&f.n_gone) == gone;
}

/* `printf ... | nc -N`: the client shuts its side and waits. */
static void test_half_close(void **state)
{
    (void)state;
    int fd = dial(&f);
    say(fd, GET "\r\n" GET "\r\n" POST "Content-Length: 5\r\n\r\nhello");
    shutdown(fd, SHUT_WR);
    assert_true(hear(&f, fd, NULL));
    assert_true(has(strstr(f.text + 10, "HTTP/1.1 200"), "\r\n\r\nhello"));
    close(fd);
    bool in_time = false; /* a busy machine may let its second pass */
    for (int i = 0; i < 10 && !in_time; i++) {
        in_time = answers_half_closed();
    }
    assert_true(in_time);
    int gone = atomic_load(&f.n_gone);
    /* A stream does not begin for it. */
    fd = dial(&f);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    shutdown(fd, SHUT_WR);
    whim_exchange *ex = take_waiting(&f);
    whim_clock_sleep_ns(100 * WHIM_NS_PER_MS);
    whim_exchange_stream_begin(ex, "text/event-stream");
    assert_false(whim_exchange_write(ex, "data", 4));
    assert_true(becomes(&f.n_gone, gone + 1));
    whim_exchange_unref(ex);
    close(fd);
    /* Inside a request it is a bad request. */
    fd = dial(&f);
    say(fd, POST "Content-Length: 5\r\n\r\nhel");
    shutdown(fd, SHUT_WR);
    assert_true(hear(&f, fd, NULL));
    assert_int_equal(status_of(f.text), 400);
    close(fd);
}

static void test_slow_reader(void **state)
{
    (void)state;
    int gone = atomic_load(&f.n_gone);
    int fd = dial(&f);
    say(fd, "GET /pour HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(becomes(&f.n_gone, gone + 1));
    close(fd);
    /* One that reads gets all that it wants, much more than may be queued. */
    fd = dial(&f);
    atomic_store(&f.poured, 0);
    say(fd, "GET /pour HTTP/1.1\r\nHost: h\r\n\r\n");
    for (int64_t n = 0; n < 40 * small.max_queued;) {
        ssize_t got = recv(fd, f.text, sizeof f.text, 0);
        assert_true(got > 0);
        n += got;
    }
    close(fd);
    assert_true(becomes(&f.n_gone, gone + 2));
    still_works();
}

/* Events far above the limit, one after the other, reach a reader that keeps up. */
static void test_large_events(void **state)
{
    (void)state;
    enum { LARGE = 8 << 20 };
    char *event = calloc(1, LARGE);
    assert_non_null(event);
    int fd = dial(&f);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    whim_exchange *ex = take_waiting(&f);
    whim_exchange_stream_begin(ex, "text/event-stream");
    assert_true(whim_exchange_write(ex, event, LARGE));
    assert_true(whim_exchange_write(ex, event, LARGE));
    assert_true(whim_exchange_write(ex, "small", 5));
    whim_exchange_stream_end(ex);
    whim_exchange_unref(ex);
    int64_t n = 0;
    for (ssize_t got; n < 2 * LARGE && (got = recv(fd, f.text, sizeof f.text, 0)) > 0;) {
        n += got;
    }
    assert_true(n >= 2 * LARGE);
    close(fd);
    free(event);
}

static void connections_become(int64_t n)
{
    for (int i = 0; i < 60000 && whim_http_get_stats(f.http).n_connections != n; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_int_equal(whim_http_get_stats(f.http).n_connections, n);
}

/* All connections but those that are kept for health have a request under way: none of them is
 * closed for another. */
static void test_many(void **state)
{
    (void)state;
    enum { BUSY = 20 };
    int fds[24], n = 0;
    whim_exchange *held[BUSY];
    connections_become(0); /* those of earlier tests */
    while (n < BUSY) {
        fds[n] = dial(&f);
        say(fds[n], "GET /wait HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        held[n] = take_waiting(&f);
        assert_non_null(held[n++]);
    }
    const char *a = ask(&f, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_int_equal(status_of(a), 503);
    assert_true(has(a, "\r\nRetry-After: 1\r\n") && has(a, "\r\nConnection: close\r\n"));
    a = ask(&f, "GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(a), 200);
    while (n < 24) {
        fds[n++] = dial(&f); /* idle ones take the places that are kept */
    }
    a = ask(&f, "GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(a), 200);
    for (int i = 0; i < BUSY; i++) {
        whim_exchange_reply(held[i], 200, "text/plain", "late", 4);
        whim_exchange_unref(held[i]);
        assert_true(hear(&f, fds[i], NULL));
        assert_true(has(f.text, "\r\n\r\nlate"));
    }
    while (n > 0) {
        close(fds[--n]);
    }
    still_works();
}

/* Whether the other side has closed it. */
static bool is_closed(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 60000) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* So many requests have begun and are not over. */
static void in_flight_becomes(int64_t n)
{
    for (int i = 0; i < 60000 && whim_http_get_stats(f.http).n_in_flight != n; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_int_equal(whim_http_get_stats(f.http).n_in_flight, n);
}

/* Many more sockets than there are connections, which do nothing: the oldest make room, those that
 * never sent a byte first. */
static void test_idle_ones_make_room(void **state)
{
    (void)state;
    enum { SILENT = 100, USED = 4 };
    int silent[SILENT], used[USED], begun[USED];
    connections_become(0); /* those of earlier tests */
    int busy = dial(&f);
    say(busy, "GET /wait HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    whim_exchange *held = take_waiting(&f);
    for (int i = 0; i < USED; i++) {
        used[i] = dial(&f);
        say(used[i], GET "\r\n");
        assert_true(hear(&f, used[i], "test=[-]\n"));
        in_flight_becomes(1 + i);
        begun[i] = dial(&f);
        say(begun[i], "GET / HTT");
        in_flight_becomes(2 + i);
    }
    for (int i = 0; i < SILENT; i++) {
        silent[i] = dial(&f);
    }
    assert_int_equal(
        status_of(ask(&f, "GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 200);
    still_works();
    assert_true(is_closed(silent[0]));
    for (int i = 0; i < USED; i++) {
        say(used[i], GET "\r\n");
        assert_true(hear(&f, used[i], "test=[-]\n"));
        say(begun[i], "P/1.1\r\nHost: h\r\n\r\n");
        assert_true(hear(&f, begun[i], "test=[-]\n"));
        close(used[i]);
        close(begun[i]);
    }
    for (int i = 0; i < SILENT; i++) {
        close(silent[i]);
    }
    connections_become(1);
    for (int i = 0; i < SILENT; i++) {
        silent[i] = dial(&f);
        say(silent[i], "G"); /* parts of heads make room, too, if there is nothing else */
    }
    in_flight_becomes(20);
    still_works();
    whim_exchange_reply(held, 200, "text/plain", "late", 4);
    whim_exchange_unref(held);
    assert_true(hear(&f, busy, NULL));
    assert_true(has(f.text, "\r\n\r\nlate"));
    close(busy);
    for (int i = 0; i < SILENT; i++) {
        close(silent[i]);
    }
    still_works();
}

/* Some connections are kept for health whatever their number is. */
static void test_kept_by_default(void **state)
{
    (void)state;
    static fixture g;
    int fds[4];
    whim_exchange *held[4];
    fixture_open(&g, &(whim_http_cfg){.limits = {.max_connections = 8}});
    for (int i = 0; i < 4; i++) {
        fds[i] = dial(&g);
        say(fds[i], "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
        held[i] = take_waiting(&g);
        assert_non_null(held[i]);
    }
    assert_int_equal(status_of(ask(&g, GET "Connection: close\r\n\r\n")), 503);
    const char *a = ask(&g, "GET /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(a), 200);
    for (int i = 0; i < 4; i++) {
        whim_exchange_unref(held[i]);
        close(fds[i]);
    }
    fixture_close(&g);
}

/* What HTTP refuses has its line in the access log, but no outsider fills the log with them. */
static void test_refusals_are_logged(void **state)
{
    (void)state;
    static const struct {
        const char *request, *line;
    } rows[] = {
        {"BAD\r\n\r\n", " method=- route=- status=400 "},
        {"HEAD / HTTP/1.1\r\nX-Request-Id: mine\r\n\r\n",
         " id=mine method=HEAD route=- status=400 "},
        {POST "X-Request-Id: mine\r\nContent-Length: 99999\r\n\r\n",
         " id=mine method=POST route=- status=413 "},
        {GET "A\xc2\x9b: b\r\n\r\n", " method=GET route=- status=400 "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static fixture g;
        int fds[2];
        char text[4096];
        whim_log log;
        assert_int_equal(pipe(fds), 0);
        whim_log_init(&log, fds[1], WHIM_LOG_INFO);
        fixture_open(&g, &(whim_http_cfg){.limits = small, .log = &log});
        int64_t begin = whim_clock_ns(), n_line = 0;
        for (int k = 0; k < 10; k++) {
            ask(&g, rows[i].request);
        }
        int64_t seconds = (whim_clock_ns() - begin) / WHIM_NS_PER_S;
        fixture_close(&g);
        whim_log_deinit(&log);
        close(fds[1]);
        ssize_t n = read(fds[0], text, sizeof text - 1);
        close(fds[0]);
        assert_true(n > 0);
        text[n] = '\0';
        assert_true(has(text, " event=request id=") && has(text, rows[i].line));
        assert_true(has(text, " client=127.0.0.1"));
        for (const char *c = text; *c != '\0'; c++) {
            n_line += *c == '\n';
        }
        assert_true(n_line <= 1 + seconds);
    }
}

/* With no descriptor left, accepting pauses and the server lives. */
static void test_no_descriptors(void **state)
{
    (void)state;
    struct rlimit old, few;
    int fd = dial(&f), late = socket(AF_INET, SOCK_STREAM, 0);
    say(fd, GET "\r\n");
    assert_true(hear(&f, fd, "test=[-]\n"));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)whim_http_port(f.http)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int failed = connect(late, (struct sockaddr *)&addr, sizeof addr);
    say(fd, GET "\r\n");
    bool open_one_works = hear(&f, fd, "test=[-]\n");
    whim_clock_sleep_ns(150 * WHIM_NS_PER_MS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(failed, 0);
    assert_true(open_one_works);
    say(late, GET "Connection: close\r\n\r\n");
    assert_true(hear(&f, late, NULL));
    assert_int_equal(status_of(f.text), 200);
    close(fd);
    close(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_large_body),
        cmocka_unit_test(test_large_bodies),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_large_events),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_idle_ones_make_room),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_bodies_of_clients_gone),
        cmocka_unit_test(test_kept_by_default),
        cmocka_unit_test(test_refusals_are_logged),
    };
    return cmocka_run_group_tests(tests, open_small, close_it);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are wrong or too large: each is refused, and the next one works. */
#include "unit/http/small_server.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_nul),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_large_body),
        cmocka_unit_test(test_large_bodies),
        cmocka_unit_test(test_bodies_of_clients_gone),
        cmocka_unit_test(test_refusals_are_logged),
    };
    return cmocka_run_group_tests(tests, open_small, close_it);
}

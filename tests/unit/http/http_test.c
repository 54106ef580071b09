/* SPDX-License-Identifier: Apache-2.0 */
/* The server over real sockets: replies, streams, keep-alive, pipelining, and what it says about
 * itself. */
#include "http/internal.h"
#include "unit/http/http_fixture.h"

#define CLOSE "Host: h\r\nConnection: close\r\n\r\n"

static fixture f;

static int open_plain(void **state)
{
    (void)state;
    fixture_open(&f, &(whim_http_cfg){.limits = {0}});
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    fixture_close(&f);
    return 0;
}

static void test_reply(void **state)
{
    (void)state;
    const char *a = ask(&f, "GET /a%20b/?x=1&y HTTP/1.1\r\nX-Test:  v w \t\r\n" CLOSE);
    assert_int_equal(status_of(a), 200);
    assert_true(has(a, "\r\nContent-Type: text/plain\r\n"));
    assert_true(has(a, "\r\nContent-Length: "));
    assert_true(has(a, "\r\nDate: ") && has(a, " GMT\r\n"));
    assert_true(has(a, "\r\nConnection: close\r\n"));
    assert_true(has(a, "\r\nx-gate: seen\r\n") && !has(a, "forged"));
    assert_true(has(a, "\nmethod=GET\npath=/a b\nraw=/a%20b/\nquery=x=1&y\nn=0\nhead=0\ntls=0\n"));
    assert_true(has(a, "\nclient=127.0.0.1\nhost=h\ntest=[v w]\n"));
}

static void test_request_id(void **state)
{
    (void)state;
    const char *a = ask(&f, "GET / HTTP/1.1\r\nX-Request-ID: Aa0._-z\r\n" CLOSE);
    assert_true(has(a, "\r\nx-request-id: Aa0._-z\r\nrequest-id: Aa0._-z\r\n"));
    a = ask(&f, "GET / HTTP/1.1\r\nX-Request-ID: no blanks\r\n" CLOSE);
    assert_true(has(a, "\r\nx-request-id: req_") && !has(a, "no blanks"));
    char first[64], request[400];
    snprintf(first, sizeof first, "%.40s", strstr(a, "req_"));
    a = ask(&f, "GET / HTTP/1.1\r\n" CLOSE);
    assert_true(has(a, "\r\nrequest-id: req_") && !has(a, first));
    char id[130];
    memset(id, 'i', sizeof id);
    for (int n = 128; n <= 129; n++) {
        snprintf(request, sizeof request, "GET / HTTP/1.1\r\nX-Request-Id: %.*s\r\n" CLOSE, n, id);
        assert_int_equal(has(ask(&f, request), "\r\nrequest-id: iiii"), n == 128);
    }
    a = ask(&f, "BROKEN\r\n\r\n");
    assert_true(status_of(a) == 400 && has(a, "\r\nrequest-id: req_"));
}

static void test_keep_alive(void **state)
{
    (void)state;
    int fd = dial(&f);
    for (int i = 0; i < 50; i++) {
        say(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
        assert_true(hear(&f, fd, "hello"));
        assert_int_equal(status_of(f.text), 200);
        assert_false(has(f.text, "Connection:"));
    }
    say(fd, "\r\nGET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    assert_true(hear(&f, fd, "test=[-]\n"));
    assert_true(has(f.text, "\r\nConnection: keep-alive\r\n"));
    say(fd, "GET / HTTP/1.0\r\n\r\n");
    assert_true(hear(&f, fd, NULL));
    assert_true(has(f.text, "\r\nConnection: close\r\n"));
    close(fd);
}

static void test_pipelining(void **state)
{
    (void)state;
    enum { N = 200 };
    whim_str all = {0};
    for (int i = 0; i < N; i++) {
        whim_str_printf(&all, "POST /%s HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n%04d",
                        i % 3 == 2 ? "stream" : "echo", i);
    }
    whim_str_append(&all, "GET / HTTP/1.1\r\n" CLOSE);
    ask_n(&f, all.text, all.len);
    const char *at = f.text;
    for (int i = 0; i < N; i++) {
        char want[16];
        snprintf(want, sizeof want, "%04d", i);
        at = strstr(at, i % 3 == 2 ? "0\r\n\r\n" : want);
        assert_non_null(at);
    }
    assert_non_null(strstr(at, "method=GET"));
    whim_str_deinit(&all);
}

static void test_methods(void **state)
{
    (void)state;
    const char *a = ask(&f, "HEAD /x HTTP/1.1\r\n" CLOSE);
    assert_int_equal(status_of(a), 200);
    assert_true(has(a, "\r\nContent-Length: ") && !has(a, "Content-Length: 0\r\n"));
    assert_string_equal(strstr(a, "\r\n\r\n"), "\r\n\r\n");
    a = ask(&f, "HEAD /stream HTTP/1.1\r\n" CLOSE);
    assert_string_equal(strstr(a, "\r\n\r\n"), "\r\n\r\n");
    assert_true(has(ask(&f, "OPTIONS * HTTP/1.1\r\n" CLOSE), "\nmethod=OPTIONS\npath=*\n"));
    assert_true(has(ask(&f, "BREW /pot HTTP/1.1\r\n" CLOSE), "\nmethod=BREW\npath=/pot\n"));
    a = ask(&f, "GET http://other:80/p?q HTTP/1.1\r\n" CLOSE);
    assert_true(has(a, "\npath=/p\n") && has(a, "\nhost=other:80\n"));
}

static void test_stream(void **state)
{
    (void)state;
    const char *a = ask(&f, "GET /stream HTTP/1.1\r\n" CLOSE);
    assert_true(has(a, "\r\nTransfer-Encoding: chunked\r\n"));
    assert_true(has(a, "\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"));
    assert_string_equal(strstr(a, "\r\n\r\n"),
                        "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n");
    a = ask(&f, "GET /stream HTTP/1.0\r\n\r\n");
    assert_false(has(a, "Transfer-Encoding"));
    assert_string_equal(strstr(a, "\r\n\r\n"), "\r\n\r\nonetwothree");
    a = ask(&f, "GET /abort HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_string_equal(strstr(a, "\r\n\r\n"), "\r\n\r\n4\r\npart\r\n");
}

static void test_gate(void **state)
{
    (void)state;
    int fd = dial(&f);
    int handled = atomic_load(&f.n_handled);
    say(fd, "GET /denied HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(hear(&f, fd, "{}"));
    assert_int_equal(status_of(f.text), 401);
    assert_false(has(f.text, "Connection: close"));
    /* With a body that is not read, the connection ends; no 100 Continue is given. */
    say(fd,
        "POST /denied HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    assert_true(hear(&f, fd, NULL));
    assert_int_equal(status_of(f.text), 401);
    assert_true(has(f.text, "\r\nConnection: close\r\n"));
    close(fd);
    assert_int_equal(atomic_load(&f.n_handled), handled);
}

static void test_continue(void **state)
{
    (void)state;
    int fd = dial(&f);
    say(fd, "POST /echo HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n" CLOSE);
    assert_true(hear(&f, fd, "HTTP/1.1 100 Continue\r\n\r\n"));
    say(fd, "abc");
    assert_true(hear(&f, fd, NULL));
    assert_true(status_of(f.text) == 200 && has(f.text, "\r\n\r\nabc"));
    close(fd);
}

/* The result is the same wherever the bytes are cut. */
static void test_split_reads(void **state)
{
    (void)state;
    static const char request[] = "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
                                  "3;e=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n";
    int64_t n = sizeof request - 1;
    for (int64_t cut = 1; cut < n; cut++) {
        int fd = dial(&f);
        say_n(fd, request, cut);
        if (cut % 8 == 0) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS); /* let it arrive apart */
        }
        say_n(fd, request + cut, n - cut);
        assert_true(hear(&f, fd, NULL));
        assert_string_equal(strstr(f.text, "\r\n\r\n"), "\r\n\r\nabc0123456789");
        close(fd);
    }
}

static void test_stats(void **state)
{
    (void)state;
    whim_http_stats before = whim_http_get_stats(f.http);
    int fd = dial(&f);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    whim_exchange *ex = take_waiting(&f);
    assert_non_null(ex);
    whim_http_stats now = whim_http_get_stats(f.http);
    assert_int_equal(now.n_in_flight, 1);
    assert_int_equal(now.n_accepted, before.n_accepted + 1);
    assert_int_equal(now.n_requests, before.n_requests + 1);
    assert_true(now.n_connections >= 1);
    whim_exchange_reply(ex, 503, "text/plain", "later", 5);
    assert_int_equal(whim_exchange_status(ex), 503);
    assert_true(whim_exchange_start_ns(ex) > 0);
    assert_true(hear(&f, fd, "later"));
    whim_exchange_unref(ex);
    close(fd);
}

/* Until it is closed the server answers, so that its state can be asked for; each answer ends its
 * connection. */
static void test_drain(void **state)
{
    (void)state;
    int fd = dial(&f), streaming = dial(&f);
    say(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(hear(&f, fd, "test=[-]\n"));
    say(streaming, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    whim_exchange *ex = take_waiting(&f);
    whim_exchange_stream_begin(ex, "text/plain");
    assert_true(hear(&f, streaming, "\r\n\r\n"));
    for (int i = 0; i < 60000 && whim_http_get_stats(f.http).n_in_flight > 1; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS); /* a connection that is not idle yet would be closed */
    }
    whim_http_drain(f.http);
    say(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(hear(&f, fd, NULL));
    assert_true(has(f.text, "\r\nConnection: close\r\n"));
    close(fd);
    /* A stream that began before ends its connection too. */
    whim_exchange_stream_end(ex);
    whim_exchange_unref(ex);
    assert_true(hear(&f, streaming, NULL));
    assert_string_equal(f.text, "0\r\n\r\n");
    close(streaming);
    whim_clock_sleep_ns(50 * WHIM_NS_PER_MS); /* time to close the port, if it did */
    const char *a = ask(&f, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(status_of(a) == 200 && has(a, "\r\nConnection: close\r\n"));
}

/* Large bodies, which take long to work on, leave handler threads to the others. */
static void test_large_bodies_leave_handlers(void **state)
{
    (void)state;
    static fixture g;
    enum { N = 300 << 10, MANY = 5 };
    int fds[MANY];
    char *body = calloc(1, N);
    fixture_open(&g, &(whim_http_cfg){.limits = {0}});
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial(&g);
        say(fds[i], "POST /hold HTTP/1.1\r\nContent-Length: 307200\r\n" CLOSE);
        say_n(fds[i], body, N);
    }
    free(body);
    assert_true(becomes(&g.n_handled, 2));
    whim_clock_sleep_ns(100 * WHIM_NS_PER_MS);
    assert_int_equal(atomic_load(&g.n_handled), 2);
    assert_int_equal(status_of(ask(&g, "GET / HTTP/1.1\r\n" CLOSE)), 200);
    atomic_store(&g.released, true);
    for (int i = 0; i < MANY; i++) {
        assert_true(hear(&g, fds[i], NULL));
        assert_true(has(g.text, "\r\n\r\nheld"));
        close(fds[i]);
    }
    fixture_close(&g);
}

static bool let_in_becomes(const fixture *x, int64_t want)
{
    for (int i = 0; i < 60000; i++) {
        if (whim_http_get_stats(x->http).n_let_in == want) {
            return true;
        }
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    return false;
}

/* So do requests that their handler has put off. Each is handled once more, and counted until that
 * is over. */
static void test_put_off_leaves_handlers(void **state)
{
    (void)state;
    static fixture g;
    enum { MANY = 6 };
    int fds[MANY];
    fixture_open(&g, &(whim_http_cfg){.limits = {0}});
    for (int i = 0; i < MANY; i++) {
        fds[i] = dial(&g);
        say(fds[i], "GET /hold?slow HTTP/1.1\r\n" CLOSE);
    }
    assert_true(becomes(&g.n_handled, MANY));
    assert_int_equal(status_of(ask(&g, "GET / HTTP/1.1\r\n" CLOSE)), 200);
    assert_true(let_in_becomes(&g, MANY));
    close(fds[MANY - 1]); /* who leaves while it waits is not handled */
    atomic_store(&g.released, true);
    for (int i = 0; i < MANY - 1; i++) {
        assert_true(hear(&g, fds[i], NULL));
        assert_true(has(g.text, "\r\n\r\nheld"));
        close(fds[i]);
    }
    assert_true(let_in_becomes(&g, 0));
    fixture_close(&g);
}

/* A request counts as let in from its head on, and no more when its client leaves before the body's
 * end. */
static atomic_int n_ended;
static char ended[8]; /* the clients of requests, in the order in which they were answered */

static int gate_by_header(void *ctx, whim_exchange *ex)
{
    (void)ctx;
    whim_exchange_get_notes(ex)->client = (uint64_t)whim_exchange_header(ex, "x-test")[0];
    return 0;
}

static void note_end(void *ctx, whim_exchange *ex, int status)
{
    (void)ctx, (void)status;
    ended[atomic_load(&n_ended)] = whim_exchange_header(ex, "x-test")[0];
    atomic_fetch_add(&n_ended, 1);
}

/* One place for slow requests: whoever has many waiting does not go before others who have one. */
static void test_slow_ones_by_client(void **state)
{
    (void)state;
    static fixture g;
    static const char order[] = "AAABACA";
    enum { N = sizeof order - 1 };
    int fds[N];
    fixture_open(&g,
                 &(whim_http_cfg){.n_handler = 3, .gate = gate_by_header, .on_status = note_end});
    for (int i = 0; i < N; i++) {
        char text[128];
        snprintf(text, sizeof text,
                 "GET /hold?slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\nx-test: %c\r\n\r\n",
                 order[i]);
        fds[i] = dial(&g);
        say(fds[i], text);
        assert_true(becomes(&g.n_handled, i + 1));
    }
    atomic_store(&g.released, true);
    for (int i = 0; i < N; i++) {
        assert_true(hear(&g, fds[i], NULL));
        close(fds[i]);
    }
    assert_true(becomes(&n_ended, N));
    assert_string_equal(ended, "ABCAAAA");
    fixture_close(&g);
}

static void requests_become(fixture *g, int64_t n)
{
    for (int i = 0; i < 60000 && whim_http_get_stats(g->http).n_requests != n; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_int_equal(whim_http_get_stats(g->http).n_requests, n);
}

/* So it is with quick ones, which are many where a client has all connections; and a slow one does
 * not wait for all of them. */
static void test_quick_ones_by_client(void **state)
{
    (void)state;
    static fixture g;
    static const char order[] = "AAABADA";
    enum { N = sizeof order - 1 };
    int fds[N];
    atomic_store(&n_ended, 0);
    fixture_open(&g,
                 &(whim_http_cfg){.n_handler = 1, .gate = gate_by_header, .on_status = note_end});
    for (int i = 0; i < N; i++) {
        static char text[(300 << 10) + 128];
        int64_t n_body = order[i] == 'D' ? 300 << 10 : 0;
        int n = snprintf(text, sizeof text,
                         "POST /hold HTTP/1.1\r\nHost: h\r\nConnection: close\r\nx-test: %c\r\n"
                         "Content-Length: %d\r\n\r\n",
                         order[i], (int)n_body);
        fds[i] = dial(&g);
        memset(text + n, ' ', (size_t)n_body);
        say_n(fds[i], text, n + n_body);
        requests_become(&g, i + 1);
        while (atomic_load(&g.http->bodies->n_bytes) < n_body) { /* all of it is there */
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
        }
    }
    atomic_store(&g.released, true);
    for (int i = 0; i < N; i++) {
        assert_true(hear(&g, fds[i], NULL));
        close(fds[i]);
    }
    assert_true(becomes(&n_ended, N));
    assert_string_equal(ended, "ADBAAAA");
    fixture_close(&g);
}

static int say_quick(fixture *g, const char *path, char client)
{
    char text[128];
    int fd = dial(g);
    snprintf(text, sizeof text,
             "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nx-test: %c\r\n\r\n", path, client);
    say(fd, text);
    return fd;
}

/* Quick ones that take long after all hold all handlers but one. Others are answered by that, and
 * so are probes of the same client. */
static void test_last_handler_is_for_others(void **state)
{
    (void)state;
    static fixture g;
    enum { N = 6 };
    int fds[N];
    fixture_open(&g, &(whim_http_cfg){.n_handler = 4, .gate = gate_by_header});
    for (int i = 0; i < N; i++) {
        fds[i] = say_quick(&g, "/hold", 'A');
        requests_become(&g, i + 1);
    }
    assert_true(becomes(&g.n_handled, 3));
    for (int turn = 0; turn < 3; turn++) {
        int fd = say_quick(&g, turn < 2 ? "/info" : "/livez", turn < 2 ? 'B' : 'A');
        assert_true(hear(&g, fd, NULL));
        assert_int_equal(status_of(g.text), 200);
        close(fd);
    }
    assert_int_equal(atomic_load(&g.n_handled), 6);
    atomic_store(&g.released, true);
    for (int i = 0; i < N; i++) {
        assert_true(hear(&g, fds[i], NULL));
        assert_int_equal(status_of(g.text), 200);
        close(fds[i]);
    }
    fixture_close(&g);
}

static int say_slow(fixture *g, const char *path, char client)
{
    char text[128];
    int fd = dial(g);
    snprintf(text, sizeof text,
             "GET %s?slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\nx-test: %c\r\n\r\n", path,
             client);
    say(fd, text);
    return fd;
}

/* One place for slow requests, and one that works long in it: other clients' are handled meanwhile,
 * its own wait. */
static void test_long_work_gives_turns(void **state)
{
    (void)state;
    static fixture g;
    fixture_open(&g,
                 &(whim_http_cfg){.n_handler = 3, .gate = gate_by_header, .on_status = note_end});
    memset(ended, 0, sizeof ended);
    atomic_store(&n_ended, 0);
    int fds[4] = {say_slow(&g, "/long", 'A')};
    assert_true(becomes(&g.n_handled, 1));
    fds[1] = say_slow(&g, "/info", 'A');
    assert_true(becomes(&g.n_handled, 2));
    for (int i = 2; i < 4; i++) {
        fds[i] = say_slow(&g, "/info", (char)('B' + i - 2));
        assert_true(hear(&g, fds[i], NULL));
        assert_int_equal(status_of(g.text), 200);
    }
    atomic_store(&g.released, true);
    for (int i = 0; i < 4; i++) {
        assert_true(i >= 2 || hear(&g, fds[i], NULL));
        close(fds[i]);
    }
    assert_true(becomes(&n_ended, 4));
    assert_string_equal(ended, "BCAA");
    fixture_close(&g);
}

/* Each other client passes long work once, however many requests it has, and turns go on. */
static void test_long_work_is_passed_once(void **state)
{
    (void)state;
    static fixture g;
    enum { N = 6 };
    static const char order[] = "ABBBCD";
    int fds[N];
    fixture_open(&g,
                 &(whim_http_cfg){.n_handler = 3, .gate = gate_by_header, .on_status = note_end});
    memset(ended, 0, sizeof ended);
    atomic_store(&n_ended, 0);
    for (int i = 0; i < N; i++) {
        fds[i] = say_slow(&g, i == 0 ? "/long" : "/info", order[i]);
        assert_true(becomes(&g.n_handled, i + 1));
        if (order[i] == 'C' || order[i] == 'D') {
            assert_true(hear(&g, fds[i], NULL));
        }
    }
    atomic_store(&g.released, true);
    for (int i = 0; i < N; i++) {
        assert_true(i >= 4 || hear(&g, fds[i], NULL));
        close(fds[i]);
    }
    assert_true(becomes(&n_ended, N));
    assert_string_equal(ended, "BCDABB");
    fixture_close(&g);
}

static void test_let_in(void **state)
{
    (void)state;
    int fd = dial(&f);
    say(fd, "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n" CLOSE);
    assert_true(hear(&f, fd, "100 Continue"));
    assert_true(let_in_becomes(&f, 1));
    close(fd);
    assert_true(let_in_becomes(&f, 0));
    ask(&f, "GET /denied HTTP/1.1\r\n" CLOSE);
    ask(&f, "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "abc");
    assert_true(let_in_becomes(&f, 0));
}

/* Memory is given back once after a large body, not after small ones. */
static void test_tidy(void **state)
{
    (void)state;
    enum { N = 3 << 20 };
    char *body = calloc(1, N);
    assert_false(whim_http_tidy(f.http));
    int fd = dial(&f);
    say(fd, "POST /info HTTP/1.1\r\nContent-Length: 3145728\r\n" CLOSE);
    say_n(fd, body, N);
    free(body);
    assert_true(hear(&f, fd, NULL));
    close(fd);
    ask(&f, "GET /info HTTP/1.1\r\n" CLOSE); /* after it the I/O thread is done with the first */
    assert_true(let_in_becomes(&f, 0));
    assert_true(whim_http_tidy(f.http));
    assert_false(whim_http_tidy(f.http));
    ask(&f, "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "abc");
    assert_true(let_in_becomes(&f, 0));
    assert_false(whim_http_tidy(f.http));
}

/* A single handler takes large bodies too. */
static void test_one_handler(void **state)
{
    (void)state;
    static fixture g;
    enum { N = 300 << 10 };
    char *body = calloc(1, N);
    fixture_open(&g, &(whim_http_cfg){.n_handler = 1});
    for (int i = 0; i < 3; i++) {
        int fd = dial(&g);
        say(fd, "POST /info HTTP/1.1\r\nContent-Length: 307200\r\n" CLOSE);
        say_n(fd, body, N);
        assert_true(hear(&g, fd, NULL));
        assert_int_equal(status_of(g.text), 200);
        close(fd);
    }
    free(body);
    fixture_close(&g);
}

/* Much more than a socket takes at once, byte for byte. */
static void test_large_answer(void **state)
{
    (void)state;
    enum { N = 24 << 20 };
    char *body = malloc(N), *got = malloc(N + 4096);
    assert_true(body != NULL && got != NULL);
    for (int64_t i = 0; i < N; i++) {
        body[i] = (char)('a' + (i ^ (i >> 8) ^ (i >> 16)) % 26);
    }
    int fd = dial(&f);
    say(fd,
        "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 25165824\r\n\r\n");
    say_n(fd, body, N);
    int64_t n = 0;
    for (ssize_t more = 1; more > 0 && n < N + 4096; n += more) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 60000), 1);
        more = recv(fd, got + n, (size_t)(N + 4096 - n < 3000000 ? N + 4096 - n : 3000000), 0);
        assert_true(more >= 0);
    }
    assert_true(n > N);
    assert_memory_equal(got + n - N, body, N);
    close(fd);
    free(body);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reply),
        cmocka_unit_test(test_request_id),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_gate),
        cmocka_unit_test(test_continue),
        cmocka_unit_test(test_split_reads),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_put_off_leaves_handlers),
        cmocka_unit_test(test_slow_ones_by_client),
        cmocka_unit_test(test_quick_ones_by_client),
        cmocka_unit_test(test_last_handler_is_for_others),
        cmocka_unit_test(test_long_work_gives_turns),
        cmocka_unit_test(test_long_work_is_passed_once),
        cmocka_unit_test(test_let_in),
        cmocka_unit_test(test_tidy),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_large_bodies_leave_handlers),
        cmocka_unit_test(test_one_handler),
        cmocka_unit_test(test_large_answer),
    };
    return cmocka_run_group_tests(tests, open_plain, close_it);
}

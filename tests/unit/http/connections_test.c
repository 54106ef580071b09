/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are slow, lie idle, end early or are too many: others are served all the same. */
#include "unit/http/small_server.h"

#include <sys/resource.h>

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
        cmocka_unit_test(test_deadlines),           cmocka_unit_test(test_gone),
        cmocka_unit_test(test_half_close),          cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_large_events),        cmocka_unit_test(test_many),
        cmocka_unit_test(test_idle_ones_make_room), cmocka_unit_test(test_kept_by_default),
        cmocka_unit_test(test_no_descriptors),
    };
    return cmocka_run_group_tests(tests, open_small, close_it);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One address with all connections, each of which has a request under way: others are answered all
 * the same. */
#include "unit/http/http_fixture.h"

enum { ALL = 8, FEW = ALL / 2 }; /* the other half is kept for health */
enum { UNREAD = 8 << 20 };       /* bytes of a reply, more than sockets take */

#define GET "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
#define HALF "POST /info HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf"
#define PROBE "GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
#define HALF_PROBE "POST /livez HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf"
#define WAIT "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"

static fixture f;

static int open_it(void **state)
{
    (void)state;
    static whim_network proxy;
    assert_int_equal(whim_network_parse("127.0.0.9", &proxy, NULL), WHIM_ERR_OK);
    fixture_open(&f, &(whim_http_cfg){.proxies = &proxy,
                                      .n_proxy = 1,
                                      .limits = {.max_connections = ALL,
                                                 .max_headers = 4 * UNREAD,
                                                 .header_ns = 1000 * WHIM_NS_PER_S,
                                                 .body_ns = 1000 * WHIM_NS_PER_S}});
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    fixture_close(&f);
    return 0;
}

static int dial_as(const char *source)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = from;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, source, &from.sin_addr);
    to.sin_port = htons((uint16_t)whim_http_port(f.http));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static int answer_as(const char *source, const char *request)
{
    int fd = dial_as(source);
    say(fd, request);
    assert_true(hear(&f, fd, NULL));
    close(fd);
    return status_of(f.text);
}

static int status_as(const char *source)
{
    return answer_as(source, GET);
}

static void requests_become(int64_t n)
{
    for (int i = 0; i < 60000 && whim_http_get_stats(f.http).n_requests != n; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_int_equal(whim_http_get_stats(f.http).n_requests, n);
}

static bool is_over(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static int n_over(const int *fds, int n)
{
    int over = 0;
    for (int i = 0; i < n; i++) {
        over += is_over(fds[i]);
    }
    return over;
}

static void close_all(const int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        close(fds[i]);
    }
    for (int i = 0; i < 60000 && whim_http_get_stats(f.http).n_connections > 0; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
}

/* Bodies that never come to their end: one of them goes, the first, and only for another address. */
static void bodies_make_room(void **state)
{
    (void)state;
    int fds[FEW];
    int64_t n = whim_http_get_stats(f.http).n_requests;
    for (int i = 0; i < FEW; i++) {
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], HALF);
        requests_become(++n);
    }
    assert_int_equal(status_as("127.0.0.2"), 503);
    assert_int_equal(n_over(fds, FEW), 0);
    assert_int_equal(status_as("127.0.0.3"), 200);
    assert_int_equal(n_over(fds, FEW), 1);
    assert_true(is_over(fds[0]));
    say(fds[1], "a end");
    assert_true(hear(&f, fds[1], "test=[-]\n"));
    close_all(fds, FEW);
}

/* So do requests that wait for their reply, the last first, but none whose reply has begun. */
static void waiting_ones_make_room(void **state)
{
    (void)state;
    int fds[FEW];
    whim_exchange *held[FEW];
    for (int i = 0; i < FEW; i++) {
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], WAIT);
        held[i] = take_waiting(&f);
    }
    whim_exchange_stream_begin(held[FEW - 1], "text/plain");
    assert_int_equal(status_as("127.0.0.3"), 200);
    assert_int_equal(n_over(fds, FEW), 1);
    assert_true(is_over(fds[FEW - 2]));
    assert_int_equal(whim_exchange_write(held[FEW - 1], "more", 4), true);
    whim_exchange_stream_end(held[FEW - 1]);
    assert_true(hear(&f, fds[FEW - 1], "more"));
    for (int i = 0; i < FEW; i++) {
        whim_exchange_unref(held[i]);
    }
    close_all(fds, FEW);
}

/* Of two that have half of them each, nobody loses one for the other. */
static void equals_stay(void **state)
{
    (void)state;
    int fds[FEW];
    int64_t n = whim_http_get_stats(f.http).n_requests;
    for (int i = 0; i < FEW; i++) {
        fds[i] = dial_as(i % 2 == 0 ? "127.0.0.2" : "127.0.0.3");
        say(fds[i], HALF);
        requests_become(++n);
    }
    assert_int_equal(status_as("127.0.0.2"), 503);
    assert_int_equal(status_as("127.0.0.3"), 503);
    assert_int_equal(n_over(fds, FEW), 0);
    assert_int_equal(status_as("127.0.0.4"), 200);
    assert_int_equal(n_over(fds, FEW), 1);
    close_all(fds, FEW);
}

/* One that has just come, and has not been read yet, does not go for the next of a client that has
 * all the others. */
static void new_ones_stay(void **state)
{
    (void)state;
    enum { MANY = 40 };
    int fds[FEW + MANY];
    int64_t n = whim_http_get_stats(f.http).n_requests;
    for (int i = 0; i < FEW; i++) {
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], HALF);
        requests_become(++n);
    }
    int fd = dial_as("127.0.0.3");
    int64_t accepted = whim_http_get_stats(f.http).n_accepted;
    for (int i = FEW; i < FEW + MANY; i++) {
        fds[i] = dial_as("127.0.0.2");
    }
    for (int i = 0; i < 60000 && whim_http_get_stats(f.http).n_accepted < accepted + MANY; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    say(fd, GET);
    assert_true(hear(&f, fd, NULL));
    assert_int_equal(status_of(f.text), 200);
    close(fd);
    close_all(fds, FEW + MANY);
}

/* Nor for the first of a third client, while there is a place left. */
static void new_ones_stay_beside_others(void **state)
{
    (void)state;
    int fds[FEW + 2];
    int64_t n = whim_http_get_stats(f.http).n_requests;
    for (int i = 0; i < FEW; i++) {
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], HALF);
        requests_become(++n);
    }
    fds[FEW] = dial_as("127.0.0.3");
    fds[FEW + 1] = dial_as("127.0.0.4");
    for (int i = FEW; i < FEW + 2; i++) {
        say(fds[i], GET);
        assert_true(hear(&f, fds[i], NULL));
        assert_int_equal(status_of(f.text), 200);
    }
    close_all(fds, FEW + 2);
}

static void say_large(int fd, const char *head, const char *behind)
{
    char *bytes = malloc(UNREAD);
    assert_non_null(bytes);
    memset(bytes, 'a', UNREAD);
    say(fd, head);
    say_n(fd, bytes, UNREAD);
    say(fd, behind);
    free(bytes);
}

/* For a second its reply may be on its way. */
static void nobody_reads_for_a_second(void)
{
    whim_clock_sleep_ns(WHIM_NS_PER_S + 200 * WHIM_NS_PER_MS);
}

/* Replies that their client does not read: he cannot keep others out by reading slowly. */
static void unread_ones_make_room(void **state)
{
    (void)state;
    static char head[128];
    int fds[FEW];
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n",
             UNREAD);
    for (int i = 0; i < FEW; i++) {
        int handled = atomic_load(&f.n_handled);
        fds[i] = dial_as("127.0.0.2");
        say_large(fds[i], head, "");
        assert_true(becomes(&f.n_handled, handled + 1));
    }
    nobody_reads_for_a_second();
    int64_t open = whim_http_get_stats(f.http).n_connections;
    assert_int_equal(open, FEW);
    assert_int_equal(status_as("127.0.0.2"), 503);
    assert_int_equal(status_as("127.0.0.3"), 200);
    close_all(fds, FEW);
}

/* Where none of who has most can go, one of the next goes who still has more than who comes. */
static void who_has_more_makes_room(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        const char *const streams = turn == 0 ? "127.0.0.2" : "127.0.0.3";
        const char *const sends = turn == 0 ? "127.0.0.3" : "127.0.0.2";
        int fds[FEW];
        whim_exchange *held[FEW / 2];
        for (int i = 0; i < FEW / 2; i++) {
            fds[i] = dial_as(streams);
            say(fds[i], WAIT);
            held[i] = take_waiting(&f);
            whim_exchange_stream_begin(held[i], "text/plain");
        }
        int64_t n = whim_http_get_stats(f.http).n_requests;
        for (int i = FEW / 2; i < FEW; i++) {
            fds[i] = dial_as(sends);
            say(fds[i], HALF);
            requests_become(++n);
        }
        assert_int_equal(status_as("127.0.0.4"), 200);
        assert_int_equal(n_over(fds, FEW / 2), 0);
        assert_true(is_over(fds[FEW / 2]));
        for (int i = 0; i < FEW / 2; i++) {
            whim_exchange_stream_end(held[i]);
            whim_exchange_unref(held[i]);
        }
        close_all(fds, FEW);
    }
}

/* Of two that have as many, nobody loses an idle one for the next of the other, also where that did
 * not just come. */
static void idle_ones_of_equals_stay(void **state)
{
    (void)state;
    int fds[FEW + 1];
    for (int i = 0; i < FEW / 2; i++) {
        fds[i] = dial_as("127.0.0.3");
        say(fds[i], "G"); /* a part of a head */
    }
    for (int i = 0; i < FEW; i++) {
        assert_int_equal(status_as("127.0.0.4"), 200);
    }
    int64_t n = whim_http_get_stats(f.http).n_requests;
    for (int i = FEW / 2; i <= FEW; i++) {
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], i < FEW ? HALF : GET);
        requests_become(++n);
    }
    assert_true(hear(&f, fds[FEW], NULL));
    assert_int_equal(status_of(f.text), 503);
    assert_int_equal(n_over(fds, FEW), 0);
    close_all(fds, FEW + 1);
}

/* Connections kept for probes are not held by probes that never end: bodies of which a part comes,
 * and answers that are not read. */
static void slow_probes_make_room(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        int fds[ALL];
        int64_t n = whim_http_get_stats(f.http).n_requests;
        for (int i = 0; i < ALL; i++) {
            fds[i] = dial_as("127.0.0.2");
            if (i < FEW || turn == 0) {
                say(fds[i], i < FEW ? HALF : HALF_PROBE);
            } else {
                say_large(fds[i], "GET /metrics HTTP/1.1\r\nHost: h\r\nX-Test: ", "\r\n\r\n");
            }
            requests_become(++n);
        }
        nobody_reads_for_a_second();
        assert_int_equal(answer_as("127.0.0.3", PROBE), 200);
        for (int i = 0; i < ALL; i++) {
            assert_int_equal(answer_as("127.0.0.2", PROBE), 200);
        }
        assert_int_equal(n_over(fds, FEW), 0);
        close_all(fds, ALL);
    }
}

#define PROXY "127.0.0.9"
#define FOR(address) "X-Forwarded-For: " address "\r\n"
#define HALF_FOR(address) \
    "POST /info HTTP/1.1\r\nHost: h\r\n" FOR(address) "Content-Length: 9\r\n\r\nhalf"
#define GET_FOR(address) \
    "GET /info HTTP/1.1\r\nHost: h\r\n" FOR(address) "Connection: close\r\n\r\n"

/* All connections come from one proxy, and those for one client are all taken: for it there is no
 * more, but for others. */
static void clients_of_a_proxy_share(void **state)
{
    (void)state;
    int fds[FEW];
    int64_t n = whim_http_get_stats(f.http).n_requests;
    for (int i = 0; i < FEW; i++) {
        fds[i] = dial_as(PROXY);
        say(fds[i], HALF_FOR("192.0.2.1"));
        requests_become(++n);
    }
    assert_int_equal(answer_as(PROXY, GET_FOR("192.0.2.1")), 503);
    assert_int_equal(n_over(fds, FEW), 0);
    assert_int_equal(answer_as(PROXY, GET_FOR("192.0.2.2")), 200);
    assert_int_equal(n_over(fds, FEW), 1);
    close_all(fds, FEW);
}

/* A connection is that of who asks on it now, whoever asked before. */
static void a_proxy_uses_connections_again(void **state)
{
    (void)state;
    int fds[FEW];
    for (int i = 0; i < FEW; i++) {
        fds[i] = dial_as(PROXY);
        say(fds[i], "GET /info HTTP/1.1\r\nHost: h\r\n" FOR("192.0.2.2") "\r\n");
        assert_true(hear(&f, fds[i], "test=[-]\n"));
    }
    int64_t n = whim_http_get_stats(f.http).n_requests;
    for (int i = 0; i < FEW; i++) {
        say(fds[i], i < FEW - 1 ? HALF_FOR("192.0.2.1") : HALF_FOR("192.0.2.2"));
        requests_become(++n);
    }
    assert_int_equal(answer_as(PROXY, GET_FOR("192.0.2.2")), 200);
    assert_int_equal(n_over(fds, FEW - 1), 1);
    assert_false(is_over(fds[FEW - 1]));
    close_all(fds, FEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_make_room),
        cmocka_unit_test(waiting_ones_make_room),
        cmocka_unit_test(equals_stay),
        cmocka_unit_test(new_ones_stay),
        cmocka_unit_test(new_ones_stay_beside_others),
        cmocka_unit_test(unread_ones_make_room),
        cmocka_unit_test(who_has_more_makes_room),
        cmocka_unit_test(idle_ones_of_equals_stay),
        cmocka_unit_test(slow_probes_make_room),
        cmocka_unit_test(clients_of_a_proxy_share),
        cmocka_unit_test(a_proxy_uses_connections_again),
    };
    return cmocka_run_group_tests(tests, open_it, close_it);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One address with all connections, each of which has a request under way: others are answered all
 * the same. */
#include "unit/http/http_fixture.h"

enum { ALL = 8, FEW = ALL / 2 }; /* the other half is kept for health */

#define GET "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
#define HALF "POST /info HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf"
#define WAIT "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"

static fixture f;

static int open_it(void **state)
{
    (void)state;
    fixture_open(&f, &(whim_http_cfg){.limits = {.max_connections = ALL}});
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

static int status_as(const char *source)
{
    int fd = dial_as(source);
    say(fd, GET);
    assert_true(hear(&f, fd, NULL));
    close(fd);
    return status_of(f.text);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_make_room),
        cmocka_unit_test(waiting_ones_make_room),
        cmocka_unit_test(equals_stay),
        cmocka_unit_test(new_ones_stay),
        cmocka_unit_test(new_ones_stay_beside_others),
    };
    return cmocka_run_group_tests(tests, open_it, close_it);
}

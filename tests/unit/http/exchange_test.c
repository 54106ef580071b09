/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges under threads: streams from many of them, clients that hang up, a server that closes,
 * and what a thousand idle connections cost. */
#include "base/os/mem.h"
#include "base/thread.h"
#include "unit/http/http_fixture.h"

#include <sys/resource.h>
#include <time.h>

static fixture f;

static int open_plain(void **state)
{
    (void)state;
    fixture_open(&f, &(whim_http_cfg){.limits = {.max_queued = 64 << 20}, .n_handler = 4});
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    fixture_close(&f);
    return 0;
}

enum { WRITERS = 6, EVENTS = 3000 };

typedef struct writer {
    whim_thread thread;
    whim_exchange *ex;
    int fd;
} writer;

static void write_events(void *ctx)
{
    writer *w = ctx;
    whim_exchange_stream_begin(w->ex, "text/event-stream");
    for (int i = 0; i < EVENTS; i++) {
        char event[32];
        int n = snprintf(event, sizeof event, "data: %d\n\n", i);
        assert_true(whim_exchange_write(w->ex, event, n));
    }
    whim_exchange_stream_end(w->ex);
    whim_exchange_unref(w->ex);
}

/* Each stream arrives whole and in order, read fast or slowly. */
static void test_writers(void **state)
{
    (void)state;
    static writer writers[WRITERS];
    whim_diag diag = {{0}};
    for (int i = 0; i < WRITERS; i++) {
        writers[i].fd = dial(&f);
        int little = 4096;
        if (i % 2 == 1) {
            setsockopt(writers[i].fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
        }
        say(writers[i].fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
        writers[i].ex = take_waiting(&f);
        assert_non_null(writers[i].ex);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(
            whim_thread_create(&writers[i].thread, "writer", write_events, &writers[i], &diag), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_true(hear(&f, writers[i].fd, "\r\n0\r\n\r\n"));
        const char *at = strstr(f.text, "\r\n\r\n") + 4;
        for (int k = 0; k < EVENTS; k++) {
            char want[48];
            int n = snprintf(want, sizeof want, "data: %d\n\n", k);
            n = snprintf(want, sizeof want, "%x\r\ndata: %d\n\n\r\n", n, k);
            assert_memory_equal(at, want, n);
            at += n;
        }
        assert_string_equal(at, "0\r\n\r\n");
        whim_thread_join(&writers[i].thread);
        close(writers[i].fd);
    }
}

/* Clients that hang up at any moment: every exchange ends once, and its writer is told. */
static void test_hang_ups(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int i = 0; i < 300; i++) {
        static const char *const paths[] = {"/pour", "/stream?50", "/echo", "/abort"};
        char request[100];
        seed = seed * 1664525 + 1013904223;
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n",
                 paths[seed >> 16 & 3]);
        int fd = dial(&f);
        say(fd, request);
        if ((seed >> 20 & 3) == 0) {
            say(fd, request);
        }
        if ((seed >> 24 & 1) == 0) {
            whim_clock_sleep_ns((seed >> 8 & 255) * 4000);
        }
        struct linger hard = {.l_onoff = seed >> 28 & 1};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(fd);
    }
    /* Connections are taken in order: once a last one is answered, none of the others waits to be
     * taken. */
    int last = dial(&f);
    say(last, "GET /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_true(hear(&f, last, NULL));
    close(last);
    for (int i = 0; i < 5000 && whim_http_get_stats(f.http).n_connections > 0; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    whim_http_stats stats = whim_http_get_stats(f.http);
    assert_int_equal(stats.n_connections, 0);
    assert_int_equal(stats.n_in_flight, 0);
    assert_int_equal(atomic_load(&f.n_closed), atomic_load(&f.n_handled));
}

static void count_close(void *ctx, bool gone)
{
    *(int *)ctx += gone ? 100 : 1;
}

/* Registering when all is over calls at once. */
static void test_late_on_close(void **state)
{
    (void)state;
    int closed = atomic_load(&f.n_closed);
    int fd = dial(&f);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    whim_exchange *ex = take_waiting(&f);
    whim_exchange_reply(ex, 200, "text/plain", "x", 1);
    assert_true(hear(&f, fd, NULL));
    close(fd);
    assert_true(becomes(&f.n_closed, closed + 1));
    int calls = 0;
    whim_exchange_on_close(ex, count_close, &calls);
    assert_int_equal(calls, 1);
    whim_exchange_unref(ex);
}

/* A server that closes ends what is open; whoever still holds an exchange is told, not hurt. */
static void test_close(void **state)
{
    (void)state;
    static fixture g;
    fixture_open(&g, &(whim_http_cfg){.n_handler = 1});
    int fds[4];
    whim_exchange *held[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = dial(&g);
        say(fds[i], i == 3 ? "GET /half" : "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
        held[i] = i == 3 ? NULL : take_waiting(&g);
    }
    whim_exchange_stream_begin(held[1], "text/plain");
    fixture_close(&g); /* asserts that each was closed */
    assert_int_equal(atomic_load(&g.n_gone), 3);
    whim_exchange_reply(held[0], 200, "text/plain", "x", 1);
    assert_false(whim_exchange_write(held[1], "x", 1));
    whim_exchange_stream_end(held[1]);
    whim_exchange_stream_begin(held[2], "text/plain");
    assert_false(whim_exchange_write(held[2], "x", 1));
    whim_exchange_stream_abort(held[2]);
    for (int i = 0; i < 4; i++) {
        close(fds[i]);
        if (held[i] != NULL) {
            whim_exchange_unref(held[i]);
        }
    }
}

static int64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return ts.tv_sec * WHIM_NS_PER_S + ts.tv_nsec;
}

static void test_idle(void **state)
{
    (void)state;
    enum { N = 1000 };
    static int fds[N];
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2 * N + 100) {
        skip();
    }
    int64_t before = whim_os_mem_anon_resident();
    for (int i = 0; i < N; i++) {
        fds[i] = dial(&f);
        say(fds[i], "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nidle");
        assert_true(hear(&f, fds[i], "idle"));
    }
    int64_t grown = whim_os_mem_anon_resident() - before;
    int64_t cpu = cpu_ns();
    whim_clock_sleep_ns(300 * WHIM_NS_PER_MS);
    cpu = cpu_ns() - cpu;
    print_message("1000 idle connections: %lld KiB, %lld us of CPU in 300 ms\n",
                  (long long)(grown >> 10), (long long)(cpu / 1000));
    assert_int_equal(whim_http_get_stats(f.http).n_connections, N);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(grown < 20 << 20);
#endif
    assert_true(cpu < 150 * WHIM_NS_PER_MS); /* one that polls without rest takes all 300 */
    for (int i = 0; i < N; i++) {
        close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),     cmocka_unit_test(test_writers),
        cmocka_unit_test(test_hang_ups), cmocka_unit_test(test_late_on_close),
        cmocka_unit_test(test_close),
    };
    return cmocka_run_group_tests(tests, open_plain, close_it);
}

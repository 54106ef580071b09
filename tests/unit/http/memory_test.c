/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of memory at the sockets: large bodies, replies that nobody reads, and who is answered
 * when all of it is taken. */
#include "base/alloc.h"
#include "base/heap/budget.h"
#include "http/internal.h"
#include "server/api.h"
#include "unit/http/http_fixture.h"

enum { MIB = 1 << 20, BUDGET = 64 * MIB, BODY = 14 * MIB, HUGE = 30 * MIB, UNREAD = 12 * MIB };

static fixture f;
static FILE *log_file;
static whim_log request_log;

static int open_it(void **state)
{
    (void)state;
    log_file = tmpfile();
    assert_non_null(log_file);
    whim_log_init(&request_log, fileno(log_file), WHIM_LOG_INFO);
    fixture_open(&f, &(whim_http_cfg){.n_handler = 4,
                                      .limits.header_ns = 600 * WHIM_NS_PER_S,
                                      .limits.body_ns = 600 * WHIM_NS_PER_S,
                                      .log = &request_log});
    whim_budget_set(BUDGET);
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    whim_budget_set(0);
    fixture_close(&f);
    whim_log_deinit(&request_log);
    fclose(log_file);
    return 0;
}

static void say_body(int fd, const char *path, int64_t n)
{
    char head[128], *body = malloc((size_t)n);
    assert_non_null(body);
    memset(body, 'x', (size_t)n);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %lld\r\n\r\n",
             path, (long long)n);
    say(fd, head);
    say_n(fd, body, n);
    free(body);
}

static bool used_falls_below(int64_t bytes)
{
    for (int i = 0; i < 60000 && whim_budget_used() >= bytes; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    return whim_budget_used() < bytes;
}

static bool used_reaches(int64_t bytes)
{
    for (int i = 0; i < 60000 && whim_budget_used() < bytes; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    return whim_budget_used() >= bytes;
}

/* A body may not take all of it; others go on. */
static void test_large_body(void **state)
{
    (void)state;
    int fd = dial(&f);
    void *others = whim_alloc(30 * MIB);
    say_body(fd, "/info", BODY);
    assert_true(hear(&f, fd, "\r\n\r\n"));
    assert_int_equal(status_of(f.text), 503);
    whim_free(others);
    assert_true(has(f.text, "Retry-After: 1\r\n"));
    assert_int_equal(
        status_of(ask(&f, "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 200);
    close(fd);
    assert_true(used_falls_below(MIB));
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

/* A client's bodies that never end keep no other client's out, whatever is leaving: a body that
 * grows needs its memory now. */
static void endless_bodies(int64_t n_leaving)
{
    enum { N = 9, EACH = 4 * MIB - 4096 };
    int fds[N];
    char *body = calloc(1, EACH);
    for (int i = 0; i < N; i++) { /* 36 MiB of the 40 that large bodies may have */
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], "POST /info HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n");
        say_n(fds[i], body, EACH);
    }
    free(body);
    assert_true(used_reaches(N * 4 * (int64_t)MIB - MIB));
    int fd = dial(&f);
    atomic_fetch_add(&f.http->bodies->n_leaving, n_leaving);
    say_body(fd, "/info", 5 * MIB);
    assert_true(hear(&f, fd, "\r\n\r\n"));
    assert_int_equal(status_of(f.text), 200);
    atomic_fetch_sub(&f.http->bodies->n_leaving, n_leaving);
    close(fd);
    for (int i = 0; i < N; i++) {
        close(fds[i]);
    }
    assert_true(used_falls_below(MIB));
}

static void test_endless_bodies(void **state)
{
    (void)state;
    endless_bodies(0);
    endless_bodies(BUDGET);
}

/* Nor do its many small ones, which are no large body each. */
static void test_many_small_bodies(void **state)
{
    (void)state;
    enum { N = 230, EACH = 250 << 10 };
    static int fds[N];
    char *body = calloc(1, EACH);
    for (int i = 0; i < N; i++) { /* 57 MiB of the 56 that middling bodies may have */
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], "POST /info HTTP/1.1\r\nHost: h\r\nContent-Length: 260000\r\n\r\n");
        say_n(fds[i], body, EACH);
    }
    free(body);
    assert_true(used_reaches(55 * (int64_t)MIB));
    int fd = dial(&f);
    say_body(fd, "/info", 100 << 10);
    assert_true(hear(&f, fd, "\r\n\r\n"));
    assert_int_equal(status_of(f.text), 200);
    close(fd);
    for (int i = 0; i < N; i++) {
        close(fds[i]);
    }
    assert_true(used_falls_below(MIB));
}

/* Where that would not be enough, nobody loses a body for another that fails all the same. */
static void test_room_in_vain(void **state)
{
    (void)state;
    enum { ALL = 4 * MIB, LATE = 64 << 10 };
    static char body[ALL];
    char head[128];
    int slow = dial_as("127.0.0.2");
    snprintf(head, sizeof head,
             "POST /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
             ALL);
    say(slow, head);
    say_n(slow, body, ALL - LATE);
    assert_true(used_reaches(ALL - MIB / 4)); /* 1 and 2 MiB are there at once as it grows */
    void *others = whim_alloc(56 * MIB);      /* all that middling bodies may have */
    int fd = dial(&f);
    say_body(fd, "/info", 600 << 10);
    assert_true(hear(&f, fd, "\r\n\r\n"));
    assert_int_equal(status_of(f.text), 503);
    close(fd);
    whim_free(others);
    say_n(slow, body, LATE);
    assert_true(hear(&f, slow, "\r\n\r\n"));
    assert_int_equal(status_of(f.text), 200);
    close(slow);
    assert_true(used_falls_below(MIB));
}

/* Heads that never end keep nobody from being answered. */
static void test_slow_heads(void **state)
{
    (void)state;
    enum { N = 120, EACH = 31 << 10, FEW = 2 * MIB };
    static int fds[N];
    static char line[EACH];
    memset(line, 'x', sizeof line);
    whim_budget_set(FEW);
    for (int i = 0; i < N; i++) {
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], "GET /info HTTP/1.1\r\nHost: h\r\nA: ");
        say_n(fds[i], line, EACH);
    }
    assert_true(used_reaches(FEW - FEW / 8)); /* heads are refused from FEW on */
    assert_int_equal(
        status_of(ask(&f, "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 200);
    for (int i = 0; i < N; i++) {
        close(fds[i]);
    }
    assert_true(used_falls_below(FEW / 2));
    whim_budget_set(0);
    whim_budget_set(BUDGET);
}

/* Requests of one client, so many that all memory is theirs, each with `path`; and what others have
 * that keeps it so. */
typedef struct flood {
    int fds[160];
    void *others;
} flood;

enum { FLOOD = 160, FLOOD_BODY = 31 << 10, FLOOD_BUDGET = 4 * MIB };

static void flood_begin(flood *all, const char *path)
{
    static char body[FLOOD_BODY];
    char head[128];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", path,
             FLOOD_BODY);
    whim_budget_set(FLOOD_BUDGET);
    for (int i = 0; i < FLOOD; i++) {
        all->fds[i] = dial_as("127.0.0.2");
        say(all->fds[i], head);
        say_n(all->fds[i], body, FLOOD_BODY);
    }
    assert_true(used_reaches(FLOOD_BUDGET / 8 * 7));
    all->others = whim_alloc(FLOOD_BUDGET / 8);
    assert_true(used_reaches(FLOOD_BUDGET));
}

/* How many were told that their client holds much of the memory, with what the gate says to each. */
static int flood_given_way(const flood *all, bool is_head)
{
    int n = 0;
    for (int i = 0; i < FLOOD; i++) {
        char text[4096] = "";
        ssize_t got = recv(all->fds[i], text, sizeof text - 1, MSG_DONTWAIT);
        n += got > 0 && status_of(text) == 503 && has(text, "x-gate: seen\r\n") &&
             has(text, "this client holds much of it") == !is_head;
    }
    return n;
}

static void flood_end(flood *all)
{
    for (int i = 0; i < FLOOD; i++) {
        close(all->fds[i]);
    }
    whim_free(all->others);
    assert_true(used_falls_below(MIB / 2));
    whim_budget_set(0);
    whim_budget_set(BUDGET);
}

/* A client's requests that wait for a handler keep no other client's out: the newest give way. */
static void test_waiting_ones(void **state)
{
    (void)state;
    static flood all;
    atomic_store(&f.released, false);
    flood_begin(&all, "/hold?slow");
    int fd = dial(&f);
    say_body(fd, "/info", 31 << 10);
    assert_true(hear(&f, fd, NULL));
    assert_int_equal(status_of(f.text), 200);
    close(fd);
    int n = flood_given_way(&all, false);
    assert_true(n > 0 && n < FLOOD / 2);
    atomic_store(&f.released, true);
    assert_true(hear(&f, all.fds[0], "held")); /* the oldest went on */
    flood_end(&all);
    atomic_store(&f.released, false);
}

/* Metrics are answered all the same. */
static void test_metrics_stay(void **state)
{
    (void)state;
    static flood all;
    static const char *const others[] = {"127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"};
    int fds[4];
    atomic_store(&f.released, false);
    const int handled = atomic_load(&f.n_handled);
    for (int i = 0; i < 4; i++) { /* all handlers */
        fds[i] = dial_as(others[i]);
        say(fds[i], "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    assert_true(becomes(&f.n_handled, handled + 4));
    flood_begin(&all, "/info");
    const int64_t n_request = whim_http_get_stats(f.http).n_requests;
    int last = dial_as("127.0.0.2"), fd = dial(&f);
    say(last, "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    while (whim_http_get_stats(f.http).n_requests == n_request) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    say_body(fd, "/info", 31 << 10);
    for (int i = 0; i < 60000 && flood_given_way(&all, false) == 0; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    /* The gate's answer comes from the thread that made room, and has done so by then. */
    ask(&f, "GET /denied HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(f.text), 401);
    atomic_store(&f.released, true);
    assert_true(hear(&f, fd, NULL));
    assert_int_equal(status_of(f.text), 200);
    assert_true(hear(&f, last, NULL));
    assert_int_equal(status_of(f.text), 200);
    close(fd);
    close(last);
    for (int i = 0; i < 4; i++) {
        close(fds[i]);
    }
    flood_end(&all);
}

/* Lines of the log that hold the text. */
static int lines_with(const char *text)
{
    char line[1024];
    int n = 0;
    rewind(log_file);
    while (fgets(line, sizeof line, log_file) != NULL) {
        n += has(line, text);
    }
    return n;
}

/* Nor do those that a handler has, and that wait elsewhere. Each has one line of the log. */
static void test_requests_under_way(void **state)
{
    (void)state;
    static flood all;
    static whim_exchange *held[FLOOD];
    whim_budget_set(FLOOD_BUDGET);
    int n_held = 0;
    char *body = calloc(1, FLOOD_BODY);
    for (int i = 0; i < FLOOD; i++) {
        all.fds[i] = dial_as("127.0.0.2");
        if (whim_budget_used() < FLOOD_BUDGET / 16 * 15) {
            say(all.fds[i], "HEAD /wait HTTP/1.1\r\nHost: h\r\nContent-Length: 31744\r\n\r\n");
            say_n(all.fds[i], body, FLOOD_BODY);
            held[n_held++] = take_waiting(&f);
        }
    }
    free(body);
    all.others = whim_alloc(FLOOD_BUDGET / 8);
    assert_true(used_reaches(FLOOD_BUDGET));
    const int gone = atomic_load(&f.n_gone),
              logged = lines_with(" method=HEAD route=- status=503 ");
    /* The last one is answered in this moment: its line is the first half of that. */
    const int last = n_held - 1;
    whim_request_log(&request_log, held[last], 200, NULL);
    ask(&f, "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    int n = flood_given_way(&all, true);
    assert_true(n > 0 && n < n_held / 2);
    assert_int_equal(atomic_load(&f.n_gone), gone + n);
    assert_int_equal(lines_with(" method=HEAD route=- status=503 "), logged + n);
    assert_true(atomic_load(&f.http->bodies->n_leaving) > n * (int64_t)FLOOD_BODY);
    whim_exchange_reply(held[last], 200, "text/plain", "", 0);
    assert_true(hear(&f, all.fds[last], "\r\n\r\n"));
    assert_int_equal(status_of(f.text), 200);
    for (int i = 0; i < n_held; i++) { /* whoever has it lets go when he learns of it */
        whim_request_log(&request_log, held[i], 499, NULL);
        whim_exchange_drop_body(held[i]);
    }
    assert_int_equal(lines_with(" status=499 "), n_held - n - 1);
    assert_true(atomic_load(&f.http->bodies->n_leaving) < n * (int64_t)FLOOD_BODY / 2);
    for (int i = 0; i < n_held; i++) {
        whim_exchange_unref(held[i]);
    }
    assert_int_equal(
        status_of(ask(&f, "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 200);
    flood_end(&all);
}

/* What waits for a handler goes with its connection. */
static void test_left_ones(void **state)
{
    (void)state;
    static flood all;
    atomic_store(&f.released, false);
    flood_begin(&all, "/hold?slow");
    whim_free(all.others);
    all.others = NULL;
    flood_end(&all);
    atomic_store(&f.released, true);
}

/* Nobody gives way to a client that holds as much, or for nothing. */
static void test_nobody_gives_way(void **state)
{
    (void)state;
    static flood all;
    atomic_store(&f.released, false);
    flood_begin(&all, "/hold?slow");
    int fd = dial_as("127.0.0.2");
    say_body(fd, "/info", 31 << 10);
    assert_true(hear(&f, fd, "\"}"));
    assert_int_equal(status_of(f.text), 503);
    close(fd);
    void *more = whim_alloc(FLOOD_BUDGET);
    fd = dial(&f);
    say_body(fd, "/info", 31 << 10);
    assert_true(hear(&f, fd, "\"}"));
    assert_int_equal(status_of(f.text), 503);
    close(fd);
    assert_int_equal(flood_given_way(&all, false), 0);
    /* But for what is enough with what leaves already. */
    atomic_fetch_add(&f.http->bodies->n_leaving, FLOOD_BUDGET);
    ask(&f, "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    atomic_fetch_sub(&f.http->bodies->n_leaving, FLOOD_BUDGET);
    int n = flood_given_way(&all, false);
    assert_true(n > 0 && n < FLOOD / 2);
    whim_free(more);
    flood_end(&all);
    atomic_store(&f.released, true);
}

/* What is sent behind a request that waits is left to the socket, but for a little. */
static void test_bytes_behind(void **state)
{
    (void)state;
    enum { N = 100, EACH = 60 << 10 };
    static int fds[N];
    static char line[EACH];
    whim_exchange *held[N];
    memset(line, 'x', sizeof line);
    for (int i = 0; i < N; i++) {
        fds[i] = dial_as("127.0.0.2");
        say(fds[i], "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
        say_n(fds[i], line, EACH);
        held[i] = take_waiting(&f);
        assert_non_null(held[i]);
    }
    int64_t used = whim_budget_used();
    for (int i = 0; i < N; i++) {
        whim_exchange_unref(held[i]);
        close(fds[i]);
    }
    assert_true(used < N * (int64_t)(16 << 10));
    assert_true(used_falls_below(MIB / 2));
}

/* One that never has room is not told to come again. */
static void test_huge_body(void **state)
{
    (void)state;
    int fd = dial(&f);
    say_body(fd, "/info", HUGE);
    assert_true(hear(&f, fd, "\"}"));
    assert_int_equal(status_of(f.text), 413);
    assert_false(has(f.text, "Retry-After"));
    assert_true(has(f.text, "less than 16384 KiB") && has(f.text, "requests and answers"));
    close(fd);
    fd = dial(&f);
    say(fd, "POST /info HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1e00000\r\n");
    assert_true(hear(&f, fd, "\"}"));
    assert_int_equal(status_of(f.text), 413);
    close(fd);
    fd = dial(&f); /* all below has room */
    say_body(fd, "/info", 16 * MIB - 1);
    assert_true(hear(&f, fd, "\r\n\r\n"));
    assert_int_equal(status_of(f.text), 200);
    close(fd);
    assert_true(used_falls_below(MIB));
}

/* A whole reply that its client leaves unread is dropped when memory is short. */
static void test_unread_reply(void **state)
{
    (void)state;
    int fd = dial(&f), little = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    const int gone = atomic_load(&f.n_gone), handled = atomic_load(&f.n_handled);
    say_body(fd, "/echo", UNREAD);
    assert_true(becomes(&f.n_handled, handled + 1));
    void *others = whim_alloc(16 * MIB);
    if (!becomes(&f.n_gone, gone + 1)) {
        fail_msg("%lld bytes are held", (long long)whim_budget_used());
    }
    whim_free(others);
    assert_true(used_falls_below(MIB));
    close(fd);
}

/* A reply that waits to be read counts once. */
static void test_reply_counts_once(void **state)
{
    (void)state;
    static fixture g;
    whim_budget_set(64 * (int64_t)BUDGET);
    fixture_open(&g, &(whim_http_cfg){.n_handler = 4});
    int fd = dial(&g), little = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    say_body(fd, "/echo?kept", UNREAD);
    assert_true(becomes(&g.n_handled, 1));
    while (whim_http_get_stats(g.http).n_let_in > 0) { /* its handler has not come back */
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    whim_exchange *ex = atomic_exchange(&g.waiting, NULL);
    assert_non_null(ex);
    pthread_mutex_lock(&ex->lock);
    const int64_t n_out = ex->out.cap;
    pthread_mutex_unlock(&ex->lock);
    assert_true(n_out > 2 * MIB);
    assert_true(atomic_load(&ex->n_kept) < MIB);
    whim_exchange_unref(ex);
    close(fd);
    fixture_close(&g);
    whim_budget_set(BUDGET);
}

/* A stream that its client leaves unread is broken off when memory is short, long before it has had
 * its time to read on. */
static void test_unread_stream(void **state)
{
    (void)state;
    int fd = dial(&f), little = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    const int gone = atomic_load(&f.n_gone);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    whim_exchange *ex = take_waiting(&f);
    char *event = calloc(1, UNREAD);
    assert_non_null(event);
    whim_exchange_stream_begin(ex, "text/event-stream");
    void *others = whim_alloc(30 * MIB); /* before the write, which wakes the loop that looks */
    assert_true(whim_exchange_write(ex, event, UNREAD));
    assert_true(whim_budget_is_over(4));
    assert_true(becomes(&f.n_gone, gone + 1));
    assert_false(whim_exchange_write(ex, event, 1));
    whim_exchange_stream_end(ex);
    whim_exchange_unref(ex);
    whim_free(others);
    free(event);
    assert_true(used_falls_below(MIB));
    close(fd);
}

/* One that reads is no one that leaves its reply unread, however long it takes. */
static void test_slow_reader(void **state)
{
    (void)state;
    static whim_http http;
    static char bytes[MIB];
    int ends[2];
    whim_conn conn = {.state = WHIM_CONN_REPLY};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    conn.fd = ends[0];
    http.bodies = whim_alloc(sizeof *http.bodies);
    http.conns = &conn;
    atomic_init(&http.bodies->refs, 1);
    whim_exchange *ex = conn.ex = whim_exchange_create(&http, &conn);
    assert_non_null(ex);
    for (int i = 0; i < 8; i++) { /* more than the socket takes */
        whim_str_append_n(&ex->out, bytes, MIB);
    }
    ex->reply = WHIM_REPLY_DONE; /* a while ago */
    assert_ptr_equal(whim_conn_unread(&http), &conn);
    assert_true(whim_exchange_flush(ex) > 0);
    assert_null(whim_conn_unread(&http));
    whim_exchange_unref(ex);
    whim_bodies_unref(http.bodies);
    close(ends[0]);
    close(ends[1]);
}

/* The largest reply that is unread need not be that of the client who holds most. */
static void test_who_leaves_most_unread(void **state)
{
    (void)state;
    enum { N = 4, MODEST = 3 };
    static const int64_t bytes[N] = {MIB, 3 * MIB, MIB, 4 * MIB - 1};
    static whim_http http;
    static whim_conn conns[N];
    http.bodies = whim_alloc(sizeof *http.bodies);
    atomic_init(&http.bodies->refs, 1);
    for (int i = 0; i < N; i++) {
        whim_conn *conn = &conns[i];
        conn->state = WHIM_CONN_REPLY;
        conn->next = http.conns;
        http.conns = conn;
        whim_exchange *ex = conn->ex = whim_exchange_create(&http, conn);
        assert_non_null(ex);
        ex->notes.client = i == MODEST ? 7 : 6;
        ex->reply = WHIM_REPLY_DONE;
        char *text = calloc(1, (size_t)bytes[i]);
        whim_str_append_n(&ex->out, text, bytes[i]);
        free(text);
    }
    assert_ptr_equal(whim_conn_unread(&http), &conns[1]);
    conns[1].ex->read_ns = whim_clock_ns() + 1000 * WHIM_NS_PER_S; /* reads on */
    assert_ptr_not_equal(whim_conn_unread(&http), &conns[MODEST]);
    for (int i = 0; i < N; i++) {
        whim_exchange_unref(conns[i].ex);
    }
    whim_bodies_unref(http.bodies);
}

/* The system holds little of a reply that nobody reads: what waits is here, where it is counted. */
static void test_little_is_in_the_socket(void **state)
{
    (void)state;
    int fd = dial(&f), little = 1 << 16;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    say(fd, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
    whim_exchange *ex = take_waiting(&f);
    char *body = calloc(1, UNREAD);
    assert_non_null(body);
    whim_exchange_reply(ex, 200, "text/plain", body, UNREAD);
    pthread_mutex_lock(&ex->lock);
    const int64_t left = ex->out.len - ex->out_at;
    pthread_mutex_unlock(&ex->lock);
    assert_true(left > UNREAD - MIB);
    whim_exchange_unref(ex);
    free(body);
    close(fd);
    assert_true(used_falls_below(MIB));
}

/* What many small ones leave is given back, too, once. */
static void test_tidy_after_many(void **state)
{
    (void)state;
    whim_http_tidy(f.http);
    f.http->next_tidy_ns = INT64_MAX;
    void *many = whim_alloc(BUDGET / 8);
    assert_false(whim_http_tidy(f.http));
    whim_free(many);
    assert_false(whim_http_tidy(f.http)); /* it was done a moment ago */
    whim_http_set_zero(f.http);
    f.http->next_tidy_ns = 0;
    assert_true(whim_http_tidy(f.http)); /* it was not forgotten */
    assert_true(f.http->next_tidy_ns > 0);
    assert_false(whim_http_tidy(f.http));
}

/* What the server has learnt meanwhile was left by nobody. */
static void test_zero_leaves_nothing(void **state)
{
    (void)state;
    whim_http_tidy(f.http);
    void *learnt = whim_alloc(BUDGET / 8);
    assert_false(whim_http_tidy(f.http));
    whim_http_set_zero(f.http);
    f.http->next_tidy_ns = 0;
    assert_false(whim_http_tidy(f.http));
    whim_free(learnt);
    whim_http_set_zero(f.http);
}

/* One that is short on nothing may stay unread. */
static void test_unread_is_kept(void **state)
{
    (void)state;
    int fd = dial(&f), little = 1 << 16;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    whim_budget_set(64 * (int64_t)BUDGET);
    say_body(fd, "/echo", UNREAD);
    whim_clock_sleep_ns(2 * WHIM_NS_PER_S);
    int64_t n = 0;
    ssize_t got;
    while ((got = recv(fd, f.text, sizeof f.text, 0)) > 0) {
        n += got;
    }
    assert_true(n > UNREAD);
    close(fd);
    whim_budget_set(BUDGET);
}

/* With nothing left new requests are told to come again, but for probes and metrics. */
static void test_all_taken(void **state)
{
    (void)state;
    void *all = whim_alloc(BUDGET + MIB);
    assert_int_equal(
        status_of(ask(&f, "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 503);
    assert_true(has(f.text, "Retry-After: 1\r\n") && has(f.text, "is used up"));
    assert_int_equal(
        status_of(ask(&f, "GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 200);
    assert_int_equal(
        status_of(ask(&f, "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 200);
    whim_free(all);
    assert_int_equal(
        status_of(ask(&f, "GET /info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 200);
}

/* Who has no share left for what it wanted to say says something short instead, and that arrives. */
static void test_short_reply(void **state)
{
    (void)state;
    int fd = dial(&f);
    const int handled = atomic_load(&f.n_handled);
    say_body(fd, "/hold", MIB / 2);
    assert_true(becomes(&f.n_handled, handled + 1));
    void *others = whim_alloc(BUDGET / 8 * 6);
    atomic_store(&f.released, true);
    assert_true(hear(&f, fd, NULL));
    assert_int_equal(status_of(f.text), 200);
    assert_true(has(f.text, "x-held: long\r\n") && has(f.text, "\r\n\r\nheld"));
    whim_free(others);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_body),
        cmocka_unit_test(test_many_small_bodies),
        cmocka_unit_test(test_room_in_vain),
        cmocka_unit_test(test_slow_heads),
        cmocka_unit_test(test_huge_body),
        cmocka_unit_test(test_endless_bodies),
        cmocka_unit_test(test_unread_reply),
        cmocka_unit_test(test_unread_stream),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_unread_is_kept),
        cmocka_unit_test(test_all_taken),
        cmocka_unit_test(test_short_reply),
        cmocka_unit_test(test_waiting_ones),
        cmocka_unit_test(test_requests_under_way),
        cmocka_unit_test(test_bytes_behind),
        cmocka_unit_test(test_nobody_gives_way),
        cmocka_unit_test(test_left_ones),
        cmocka_unit_test(test_who_leaves_most_unread),
        cmocka_unit_test(test_metrics_stay),
        cmocka_unit_test(test_reply_counts_once),
        cmocka_unit_test(test_little_is_in_the_socket),
        cmocka_unit_test(test_tidy_after_many),
        cmocka_unit_test(test_zero_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, open_it, close_it);
}

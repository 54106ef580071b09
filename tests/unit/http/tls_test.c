/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: replies and streams through it, plain HTTP on its port, a new certificate, and bad files. */
#include "base/heap/budget.h"
#include "http/internal.h"
#include "http/tls.h"
#include "unit/http/http_fixture.h"

#ifdef WHIM_TLS

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

static fixture f;
static char folder[] = "/tmp/whim-tls-XXXXXX", cert_path[64], key_path[64];

/* A certificate that signs itself; `serial` tells it from others. */
static void make_files(long serial)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert_true(key != NULL && cert != NULL);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *file = fopen(cert_path, "w");
    assert_true(file != NULL && PEM_write_X509(file, cert) == 1);
    fclose(file);
    file = fopen(key_path, "w");
    assert_true(file != NULL && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int open_tls(void **state)
{
    (void)state;
    assert_true(whim_tls_count_memory()); /* before its first use */
    assert_non_null(mkdtemp(folder));
    snprintf(cert_path, sizeof cert_path, "%s/cert.pem", folder);
    snprintf(key_path, sizeof key_path, "%s/key.pem", folder);
    make_files(1);
    /* However busy the machine is, nobody's handshake takes too long. */
    fixture_open(
        &f, &(whim_http_cfg){.tls_cert = cert_path,
                             .tls_key = key_path,
                             .limits = {.header_ns = 3600 * WHIM_NS_PER_S, .max_queued = 200000}});
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    fixture_close(&f);
    unlink(cert_path);
    unlink(key_path);
    rmdir(folder);
    return 0;
}

typedef struct client {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
} client;

static client tls_dial(void)
{
    client c = {.ctx = SSL_CTX_new(TLS_client_method()), .fd = dial(&f)};
    c.ssl = SSL_new(c.ctx);
    SSL_set_fd(c.ssl, c.fd);
    assert_int_equal(SSL_connect(c.ssl), 1);
    return c;
}

static void tls_hang_up(client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->ctx);
    close(c->fd);
}

static void tls_say(client *c, const char *text)
{
    assert_int_equal(SSL_write(c->ssl, text, (int)strlen(text)), (int)strlen(text));
}

/* Into f.text until it holds `until`, or the end. */
static bool tls_hear(client *c, const char *until)
{
    f.n_text = 0;
    for (;;) {
        int n = SSL_read(c->ssl, f.text + f.n_text, (int)((int64_t)sizeof f.text - 1 - f.n_text));
        if (n <= 0) {
            return until == NULL && SSL_get_error(c->ssl, n) == SSL_ERROR_ZERO_RETURN;
        }
        f.n_text += n;
        f.text[f.n_text] = '\0';
        if (until != NULL && strstr(f.text, until) != NULL) {
            return true;
        }
    }
}

static void test_requests(void **state)
{
    (void)state;
    client c = tls_dial();
    for (int i = 0; i < 5; i++) {
        tls_say(&c, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_true(tls_hear(&c, "test=[-]\n"));
        assert_true(has(f.text, "\ntls=1\n"));
    }
    tls_say(&c,
            "GET /stream HTTP/1.1\r\nHost: h\r\n\r\nGET /stream?60 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(tls_hear(&c, "0\r\n\r\nHTTP"));
    tls_say(&c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_true(tls_hear(&c, NULL)); /* with a proper end */
    tls_hang_up(&c);
}

/* More than a record or the socket's buffer holds, both ways. */
static void test_large(void **state)
{
    (void)state;
    enum { N = 150000 };
    client c = tls_dial();
    char *body = malloc(N + 1);
    memset(body, 'b', N);
    body[N] = '\0';
    tls_say(
        &c,
        "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 150000\r\n\r\n");
    tls_say(&c, body);
    whim_clock_sleep_ns(20 * WHIM_NS_PER_MS);
    assert_true(tls_hear(&c, NULL));
    assert_string_equal(strstr(f.text, "\r\n\r\n") + 4, body);
    free(body);
    tls_hang_up(&c);
}

static void test_gone(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        int gone = atomic_load(&f.n_gone);
        client c = tls_dial();
        if (slow) { /* does not read */
            tls_say(&c, "GET /pour HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_true(becomes(&f.n_gone, gone + 1));
            tls_hang_up(&c);
            continue;
        }
        tls_say(&c, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
        whim_exchange *ex = take_waiting(&f);
        assert_non_null(ex);
        whim_exchange_stream_begin(ex, "text/event-stream");
        assert_true(whim_exchange_write(ex, "data", 4));
        assert_true(tls_hear(&c, "data"));
        tls_hang_up(&c);
        assert_true(becomes(&f.n_gone, gone + 1));
        assert_false(whim_exchange_write(ex, "data", 4));
        whim_exchange_unref(ex);
    }
}

/* The server closes the connection, and says no HTTP before. */
static void is_closed_silently(fixture *at, const char *bytes)
{
    int fd = dial(at);
    say(fd, bytes);
    hear(at, fd, NULL);
    assert_false(has(at->text, "HTTP"));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 1); /* it was closed, not left open */
    close(fd);
}

static void test_not_tls(void **state)
{
    (void)state;
    const char *a = ask(&f, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_int_equal(status_of(a), 400);
    assert_true(has(a, "https://"));
    /* Neither this nor that gets an alert at most. */
    is_closed_silently(&f, "neither this nor that\r\n\r\n");
    test_requests(state);
}

/* A handshake that stops is closed after the deadline. */
static void test_deadline(void **state)
{
    (void)state;
    static fixture hasty;
    fixture_open(&hasty, &(whim_http_cfg){.tls_cert = cert_path,
                                          .tls_key = key_path,
                                          .limits = {.header_ns = WHIM_NS_PER_S / 4}});
    is_closed_silently(&hasty, "\x16\x03\x01");
    fixture_close(&hasty);
}

static long serial_seen(void)
{
    client c = tls_dial();
    X509 *cert = SSL_get1_peer_certificate(c.ssl);
    long serial = ASN1_INTEGER_get(X509_get_serialNumber(cert));
    X509_free(cert);
    tls_hang_up(&c);
    return serial;
}

static void test_reload(void **state)
{
    (void)state;
    whim_diag diag = {{0}};
    client old = tls_dial();
    assert_int_equal(serial_seen(), 1);
    make_files(2);
    assert_int_equal(whim_http_reload_tls(f.http, &diag), WHIM_ERR_OK);
    assert_int_equal(serial_seen(), 2);
    FILE *file = fopen(cert_path, "w");
    assert_non_null(file);
    fputs("no certificate\n", file);
    fclose(file);
    assert_int_equal(whim_http_reload_tls(f.http, &diag), WHIM_ERR_INVALID);
    assert_true(has(diag.text, cert_path));
    assert_int_equal(serial_seen(), 2); /* the last good one stays */
    tls_say(&old, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(tls_hear(&old, "tls=1"));
    tls_hang_up(&old);
}

static void test_bad_files(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.1"};
    whim_http *http;
    whim_diag diag = {{0}};
    whim_http_cfg cfg = {.hosts = hosts,
                         .n_host = 1,
                         .handle = fixture_handle,
                         .error_body = fixture_error,
                         .tls_cert = "/nowhere/cert.pem",
                         .tls_key = key_path};
    assert_int_equal(whim_http_open(&cfg, &http, &diag), WHIM_ERR_INVALID);
    assert_true(has(diag.text, "/nowhere/cert.pem"));
    cfg.tls_key = NULL;
    assert_int_equal(whim_http_open(&cfg, &http, &diag), WHIM_ERR_INVALID);
    assert_true(has(diag.text, "--tls-key"));
}

/* Whether a client that speaks this version alone is let in. */
static bool speaks(int version)
{
    client c = {.ctx = SSL_CTX_new(TLS_client_method()), .fd = dial(&f)};
    SSL_CTX_set_security_level(c.ctx, 0); /* else it does not offer the old ones */
    SSL_CTX_set_min_proto_version(c.ctx, version);
    SSL_CTX_set_max_proto_version(c.ctx, version);
    c.ssl = SSL_new(c.ctx);
    SSL_set_fd(c.ssl, c.fd);
    bool good = SSL_connect(c.ssl) == 1 && SSL_version(c.ssl) == version;
    tls_hang_up(&c);
    return good;
}

static void test_versions(void **state)
{
    (void)state;
    assert_true(speaks(TLS1_2_VERSION) && speaks(TLS1_3_VERSION));
    assert_false(speaks(TLS1_1_VERSION) || speaks(TLS1_VERSION));
}

/* What connections take is on the account of requests, and comes back. */
static void test_memory_is_counted(void **state)
{
    (void)state;
    enum { N = 40, LEAST = 4096 };
    client clients[N];
    whim_budget_set(INT64_C(1) << 30);
    for (int i = 0; i < N; i++) {
        clients[i] = tls_dial();
    }
    const int64_t used = whim_budget_used();
    if (used < N * LEAST) {
        fail_msg("%d connections take %lld bytes", N, (long long)used);
    }
    for (int i = 0; i < N; i++) {
        tls_hang_up(&clients[i]);
    }
    for (int i = 0; i < 60000 && whim_budget_used() > used / 4; i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_true(whim_budget_used() <= used / 4);
    whim_budget_set(0);
}

/* Those that only sit there make room before they take what requests need. */
static void test_idle_ones_make_room(void **state)
{
    (void)state;
    enum { N = 400, BUDGET = 8 << 20, LIMIT = BUDGET / 4 };
    int fds[N];
    const int64_t accepted = whim_http_get_stats(f.http).n_accepted, before = whim_tls_bytes();
    whim_budget_set(BUDGET);
    for (int i = 0; i < N; i++) {
        fds[i] = dial(&f);
        say_n(fds[i], "\x16\x03\x01", 3); /* the beginning of a handshake */
    }
    for (int i = 0; i < 60000 && (whim_http_get_stats(f.http).n_accepted < accepted + N ||
                                  whim_tls_bytes() - before > LIMIT);
         i++) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    assert_int_equal(whim_http_get_stats(f.http).n_accepted, accepted + N);
    assert_true(whim_http_get_stats(f.http).n_connections < N);
    client c = tls_dial();
    tls_say(&c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_true(tls_hear(&c, NULL));
    assert_int_equal(status_of(f.text), 200);
    tls_hang_up(&c);
    for (int i = 0; i < N; i++) {
        close(fds[i]);
    }
    whim_budget_set(0);
}

/* A flood of handshakes waits for itself: each address has its turn, and of its connections the
 * one that waits longest, however old it is. */
static void test_handshakes_in_turns(void **state)
{
    (void)state;
    enum { N = 6, ALONE = 5, HOME = 3, AWAY = 9 };
    static whim_http http;
    static whim_conn conns[N];
    for (int i = 0; i < N; i++) { /* the last one came last, from elsewhere */
        conns[i] = (whim_conn){.place = i == ALONE ? AWAY : HOME, .next = http.conns};
        http.conns = &conns[i];
        if (i != 0) {
            whim_http_want_shake(&http, &conns[i]);
        }
    }
    assert_int_equal(http.n_shaking, N - 1);
    assert_ptr_equal(whim_http_next_shake(&http), &conns[1]);
    http.shook[HOME] = 1;
    assert_ptr_equal(whim_http_next_shake(&http), &conns[ALONE]);
    http.shook[AWAY] = 2;
    whim_http_want_shake(&http, &conns[1]); /* it had its turn; another byte has come */
    assert_ptr_equal(whim_http_next_shake(&http), &conns[2]);
    for (int i = 0; i < N; i++) {
        conns[i].is_shaking = false;
    }
    assert_null(whim_http_next_shake(&http));
}

/* Steps that last as long get half of the time in all, though waits end at whole milliseconds; and
 * who comes to a quiet server does not wait. */
static void test_half_of_the_time(void **state)
{
    (void)state;
    static const int64_t costs[] = {1000, 70000, 300000, WHIM_NS_PER_MS, 5 * WHIM_NS_PER_MS};
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        const int64_t begin = 1000 * WHIM_NS_PER_S + 1, all = 10 * WHIM_NS_PER_S;
        int64_t now = begin, again = 0, took = 0;
        again = whim_http_shake_again(again, now, costs[i]);
        assert_true(again <= now + 2 * costs[i] - 5 * WHIM_NS_PER_MS);
        while (now - begin < all) {
            if (again <= now) {
                again = whim_http_shake_again(again, now, costs[i]);
                took += costs[i];
                now += costs[i];
            } else {
                now += (again - now + WHIM_NS_PER_MS - 1) / WHIM_NS_PER_MS * WHIM_NS_PER_MS;
            }
        }
        assert_true(took <= all / 2 + 20 * WHIM_NS_PER_MS);
        assert_true(took >= all / 2 - 20 * WHIM_NS_PER_MS);
    }
}

/* None is forgotten, whoever leaves in the middle. */
static void test_flood_of_handshakes(void **state)
{
    enum { N = 60 };
    int fds[N];
    char hello[2048];
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    BIO *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
    assert_int_equal(SSL_connect(ssl), -1); /* it has said hello, and waits */
    const int n = BIO_read(out, hello, sizeof hello);
    assert_true(n > 0);
    for (int i = 0; i < N; i++) {
        fds[i] = dial(&f);
        say_n(fds[i], hello, n);
        if (i % 3 == 0) {
            close(fds[i]);
        }
    }
    test_requests(state);
    for (int i = 0; i < N; i++) {
        if (i % 3 != 0) {
            struct pollfd p = {.fd = fds[i], .events = POLLIN};
            char first = 0;
            assert_int_equal(poll(&p, 1, 60000), 1);
            assert_int_equal(recv(fds[i], &first, 1, 0), 1);
            assert_int_equal(first, 0x16); /* the server's hello */
            close(fds[i]);
        }
    }
    test_requests(state);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_not_tls),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_idle_ones_make_room),
        cmocka_unit_test(test_handshakes_in_turns),
        cmocka_unit_test(test_half_of_the_time),
        cmocka_unit_test(test_flood_of_handshakes),
        cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, open_tls, close_it);
}

#else

static void test_refused(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.1"};
    whim_http *http;
    whim_diag diag = {{0}};
    whim_http_cfg cfg = {.hosts = hosts,
                         .n_host = 1,
                         .handle = fixture_handle,
                         .error_body = fixture_error,
                         .tls_cert = "cert.pem",
                         .tls_key = "key.pem"};
    assert_int_equal(whim_http_open(&cfg, &http, &diag), WHIM_ERR_UNSUPPORTED);
    assert_true(has(diag.text, "--tls-cert"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the server listens, and what it says when it cannot. */
#include "http/internal.h"
#include "unit/http/http_fixture.h"

static whim_err try_open(const char *const *hosts, int32_t n, int32_t port, whim_http **out,
                         whim_diag *diag)
{
    whim_http_cfg cfg = {.hosts = hosts,
                         .n_host = n,
                         .port = port,
                         .handle = fixture_handle,
                         .error_body = fixture_error};
    return whim_http_open(&cfg, out, diag);
}

static void test_taken(void **state)
{
    (void)state;
    static const char *const local[] = {"127.0.0.1"};
    whim_http *first, *second;
    whim_diag diag = {{0}};
    assert_int_equal(try_open(local, 1, 0, &first, &diag), WHIM_ERR_OK);
    int32_t port = whim_http_port(first);
    assert_true(port > 0);
    /* Known before anything is started. */
    assert_int_equal(try_open(local, 1, port, &second, &diag), WHIM_ERR_BUSY);
    assert_null(second);
    assert_true(has(diag.text, "taken") && has(diag.text, "--port"));
    /* The first address decides; another one that fails is left out. */
    static const char *const turned[] = {"127.41.7.9",
                                         "127.0.0.1"}; /* no client has the port there */
    assert_int_equal(try_open(turned, 2, port, &second, &diag), WHIM_ERR_OK);
    whim_http_close(second);
    whim_http_close(first);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "no.name", "256.0.0.1", "127.0.0.1:80", "::g"};
    whim_http *http;
    whim_diag diag = {{0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(try_open(&bad[i], 1, 0, &http, &diag), WHIM_ERR_INVALID);
        assert_true(has(diag.text, bad[i]));
    }
    static const char *const local[] = {"localhost"};
    assert_int_equal(try_open(local, 1, 65536, &http, &diag), WHIM_ERR_INVALID);
    assert_int_equal(try_open(local, 1, -1, &http, &diag), WHIM_ERR_INVALID);
    assert_int_equal(try_open(local, 0, 0, &http, &diag), WHIM_ERR_INVALID);
    assert_int_equal(try_open(local, 1, 0, &http, &diag), WHIM_ERR_OK);
    whim_http_close(http);
    whim_http_close(NULL);
}

/* Both families at one port; the client's address is told in its own. */
static void test_both(void **state)
{
    (void)state;
    static const char *const both[] = {"127.0.0.1", "::1"};
    static fixture f;
    fixture_open(&f, &(whim_http_cfg){.hosts = both, .n_host = 2});
    static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert_true(has(ask(&f, request), "\nclient=127.0.0.1\n"));
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6,
                                .sin6_port = htons((uint16_t)whim_http_port(f.http)),
                                .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0) {
        say(fd, request);
        assert_true(hear(&f, fd, NULL));
        assert_true(has(f.text, "\nclient=::1\n"));
    } else {
        print_message("no IPv6 here: left out\n");
    }
    close(fd);
    fixture_close(&f);
}

static int option_of(int fd, int name)
{
    int value = 0;
    socklen_t n = sizeof value;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, name, &value, &n), 0);
    return value;
}

/* An accepted socket has the buffers that were asked for, or as much of them as this system allows
 * any socket. */
static void test_buffers(void **state)
{
    (void)state;
    static const char *const local[] = {"127.0.0.1"};
    static const int names[] = {SO_SNDBUF, SO_RCVBUF}, bytes[] = {128 << 10, 256 << 10};
    fixture f = {0};
    whim_diag diag = {{0}};
    assert_int_equal(try_open(local, 1, 0, &f.http, &diag), WHIM_ERR_OK);
    int client = dial(&f), plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pollfd p = {.fd = f.http->listeners[0].fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
    int accepted = accept(p.fd, NULL, NULL);
    assert_true(accepted >= 0 && plain >= 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(setsockopt(plain, SOL_SOCKET, names[i], &bytes[i], sizeof bytes[i]), 0);
        assert_int_equal(option_of(accepted, names[i]), option_of(plain, names[i]));
    }
    close(plain);
    close(accepted);
    close(client);
    whim_http_close(f.http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

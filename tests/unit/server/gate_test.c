/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask: the rules one by one, and over a socket. */
#include "server/gate.h"
#include "unit/http/http_fixture.h"

static whim_gate *make(int32_t n_key)
{
    static const whim_api_key keys[] = {{"sk-one", false}, {"sk-two-longer", true}};
    static const char *const hosts[] = {"llm.example"};
    static const char *const origins[] = {"https://page.example"};
    whim_gate_cfg cfg = {.keys = keys,
                         .n_key = n_key,
                         .hosts = hosts,
                         .n_host = 1,
                         .origins = origins,
                         .n_origin = 1,
                         .error_body = fixture_error};
    whim_gate *gate = NULL;
    whim_diag diag = {{0}};
    assert_int_equal(whim_gate_create(&cfg, &gate, &diag), WHIM_ERR_OK);
    return gate;
}

static void test_keys(void **state)
{
    (void)state;
    int32_t key;
    whim_gate *a = make(2);
    static const struct {
        const char *authorization, *x_api_key;
        bool ok;
    } rows[] = {
        {"Bearer sk-one", NULL, true},    {"bearer  sk-one", NULL, true},
        {NULL, "sk-two-longer", true},    {"Bearer wrong", "sk-one", true},
        {"Bearer sk-one", "wrong", true}, {NULL, NULL, false},
        {"Bearer ", "", false},           {"Bearer sk-on", NULL, false},
        {"Bearer sk-onee", NULL, false},  {"Bearer sk-onesk-one", NULL, false},
        {"Basic sk-one", NULL, false},    {"sk-one", NULL, false},
        {"Bearer SK-ONE", NULL, false},   {"Bearer sk-twp-longer", NULL, false},
        {NULL, "sk-two-longerX", false},  {"Bearersk-one", NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(whim_gate_key_matches(a, rows[i].authorization, rows[i].x_api_key, &key),
                         rows[i].ok);
        assert_int_equal(key, rows[i].ok ? (i == 2 ? 1 : 0) : -1);
    }
    whim_gate_destroy(a);
    a = make(0);
    assert_true(whim_gate_key_matches(a, NULL, NULL, &key));
    assert_true(whim_gate_key_matches(a, "Bearer any", NULL, &key));
    assert_int_equal(key, -1);
    whim_gate_destroy(a);
    static const char *const bad[] = {"", "kz q", "kz\n", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        whim_api_key one = {.text = bad[i]};
        whim_gate_cfg cfg = {.keys = &one, .n_key = 1};
        whim_diag diag = {{0}};
        assert_int_equal(whim_gate_create(&cfg, &a, &diag), WHIM_ERR_INVALID);
        assert_null(bad[i][0] == '\0' ? NULL : strstr(diag.text, bad[i]));
    }
}

static void test_open_paths(void **state)
{
    (void)state;
    static const char *const open[] = {"/livez",     "/readyz",  "/health",         "/",
                                       "/dashboard", "/page.js", "/assets/app.css", "/favicon.ico"};
    static const char *const closed[] = {"/v1/models",
                                         "/v1/models/m.js",
                                         "/metrics",
                                         "/metrics/history",
                                         "/requests",
                                         "/openapi.json",
                                         "/livez/x",
                                         "//livez",
                                         "/tokenize",
                                         "/health.x",
                                         "/dashboard/../v1/models",
                                         "*",
                                         ""};
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        assert_true(whim_gate_is_open("GET", open[i]));
        assert_false(whim_gate_is_open("POST", open[i]));
    }
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        assert_false(whim_gate_is_open("GET", closed[i]));
        assert_true(whim_gate_is_open("OPTIONS", closed[i]));
    }
}

static void test_hosts(void **state)
{
    (void)state;
    whim_gate *a = make(0);
    char machine[300] = "";
    assert_int_equal(gethostname(machine, sizeof machine - 1), 0);
    const char *const good[] = {"127.0.0.1",
                                "127.0.0.1:8080",
                                "192.168.1.7:1",
                                "[::1]",
                                "[fe80::1]:80",
                                "localhost",
                                "LocalHost:8080",
                                "a.b.localhost",
                                "localhost.",
                                "host.docker.internal:8080",
                                "host.containers.internal",
                                "llm.example",
                                "LLM.example:443",
                                machine};
    static const char *const bad[] = {
        "evil.example",     "llm.example.evil", "notlocalhost",  "",
        ".localhost",       "localhost:port",   "[::1",          "::1",
        "127.0.0.1.nip.io", "localhost:123456", "[::1]x",        ":80",
        "127.0.0.1@evil",   "xllm.example",     "[llm.example]", "[]"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(whim_gate_host_allowed(a, good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(whim_gate_host_allowed(a, bad[i]));
    }
    whim_gate_destroy(a);
}

static void test_origins(void **state)
{
    (void)state;
    whim_gate *a = make(0);
    static const struct {
        const char *origin, *host;
        bool ok;
    } rows[] = {
        {"http://localhost:3000", "h", true},
        {"https://127.0.0.1", "h", true},
        {"http://[::1]:1", NULL, true},
        {"app://obsidian.md", NULL, true},
        {"tauri://localhost", NULL, true},
        {"vscode-webview://1b2c", NULL, true},
        {"https://page.example", "h", true},
        {"http://box:8080", "box:8080", true},
        {"https://box", "box", true},
        {"http://box:80", "box", true},
        {"https://box", "box:443", true},
        {"http://box:8080", "box:8081", false},
        {"http://box", "other", false},
        {"http://page.example", "h", false},
        {"https://page.example.evil", "h", false},
        {"https://localhost.evil", "h", false},
        {"http://localhost:3000x", "h", false},
        {"http://localhost@evil", "h", false},
        {"null", "h", false},
        {"", "h", false},
        {"chrome-extension://abc", "h", false},
        {"file://", "h", false},
        {"http://", "h", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(whim_gate_origin_allowed(a, rows[i].origin, rows[i].host), rows[i].ok);
    }
    whim_gate_destroy(a);
}

/* --- over a socket ---------------------------------------------------------------------------- */

static whim_gate *the_gate;
static whim_exchange_notes noted;

static int pass_gate(void *ctx, whim_exchange *ex)
{
    (void)ctx;
    int replied = whim_gate_check(the_gate, ex);
    noted.client = whim_exchange_get_notes(ex)->client;
    noted.may_pass = whim_exchange_get_notes(ex)->may_pass;
    return replied;
}

#define END "Connection: close\r\n\r\n"
#define KEY "Authorization: Bearer sk-one\r\n"

#define ASK "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
#define FROM(address) "X-Forwarded-For: " address "\r\n"

/* A client is a key, wherever it comes from and however it is sent, and an address where there are
 * none. Only the marked key may pass others. */
static void test_clients(void **state)
{
    (void)state;
    enum { N = 5 };
    static fixture f;
    static const char *const asks[N] = {
        ASK FROM("192.0.2.1") KEY END,
        ASK FROM("192.0.2.1") "x-api-key: sk-one\r\n" END,
        ASK FROM("192.0.2.2") KEY END,
        ASK FROM("192.0.2.1") "x-api-key: sk-two-longer\r\n" END,
        ASK FROM("192.0.2.2") "x-api-key: sk-two-longer\r\n" END,
    };
    static const int who[2][N] = {{0, 0, 1, 0, 1}, {0, 0, 0, 1, 1}}; /* without keys and with */
    whim_network proxy;
    assert_int_equal(whim_network_parse("127.0.0.1", &proxy, NULL), WHIM_ERR_OK);
    for (int32_t with_keys = 0; with_keys < 2; with_keys++) {
        uint64_t client[N];
        the_gate = make(with_keys ? 2 : 0);
        fixture_open(&f, &(whim_http_cfg){.gate = pass_gate, .proxies = &proxy, .n_proxy = 1});
        for (int i = 0; i < N; i++) {
            assert_int_equal(status_of(ask(&f, asks[i])), 200);
            client[i] = noted.client;
            assert_int_equal(noted.may_pass, with_keys && i >= 3);
            for (int k = 0; k < i; k++) {
                assert_int_equal(client[i] == client[k], who[with_keys][i] == who[with_keys][k]);
            }
        }
        fixture_close(&f);
        whim_gate_destroy(the_gate);
    }
}

static void test_gate(void **state)
{
    (void)state;
    static fixture f;
    the_gate = make(2);
    fixture_open(&f, &(whim_http_cfg){.gate = pass_gate});
    const char *a = ask(&f, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" END);
    assert_int_equal(status_of(a), 401);
    assert_true(has(a, "\r\nWWW-Authenticate: Bearer\r\n") && has(a, "\"status\":401"));
    assert_true(has(a, "\r\nContent-Type: application/json\r\n"));
    a = ask(&f, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" KEY END);
    assert_int_equal(status_of(a), 200);
    assert_false(has(a, "Access-Control"));
    assert_int_equal(status_of(ask(&f, "HEAD /livez HTTP/1.1\r\nHost: localhost\r\n" END)), 200);
    a = ask(&f, "GET /livez HTTP/1.1\r\nHost: evil.example\r\n" KEY END);
    assert_true(status_of(a) == 403 && has(a, "--allow-host"));
    /* A target with a host of its own overrules the header. */
    a = ask(&f, "GET http://evil.example/livez HTTP/1.1\r\nHost: localhost\r\n" KEY END);
    assert_int_equal(status_of(a), 403);
    a = ask(&f, "GET /livez HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n" KEY END);
    assert_true(status_of(a) == 403 && has(a, "--cors-origin"));
    assert_false(has(a, "Access-Control"));
    a = ask(&f, "GET /v1/x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3\r\n" END);
    assert_int_equal(status_of(a), 401); /* the page may read why */
    assert_true(has(a, "\r\nAccess-Control-Allow-Origin: http://localhost:3\r\n"));
    assert_true(has(a, "\r\nVary: Origin\r\n") && !has(a, "Credentials"));
    assert_true(
        has(a, "\r\nAccess-Control-Expose-Headers: x-request-id, request-id, retry-after\r\n"));
    a = ask(&f, "OPTIONS /v1/x HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\n"
                "Access-Control-Request-Method: POST\r\n"
                "Access-Control-Request-Headers: x-stainless-os,anthropic-version\r\n" END);
    assert_int_equal(status_of(a), 204);
    assert_true(has(a, "\r\nAccess-Control-Allow-Headers: x-stainless-os,anthropic-version\r\n"));
    assert_true(has(a, "\r\nAccess-Control-Allow-Methods: GET, POST, OPTIONS\r\n"));
    assert_true(has(a, "\r\nAccess-Control-Max-Age: 600\r\n") && !has(a, "Content-Length"));
    a = ask(&f, "OPTIONS /v1/x HTTP/1.1\r\nHost: localhost\r\n" END);
    assert_true(status_of(a) == 204 && !has(a, "Access-Control"));
    a = ask(&f,
            "OPTIONS /v1/x HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n" END);
    assert_int_equal(status_of(a), 403);
    fixture_close(&f);
    whim_gate_destroy(the_gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),  cmocka_unit_test(test_open_paths),
        cmocka_unit_test(test_hosts), cmocka_unit_test(test_origins),
        cmocka_unit_test(test_gate),  cmocka_unit_test(test_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

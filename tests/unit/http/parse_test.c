/* SPDX-License-Identifier: Apache-2.0 */
/* The request parser: what it reads, and that no cut of the bytes changes it. (Refusals:
 * http_serve_test.c.) */
#include "support/cmocka.h"
#include "support/http_summary.h"

#include "base/alloc.h"

#include <string.h>

static const whim_http_parse_limits limits = {.max_body = 100, .max_headers = 400, .max_line = 80};

static void test_cuts(void **state)
{
    (void)state;
    static const char *const inputs[] = {
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\n\r\nPOST /a%2Fb/?q=1?2 HTTP/1.1\r\nHOST:h\r\nContent-Length: 5\r\nX: \t v \t "
        "\r\n\r\nhello"
        "GET http://x:1/y HTTP/1.0\r\nConnection: a, Keep-Alive ,b\r\n\r\nrest",
        "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\nExpect: 100-continue\r\n\r\n"
        "5;x=\"y\"\r\nhello\r\n0A\r\n0123456789\r\n00\r\nT: v\r\nU: w\r\n\r\nHEAD / "
        "HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\nxxx",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhellox",
        "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n folded\r\n\r\n",
        "GET /0123456789012345678901234567890123456789012345678901234567890123456789 HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        int64_t n = (int64_t)strlen(inputs[i]);
        whim_str whole = {0};
        http_summary(inputs[i], n, 0, n, &limits, &whole);
        for (int64_t cut = 0; cut <= n; cut++) {
            whim_str parts = {0};
            http_summary(inputs[i], n, cut, cut == 0 ? 1 : n, &limits, &parts);
            assert_string_equal(parts.text, whole.text);
            whim_str_deinit(&parts);
        }
        whim_str_deinit(&whole);
    }
}

static void test_reading(void **state)
{
    (void)state;
    static const char input[] =
        "POST /a%2Fb%20c//?q=%31 HTTP/1.1\r\nHoSt: h\r\nContent-Length: 2\r\n"
        "X-A:  one \r\nx-a: two\r\nConnection: x,close\r\n\r\nhiGET";
    whim_str out = {0};
    http_summary(input, sizeof input - 1, 0, 1000, &limits, &out);
    assert_string_equal(out.text,
                        "head at 107\n"
                        "POST /a/b c raw=/a%2Fb%20c// query=q=%31 authority=- version=11 length=2\n"
                        "chunked=0 continue=0 close=1 keep=0 refused=0\n"
                        "host=h\ncontent-length=2\nx-a=one\nx-a=two\nconnection=x,close\n"
                        "done at 109: hi\n"
                        "end, begun=1\n");
    whim_str_deinit(&out);
}

static void test_lists(void **state)
{
    (void)state;
    assert_true(whim_http_list_has("close", "close"));
    assert_true(whim_http_list_has(" , a ,\tCLOSE\t, b", "close"));
    assert_false(whim_http_list_has("", "close"));
    assert_false(whim_http_list_has("closed, not close", "close"));
    assert_false(whim_http_list_has(",,,", "close"));
}

/* Wherever memory runs out, the request is refused and nothing leaks. */
static void test_no_memory(void **state)
{
    (void)state;
    static const char input[] =
        "POST http://x/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n0\r\n\r\n";
    bool failed = true;
    int32_t rounds = 0;
    for (; failed; rounds++) {
        whim_http_parser p;
        int64_t used, at = 0;
        whim_http_parser_init(&p, &limits);
        whim_alloc_fail_after(rounds);
        whim_http_parsed got = WHIM_HTTP_MORE;
        while (at < (int64_t)sizeof input - 1 && got != WHIM_HTTP_BAD) {
            got = whim_http_parser_feed(&p, input + at, (int64_t)sizeof input - 1 - at, &used);
            at += used;
        }
        whim_alloc_fail_after(-1);
        failed = got != WHIM_HTTP_DONE;
        assert_true(!failed || (got == WHIM_HTTP_BAD && p.status == 503));
        whim_http_parser_deinit(&p);
    }
    assert_true(rounds > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A server of small sizes for all tests of a program. After each, it still answers. */
#ifndef WHIM_TESTS_UNIT_HTTP_SMALL_SERVER_H
#define WHIM_TESTS_UNIT_HTTP_SMALL_SERVER_H

#include "unit/http/http_fixture.h"

static fixture f;

/* Small sizes, and the usual times: a busy machine may be late with a client's next byte. */
static const whim_http_limits small = {.max_body = 1000,
                                       .max_headers = 2000,
                                       .max_line = 300,
                                       .max_connections = 24,
                                       .kept_for_health = 4,
                                       .max_queued = 100000};

static int open_small(void **state)
{
    (void)state;
    fixture_open(&f, &(whim_http_cfg){.limits = small});
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    fixture_close(&f);
    return 0;
}

static void still_works(void)
{
    assert_int_equal(status_of(ask(&f, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")),
                     200);
}

#define GET "GET / HTTP/1.1\r\nHost: h\r\n"
#define POST "POST /echo HTTP/1.1\r\nHost: h\r\n"

#endif

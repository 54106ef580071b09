/* SPDX-License-Identifier: Apache-2.0 */
/* All that the HTTP parser makes of some bytes, as a text, so that two ways of cutting them can be
 * compared. */
#ifndef WHIM_TESTS_SUPPORT_HTTP_SUMMARY_H
#define WHIM_TESTS_SUPPORT_HTTP_SUMMARY_H

#include "http/parse.h"

#include <stddef.h>

static inline void http_summary_request(const whim_http_parser *p, whim_str *out)
{
    whim_str_printf(out, "%s %s raw=%s query=%s authority=%s version=%d length=%lld\n",
                    whim_http_parser_method(p), p->path, p->raw_path, p->query,
                    p->authority != NULL ? p->authority : "-", p->version, (long long)p->length);
    whim_str_printf(out, "chunked=%d continue=%d close=%d keep=%d refused=%d\n", p->is_chunked,
                    p->expects_continue, p->wants_close, p->wants_keep, p->status);
    for (int32_t i = 0; i < p->n_field; i++) {
        whim_str_printf(out, "%s=%s\n", p->head.text + p->fields[i].name,
                        p->head.text + p->fields[i].value);
    }
}

/* Parse requests until the bytes end or one is bad; pieces of `step` bytes, and a cut at `cut`. */
static inline void http_summary(const char *bytes, int64_t n, int64_t cut, int64_t step,
                                const whim_http_parse_limits *limits, whim_str *out)
{
    whim_http_parser p;
    whim_http_parser_init(&p, limits);
    for (int64_t at = 0;;) {
        int64_t end = at < cut ? cut : n;
        end = end > at + step ? at + step : end;
        end = end > n ? n : end;
        int64_t used = 0;
        whim_http_parsed got = whim_http_parser_feed(&p, bytes + at, end - at, &used);
        at += used;
        if (got == WHIM_HTTP_HEAD) {
            whim_str_printf(out, "head at %lld\n", (long long)at);
            http_summary_request(&p, out);
            /* A body of no bytes is complete without more of them. */
            got = whim_http_parser_feed(&p, "", 0, &used);
        }
        if (got == WHIM_HTTP_DONE) {
            whim_str_printf(out, "done at %lld: ", (long long)at);
            whim_str_append_n(out, whim_str_text(&p.body), p.body.len);
            whim_str_append(out, "\n");
            whim_http_parser_deinit(&p);
            whim_http_parser_init(&p, limits);
        } else if (got == WHIM_HTTP_BAD) {
            whim_str_printf(out, "bad at %lld: %d %s\n", (long long)at, p.status, p.message);
            break;
        }
        if (at >= n) {
            whim_str_printf(out, "end, begun=%d\n", whim_http_parser_begun(&p));
            break;
        }
    }
    whim_http_parser_deinit(&p);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a reply. */
#include "http/internal.h"

#include <string.h>
#include <time.h>

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {200, "OK"},
        {204, "No Content"},
        {304, "Not Modified"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
        {529, "Overloaded"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].status == status) {
            return texts[i].text;
        }
    }
    return "Unknown";
}

/* The form that HTTP wants, whatever the locale. */
static void append_date(whim_str *out)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    whim_str_printf(out, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + 3 * tm.tm_wday,
                    tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
                    tm.tm_sec);
}

void whim_reply_head(const whim_exchange *ex, int status, const char *content_type, int64_t n_body,
                     whim_str *out)
{
    bool is_old = ex->parser.version == 10;
    whim_str_printf(out, "HTTP/1.1 %d %s\r\n", status, status_text(status));
    append_date(out);
    if (content_type != NULL && content_type[0] != '\0') {
        whim_str_printf(out, "Content-Type: %s\r\n", content_type);
    }
    if (n_body < 0) {
        whim_str_append(out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
        whim_str_append(out, is_old ? "" : "Transfer-Encoding: chunked\r\n");
    } else if (status != 204 && status != 304) {
        whim_str_printf(out, "Content-Length: %lld\r\n", (long long)n_body);
    }
    whim_str_printf(out, "x-request-id: %s\r\nrequest-id: %s\r\n", ex->request_id, ex->request_id);
    whim_str_append_n(out, whim_str_text(&ex->headers), ex->headers.len);
    if (!ex->keeps_alive) {
        whim_str_append(out, "Connection: close\r\n");
    } else if (is_old) {
        whim_str_append(out, "Connection: keep-alive\r\n");
    }
    whim_str_append(out, "\r\n");
}

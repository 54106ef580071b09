/* SPDX-License-Identifier: Apache-2.0 */
/* What a complete head of a request means: how long the body is, what the target names, what is
 * refused. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "http/parse.h"

#include <string.h>
#include <strings.h>

/* Headers that two programs must not read differently. */
static const char *const single[] = {"host", "authorization", "origin", "transfer-encoding",
                                     "content-encoding"};

static bool fail(whim_http_parser *p, int status, const char *message)
{
    whim_http_parser_fail(p, status, message);
    return false;
}

/* A fault that is told after the caller's own checks: the head itself is sound. */
static void refuse_body(whim_http_parser *p, int status, const char *message)
{
    if (p->status == 0) {
        p->status = status;
        p->message = message;
    }
}

/* Digits only; more than 18 of them is more than any limit. -1 when it is no number. */
static int64_t parse_length(const char *text)
{
    int64_t value = 0;
    size_t n = strlen(text);
    if (n == 0 || strspn(text, "0123456789") != n) {
        return -1;
    }
    text += strspn(text, "0");
    if (strlen(text) > 18) {
        return INT64_MAX;
    }
    for (; *text != '\0'; text++) {
        value = value * 10 + (*text - '0');
    }
    return value;
}

static bool take_lengths(whim_http_parser *p)
{
    const char *coding = whim_http_parser_header(p, "transfer-encoding");
    for (int32_t i = 0; i < p->n_field; i++) {
        if (strcmp(p->head.text + p->fields[i].name, "content-length") != 0) {
            continue;
        }
        int64_t length = parse_length(p->head.text + p->fields[i].value);
        if (length < 0) {
            return fail(p, 400, "Content-Length is not a number");
        }
        if (p->length >= 0 && p->length != length) {
            return fail(p, 400, "there are two different Content-Length headers");
        }
        p->length = length;
    }
    if (coding != NULL) {
        if (p->length >= 0) {
            return fail(p, 400, "Content-Length and Transfer-Encoding exclude each other");
        }
        if (p->version == 10) {
            return fail(p, 400, "HTTP/1.0 has no Transfer-Encoding");
        }
        if (strcasecmp(coding, "chunked") != 0) {
            return fail(p, 501, "the only Transfer-Encoding known here is chunked");
        }
        p->is_chunked = true;
    }
    if (p->length > p->limits.max_body) {
        refuse_body(p, 413, whim_http_too_large(&p->limits));
    }
    return true;
}

static bool check_single(whim_http_parser *p)
{
    for (size_t s = 0; s < sizeof single / sizeof single[0]; s++) {
        int32_t seen = 0;
        for (int32_t i = 0; i < p->n_field; i++) {
            seen += strcmp(p->head.text + p->fields[i].name, single[s]) == 0;
        }
        if (seen > 1) {
            return fail(p, 400, "a header that may come once comes twice");
        }
    }
    return true;
}

/* Percent-decode in place; false when a code is no code, a control byte, or the result is not
 * UTF-8. */
static bool decode_path(char *path)
{
    char *to = path;
    for (const char *from = path; *from != '\0'; from++) {
        unsigned char c = (unsigned char)*from;
        if (c == '%') {
            int high = whim_hex_value(from[1]);
            int low = high < 0 ? -1 : whim_hex_value(from[2]);
            if (low < 0) {
                return false;
            }
            c = (unsigned char)(high << 4 | low);
            from += 2;
            if (c < 0x20 || c == 0x7F) {
                return false;
            }
        }
        *to++ = (char)c;
    }
    *to = '\0';
    int64_t n = to - path;
    if (whim_utf8_valid_prefix(path, n) != n) {
        return false;
    }
    for (; n > 1 && path[n - 1] == '/'; n--) {
        path[n - 1] = '\0';
    }
    return true;
}

char *whim_http_copy(const char *text, size_t n)
{
    char *out = whim_alloc((int64_t)n + 1);
    if (out != NULL) {
        memcpy(out, text, n);
    }
    return out;
}

/* Split and decode the target; false with a fault noted. */
static bool target_parse(whim_http_parser *p, const char *method, const char *target)
{
    bool is_star = strcmp(target, "*") == 0 && strcmp(method, "OPTIONS") == 0;
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        const char *authority = strchr(target, ':') + 3;
        size_t n = strcspn(authority, "/?");
        p->authority = whim_http_copy(authority, n);
        if (p->authority == NULL) {
            return fail(p, 503, "out of memory");
        }
        if (n == 0 || strchr(p->authority, '@') != NULL) {
            return fail(p, 400, "the target of the request names no host");
        }
        target = authority + n;
    } else if (target[0] != '/' && !is_star) {
        return fail(p, 400, "the target of the request is not a path");
    }
    if (strchr(target, '#') != NULL) {
        return fail(p, 400, "the target of the request holds a fragment");
    }
    size_t n_path = strcspn(target, "?");
    p->query = target[n_path] == '?' ? target + n_path + 1 : "";
    p->raw_path = n_path == 0 ? whim_http_copy("/", 1) : whim_http_copy(target, n_path);
    p->path = n_path == 0 ? whim_http_copy("/", 1) : whim_http_copy(target, n_path);
    if (p->raw_path == NULL || p->path == NULL) {
        return fail(p, 503, "out of memory");
    }
    if (!decode_path(p->path)) {
        p->path[0] = '\0';
        return fail(p, 400, "the path holds a bad percent code");
    }
    return true;
}

bool whim_http_head_finish(whim_http_parser *p)
{
    if (!target_parse(p, whim_http_parser_method(p), p->head.text + p->target) ||
        !check_single(p) || !take_lengths(p)) {
        return false;
    }
    if (p->version == 11 && whim_http_parser_header(p, "host") == NULL) {
        return fail(p, 400, "there is no Host header");
    }
    const char *encoding = whim_http_parser_header(p, "content-encoding");
    if (encoding != NULL && *encoding != '\0' && strcasecmp(encoding, "identity") != 0) {
        refuse_body(p, 415, "a body with a Content-Encoding is not read; send it as it is");
    }
    const char *expect = whim_http_parser_header(p, "expect");
    p->expects_continue =
        p->version == 11 && expect != NULL && strcasecmp(expect, "100-continue") == 0;
    for (int32_t i = 0; i < p->n_field; i++) {
        if (strcmp(p->head.text + p->fields[i].name, "connection") == 0) {
            const char *list = p->head.text + p->fields[i].value;
            p->wants_close |= whim_http_list_has(list, "close");
            p->wants_keep |= whim_http_list_has(list, "keep-alive");
        }
    }
    return true;
}

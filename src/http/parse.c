/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request, line by line; and what all of the parser shares. */
#include "http/parse.h"

#include "base/alloc.h"

#include <string.h>
#include <strings.h>

void whim_http_parser_init(whim_http_parser *p, const whim_http_parse_limits *limits)
{
    *p = (whim_http_parser){.limits = *limits, .state = WHIM_HTTP_S_START, .length = -1};
}

void whim_http_parser_deinit(whim_http_parser *p)
{
    whim_str_deinit(&p->head);
    whim_str_deinit(&p->body);
    whim_free(p->fields);
    whim_free(p->path);
    whim_free(p->raw_path);
    whim_free(p->authority);
    *p = (whim_http_parser){.state = WHIM_HTTP_S_BAD};
}

int whim_http_parser_fail(whim_http_parser *p, int status, const char *message)
{
    p->status = status;
    p->message = message;
    p->state = WHIM_HTTP_S_BAD;
    return -1;
}

bool whim_http_parser_begun(const whim_http_parser *p)
{
    return p->state > WHIM_HTTP_S_START;
}

int64_t whim_http_parser_wants(const whim_http_parser *p)
{
    bool is_in_data = p->state == WHIM_HTTP_S_BODY || p->state == WHIM_HTTP_S_CHUNK_DATA;
    return is_in_data ? p->n_left : 0;
}

const char *whim_http_parser_method(const whim_http_parser *p)
{
    return whim_str_text(&p->head);
}

const char *whim_http_parser_header(const whim_http_parser *p, const char *name)
{
    for (int32_t i = 0; i < p->n_field; i++) {
        if (strcasecmp(p->head.text + p->fields[i].name, name) == 0) {
            return p->head.text + p->fields[i].value;
        }
    }
    return NULL;
}

bool whim_http_list_next(const char **at, const char **item, size_t *n)
{
    *at += strspn(*at, ", \t");
    *item = *at;
    *n = strcspn(*at, ",");
    *at += *n;
    while (*n > 0 && ((*item)[*n - 1] == ' ' || (*item)[*n - 1] == '\t')) {
        (*n)--;
    }
    return *n > 0;
}

bool whim_http_list_has(const char *list, const char *word)
{
    const char *item;
    size_t n, n_word = strlen(word);
    bool found = false;
    while (!found && whim_http_list_next(&list, &item, &n)) {
        found = n == n_word && strncasecmp(item, word, n) == 0;
    }
    return found;
}

/* Characters of methods and header names. */
static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

int64_t whim_http_line_take(whim_http_parser *p, whim_str *out, unsigned char c)
{
    if (p->has_cr) {
        int64_t n = p->n_line;
        p->has_cr = false;
        p->n_line = 0;
        return c == '\n' ? n : whim_http_parser_fail(p, 400, "a line ends with CR alone");
    }
    if (c != '\r' && whim_http_is_control(c)) {
        return whim_http_parser_fail(p, 400, "a line holds a control byte, or ends with LF alone");
    }
    p->has_cr = c == '\r';
    p->n_line += c != '\r';
    if (c != '\r' && out != NULL) {
        whim_str_append_char(out, (char)c);
    }
    return -1;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The request line, which is all of the head so far. */
static void request_line(whim_http_parser *p)
{
    char *line = p->head.text;
    int64_t n = 0;
    while (is_token((unsigned char)line[n])) {
        n++;
    }
    if (n == 0 || n > 32 || line[n] != ' ') {
        whim_http_parser_fail(p, 400, "the request does not begin with a method");
        return;
    }
    line[n] = '\0';
    p->target = n + 1;
    char *end = line + p->target;
    while (*end > ' ' && *end < 0x7F) {
        end++;
    }
    const char *version = end + 1;
    if (end == line + p->target || *end != ' ') {
        whim_http_parser_fail(p, 400, "the request line has no valid target and version");
    } else if (strncmp(version, "HTTP/", 5) != 0 || !is_digit(version[5]) || version[6] != '.' ||
               !is_digit(version[7]) || version[8] != '\0') {
        whim_http_parser_fail(p, 400, "the request line does not end with a version of HTTP");
    } else {
        /* A later 1.x is spoken to as 1.1. */
        p->version = (version[5] - '0') * 10 + (version[7] > '0');
        *end = '\0';
        p->head.len = end + 1 - line;
        p->state = WHIM_HTTP_S_FIELDS;
        if (p->version != 10 && p->version != 11) {
            whim_http_parser_fail(p, 505, "this server speaks HTTP/1.1");
        }
    }
}

/* The last line of the head, from `begin` on, is a header: a name, and a value without the blanks
 * before and after it. */
static void field_line(whim_http_parser *p, int64_t begin)
{
    char *name = p->head.text + begin, *colon = name;
    for (; is_token((unsigned char)*colon); colon++) {
        *colon = (char)(*colon >= 'A' && *colon <= 'Z' ? *colon + 32 : *colon);
    }
    if (*name == ' ' || *name == '\t') {
        whim_http_parser_fail(p, 400, "a header is folded over two lines");
    } else if (colon == name || *colon != ':') {
        whim_http_parser_fail(p, 400, "a header has no valid name");
    } else if (p->n_field == WHIM_HTTP_HEADERS_MAX) {
        whim_http_parser_fail(p, 431, "too many headers");
    } else if (!whim_grow(&p->fields, p->n_field + 1, &p->cap_field, sizeof *p->fields)) {
        whim_http_parser_fail(p, 503, "out of memory");
    } else {
        const char *value = colon + 1 + strspn(colon + 1, " \t");
        const char *end = p->head.text + p->head.len;
        while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
            end--;
        }
        *colon = '\0';
        p->fields[p->n_field++] = (whim_http_field){begin, value - p->head.text};
        p->head.len = end - p->head.text;
        whim_str_append_char(&p->head, '\0');
    }
}

static void head_byte(whim_http_parser *p, unsigned char c)
{
    bool in_line = p->state != WHIM_HTTP_S_FIELDS;
    if (++p->n_taken > (in_line ? p->limits.max_line : p->limits.max_headers)) {
        (void)(in_line ? whim_http_parser_fail(p, 414, "the request line is too long")
                       : whim_http_parser_fail(p, 431, "the headers are too large"));
        return;
    }
    if (p->state == WHIM_HTTP_S_START && c != '\r' && !p->has_cr) {
        p->state = WHIM_HTTP_S_LINE;
    }
    int64_t n = whim_http_line_take(p, &p->head, c);
    if (p->head.failed) {
        whim_http_parser_fail(p, 503, "out of memory");
    }
    if (n < 0 || p->state == WHIM_HTTP_S_BAD) {
        return;
    }
    if (p->state == WHIM_HTTP_S_LINE) {
        request_line(p);
        p->n_taken = 0; /* from here on the headers are counted */
    } else if (p->state == WHIM_HTTP_S_FIELDS && n == 0) {
        p->state = WHIM_HTTP_S_BODY;
    } else if (p->state == WHIM_HTTP_S_FIELDS) {
        field_line(p, p->head.len - n);
    }
}

whim_http_parsed whim_http_parser_feed(whim_http_parser *p, const char *bytes, int64_t n,
                                       int64_t *used)
{
    *used = 0;
    while (p->state < WHIM_HTTP_S_BODY && *used < n) {
        head_byte(p, (unsigned char)bytes[(*used)++]);
        if (p->state == WHIM_HTTP_S_BODY) {
            if (!whim_http_head_finish(p)) {
                return WHIM_HTTP_BAD;
            }
            whim_http_body_init(p);
            return WHIM_HTTP_HEAD;
        }
    }
    return p->state < WHIM_HTTP_S_BODY ? WHIM_HTTP_MORE : whim_http_body_feed(p, bytes, n, used);
}

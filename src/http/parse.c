/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a request, byte by byte; and what all of the parser shares. */
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

int32_t whim_http_parser_fail(whim_http_parser *p, int status, const char *message)
{
    p->status = status;
    p->message = message;
    p->state = WHIM_HTTP_S_BAD;
    return p->state;
}

bool whim_http_parser_begun(const whim_http_parser *p)
{
    return p->state > WHIM_HTTP_S_START_LF;
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

static void put(whim_http_parser *p, char c)
{
    whim_str_append_char(&p->head, c);
}

/* The byte of a request line. */
static int32_t line_byte(whim_http_parser *p, unsigned char c)
{
    switch (p->state) {
    case WHIM_HTTP_S_METHOD:
        if (c == ' ' && p->head.len > 0) {
            put(p, '\0');
            p->target = p->head.len;
            return WHIM_HTTP_S_TARGET;
        }
        if (!is_token(c) || p->head.len >= 32) {
            return whim_http_parser_fail(p, 400, "the request does not begin with a method");
        }
        put(p, (char)c);
        return WHIM_HTTP_S_METHOD;
    case WHIM_HTTP_S_TARGET:
        if (c == ' ' && p->head.len > p->target) {
            put(p, '\0');
            p->n_left = 0;
            return WHIM_HTTP_S_VERSION;
        }
        if (c <= ' ' || c >= 0x7F) {
            return whim_http_parser_fail(p, 400,
                                         "the request line has no valid target and version");
        }
        put(p, (char)c);
        return WHIM_HTTP_S_TARGET;
    default:
        break;
    }
    /* The version; n_left counts its bytes. */
    static const char form[] = "HTTP/0.0";
    int64_t at = p->n_left++;
    bool is_digit = c >= '0' && c <= '9';
    if (at == 8 ? c != '\r' : form[at] == '0' ? !is_digit : c != (unsigned char)form[at]) {
        return whim_http_parser_fail(p, 400,
                                     "the request line does not end with a version of HTTP");
    }
    if (at == 5) {
        p->version = (c - '0') * 10;
    } else if (at == 7) {
        p->version += c > '0' ? 1 : 0; /* a later 1.x is spoken to as 1.1 */
    } else if (at == 8) {
        if (p->version != 10 && p->version != 11) {
            return whim_http_parser_fail(p, 505, "this server speaks HTTP/1.1");
        }
        return WHIM_HTTP_S_LINE_LF;
    }
    return WHIM_HTTP_S_VERSION;
}

static bool field_begin(whim_http_parser *p)
{
    if (p->n_field == WHIM_HTTP_HEADERS_MAX) {
        whim_http_parser_fail(p, 431, "too many headers");
        return false;
    }
    if (!whim_grow(&p->fields, p->n_field + 1, &p->cap_field, sizeof *p->fields)) {
        whim_http_parser_fail(p, 503, "out of memory");
        return false;
    }
    p->fields[p->n_field].name = p->head.len;
    return true;
}

/* The byte of a header's name. */
static int32_t name_byte(whim_http_parser *p, unsigned char c)
{
    if (p->state == WHIM_HTTP_S_NAME_START) {
        if (c == '\r') {
            return WHIM_HTTP_S_END_LF;
        }
        if (c == ' ' || c == '\t') {
            return whim_http_parser_fail(p, 400, "a header is folded over two lines");
        }
        if (!field_begin(p)) {
            return WHIM_HTTP_S_BAD;
        }
    }
    if (c == ':' && p->state == WHIM_HTTP_S_NAME) {
        put(p, '\0');
        p->fields[p->n_field].value = p->head.len;
        p->n_value = 0;
        return WHIM_HTTP_S_VALUE_START;
    }
    if (!is_token(c)) {
        return whim_http_parser_fail(p, 400, "a header has no valid name");
    }
    put(p, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
    return WHIM_HTTP_S_NAME;
}

/* The byte of a header's value: without the blanks before and after it. */
static int32_t value_byte(whim_http_parser *p, unsigned char c)
{
    if (p->state == WHIM_HTTP_S_VALUE_LF) {
        if (c != '\n') {
            return whim_http_parser_fail(p, 400, "a line ends with CR alone");
        }
        return WHIM_HTTP_S_NAME_START;
    }
    if (c == '\r') {
        p->head.len = p->fields[p->n_field].value + p->n_value;
        put(p, '\0');
        p->n_field++;
        return WHIM_HTTP_S_VALUE_LF;
    }
    if (whim_http_is_control(c)) {
        return whim_http_parser_fail(p, 400,
                                     "a header holds a control byte, or a line ends with LF alone");
    }
    bool is_blank = c == ' ' || c == '\t';
    if (is_blank && p->state == WHIM_HTTP_S_VALUE_START) {
        return WHIM_HTTP_S_VALUE_START;
    }
    put(p, (char)c);
    if (!is_blank) {
        p->n_value = p->head.len - p->fields[p->n_field].value;
    }
    return WHIM_HTTP_S_VALUE;
}

/* The CRs and LFs between lines. */
static int32_t break_byte(whim_http_parser *p, unsigned char c)
{
    if (p->state == WHIM_HTTP_S_START && c == '\r') {
        return WHIM_HTTP_S_START_LF;
    }
    if (c != '\n') {
        return whim_http_parser_fail(p, 400, "a line ends with CR alone");
    }
    if (p->state == WHIM_HTTP_S_START_LF) {
        return WHIM_HTTP_S_START;
    }
    if (p->state == WHIM_HTTP_S_LINE_LF) {
        p->n_taken = 0; /* from here on the headers are counted */
        return WHIM_HTTP_S_NAME_START;
    }
    return WHIM_HTTP_S_BODY;
}

static int32_t head_byte(whim_http_parser *p, unsigned char c)
{
    bool in_line = p->state <= WHIM_HTTP_S_LINE_LF;
    if (++p->n_taken > (in_line ? p->limits.max_line : p->limits.max_headers)) {
        return in_line ? whim_http_parser_fail(p, 414, "the request line is too long")
                       : whim_http_parser_fail(p, 431, "the headers are too large");
    }
    switch (p->state) {
    case WHIM_HTTP_S_START:
        if (c != '\r') {
            p->state = WHIM_HTTP_S_METHOD;
            return line_byte(p, c);
        }
        return break_byte(p, c);
    case WHIM_HTTP_S_METHOD:
    case WHIM_HTTP_S_TARGET:
    case WHIM_HTTP_S_VERSION:
        return line_byte(p, c);
    case WHIM_HTTP_S_NAME_START:
    case WHIM_HTTP_S_NAME:
        return name_byte(p, c);
    case WHIM_HTTP_S_VALUE_START:
    case WHIM_HTTP_S_VALUE:
    case WHIM_HTTP_S_VALUE_LF:
        return value_byte(p, c);
    default:
        return break_byte(p, c);
    }
}

whim_http_parsed whim_http_parser_feed(whim_http_parser *p, const char *bytes, int64_t n,
                                       int64_t *used)
{
    *used = 0;
    if (p->state >= WHIM_HTTP_S_BODY) {
        return p->state == WHIM_HTTP_S_BAD ? WHIM_HTTP_BAD : whim_http_body_feed(p, bytes, n, used);
    }
    for (int64_t i = 0; i < n; i++) {
        p->state = head_byte(p, (unsigned char)bytes[i]);
        *used = i + 1;
        if (p->head.failed) {
            whim_http_parser_fail(p, 503, "out of memory");
        }
        if (p->state == WHIM_HTTP_S_BAD) {
            return WHIM_HTTP_BAD;
        }
        if (p->state == WHIM_HTTP_S_BODY) {
            if (!whim_http_head_finish(p)) {
                return WHIM_HTTP_BAD;
            }
            whim_http_body_init(p);
            return WHIM_HTTP_HEAD;
        }
    }
    return WHIM_HTTP_MORE;
}

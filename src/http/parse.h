/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one HTTP/1.1 request, taken in any pieces. It knows no sockets and no time.
 *
 * Strict, because what two programs read differently is how requests are smuggled: lines end with
 * CR LF, a bare CR or LF, a NUL, a control byte, a folded header, white space around a header's
 * name, two lengths or a length beside Transfer-Encoding are refused.
 *
 * Invariants:
 *  1. The result (texts, status, bytes used) does not depend on how the bytes are cut into pieces.
 *  2. Memory grows with what has arrived, never with what a header claims, and ends at the limits.
 * Threads: a parser belongs to one thread at a time. */
#ifndef WHIM_HTTP_PARSE_H
#define WHIM_HTTP_PARSE_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WHIM_HTTP_HEADERS_MAX = 128 };

typedef struct whim_http_parse_limits {
    int64_t max_body, max_headers, max_line;
    const char *too_large; /* what is said of a larger body; NULL: the usual */
} whim_http_parse_limits;

const char *whim_http_too_large(const whim_http_parse_limits *limits);

typedef enum whim_http_parsed {
    WHIM_HTTP_MORE, /* all bytes taken, more are needed */
    WHIM_HTTP_HEAD, /* the head is complete; said once, feed on for the body */
    WHIM_HTTP_DONE, /* the request is complete; what is not used belongs to the next */
    WHIM_HTTP_BAD,  /* status and message say why; said again for whatever comes */
} whim_http_parsed;

typedef struct whim_http_field {
    int64_t name, value; /* offsets into head; the name is in lower case */
} whim_http_field;

typedef struct whim_http_parser {
    whim_http_parse_limits limits;
    int32_t state;
    /* The head: method NUL target NUL and each name NUL, blanks, value NUL. */
    whim_str head;
    int64_t target;
    whim_http_field *fields;
    int32_t n_field;
    int64_t cap_field;
    int32_t version; /* 10 or 11 */
    int64_t n_taken; /* bytes of the line, the headers, the chunk line: whatever is being limited */
    int64_t n_line;  /* bytes of the line at work, without its CR */
    bool has_cr;     /* which came */
    /* The body. */
    whim_str body;
    int64_t n_left;       /* of the body or chunk */
    int64_t n_chunk_line; /* bytes of chunk lines in all */
    int64_t length;       /* Content-Length, -1: none */
    bool is_chunked, expects_continue, wants_close, wants_keep;
    /* A fault. In the HEAD result: the body must not be read; the caller refuses it after its own
     * checks. */
    int32_t status;
    const char *message;
    /* What the target says, from HEAD on. */
    char *path, *raw_path, *authority; /* authority: of an absolute target, else NULL */
    const char *query;
} whim_http_parser;

void whim_http_parser_init(whim_http_parser *p, const whim_http_parse_limits *limits);
void whim_http_parser_deinit(whim_http_parser *p);

/* Take bytes; *used says how many. A call with n = 0 after HEAD says DONE when there is no body. */
whim_http_parsed whim_http_parser_feed(whim_http_parser *p, const char *bytes, int64_t n,
                                       int64_t *used);

/* Whether bytes of a request have arrived (empty lines before it do not count). */
bool whim_http_parser_begun(const whim_http_parser *p);

/* So many of the bytes that come next belong to this request, as far as it is known. */
int64_t whim_http_parser_wants(const whim_http_parser *p);

const char *whim_http_parser_method(const whim_http_parser *p);
/* The first value of a header, name in any case, or NULL. */
const char *whim_http_parser_header(const whim_http_parser *p, const char *name);

/* The next item of a comma-separated list without the blanks around it; false at its end. */
bool whim_http_list_next(const char **at, const char **item, size_t *n);

/* Whether such a list holds the word, in any case. */
bool whim_http_list_has(const char *list, const char *word);

static inline bool whim_http_is_control(unsigned char c)
{
    return (c < 0x20 && c != '\t') || c == 0x7F;
}

/* --- its parts -------------------------------------------------------------------------------- */

/* Note a fault. Always -1. */
int whim_http_parser_fail(whim_http_parser *p, int status, const char *message);

/* Take a byte of a line, and append it unless `out` is NULL. The length of the line without CR LF
 * when it is whole; -1: it is not, or a fault was noted. */
int64_t whim_http_line_take(whim_http_parser *p, whim_str *out, unsigned char c);

/* A text of its own; NULL without memory. */
char *whim_http_copy(const char *text, size_t n);

/* What the complete head means: lengths, target, what is refused; false when a fault was noted. */
bool whim_http_head_finish(whim_http_parser *p);

/* The body from the state that head_finish chose. */
void whim_http_body_init(whim_http_parser *p);
whim_http_parsed whim_http_body_feed(whim_http_parser *p, const char *bytes, int64_t n,
                                     int64_t *used);

/* The states, shared by head and body. */
enum {
    WHIM_HTTP_S_START, /* empty lines before a request */
    WHIM_HTTP_S_LINE,
    WHIM_HTTP_S_FIELDS,
    WHIM_HTTP_S_BODY, /* from here on: the body */
    WHIM_HTTP_S_CHUNK_SIZE,
    WHIM_HTTP_S_CHUNK_EXT,
    WHIM_HTTP_S_CHUNK_DATA,
    WHIM_HTTP_S_CHUNK_END,
    WHIM_HTTP_S_TRAILERS,
    WHIM_HTTP_S_DONE,
    WHIM_HTTP_S_BAD,
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a request: of a known length, or in chunks. Chunk extensions and trailers are read
 * and dropped. */
#include "http/parse.h"

#include <string.h>

enum {
    CHUNK_LINE_MAX = 256,      /* bytes of a chunk's size line */
    CHUNK_OVERHEAD_MIN = 65536 /* bytes that may always go into size lines, see chunk_overhead */
};

void whim_http_body_init(whim_http_parser *p)
{
    p->n_taken = 0;
    p->n_left = p->is_chunked ? 0 : p->length;
    if (p->is_chunked) {
        p->state = WHIM_HTTP_S_CHUNK_SIZE;
    } else {
        p->state = p->length > 0 ? WHIM_HTTP_S_BODY : WHIM_HTTP_S_DONE;
    }
    if (p->status != 0) {
        p->state = WHIM_HTTP_S_BAD; /* whoever feeds on is told the same */
    }
}

const char *whim_http_too_large(const whim_http_parse_limits *limits)
{
    return limits->too_large != NULL ? limits->too_large : "the request body is too large";
}

/* Bytes of body or chunk, as many as are there. */
static int64_t take_data(whim_http_parser *p, const char *bytes, int64_t n)
{
    int64_t take = n < p->n_left ? n : p->n_left;
    whim_str_append_n(&p->body, bytes, take);
    p->n_left -= take;
    if (p->body.failed) {
        whim_http_parser_fail(p, 503, "out of memory");
    } else if (p->n_left == 0) {
        p->state = p->state == WHIM_HTTP_S_BODY ? WHIM_HTTP_S_DONE : WHIM_HTTP_S_CHUNK_END;
    }
    return take;
}

/* Chunks of one byte with long extensions would make work without data. */
static bool chunk_overhead(whim_http_parser *p)
{
    p->n_taken++;
    p->n_chunk_line++;
    return p->n_taken > CHUNK_LINE_MAX || p->n_chunk_line > CHUNK_OVERHEAD_MIN + 16 * p->body.len;
}

/* A byte of the line that gives a chunk's size. */
static void size_byte(whim_http_parser *p, unsigned char c)
{
    int digit = p->state == WHIM_HTTP_S_CHUNK_SIZE ? whim_hex_value((char)c) : -1;
    if (chunk_overhead(p)) {
        whim_http_parser_fail(p, 400, "the chunk lines of the body are too long");
    } else if (digit >= 0) {
        p->n_left = p->n_left * 16 + digit;
        if (p->n_left > p->limits.max_body - p->body.len) {
            whim_http_parser_fail(p, 413, whim_http_too_large(&p->limits));
        }
    } else if (p->state == WHIM_HTTP_S_CHUNK_SIZE && (p->n_taken == 1 || (c != ';' && c != '\r'))) {
        whim_http_parser_fail(p, 400, "a chunk of the body has no valid size");
    } else {
        p->state = WHIM_HTTP_S_CHUNK_EXT;
        if (whim_http_line_take(p, NULL, c) >= 0) {
            p->n_taken = 0;
            p->state = p->n_left == 0 ? WHIM_HTTP_S_TRAILERS : WHIM_HTTP_S_CHUNK_DATA;
        }
    }
}

static void chunk_byte(whim_http_parser *p, unsigned char c)
{
    if (p->state == WHIM_HTTP_S_CHUNK_SIZE || p->state == WHIM_HTTP_S_CHUNK_EXT) {
        size_byte(p, c);
    } else if (p->state == WHIM_HTTP_S_TRAILERS) { /* which are dropped */
        if (++p->n_taken > p->limits.max_headers) {
            whim_http_parser_fail(p, 431, "the trailers of the body are too large");
        } else if (whim_http_line_take(p, NULL, c) == 0) {
            p->state = WHIM_HTTP_S_DONE;
        }
    } else if (c != '\r' && !p->has_cr) {
        whim_http_parser_fail(p, 400, "a chunk is longer than its size");
    } else if (whim_http_line_take(p, NULL, c) == 0) {
        p->n_taken = 0;
        p->state = WHIM_HTTP_S_CHUNK_SIZE;
    }
}

whim_http_parsed whim_http_body_feed(whim_http_parser *p, const char *bytes, int64_t n,
                                     int64_t *used)
{
    while (p->state != WHIM_HTTP_S_DONE && p->state != WHIM_HTTP_S_BAD && *used < n) {
        if (p->state == WHIM_HTTP_S_BODY || p->state == WHIM_HTTP_S_CHUNK_DATA) {
            *used += take_data(p, bytes + *used, n - *used);
        } else {
            chunk_byte(p, (unsigned char)bytes[(*used)++]);
        }
    }
    if (p->state == WHIM_HTTP_S_BAD) {
        return WHIM_HTTP_BAD;
    }
    return p->state == WHIM_HTTP_S_DONE ? WHIM_HTTP_DONE : WHIM_HTTP_MORE;
}

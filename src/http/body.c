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

/* Bytes of body or chunk, as many as are there. */
static int64_t take_data(whim_http_parser *p, const char *bytes, int64_t n)
{
    int64_t take = n < p->n_left ? n : p->n_left;
    whim_str_append_n(&p->body, bytes, take);
    p->n_left -= take;
    if (p->body.failed) {
        whim_http_parser_fail(p, 503, "out of memory");
    } else if (p->n_left == 0) {
        p->state = p->state == WHIM_HTTP_S_BODY ? WHIM_HTTP_S_DONE : WHIM_HTTP_S_CHUNK_END_CR;
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
static int32_t size_byte(whim_http_parser *p, unsigned char c)
{
    if (chunk_overhead(p)) {
        return whim_http_parser_fail(p, 400, "the chunk lines of the body are too long");
    }
    if (p->state == WHIM_HTTP_S_CHUNK_SIZE) {
        int digit = whim_hex_value((char)c);
        if (digit >= 0) {
            p->n_left = p->n_left * 16 + digit;
            if (p->n_left > p->limits.max_body - p->body.len) {
                return whim_http_parser_fail(p, 413, "the request body is too large");
            }
            return WHIM_HTTP_S_CHUNK_SIZE;
        }
        if (p->n_taken == 1 || (c != ';' && c != '\r')) {
            return whim_http_parser_fail(p, 400, "a chunk of the body has no valid size");
        }
    }
    if (c == '\r') {
        return WHIM_HTTP_S_CHUNK_LF;
    }
    if (whim_http_is_control(c)) {
        return whim_http_parser_fail(p, 400, "a chunk of the body has no valid size");
    }
    return WHIM_HTTP_S_CHUNK_EXT;
}

/* A byte of a trailer line, which is dropped. */
static int32_t trailer_byte(whim_http_parser *p, unsigned char c)
{
    if (++p->n_taken > p->limits.max_headers) {
        return whim_http_parser_fail(p, 431, "the trailers of the body are too large");
    }
    if (c == '\r') {
        return p->state == WHIM_HTTP_S_TRAILER_START ? WHIM_HTTP_S_FINAL_LF
                                                     : WHIM_HTTP_S_TRAILER_LF;
    }
    if (whim_http_is_control(c)) {
        return whim_http_parser_fail(p, 400, "a trailer of the body holds a control byte");
    }
    return WHIM_HTTP_S_TRAILER;
}

static int32_t chunk_byte(whim_http_parser *p, unsigned char c)
{
    switch (p->state) {
    case WHIM_HTTP_S_CHUNK_SIZE:
    case WHIM_HTTP_S_CHUNK_EXT:
        return size_byte(p, c);
    case WHIM_HTTP_S_TRAILER_START:
    case WHIM_HTTP_S_TRAILER:
        return trailer_byte(p, c);
    case WHIM_HTTP_S_CHUNK_END_CR:
        return c == '\r' ? WHIM_HTTP_S_CHUNK_END_LF
                         : whim_http_parser_fail(p, 400, "a chunk is longer than its size");
    default:
        break;
    }
    if (c != '\n') {
        return whim_http_parser_fail(p, 400, "a line of the body ends with CR alone");
    }
    switch (p->state) {
    case WHIM_HTTP_S_CHUNK_LF:
        p->n_taken = 0;
        return p->n_left == 0 ? WHIM_HTTP_S_TRAILER_START : WHIM_HTTP_S_CHUNK_DATA;
    case WHIM_HTTP_S_CHUNK_END_LF:
        p->n_taken = 0;
        return WHIM_HTTP_S_CHUNK_SIZE;
    case WHIM_HTTP_S_TRAILER_LF:
        return WHIM_HTTP_S_TRAILER_START;
    default:
        return WHIM_HTTP_S_DONE;
    }
}

whim_http_parsed whim_http_body_feed(whim_http_parser *p, const char *bytes, int64_t n,
                                     int64_t *used)
{
    while (p->state != WHIM_HTTP_S_DONE && p->state != WHIM_HTTP_S_BAD && *used < n) {
        if (p->state == WHIM_HTTP_S_BODY || p->state == WHIM_HTTP_S_CHUNK_DATA) {
            *used += take_data(p, bytes + *used, n - *used);
        } else {
            p->state = chunk_byte(p, (unsigned char)bytes[(*used)++]);
        }
    }
    if (p->state == WHIM_HTTP_S_BAD) {
        return WHIM_HTTP_BAD;
    }
    return p->state == WHIM_HTTP_S_DONE ? WHIM_HTTP_DONE : WHIM_HTTP_MORE;
}

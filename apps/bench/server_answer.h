/* SPDX-License-Identifier: Apache-2.0 */
/* One answer of an OpenAI-compatible server as its bytes arrive: HTTP/1.1 head, body with chunks, a
 * length or up to the end of the connection, and in it either events (a stream of tokens) or a
 * document. Knows no sockets.
 * Invariants:
 *  1. Any cut of the bytes into pieces gives the same answer, but for the times.
 *  2. What is kept is bounded; work is linear in the bytes.
 * Threads: an answer belongs to its caller. */
#ifndef WHIM_APPS_BENCH_SERVER_ANSWER_H
#define WHIM_APPS_BENCH_SERVER_ANSWER_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* How a request ended: its name in JSON, and how it is told. */
#define SERVE_FAULTS(X)                                       \
    X(NONE, "none", "answered")                               \
    X(CONNECT, "connect", "no connection")                    \
    X(STATUS, "status", "refused with HTTP status")           \
    X(STREAM, "stream", "an error inside the stream")         \
    X(CUT, "cut", "cut off before the end")                   \
    X(PROTOCOL, "protocol", "not HTTP or not JSON")           \
    X(NO_STREAM, "no_stream", "answered without streaming")   \
    X(EMPTY, "empty", "ended without a token")                \
    X(TIMEOUT, "timeout", "silent for longer than --timeout") \
    X(MEMORY, "memory", "out of memory here")

typedef enum serve_fault {
#define X(NAME, name, text) SERVE_FAULT_##NAME,
    SERVE_FAULTS(X)
#undef X
        SERVE_FAULT_COUNT
} serve_fault;

typedef enum serve_stage {
    SERVE_STAGE_STATUS,
    SERVE_STAGE_HEADERS,
    SERVE_STAGE_BODY,
    SERVE_STAGE_CHUNK_SIZE,
    SERVE_STAGE_CHUNK,
    SERVE_STAGE_CHUNK_END,
    SERVE_STAGE_TRAILERS,
    SERVE_STAGE_COMPLETE, /* the last byte came, or a fault ended it */
} serve_stage;

typedef struct serve_answer {
    serve_stage stage;
    serve_fault fault;
    int32_t status;
    bool chunked, is_events;
    bool begun;          /* a choice was seen */
    bool done, finished; /* the end mark came; a chunk told why generation ended */
    int64_t left;        /* bytes of the body or chunk; -1: up to the end of the connection */
    int64_t n_head;      /* bytes outside the body since its last chunk */
    whim_str head, line; /* of the head (or a chunk's size) and of an event, not yet ended */
    whim_str data;       /* of the event that is not yet ended; without events the body */
    bool has_data;

    int64_t *times; /* [n_time] arrivals of chunks with tokens */
    int64_t n_time, max_time;
    bool has_usage;
    int64_t prompt_tokens, gen_tokens, cached_tokens; /* by usage */
    char message[160];                                /* the server's own words about a fault */
} serve_answer;

/* Caller's storage, {0} before the first; reset keeps memory for the next one. */
void serve_answer_reset(serve_answer *a);
void serve_answer_deinit(serve_answer *a);

/* Bytes that arrived at `now`. What follows a complete answer is ignored. */
void serve_answer_feed(serve_answer *a, const char *bytes, int64_t n, int64_t now);

/* No more bytes come. Afterwards `fault` says how the request ended: of a stream, or of a document
 * (`data`). */
void serve_answer_end(serve_answer *a, bool wants_stream);

/* Put a fault in words of our own; the first fault stays. */
void serve_answer_fail(serve_answer *a, serve_fault fault, const char *message);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One reply of an OpenAI-compatible server as its bytes arrive: HTTP/1.1 head, body with chunks, a
 * length or up to the end of the connection, and in it either events (a stream of tokens) or a
 * document. Knows no sockets.
 * Invariants:
 *  1. Any cut of the bytes into pieces gives the same reply, but for the times.
 *  2. What is kept is bounded; work is linear in the bytes.
 * Threads: a reply belongs to its caller. */
#ifndef WHIM_APPS_CLIENT_SERVER_REPLY_H
#define WHIM_APPS_CLIENT_SERVER_REPLY_H

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* How a request ended: its name in JSON, and in text. */
#define SERVER_FAULTS(X)                                      \
    X(NONE, "none", "answered")                               \
    X(CONNECT, "connect", "no connection")                    \
    X(TLS, "tls", "no https")                                 \
    X(STATUS, "status", "refused with HTTP status")           \
    X(STREAM, "stream", "an error inside the stream")         \
    X(CUT, "cut", "cut off before the end")                   \
    X(PROTOCOL, "protocol", "not HTTP or not JSON")           \
    X(NO_STREAM, "no_stream", "answered without streaming")   \
    X(EMPTY, "empty", "ended without a token")                \
    X(TIMEOUT, "timeout", "silent for longer than --timeout") \
    X(STOPPED, "stopped", "stopped here")                     \
    X(MEMORY, "memory", "out of memory here")

typedef enum server_fault {
#define X(NAME, name, text) SERVER_FAULT_##NAME,
    SERVER_FAULTS(X)
#undef X
        SERVER_FAULT_COUNT
} server_fault;

typedef enum server_stage {
    SERVER_STAGE_STATUS,
    SERVER_STAGE_HEADERS,
    SERVER_STAGE_BODY,
    SERVER_STAGE_CHUNK_SIZE,
    SERVER_STAGE_CHUNK,
    SERVER_STAGE_CHUNK_END,
    SERVER_STAGE_TRAILERS,
    SERVER_STAGE_COMPLETE, /* the last byte came, or a fault ended it */
} server_stage;

typedef struct server_reply {
    server_stage stage;
    server_fault fault;
    int32_t status;
    bool chunked, is_events;
    bool begun;          /* a choice was seen */
    bool done, finished; /* the end mark came; a chunk said why generation ended */
    int64_t left;        /* bytes of the body or chunk; -1: up to the end of the connection */
    int64_t n_head;      /* bytes outside the body since its last chunk */
    whim_str head, line; /* of the head (or a chunk's size) and of an event, not yet ended */
    whim_str data;       /* of the event that is not yet ended; without events the body */
    bool has_data;

    /* Each chunk of a stream as it comes, before it is looked at here; NULL: not wanted. */
    void (*on_chunk)(void *ctx, const whim_json *chunk);
    void *ctx;

    int64_t *times; /* [n_time] arrivals of chunks with tokens */
    int64_t n_time, max_time;
    bool has_usage;
    int64_t prompt_tokens, gen_tokens, cached_tokens; /* by usage */
    char message[320];                                /* the server's own words about a fault */
} server_reply;

/* Caller's storage, {0} before the first; reset keeps memory for the next one. */
void server_reply_reset(server_reply *a);
void server_reply_deinit(server_reply *a);

/* Bytes that arrived at `now`. What follows a complete reply is ignored. */
void server_reply_feed(server_reply *a, const char *bytes, int64_t n, int64_t now);

/* No more bytes come. Afterwards `fault` says how the request ended: of a stream, or of a document
 * (`data`). */
void server_reply_end(server_reply *a, bool wants_stream);

/* Put a fault in words of our own; the first fault stays. */
void server_reply_fail(server_reply *a, server_fault fault, const char *message);

#endif

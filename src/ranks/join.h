/* SPDX-License-Identifier: Apache-2.0 */
/* How the agent of another host joins a leader: three fixed messages over TCP. The leader begins
 * with a number that nobody has seen before; the agent says who it is and what it would run, and
 * proves that it knows the job's secret; the leader proves the same and says yes, or why not. So
 * nobody joins without the secret, and no leader is believed that has none. What follows
 * (ranks/wire.h) is neither encrypted nor proved: hosts need a network of their own.
 * Threads: pure functions. */
#ifndef WHIM_RANKS_JOIN_H
#define WHIM_RANKS_JOIN_H

#include "base/sha256.h"
#include "engine/engine.h"

enum {
    WHIM_JOIN_MAGIC = 0x6e696f6a,
    WHIM_JOIN_WORD = 32,
    WHIM_JOIN_NONCE = 32,
    WHIM_JOIN_TEXT = 1024,
    WHIM_JOIN_MAX_NODE = 256,
    WHIM_JOIN_LEAST_SECRET = 16, /* bytes */
    WHIM_JOIN_MS = 2000,         /* for the three messages */
};

/* All in which nodes must be alike, as options and files have it; join.def lists it. Empty texts
 * and zeros: nobody said. */
typedef struct whim_join_facts {
#define WHIM_JOIN_NUMBER(field, name) int64_t field;
#define WHIM_JOIN_TEXT_OF(field, name) char field[WHIM_JOIN_WORD];
#include "ranks/join.def"
} whim_join_facts;

/* A text as facts have it: of one that is too long, its beginning and a sum of all of it. */
void whim_join_text(char out[WHIM_JOIN_WORD], const char *text);

/* What a node has room for by itself. */
typedef struct whim_join_room {
    int64_t memory; /* bytes that are free for its ranks */
    whim_engine_sizes sizes;
} whim_join_room;

typedef struct whim_join_challenge {
    uint32_t magic, bytes;
    char version[WHIM_JOIN_WORD];
    uint8_t nonce[WHIM_JOIN_NONCE];
} whim_join_challenge;

typedef struct whim_join_hello {
    uint32_t magic, bytes;
    char version[WHIM_JOIN_WORD];
    int64_t node;
    whim_join_room room;
    whim_join_facts facts;
    uint8_t nonce[WHIM_JOIN_NONCE];
    uint8_t proof[WHIM_SHA256_BYTES];
} whim_join_hello;

/* BUSY: the node may try again; any other error will not go away by itself. */
typedef struct whim_join_answer {
    uint32_t magic, bytes;
    int64_t err;
    char text[WHIM_JOIN_TEXT];
    int64_t limit_ns; /* of silence, for both */
    uint8_t proof[WHIM_SHA256_BYTES];
} whim_join_answer;

typedef struct whim_join_secret {
    const char *text;
    int64_t bytes;
} whim_join_secret;

/* What an engine that was prepared by `cfg` has; n_node and n_rank of all hosts. */
WHIM_MUST_CHECK whim_err whim_join_facts_of(const whim_engine *engine, const whim_engine_cfg *cfg,
                                            int32_t n_node, whim_join_facts *out, whim_diag *diag);

/* INVALID with the first that differs, and both values. */
WHIM_MUST_CHECK whim_err whim_join_compare(const whim_join_facts *leader,
                                           const whim_join_facts *node, int64_t number,
                                           whim_diag *diag);

/* The leader's first message. IO: the system has no random bytes. */
WHIM_MUST_CHECK whim_err whim_join_challenge_make(whim_join_challenge *out, whim_diag *diag);

/* The agent's answer to it. CORRUPT: it is none; UNSUPPORTED: the leader is another version. */
WHIM_MUST_CHECK whim_err whim_join_hello_make(const whim_join_challenge *challenge,
                                              const whim_join_facts *facts, int32_t node,
                                              const whim_join_room *room, whim_join_secret secret,
                                              whim_join_hello *out, whim_diag *diag);

/* What the leader finds in that. CORRUPT: it is none, or from another build; NOT_FOUND: it does not
 * know the secret, and is told no more; INVALID: it must not join. */
WHIM_MUST_CHECK whim_err whim_join_hello_check(const whim_join_challenge *challenge,
                                               const whim_join_hello *hello,
                                               const whim_join_facts *facts,
                                               whim_join_secret secret, whim_diag *diag);

/* Lowers *sizes to what a node has room for; false: it has as much. */
bool whim_join_lower(whim_engine_sizes *sizes, const whim_join_room *room);

void whim_join_answer_make(const whim_join_challenge *challenge, const whim_join_hello *hello,
                           whim_err err, const char *text, int64_t limit_ns,
                           whim_join_secret secret, whim_join_answer *out);

/* OK: it has joined. Else why not: the leader's reason, or that it does not prove the secret. */
WHIM_MUST_CHECK whim_err whim_join_answer_check(const whim_join_challenge *challenge,
                                                const whim_join_hello *hello,
                                                const whim_join_answer *answer,
                                                whim_join_secret secret, whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Whether bytes, one after the other, still are the beginning of a JSON value. Nothing is stored of
 * the value: only where in its grammar the walk stands.
 * Invariant: after every accepted byte the bytes so far can be continued to valid JSON.
 * Threads: a walk belongs to one thread at a time. */
#ifndef WHIM_CHAT_TOOLS_JSON_WALK_H
#define WHIM_CHAT_TOOLS_JSON_WALK_H

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_JSON_WALK_DEPTH = 128 }; /* deeper nesting is refused */

typedef enum whim_json_phase {
    WHIM_JSON_VALUE,     /* a value must come */
    WHIM_JSON_FIRST,     /* behind [: a value or ] */
    WHIM_JSON_FIRST_KEY, /* behind {: a key or } */
    WHIM_JSON_NEXT_KEY,  /* behind a comma in an object */
    WHIM_JSON_COLON,
    WHIM_JSON_AFTER, /* behind a value inside an array or object */
    WHIM_JSON_STRING,
    WHIM_JSON_NUMBER,
    WHIM_JSON_WORD, /* true, false, null */
    WHIM_JSON_DONE, /* the value is whole; white space may follow */
} whim_json_phase;

/* Caller's storage; {0} is the start. */
typedef struct whim_json_walk {
    whim_json_phase phase;
    uint8_t detail;                              /* of a string, number or word: where in it */
    bool key;                                    /* the string is a key */
    int32_t depth;                               /* open arrays and objects */
    uint64_t objects[WHIM_JSON_WALK_DEPTH / 64]; /* bit: the level is an object */
} whim_json_walk;

/* Take the next byte; false, and nothing changed, when it cannot come. */
bool whim_json_walk_step(whim_json_walk *w, char c);

/* Whether the value may end here. */
bool whim_json_walk_is_whole(const whim_json_walk *w);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a list of messages in the OpenAI form out of the pieces that other dialects send: text,
 * reasoning and calls gather in an open turn until the role changes or the turn is closed.
 * Invariants: 1. texts of one turn are joined with a newline, empty ones left out; 2. a turn that
 * was opened is in the list, also without text; 3. a failed allocation is remembered, and then
 * there is no list.
 * Threads: belongs to one thread at a time. */
#ifndef WHIM_SERVER_TURNS_H
#define WHIM_SERVER_TURNS_H

#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Caller's storage; {0} is an empty list. */
typedef struct whim_turns {
    json_t *list;             /* closed turns */
    const char *role;         /* of the open turn; NULL: none is open */
    whim_str text, reasoning; /* of the open turn */
    json_t *calls;            /* of the open turn, NULL: none */
    bool failed;
} whim_turns;

void whim_turns_deinit(whim_turns *turns);

/* Go on with the open turn if it is of this role, else close it and open one. `role` is borrowed
 * until the turn is closed. */
void whim_turns_open(whim_turns *turns, const char *role);
void whim_turns_close(whim_turns *turns);

/* Another part of a text: on its own line. For turns->text and turns->reasoning of an open turn,
 * and other texts. */
void whim_turns_join(whim_str *str, const char *text, int64_t n);
void whim_turns_join_json(whim_str *str, const json_t *text);

/* A call of the open turn; `arguments` is an object or a string. Takes references of its own. */
void whim_turns_call(whim_turns *turns, json_t *id, json_t *name, json_t *arguments);

/* A tool's result: a turn of its own, the open one ends before it. */
void whim_turns_result(whim_turns *turns, json_t *id, const whim_str *text);

/* The list, now the caller's (json_decref), and start empty; NULL without memory. */
json_t *whim_turns_take(whim_turns *turns);

#endif

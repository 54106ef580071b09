/* SPDX-License-Identifier: Apache-2.0 */
/* A grammar as a text, between its parser and rules that the machine can walk. */
#ifndef WHIM_GRAMMAR_GBNF_H
#define WHIM_GRAMMAR_GBNF_H

#include "grammar/impl.h"

typedef struct gbnf_name {
    const char *text; /* [n] */
    int64_t n;
    int32_t rule;
    int64_t used_at, defined_at; /* in the text; defined_at < 0: not yet */
} gbnf_name;

typedef struct gbnf {
    whim_grammar_builder *b;
    const char *text; /* [n] and a NUL */
    int64_t n, at;
    const char *path; /* for messages */
    int32_t depth;
    gbnf_name *names;
    int64_t n_name, cap_name;
    int64_t first_node; /* of the builder: those behind it are the grammar's */
} gbnf;

/* Fail the builder with line and column. Always -1. */
int32_t whim_gbnf_fail(const gbnf *p, int64_t at, const char *fmt, ...) WHIM_PRINTF(3, 4);

/* A letter or digit of ASCII. */
static inline bool whim_gbnf_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* The text "..." or the class [...] that begins here, as a node; -1: failed. */
int32_t whim_gbnf_literal(gbnf *p);
int32_t whim_gbnf_class(gbnf *p);

/* Make the rules keep the invariants of the machine: know those that take the empty text, turn
 * those that begin with themselves into repetitions, refuse what is left of that, and write small
 * ones out in place. False: failed. */
bool whim_gbnf_settle(gbnf *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A regular expression as a tree, between its parser and the grammar's nodes. */
#ifndef WHIM_GRAMMAR_REGEX_H
#define WHIM_GRAMMAR_REGEX_H

#include "grammar/impl.h"

typedef enum rnode_kind {
    RN_EMPTY,
    RN_SET,    /* one character of ranges[a .. a + b) */
    RN_SEQ,    /* the list of kids from a */
    RN_ANY_OF, /* the list of kids from a */
    RN_REPEAT, /* kid a, lo to hi times */
    RN_BEGIN,  /* ^ */
    RN_END,    /* $ */
} rnode_kind;

typedef struct rnode {
    rnode_kind kind;
    int32_t a, b;
    int32_t next; /* the next kid of the same parent, -1: last */
    int64_t lo, hi;
} rnode;

typedef struct rtree {
    whim_grammar_builder *b;
    const char *path;    /* for messages */
    const char *pattern; /* NUL-terminated, valid UTF-8 */
    int64_t at;
    int32_t depth;
    rnode *nodes;
    int64_t n_node, cap_node;
    grange *ranges;
    int64_t n_range, cap_range;
} rtree;

int32_t whim_rtree_fail(rtree *t, const char *what);
int32_t whim_rtree_node(rtree *t, rnode node);
bool whim_rtree_range(rtree *t, int32_t lo, int32_t hi);
/* A class or an escape at t->at as a set; *anchor tells \A and \z. */
int32_t whim_regex_class(rtree *t);
int32_t whim_regex_escape(rtree *t);
int32_t whim_regex_dot(rtree *t);
/* The character at t->at, which moves behind it. */
int32_t whim_regex_char(rtree *t);

#endif

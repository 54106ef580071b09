/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and syntax tree of a template. All of it is in the compilation's arena and read-only
 * afterwards. A list of nodes is linked by `next`. */
#ifndef WHIM_JINJA_AST_H
#define WHIM_JINJA_AST_H

#include "jinja/value.h"

#include <stddef.h>

typedef enum whim_jtok_kind {
    WHIM_JT_EOF,
    WHIM_JT_DATA,
    WHIM_JT_BLOCK_BEGIN,
    WHIM_JT_BLOCK_END,
    WHIM_JT_PRINT_BEGIN,
    WHIM_JT_PRINT_END,
    WHIM_JT_NAME,
    WHIM_JT_STRING,
    WHIM_JT_NUMBER,
    WHIM_JT_OP,
} whim_jtok_kind;

typedef struct whim_jtok {
    whim_jtok_kind kind;
    int op; /* an operator's first byte, or first * 256 + second: see WHIM_JOP2 */
    whim_jpos pos;
    whim_jval v; /* data, name, string or number */
} whim_jtok;

#define WHIM_JOP2(a, b) ((a)*256 + (b))
void whim_jinja_op_name(char out[3], int op); /* for messages */

/* Tokens that carry a value (lex_value.c). Each call looks at s[*at], and either reads one such
 * token, moves *at behind it and returns true, or leaves everything alone and returns false. */
bool whim_jlex_number(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v);
bool whim_jlex_name(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v);
bool whim_jlex_string(whim_jinja *j, const char *s, int64_t n, int64_t *at, whim_jval *v);

/* The tokens of a source, the last is EOF. */
whim_jtok *whim_jinja_lex(whim_jinja *j, const char *source, int64_t n);

typedef enum whim_jnode_kind {
    /* expressions: a, b, c, d are operands, `list` arguments or items, `v` a name or constant */
    WHIM_JN_CONST,
    WHIM_JN_NAME,
    WHIM_JN_LIST,
    WHIM_JN_TUPLE,
    WHIM_JN_DICT,    /* list of PAIR */
    WHIM_JN_PAIR,    /* a: b */
    WHIM_JN_UNARY,   /* op a; op '!' is not */
    WHIM_JN_BINARY,  /* a op b */
    WHIM_JN_AND,     /* a, b */
    WHIM_JN_OR,      /* a, b */
    WHIM_JN_CONCAT,  /* list */
    WHIM_JN_COMPARE, /* a, list of OPERAND */
    WHIM_JN_OPERAND, /* op a; ops 'i' in, 'n' not in */
    WHIM_JN_COND,    /* b if a else c */
    WHIM_JN_FILTER,  /* a | v(list); a is NULL in a filter block */
    WHIM_JN_TEST,    /* a is v(list) */
    WHIM_JN_CALL,    /* a(list) */
    WHIM_JN_KWARG,   /* v = a, in an argument list */
    WHIM_JN_SPREAD,  /* *a, or **a when op is 2 */
    WHIM_JN_ATTR,    /* a.v */
    WHIM_JN_INDEX,   /* a[b] */
    WHIM_JN_SLICE,   /* a:b:c, in an index */
    WHIM_JN_NSREF,   /* v.b (b a CONST), as a target */
    /* statements: `body` is a list */
    WHIM_JN_DATA,         /* v */
    WHIM_JN_PRINT,        /* a */
    WHIM_JN_IF,           /* a, body, other */
    WHIM_JN_FOR,          /* for a in b if c, body, other; op 1: recursive */
    WHIM_JN_SET,          /* a = b */
    WHIM_JN_SET_BLOCK,    /* a = body through filter b (or NULL) */
    WHIM_JN_MACRO,        /* v, list of PARAM, body */
    WHIM_JN_PARAM,        /* v = a (or NULL) */
    WHIM_JN_CALL_BLOCK,   /* a with caller b, a MACRO */
    WHIM_JN_FILTER_BLOCK, /* body through filter a */
    WHIM_JN_WITH,         /* list of SET, body */
    WHIM_JN_SCOPE,        /* body: a generation block */
    WHIM_JN_BLOCK,        /* v, body; op: see WHIM_JBLOCK_*; `other` is the block read before it */
    WHIM_JN_BREAK,
    WHIM_JN_CONTINUE,
} whim_jnode_kind;

typedef struct whim_jnode whim_jnode;
struct whim_jnode {
    whim_jnode_kind kind;
    int op;
    whim_jpos pos;
    whim_jval v;
    whim_jnode *a, *b, *c;
    whim_jnode *list, *body, *other, *next;
};

/* The parser: what it has read and where it is. */
typedef struct whim_jparser {
    whim_jinja *j;
    const whim_jtok *tok; /* the one to look at */
    int32_t loops;        /* how many enclose it, for break and continue */
    int macro_uses;       /* bits: the macro being read uses varargs 1, kwargs 2, caller 4 */
    whim_jnode *blocks;   /* the one read last */
} whim_jparser;

enum { WHIM_JUSE_VARARGS = 1, WHIM_JUSE_KWARGS = 2, WHIM_JUSE_CALLER = 4 };
/* Beside those bits, as a block can be called like a macro: it sees the names around it; it may not
 * be rendered. */
enum { WHIM_JBLOCK_SCOPED = 8, WHIM_JBLOCK_REFUSED = 16 };

/* --- parse.c --- */
whim_jnode *whim_jparse_new(whim_jparser *p, whim_jnode_kind kind);
bool whim_jparse_is_op(const whim_jparser *p, int op);
bool whim_jparse_is_name(const whim_jparser *p, const char *name);
bool whim_jparse_skip_op(whim_jparser *p, int op);
bool whim_jparse_skip_name(whim_jparser *p, const char *name);
void whim_jparse_expect_op(whim_jparser *p, int op);
whim_jval whim_jparse_expect_name(whim_jparser *p);
_Noreturn void whim_jparse_fail(whim_jparser *p, const char *expected);
bool whim_jparse_constant(const whim_jstr *word, whim_jval *v); /* true, false, none */
whim_jnode *whim_jparse_filters(whim_jparser *p, whim_jnode *node, bool bare);
/* A constant, name or bracket; and what follows one (.a [b] (c)). */
whim_jnode *whim_jparse_atom(whim_jparser *p);
whim_jnode *whim_jparse_postfix(whim_jparser *p, whim_jnode *node);
void whim_jparse_enter(whim_jparser *p); /* one level deeper; leave with depth-- */
void whim_jparse_append(whim_jnode ***tail, whim_jnode *node); /* tail: a list's last link */

/* --- parse_expr.c --- */
whim_jnode *whim_jparse_expr(whim_jparser *p, bool with_cond);
/* One expression or a tuple without brackets; it ends before the name `end` (or NULL). */
whim_jnode *whim_jparse_tuple(whim_jparser *p, bool with_cond, const char *end, bool bracketed);

/* --- parse_stmt.c --- */
/* *blocks: the last of the blocks, or NULL. */
whim_jnode *whim_jinja_parse(whim_jinja *j, const whim_jtok *tokens, const whim_jnode **blocks);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a template: what Jinja calls objects, in the memory of one compilation or
 * rendering.
 *
 * Invariants:
 *  1. All memory is in one arena with a cap, so a value is never freed alone, and an error may
 *     leave from any depth: whim_jinja_fail jumps back to the entry (compile or render), which
 *     drops the arena. Nothing here owns anything outside of it.
 *  2. Strings are UTF-8 and never change. Each byte knows whether the template wrote it (trusted).
 *     In doubt a byte is untrusted.
 *  3. Work is paid for in steps, big pieces by their size and before they are done, so that a
 *     hostile template ends. A step is some hundreds of instructions: 4 to 8 characters decoded,
 *     64 bytes compared or copied. tests/unit/jinja/cost_test.c holds everything to that. A clock
 *     is the last line.
 * Threads: a whim_jinja belongs to one thread. */
#ifndef WHIM_JINJA_VALUE_H
#define WHIM_JINJA_VALUE_H

#include "base/arena.h"
#include "base/err.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    WHIM_JINJA_STEPS = 5 * 1000 * 1000,
    WHIM_JINJA_SECONDS = 20,      /* on a busy machine; a step takes well below a microsecond */
    WHIM_JINJA_DEPTH = 600,       /* of evaluation; the parser and data have their own */
    WHIM_JINJA_PARSE_DEPTH = 200, /* of nested brackets, operators and blocks */
    WHIM_JINJA_DATA_DEPTH = 200,  /* of lists and objects */
    WHIM_JINJA_OUTPUT = 64 << 20,
    WHIM_JINJA_MEMORY = 512 << 20,
    WHIM_JINJA_RANGE = 100000, /* as Jinja's sandbox */
    WHIM_JINJA_MAX_PARAMS = 6,
};

typedef struct whim_jpos {
    int32_t line, col; /* from 1; columns count characters */
} whim_jpos;

/* The state of one compilation or rendering. */
typedef struct whim_jinja {
    whim_arena arena;
    char *at, *end; /* small pieces are cut from a block of the arena */
    int64_t used, cap, steps;
    int64_t until, look_at; /* the end by the clock; the steps left at which it is looked at next */
    int32_t depth;
    whim_jpos pos; /* of the node at work, for messages */
    const char *name;
    whim_diag *diag;
    whim_err err;
    jmp_buf leave;
    int64_t now;                           /* for strftime_now */
    const struct whim_marked_text *marked; /* strings that come in with parts to trust */
    int64_t n_marked;
    struct whim_jscope *top; /* of the template's own names, which blocks see */
} whim_jinja;

typedef enum whim_jkind {
    WHIM_J_MISSING, /* an argument that was not given; never a template's value */
    WHIM_J_UNDEF,
    WHIM_J_NONE,
    WHIM_J_BOOL,
    WHIM_J_INT,
    WHIM_J_FLOAT,
    WHIM_J_STR,
    WHIM_J_LIST,
    WHIM_J_DICT,
    WHIM_J_NAMESPACE,
    WHIM_J_LOOP,
    WHIM_J_MACRO,
    WHIM_J_FUNC,
    WHIM_J_CYCLER,
    WHIM_J_JOINER,
} whim_jkind;

typedef struct whim_jstr {
    const char *s;
    int64_t n;
    const uint8_t *mask; /* trust of each byte, or NULL: all as `trusted` */
    bool trusted;
    bool safe; /* for HTML, says the template: what is added to it by + is escaped */
} whim_jstr;

typedef struct whim_jlist whim_jlist;
typedef struct whim_jdict whim_jdict;
typedef struct whim_jloop whim_jloop;
typedef struct whim_jmacro whim_jmacro;
typedef struct whim_jfunc whim_jfunc;

typedef struct whim_jval {
    uint8_t kind;
    bool trusted; /* of scalars: computed from the template's own values alone */
    union {
        bool b;
        int64_t i;
        double f;
        const whim_jstr *str; /* of UNDEF: what was looked for, for messages; may be NULL */
        whim_jlist *list;     /* also of a cycler */
        whim_jdict *dict;     /* also of a namespace */
        whim_jloop *loop;
        const whim_jmacro *macro;
        const whim_jfunc *func;
    };
} whim_jval;

typedef enum whim_jlist_kind {
    WHIM_JL_LIST,
    WHIM_JL_TUPLE,
    WHIM_JL_RANGE,
    WHIM_JL_KEYS, /* of a dict, as are the next two */
    WHIM_JL_VALUES,
    WHIM_JL_ITEMS,
    WHIM_JL_STREAM, /* what map() and its like give: can be gone through once, has no length */
} whim_jlist_kind;

struct whim_jlist {
    whim_jval *v;
    int64_t n, cap;
    whim_jlist_kind kind;
    int64_t start, stop, step; /* of a range, for printing; `start` is a cycler's place */
};

struct whim_jdict {
    whim_jval *keys, *vals; /* in order of insertion */
    int64_t n, cap;
};

/* A text that grows, with the trust of every byte. */
typedef struct whim_jbuf {
    char *s;
    uint8_t *mask;
    int64_t n, cap;
} whim_jbuf;

/* --- state.c --- */
_Noreturn void whim_jinja_leave(whim_jinja *j, whim_err err, const char *fmt, ...)
    WHIM_PRINTF(3, 4);
#define whim_jinja_fail(j, ...) whim_jinja_leave(j, WHIM_ERR_INVALID, __VA_ARGS__)
/* Beyond a limit: other turns would not help, so nobody tries them. */
#define whim_jinja_exceed(j, ...) whim_jinja_leave(j, WHIM_ERR_FULL, __VA_ARGS__)
void *whim_jinja_alloc(whim_jinja *j, int64_t bytes);
void *whim_jinja_alloc_array(whim_jinja *j, int64_t count, int64_t size);
/* Room for `need` elements: the array, whose address is given and of which n are taken, at least
 * doubles when its *cap are too few. */
void whim_jinja_grow(whim_jinja *j, void *array, int64_t n, int64_t *cap, int64_t need,
                     int64_t size);
void whim_jinja_pay(whim_jinja *j, int64_t steps);
void whim_jinja_enter(whim_jinja *j); /* one level deeper; leave with depth-- */

/* --- value.c --- */
whim_jval whim_jval_undef(whim_jinja *j, const char *name, int64_t n);
whim_jval whim_jval_pair(whim_jinja *j, whim_jval a, whim_jval b); /* a tuple */
whim_jval whim_jval_none(bool trusted);
whim_jval whim_jval_bool(bool b, bool trusted);
whim_jval whim_jval_int(int64_t i, bool trusted);
whim_jval whim_jval_float(double f, bool trusted);
whim_jval whim_jval_str(whim_jinja *j, const char *s, int64_t n, bool trusted); /* not copied */
whim_jval whim_jval_slice(whim_jinja *j, const whim_jstr *str, int64_t from,
                          int64_t to); /* bytes */
whim_jval whim_jval_list(whim_jinja *j, whim_jlist_kind kind);
whim_jval whim_jval_dict(whim_jinja *j, whim_jkind kind);

void whim_jlist_push(whim_jinja *j, whim_jlist *list, whim_jval v);
void whim_jlist_extend(whim_jinja *j, whim_jlist *list, const whim_jlist *items);
int64_t whim_jdict_find(whim_jinja *j, const whim_jdict *dict, whim_jval key); /* or -1 */
const whim_jval *whim_jdict_get(whim_jinja *j, const whim_jdict *dict, const char *key, int64_t n);
void whim_jdict_set(whim_jinja *j, whim_jdict *dict, whim_jval key, whim_jval v);
void whim_jdict_update(whim_jinja *j, whim_jdict *dict, const whim_jdict *from);
/* The keys or values of a dict (KEYS, VALUES), for any other kind of list pairs of both. */
whim_jval whim_jdict_list(whim_jinja *j, const whim_jdict *dict, whim_jlist_kind kind);
/* Whoever goes through the dict now keeps what was there. */
void whim_jdict_remove(whim_jinja *j, whim_jdict *dict, int64_t at);

const char *whim_jval_type(whim_jval v); /* Python's word for it, for messages */
bool whim_jval_truth(whim_jval v);
bool whim_jval_is_number(whim_jval v);                        /* a bool is one too */
bool whim_jval_as_number(whim_jval v, int64_t *i, double *f); /* true: it is an integer */
/* The whole of a scalar or string; containers never. */
bool whim_jval_trusted(whim_jinja *j, whim_jval v);
bool whim_jval_equal(whim_jinja *j, whim_jval a, whim_jval b);
int whim_jval_order(whim_jinja *j, whim_jval a, whim_jval b); /* <0, 0, >0; fails across types */
bool whim_jval_contains(whim_jinja *j, whim_jval box, whim_jval item);
int64_t whim_jval_length(whim_jinja *j, whim_jval v);
/* What a for loop would go through; fails when that cannot be done. */
whim_jlist *whim_jval_iterate(whim_jinja *j, whim_jval v);
bool whim_jval_is_iterable(whim_jval v);

/* --- text.c, print.c --- */
void whim_jbuf_add(whim_jinja *j, whim_jbuf *buf, const char *s, int64_t n, bool trusted);
void whim_jbuf_add_str(whim_jinja *j, whim_jbuf *buf, const whim_jstr *str);
void whim_jbuf_add_char(whim_jinja *j, whim_jbuf *buf, int32_t codepoint, bool trusted);
whim_jval whim_jbuf_take(whim_jinja *j, whim_jbuf *buf);
void whim_jbuf_print(whim_jinja *j, whim_jbuf *buf, whim_jval v); /* as {{ v }} */
void whim_jbuf_repr(whim_jinja *j, whim_jbuf *buf, whim_jval v);  /* as inside a printed list */
const whim_jstr *whim_jval_to_str(whim_jinja *j, whim_jval v);    /* as {{ v }} */
/* The same text as one that is safe for HTML; what is not yet is written so first. */
whim_jval whim_jstr_safe(whim_jinja *j, const whim_jstr *str);
whim_jval whim_jstr_escape(whim_jinja *j, const whim_jstr *str);
bool whim_jstr_trust(const whim_jstr *str, int64_t from, int64_t to);
bool whim_jstr_is(const whim_jstr *str, const char *word);
/* The byte at or behind `from` where the needle is first, or -1; pays for the bytes up to there. */
int64_t whim_jstr_find(whim_jinja *j, const whim_jstr *hay, const whim_jstr *needle, int64_t from);
/* The last place of the needle that ends at or before `end`, or -1. */
int64_t whim_jstr_find_last(whim_jinja *j, const whim_jstr *hay, const whim_jstr *needle,
                            int64_t end);
/* Whether all letters are of one case, and there is one. */
bool whim_jstr_has_case(whim_jinja *j, const whim_jstr *str, bool upper);
int64_t whim_jstr_chars(whim_jinja *j, const whim_jstr *str);
int64_t whim_jstr_offset(whim_jinja *j, const whim_jstr *str, int64_t chars); /* its byte */
whim_jval whim_jstr_strip(whim_jinja *j, const whim_jstr *str, const whim_jstr *set, bool left,
                          bool right);                                   /* set NULL: white space */
whim_jval whim_jstr_case(whim_jinja *j, const whim_jstr *str, int mode); /* 'l' 'u' 'c' 't' 's' */

/* A string for "%.*s" in a message. */
#define WHIM_JSHOWN(str) (int)((str)->n > 60 ? 60 : (str)->n), (str)->s

/* --- characters (text.c) --- */
int32_t whim_jutf8_next(const char *s, int64_t n, int64_t *at); /* a bad byte gives itself, -256 */
int whim_jutf8_put(char out[4], int32_t codepoint);
bool whim_jchar_is_space(int32_t c);
bool whim_jchar_is_word(int32_t c); /* a letter, a digit or '_' */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation: scopes, calls, and the tables of filters, tests, methods and functions.
 * A scope sees those it was opened in; a name is set in the innermost one. A macro sees the scope
 * in which it was defined, not the one that calls it. */
#ifndef WHIM_JINJA_EVAL_H
#define WHIM_JINJA_EVAL_H

#include "jinja/ast.h"

#include <jansson.h>

typedef struct whim_jscope whim_jscope;
struct whim_jscope {
    whim_jscope *parent;
    whim_jdict vars;
};

struct whim_jmacro {
    const whim_jnode *node;
    whim_jscope *scope;
};

struct whim_jloop {
    const whim_jlist *items;
    int64_t i, depth;
    const whim_jnode *node;
    whim_jscope *scope; /* that the loop stands in */
    whim_jval seen;     /* by changed(), MISSING at first */
};

/* The arguments of a call. */
typedef struct whim_jargs {
    whim_jlist pos;
    whim_jdict named;
} whim_jargs;

typedef struct whim_jcall {
    whim_jval self;                     /* what is filtered, tested, or whose method it is */
    whim_jval a[WHIM_JINJA_MAX_PARAMS]; /* as the entry's params; MISSING if not given */
    int mode;                           /* of the entry */
    const whim_jargs *raw;
} whim_jcall;

typedef whim_jval whim_jfn(whim_jinja *j, const whim_jcall *c);

/* A row of a table. `names` are those that it goes by, of which messages use the first; `params`
 * names the parameters; all separated by spaces. Without params the function looks at `raw` itself.
 * The first `required` must be given. `mode` tells functions with several entries which of them it
 * is. */
typedef struct whim_jentry {
    const char *names;
    const char *params;
    int required;
    whim_jfn *fn;
    int mode;
} whim_jentry;

struct whim_jfunc {
    const whim_jentry *entry;
    whim_jval self;
};

/* --- call.c --- */
const whim_jentry *whim_jentry_find(const whim_jentry *table, const whim_jstr *name);
whim_jval whim_jinja_filter(whim_jinja *j, const whim_jstr *name, whim_jval self,
                            const whim_jargs *args);
bool whim_jinja_test(whim_jinja *j, const whim_jstr *name, whim_jval self, const whim_jargs *args);
whim_jval whim_jinja_call(whim_jinja *j, whim_jval callee, const whim_jargs *args);
/* The filter of a name, or NULL. */
const whim_jentry *whim_jfilter_find(const whim_jstr *name);
/* A function as a value. */
whim_jval whim_jval_func(whim_jinja *j, const whim_jentry *entry, whim_jval self);
/* Arguments of filters and methods; none is one that is not given. */
bool whim_jarg_given(whim_jval v);
whim_jval whim_jarg_or(whim_jval v, whim_jval missing); /* `missing` instead of no argument */
const whim_jstr *whim_jarg_opt_str(whim_jinja *j, whim_jval v, const char *what); /* or NULL */
int64_t whim_jarg_int(whim_jinja *j, whim_jval v, int64_t missing, const char *what);
const whim_jstr *whim_jarg_str(whim_jinja *j, whim_jval v, const char *what);

/* --- tables; the last row has no name --- */
extern const whim_jentry whim_jfilters_text[];
extern const whim_jentry whim_jfilters_list[];
extern const whim_jentry whim_jfilters_prose[];
extern const whim_jentry whim_jtests[];
extern const whim_jentry whim_jmethods_str[];
extern const whim_jentry whim_jmethods_list[];
extern const whim_jentry whim_jmethods_dict[];
extern const whim_jentry whim_jmethods_loop[];
extern const whim_jentry whim_jmethods_cycler[];
extern const whim_jentry whim_jglobals[];

/* --- ops.c --- */
whim_jval whim_jinja_binary(whim_jinja *j, int op, whim_jval a, whim_jval b);
whim_jval whim_jinja_negate(whim_jinja *j, int op, whim_jval a);
bool whim_jinja_compare(whim_jinja *j, int op, whim_jval a, whim_jval b);

/* --- item.c --- */
whim_jval whim_jinja_attr(whim_jinja *j, whim_jval of, const whim_jstr *name);
whim_jval whim_jinja_item(whim_jinja *j, whim_jval of, whim_jval key);
whim_jval whim_jinja_slice(whim_jinja *j, whim_jval of, whim_jval from, whim_jval to,
                           whim_jval step);
/* Along "a.b.0", as the attribute argument of filters; `missing` (or NULL) stands in for what is
 * not there. */
whim_jval whim_jinja_path(whim_jinja *j, whim_jval of, whim_jval path, const whim_jval *missing);

/* --- format.c --- */
whim_jval whim_jinja_percent(whim_jinja *j, const whim_jstr *format, whim_jval args);
whim_jval whim_jinja_braces(whim_jinja *j, const whim_jstr *format, const whim_jargs *args);

/* --- json.c --- */
whim_jval whim_jval_from_json(whim_jinja *j, const json_t *json);
whim_jval whim_jinja_from_json(whim_jinja *j, const whim_jcall *c);
whim_jval whim_jinja_tojson(whim_jinja *j, const whim_jcall *c);

/* --- pprint.c --- */
whim_jval whim_jinja_pprint(whim_jinja *j, const whim_jcall *c);

/* --- eval.c --- */
whim_jval whim_jinja_eval(whim_jinja *j, whim_jscope *scope, const whim_jnode *node);
void whim_jinja_eval_args(whim_jinja *j, whim_jscope *scope, const whim_jnode *list,
                          whim_jargs *args);

/* --- exec.c --- */
typedef enum whim_jflow { WHIM_JFLOW_ON, WHIM_JFLOW_BREAK, WHIM_JFLOW_CONTINUE } whim_jflow;
whim_jflow whim_jinja_exec(whim_jinja *j, whim_jscope *scope, const whim_jnode *body,
                           whim_jbuf *out);
whim_jval whim_jinja_macro(whim_jinja *j, const whim_jmacro *macro, const whim_jargs *args);
/* Set `self` to the blocks of a template, by name. */
void whim_jinja_set_blocks(whim_jinja *j, whim_jscope *scope, const whim_jnode *blocks);
whim_jval whim_jinja_recurse(whim_jinja *j, const whim_jloop *loop, whim_jval items);

/* --- lib.c: what filters and methods share: strings as Python has them, and sorting --- */
whim_jval whim_jlib_replace(whim_jinja *j, const whim_jstr *str, const whim_jstr *old,
                            const whim_jstr *with, int64_t count); /* negative: all */
whim_jval whim_jlib_splitlines(whim_jinja *j, const whim_jstr *str, bool keep_ends);
/* sep NULL: runs of white space; max negative: no limit. */
whim_jval whim_jlib_split(whim_jinja *j, const whim_jstr *str, const whim_jstr *sep, int64_t max,
                          bool from_right);
/* The text with `fill` around it up to `width` characters: align '<', '>' or '^'. */
whim_jval whim_jlib_pad(whim_jinja *j, const whim_jstr *str, int64_t width, int32_t fill,
                        char align);
whim_jval whim_jlib_join(whim_jinja *j, const whim_jstr *sep, const whim_jlist *items);

/* Sort items by keys of the same number, stably. */
void whim_jlib_sort(whim_jinja *j, whim_jval *items, whim_jval *keys, int64_t n, bool reverse);

/* A number out of a text as Python's int() and float() read it; false: it is none. */
bool whim_jlib_parse_int(whim_jinja *j, const whim_jstr *str, int base, int64_t *out);
bool whim_jlib_parse_float(whim_jinja *j, const whim_jstr *str, double *out);

#endif

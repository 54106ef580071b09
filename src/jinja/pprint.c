/* SPDX-License-Identifier: Apache-2.0 */
/* Python's pprint: values as it would write them in 80 columns, keys of dicts in order. */
#include "jinja/eval.h"

#include <string.h>

enum { WIDTH = 80 };

typedef struct printer {
    whim_jinja *j;
    whim_jbuf out;
} printer;

static void format(printer *p, whim_jval v, int64_t indent, int64_t allowance, int level);

static const whim_jstr *repr(whim_jinja *j, whim_jval v)
{
    whim_jbuf buf = {0};
    whim_jbuf_repr(j, &buf, v);
    return whim_jbuf_take(j, &buf).str;
}

static void put(printer *p, const char *text)
{
    whim_jbuf_add(p->j, &p->out, text, (int64_t)strlen(text), false);
}

static void put_line_end(printer *p, int64_t indent)
{
    put(p, "\n");
    whim_jinja_pay(p->j, indent / 8);
    for (; indent > 0; indent--) {
        put(p, " ");
    }
}

/* --- dicts in order --------------------------------------------------------------------------- */

/* Keys of one kind are compared; those of several by the names of their kinds. */
static bool comes_before(whim_jinja *j, whim_jval a, whim_jval b)
{
    bool same = (a.kind == WHIM_J_STR && b.kind == WHIM_J_STR) ||
                (whim_jval_is_number(a) && whim_jval_is_number(b));
    return same ? whim_jval_order(j, a, b) < 0 : strcmp(whim_jval_type(a), whim_jval_type(b)) < 0;
}

/* The value with all its dicts sorted by key. */
static whim_jval in_order(whim_jinja *j, whim_jval v)
{
    whim_jinja_enter(j);
    whim_jval out = v;
    if (v.kind == WHIM_J_LIST && v.list->kind <= WHIM_JL_TUPLE) {
        out = whim_jval_list(j, v.list->kind);
        for (int64_t i = 0; i < v.list->n; i++) {
            whim_jlist_push(j, out.list, in_order(j, v.list->v[i]));
        }
    } else if (v.kind == WHIM_J_DICT) {
        const int64_t n = v.dict->n;
        whim_jinja_pay(j, n);
        int64_t *order = whim_jinja_alloc_array(j, n + 1, sizeof *order);
        for (int64_t i = 0; i < n; i++) {
            int64_t k = i;
            for (; k > 0 && comes_before(j, v.dict->keys[i], v.dict->keys[order[k - 1]]); k--) {
                whim_jinja_pay(j, 1);
                order[k] = order[k - 1];
            }
            order[k] = i;
        }
        out = whim_jval_dict(j, WHIM_J_DICT);
        for (int64_t i = 0; i < n; i++) {
            whim_jdict_set(j, out.dict, v.dict->keys[order[i]],
                           in_order(j, v.dict->vals[order[i]]));
        }
    }
    j->depth--;
    return out;
}

/* --- strings ---------------------------------------------------------------------------------- */

/* Behind the word at `at` and the white space after it. */
static int64_t word_end(const whim_jstr *str, int64_t at)
{
    bool space = false;
    for (int64_t next = at; at < str->n; at = next) {
        bool is_space = whim_jchar_is_space(whim_jutf8_next(str->s, str->n, &next));
        if (space && !is_space) {
            break;
        }
        space = is_space;
    }
    return at;
}

static int64_t repr_width(whim_jinja *j, const whim_jstr *str, int64_t from, int64_t to)
{
    return whim_jstr_chars(j, repr(j, whim_jval_slice(j, str, from, to)));
}

/* A line in pieces of at most `width` columns, the last `less` columns shorter if it ends the
 * string. */
static void split_line(whim_jinja *j, const whim_jstr *line, int64_t width, int64_t less,
                       whim_jlist *pieces)
{
    int64_t from = 0, at = 0;
    while (at < line->n) {
        int64_t end = word_end(line, at);
        int64_t room = width - (end == line->n ? less : 0);
        whim_jinja_pay(j, 1);
        if (at > from && repr_width(j, line, from, end) > room) {
            whim_jlist_push(j, pieces, whim_jval_slice(j, line, from, at));
            from = at;
        }
        at = end;
    }
    if (at > from) {
        whim_jlist_push(j, pieces, whim_jval_slice(j, line, from, at));
    }
}

static void format_str(printer *p, const whim_jstr *str, int64_t indent, int64_t allowance,
                       int level)
{
    const bool outermost = level == 1;
    const whim_jlist *lines = whim_jlib_splitlines(p->j, str, true).list;
    whim_jlist *pieces = whim_jval_list(p->j, WHIM_JL_LIST).list;
    whim_jinja_pay(p->j, str->n / 8);
    indent += outermost;
    allowance += outermost;
    put(p, str->n == 0 ? "''" : "");
    for (int64_t i = 0; i < lines->n; i++) {
        const whim_jstr *line = lines->v[i].str;
        int64_t less = i == lines->n - 1 ? allowance : 0;
        if (repr_width(p->j, line, 0, line->n) <= WIDTH - indent - less) {
            whim_jlist_push(p->j, pieces, lines->v[i]);
        } else {
            split_line(p->j, line, WIDTH - indent, less, pieces);
        }
    }
    bool brackets = outermost && pieces->n > 1;
    put(p, brackets ? "(" : "");
    for (int64_t i = 0; i < pieces->n; i++) {
        if (i > 0) {
            put_line_end(p, indent);
        }
        whim_jbuf_add_str(p->j, &p->out, repr(p->j, pieces->v[i]));
    }
    put(p, brackets ? ")" : "");
}

/* --- everything ------------------------------------------------------------------------------- */

static void format_list(printer *p, const whim_jlist *list, int64_t indent, int64_t allowance,
                        int level)
{
    const bool tuple = list->kind == WHIM_JL_TUPLE;
    const char *end = !tuple ? "]" : list->n == 1 ? ",)" : ")";
    put(p, tuple ? "(" : "[");
    for (int64_t i = 0; i < list->n; i++) {
        bool last = i == list->n - 1;
        format(p, list->v[i], indent + 1, last ? allowance + (int64_t)strlen(end) : 1, level);
        if (!last) {
            put(p, ",");
            put_line_end(p, indent + 1);
        }
    }
    put(p, end);
}

static void format_dict(printer *p, const whim_jdict *dict, int64_t indent, int64_t allowance,
                        int level)
{
    put(p, "{");
    for (int64_t i = 0; i < dict->n; i++) {
        const whim_jstr *key = repr(p->j, dict->keys[i]);
        bool last = i == dict->n - 1;
        whim_jbuf_add_str(p->j, &p->out, key);
        put(p, ": ");
        format(p, dict->vals[i], indent + 3 + whim_jstr_chars(p->j, key), last ? allowance + 1 : 1,
               level);
        if (!last) {
            put(p, ",");
            put_line_end(p, indent + 1);
        }
    }
    put(p, "}");
}

static void format(printer *p, whim_jval v, int64_t indent, int64_t allowance, int level)
{
    const whim_jstr *whole = repr(p->j, v);
    whim_jinja_enter(p->j);
    if (whim_jstr_chars(p->j, whole) <= WIDTH - indent - allowance) {
        whim_jbuf_add_str(p->j, &p->out, whole);
    } else if (v.kind == WHIM_J_STR) {
        format_str(p, v.str, indent, allowance, level + 1);
    } else if (v.kind == WHIM_J_LIST && v.list->kind <= WHIM_JL_TUPLE) {
        format_list(p, v.list, indent, allowance, level + 1);
    } else if (v.kind == WHIM_J_DICT) {
        format_dict(p, v.dict, indent, allowance, level + 1);
    } else {
        whim_jbuf_add_str(p->j, &p->out, whole);
    }
    p->j->depth--;
}

whim_jval whim_jinja_pprint(whim_jinja *j, const whim_jcall *c)
{
    printer p = {.j = j};
    format(&p, in_order(j, c->self), 0, 0, 0);
    return whim_jbuf_take(j, &p.out);
}

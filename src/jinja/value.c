/* SPDX-License-Identifier: Apache-2.0 */
/* Making, comparing and going through values. */
#include "jinja/value.h"

#include <math.h>
#include <string.h>

whim_jval whim_jval_undef(whim_jinja *j, const char *name, int64_t n)
{
    whim_jval v = whim_jval_str(j, name, n, true);
    v.kind = WHIM_J_UNDEF;
    return v;
}

whim_jval whim_jval_none(bool trusted)
{
    return (whim_jval){.kind = WHIM_J_NONE, .trusted = trusted};
}

whim_jval whim_jval_bool(bool b, bool trusted)
{
    return (whim_jval){.kind = WHIM_J_BOOL, .trusted = trusted, .b = b};
}

whim_jval whim_jval_int(int64_t i, bool trusted)
{
    return (whim_jval){.kind = WHIM_J_INT, .trusted = trusted, .i = i};
}

whim_jval whim_jval_float(double f, bool trusted)
{
    return (whim_jval){.kind = WHIM_J_FLOAT, .trusted = trusted, .f = f};
}

whim_jval whim_jval_str(whim_jinja *j, const char *s, int64_t n, bool trusted)
{
    whim_jstr *str = whim_jinja_alloc(j, sizeof *str);
    *str = (whim_jstr){.s = s, .n = n, .trusted = trusted};
    return (whim_jval){.kind = WHIM_J_STR, .str = str};
}

whim_jval whim_jval_slice(whim_jinja *j, const whim_jstr *str, int64_t from, int64_t to)
{
    whim_jstr *part = whim_jinja_alloc(j, sizeof *part);
    *part = *str;
    part->s += from;
    part->n = to > from ? to - from : 0;
    part->mask = str->mask == NULL ? NULL : str->mask + from;
    return (whim_jval){.kind = WHIM_J_STR, .str = part};
}

whim_jval whim_jval_list(whim_jinja *j, whim_jlist_kind kind)
{
    whim_jlist *list = whim_jinja_alloc(j, sizeof *list);
    *list = (whim_jlist){.kind = kind};
    return (whim_jval){.kind = WHIM_J_LIST, .list = list};
}

whim_jval whim_jval_dict(whim_jinja *j, whim_jkind kind)
{
    whim_jdict *dict = whim_jinja_alloc(j, sizeof *dict);
    *dict = (whim_jdict){0};
    return (whim_jval){.kind = (uint8_t)kind, .dict = dict};
}

void whim_jlist_push(whim_jinja *j, whim_jlist *list, whim_jval v)
{
    whim_jinja_grow(j, &list->v, list->n, &list->cap, list->n + 1, sizeof *list->v);
    list->v[list->n++] = v;
}

void whim_jlist_extend(whim_jinja *j, whim_jlist *list, const whim_jlist *items)
{
    const int64_t n = items->n; /* which may be the list itself */
    whim_jinja_pay(j, n / 8);
    for (int64_t i = 0; i < n; i++) {
        whim_jlist_push(j, list, items->v[i]);
    }
}

whim_jval whim_jval_pair(whim_jinja *j, whim_jval a, whim_jval b)
{
    whim_jval out = whim_jval_list(j, WHIM_JL_TUPLE);
    whim_jlist_push(j, out.list, a);
    whim_jlist_push(j, out.list, b);
    return out;
}

int64_t whim_jdict_find(whim_jinja *j, const whim_jdict *dict, whim_jval key)
{
    whim_jinja_pay(j, dict->n / 8);
    for (int64_t i = 0; i < dict->n; i++) {
        if (whim_jval_equal(j, dict->keys[i], key)) {
            return i;
        }
    }
    return -1;
}

const whim_jval *whim_jdict_get(whim_jinja *j, const whim_jdict *dict, const char *key, int64_t n)
{
    const whim_jstr str = {.s = key, .n = n};
    int64_t i = whim_jdict_find(j, dict, (whim_jval){.kind = WHIM_J_STR, .str = &str});
    return i < 0 ? NULL : &dict->vals[i];
}

void whim_jdict_set(whim_jinja *j, whim_jdict *dict, whim_jval key, whim_jval v)
{
    int64_t at = whim_jdict_find(j, dict, key);
    if (at >= 0) {
        dict->vals[at] = v;
        return;
    }
    if (key.kind == WHIM_J_DICT || (key.kind == WHIM_J_LIST && key.list->kind != WHIM_JL_TUPLE)) {
        whim_jinja_fail(j, "a %s cannot be a key of a dict", whim_jval_type(key));
    }
    int64_t cap = dict->cap;
    whim_jinja_grow(j, &dict->keys, dict->n, &cap, dict->n + 1, sizeof *dict->keys);
    whim_jinja_grow(j, &dict->vals, dict->n, &dict->cap, dict->n + 1, sizeof *dict->vals);
    dict->keys[dict->n] = key;
    dict->vals[dict->n++] = v;
}

void whim_jdict_update(whim_jinja *j, whim_jdict *dict, const whim_jdict *from)
{
    for (int64_t i = 0; i < from->n; i++) {
        whim_jdict_set(j, dict, from->keys[i], from->vals[i]);
    }
}

whim_jval whim_jdict_list(whim_jinja *j, const whim_jdict *dict, whim_jlist_kind kind)
{
    whim_jval out = whim_jval_list(j, kind);
    whim_jinja_pay(j, dict->n);
    for (int64_t i = 0; i < dict->n; i++) {
        whim_jlist_push(j, out.list,
                        kind == WHIM_JL_KEYS     ? dict->keys[i]
                        : kind == WHIM_JL_VALUES ? dict->vals[i]
                                                 : whim_jval_pair(j, dict->keys[i], dict->vals[i]));
    }
    return out;
}

void whim_jdict_remove(whim_jinja *j, whim_jdict *dict, int64_t at)
{
    const whim_jdict old = *dict;
    *dict = (whim_jdict){0};
    whim_jinja_pay(j, old.n);
    for (int64_t i = 0; i < old.n; i++) {
        if (i != at) {
            whim_jdict_set(j, dict, old.keys[i], old.vals[i]);
        }
    }
}

const char *whim_jval_type(whim_jval v)
{
    static const char *const names[] = {
        [WHIM_J_MISSING] = "missing",     [WHIM_J_UNDEF] = "undefined", [WHIM_J_NONE] = "none",
        [WHIM_J_BOOL] = "bool",           [WHIM_J_INT] = "int",         [WHIM_J_FLOAT] = "float",
        [WHIM_J_STR] = "string",          [WHIM_J_LIST] = "list",       [WHIM_J_DICT] = "dict",
        [WHIM_J_NAMESPACE] = "namespace", [WHIM_J_LOOP] = "loop",       [WHIM_J_MACRO] = "macro",
        [WHIM_J_FUNC] = "function",       [WHIM_J_CYCLER] = "cycler",   [WHIM_J_JOINER] = "joiner",
    };
    static const char *const lists[] = {
        [WHIM_JL_LIST] = "list",          [WHIM_JL_TUPLE] = "tuple",
        [WHIM_JL_RANGE] = "range",        [WHIM_JL_KEYS] = "dict_keys",
        [WHIM_JL_VALUES] = "dict_values", [WHIM_JL_ITEMS] = "dict_items",
        [WHIM_JL_STREAM] = "generator",
    };
    return v.kind == WHIM_J_LIST ? lists[v.list->kind] : names[v.kind];
}

bool whim_jval_as_number(whim_jval v, int64_t *i, double *f)
{
    *i = v.kind == WHIM_J_INT ? v.i : v.kind == WHIM_J_BOOL ? (int64_t)v.b : 0;
    *f = v.kind == WHIM_J_FLOAT ? v.f : (double)*i;
    return v.kind != WHIM_J_FLOAT;
}

/* <0, 0, >0, or 2 when one is not a number. */
static int number_order(whim_jval a, whim_jval b)
{
    int64_t i, k;
    double x, y;
    bool ints = whim_jval_as_number(a, &i, &x);
    ints &= whim_jval_as_number(b, &k, &y);
    return ints ? (i > k) - (i < k) : isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
}

bool whim_jval_truth(whim_jval v)
{
    switch (v.kind) {
    case WHIM_J_MISSING:
    case WHIM_J_UNDEF:
    case WHIM_J_NONE:
        return false;
    case WHIM_J_BOOL:
    case WHIM_J_INT:
    case WHIM_J_FLOAT:
        return number_order(v, whim_jval_int(0, true)) != 0;
    case WHIM_J_STR:
        return v.str->n > 0;
    case WHIM_J_LIST:
        return v.list->n > 0 || v.list->kind == WHIM_JL_STREAM;
    case WHIM_J_DICT:
        return v.dict->n > 0;
    default:
        return true;
    }
}

bool whim_jval_is_number(whim_jval v)
{
    return v.kind == WHIM_J_INT || v.kind == WHIM_J_FLOAT || v.kind == WHIM_J_BOOL;
}

bool whim_jval_trusted(whim_jinja *j, whim_jval v)
{
    switch (v.kind) {
    case WHIM_J_UNDEF:
        return true;
    case WHIM_J_STR:
        whim_jinja_pay(j, v.str->mask == NULL ? 0 : v.str->n / 64);
        return whim_jstr_trust(v.str, 0, v.str->n);
    case WHIM_J_LIST:
    case WHIM_J_DICT:
        return false;
    default:
        return v.trusted;
    }
}

static bool is_sequence(whim_jval v)
{
    return v.kind == WHIM_J_LIST && v.list->kind <= WHIM_JL_RANGE;
}

static bool dict_equal(whim_jinja *j, const whim_jdict *a, const whim_jdict *b)
{
    if (a->n != b->n) {
        return false;
    }
    whim_jinja_pay(j, a->n);
    for (int64_t i = 0; i < a->n; i++) {
        int64_t at = whim_jdict_find(j, b, a->keys[i]);
        if (at < 0 || !whim_jval_equal(j, a->vals[i], b->vals[at])) {
            return false;
        }
    }
    return true;
}

static bool list_equal(whim_jinja *j, const whim_jlist *a, const whim_jlist *b)
{
    if (a->kind != b->kind || a->n != b->n) {
        return false;
    }
    whim_jinja_pay(j, a->n / 8);
    for (int64_t i = 0; i < a->n; i++) {
        if (!whim_jval_equal(j, a->v[i], b->v[i])) {
            return false;
        }
    }
    return true;
}

bool whim_jval_equal(whim_jinja *j, whim_jval a, whim_jval b)
{
    if (whim_jval_is_number(a) && whim_jval_is_number(b)) {
        return number_order(a, b) == 0;
    }
    if (a.kind != b.kind) {
        return false;
    }
    switch (a.kind) {
    case WHIM_J_UNDEF:
    case WHIM_J_NONE:
        return true;
    case WHIM_J_STR:
        if (a.str->n != b.str->n) {
            return false;
        }
        whim_jinja_pay(j, a.str->n / 64);
        return a.str->n == 0 || memcmp(a.str->s, b.str->s, (size_t)a.str->n) == 0;
    case WHIM_J_LIST:
    case WHIM_J_DICT: {
        whim_jinja_enter(j);
        bool same =
            a.kind == WHIM_J_LIST ? list_equal(j, a.list, b.list) : dict_equal(j, a.dict, b.dict);
        j->depth--;
        return same;
    }
    default:
        return a.dict == b.dict;
    }
}

int whim_jval_order(whim_jinja *j, whim_jval a, whim_jval b)
{
    if (whim_jval_is_number(a) && whim_jval_is_number(b)) {
        return number_order(a, b);
    }
    if (a.kind == WHIM_J_STR && b.kind == WHIM_J_STR) {
        int64_t n = a.str->n < b.str->n ? a.str->n : b.str->n;
        whim_jinja_pay(j, 1 + n / 64);
        int order = n == 0 ? 0 : memcmp(a.str->s, b.str->s, (size_t)n);
        return order != 0 ? order : (a.str->n > b.str->n) - (a.str->n < b.str->n);
    }
    if (is_sequence(a) && is_sequence(b) && a.list->kind == b.list->kind &&
        a.list->kind != WHIM_JL_RANGE) {
        whim_jinja_pay(j, 1 + (a.list->n < b.list->n ? a.list->n : b.list->n) / 8);
        for (int64_t i = 0; i < a.list->n && i < b.list->n; i++) {
            if (!whim_jval_equal(j, a.list->v[i], b.list->v[i])) {
                whim_jinja_enter(j);
                int order = whim_jval_order(j, a.list->v[i], b.list->v[i]);
                j->depth--;
                return order;
            }
        }
        return (a.list->n > b.list->n) - (a.list->n < b.list->n);
    }
    whim_jinja_fail(j, "cannot tell which is larger, a %s or a %s", whim_jval_type(a),
                    whim_jval_type(b));
}

bool whim_jval_contains(whim_jinja *j, whim_jval box, whim_jval item)
{
    switch (box.kind) {
    case WHIM_J_UNDEF:
        return false;
    case WHIM_J_STR:
        if (item.kind != WHIM_J_STR) {
            whim_jinja_fail(j, "\"in\" a string wants a string on its left, not a %s",
                            whim_jval_type(item));
        }
        return whim_jstr_find(j, box.str, item.str, 0) >= 0;
    case WHIM_J_LIST:
        whim_jinja_pay(j, 1 + box.list->n / 8);
        for (int64_t i = 0; i < box.list->n; i++) {
            if (whim_jval_equal(j, box.list->v[i], item)) {
                return true;
            }
        }
        return false;
    case WHIM_J_DICT:
        if (item.kind == WHIM_J_DICT ||
            (item.kind == WHIM_J_LIST && item.list->kind == WHIM_JL_LIST)) {
            whim_jinja_fail(j, "a %s cannot be a key of a dict", whim_jval_type(item));
        }
        return whim_jdict_find(j, box.dict, item) >= 0;
    default:
        whim_jinja_fail(j, "\"in\" wants a string, list or dict on its right, not a %s",
                        whim_jval_type(box));
    }
}

int64_t whim_jval_length(whim_jinja *j, whim_jval v)
{
    switch (v.kind) {
    case WHIM_J_UNDEF:
        return 0;
    case WHIM_J_STR:
        return whim_jstr_chars(j, v.str);
    case WHIM_J_LIST:
        if (v.list->kind != WHIM_JL_STREAM) {
            return v.list->n;
        }
        break;
    case WHIM_J_DICT:
        return v.dict->n;
    default:
        break;
    }
    whim_jinja_fail(j, "a %s has no length", whim_jval_type(v));
}

bool whim_jval_is_iterable(whim_jval v)
{
    return v.kind == WHIM_J_UNDEF || v.kind == WHIM_J_STR || v.kind == WHIM_J_LIST ||
           v.kind == WHIM_J_DICT;
}

whim_jlist *whim_jval_iterate(whim_jinja *j, whim_jval v)
{
    if (!whim_jval_is_iterable(v)) {
        whim_jinja_fail(j, "a %s cannot be gone through item by item", whim_jval_type(v));
    }
    whim_jlist *list = whim_jval_list(j, WHIM_JL_LIST).list;
    if (v.kind == WHIM_J_LIST) {
        list->v = v.list->v;
        list->n = v.list->n;
        list->cap = v.list->n; /* a push copies: the original stays as it is */
        if (v.list->kind == WHIM_JL_STREAM) {
            v.list->n = 0;
        }
    } else if (v.kind == WHIM_J_DICT) {
        list->v = v.dict->keys;
        list->n = list->cap = v.dict->n;
    } else if (v.kind == WHIM_J_STR) {
        whim_jinja_pay(j, v.str->n / 2);
        for (int64_t at = 0, from = 0; at < v.str->n; from = at) {
            (void)whim_jutf8_next(v.str->s, v.str->n, &at);
            whim_jlist_push(j, list, whim_jval_slice(j, v.str, from, at));
        }
    }
    return list;
}

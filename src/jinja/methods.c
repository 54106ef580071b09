/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of strings about their characters, and those of lists, dicts, loops and cyclers. Lists
 * and dicts may be changed (append, pop, update ...): they belong to this rendering alone. */
#include "jinja/lib.h"

#include <utf8proc.h>

static whim_jval str_upper(whim_jinja *j, const whim_jcall *c)
{
    return whim_jstr_case(j, c->self.str, 'u');
}

static whim_jval str_lower(whim_jinja *j, const whim_jcall *c)
{
    return whim_jstr_case(j, c->self.str, 'l');
}

static whim_jval str_capitalize(whim_jinja *j, const whim_jcall *c)
{
    return whim_jstr_case(j, c->self.str, 'c');
}

static whim_jval str_title(whim_jinja *j, const whim_jcall *c)
{
    return whim_jstr_case(j, c->self.str, 't');
}

static whim_jval str_swapcase(whim_jinja *j, const whim_jcall *c)
{
    return whim_jstr_case(j, c->self.str, 's');
}

static bool is_letter(int32_t c)
{
    utf8proc_category_t cat = utf8proc_category(c);
    return cat >= UTF8PROC_CATEGORY_LU && cat <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(int32_t c)
{
    return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}

static bool is_letter_or_digit(int32_t c)
{
    return is_letter(c) || is_decimal(c);
}

static whim_jval all_are(const whim_jcall *c, bool (*is)(int32_t))
{
    const whim_jstr *str = c->self.str;
    bool all = str->n > 0;
    for (int64_t at = 0; at < str->n && all;) {
        int32_t ch = whim_jutf8_next(str->s, str->n, &at);
        all = ch >= 0 && is(ch);
    }
    return whim_jval_bool(all, false);
}

static whim_jval str_isalpha(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    return all_are(c, is_letter);
}

static whim_jval str_isdigit(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    return all_are(c, is_decimal);
}

static whim_jval str_isalnum(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    return all_are(c, is_letter_or_digit);
}

static whim_jval str_isspace(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    return all_are(c, whim_jchar_is_space);
}

static whim_jval case_test(whim_jinja *j, const whim_jcall *c, const char *test)
{
    const whim_jstr name = {.s = test, .n = 5};
    const whim_jargs none = {{0}};
    return whim_jval_bool(whim_jinja_test(j, &name, c->self, &none), false);
}

static whim_jval str_isupper(whim_jinja *j, const whim_jcall *c)
{
    return case_test(j, c, "upper");
}

static whim_jval str_islower(whim_jinja *j, const whim_jcall *c)
{
    return case_test(j, c, "lower");
}

static whim_jval pad(whim_jinja *j, const whim_jcall *c, char align)
{
    int32_t fill = ' ';
    if (c->a[1].kind != WHIM_J_MISSING) {
        const whim_jstr *str = whim_jarg_str(j, c->a[1], "the fill character");
        int64_t at = 0;
        fill = str->n == 0 ? ' ' : whim_jutf8_next(str->s, str->n, &at);
        if (at != str->n || str->n == 0) {
            whim_jinja_fail(j, "the fill must be one character");
        }
    }
    return whim_jlib_pad(j, c->self.str, whim_jarg_int(j, c->a[0], 0, "the width"), fill, align);
}

static whim_jval str_ljust(whim_jinja *j, const whim_jcall *c)
{
    return pad(j, c, '<');
}

static whim_jval str_rjust(whim_jinja *j, const whim_jcall *c)
{
    return pad(j, c, '>');
}

static whim_jval str_center(whim_jinja *j, const whim_jcall *c)
{
    return pad(j, c, 'c');
}

static whim_jval str_zfill(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = c->self.str;
    int64_t sign = str->n > 0 && (str->s[0] == '-' || str->s[0] == '+');
    int64_t width = whim_jarg_int(j, c->a[0], 0, "the width");
    whim_jval digits =
        whim_jlib_pad(j, whim_jval_slice(j, str, sign, str->n).str, width - sign, '0', '>');
    return whim_jinja_binary(j, '+', whim_jval_slice(j, str, 0, sign), digits);
}

const whim_jentry whim_jmethods_str_more[] = {
    {"upper", "", 0, str_upper},
    {"lower", "", 0, str_lower},
    {"casefold", "", 0, str_lower},
    {"capitalize", "", 0, str_capitalize},
    {"title", "", 0, str_title},
    {"swapcase", "", 0, str_swapcase},
    {"isalpha", "", 0, str_isalpha},
    {"isdigit", "", 0, str_isdigit},
    {"isdecimal", "", 0, str_isdigit},
    {"isnumeric", "", 0, str_isdigit},
    {"isalnum", "", 0, str_isalnum},
    {"isspace", "", 0, str_isspace},
    {"isupper", "", 0, str_isupper},
    {"islower", "", 0, str_islower},
    {"ljust", "width fillchar", 1, str_ljust},
    {"rjust", "width fillchar", 1, str_rjust},
    {"center", "width fillchar", 1, str_center},
    {"zfill", "width", 1, str_zfill},
    {NULL, NULL, 0, NULL},
};

/* --- lists --- */

static whim_jlist *changeable(whim_jinja *j, const whim_jcall *c)
{
    if (c->self.list->kind != WHIM_JL_LIST) {
        whim_jinja_fail(j, "a %s cannot be changed", whim_jval_type(c->self));
    }
    whim_jinja_pay(j, 1);
    return c->self.list;
}

static whim_jval list_append(whim_jinja *j, const whim_jcall *c)
{
    whim_jlist_push(j, changeable(j, c), c->a[0]);
    return whim_jval_none(true);
}

static whim_jval list_extend(whim_jinja *j, const whim_jcall *c)
{
    whim_jlist *list = changeable(j, c);
    const whim_jlist *items = whim_jval_iterate(j, c->a[0]);
    whim_jinja_pay(j, items->n);
    for (int64_t i = 0; i < items->n; i++) {
        whim_jlist_push(j, list, items->v[i]);
    }
    return whim_jval_none(true);
}

static whim_jval list_pop(whim_jinja *j, const whim_jcall *c)
{
    whim_jlist *list = changeable(j, c);
    int64_t at = whim_jarg_int(j, c->a[0], -1, "the place");
    at = at < 0 ? at + list->n : at;
    if (at < 0 || at >= list->n) {
        whim_jinja_fail(j, "pop wants the place of an item that is there");
    }
    whim_jinja_pay(j, list->n / 16);
    /* A copy: whoever goes through the list now keeps what was there. */
    whim_jval v = list->v[at], rest = whim_jval_list(j, WHIM_JL_LIST);
    for (int64_t i = 0; i < list->n; i++) {
        if (i != at) {
            whim_jlist_push(j, rest.list, list->v[i]);
        }
    }
    *list = *rest.list;
    return v;
}

static whim_jval list_index(whim_jinja *j, const whim_jcall *c)
{
    whim_jinja_pay(j, c->self.list->n / 4);
    for (int64_t i = 0; i < c->self.list->n; i++) {
        if (whim_jval_equal(j, c->self.list->v[i], c->a[0])) {
            return whim_jval_int(i, false);
        }
    }
    whim_jinja_fail(j, "the item that index looks for is not in the list");
}

static whim_jval list_count(whim_jinja *j, const whim_jcall *c)
{
    int64_t count = 0;
    whim_jinja_pay(j, c->self.list->n / 4);
    for (int64_t i = 0; i < c->self.list->n; i++) {
        count += whim_jval_equal(j, c->self.list->v[i], c->a[0]);
    }
    return whim_jval_int(count, false);
}

const whim_jentry whim_jmethods_list[] = {
    {"append", "object", 1, list_append}, {"extend", "iterable", 1, list_extend},
    {"pop", "index", 0, list_pop},        {"index", "value", 1, list_index},
    {"count", "value", 1, list_count},    {NULL, NULL, 0, NULL},
};

/* --- dicts --- */

static whim_jval view(whim_jinja *j, const whim_jdict *dict, whim_jlist_kind kind)
{
    whim_jval out = whim_jval_list(j, kind);
    whim_jinja_pay(j, dict->n / 8);
    for (int64_t i = 0; i < dict->n; i++) {
        whim_jval item = kind == WHIM_JL_KEYS ? dict->keys[i] : dict->vals[i];
        if (kind == WHIM_JL_ITEMS) {
            item = whim_jval_list(j, WHIM_JL_TUPLE);
            whim_jlist_push(j, item.list, dict->keys[i]);
            whim_jlist_push(j, item.list, dict->vals[i]);
        }
        whim_jlist_push(j, out.list, item);
    }
    return out;
}

static whim_jval dict_items(whim_jinja *j, const whim_jcall *c)
{
    return view(j, c->self.dict, WHIM_JL_ITEMS);
}

static whim_jval dict_keys(whim_jinja *j, const whim_jcall *c)
{
    return view(j, c->self.dict, WHIM_JL_KEYS);
}

static whim_jval dict_values(whim_jinja *j, const whim_jcall *c)
{
    return view(j, c->self.dict, WHIM_JL_VALUES);
}

static whim_jval dict_get(whim_jinja *j, const whim_jcall *c)
{
    int64_t at = whim_jdict_find(j, c->self.dict, c->a[0]);
    return at >= 0                          ? c->self.dict->vals[at]
           : c->a[1].kind == WHIM_J_MISSING ? whim_jval_none(true)
                                            : c->a[1];
}

static whim_jval dict_copy(whim_jinja *j, const whim_jcall *c)
{
    whim_jval out = whim_jval_dict(j, WHIM_J_DICT);
    whim_jinja_pay(j, c->self.dict->n);
    for (int64_t i = 0; i < c->self.dict->n; i++) {
        whim_jdict_set(j, out.dict, c->self.dict->keys[i], c->self.dict->vals[i]);
    }
    return out;
}

static whim_jval dict_update(whim_jinja *j, const whim_jcall *c)
{
    if (c->a[0].kind != WHIM_J_DICT) {
        whim_jinja_fail(j, "update wants a dict, not a %s", whim_jval_type(c->a[0]));
    }
    whim_jinja_pay(j, c->a[0].dict->n);
    for (int64_t i = 0; i < c->a[0].dict->n; i++) {
        whim_jdict_set(j, c->self.dict, c->a[0].dict->keys[i], c->a[0].dict->vals[i]);
    }
    return whim_jval_none(true);
}

static whim_jval dict_pop(whim_jinja *j, const whim_jcall *c)
{
    whim_jdict *dict = c->self.dict;
    int64_t at = whim_jdict_find(j, dict, c->a[0]);
    if (at < 0) {
        if (c->a[1].kind == WHIM_J_MISSING) {
            whim_jinja_fail(j, "the key that pop looks for is not in the dict");
        }
        return c->a[1];
    }
    whim_jval v = dict->vals[at];
    const whim_jdict old = *dict;
    *dict = (whim_jdict){0};
    for (int64_t i = 0; i < old.n; i++) {
        if (i != at) {
            whim_jdict_set(j, dict, old.keys[i], old.vals[i]);
        }
    }
    return v;
}

static whim_jval dict_setdefault(whim_jinja *j, const whim_jcall *c)
{
    int64_t at = whim_jdict_find(j, c->self.dict, c->a[0]);
    if (at >= 0) {
        return c->self.dict->vals[at];
    }
    whim_jval v = c->a[1].kind == WHIM_J_MISSING ? whim_jval_none(true) : c->a[1];
    whim_jdict_set(j, c->self.dict, c->a[0], v);
    return v;
}

const whim_jentry whim_jmethods_dict[] = {
    {"items", "", 0, dict_items},
    {"keys", "", 0, dict_keys},
    {"values", "", 0, dict_values},
    {"get", "key default", 1, dict_get},
    {"copy", "", 0, dict_copy},
    {"update", "other", 1, dict_update},
    {"pop", "key default", 1, dict_pop},
    {"setdefault", "key default", 1, dict_setdefault},
    {NULL, NULL, 0, NULL},
};

/* --- loops and cyclers --- */

static whim_jval loop_cycle(whim_jinja *j, const whim_jcall *c)
{
    const whim_jlist *items = &c->raw->pos;
    if (items->n == 0) {
        whim_jinja_fail(j, "cycle wants at least one item");
    }
    return items->v[c->self.loop->i % items->n];
}

static whim_jval loop_changed(whim_jinja *j, const whim_jcall *c)
{
    whim_jval now = whim_jval_list(j, WHIM_JL_TUPLE);
    for (int64_t i = 0; i < c->raw->pos.n; i++) {
        whim_jlist_push(j, now.list, c->raw->pos.v[i]);
    }
    bool changed = !whim_jval_equal(j, c->self.loop->seen, now);
    c->self.loop->seen = now;
    return whim_jval_bool(changed, false);
}

const whim_jentry whim_jmethods_loop[] = {
    {"cycle", NULL, 0, loop_cycle},
    {"changed", NULL, 0, loop_changed},
    {NULL, NULL, 0, NULL},
};

static whim_jval cycler_next(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    whim_jlist *items = c->self.list;
    whim_jval v = items->v[items->start];
    items->start = (items->start + 1) % items->n;
    return v;
}

static whim_jval cycler_reset(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    c->self.list->start = 0;
    return whim_jval_none(true);
}

const whim_jentry whim_jmethods_cycler[] = {
    {"next", "", 0, cycler_next},
    {"reset", "", 0, cycler_reset},
    {NULL, NULL, 0, NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/* x.y, x[y] and x[a:b:c]. What is not there is undefined; looking into undefined is an error.
 * x.y asks for a method first and then for a key, x['y'] the other way round. */
#include "jinja/eval.h"

#include <string.h>

_Noreturn static void fail_undefined(whim_jinja *j, whim_jval v)
{
    whim_jinja_fail(j, "\"%.*s\" is undefined, so nothing can be looked up in it",
                    WHIM_JSHOWN(v.str));
}

static const whim_jentry *find_method(whim_jval of, const whim_jstr *name)
{
    static const whim_jentry *const tables[] = {
        [WHIM_J_STR] = whim_jmethods_str,       [WHIM_J_LIST] = whim_jmethods_list,
        [WHIM_J_DICT] = whim_jmethods_dict,     [WHIM_J_LOOP] = whim_jmethods_loop,
        [WHIM_J_CYCLER] = whim_jmethods_cycler, [WHIM_J_JOINER] = NULL,
    };
    bool view = of.kind == WHIM_J_LIST && of.list->kind > WHIM_JL_TUPLE;
    return view || tables[of.kind] == NULL ? NULL : whim_jentry_find(tables[of.kind], name);
}

static whim_jval loop_attr(whim_jinja *j, const whim_jloop *loop, const whim_jstr *name)
{
    int64_t n = loop->items->n, i = loop->i;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", i + 1},         {"index0", i}, {"revindex", n - i},
                   {"revindex0", n - i - 1}, {"length", n}, {"depth", loop->depth + 1},
                   {"depth0", loop->depth}};
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        if (whim_jstr_is(name, numbers[k].name)) {
            return whim_jval_int(numbers[k].value, true);
        }
    }
    if (whim_jstr_is(name, "first") || whim_jstr_is(name, "last")) {
        return whim_jval_bool(name->s[0] == 'f' ? i == 0 : i == n - 1, true);
    }
    if (whim_jstr_is(name, "previtem") && i > 0) {
        return loop->items->v[i - 1];
    }
    if (whim_jstr_is(name, "nextitem") && i + 1 < n) {
        return loop->items->v[i + 1];
    }
    return whim_jval_undef(j, name->s, name->n);
}

static whim_jval cycler_attr(whim_jinja *j, const whim_jlist *cycler, const whim_jstr *name)
{
    return whim_jstr_is(name, "current") ? cycler->v[cycler->start]
                                         : whim_jval_undef(j, name->s, name->n);
}

whim_jval whim_jinja_attr(whim_jinja *j, whim_jval of, const whim_jstr *name)
{
    if (of.kind == WHIM_J_UNDEF) {
        fail_undefined(j, of);
    }
    const whim_jentry *entry = find_method(of, name);
    whim_jinja_pay(j, 4); /* for the names of methods */
    if (entry != NULL) {
        return whim_jval_func(j, entry, of);
    }
    if (of.kind == WHIM_J_DICT || of.kind == WHIM_J_NAMESPACE) {
        const whim_jval *v = whim_jdict_get(j, of.dict, name->s, name->n);
        return v != NULL ? *v : whim_jval_undef(j, name->s, name->n);
    }
    if (of.kind == WHIM_J_LOOP) {
        return loop_attr(j, of.loop, name);
    }
    return of.kind == WHIM_J_CYCLER ? cycler_attr(j, of.list, name)
                                    : whim_jval_undef(j, name->s, name->n);
}

whim_jval whim_jinja_item(whim_jinja *j, whim_jval of, whim_jval key)
{
    if (of.kind == WHIM_J_UNDEF) {
        fail_undefined(j, of);
    }
    bool is_int = key.kind == WHIM_J_INT || key.kind == WHIM_J_BOOL;
    int64_t i = key.kind == WHIM_J_BOOL ? (int64_t)key.b : key.i;
    if (of.kind == WHIM_J_DICT) {
        int64_t at = whim_jdict_find(j, of.dict, key);
        if (at >= 0) {
            return of.dict->vals[at];
        }
    } else if (of.kind == WHIM_J_LIST && is_int && of.list->kind <= WHIM_JL_RANGE) {
        i = i < 0 ? i + of.list->n : i;
        if (i >= 0 && i < of.list->n) {
            return of.list->v[i];
        }
    } else if (of.kind == WHIM_J_STR && is_int) {
        i = i < 0 ? i + whim_jstr_chars(j, of.str) : i;
        int64_t from = i < 0 ? of.str->n : whim_jstr_offset(j, of.str, i), to = from;
        if (from < of.str->n) {
            (void)whim_jutf8_next(of.str->s, of.str->n, &to);
            return whim_jval_slice(j, of.str, from, to);
        }
    }
    if (key.kind == WHIM_J_STR) {
        return whim_jinja_attr(j, of, key.str);
    }
    const whim_jstr *text = is_int ? whim_jval_to_str(j, key) : NULL;
    return whim_jval_undef(j, text == NULL ? "item" : text->s, text == NULL ? 4 : text->n);
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* A bound of a slice, as Python adjusts it. */
static int64_t slice_bound(whim_jinja *j, whim_jval v, int64_t n, int64_t step, int64_t missing)
{
    if (!whim_jarg_given(v)) {
        return missing;
    }
    int64_t i = whim_jarg_int(j, v, 0, "a bound of a slice");
    i = i < 0 ? i + n : i;
    return step > 0 ? clamp(i, 0, n) : clamp(i, -1, n - 1);
}

whim_jval whim_jinja_slice(whim_jinja *j, whim_jval of, whim_jval from, whim_jval to,
                           whim_jval step)
{
    if (of.kind == WHIM_J_UNDEF) {
        fail_undefined(j, of);
    }
    if (of.kind != WHIM_J_STR && (of.kind != WHIM_J_LIST || of.list->kind > WHIM_JL_RANGE)) {
        whim_jinja_fail(j, "a %s cannot be sliced", whim_jval_type(of));
    }
    int64_t by = step.kind == WHIM_J_NONE ? 1 : whim_jarg_int(j, step, 1, "the step of a slice");
    if (by == 0 || by < -INT32_MAX || by > INT32_MAX) {
        whim_jinja_fail(j, "the step of a slice must not be zero or huge");
    }
    int64_t n = whim_jval_length(j, of);
    int64_t first = slice_bound(j, from, n, by, by > 0 ? 0 : n - 1);
    int64_t last = slice_bound(j, to, n, by, by > 0 ? n : -1);
    if (of.kind == WHIM_J_STR && by == 1) {
        return whim_jval_slice(j, of.str, whim_jstr_offset(j, of.str, first),
                               whim_jstr_offset(j, of.str, last < first ? first : last));
    }
    const whim_jlist *items = of.kind == WHIM_J_LIST ? of.list : whim_jval_iterate(j, of);
    whim_jval out = whim_jval_list(
        j, of.kind == WHIM_J_LIST && of.list->kind == WHIM_JL_TUPLE ? WHIM_JL_TUPLE : WHIM_JL_LIST);
    if (of.kind == WHIM_J_LIST && of.list->kind == WHIM_JL_RANGE) {
        out.list->kind = WHIM_JL_RANGE;
        out.list->start = of.list->start + first * of.list->step;
        out.list->stop = of.list->start + last * of.list->step;
        out.list->step = of.list->step * by;
    }
    whim_jinja_pay(j, n / 8);
    for (int64_t i = first; by > 0 ? i < last : i > last; i += by) {
        whim_jlist_push(j, out.list, items->v[i]);
    }
    if (of.kind == WHIM_J_LIST) {
        return out;
    }
    whim_jbuf buf = {0};
    whim_jinja_pay(j, out.list->n / 4);
    for (int64_t i = 0; i < out.list->n; i++) {
        whim_jbuf_add_str(j, &buf, out.list->v[i].str);
    }
    return whim_jbuf_take(j, &buf);
}

whim_jval whim_jinja_path(whim_jinja *j, whim_jval of, whim_jval path, const whim_jval *missing)
{
    if (path.kind != WHIM_J_STR) {
        return whim_jarg_given(path) ? whim_jinja_item(j, of, path) : of;
    }
    const whim_jstr *str = path.str;
    for (int64_t from = 0; from <= str->n;) {
        const char *dot =
            from < str->n ? memchr(str->s + from, '.', (size_t)(str->n - from)) : NULL;
        int64_t to = dot == NULL ? str->n : dot - str->s;
        whim_jval part = whim_jval_slice(j, str, from, to);
        whim_jinja_pay(j, 1 + (to - from) / 64);
        int64_t number = 0;
        bool digits = to > from && to - from < 10;
        for (int64_t i = from; i < to && digits; i++) {
            digits = str->s[i] >= '0' && str->s[i] <= '9';
            number = number * 10 + (str->s[i] - '0');
        }
        of = whim_jinja_item(j, of, digits ? whim_jval_int(number, true) : part);
        of = of.kind == WHIM_J_UNDEF && missing != NULL ? *missing : of;
        from = to + 1;
    }
    return of;
}

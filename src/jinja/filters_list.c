/* SPDX-License-Identifier: Apache-2.0 */
/* Filters on lists and dicts. */
#include "jinja/eval.h"

#include <string.h>

static whim_jval new_list(whim_jinja *j, const whim_jlist *items)
{
    whim_jval out = whim_jval_list(j, WHIM_JL_LIST);
    whim_jlist_extend(j, out.list, items);
    return out;
}

static whim_jval fold_case(whim_jinja *j, whim_jval v, bool sensitive)
{
    return v.kind == WHIM_J_STR && !sensitive ? whim_jstr_case(j, v.str, 'l') : v;
}

static whim_jval item_key(whim_jinja *j, whim_jval item, whim_jval attribute, bool sensitive)
{
    return fold_case(j, whim_jinja_path(j, item, attribute, NULL), sensitive);
}

/* What an item is sorted by: one attribute, or several with commas between them. */
static whim_jval sort_key(whim_jinja *j, whim_jval item, whim_jval attribute, bool sensitive)
{
    if (attribute.kind != WHIM_J_STR ||
        memchr(attribute.str->s, ',', (size_t)attribute.str->n) == NULL) {
        return item_key(j, item, attribute, sensitive);
    }
    const whim_jstr comma = {.s = ",", .n = 1};
    const whim_jlist *names = whim_jlib_split(j, attribute.str, &comma, -1, false).list;
    whim_jval key = whim_jval_list(j, WHIM_JL_LIST);
    whim_jinja_pay(j, names->n);
    for (int64_t i = 0; i < names->n; i++) {
        whim_jlist_push(j, key.list, item_key(j, item, names->v[i], sensitive));
    }
    return key;
}

static whim_jval sorted(whim_jinja *j, whim_jval of, whim_jval attribute, bool sensitive,
                        bool reverse, whim_jval **keys_out)
{
    whim_jval out = new_list(j, whim_jval_iterate(j, of));
    whim_jval *keys = whim_jinja_alloc_array(j, out.list->n, sizeof *keys);
    whim_jinja_pay(j, out.list->n);
    for (int64_t i = 0; i < out.list->n; i++) {
        keys[i] = sort_key(j, out.list->v[i], attribute, sensitive);
    }
    whim_jlib_sort(j, out.list->v, keys, out.list->n, reverse);
    if (keys_out != NULL) {
        *keys_out = keys;
    }
    return out;
}

static whim_jval filter_sort(whim_jinja *j, const whim_jcall *c)
{
    return sorted(j, c->self, c->a[2], whim_jval_truth(c->a[1]), whim_jval_truth(c->a[0]), NULL);
}

static whim_jval filter_dictsort(whim_jinja *j, const whim_jcall *c)
{
    if (c->self.kind != WHIM_J_DICT) {
        whim_jinja_fail(j, "dictsort wants a dict, not a %s", whim_jval_type(c->self));
    }
    whim_jval by = whim_jarg_or(c->a[1], whim_jval_str(j, "key", 3, true));
    bool by_value = by.kind == WHIM_J_STR && whim_jstr_is(by.str, "value");
    if (!by_value && (by.kind != WHIM_J_STR || !whim_jstr_is(by.str, "key"))) {
        whim_jinja_fail(j, "dictsort sorts by 'key' or 'value'");
    }
    const whim_jdict *dict = c->self.dict;
    whim_jval out = whim_jdict_list(j, dict, WHIM_JL_LIST);
    whim_jval *keys = whim_jinja_alloc_array(j, dict->n, sizeof *keys);
    for (int64_t i = 0; i < dict->n; i++) {
        keys[i] = fold_case(j, by_value ? dict->vals[i] : dict->keys[i], whim_jval_truth(c->a[0]));
    }
    whim_jlib_sort(j, out.list->v, keys, out.list->n, whim_jval_truth(c->a[2]));
    return out;
}

static whim_jval filter_groupby(whim_jinja *j, const whim_jcall *c)
{
    whim_jval *keys, out = whim_jval_list(j, WHIM_JL_LIST);
    whim_jval items = sorted(j, c->self, c->a[0], whim_jval_truth(c->a[2]), false, &keys);
    for (int64_t i = 0; i < items.list->n;) {
        whim_jval group = whim_jval_list(j, WHIM_JL_LIST);
        int64_t first = i;
        do {
            whim_jinja_pay(j, 1);
            whim_jlist_push(j, group.list, items.list->v[i++]);
        } while (i < items.list->n && whim_jval_equal(j, keys[i], keys[first]));
        whim_jval name = whim_jinja_path(j, items.list->v[first], c->a[0], NULL);
        whim_jlist_push(j, out.list, whim_jval_pair(j, name, group));
    }
    return out;
}

static whim_jval filter_unique(whim_jinja *j, const whim_jcall *c)
{
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    whim_jval out = whim_jval_list(j, WHIM_JL_STREAM), seen = whim_jval_dict(j, WHIM_J_DICT);
    for (int64_t i = 0; i < items->n; i++) {
        whim_jinja_pay(j, 1);
        whim_jval key = item_key(j, items->v[i], c->a[1], whim_jval_truth(c->a[0]));
        if (whim_jdict_find(j, seen.dict, key) < 0) {
            whim_jdict_set(j, seen.dict, key, whim_jval_none(true));
            whim_jlist_push(j, out.list, items->v[i]);
        }
    }
    return out;
}

/* min and max, by the comparison that a better one stands. */
static whim_jval filter_extreme(whim_jinja *j, const whim_jcall *c)
{
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    whim_jval best = whim_jval_undef(j, "item", 4), best_key = best;
    for (int64_t i = 0; i < items->n; i++) {
        whim_jinja_pay(j, 1);
        whim_jval key = item_key(j, items->v[i], c->a[1], whim_jval_truth(c->a[0]));
        if (i == 0 || whim_jinja_compare(j, c->mode, key, best_key)) {
            best = items->v[i];
            best_key = key;
        }
    }
    return best;
}

static whim_jval filter_sum(whim_jinja *j, const whim_jcall *c)
{
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    whim_jval sum = whim_jarg_or(c->a[1], whim_jval_int(0, true));
    if (sum.kind == WHIM_J_STR) {
        whim_jinja_fail(j, "sum adds numbers; texts are joined with join");
    }
    whim_jinja_pay(j, items->n / 4);
    for (int64_t i = 0; i < items->n; i++) {
        sum = whim_jinja_binary(j, '+', sum, whim_jinja_path(j, items->v[i], c->a[0], NULL));
    }
    return sum;
}

static whim_jval filter_first(whim_jinja *j, const whim_jcall *c)
{
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    return items->n > 0 ? items->v[0] : whim_jval_undef(j, "first item", 10);
}

static whim_jval filter_last(whim_jinja *j, const whim_jcall *c)
{
    (void)whim_jval_length(j, c->self); /* what has no length has no last item */
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    return items->n > 0 ? items->v[items->n - 1] : whim_jval_undef(j, "last item", 9);
}

static whim_jval filter_list(whim_jinja *j, const whim_jcall *c)
{
    return new_list(j, whim_jval_iterate(j, c->self));
}

static whim_jval filter_items(whim_jinja *j, const whim_jcall *c)
{
    if (c->self.kind == WHIM_J_UNDEF) {
        return whim_jval_list(j, WHIM_JL_STREAM);
    }
    if (c->self.kind != WHIM_J_DICT) {
        whim_jinja_fail(j, "items wants a dict, not a %s", whim_jval_type(c->self));
    }
    return whim_jdict_list(j, c->self.dict, WHIM_JL_STREAM);
}

static whim_jval filter_reverse(whim_jinja *j, const whim_jcall *c)
{
    const whim_jval none = {.kind = WHIM_J_MISSING};
    if (c->self.kind == WHIM_J_STR) {
        return whim_jinja_slice(j, c->self, none, none, whim_jval_int(-1, true));
    }
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    whim_jval out = whim_jval_list(j, WHIM_JL_STREAM);
    whim_jinja_pay(j, items->n / 8);
    for (int64_t i = items->n - 1; i >= 0; i--) {
        whim_jlist_push(j, out.list, items->v[i]);
    }
    return out;
}

static whim_jval filter_join(whim_jinja *j, const whim_jcall *c)
{
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    whim_jval sep = whim_jarg_or(c->a[0], whim_jval_str(j, "", 0, true));
    if (whim_jarg_given(c->a[1])) {
        whim_jval picked = whim_jval_list(j, WHIM_JL_LIST);
        whim_jinja_pay(j, items->n);
        for (int64_t i = 0; i < items->n; i++) {
            whim_jlist_push(j, picked.list, whim_jinja_path(j, items->v[i], c->a[1], NULL));
        }
        items = picked.list;
    }
    return whim_jlib_join(j, whim_jval_to_str(j, sep), items);
}

/* The arguments without the first ones. */
static whim_jargs drop_args(const whim_jargs *args, int64_t count)
{
    whim_jargs rest = *args;
    bool some = args->pos.n > count;
    rest.pos.v = some ? args->pos.v + count : NULL;
    rest.pos.n = some ? args->pos.n - count : 0;
    return rest;
}

static whim_jval filter_map(whim_jinja *j, const whim_jcall *c)
{
    const whim_jargs *raw = c->raw;
    whim_jval out = whim_jval_list(j, WHIM_JL_STREAM);
    if (!whim_jval_truth(c->self)) { /* none, too, has no items for Jinja */
        return out;
    }
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    const whim_jval *attribute = whim_jdict_get(j, &raw->named, "attribute", 9);
    const whim_jval *missing = whim_jdict_get(j, &raw->named, "default", 7);
    bool by_attribute = raw->pos.n == 0 && attribute != NULL;
    if (by_attribute ? raw->named.n > 1 + (missing != NULL) : raw->pos.n == 0) {
        whim_jinja_fail(j, "map wants the name of a filter, or attribute= (and default=)");
    }
    const whim_jargs rest = drop_args(raw, !by_attribute);
    for (int64_t i = 0; i < items->n; i++) {
        whim_jinja_pay(j, 1);
        whim_jval v = items->v[i];
        if (by_attribute) {
            v = whim_jinja_path(j, v, *attribute, missing);
        } else {
            v = whim_jinja_filter(j, whim_jarg_str(j, raw->pos.v[0], "the filter's name"), v,
                                  &rest);
        }
        whim_jlist_push(j, out.list, v);
    }
    return out;
}

/* select, reject and their attr forms: keep the items whose test (or truth) is as wanted. */
enum { WANT = 1, BY_ATTRIBUTE = 2 };

static whim_jval filter_choose(whim_jinja *j, const whim_jcall *c)
{
    bool by_attribute = (c->mode & BY_ATTRIBUTE) != 0, want = (c->mode & WANT) != 0;
    const whim_jargs *raw = c->raw;
    int64_t skip = by_attribute + 1;
    whim_jval out = whim_jval_list(j, WHIM_JL_STREAM);
    if (!whim_jval_truth(c->self)) {
        return out;
    }
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    if (items->n > 0 && by_attribute && raw->pos.n == 0) {
        whim_jinja_fail(j, "the name of an attribute is missing");
    }
    const whim_jargs rest = drop_args(raw, skip);
    for (int64_t i = 0; i < items->n; i++) {
        whim_jinja_pay(j, 1);
        whim_jval v =
            by_attribute ? whim_jinja_path(j, items->v[i], raw->pos.v[0], NULL) : items->v[i];
        bool good =
            raw->pos.n < skip
                ? whim_jval_truth(v)
                : whim_jinja_test(j, whim_jarg_str(j, raw->pos.v[skip - 1], "the test's name"), v,
                                  &rest);
        if (good == want) {
            whim_jlist_push(j, out.list, items->v[i]);
        }
    }
    return out;
}

static whim_jval filter_batch(whim_jinja *j, const whim_jcall *c)
{
    int64_t size = whim_jarg_int(j, c->a[0], 1, "the size of a batch");
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    whim_jval out = whim_jval_list(j, WHIM_JL_STREAM), row = whim_jval_list(j, WHIM_JL_LIST);
    whim_jinja_pay(j, items->n / 2);
    for (int64_t i = 0; i < items->n; i++) {
        if (row.list->n == size) {
            whim_jlist_push(j, out.list, row);
            row = whim_jval_list(j, WHIM_JL_LIST);
        }
        whim_jlist_push(j, row.list, items->v[i]);
    }
    while (row.list->n > 0 && row.list->n < size && whim_jarg_given(c->a[1])) {
        whim_jinja_pay(j, 1);
        whim_jlist_push(j, row.list, c->a[1]);
    }
    if (row.list->n > 0) {
        whim_jlist_push(j, out.list, row);
    }
    return out;
}

/* Columns of nearly the same length, the first ones longer. */
static whim_jval filter_slice(whim_jinja *j, const whim_jcall *c)
{
    int64_t n = whim_jarg_int(j, c->a[0], 1, "the number of slices");
    const whim_jlist *items = whim_jval_iterate(j, c->self);
    if (n == 0) {
        whim_jinja_fail(j, "slice wants a number of slices that is not 0");
    }
    whim_jval out = whim_jval_list(j, WHIM_JL_STREAM);
    whim_jinja_pay(j, items->n / 8);
    for (int64_t k = 0, at = 0; k < n; k++) {
        whim_jval column = whim_jval_list(j, WHIM_JL_LIST);
        bool longer = k < items->n % n;
        whim_jinja_pay(j, 1);
        for (int64_t end = at + items->n / n + longer; at < end; at++) {
            whim_jlist_push(j, column.list, items->v[at]);
        }
        if (!longer && whim_jarg_given(c->a[1])) {
            whim_jlist_push(j, column.list, c->a[1]);
        }
        whim_jlist_push(j, out.list, column);
    }
    return out;
}

const whim_jentry whim_jfilters_list[] = {
    {"batch", "linecount fill_with", 1, filter_batch, 0},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort, 0},
    {"first", "", 0, filter_first, 0},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby, 0},
    {"items", "", 0, filter_items, 0},
    {"join", "d attribute", 0, filter_join, 0},
    {"last", "", 0, filter_last, 0},
    {"list", "", 0, filter_list, 0},
    {"map", NULL, 0, filter_map, 0},
    {"max", "case_sensitive attribute", 0, filter_extreme, '>'},
    {"min", "case_sensitive attribute", 0, filter_extreme, '<'},
    {"reject", NULL, 0, filter_choose, 0},
    {"rejectattr", NULL, 0, filter_choose, BY_ATTRIBUTE},
    {"reverse", "", 0, filter_reverse, 0},
    {"select", NULL, 0, filter_choose, WANT},
    {"selectattr", NULL, 0, filter_choose, BY_ATTRIBUTE | WANT},
    {"slice", "slices fill_with", 1, filter_slice, 0},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort, 0},
    {"sum", "attribute start", 0, filter_sum, 0},
    {"unique", "case_sensitive attribute", 0, filter_unique, 0},
    {NULL, NULL, 0, NULL, 0},
};

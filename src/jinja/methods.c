/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of lists, dicts, loops and cyclers. Lists and dicts may be changed (append, pop, update
 * ...): they belong to this rendering alone. */
#include "jinja/eval.h"

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
    whim_jlist_extend(j, list, items);
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
    whim_jinja_pay(j, list->n / 8);
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

/* Where the value is first ('i'), or how often it comes. */
static whim_jval list_find(whim_jinja *j, const whim_jcall *c)
{
    int64_t count = 0;
    whim_jinja_pay(j, c->self.list->n / 8);
    for (int64_t i = 0; i < c->self.list->n; i++) {
        bool found = whim_jval_equal(j, c->self.list->v[i], c->a[0]);
        if (found && c->mode == 'i') {
            return whim_jval_int(i, false);
        }
        count += found;
    }
    if (c->mode == 'i') {
        whim_jinja_fail(j, "the item that index looks for is not in the list");
    }
    return whim_jval_int(count, false);
}

const whim_jentry whim_jmethods_list[] = {
    {"append", "object", 1, list_append, 0}, {"extend", "iterable", 1, list_extend, 0},
    {"pop", "index", 0, list_pop, 0},        {"index", "value", 1, list_find, 'i'},
    {"count", "value", 1, list_find, 'c'},   {NULL, NULL, 0, NULL, 0},
};

/* --- dicts --- */

static whim_jval dict_view(whim_jinja *j, const whim_jcall *c)
{
    return whim_jdict_list(j, c->self.dict, (whim_jlist_kind)c->mode);
}

static whim_jval dict_get(whim_jinja *j, const whim_jcall *c)
{
    int64_t at = whim_jdict_find(j, c->self.dict, c->a[0]);
    return at >= 0 ? c->self.dict->vals[at] : whim_jarg_or(c->a[1], whim_jval_none(true));
}

static whim_jval dict_copy(whim_jinja *j, const whim_jcall *c)
{
    whim_jval out = whim_jval_dict(j, WHIM_J_DICT);
    whim_jinja_pay(j, c->self.dict->n);
    whim_jdict_update(j, out.dict, c->self.dict);
    return out;
}

static whim_jval dict_update(whim_jinja *j, const whim_jcall *c)
{
    if (c->a[0].kind != WHIM_J_DICT) {
        whim_jinja_fail(j, "update wants a dict, not a %s", whim_jval_type(c->a[0]));
    }
    whim_jinja_pay(j, c->a[0].dict->n);
    whim_jdict_update(j, c->self.dict, c->a[0].dict);
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
    whim_jdict_remove(j, dict, at);
    return v;
}

static whim_jval dict_setdefault(whim_jinja *j, const whim_jcall *c)
{
    int64_t at = whim_jdict_find(j, c->self.dict, c->a[0]);
    if (at >= 0) {
        return c->self.dict->vals[at];
    }
    whim_jval v = whim_jarg_or(c->a[1], whim_jval_none(true));
    whim_jdict_set(j, c->self.dict, c->a[0], v);
    return v;
}

const whim_jentry whim_jmethods_dict[] = {
    {"items", "", 0, dict_view, WHIM_JL_ITEMS},
    {"keys", "", 0, dict_view, WHIM_JL_KEYS},
    {"values", "", 0, dict_view, WHIM_JL_VALUES},
    {"get", "key default", 1, dict_get, 0},
    {"copy", "", 0, dict_copy, 0},
    {"update", "other", 1, dict_update, 0},
    {"pop", "key default", 1, dict_pop, 0},
    {"setdefault", "key default", 1, dict_setdefault, 0},
    {NULL, NULL, 0, NULL, 0},
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
    whim_jlist_extend(j, now.list, &c->raw->pos);
    bool changed = !whim_jval_equal(j, c->self.loop->seen, now);
    c->self.loop->seen = now;
    return whim_jval_bool(changed, false);
}

const whim_jentry whim_jmethods_loop[] = {
    {"cycle", NULL, 0, loop_cycle, 0},
    {"changed", NULL, 0, loop_changed, 0},
    {NULL, NULL, 0, NULL, 0},
};

/* Goes on to the next item and gives this one ('n'), or back to the first. */
static whim_jval cycler_move(whim_jinja *j, const whim_jcall *c)
{
    (void)j;
    whim_jlist *items = c->self.list;
    whim_jval v = c->mode == 'n' ? items->v[items->start] : whim_jval_none(true);
    items->start = c->mode == 'n' ? (items->start + 1) % items->n : 0;
    return v;
}

const whim_jentry whim_jmethods_cycler[] = {
    {"next", "", 0, cycler_move, 'n'},
    {"reset", "", 0, cycler_move, 'r'},
    {NULL, NULL, 0, NULL, 0},
};

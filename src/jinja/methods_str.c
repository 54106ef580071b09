/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of strings that take a string apart or put one together. */
#include "jinja/lib.h"

#include <string.h>

/* The part of the text that start and end (arguments from `first`) leave. */
static const whim_jstr *part_of(whim_jinja *j, const whim_jcall *c, int first)
{
    whim_jval from = c->a[first], to = c->a[first + 1];
    if (from.kind == WHIM_J_MISSING && to.kind == WHIM_J_MISSING) {
        return c->self.str;
    }
    return whim_jinja_slice(j, c->self, from, to, whim_jval_int(1, true)).str;
}

static bool edge_is(whim_jinja *j, const whim_jstr *str, whim_jval edge, bool at_end)
{
    if (edge.kind == WHIM_J_LIST && edge.list->kind == WHIM_JL_TUPLE) {
        for (int64_t i = 0; i < edge.list->n; i++) {
            const whim_jstr *one = whim_jarg_str(j, edge.list->v[i], "an item of the tuple");
            if (edge_is(j, str, (whim_jval){.kind = WHIM_J_STR, .str = one}, at_end)) {
                return true;
            }
        }
        return false;
    }
    const whim_jstr *word = whim_jarg_str(j, edge, "what a string starts or ends with");
    return word->n <= str->n &&
           memcmp(str->s + (at_end ? str->n - word->n : 0), word->s, (size_t)word->n) == 0;
}

static whim_jval str_startswith(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_bool(edge_is(j, part_of(j, c, 1), c->a[0], false), false);
}

static whim_jval str_endswith(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_bool(edge_is(j, part_of(j, c, 1), c->a[0], true), false);
}

static whim_jval split(whim_jinja *j, const whim_jcall *c, bool from_right)
{
    bool plain = c->a[0].kind == WHIM_J_MISSING || c->a[0].kind == WHIM_J_NONE;
    const whim_jstr *sep = plain ? NULL : whim_jarg_str(j, c->a[0], "the separator");
    return whim_jlib_split(j, c->self.str, sep, whim_jarg_int(j, c->a[1], -1, "maxsplit"),
                           from_right);
}

static whim_jval str_split(whim_jinja *j, const whim_jcall *c)
{
    return split(j, c, false);
}

static whim_jval str_rsplit(whim_jinja *j, const whim_jcall *c)
{
    return split(j, c, true);
}

static whim_jval str_splitlines(whim_jinja *j, const whim_jcall *c)
{
    return whim_jlib_splitlines(j, c->self.str, whim_jval_truth(c->a[0]));
}

static whim_jval partition(whim_jinja *j, const whim_jcall *c, bool from_right)
{
    const whim_jstr *sep = whim_jarg_str(j, c->a[0], "the separator");
    const whim_jlist *parts = whim_jlib_split(j, c->self.str, sep, 1, from_right).list;
    whim_jval out = whim_jval_list(j, WHIM_JL_TUPLE), empty = whim_jval_str(j, "", 0, true);
    bool found = parts->n == 2;
    whim_jlist_push(j, out.list, found || !from_right ? parts->v[0] : empty);
    whim_jlist_push(j, out.list, found ? c->a[0] : empty);
    whim_jlist_push(j, out.list, found ? parts->v[1] : from_right ? parts->v[0] : empty);
    return out;
}

static whim_jval str_partition(whim_jinja *j, const whim_jcall *c)
{
    return partition(j, c, false);
}

static whim_jval str_rpartition(whim_jinja *j, const whim_jcall *c)
{
    return partition(j, c, true);
}

static whim_jval strip(whim_jinja *j, const whim_jcall *c, bool left, bool right)
{
    bool plain = c->a[0].kind == WHIM_J_MISSING || c->a[0].kind == WHIM_J_NONE;
    const whim_jstr *set = plain ? NULL : whim_jarg_str(j, c->a[0], "what is stripped");
    return whim_jstr_strip(j, c->self.str, set, left, right);
}

static whim_jval str_strip(whim_jinja *j, const whim_jcall *c)
{
    return strip(j, c, true, true);
}

static whim_jval str_lstrip(whim_jinja *j, const whim_jcall *c)
{
    return strip(j, c, true, false);
}

static whim_jval str_rstrip(whim_jinja *j, const whim_jcall *c)
{
    return strip(j, c, false, true);
}

static whim_jval str_replace(whim_jinja *j, const whim_jcall *c)
{
    return whim_jlib_replace(j, c->self.str, whim_jarg_str(j, c->a[0], "what is replaced"),
                             whim_jarg_str(j, c->a[1], "the replacement"),
                             whim_jarg_int(j, c->a[2], -1, "the count"));
}

static whim_jval str_removeprefix(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = c->self.str, *word = whim_jarg_str(j, c->a[0], "the prefix");
    return edge_is(j, str, c->a[0], false) ? whim_jval_slice(j, str, word->n, str->n) : c->self;
}

static whim_jval str_removesuffix(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *str = c->self.str, *word = whim_jarg_str(j, c->a[0], "the suffix");
    return edge_is(j, str, c->a[0], true) ? whim_jval_slice(j, str, 0, str->n - word->n) : c->self;
}

static whim_jval str_join(whim_jinja *j, const whim_jcall *c)
{
    const whim_jlist *items = whim_jval_iterate(j, c->a[0]);
    for (int64_t i = 0; i < items->n; i++) {
        (void)whim_jarg_str(j, items->v[i], "an item to be joined");
    }
    return whim_jlib_join(j, c->self.str, items);
}

static whim_jval str_format(whim_jinja *j, const whim_jcall *c)
{
    return whim_jinja_braces(j, c->self.str, c->raw);
}

/* The character where the needle is first or last, or -1. */
static int64_t find(whim_jinja *j, const whim_jcall *c, bool last)
{
    const whim_jstr *needle = whim_jarg_str(j, c->a[0], "what is looked for");
    const whim_jstr *str = part_of(j, c, 1);
    int64_t at = whim_jstr_find(str, needle, 0), found = at;
    whim_jinja_pay(j, str->n / 64);
    while (last && at >= 0) {
        found = at;
        at = whim_jstr_find(str, needle, at + 1);
    }
    if (found < 0) {
        return -1;
    }
    const whim_jstr before = {.s = c->self.str->s, .n = str->s + found - c->self.str->s};
    return whim_jstr_chars(&before);
}

static whim_jval str_find(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_int(find(j, c, false), false);
}

static whim_jval str_rfind(whim_jinja *j, const whim_jcall *c)
{
    return whim_jval_int(find(j, c, true), false);
}

static whim_jval must_find(whim_jinja *j, const whim_jcall *c, bool last)
{
    int64_t at = find(j, c, last);
    if (at < 0) {
        whim_jinja_fail(j, "the text that index looks for is not there");
    }
    return whim_jval_int(at, false);
}

static whim_jval str_index(whim_jinja *j, const whim_jcall *c)
{
    return must_find(j, c, false);
}

static whim_jval str_rindex(whim_jinja *j, const whim_jcall *c)
{
    return must_find(j, c, true);
}

static whim_jval str_count(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *needle = whim_jarg_str(j, c->a[0], "what is counted");
    const whim_jstr *str = part_of(j, c, 1);
    if (needle->n == 0) {
        return whim_jval_int(whim_jstr_chars(str) + 1, false);
    }
    int64_t count = 0;
    whim_jinja_pay(j, str->n / 32);
    for (int64_t at = 0; (at = whim_jstr_find(str, needle, at)) >= 0; at += needle->n) {
        count++;
    }
    return whim_jval_int(count, false);
}

const whim_jentry whim_jmethods_str[] = {
    {"startswith", "prefix start end", 1, str_startswith},
    {"endswith", "suffix start end", 1, str_endswith},
    {"split", "sep maxsplit", 0, str_split},
    {"rsplit", "sep maxsplit", 0, str_rsplit},
    {"splitlines", "keepends", 0, str_splitlines},
    {"partition", "sep", 1, str_partition},
    {"rpartition", "sep", 1, str_rpartition},
    {"strip", "chars", 0, str_strip},
    {"lstrip", "chars", 0, str_lstrip},
    {"rstrip", "chars", 0, str_rstrip},
    {"replace", "old new count", 2, str_replace},
    {"removeprefix", "prefix", 1, str_removeprefix},
    {"removesuffix", "suffix", 1, str_removesuffix},
    {"join", "iterable", 1, str_join},
    {"format", NULL, 0, str_format},
    {"find", "sub start end", 1, str_find},
    {"rfind", "sub start end", 1, str_rfind},
    {"index", "sub start end", 1, str_index},
    {"rindex", "sub start end", 1, str_rindex},
    {"count", "sub start end", 1, str_count},
    {NULL, NULL, 0, NULL},
};

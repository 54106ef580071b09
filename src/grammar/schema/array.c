/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: items of one schema or of schemas of their own, how many, and how many of them are like
 * another schema or must differ from each other. */
#include "grammar/schema/schema.h"

#include "base/alloc.h"

#include <string.h>

int32_t whim_gb_equal_items(whim_grammar_builder *b, int32_t item, int64_t lo, int64_t hi)
{
    if (hi == 0) {
        return whim_gb_text(b, "");
    }
    int32_t more = whim_gb_seq(b, whim_gb_comma(b), item);
    more = whim_grammar_repeat(b, more, lo > 0 ? lo - 1 : 0, hi > 0 ? hi - 1 : -1);
    int32_t some = whim_gb_seq(b, item, more);
    return lo > 0 ? some : whim_gb_optional(b, some);
}

/* Items with schemas of their own first; an array may end before it has all of them. */
static int32_t prefix_items(whim_grammar_builder *b, const json_t *prefix, int32_t rest,
                            const gplace *place, int32_t depth, int64_t lo, int64_t hi)
{
    int64_t n = (int64_t)json_array_size(prefix);
    int32_t tail = whim_gb_text(b, "");
    if (n > b->limits.max_depth) {
        return whim_gb_fail_at(b, place, "prefixItems", "are too many");
    }
    if (rest >= 0 && (hi < 0 || hi > n)) {
        tail = whim_grammar_repeat(b, whim_gb_seq(b, whim_gb_comma(b), rest), lo > n ? lo - n : 0,
                                   hi < 0 ? -1 : hi - n);
    }
    gplace list = {.up = place, .key = "prefixItems"};
    for (int64_t i = (hi >= 0 && hi < n ? hi : n) - 1; i >= 0; i--) {
        gplace at = {.up = &list, .index = i};
        int32_t item = whim_gb_schema_value(b, json_array_get(prefix, (size_t)i), &at, depth);
        item = i > 0 ? whim_gb_seq(b, whim_gb_comma(b), item) : item;
        tail = whim_gb_seq(b, item, tail);
        tail = i >= lo ? whim_gb_optional(b, tail) : tail;
    }
    return tail;
}

/* What is said about the items of an array. */
typedef struct array {
    whim_grammar_builder *b;
    const gplace *place;
    int32_t depth;
    const json_t *s, *items, *prefix;
    int64_t lo, hi; /* how many; hi < 0: no limit */
} array;

/* --- items of which some are like another schema ---------------------------------------------- */

enum {
    MOST_COUNTS = 1024,
    MOST_BOUND = 1 << 30,
    MOST_VALUES = 64,
    MOST_SUBSETS = 2048,
    MOST_LISTED = 512, /* values before those that do not fit, or come twice, are left out */
};
#define FEW_VALUES                                                                               \
    "is supported for items of up to 64 values (enum, const, boolean, null, whole numbers with " \
    "near bounds) that make at most 2048 sets, and up to one item"

/* Behind each item a rule goes on that knows how many there were, and how many were alike. Numbers
 * that make no difference any more are one. */
typedef struct counts {
    const array *a;
    int64_t least, most;      /* that are alike; most < 0: no limit */
    int64_t n_items, n_alike; /* the largest numbers that are told apart */
    int64_t n_prefix;         /* items with a schema of their own; at most n_items */
    int32_t *alike, *other;   /* [n_prefix + 1] an item of each kind, last all that follow */
    int32_t *rules;           /* [n_items + 1][n_alike + 1] */
} counts;

static bool may_end(const counts *c, int64_t items, int64_t alike)
{
    return items >= c->a->lo && alike >= c->least;
}

/* Whether an array that has so many can still be finished. */
static bool may_go_on(const counts *c, int64_t items, int64_t alike)
{
    int64_t missing = alike < c->least ? c->least - alike : 0;
    return c->a->hi < 0 || items + missing <= c->a->hi;
}

/* What follows an item, after which there are so many. */
static int32_t counts_tail(counts *c, int64_t items, int64_t alike)
{
    whim_grammar_builder *b = c->a->b;
    if (!may_go_on(c, items, alike)) {
        return whim_gb_never(b);
    }
    items = items < c->n_items ? items : c->n_items;
    alike = alike < c->n_alike ? alike : c->n_alike;
    if (c->a->hi >= 0 && items == c->a->hi) {
        return whim_gb_text(b, "");
    }
    int32_t *rule = &c->rules[items * (c->n_alike + 1) + alike];
    *rule = *rule >= 0 ? *rule : whim_gb_rule(b, NULL, "items of an array");
    int32_t call = whim_gb_call(b, *rule);
    return may_end(c, items, alike) ? whim_gb_optional(b, call) : call;
}

/* An item, behind a comma unless it is the first, and what follows it. */
static int32_t counts_item(counts *c, int64_t items, int64_t alike)
{
    whim_grammar_builder *b = c->a->b;
    const int64_t kind = items < c->n_prefix ? items : c->n_prefix;
    int32_t comma = items > 0 ? whim_gb_comma(b) : whim_gb_text(b, "");
    int32_t other = whim_gb_seq(b, comma, c->other[kind], counts_tail(c, items + 1, alike));
    if (c->most >= 0 && alike == c->most) {
        return other;
    }
    int32_t tail = counts_tail(c, items + 1, alike + 1);
    return whim_gb_any_of(b, whim_gb_seq(b, comma, c->alike[kind], tail), other);
}

/* Write the rules that are asked for, which may ask for more. */
static int32_t counts_write(counts *c)
{
    whim_grammar_builder *b = c->a->b;
    int32_t first = counts_item(c, 0, 0);
    for (bool more = true; more && !whim_gb_late(b);) {
        more = false;
        for (int64_t i = 0; i < (c->n_items + 1) * (c->n_alike + 1); i++) {
            int32_t rule = c->rules[i];
            if (rule >= 0 && b->rules[rule].node < 0 && !whim_gb_failed(b)) {
                int64_t items = i / (c->n_alike + 1);
                int32_t node = counts_item(c, items, i % (c->n_alike + 1));
                b->rules[rule].node = node;
                more = true;
            }
        }
    }
    return may_end(c, 0, 0) ? whim_gb_optional(b, first) : first;
}

/* An item of a schema (NULL: any), and the schema's place. */
typedef struct item_kind {
    const json_t *schema;
    gplace at;
} item_kind;

/* Items that fit a second schema, too. */
static int32_t item_with(const array *a, const item_kind *kind, const json_t *second)
{
    const gplace at = {.up = a->place, .key = "contains"};
    const json_t *items = kind->schema != NULL ? kind->schema : json_true();
    const json_t *both = whim_gb_schema_merge(a->b, items, second, &at, a->depth + 1);
    return both == NULL ? -1 : whim_gb_schema_value(a->b, both, &at, a->depth);
}

static int32_t items_but(const array *a, const item_kind *kind, const json_t *contains)
{
    json_t *but = json_pack("{s:O}", "not", contains);
    if (but == NULL || json_array_append_new(a->b->made, but) != 0) {
        return whim_gb_no_memory(a->b);
    }
    return item_with(a, kind, but);
}

/* Those that are alike, and the others: all where there may be any number of alike ones. */
static void find_kinds(counts *c, const json_t *contains)
{
    const array *a = c->a;
    const gplace list = {.up = a->place, .key = "prefixItems"};
    for (int64_t i = 0; i <= c->n_prefix && !whim_gb_failed(a->b); i++) {
        item_kind kind = {a->items, {.up = a->place, .key = "items"}};
        if (i < c->n_prefix) {
            kind = (item_kind){json_array_get(a->prefix, (size_t)i), {.up = &list, .index = i}};
        }
        c->alike[i] = c->most == 0 ? whim_gb_never(a->b) : item_with(a, &kind, contains);
        c->other[i] =
            c->most >= 0
                ? items_but(a, &kind, contains)
                : whim_gb_schema_value(a->b, kind.schema != NULL ? kind.schema : json_true(),
                                       &kind.at, a->depth);
    }
}

static int32_t counted_items(const array *a, const json_t *contains, int64_t least, int64_t most)
{
    counts c = {.a = a, .least = least, .most = most};
    c.n_prefix = (int64_t)json_array_size(a->prefix);
    c.n_items = a->hi >= 0 ? a->hi : a->lo > 1 ? a->lo : 1;
    c.n_items = a->hi < 0 && c.n_items < c.n_prefix ? c.n_prefix : c.n_items;
    c.n_prefix = c.n_prefix < c.n_items ? c.n_prefix : c.n_items;
    c.n_alike = most >= 0 ? most : least;
    if (c.n_items >= MOST_COUNTS || c.n_alike >= MOST_COUNTS ||
        (c.n_items + 1) * (c.n_alike + 1) > MOST_COUNTS) {
        return whim_gb_fail_at(a->b, a->place, "contains", "is not supported beside large counts");
    }
    const int64_t n_kind = c.n_prefix + 1, n_rule = (c.n_items + 1) * (c.n_alike + 1);
    int32_t *room = whim_gb_alloc(a->b, 2 * n_kind + n_rule, sizeof *room);
    if (room == NULL) {
        return -1;
    }
    c.alike = room;
    c.other = room + n_kind;
    c.rules = room + 2 * n_kind;
    for (int64_t i = 0; i < n_rule; i++) {
        c.rules[i] = -1;
    }
    find_kinds(&c, contains);
    int32_t body = whim_gb_failed(a->b) ? -1
                   : a->hi == 0         ? whim_gb_text(a->b, "")
                                        : counts_write(&c);
    whim_free(room);
    return body;
}

/* --- items that differ ------------------------------------------------------------------------ */

/* A rule for each set of values that stood already. */
typedef struct subset {
    uint64_t used;
    int32_t rule, n;
} subset;

typedef struct subsets {
    const array *a;
    int64_t lo, hi;
    int32_t n_value, values[MOST_VALUES];
    subset *list;
    int64_t n, cap;
} subsets;

/* The values of a schema that has few. References may double at each level, so what is looked at is
 * counted, and not only the values that are found. */
typedef struct listing {
    const array *a;
    json_t *out;
    int32_t n_looked_at;
} listing;

static bool list_add(listing *l, json_t *value)
{
    return json_array_append_new(l->out, value) == 0 || whim_gb_no_memory(l->a->b) >= 0;
}

/* The values of a type that has few, or of whole numbers between near bounds. */
static bool list_of_type(listing *l, const json_t *s, const char *type)
{
    const json_t *lo = json_object_get(s, "minimum"), *hi = json_object_get(s, "maximum");
    if (type == NULL || json_object_get(s, "nullable") != NULL) {
        return false;
    }
    if (strcmp(type, "boolean") == 0) {
        return list_add(l, json_true()) && list_add(l, json_false());
    }
    if (strcmp(type, "null") == 0) {
        return list_add(l, json_null());
    }
    int64_t from = json_integer_value(lo), to = json_integer_value(hi);
    bool near = strcmp(type, "integer") == 0 && json_is_integer(lo) && json_is_integer(hi) &&
                from > -MOST_BOUND && from < MOST_BOUND && to > -MOST_BOUND && to < MOST_BOUND &&
                to - from < MOST_VALUES;
    for (int64_t i = from; i <= to && near; i++) {
        near = list_add(l, json_integer(i));
    }
    return near;
}

/* False: the schema has more, or that is not known. */
static bool list_values(listing *l, const json_t *s, int32_t depth)
{
    gnamed named = whim_schema_named(s);
    const json_t *ref = json_object_get(s, "$ref"), *type = json_object_get(s, "type");
    const json_t *any = json_object_get(s, "anyOf");
    any = any != NULL ? any : json_object_get(s, "oneOf");
    size_t n_named = named.one != NULL ? 1 : json_array_size(named.list);
    if (depth > l->a->b->limits.max_depth || json_object_get(s, "nullable") != NULL ||
        ++l->n_looked_at > MOST_LISTED || json_array_size(l->out) + n_named > MOST_LISTED) {
        return false;
    }
    if (named.one != NULL) {
        return list_add(l, json_incref((json_t *)named.one));
    }
    if (named.list != NULL) {
        return json_array_extend(l->out, (json_t *)named.list) == 0 ||
               whim_gb_no_memory(l->a->b) >= 0;
    }
    if (ref != NULL) {
        const json_t *target = whim_schema_pointer(l->a->b->schema, json_string_value(ref));
        return list_values(l, target, depth + 1);
    }
    bool all = json_array_size(any) > 0;
    for (size_t i = 0; i < json_array_size(any) && all; i++) {
        all = list_values(l, json_array_get(any, i), depth + 1);
    }
    return any != NULL ? all : list_of_type(l, s, json_string_value(type));
}

/* Keep those of a list that fit, each once; false: they are too many, or that is not known. */
static bool keep_fitting(const array *a, const json_t *list, json_t *kept)
{
    const gplace at = {.up = a->place, .key = "items"};
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *value = json_array_get(list, i);
        int32_t fits = whim_gb_schema_fits(a->b, a->items, value, &at, a->depth);
        for (size_t k = 0; k < json_array_size(kept) && fits > 0; k++) {
            fits = !whim_schema_same(json_array_get(kept, k), value);
        }
        if (fits < 0 || (fits > 0 && json_array_size(kept) == MOST_VALUES)) {
            return false;
        }
        if (fits > 0 && json_array_append(kept, value) != 0) {
            return whim_gb_no_memory(a->b) >= 0;
        }
    }
    return true;
}

/* Write the values that an item can be; false: they are too many, or are not known. */
static bool find_values(const array *a, subsets *sets)
{
    char buf[GPLACE_ROOM];
    const gplace at = {.up = a->place, .key = "items"};
    const char *path = whim_gplace_text(&at, buf);
    json_t *list = json_array(), *kept = json_array();
    bool known = (list != NULL && kept != NULL && json_array_append(a->b->made, list) == 0 &&
                  json_array_append(a->b->made, kept) == 0) ||
                 whim_gb_no_memory(a->b) >= 0;
    known = known && list_values(&(listing){.a = a, .out = list}, a->items, 0) &&
            keep_fitting(a, list, kept);
    for (size_t i = 0; i < json_array_size(kept) && known; i++) {
        sets->values[sets->n_value++] = whim_gb_json_const(a->b, json_array_get(kept, i), 0, path);
    }
    json_decref(list);
    json_decref(kept);
    return known && !whim_gb_failed(a->b);
}

/* The rule for what follows these values. */
static int32_t subset_rule(subsets *sets, uint64_t used, int32_t n)
{
    whim_grammar_builder *b = sets->a->b;
    for (int64_t i = 0; i < sets->n; i++) {
        if (sets->list[i].used == used) {
            return sets->list[i].rule;
        }
    }
    if (sets->n == MOST_SUBSETS) {
        return whim_gb_fail_at(b, sets->a->place, "uniqueItems", FEW_VALUES);
    }
    subset set = {.used = used, .n = n, .rule = whim_gb_rule(b, NULL, "items that differ")};
    (void)whim_gb_append(b, &sets->list, &sets->n, &sets->cap, &set, 1, sizeof set);
    return set.rule;
}

/* One more value than those that stood, and what follows it. */
static int32_t subset_item(subsets *sets, uint64_t used, int32_t n)
{
    whim_grammar_builder *b = sets->a->b;
    glist alts = {0};
    for (int32_t i = 0; i < sets->n_value && !whim_gb_failed(b); i++) {
        uint64_t with = used | UINT64_C(1) << i;
        if (with == used) {
            continue;
        }
        int32_t tail = whim_gb_text(b, "");
        if (n + 1 < sets->hi) {
            tail = whim_gb_call(b, subset_rule(sets, with, n + 1));
            tail = n + 1 >= sets->lo ? whim_gb_optional(b, tail) : tail;
        }
        int32_t comma = n > 0 ? whim_gb_comma(b) : whim_gb_text(b, "");
        whim_glist_add(b, &alts, whim_gb_seq(b, comma, sets->values[i], tail));
    }
    return whim_glist_node(b, &alts, GN_ANY_OF);
}

static int32_t different_items(const array *a)
{
    whim_grammar_builder *b = a->b;
    subsets sets = {.a = a};
    if (json_array_size(a->prefix) > 0 || !json_is_object(a->items) || !find_values(a, &sets)) {
        return whim_gb_fail_at(b, a->place, "uniqueItems", FEW_VALUES);
    }
    sets.lo = a->lo;
    sets.hi = a->hi < 0 || a->hi > sets.n_value ? sets.n_value : a->hi;
    if (sets.lo > sets.hi) {
        return whim_gb_impossible(b, a->place, "minItems", "is more than there are values");
    }
    int32_t first = sets.hi == 0 ? whim_gb_text(b, "") : subset_item(&sets, 0, 0);
    for (int64_t i = 0; i < sets.n && !whim_gb_late(b); i++) {
        int32_t node = subset_item(&sets, sets.list[i].used, sets.list[i].n);
        b->rules[sets.list[i].rule].node = node;
    }
    whim_free(sets.list);
    return sets.lo == 0 && sets.hi > 0 ? whim_gb_optional(b, first) : first;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int32_t array_body(const array *a)
{
    whim_grammar_builder *b = a->b;
    const json_t *contains = json_object_get(a->s, "contains");
    int64_t n = (int64_t)json_array_size(a->prefix), least = 1, most = -1;
    if (contains != NULL && (!whim_gb_schema_count(b, a->s, "minContains", a->place, &least) ||
                             !whim_gb_schema_count(b, a->s, "maxContains", a->place, &most))) {
        return -1;
    }
    bool counted = contains != NULL && (least > 0 || most >= 0);
    if (json_is_true(json_object_get(a->s, "uniqueItems")) && (a->hi < 0 || a->hi > 1)) {
        return counted
                   ? whim_gb_fail_at(b, a->place, "uniqueItems", "is not supported beside contains")
                   : different_items(a);
    }
    if (counted) {
        return (most >= 0 && least > most) || (a->hi >= 0 && least > a->hi)
                   ? whim_gb_impossible(b, a->place, "minContains", "is more than there may be")
                   : counted_items(a, contains, least, most);
    }
    int32_t item = -1;
    if (a->hi < 0 || a->hi > n) {
        gplace at = {.up = a->place, .key = "items"};
        item = whim_gb_schema_value(b, a->items != NULL ? a->items : json_true(), &at, a->depth);
    }
    if (whim_gb_failed(b)) {
        return -1;
    }
    return n > 0 ? prefix_items(b, a->prefix, item, a->place, a->depth, a->lo, a->hi)
                 : whim_gb_equal_items(b, item, a->lo, a->hi);
}

int32_t whim_gb_schema_array(whim_grammar_builder *b, const json_t *s, const gplace *place,
                             int32_t depth)
{
    array a = {.b = b, .place = place, .depth = depth, .s = s, .hi = -1};
    a.items = json_object_get(s, "items");
    a.prefix = json_object_get(s, "prefixItems");
    if (json_is_array(a.items)) { /* as older drafts write it */
        a.prefix = a.items;
        a.items = json_object_get(s, "additionalItems");
    }
    if (a.items == NULL) { /* nothing that could evaluate more stands beside it: see the merging */
        a.items = json_object_get(s, "unevaluatedItems");
        if (json_object_get(s, "contains") != NULL && a.items != NULL && !json_is_true(a.items)) {
            return whim_gb_fail_at(b, place, "unevaluatedItems",
                                   "is not supported beside contains");
        }
    }
    if (a.prefix != NULL && !json_is_array(a.prefix)) {
        return whim_gb_fail_at(b, place, "prefixItems", "must be a list of schemas");
    }
    if (!whim_gb_schema_count(b, s, "minItems", place, &a.lo) ||
        !whim_gb_schema_count(b, s, "maxItems", place, &a.hi)) {
        return -1;
    }
    int64_t n = (int64_t)json_array_size(a.prefix);
    if (json_is_false(a.items)) {
        a.hi = a.hi < 0 || a.hi > n ? n : a.hi;
    }
    if (a.hi >= 0 && a.lo > a.hi) {
        return whim_gb_impossible(b, place, "minItems", "is more than an array may have");
    }
    int32_t body = array_body(&a);
    return body < 0 ? -1 : whim_gb_seq(b, whim_gb_text(b, "["), body, whim_gb_text(b, "]"));
}

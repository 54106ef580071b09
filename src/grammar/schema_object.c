/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of objects and arrays. Keys come in the order of the schema; keys besides those listed
 * follow them. */
#include "grammar/impl.h"

#include "base/alloc.h"

#include <string.h>

/* --- objects ---------------------------------------------------------------------------------- */

typedef struct object {
    whim_grammar_builder *b;
    const json_t *s;
    const gplace *place;
    int32_t depth;
    const json_t *properties, *more; /* more: additionalProperties, NULL: none */
    glist triples;
    int64_t n_required, n_listed;
    glist names; /* keys that others must not be */
    int32_t colon;
} object;

static void add_member(object *o, const char *name, const json_t *schema, bool required)
{
    gplace properties = {.up = o->place, .key = "properties"};
    gplace at = {.up = &properties, .key = name};
    int32_t key = whim_gb_json_text(o->b, name, (int64_t)strlen(name));
    whim_glist_add(o->b, &o->names, key);
    if (json_is_false(schema) && !required) {
        return; /* it can only be left out */
    }
    whim_glist_add(o->b, &o->triples, whim_gb_seq(o->b, key, o->colon));
    whim_glist_add(o->b, &o->triples, whim_gb_schema_value(o->b, schema, &at, o->depth));
    whim_glist_add(o->b, &o->triples, required ? GM_REQUIRED : GM_OPTIONAL);
    o->n_required += required;
    o->n_listed++;
}

/* The listed properties, then those required but not listed. */
static void add_listed(object *o)
{
    const json_t *list = json_object_get(o->s, "required");
    json_t *required = json_object();
    const char *key;
    json_t *value;
    if ((list != NULL && !json_is_array(list)) || required == NULL) {
        whim_gb_fail_at(o->b, o->place, "required", "must be a list of names");
    }
    for (size_t i = 0; i < json_array_size(list) && !whim_gb_failed(o->b); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name == NULL || json_object_set_new(required, name, json_true()) != 0) {
            whim_gb_fail_at(o->b, o->place, "required", "must be a list of names");
        }
    }
    json_object_foreach((json_t *)o->properties, key, value)
    {
        if (whim_gb_failed(o->b)) {
            break;
        }
        add_member(o, key, value, json_object_get(required, key) != NULL);
    }
    json_object_foreach(required, key, value)
    {
        if (whim_gb_failed(o->b) || json_object_get(o->properties, key) != NULL) {
            continue;
        }
        if (json_is_false(json_object_get(o->s, "additionalProperties")) ||
            (o->more == NULL && json_is_false(json_object_get(o->s, "unevaluatedProperties")))) {
            whim_gb_fail_at(o->b, o->place, "required",
                            "names a key that the schema does not allow");
        } else {
            add_member(o, key, o->more != NULL ? o->more : json_true(), true);
        }
    }
    json_decref(required);
}

/* Any text between quotes, each character in one spelling only, so that names can be told apart. */
static int32_t any_key(whim_grammar_builder *b)
{
    grange all = {1, GC_MAX};
    int32_t body = whim_grammar_repeat(b, whim_gb_json_chars(b, &all, 1), 0, -1);
    return whim_gb_quoted(b, body);
}

static int32_t but_not(whim_grammar_builder *b, int32_t key, const glist *others)
{
    if (others->n == 0 || whim_gb_failed(b)) {
        return key;
    }
    return whim_gb_pair(b, GN_BUT_NOT, key, whim_grammar_any_of(b, others->ids, others->n));
}

/* Keys by pattern. A key that several patterns match is left out, since it would have to fit
 * several schemas. */
static void add_patterns(object *o, const json_t *patterns, glist *pairs)
{
    gplace at = {.up = o->place, .key = "patternProperties"};
    char buf[GPLACE_ROOM];
    const char *pattern;
    json_t *schema;
    glist keys = {0};
    json_object_foreach((json_t *)patterns, pattern, schema)
    {
        gplace each = {.up = &at, .key = pattern};
        int32_t body = whim_gb_regex(o->b, pattern, (gregex_mode){.json = true, .search = true},
                                     whim_gplace_text(&each, buf));
        whim_glist_add(o->b, &keys, whim_gb_quoted(o->b, body));
        if (whim_gb_failed(o->b)) {
            break;
        }
    }
    int64_t i = 0;
    json_object_foreach((json_t *)patterns, pattern, schema)
    {
        gplace each = {.up = &at, .key = pattern};
        glist others = {0};
        for (int64_t k = 0; k < keys.n && !whim_gb_failed(o->b); k++) {
            if (k != i) {
                whim_glist_add(o->b, &others, keys.ids[k]);
            }
        }
        if (!whim_gb_failed(o->b)) {
            int32_t key = but_not(o->b, keys.ids[i], &others);
            int32_t value = whim_gb_schema_value(o->b, schema, &each, o->depth);
            whim_glist_add(o->b, pairs, whim_gb_seq(o->b, key, o->colon, value));
            whim_glist_add(o->b, &o->names, keys.ids[i]);
        }
        whim_free(others.ids);
        i++;
    }
    whim_free(keys.ids);
}

/* The keys that propertyNames allows. */
static int32_t named_key(object *o, const json_t *name)
{
    static const char known[] = "type enum const pattern minLength maxLength format";
    gplace place = {.up = o->place, .key = "propertyNames"};
    const json_t *ref = json_object_get(name, "$ref");
    if (ref != NULL) {
        name = whim_gb_schema_target(o->b, json_string_value(ref), &place);
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)name, key, value)
    {
        if (!whim_schema_has_word(known, key) && !whim_schema_is_note(key)) {
            return whim_gb_fail_at(o->b, &place, key, "is not supported here");
        }
    }
    if (json_object_get(name, "enum") != NULL || json_object_get(name, "const") != NULL) {
        json_t *texts = json_copy((json_t *)name); /* a key is a text */
        bool ok = texts != NULL && json_object_set_new(texts, "type", json_string("string")) == 0;
        int32_t node =
            ok ? whim_gb_schema_node(o->b, texts, &place, o->depth + 1) : whim_gb_no_memory(o->b);
        json_decref(texts);
        return node;
    }
    return whim_gb_schema_string(o->b, name, &place);
}

/* A key and a value besides the listed ones, or -1: there are none. */
static int32_t extra_pair(object *o)
{
    whim_grammar_builder *b = o->b;
    const json_t *patterns = json_object_get(o->s, "patternProperties");
    const json_t *name = json_object_get(o->s, "propertyNames");
    glist pairs = {0};
    if (json_is_false(name)) {
        return whim_gb_fail_at(b, o->place, "propertyNames", "allows no key");
    }
    if (json_object_size(patterns) > 0) {
        if (o->n_listed > 0) {
            return whim_gb_fail_at(b, o->place, "patternProperties",
                                   "beside properties are not supported");
        }
        add_patterns(o, patterns, &pairs);
    }
    if (o->more != NULL && !whim_gb_failed(b)) {
        gplace at = {.up = o->place, .key = "additionalProperties"};
        int32_t key = o->names.n > 0 ? any_key(b) : whim_gb_json_string(b);
        if (json_object_size(name) > 0) {
            key = named_key(o, name);
        }
        int32_t value = whim_gb_schema_value(b, o->more, &at, o->depth);
        whim_glist_add(b, &pairs, whim_gb_seq(b, but_not(b, key, &o->names), o->colon, value));
    } else if (name != NULL && o->more == NULL && !json_is_true(name)) {
        whim_gb_fail_at(b, o->place, "propertyNames", "is supported for free keys only");
    }
    if (pairs.n == 0 || whim_gb_failed(b)) {
        whim_free(pairs.ids);
        return -1;
    }
    return whim_glist_node(b, &pairs, GN_ANY_OF);
}

/* `lo` to `hi` items of an array, or free keys with their values, all of one schema. */
static int32_t equal_items(whim_grammar_builder *b, int32_t item, int64_t lo, int64_t hi)
{
    if (hi == 0) {
        return whim_gb_text(b, "");
    }
    int32_t more = whim_gb_seq(b, whim_gb_comma(b), item);
    more = whim_grammar_repeat(b, more, lo > 0 ? lo - 1 : 0, hi > 0 ? hi - 1 : -1);
    int32_t some = whim_gb_seq(b, item, more);
    return lo > 0 ? some : whim_gb_optional(b, some);
}

static int32_t object_body(object *o)
{
    whim_grammar_builder *b = o->b;
    int64_t lo = 0, hi = -1;
    if (!whim_gb_schema_count(b, o->s, "minProperties", o->place, &lo) ||
        !whim_gb_schema_count(b, o->s, "maxProperties", o->place, &hi)) {
        return -1;
    }
    add_listed(o);
    int32_t pair = whim_gb_failed(b) ? -1 : extra_pair(o);
    if (whim_gb_failed(b)) {
        return -1;
    }
    if ((hi >= 0 && (lo > hi || o->n_required > hi)) || (pair < 0 && lo > o->n_listed)) {
        return whim_gb_fail_at(b, o->place, "minProperties",
                               "and what else is said allow no object");
    }
    if (lo > 1 && lo > o->n_required) {
        return whim_gb_fail_at(b, o->place, "minProperties",
                               "above 1 is supported for required keys only");
    }
    bool some = lo > o->n_required;
    if (hi >= 0 && (pair >= 0 || hi < o->n_listed)) {
        return o->n_listed == 0 && pair >= 0
                   ? equal_items(b, pair, lo, hi)
                   : whim_gb_fail_at(b, o->place, "maxProperties",
                                     "is supported for objects of free keys only");
    }
    if (pair >= 0) {
        whim_glist_add(b, &o->triples, whim_gb_text(b, ""));
        whim_glist_add(b, &o->triples, pair);
        whim_glist_add(b, &o->triples, GM_REPEATED);
    }
    return whim_gb_members(b, o->triples.ids, o->triples.n / 3, some);
}

int32_t whim_gb_schema_object(whim_grammar_builder *b, const json_t *s, const gplace *place,
                              int32_t depth)
{
    object o = {.b = b, .s = s, .place = place, .depth = depth, .colon = whim_gb_colon(b)};
    o.properties = json_object_get(s, "properties");
    o.more = json_object_get(s, "additionalProperties");
    if (o.more == NULL && json_is_object(json_object_get(s, "unevaluatedProperties"))) {
        o.more = json_object_get(s, "unevaluatedProperties");
    }
    if (o.properties != NULL && !json_is_object(o.properties)) {
        return whim_gb_fail_at(b, place, "properties", "must be an object");
    }
    if (o.more == NULL && json_object_size(o.properties) == 0 &&
        json_object_get(s, "patternProperties") == NULL &&
        !json_is_false(json_object_get(s, "unevaluatedProperties"))) {
        o.more = json_true();
    }
    o.more = json_is_false(o.more) ? NULL : o.more;
    int32_t body = object_body(&o);
    whim_free(o.triples.ids);
    whim_free(o.names.ids);
    return body < 0 ? -1 : whim_gb_seq(b, whim_gb_text(b, "{"), body, whim_gb_text(b, "}"));
}

/* --- arrays ----------------------------------------------------------------------------------- */

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

int32_t whim_gb_schema_array(whim_grammar_builder *b, const json_t *s, const gplace *place,
                             int32_t depth)
{
    const json_t *items = json_object_get(s, "items");
    const json_t *prefix = json_object_get(s, "prefixItems");
    if (json_is_array(items)) { /* as older drafts write it */
        prefix = items;
        items = json_object_get(s, "additionalItems");
    }
    if (items ==
        NULL) { /* nothing stands beside it here that could evaluate more: see the merging */
        items = json_object_get(s, "unevaluatedItems");
    }
    if (prefix != NULL && !json_is_array(prefix)) {
        return whim_gb_fail_at(b, place, "prefixItems", "must be a list of schemas");
    }
    int64_t lo = 0, hi = -1, n = (int64_t)json_array_size(prefix);
    if (!whim_gb_schema_count(b, s, "minItems", place, &lo) ||
        !whim_gb_schema_count(b, s, "maxItems", place, &hi)) {
        return -1;
    }
    if (json_is_false(items)) {
        hi = hi < 0 || hi > n ? n : hi;
    }
    if (hi >= 0 && lo > hi) {
        return whim_gb_fail_at(b, place, "minItems", "is more than an array may have");
    }
    if (json_is_true(json_object_get(s, "uniqueItems")) && (hi < 0 || hi > 1)) {
        return whim_gb_fail_at(b, place, "uniqueItems",
                               "is a schema keyword that is not supported");
    }
    int32_t item = -1;
    if (hi < 0 || hi > n) {
        gplace at = {.up = place, .key = "items"};
        item = whim_gb_schema_value(b, items != NULL ? items : json_true(), &at, depth);
    }
    if (whim_gb_failed(b)) {
        return -1;
    }
    int32_t body =
        n > 0 ? prefix_items(b, prefix, item, place, depth, lo, hi) : equal_items(b, item, lo, hi);
    return whim_gb_seq(b, whim_gb_text(b, "["), body, whim_gb_text(b, "]"));
}

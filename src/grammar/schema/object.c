/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of objects. Keys come in the order of the schema; keys besides those listed
 * follow them. */
#include "grammar/schema/schema.h"

#include "base/alloc.h"

#include <string.h>

typedef struct object {
    whim_grammar_builder *b;
    const json_t *s;
    const gplace *place;
    int32_t depth;
    const json_t *properties, *patterns, *more; /* more: additionalProperties, NULL: none */
    int32_t name;                               /* what propertyNames says of keys, -1: nothing */
    glist triples;
    int64_t n_required, n_listed;
    glist names; /* keys that others must not be */
    int32_t colon;
} object;

/* Whether propertyNames allows a key that the schema has. */
static bool may_be_named(object *o, const char *name)
{
    json_t *key = json_string(name);
    char *text = key == NULL ? NULL : json_dumps(key, JSON_ENCODE_ANY);
    bool may =
        text != NULL && (o->name < 0 || whim_gb_takes(o->b, o->name, text, (int64_t)strlen(text)));
    if (text == NULL) {
        whim_gb_no_memory(o->b);
    }
    json_decref(key);
    whim_free(text); /* counted, where the JSON library's memory is */
    return may;
}

static void add_member(object *o, const char *name, const json_t *schema, bool required)
{
    gplace properties = {.up = o->place, .key = "properties"};
    gplace at = {.up = &properties, .key = name};
    int32_t key = whim_gb_json_text(o->b, name, (int64_t)strlen(name));
    schema = may_be_named(o, name) ? schema : json_false();
    whim_glist_add(o->b, &o->names, key);
    if (json_is_false(schema) && !required) {
        return; /* it can only be left out */
    }
    if (json_is_false(schema)) {
        (void)whim_gb_impossible(o->b, o->place, "required",
                                 "names a key that the schema does not allow");
    }
    whim_glist_add(o->b, &o->triples, whim_gb_seq(o->b, key, o->colon));
    whim_glist_add(o->b, &o->triples, whim_gb_schema_value(o->b, schema, &at, o->depth));
    whim_glist_add(o->b, &o->triples, required ? GM_REQUIRED : GM_OPTIONAL);
    o->n_required += required;
    o->n_listed++;
}

static bool is_absent(const object *o, const char *key)
{
    const json_t *absent = json_object_get(o->s, GK_ABSENT);
    bool found = false;
    for (size_t i = 0; i < json_array_size(absent) && !found; i++) {
        const char *name = json_string_value(json_array_get(absent, i));
        found = name != NULL && strcmp(name, key) == 0;
    }
    return found;
}

/* What is said of a key by name and by patterns; NULL: nothing. */
static const json_t *said_of_key(object *o, const char *key)
{
    gplace at = {.up = o->place, .key = "patternProperties"};
    const json_t *said = is_absent(o, key) ? json_false() : json_object_get(o->properties, key);
    const char *pattern;
    json_t *schema;
    json_object_foreach((json_t *)o->patterns, pattern, schema)
    {
        if (whim_gb_pattern_finds(o->b, pattern, key, &at)) {
            said = whim_gb_schema_both(o->b, said, schema);
        }
    }
    return said;
}

/* The names of `required`, as keys; NULL: failed. The caller frees. */
static json_t *required_keys(object *o)
{
    const json_t *list = json_object_get(o->s, "required");
    json_t *required = json_object();
    bool ok = required != NULL && (list == NULL || json_is_array(list));
    for (size_t i = 0; i < json_array_size(list) && ok; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        ok = name != NULL && json_object_set_new(required, name, json_true()) == 0;
    }
    if (!ok) {
        whim_gb_fail_at(o->b, o->place, "required", "must be a list of names");
    }
    return required;
}

/* The listed properties, then those required but not listed. */
static void add_listed(object *o)
{
    json_t *required = required_keys(o);
    bool closed =
        json_is_false(json_object_get(o->s, "additionalProperties")) ||
        (o->more == NULL && json_is_false(json_object_get(o->s, "unevaluatedProperties")));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)o->properties, key, value)
    {
        if (whim_gb_failed(o->b)) {
            break;
        }
        const json_t *held = json_object_get(json_object_get(o->s, GK_HELD), key);
        add_member(o, key, whim_gb_schema_both(o->b, said_of_key(o, key), held),
                   json_object_get(required, key) != NULL);
    }
    json_object_foreach(required, key, value)
    {
        if (whim_gb_failed(o->b) || json_object_get(o->properties, key) != NULL) {
            continue;
        }
        const json_t *said = said_of_key(o, key);
        said = said != NULL      ? said
               : closed          ? json_false()
               : o->more != NULL ? o->more
                                 : json_true();
        const json_t *held = json_object_get(json_object_get(o->s, GK_HELD), key);
        add_member(o, key, whim_gb_schema_both(o->b, said, held), true);
    }
    json_decref(required);
}

/* Keys that do not come: those that must not, and those that would have to fit more than is said of
 * free ones. */
static void add_absent(object *o)
{
    const json_t *absent = json_object_get(o->s, GK_ABSENT);
    const char *key;
    json_t *value;
    for (size_t i = 0; i < json_array_size(absent) && !whim_gb_failed(o->b); i++) {
        const char *name = json_string_value(json_array_get(absent, i));
        if (name != NULL) {
            whim_glist_add(o->b, &o->names, whim_gb_json_text(o->b, name, (int64_t)strlen(name)));
        }
    }
    json_object_foreach(json_object_get(o->s, GK_HELD), key, value)
    {
        whim_glist_add(o->b, &o->names, whim_gb_json_text(o->b, key, (int64_t)strlen(key)));
    }
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

/* Adds a key, less those that others are, and its value. */
static void add_pair(object *o, glist *pairs, int32_t key, const glist *others,
                     const json_t *schema, const gplace *place)
{
    key = but_not(o->b, key, others);
    key = o->name >= 0 ? whim_gb_pair(o->b, GN_BOTH, key, o->name) : key;
    int32_t value = whim_gb_schema_value(o->b, schema, place, o->depth);
    whim_glist_add(o->b, pairs, whim_gb_seq(o->b, key, o->colon, value));
}

/* Keys by pattern that are not listed. A key that several patterns match is left out, since it
 * would have to fit several schemas. */
static void add_patterns(object *o, glist *pairs)
{
    gplace at = {.up = o->place, .key = "patternProperties"};
    char buf[GPLACE_ROOM];
    const char *pattern;
    json_t *schema;
    glist keys = {0};
    json_object_foreach((json_t *)o->patterns, pattern, schema)
    {
        gplace each = {.up = &at, .key = pattern};
        int32_t body = whim_gb_regex(o->b, pattern, (gregex_mode){.json = true, .search = true},
                                     whim_gplace_text(&each, buf));
        whim_glist_add(o->b, &keys, whim_gb_quoted(o->b, body));
    }
    int64_t i = 0;
    json_object_foreach((json_t *)o->patterns, pattern, schema)
    {
        gplace each = {.up = &at, .key = pattern};
        glist others = {0};
        for (int64_t k = 0; k < o->names.n; k++) {
            whim_glist_add(o->b, &others, o->names.ids[k]);
        }
        for (int64_t k = 0; k < keys.n; k++) {
            if (k != i) {
                whim_glist_add(o->b, &others, keys.ids[k]);
            }
        }
        if (!whim_gb_failed(o->b) && !json_is_false(schema)) {
            add_pair(o, pairs, keys.ids[i], &others, schema, &each);
        }
        whim_free(others.ids);
        i++;
    }
    for (int64_t k = 0; k < keys.n; k++) {
        whim_glist_add(o->b, &o->names, keys.ids[k]);
    }
    whim_free(keys.ids);
}

/* What propertyNames says of keys; -1 without a failure: nothing. */
static int32_t named_key(object *o)
{
    const json_t *name = json_object_get(o->s, "propertyNames");
    gplace place = {.up = o->place, .key = "propertyNames"};
    if (name == NULL || json_is_true(name)) {
        return -1;
    }
    json_t *text = json_pack("{s:s}", "type", "string");
    bool ok = text != NULL && json_array_append_new(o->b->made, text) == 0;
    const json_t *flat = ok ? whim_gb_schema_merge(o->b, name, text, &place, o->depth + 1) : NULL;
    if (flat == NULL) {
        return ok ? -1 : whim_gb_no_memory(o->b);
    }
    bool says = json_is_false(flat) || json_object_size(flat) > 1;
    o->b->without_calls = true;
    int32_t key = says ? whim_gb_schema_node(o->b, flat, &place, o->depth + 1) : -1;
    o->b->without_calls = false;
    return key;
}

/* A key and a value besides the listed ones, or -1: there are none. */
static int32_t extra_pair(object *o)
{
    whim_grammar_builder *b = o->b;
    glist pairs = {0};
    add_patterns(o, &pairs);
    if (o->more != NULL && !whim_gb_failed(b)) {
        gplace at = {.up = o->place, .key = "additionalProperties"};
        bool plain = o->names.n == 0 && o->name < 0;
        add_pair(o, &pairs, plain ? whim_gb_json_string(b) : any_key(b), &o->names, o->more, &at);
    }
    if (pairs.n == 0 || whim_gb_failed(b)) {
        whim_free(pairs.ids);
        return -1;
    }
    return whim_glist_node(b, &pairs, GN_ANY_OF);
}

static int32_t object_body(object *o)
{
    whim_grammar_builder *b = o->b;
    int64_t lo = 0, hi = -1;
    if (!whim_gb_schema_count(b, o->s, "minProperties", o->place, &lo) ||
        !whim_gb_schema_count(b, o->s, "maxProperties", o->place, &hi)) {
        return -1;
    }
    o->name = named_key(o);
    add_listed(o);
    add_absent(o);
    int32_t pair = whim_gb_failed(b) ? -1 : extra_pair(o);
    if (whim_gb_failed(b)) {
        return -1;
    }
    if ((hi >= 0 && (lo > hi || o->n_required > hi)) || (pair < 0 && lo > o->n_listed)) {
        return whim_gb_impossible(b, o->place, "minProperties",
                                  "and what else is said allow no object");
    }
    if (lo > 1 && lo > o->n_required) {
        return whim_gb_fail_at(b, o->place, "minProperties",
                               "above 1 is supported for required keys only");
    }
    bool some = lo > o->n_required;
    if (hi >= 0 && (pair >= 0 || hi < o->n_listed)) {
        return o->n_listed == 0 && pair >= 0
                   ? whim_gb_equal_items(b, pair, lo, hi)
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
    o.patterns = json_object_get(s, "patternProperties");
    o.more = json_object_get(s, "additionalProperties");
    if (o.more == NULL && json_is_object(json_object_get(s, "unevaluatedProperties"))) {
        o.more = json_object_get(s, "unevaluatedProperties");
    }
    if (o.properties != NULL && !json_is_object(o.properties)) {
        return whim_gb_fail_at(b, place, "properties", "must be an object");
    }
    if (o.more == NULL && json_object_size(o.properties) == 0 &&
        json_object_size(o.patterns) == 0 &&
        !json_is_false(json_object_get(s, "unevaluatedProperties"))) {
        o.more = json_true();
    }
    o.more = json_is_false(o.more) ? NULL : o.more;
    int32_t body = object_body(&o);
    whim_free(o.triples.ids);
    whim_free(o.names.ids);
    return body < 0 ? -1 : whim_gb_seq(b, whim_gb_text(b, "{"), body, whim_gb_text(b, "}"));
}

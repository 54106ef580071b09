/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are nearly JSON, as chat/tools/marked.c reads them: keys stand bare, texts between
 * two marks. What a schema says and this spelling cannot be held to is refused. */
#include "base/alloc.h"
#include "chat/answer_impl.h"
#include "chat/tools/parser.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 16, PATH_ROOM = 256 };

/* Where a schema stands. */
typedef struct place {
    const json_t *root; /* of the function's arguments */
    const char *path;
    int depth; /* how much deeper it may go */
} place;

static whim_grammar_node refuse(whim_answer *a, const place *at, const char *key)
{
    return whim_gb_fail(a->b, WHIM_ERR_INVALID,
                        "%s%s%s is not supported: this model's calls are not JSON; use types, "
                        "properties, items, enum and what holds for a text or a number",
                        at->path, key[0] != '\0' ? "." : "", key);
}

/* Refuses a schema with one of the keys; true: it has none. */
static bool has_none(whim_answer *a, const json_t *s, const char *const *keys, size_t n,
                     const place *at)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(s, keys[i]);
        if (value != NULL && !json_is_false(value)) {
            (void)refuse(a, at, keys[i]);
            return false;
        }
    }
    return true;
}
#define HAS_NONE(a, s, keys, at) has_none(a, s, keys, sizeof(keys) / sizeof((keys)[0]), at)

/* --- any value -------------------------------------------------------------------------------- */

static whim_grammar_node quote(whim_answer *a)
{
    return whim_answer_text(a, a->rule->format.tools->quote);
}

static whim_grammar_node any_text(whim_answer *a)
{
    return whim_gb_seq(a->b, quote(a), whim_grammar_until(a->b, a->rule->format.tools->quote));
}

static whim_grammar_node braces(whim_answer *a, const char *open, whim_grammar_node members,
                                const char *close)
{
    return whim_gb_seq(a->b, whim_answer_text(a, open), members, whim_answer_text(a, close));
}

static whim_grammar_node any_object(whim_answer *a, whim_grammar_node value)
{
    whim_grammar_node key =
        whim_gb_seq(a->b, whim_grammar_regex(a->b, "[A-Za-z_][A-Za-z0-9_.-]{0,63}", "tools"),
                    whim_answer_text(a, ":"));
    int32_t member[] = {key, value, GM_REPEATED};
    return braces(a, "{", whim_gb_members(a->b, member, 1, false), "}");
}

static whim_grammar_node list_of(whim_answer *a, whim_grammar_node item)
{
    int32_t member[] = {whim_answer_text(a, ""), item, GM_REPEATED};
    return braces(a, "[", whim_gb_members(a->b, member, 1, false), "]");
}

/* A call of the rule for any value, which is made at the first one. */
static whim_grammar_node any_value(whim_answer *a)
{
    if (a->marked_rule < 0) {
        a->marked_rule = whim_gb_rule(a->b, NULL, "a value");
        whim_grammar_node self = whim_gb_call(a->b, a->marked_rule);
        whim_grammar_node node =
            whim_gb_any_of(a->b, any_text(a), whim_gb_json_number(a->b),
                           whim_answer_text(a, "true"), whim_answer_text(a, "false"),
                           whim_answer_text(a, "null"), any_object(a, self), list_of(a, self));
        if (node >= 0) {
            a->b->rules[a->marked_rule].node = node;
        }
    }
    return whim_gb_call(a->b, a->marked_rule);
}

/* --- by a schema ------------------------------------------------------------------------------ */

static whim_grammar_node value_of(whim_answer *a, const json_t *s, const place *at);

static whim_grammar_node fixed(whim_answer *a, const json_t *value, const place *at)
{
    const char *text = json_string_value(value);
    if (text != NULL) {
        bool marked = strstr(text, a->rule->format.tools->quote) != NULL;
        return marked ? refuse(a, at, "enum")
                      : whim_gb_seq(a->b, quote(a), whim_answer_text(a, text), quote(a));
    }
    return json_is_object(value) || json_is_array(value)
               ? refuse(a, at, "enum")
               : whim_gb_json_const(a->b, value, 1, at->path);
}

/* const and enum, as far as they have one of the types. */
static whim_grammar_node fixed_values(whim_answer *a, const json_t *s, const place *at)
{
    const json_t *one = json_object_get(s, "const"), *list = json_object_get(s, "enum");
    uint32_t types = whim_schema_types(at->root, s);
    glist all = {0};
    for (size_t i = 0; i < (one != NULL ? 1 : json_array_size(list)); i++) {
        const json_t *value = one != NULL ? one : json_array_get(list, i);
        if ((whim_schema_type_of(value) & types) != 0) {
            whim_glist_add(a->b, &all, fixed(a, value, at));
        }
    }
    if (all.n == 0) {
        (void)whim_gb_fail(a->b, WHIM_ERR_INVALID, "%s allows no value", at->path);
    }
    return whim_glist_node(a->b, &all, GN_ANY_OF);
}

/* A schema inside another. */
static whim_grammar_node inner(whim_answer *a, const json_t *s, const place *at, const char *key)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%.160s.%.80s", at->path, key);
    const place deeper = {at->root, path, at->depth - 1};
    return at->depth == 0 ? whim_gb_fail(a->b, WHIM_ERR_INVALID, "%s is nested deeper than %d",
                                         path, MAX_DEPTH)
                          : value_of(a, s, &deeper);
}

static bool is_required(const json_t *s, const char *key)
{
    size_t i;
    json_t *word;
    bool is = false;
    json_array_foreach(json_object_get(s, "required"), i, word)
    {
        is = is || (json_is_string(word) && strcmp(json_string_value(word), key) == 0);
    }
    return is;
}

/* A key must be read as one: without what ends it, and not as the beginning of something else. */
static bool is_plain_key(const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < n; i++) {
        n = (unsigned char)key[i] < ' ' ? 0 : n;
    }
    return n > 0 && key[0] != ' ' && strcspn(key, ":{}[],\"<\\") == n;
}

static whim_grammar_node object_of(whim_answer *a, const json_t *s, const place *at)
{
    static const char *const cannot[] = {
        "patternProperties", "propertyNames", "dependentRequired",     "dependentSchemas",
        "dependencies",      "minProperties", "unevaluatedProperties", "maxProperties"};
    const json_t *properties = json_object_get(s, "properties"), *word;
    const json_t *more = json_object_get(s, "additionalProperties");
    const char *key;
    json_t *property;
    size_t i;
    glist members = {0};
    if (!HAS_NONE(a, s, cannot, at) || (json_is_object(more) && json_object_size(more) > 0)) {
        return refuse(a, at, "additionalProperties");
    }
    json_array_foreach(json_object_get(s, "required"), i, word)
    {
        if (json_object_get(properties, json_is_string(word) ? json_string_value(word) : "") ==
            NULL) {
            return refuse(a, at, "required");
        }
    }
    if (json_object_size(properties) == 0 && !json_is_false(more)) {
        return any_object(a, any_value(a));
    }
    json_object_foreach((json_t *)properties, key, property)
    {
        char name[PATH_ROOM];
        snprintf(name, sizeof name, "properties.%.60s", key);
        if (!is_plain_key(key)) {
            (void)refuse(a, at, name);
        }
        whim_glist_add(a->b, &members,
                       whim_gb_seq(a->b, whim_answer_text(a, key), whim_answer_text(a, ":")));
        whim_glist_add(a->b, &members, inner(a, property, at, name));
        whim_glist_add(a->b, &members, is_required(s, key) ? GM_REQUIRED : GM_OPTIONAL);
    }
    whim_grammar_node all = members.n > 0 ? whim_gb_members(a->b, members.ids, members.n / 3, false)
                                          : whim_answer_text(a, "");
    whim_free(members.ids);
    return braces(a, "{", all, "}");
}

static whim_grammar_node array_of(whim_answer *a, const json_t *s, const place *at)
{
    static const char *const cannot[] = {"prefixItems", "uniqueItems", "contains",
                                         "additionalItems", "unevaluatedItems"};
    const gplace here = {.root = at->path};
    const json_t *items = json_object_get(s, "items");
    int64_t least = 0, most = -1;
    if (!HAS_NONE(a, s, cannot, at) || (items != NULL && !json_is_object(items)) ||
        !whim_gb_schema_count(a->b, s, "minItems", &here, &least) ||
        !whim_gb_schema_count(a->b, s, "maxItems", &here, &most)) {
        return refuse(a, at, "items");
    }
    if (most >= 0 && least > most) {
        return whim_gb_fail(a->b, WHIM_ERR_INVALID, "%s allows no value", at->path);
    }
    whim_grammar_node item = items != NULL ? inner(a, items, at, "items") : any_value(a);
    whim_grammar_node next = whim_gb_seq(a->b, whim_answer_text(a, ","), item);
    whim_grammar_node row =
        most == 0 ? whim_answer_text(a, "")
                  : whim_gb_seq(a->b, item,
                                whim_grammar_repeat(a->b, next, least > 0 ? least - 1 : 0,
                                                    most < 0 ? -1 : most - 1));
    return braces(a, "[", least == 0 ? whim_gb_optional(a->b, row) : row, "]");
}

/* Numbers, true, false and null are JSON: the schema with these types alone. */
static whim_grammar_node plain_of(whim_answer *a, const json_t *s, uint32_t types, const place *at)
{
    static const struct {
        uint32_t type;
        const char *word;
    } rows[] = {{WHIM_TYPE_BOOLEAN, "boolean"}, {WHIM_TYPE_NULL, "null"}};
    const json_t *type = json_object_get(s, "type");
    bool whole = json_is_string(type) ? strcmp(json_string_value(type), "integer") == 0 : true;
    json_t *list = json_array(), *held = whim_answer_property(at->root, s);
    for (size_t i = 0; i < json_array_size(type); i++) {
        whole = whole && strcmp(json_string_value(json_array_get(type, i)), "number") != 0;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((types & rows[i].type) != 0) {
            json_array_append_new(list, json_string(rows[i].word));
        }
    }
    if ((types & WHIM_TYPE_NUMBER) != 0) {
        json_array_append_new(list, json_string(whole ? "integer" : "number"));
    }
    json_object_set_new(held, "type", list);
    whim_grammar_node node = whim_grammar_schema(a->b, held, at->path);
    json_decref(held);
    return node;
}

static whim_grammar_node text_of(whim_answer *a, const json_t *s, const place *at)
{
    return whim_schema_holds_text(s)
               ? whim_gb_seq(a->b, quote(a), whim_grammar_schema_text(a->b, s, at->path), quote(a))
               : any_text(a);
}

/* Of one of the types, each in its own way. */
static whim_grammar_node typed(whim_answer *a, const json_t *s, uint32_t types, const place *at)
{
    enum { PLAIN = WHIM_TYPE_NUMBER | WHIM_TYPE_BOOLEAN | WHIM_TYPE_NULL };
    glist all = {0};
    if ((types & PLAIN) != 0) {
        whim_glist_add(a->b, &all, plain_of(a, s, types, at));
    }
    if ((types & WHIM_TYPE_STRING) != 0) {
        whim_glist_add(a->b, &all, text_of(a, s, at));
    }
    if ((types & WHIM_TYPE_OBJECT) != 0) {
        whim_glist_add(a->b, &all, object_of(a, s, at));
    }
    if ((types & WHIM_TYPE_ARRAY) != 0) {
        whim_glist_add(a->b, &all, array_of(a, s, at));
    }
    return whim_glist_node(a->b, &all, GN_ANY_OF);
}

/* One of several schemas, with nothing beside them. Of oneOf exactly one may hold, which is sure
 * where no two share a type. */
static whim_grammar_node choice_of(whim_answer *a, const json_t *s, const char *key,
                                   const place *at)
{
    const json_t *list = json_object_get(s, key);
    bool is_one = strcmp(key, "oneOf") == 0;
    uint32_t seen = 0;
    glist all = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *part = json_array_get(list, i);
        uint32_t types = whim_schema_types(at->root, part);
        char name[64];
        snprintf(name, sizeof name, "%s[%zu]", key, i);
        whim_glist_add(a->b, &all,
                       is_one && (types == 0 || (seen & types) != 0) ? refuse(a, at, key)
                                                                     : inner(a, part, at, name));
        seen |= types;
    }
    return all.n == 0 ? refuse(a, at, key) : whim_glist_node(a->b, &all, GN_ANY_OF);
}

/* The types that a schema without any speaks of. */
static uint32_t types_meant(const json_t *s)
{
    return json_object_get(s, "properties") != NULL ? WHIM_TYPE_OBJECT
           : json_object_get(s, "items") != NULL    ? WHIM_TYPE_ARRAY
           : whim_schema_holds_text(s)              ? WHIM_TYPE_STRING
                                                    : 0;
}

static whim_grammar_node value_of(whim_answer *a, const json_t *s, const place *at)
{
    static const char *const cannot[] = {"not", "if", "allOf", "$ref"};
    static const char *const number_words[] = {"minimum", "maximum", "exclusiveMinimum",
                                               "exclusiveMaximum", "multipleOf"};
    s = whim_schema_resolve(at->root, s);
    if (json_is_true(s)) {
        return any_value(a);
    }
    if (!json_is_object(s) || !HAS_NONE(a, s, cannot, at)) {
        return refuse(a, at, "");
    }
    if (json_object_get(s, "const") != NULL || json_object_get(s, "enum") != NULL) {
        return fixed_values(a, s, at);
    }
    const char *key = json_object_get(s, "anyOf") != NULL   ? "anyOf"
                      : json_object_get(s, "oneOf") != NULL ? "oneOf"
                                                            : NULL;
    bool beside = json_object_get(s, "type") != NULL || types_meant(s) != 0;
    if (key != NULL) {
        return beside ? refuse(a, at, key) : choice_of(a, s, key, at);
    }
    uint32_t types = whim_schema_types(at->root, s);
    types = types != 0 ? types : types_meant(s);
    if (types == 0) { /* a number would have to be held to them */
        return HAS_NONE(a, s, number_words, at) ? any_value(a) : -1;
    }
    return typed(a, s, types, at);
}

whim_grammar_node whim_answer_marked_object(whim_answer *a, const json_t *schema, const char *path)
{
    if (json_object_size(schema) == 0) {
        return any_object(a, any_value(a));
    }
    schema = whim_schema_resolve(schema, schema);
    const place top = {schema, path, MAX_DEPTH};
    static const char *const cannot[] = {"not", "if", "allOf", "anyOf", "oneOf", "enum", "const"};
    return HAS_NONE(a, schema, cannot, &top) ? object_of(a, schema, &top) : -1;
}

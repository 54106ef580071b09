/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas: keywords, references, choices and constants.
 *
 * What is written is always valid, but not every valid value can be written: keys come in the
 * schema's order, keys that the schema does not list come only where additionalProperties is given,
 * a type that is not said is the one that the keywords speak about, and oneOf is taken as anyOf. */
#include "grammar/schema/schema.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

const char *whim_gplace_text(const gplace *place, char *buf)
{
    char part[GPLACE_ROOM];
    int64_t at = GPLACE_ROOM - 1;
    buf[at] = '\0';
    for (; place != NULL; place = place->up) {
        int n = place->root != NULL ? snprintf(part, sizeof part, "%s", place->root)
                : place->key != NULL
                    ? snprintf(part, sizeof part, ".%s", place->key)
                    : snprintf(part, sizeof part, "[%lld]", (long long)place->index);
        n = n < GPLACE_ROOM ? n : GPLACE_ROOM - 1;
        if (n > at - 3) { /* the end of a long place says more than its beginning */
            at -= 3;
            memcpy(buf + at, "...", 3);
            break;
        }
        at -= n;
        memcpy(buf + at, part, (size_t)n);
    }
    return buf + at;
}

int32_t whim_gb_fail_at(whim_grammar_builder *b, const gplace *place, const char *key,
                        const char *what)
{
    char buf[GPLACE_ROOM];
    gplace at = {.up = place, .key = key};
    return whim_gb_fail(b, WHIM_ERR_INVALID, "%s %s",
                        whim_gplace_text(key == NULL ? place : &at, buf), what);
}

int32_t whim_gb_impossible(whim_grammar_builder *b, const gplace *place, const char *key,
                           const char *what)
{
    char buf[GPLACE_ROOM];
    gplace at = {.up = place, .key = key};
    if (b->impossible.text[0] == '\0') {
        snprintf(b->impossible.text, sizeof b->impossible.text, "%s %s",
                 whim_gplace_text(key == NULL ? place : &at, buf), what);
    }
    return whim_gb_never(b);
}

/* --- keywords --------------------------------------------------------------------------------- */

bool whim_schema_has_word(const char *words, const char *key)
{
    return whim_word_place(words, key, (int64_t)strlen(key)) >= 0;
}

static const char choices[] = "$ref allOf anyOf oneOf";
static const char of_all[] = "type nullable enum const";
static const char of_object[] =
    "properties required additionalProperties patternProperties minProperties maxProperties "
    "propertyNames unevaluatedProperties";
static const char of_array[] =
    "items prefixItems additionalItems minItems maxItems uniqueItems unevaluatedItems";
static const char of_string[] = "minLength maxLength pattern format";
static const char of_number[] = "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf";

/* What JSON Schema (of any draft) or OpenAPI rules by, and no grammar of ours holds to. */
static const char not_held[] =
    "not if contains minContains maxContains dependentRequired dependencies disallow "
    "dependentSchemas $dynamicRef $recursiveRef extends divisibleBy";

bool whim_schema_is_note(const char *key)
{
    const char *const rules[] = {choices,   of_all,    of_object, of_array,
                                 of_string, of_number, not_held};
    if (*key == GK_CHOICES[0]) {
        return false;
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (whim_schema_has_word(rules[i], key)) {
            return false;
        }
    }
    return true;
}

/* How many keywords of the list the schema has. */
static int32_t count_of(const json_t *s, const char *words)
{
    int32_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s, key, value)
    {
        n += whim_schema_has_word(words, key);
    }
    return n;
}

/* How many keywords are there that say what is valid; -1: one cannot be held. */
static int32_t count_keywords(whim_grammar_builder *b, const json_t *s, const gplace *place)
{
    int32_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s, key, value)
    {
        if (whim_schema_is_note(key)) {
            continue;
        }
        if (whim_schema_has_word(not_held, key)) {
            return whim_gb_fail_at(b, place, key, "is a schema keyword that is not supported");
        }
        n++;
    }
    return n;
}

bool whim_gb_schema_count(whim_grammar_builder *b, const json_t *s, const char *key,
                          const gplace *place, int64_t *out)
{
    const json_t *value = json_object_get(s, key);
    if (value == NULL) {
        return true;
    }
    double number = json_number_value(value);
    if (!json_is_number(value) || number < 0 || number > 1e9 || number != (double)(int64_t)number) {
        return whim_gb_fail_at(b, place, key, "must be a whole number of at least 0") >= 0;
    }
    *out = (int64_t)number;
    return true;
}

/* --- references ------------------------------------------------------------------------------- */

/* One step of a pointer: ~0, ~1 and %XX undone. */
static void pointer_step(const char **at, char *key, size_t room)
{
    size_t n = 0;
    for (; **at != '\0' && **at != '/' && n + 1 < room; (*at)++) {
        unsigned code;
        char c = **at;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) {
            c = (*at)[1] == '0' ? '~' : '/';
            (*at)++;
        } else if (c == '%' && (*at)[1] != '\0' && sscanf(*at + 1, "%2x", &code) == 1) {
            c = (char)code;
            *at += 2;
        }
        key[n++] = c;
    }
    key[n] = '\0';
}

const json_t *whim_schema_pointer(const json_t *root, const char *ref)
{
    char key[512];
    const json_t *at =
        ref != NULL && (strcmp(ref, "#") == 0 || strncmp(ref, "#/", 2) == 0) ? root : NULL;
    for (const char *p = at == NULL ? "" : ref + 1; *p == '/' && at != NULL;) {
        p++;
        pointer_step(&p, key, sizeof key);
        at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(key, NULL, 10))
                               : json_object_get(at, key);
    }
    return at;
}

const json_t *whim_gb_schema_target(whim_grammar_builder *b, const char *ref, const gplace *place)
{
    char buf[GPLACE_ROOM];
    const json_t *at = whim_schema_pointer(b->schema, ref);
    if (at == NULL) {
        whim_gb_fail(b, WHIM_ERR_INVALID,
                     "%s.$ref must point inside the schema (\"#/$defs/Name\"), and \"%s\" does not",
                     whim_gplace_text(place, buf), ref == NULL ? "(no text)" : ref);
    }
    return at;
}

static int32_t call_of(whim_grammar_builder *b, const json_t *schema, const gplace *place,
                       int32_t depth)
{
    char buf[GPLACE_ROOM];
    for (int64_t i = 0; i < b->n_rule; i++) {
        if (b->rules[i].schema == schema) {
            return whim_gb_call(b, (int32_t)i);
        }
    }
    int32_t rule = whim_gb_rule(b, schema, whim_gplace_text(place, buf));
    if (rule >= 0) {
        b->rules[rule].depth = depth;
    }
    return whim_gb_call(b, rule);
}

/* --- choices ---------------------------------------------------------------------------------- */

static bool fits_type(const json_t *value, const char *type)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null",
    };
    return strcmp(type, names[json_typeof(value)]) == 0 ||
           (json_is_integer(value) && strcmp(type, "number") == 0);
}

static bool fits_types(const json_t *s, const json_t *value)
{
    const json_t *type = json_object_get(s, "type");
    bool fits =
        type == NULL || (json_is_null(value) && json_is_true(json_object_get(s, "nullable")));
    if (json_is_string(type)) {
        fits = fits || fits_type(value, json_string_value(type));
    }
    for (size_t i = 0; i < json_array_size(type) && !fits; i++) {
        const char *one = json_string_value(json_array_get(type, i));
        fits = one != NULL && fits_type(value, one);
    }
    return fits;
}

static int32_t schema_constants(whim_grammar_builder *b, const json_t *s, const gplace *place,
                                int32_t n_keyword)
{
    char buf[GPLACE_ROOM];
    const char *path = whim_gplace_text(place, buf);
    const json_t *one = json_object_get(s, "const"), *list = json_object_get(s, "enum");
    if (n_keyword != count_of(s, of_all)) {
        return whim_gb_fail_at(b, place, NULL, "has enum or const beside keywords other than type");
    }
    if (list != NULL && (!json_is_array(list) || json_array_size(list) == 0)) {
        return whim_gb_fail_at(b, place, NULL, "has an enum that is no list of values");
    }
    glist alts = {0};
    bool nullable = json_is_true(json_object_get(s, "nullable"));
    for (size_t i = 0; i < (list != NULL ? json_array_size(list) : 1) && !whim_gb_failed(b); i++) {
        const json_t *value = list != NULL ? json_array_get(list, i) : one;
        if (fits_types(s, value) && (one == NULL || json_equal(one, value))) {
            whim_glist_add(b, &alts, whim_gb_json_const(b, value, 0, path));
        }
    }
    if (nullable) {
        whim_glist_add(b, &alts, whim_gb_text(b, "null"));
    }
    if (alts.n == 0) {
        return whim_gb_impossible(b, place, NULL, "allows no value: type and constants do not fit");
    }
    return whim_glist_node(b, &alts, GN_ANY_OF);
}

/* Each of a list of choices, with what the schema says besides; NULL: nothing. */
static int32_t schema_any_of(whim_grammar_builder *b, const json_t *list, const json_t *rest,
                             const gplace *place, int32_t depth)
{
    glist alts = {0};
    for (size_t i = 0; i < json_array_size(list) && !whim_gb_failed(b); i++) {
        gplace each = {.up = place, .index = (int64_t)i};
        const json_t *choice = json_array_get(list, i);
        if (rest != NULL) {
            choice = whim_gb_schema_merge(b, rest, choice, &each, depth + 1);
        }
        if (choice != NULL && !json_is_false(choice)) {
            whim_glist_add(b, &alts, whim_gb_schema_node(b, choice, &each, depth + 1));
        }
    }
    if (alts.n == 0 && !whim_gb_failed(b)) {
        return whim_gb_impossible(b, place, NULL, "has no choice that fits what is said besides");
    }
    return whim_glist_node(b, &alts, GN_ANY_OF);
}

/* The first list of choices of a merged schema; the next ones wait in what is said besides. */
static int32_t schema_choices(whim_grammar_builder *b, const json_t *s, const gplace *place,
                              int32_t depth)
{
    json_t *rest = json_copy((json_t *)s), *lists = json_copy(json_object_get(s, GK_CHOICES));
    bool ok = rest != NULL && lists != NULL && json_array_append(b->made, rest) == 0 &&
              json_array_append(b->made, lists) == 0;
    const json_t *choice = json_array_get(lists, 0);
    const char *key = json_object_get(choice, "anyOf") != NULL ? "anyOf" : "oneOf";
    gplace at = {.up = place, .key = key};
    const json_t *list = json_object_get(choice, key);
    ok = ok && json_array_append(b->made, (json_t *)list) == 0 &&
         json_array_remove(lists, 0) == 0 &&
         (json_array_size(lists) > 0 ? whim_gb_put(b, rest, GK_CHOICES, json_incref(lists))
                                     : json_object_del(rest, GK_CHOICES) == 0);
    int32_t node = ok ? schema_any_of(b, list, rest, &at, depth) : whim_gb_no_memory(b);
    json_decref(rest);
    json_decref(lists);
    return node;
}

/* --- types ------------------------------------------------------------------------------------ */

static int32_t schema_type(whim_grammar_builder *b, const json_t *s, const char *type,
                           const gplace *place, int32_t depth)
{
    if (type == NULL) {
        return whim_gb_fail_at(b, place, NULL, "has a type that is no text");
    }
    if (strcmp(type, "object") == 0) {
        return whim_gb_schema_object(b, s, place, depth);
    }
    if (strcmp(type, "array") == 0) {
        return whim_gb_schema_array(b, s, place, depth);
    }
    if (strcmp(type, "string") == 0) {
        return whim_gb_schema_string(b, s, place);
    }
    if (strcmp(type, "number") == 0 || strcmp(type, "integer") == 0) {
        return whim_gb_schema_number(b, s, type, place);
    }
    if (strcmp(type, "boolean") == 0) {
        return whim_gb_any_of(b, whim_gb_text(b, "true"), whim_gb_text(b, "false"));
    }
    if (strcmp(type, "null") == 0) {
        return whim_gb_text(b, "null");
    }
    return whim_gb_fail_at(b, place, NULL, "has an unknown type");
}

static int32_t schema_types(whim_grammar_builder *b, const json_t *s, const gplace *place,
                            int32_t depth)
{
    const json_t *type = json_object_get(s, "type");
    glist alts = {0};
    if (json_is_array(type)) {
        for (size_t i = 0; i < json_array_size(type) && !whim_gb_failed(b); i++) {
            const char *one = json_string_value(json_array_get(type, i));
            whim_glist_add(b, &alts, schema_type(b, s, one, place, depth));
        }
    } else if (type != NULL) {
        whim_glist_add(b, &alts, schema_type(b, s, json_string_value(type), place, depth));
    } else {
        static const struct {
            const char *type, *keywords;
        } kinds[] = {{"object", of_object},
                     {"array", of_array},
                     {"string", of_string},
                     {"number", of_number}};
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            bool said = kinds[i].keywords == of_string ? whim_schema_holds_text(s)
                                                       : count_of(s, kinds[i].keywords) > 0;
            if (said) {
                whim_glist_add(b, &alts, schema_type(b, s, kinds[i].type, place, depth));
            }
        }
        if (alts.n == 0) {
            whim_glist_add(b, &alts, whim_gb_json_value(b));
        }
    }
    if (json_is_true(json_object_get(s, "nullable"))) {
        whim_glist_add(b, &alts, whim_gb_text(b, "null"));
    }
    if (alts.n == 0) {
        whim_gb_fail_at(b, place, NULL, "has an empty list of types");
    }
    return whim_glist_node(b, &alts, GN_ANY_OF);
}

int32_t whim_gb_schema_node(whim_grammar_builder *b, const json_t *s, const gplace *place,
                            int32_t depth)
{
    char buf[GPLACE_ROOM];
    if (depth > b->limits.max_depth) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "%s: the schema is nested more than %d deep",
                            whim_gplace_text(place, buf), b->limits.max_depth);
    }
    if (json_is_boolean(s)) {
        return json_is_true(s) ? whim_gb_json_value(b) : whim_gb_never(b);
    }
    if (!json_is_object(s)) {
        return whim_gb_fail_at(b, place, NULL, "must be a schema: an object, true or false");
    }
    int32_t n = count_keywords(b, s, place);
    if (n < 0) {
        return -1;
    }
    const json_t *ref = json_object_get(s, "$ref");
    const char *key = json_object_get(s, "anyOf") != NULL ? "anyOf" : "oneOf";
    const json_t *list = json_object_get(s, key);
    if (n == 1 && ref != NULL) {
        const json_t *target = whim_gb_schema_target(b, json_string_value(ref), place);
        gplace at = {.root = json_string_value(ref)};
        return target == NULL ? -1 : call_of(b, target, &at, 0);
    }
    if (n == 1 && json_array_size(list) > 0) {
        gplace at = {.up = place, .key = key};
        return schema_any_of(b, list, NULL, &at, depth);
    }
    if (count_of(s, choices) > 0) {
        const json_t *both = whim_gb_schema_merge(b, s, json_true(), place, depth + 1);
        return both == NULL ? -1 : whim_gb_schema_node(b, both, place, depth + 1);
    }
    if (json_object_get(s, GK_CHOICES) != NULL) {
        return schema_choices(b, s, place, depth);
    }
    if (json_object_get(s, "enum") != NULL || json_object_get(s, "const") != NULL) {
        return schema_constants(b, s, place, n);
    }
    return schema_types(b, s, place, depth);
}

int32_t whim_gb_schema_value(whim_grammar_builder *b, const json_t *s, const gplace *place,
                             int32_t depth)
{
    /* What is as short as its call is written in place; a reference is a call itself. */
    bool small = json_is_boolean(s) || json_object_get(s, "$ref") != NULL;
    const char *type = json_string_value(json_object_get(s, "type"));
    if (json_is_object(s) && type != NULL && strcmp(type, "object") != 0 &&
        strcmp(type, "array") != 0) {
        small = small ||
                (count_of(s, of_string) == 0 && count_of(s, of_number) == 0 &&
                 count_of(s, choices) == 0 && json_array_size(json_object_get(s, "enum")) <= 8);
    }
    return small ? whim_gb_schema_node(b, s, place, depth + 1) : call_of(b, s, place, depth + 1);
}

/* Write the rules that schemas wait for; writing one may ask for more. */
static void write_rules(whim_grammar_builder *b)
{
    for (; b->n_rule_done < b->n_rule && !whim_gb_late(b); b->n_rule_done++) {
        grule rule = b->rules[b->n_rule_done];
        if (rule.schema != NULL && rule.node < 0) {
            gplace place = {.root = rule.path};
            int32_t node = whim_gb_schema_node(b, rule.schema, &place, rule.depth);
            b->rules[b->n_rule_done].node = node;
        }
    }
    /* The caller may free the document: nothing may be found by it any more. */
    for (int64_t i = 0; i < b->n_rule; i++) {
        b->rules[i].schema = NULL;
    }
}

whim_grammar_node whim_grammar_schema(whim_grammar_builder *b, const json_t *schema,
                                      const char *path)
{
    if (whim_gb_failed(b)) {
        return -1;
    }
    b->made = b->made != NULL ? b->made : json_array();
    if (b->made == NULL) {
        return whim_gb_no_memory(b);
    }
    if (json_is_false(schema)) {
        return whim_gb_fail(b, WHIM_ERR_INVALID, "%s allows no value", path);
    }
    b->schema = schema;
    gplace place = {.root = path};
    int32_t node = call_of(b, schema, &place, 0);
    write_rules(b);
    b->schema = NULL;
    return whim_gb_failed(b) ? -1 : node;
}

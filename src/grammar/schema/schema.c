/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas: keywords, references, choices and constants.
 *
 * What is written is always valid, but not every valid value can be written: keys come in the
 * schema's order, keys that the schema does not list come only where additionalProperties is given,
 * a type that is not said is the one that the keywords speak about. */
#include "grammar/schema/schema.h"

#include "base/alloc.h"
#include "base/str.h"

#include <ctype.h>
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

static const char choices[] = "$ref allOf anyOf oneOf not if dependencies dependentRequired "
                              "dependentSchemas";
static const char of_all[] = "type nullable enum const";
static const char of_object[] =
    "properties required additionalProperties patternProperties minProperties maxProperties "
    "propertyNames unevaluatedProperties";
static const char of_array[] =
    "items prefixItems additionalItems minItems maxItems uniqueItems unevaluatedItems contains "
    "minContains maxContains";
static const char of_string[] = "minLength maxLength pattern format";
static const char of_number[] = "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf";

/* What JSON Schema (of any draft) or OpenAPI rules by, and no grammar of ours holds to. */
static const char not_held[] = "disallow $dynamicRef $recursiveRef extends divisibleBy";

bool whim_schema_is_note(const char *key)
{
    const char *const rules[] = {choices,   of_all,    of_object, of_array,
                                 of_string, of_number, not_held};
    if (*key == GK_MARK) {
        return false;
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (whim_schema_has_word(rules[i], key)) {
            return false;
        }
    }
    return true;
}

const char *whim_schema_speaks_of(const char *key)
{
    static const char *const texts[] = {GK_PATTERNS, GK_NOT_PATTERNS};
    if (strcmp(key, GK_ABSENT) == 0 || strcmp(key, GK_HELD) == 0 ||
        whim_schema_has_word(of_object, key)) {
        return "object";
    }
    return strcmp(key, texts[0]) == 0 || strcmp(key, texts[1]) == 0 ||
                   whim_schema_has_word(of_string, key)
               ? "string"
           : strcmp(key, GK_NOT_MULTIPLE) == 0 || whim_schema_has_word(of_number, key) ? "number"
           : whim_schema_has_word(of_array, key)                                       ? "array"
                                                                                       : NULL;
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

/* What is wrong with the form of a value that may be read by nobody else; NULL: nothing. */
static const char *wrong_form(const char *key, const json_t *value)
{
    if (strcmp(key, "uniqueItems") == 0) {
        return json_is_boolean(value) ? NULL : "must be true or false";
    }
    if (strcmp(key, "patternProperties") == 0) {
        return json_is_object(value) ? NULL : "must be an object of schemas";
    }
    bool of_a_schema = whim_schema_has_word("if contains unevaluatedProperties", key);
    return !of_a_schema || json_is_object(value) || json_is_boolean(value)
               ? NULL
               : "must be a schema: an object, true or false";
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
        const char *wrong = wrong_form(key, value);
        if (wrong != NULL) {
            return whim_gb_fail_at(b, place, key, wrong);
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
    number = number > 1e9 ? 1e9 : number; /* more than any answer has */
    if (!json_is_number(value) || number < 0 || number != (double)(int64_t)number) {
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
        } else if (c == '%' && isxdigit((unsigned char)(*at)[1]) &&
                   isxdigit((unsigned char)(*at)[2]) && sscanf(*at + 1, "%2x", &code) == 1) {
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

/* --- types ------------------------------------------------------------------------------------ */

/* Whether a value is one of those that must not be. */
static bool is_not(const json_t *s, const json_t *value)
{
    const json_t *list = json_object_get(s, GK_NOT_VALUES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (whim_schema_same(json_array_get(list, i), value)) {
            return true;
        }
    }
    return false;
}

/* Objects and arrays are told from one that must not be only where that is empty. */
static bool not_other_groups(whim_grammar_builder *b, const json_t *s, bool object,
                             const gplace *place, bool *not_empty)
{
    const json_t *list = json_object_get(s, GK_NOT_VALUES);
    *not_empty = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (object ? !json_is_object(value) : !json_is_array(value)) {
            continue;
        }
        if (json_object_size(value) + json_array_size(value) > 0) {
            return whim_gb_fail_at(b, place, NULL,
                                   "must not be an object or array that is not empty: that is not "
                                   "supported") >= 0;
        }
        *not_empty = true;
    }
    return true;
}

/* An object or array, at least one thing in it where the empty one must not be. */
static int32_t schema_group(whim_grammar_builder *b, const json_t *s, bool object,
                            const gplace *place, int32_t depth)
{
    const char *key = object ? "minProperties" : "minItems";
    bool not_empty;
    int64_t least = 0;
    if (!not_other_groups(b, s, object, place, &not_empty) ||
        !whim_gb_schema_count(b, s, key, place, &least)) {
        return -1;
    }
    if (not_empty && least == 0) {
        json_t *some = json_copy((json_t *)s);
        bool ok = some != NULL && json_array_append_new(b->made, some) == 0 &&
                  whim_gb_put(b, some, key, json_integer(1));
        if (!ok) {
            return whim_gb_no_memory(b);
        }
        s = some;
    }
    return object ? whim_gb_schema_object(b, s, place, depth)
                  : whim_gb_schema_array(b, s, place, depth);
}

static int32_t schema_type(whim_grammar_builder *b, const json_t *s, const char *type,
                           const gplace *place, int32_t depth)
{
    if (type == NULL) {
        return whim_gb_fail_at(b, place, NULL, "has a type that is no text");
    }
    if (strcmp(type, "object") == 0) {
        return schema_group(b, s, true, place, depth);
    }
    if (strcmp(type, "array") == 0) {
        return schema_group(b, s, false, place, depth);
    }
    if (strcmp(type, "string") == 0) {
        return whim_gb_schema_string(b, s, place);
    }
    if (strcmp(type, "number") == 0 || strcmp(type, "integer") == 0) {
        return whim_gb_schema_number(b, s, type, place);
    }
    if (strcmp(type, "boolean") == 0) {
        int32_t yes = is_not(s, json_true()) ? whim_gb_never(b) : whim_gb_text(b, "true");
        return whim_gb_any_of(
            b, yes, is_not(s, json_false()) ? whim_gb_never(b) : whim_gb_text(b, "false"));
    }
    if (strcmp(type, "null") == 0) {
        return is_not(s, json_null()) ? whim_gb_never(b) : whim_gb_text(b, "null");
    }
    return whim_gb_fail_at(b, place, NULL, "has an unknown type");
}

static int32_t schema_types(whim_grammar_builder *b, const json_t *s, const gplace *place,
                            int32_t depth)
{
    const json_t *type = json_object_get(s, "type");
    glist alts = {0};
    bool said = type != NULL;
    type = said ? type : whim_gb_types_meant(b, s);
    if (!said && json_array_size(type) == 0) {
        whim_glist_add(b, &alts, whim_gb_json_value(b));
    }
    if (said && !json_is_array(type)) {
        whim_glist_add(b, &alts, schema_type(b, s, json_string_value(type), place, depth));
    }
    for (size_t i = 0; i < json_array_size(type) && !whim_gb_failed(b); i++) {
        const char *one = json_string_value(json_array_get(type, i));
        whim_glist_add(b, &alts, schema_type(b, s, one, place, depth));
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
        return *key == 'a' ? whim_gb_schema_any_of(b, list, NULL, &at, depth)
                           : whim_gb_schema_one_of(b, list, NULL, &at, depth);
    }
    gnamed values = whim_schema_named(s);
    if (values.list != NULL || values.one != NULL) {
        int32_t node = whim_gb_schema_constants(b, s, values, true, place, depth);
        if (node >= 0 || whim_gb_failed(b)) {
            return node;
        }
    }
    if (count_of(s, choices) > 0) {
        const json_t *both = whim_gb_schema_merge(b, s, json_true(), place, depth + 1);
        return both == NULL ? -1 : whim_gb_schema_node(b, both, place, depth + 1);
    }
    if (json_object_get(s, GK_CHOICES) != NULL) {
        return whim_gb_schema_choices(b, s, place, depth);
    }
    if (values.list != NULL || values.one != NULL) {
        return whim_gb_schema_constants(b, s, values, false, place, depth);
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

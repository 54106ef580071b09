/* SPDX-License-Identifier: Apache-2.0 */
/* A small validator of JSON schemas, written apart from the compiler of grammars: does a value fit
 * a schema? It knows the keywords that the tests use; formats are not looked at. */
#ifndef WHIM_TESTS_UNIT_GRAMMAR_SCHEMA_VALIDATOR_H
#define WHIM_TESTS_UNIT_GRAMMAR_SCHEMA_VALIDATOR_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static bool valid(const json_t *root, const json_t *s, const json_t *v);

static inline bool valid_pattern(const char *pattern, const char *text)
{
    int code;
    PCRE2_SIZE at;
    uint32_t flags = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX;
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, flags, &code, &at, NULL);
    pcre2_match_data *match = pcre2_match_data_create(4, NULL);
    bool found =
        re != NULL && pcre2_match(re, (PCRE2_SPTR)text, strlen(text), 0, 0, match, NULL) >= 0;
    pcre2_match_data_free(match);
    pcre2_code_free(re);
    return found;
}

static inline bool valid_type(const char *type, const json_t *v)
{
    return (strcmp(type, "object") == 0 && json_is_object(v)) ||
           (strcmp(type, "array") == 0 && json_is_array(v)) ||
           (strcmp(type, "string") == 0 && json_is_string(v)) ||
           (strcmp(type, "number") == 0 && json_is_number(v)) ||
           (strcmp(type, "integer") == 0 &&
            (json_is_integer(v) ||
             (json_is_real(v) && floor(json_real_value(v)) == json_real_value(v)))) ||
           (strcmp(type, "boolean") == 0 && json_is_boolean(v)) ||
           (strcmp(type, "null") == 0 && json_is_null(v));
}

static inline bool valid_same(const json_t *a, const json_t *b)
{
    return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b)
                                                  : json_equal(a, b) != 0;
}

/* The least or most of something; absent: fine. */
static inline bool valid_bound(const json_t *s, const char *least, const char *most, double n)
{
    const json_t *lo = json_object_get(s, least), *hi = json_object_get(s, most);
    return (lo == NULL || n >= json_number_value(lo)) && (hi == NULL || n <= json_number_value(hi));
}

static inline bool valid_has_keys(const json_t *names, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        if (json_object_get(v, json_string_value(json_array_get(names, i))) == NULL) {
            return false;
        }
    }
    return true;
}

static inline bool valid_object(const json_t *root, const json_t *s, json_t *v)
{
    const json_t *properties = json_object_get(s, "properties");
    json_t *patterns = json_object_get(s, "patternProperties");
    const json_t *more = json_object_get(s, "additionalProperties"),
                 *required = json_object_get(s, "required");
    const json_t *names = json_object_get(s, "propertyNames");
    const char *key, *pattern;
    json_t *value, *sub;
    json_object_foreach(v, key, value)
    {
        const json_t *listed = json_object_get(properties, key);
        bool known = listed != NULL;
        json_t *name = json_string(key);
        bool named = names == NULL || valid(root, names, name);
        json_decref(name);
        if (!named || (listed != NULL && !valid(root, listed, value))) {
            return false;
        }
        json_object_foreach(patterns, pattern, sub)
        {
            bool fits = valid_pattern(pattern, key);
            known = known || fits;
            if (fits && !valid(root, sub, value)) {
                return false;
            }
        }
        if (!known && more != NULL && !valid(root, more, value)) {
            return false;
        }
    }
    return valid_has_keys(required, v) &&
           valid_bound(s, "minProperties", "maxProperties", (double)json_object_size(v));
}

static inline bool valid_array(const json_t *root, const json_t *s, const json_t *v)
{
    const json_t *prefix = json_object_get(s, "prefixItems"), *items = json_object_get(s, "items");
    if (json_is_array(items)) {
        prefix = items;
        items = json_object_get(s, "additionalItems");
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *each = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (each != NULL && !valid(root, each, json_array_get(v, i))) {
            return false;
        }
    }
    return valid_bound(s, "minItems", "maxItems", (double)json_array_size(v));
}

static inline bool valid_scalar(const json_t *s, const json_t *v)
{
    if (json_is_string(v)) {
        int64_t n = 0;
        for (const char *c = json_string_value(v); *c != '\0'; c++) {
            n += (*c & 0xC0) != 0x80;
        }
        const json_t *pattern = json_object_get(s, "pattern");
        return valid_bound(s, "minLength", "maxLength", (double)n) &&
               (pattern == NULL || valid_pattern(json_string_value(pattern), json_string_value(v)));
    }
    if (json_is_number(v)) {
        double x = json_number_value(v);
        const json_t *lo = json_object_get(s, "exclusiveMinimum");
        const json_t *hi = json_object_get(s, "exclusiveMaximum"),
                     *m = json_object_get(s, "multipleOf");
        return valid_bound(s, "minimum", "maximum", x) &&
               (lo == NULL || x > json_number_value(lo)) &&
               (hi == NULL || x < json_number_value(hi)) &&
               (m == NULL || fmod(x, json_number_value(m)) == 0);
    }
    return true;
}

static inline bool valid_choice(const json_t *root, const json_t *s, const json_t *v,
                                const char *key, bool all)
{
    const json_t *list = json_object_get(s, key);
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        n += valid(root, json_array_get(list, i), v);
    }
    bool one = strcmp(key, "oneOf") == 0;
    return list == NULL || (all ? n == json_array_size(list) : one ? n == 1 : n > 0);
}

/* not, if and what objects with a key need. */
static inline bool valid_rules(const json_t *root, const json_t *s, const json_t *v)
{
    static const char *const dependent[] = {"dependencies", "dependentRequired",
                                            "dependentSchemas"};
    const json_t *no = json_object_get(s, "not"), *condition = json_object_get(s, "if");
    if (no != NULL && valid(root, no, v)) {
        return false;
    }
    if (condition != NULL) {
        const json_t *then = json_object_get(s, valid(root, condition, v) ? "then" : "else");
        if (then != NULL && !valid(root, then, v)) {
            return false;
        }
    }
    for (int i = 0; i < 3 && json_is_object(v); i++) {
        const char *key;
        json_t *needs;
        json_object_foreach(json_object_get(s, dependent[i]), key, needs)
        {
            bool fine = json_is_array(needs) ? valid_has_keys(needs, v) : valid(root, needs, v);
            if (json_object_get(v, key) != NULL && !fine) {
                return false;
            }
        }
    }
    return true;
}

static inline bool valid_constants(const json_t *s, const json_t *v)
{
    const json_t *list = json_object_get(s, "enum"), *one = json_object_get(s, "const");
    bool found = list == NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        found = found || valid_same(json_array_get(list, i), v);
    }
    return found && (one == NULL || valid_same(one, v));
}

/* "#/a/b~1c" */
static inline const json_t *valid_target(const json_t *root, const char *ref)
{
    char key[256];
    for (ref++; *ref == '/' && root != NULL;) {
        size_t n = 0;
        for (ref++; *ref != '\0' && *ref != '/'; ref++) {
            bool escaped = *ref == '~';
            ref += escaped;
            key[n++] = !escaped ? *ref : *ref == '1' ? '/' : '~';
        }
        key[n] = '\0';
        root = json_object_get(root, key);
    }
    return root;
}

static bool valid(const json_t *root, const json_t *s, const json_t *v)
{
    if (json_is_boolean(s)) {
        return json_is_true(s);
    }
    const json_t *type = json_object_get(s, "type"), *ref = json_object_get(s, "$ref");
    if (json_is_null(v) && json_is_true(json_object_get(s, "nullable"))) {
        return true;
    }
    bool typed = type == NULL || (json_is_string(type) && valid_type(json_string_value(type), v));
    for (size_t i = 0; i < json_array_size(type); i++) {
        typed = typed || valid_type(json_string_value(json_array_get(type, i)), v);
    }
    return typed && valid_constants(s, v) &&
           (ref == NULL || valid(root, valid_target(root, json_string_value(ref)), v)) &&
           valid_choice(root, s, v, "anyOf", false) && valid_choice(root, s, v, "oneOf", false) &&
           valid_choice(root, s, v, "allOf", true) && valid_rules(root, s, v) &&
           (!json_is_object(v) || valid_object(root, s, (json_t *)v)) &&
           (!json_is_array(v) || valid_array(root, s, v)) && valid_scalar(s, v);
}

#endif

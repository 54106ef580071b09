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

/* 1 and 1.0 are one value, inside of others too. */
static bool valid_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        return json_number_value(a) == json_number_value(b);
    }
    if (json_is_array(a) && json_array_size(a) == json_array_size(b)) {
        size_t i = 0;
        while (i < json_array_size(a) && valid_same(json_array_get(a, i), json_array_get(b, i))) {
            i++;
        }
        return json_is_array(b) && i == json_array_size(a);
    }
    if (json_is_object(a) && json_object_size(a) == json_object_size(b)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)a, key, value)
        {
            const json_t *other = json_object_get(b, key);
            if (other == NULL || !valid_same(value, other)) {
                return false;
            }
        }
        return json_is_object(b);
    }
    return json_equal(a, b) != 0;
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
    const json_t *contains = json_object_get(s, "contains");
    double n_fit = 0;
    for (size_t i = 0; i < json_array_size(v) && contains != NULL; i++) {
        n_fit += valid(root, contains, json_array_get(v, i));
    }
    for (size_t i = 0; i < json_array_size(v) && json_is_true(json_object_get(s, "uniqueItems"));
         i++) {
        for (size_t k = 0; k < i; k++) {
            if (valid_same(json_array_get(v, i), json_array_get(v, k))) {
                return false;
            }
        }
    }
    bool any = contains == NULL || json_object_get(s, "minContains") != NULL || n_fit > 0;
    return any && (contains == NULL || valid_bound(s, "minContains", "maxContains", n_fit)) &&
           valid_bound(s, "minItems", "maxItems", (double)json_array_size(v));
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

static bool valid_seen(const json_t *root, const json_t *s, const json_t *v, const char *key,
                       size_t at, bool here);

/* Whether a schema inside of this one, which the value fits, speaks about the member. */
static inline bool valid_seen_inside(const json_t *root, const json_t *s, const json_t *v,
                                     const char *key, size_t at)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    static const char *const dependent[] = {"dependencies", "dependentSchemas"};
    const json_t *ref = json_object_get(s, "$ref"), *condition = json_object_get(s, "if");
    bool seen = ref != NULL &&
                valid_seen(root, valid_target(root, json_string_value(ref)), v, key, at, false);
    for (int k = 0; k < 3; k++) {
        const json_t *list = json_object_get(s, lists[k]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *sub = json_array_get(list, i);
            seen = seen || (valid(root, sub, v) && valid_seen(root, sub, v, key, at, false));
        }
    }
    for (int k = 0; k < 2; k++) {
        const char *owner;
        json_t *sub;
        json_object_foreach(json_object_get(s, dependent[k]), owner, sub)
        {
            seen = seen || (json_object_get(v, owner) != NULL && !json_is_array(sub) &&
                            valid_seen(root, sub, v, key, at, false));
        }
    }
    if (condition != NULL) {
        bool fits = valid(root, condition, v);
        seen = seen || (fits && valid_seen(root, condition, v, key, at, false)) ||
               valid_seen(root, json_object_get(s, fits ? "then" : "else"), v, key, at, false);
    }
    return seen;
}

/* Whether a schema that the value fits speaks about its member: that of the key, or the item at
 * `at` where there is none. `here`: without what the schema says about those that are left. */
static bool valid_seen(const json_t *root, const json_t *s, const json_t *v, const char *key,
                       size_t at, bool here)
{
    const json_t *items = json_object_get(s, "items"), *contains = json_object_get(s, "contains");
    if (!json_is_object(s)) {
        return false;
    }
    if (!here && json_object_get(s, key != NULL ? "unevaluatedProperties" : "unevaluatedItems")) {
        return true;
    }
    if (key == NULL) {
        bool list = json_is_array(items);
        const json_t *first = list ? items : json_object_get(s, "prefixItems");
        const json_t *rest = list ? json_object_get(s, "additionalItems") : items;
        return at < json_array_size(first) || rest != NULL ||
               (contains != NULL && valid(root, contains, json_array_get(v, at))) ||
               valid_seen_inside(root, s, v, key, at);
    }
    bool seen = json_object_get(json_object_get(s, "properties"), key) != NULL ||
                json_object_get(s, "additionalProperties") != NULL;
    const char *pattern;
    json_t *sub;
    json_object_foreach(json_object_get(s, "patternProperties"), pattern, sub)
    {
        seen = seen || valid_pattern(pattern, key);
    }
    return seen || valid_seen_inside(root, s, v, key, at);
}

/* What no schema spoke about, where the schema has something to say about it. */
static inline bool valid_unseen(const json_t *root, const json_t *s, const json_t *v)
{
    const json_t *more = json_object_get(s, "unevaluatedProperties"),
                 *items = json_object_get(s, "unevaluatedItems");
    const char *key;
    json_t *value;
    json_object_foreach(more != NULL ? (json_t *)v : NULL, key, value)
    {
        if (!valid_seen(root, s, v, key, 0, true) && !valid(root, more, value)) {
            return false;
        }
    }
    for (size_t i = 0; i < json_array_size(v) && items != NULL; i++) {
        if (!valid_seen(root, s, v, NULL, i, true) && !valid(root, items, json_array_get(v, i))) {
            return false;
        }
    }
    return true;
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
           (!json_is_array(v) || valid_array(root, s, v)) && valid_scalar(s, v) &&
           valid_unseen(root, s, v);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what is written for one schema can fit another: of the choices of oneOf no two may hold,
 * and mostly none can, since they differ in type, in a constant, or in a key that one of them must
 * have. Both schemas are merged ones or parts of them; what is not understood counts as possible.
 * What we write is less than what is valid: of schemas inside others that does not count, since
 * more may be said of them later. */
#include "grammar/schema/schema.h"

#include <math.h>
#include <string.h>

enum { OBJECT = 1, ARRAY = 2, STRING = 4, NUMBER = 8, BOOLEAN = 16, NIL = 32, ALL = 63, DEEP = 8 };

static int32_t type_bit(const char *type)
{
    static const char *const names[] = {"object", "array", "string", "number", "boolean", "null"};
    for (int32_t i = 0; i < 6; i++) {
        if (strcmp(names[i], type) == 0) {
            return 1 << i;
        }
    }
    return strcmp(type, "integer") == 0 ? NUMBER : ALL;
}

static int32_t value_bit(const json_t *value)
{
    static const int32_t bits[] = {
        [JSON_OBJECT] = OBJECT,  [JSON_ARRAY] = ARRAY, [JSON_STRING] = STRING,
        [JSON_INTEGER] = NUMBER, [JSON_REAL] = NUMBER, [JSON_TRUE] = BOOLEAN,
        [JSON_FALSE] = BOOLEAN,  [JSON_NULL] = NIL,
    };
    return bits[json_typeof(value)];
}

/* The values of enum or const; NULL: any. */
static const json_t *constants(const json_t *s)
{
    const json_t *list = json_object_get(s, "enum");
    return list != NULL ? list : json_object_get(s, "const");
}

static bool one_constant(const json_t *s)
{
    return json_object_get(s, "enum") == NULL;
}

/* Whether more may be said of its values than stands in the schema itself. */
static bool is_open(const json_t *s)
{
    static const char elsewhere[] = "$ref allOf anyOf oneOf if dependencies dependentSchemas";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s, key, value)
    {
        if (whim_schema_has_word(elsewhere, key)) {
            return true;
        }
    }
    return json_object_get(s, GK_CHOICES) != NULL;
}

/* The types that values of a schema have. `written`: of what we write for it, which is of the types
 * that its keywords speak about. */
static int32_t types_of(const json_t *s, bool written)
{
    const json_t *type = json_object_get(s, "type"), *list = constants(s);
    int32_t bits = 0;
    if (json_is_true(json_object_get(s, "nullable"))) {
        bits |= NIL;
    }
    if (list != NULL && one_constant(s)) {
        return bits | value_bit(list);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        bits |= value_bit(json_array_get(list, i));
    }
    if (list != NULL) {
        return bits;
    }
    if (json_is_string(type)) {
        return bits | type_bit(json_string_value(type));
    }
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *name = json_string_value(json_array_get(type, i));
        bits |= name == NULL ? ALL : type_bit(name);
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s, key, value)
    {
        bool says = strcmp(key, "format") != 0 || whim_schema_holds_text(s); /* of any name */
        const char *speaks_of = type == NULL && written && says ? whim_schema_speaks_of(key) : NULL;
        bits |= speaks_of != NULL ? type_bit(speaks_of) : 0;
    }
    bool open = is_open(s) || json_object_get(s, GK_NOT_VALUES) != NULL;
    return type == NULL && (bits == 0 || open || !written) ? ALL : bits;
}

/* Comparisons of a question, which schemas of many names and levels could ask for without end. */
enum { MOST_WORK = 1000000 };

/* False: there were too many. */
static bool spend(int64_t *work, size_t one, size_t two)
{
    *work += 1 + (int64_t)one * (int64_t)(two > 0 ? two : 1);
    return *work <= MOST_WORK;
}

static bool has_constant(const json_t *s, const json_t *value)
{
    const json_t *list = constants(s);
    bool has = one_constant(s) && whim_schema_same(list, value);
    for (size_t i = 0; i < json_array_size(list) && !has && !one_constant(s); i++) {
        has = whim_schema_same(json_array_get(list, i), value);
    }
    return has;
}

static bool among(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (whim_schema_same(json_array_get(list, i), value)) {
            return true;
        }
    }
    return false;
}

/* Constants of the one are none of the other. */
static bool constants_differ(const json_t *mine, const json_t *other, int64_t *work)
{
    const json_t *list = constants(mine), *not_them = json_object_get(other, GK_NOT_VALUES);
    bool bound = constants(other) != NULL;
    size_t n_other = json_array_size(constants(other)) + json_array_size(not_them);
    if (list == NULL || (!bound && not_them == NULL) ||
        !spend(work, json_array_size(list), n_other)) {
        return false;
    }
    if (one_constant(mine)) {
        return (bound && !has_constant(other, list)) || among(not_them, list);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (!(bound && !has_constant(other, value)) && !among(not_them, value)) {
            return false;
        }
    }
    return true;
}

static bool requires(const json_t *s, const char *key)
{
    const json_t *list = json_object_get(s, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name != NULL && strcmp(name, key) == 0) {
            return true;
        }
    }
    return false;
}

/* What a schema says of a key's value; NULL: nothing that is known here. */
static const json_t *said_of(const json_t *s, const char *key)
{
    const json_t *said = json_object_get(json_object_get(s, "properties"), key);
    return said != NULL ? said : json_object_get(json_object_get(s, GK_HELD), key);
}

/* Whether an object of the schema surely lacks a key. `written`: one that we write. */
static bool lacks(const json_t *s, const char *key, bool written)
{
    const json_t *absent = json_object_get(s, GK_ABSENT);
    for (size_t i = 0; i < json_array_size(absent); i++) {
        const char *name = json_string_value(json_array_get(absent, i));
        if (name != NULL && strcmp(name, key) == 0) {
            return true;
        }
    }
    const json_t *properties = json_object_get(s, "properties");
    const json_t *more = json_object_get(s, "additionalProperties");
    const json_t *said = json_object_get(properties, key);
    if (said != NULL || json_object_size(json_object_get(s, "patternProperties")) > 0 ||
        requires(s, key)) {
        return json_is_false(said);
    }
    bool open = is_open(s) || json_object_get(s, "unevaluatedProperties") != NULL;
    return json_is_false(more) ||
           (written && more == NULL && !open && json_object_size(properties) > 0);
}

static bool excludes(const json_t *mine, const json_t *other, int32_t depth, int64_t *work);

static bool objects_differ(const json_t *mine, const json_t *other, int32_t depth, int64_t *work)
{
    const json_t *lists[] = {json_object_get(mine, "required"), json_object_get(other, "required")};
    size_t n = json_array_size(lists[0]) + json_array_size(lists[1]);
    n += json_array_size(json_object_get(mine, GK_ABSENT)) +
         json_array_size(json_object_get(other, GK_ABSENT));
    if (!spend(work, n, n)) {
        return false;
    }
    for (int32_t side = 0; side < 2; side++) {
        for (size_t i = 0; i < json_array_size(lists[side]); i++) {
            const char *key = json_string_value(json_array_get(lists[side], i));
            if (key == NULL) {
                continue;
            }
            const json_t *a = said_of(mine, key), *b = said_of(other, key);
            if ((side == 0 && lacks(other, key, false)) ||
                (side == 1 && lacks(mine, key, depth == 0)) ||
                (a != NULL && b != NULL && excludes(a, b, depth + 1, work))) {
                return true;
            }
        }
    }
    return false;
}

/* Least and most, as bounds say; whether the one's values all lie beyond the other's. */
static bool ranges_differ(const json_t *mine, const json_t *other, const char *least,
                          const char *most)
{
    const json_t *lo = json_object_get(mine, least), *hi = json_object_get(other, most);
    const json_t *other_lo = json_object_get(other, least), *my_hi = json_object_get(mine, most);
    return (json_is_number(lo) && json_is_number(hi) &&
            json_number_value(lo) > json_number_value(hi)) ||
           (json_is_number(other_lo) && json_is_number(my_hi) &&
            json_number_value(other_lo) > json_number_value(my_hi));
}

static bool numbers_differ(const json_t *mine, const json_t *other)
{
    static const char *const lows[] = {"minimum", "exclusiveMinimum"}, *const highs[] = {
                                                                           "maximum",
                                                                           "exclusiveMaximum"};
    bool differ = false;
    for (int32_t i = 0; i < 4; i++) {
        differ = differ || ranges_differ(mine, other, lows[i & 1], highs[i >> 1]);
    }
    for (int32_t i = 0; i < 2; i++) { /* one may end just where the other begins, without it */
        const json_t *s = i == 0 ? mine : other, *t = i == 0 ? other : mine;
        const json_t *hi = json_object_get(s, "exclusiveMaximum"),
                     *lo = json_object_get(t, "minimum");
        const json_t *top = json_object_get(s, "maximum"),
                     *over = json_object_get(t, "exclusiveMinimum");
        differ = differ ||
                 (json_is_number(hi) && json_is_number(lo) &&
                  json_number_value(lo) >= json_number_value(hi)) ||
                 (json_is_number(top) && json_is_number(over) &&
                  json_number_value(over) >= json_number_value(top));
    }
    return differ;
}

static bool arrays_differ(const json_t *mine, const json_t *other, int32_t depth, int64_t *work)
{
    const json_t *lo = json_object_get(mine, "minItems"),
                 *other_lo = json_object_get(other, "minItems");
    const json_t *items = json_object_get(mine, "items"), *others = json_object_get(other, "items");
    bool some = json_number_value(lo) > 0 || json_number_value(other_lo) > 0;
    bool plain = json_object_get(mine, "prefixItems") == NULL &&
                 json_object_get(other, "prefixItems") == NULL && json_is_object(items) &&
                 json_is_object(others);
    return ranges_differ(mine, other, "minItems", "maxItems") ||
           (some && plain && excludes(items, others, depth + 1, work));
}

static bool excludes(const json_t *mine, const json_t *other, int32_t depth, int64_t *work)
{
    if (json_is_false(mine) || json_is_false(other)) {
        return true;
    }
    if (!json_is_object(mine) || !json_is_object(other) || depth > DEEP || !spend(work, 0, 0)) {
        return false;
    }
    int32_t common = types_of(mine, depth == 0) & types_of(other, false);
    if (common == 0 || constants_differ(mine, other, work) || constants_differ(other, mine, work)) {
        return true;
    }
    if (constants(mine) != NULL || constants(other) != NULL) {
        return false;
    }
    return ((common & OBJECT) == 0 || objects_differ(mine, other, depth, work)) &&
           ((common & ARRAY) == 0 || arrays_differ(mine, other, depth, work)) &&
           ((common & STRING) == 0 || ranges_differ(mine, other, "minLength", "maxLength")) &&
           ((common & NUMBER) == 0 || numbers_differ(mine, other)) &&
           (common & (BOOLEAN | NIL)) == 0;
}

bool whim_schema_excludes(const json_t *mine, const json_t *other)
{
    int64_t work = 0;
    return excludes(mine, other, 0, &work);
}

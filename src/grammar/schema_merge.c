/* SPDX-License-Identifier: Apache-2.0 */
/* One schema for what several schemas allow together: allOf, and keywords beside $ref or anyOf.
 * What cannot be joined keyword by keyword is refused. */
#include "grammar/impl.h"

#include <string.h>

typedef struct merge {
    whim_grammar_builder *b;
    const gplace *place;
    json_t *out;
} merge;

static bool fail(merge *m, const char *key, const char *what)
{
    char buf[GPLACE_ROOM];
    whim_gb_fail(m->b, WHIM_ERR_INVALID, "%s: %s of schemas that hold together %s",
                 whim_gplace_text(m->place, buf), key, what);
    return false;
}

/* Takes over `value`. */
static bool put(merge *m, json_t *object, const char *key, json_t *value)
{
    if (value == NULL || json_object_set_new(object, key, value) != 0) {
        whim_gb_no_memory(m->b);
        return false;
    }
    return true;
}

static json_t *all_of(json_t *one, json_t *two)
{
    return json_pack("{s:[O,O]}", "allOf", one, two);
}

static bool has_value(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_equal(json_array_get(list, i), value)) {
            return true;
        }
    }
    return false;
}

/* Values of both lists, or of either. */
static json_t *join_lists(const json_t *one, const json_t *two, bool both)
{
    json_t *list = both ? json_array() : json_copy((json_t *)one);
    for (size_t i = 0; i < json_array_size(two) && list != NULL; i++) {
        json_t *value = json_array_get(two, i);
        if (has_value(one, value) == both) {
            json_array_append(list, value);
        }
    }
    return list;
}

/* A type as a list of types. An integer is a number. */
static json_t *type_list(const json_t *type, bool spread)
{
    json_t *list = json_is_array(type) ? json_copy((json_t *)type) : json_pack("[O]", type);
    json_t *number = json_string("number");
    if (spread && has_value(list, number)) {
        json_array_append_new(list, json_string("integer"));
    }
    json_decref(number);
    return list;
}

static bool merge_types(merge *m, const json_t *one, const json_t *two)
{
    json_t *a = type_list(one, true), *b = type_list(two, true);
    json_t *list = join_lists(a, b, true);
    json_decref(a);
    json_decref(b);
    if (json_array_size(list) == 0) {
        json_decref(list);
        return fail(m, "the types", "leave no type");
    }
    return put(m, m->out, "type", list);
}

/* Properties of an object that the other schema does not list and does not allow besides go out. */
static bool drop_unlisted(merge *m, json_t *properties, const json_t *other)
{
    const json_t *more = json_object_get(other, "additionalProperties");
    const json_t *listed = json_object_get(other, "properties");
    if (more == NULL || json_is_true(more)) {
        return true;
    }
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(properties, next, key, value)
    {
        if (json_object_get(listed, key) != NULL) {
            continue;
        }
        if (!json_is_false(more)) {
            return fail(m, "additionalProperties", "are not supported beside other properties");
        }
        json_object_del(properties, key);
    }
    return true;
}

/* Either may be NULL: none. */
static bool merge_properties(merge *m, const json_t *one, const json_t *two, const json_t *s)
{
    json_t *mine = one == NULL ? json_object() : json_copy((json_t *)one);
    json_t *other = two == NULL ? json_object() : json_copy((json_t *)two);
    bool ok = mine != NULL && other != NULL && drop_unlisted(m, other, m->out) &&
              drop_unlisted(m, mine, s);
    const char *key;
    json_t *value;
    if (ok) {
        json_object_foreach(other, key, value)
        {
            json_t *old = json_object_get(mine, key);
            ok = ok && put(m, mine, key,
                           old == NULL || json_equal(old, value) ? json_incref(value)
                                                                 : all_of(old, value));
        }
    }
    json_decref(other);
    if (!ok) {
        json_decref(mine);
        return false;
    }
    return put(m, m->out, "properties", mine);
}

static bool merge_keyword(merge *m, const char *key, json_t *value, const json_t *s)
{
    json_t *old = json_object_get(m->out, key);
    bool numbers = json_is_number(old) && json_is_number(value);
    if (strcmp(key, "properties") == 0) {
        return merge_properties(m, old, value, s);
    }
    if (strcmp(key, "unevaluatedItems") == 0 && !json_is_true(value)) {
        return fail(m, key,
                    "is not supported"); /* which items it means depends on its neighbours */
    }
    if (old == NULL) {
        return put(m, m->out, key, json_incref(value));
    }
    if (json_equal(old, value)) {
        return true;
    }
    if (strcmp(key, "type") == 0) {
        return merge_types(m, old, value);
    }
    if (strcmp(key, "required") == 0 || strcmp(key, "enum") == 0) {
        return put(m, m->out, key, join_lists(old, value, *key == 'e'));
    }
    if (strcmp(key, "items") == 0 && json_is_object(old) && json_is_object(value)) {
        return put(m, m->out, key, all_of(old, value));
    }
    bool low = strncmp(key, "min", 3) == 0 || strcmp(key, "exclusiveMinimum") == 0;
    if (numbers && (low || strncmp(key, "max", 3) == 0 || strcmp(key, "exclusiveMaximum") == 0)) {
        double mine = json_number_value(old), other = json_number_value(value);
        return (low ? mine >= other : mine <= other) || put(m, m->out, key, json_incref(value));
    }
    if (strcmp(key, "additionalProperties") == 0 && (json_is_true(old) || json_is_false(value))) {
        return put(m, m->out, key, json_incref(value));
    }
    if (strcmp(key, "additionalProperties") == 0 && (json_is_true(value) || json_is_false(old))) {
        return true;
    }
    if (strcmp(key, "anyOf") == 0 && json_object_get(m->out, "oneOf") == NULL) {
        return put(m, m->out, "oneOf", json_incref(value));
    }
    return fail(m, key, "cannot be joined");
}

static bool merge_into(merge *m, const json_t *s, int32_t depth)
{
    if (json_is_true(s)) {
        return true;
    }
    if (!json_is_object(s)) {
        return fail(m, "one", json_is_false(s) ? "is false: no value is valid" : "is no schema");
    }
    if (depth > m->b->limits.max_depth) {
        return fail(m, "the references", "are nested too deep");
    }
    /* Own properties of `out` that this schema forbids go out even when it lists none itself. */
    json_t *mine = json_object_get(m->out, "properties");
    if (mine != NULL && json_object_get(s, "properties") == NULL &&
        !merge_properties(m, mine, NULL, s)) {
        return false;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s, key, value)
    {
        bool ok = true;
        if (strcmp(key, "$ref") == 0) {
            const json_t *target = whim_gb_schema_target(m->b, json_string_value(value), m->place);
            ok = target != NULL && merge_into(m, target, depth + 1);
        } else if (strcmp(key, "allOf") == 0) {
            for (size_t i = 0; i < json_array_size(value) && ok; i++) {
                ok = merge_into(m, json_array_get(value, i), depth + 1);
            }
        } else if (!whim_schema_is_note(key) && strcmp(key, "additionalProperties") != 0) {
            ok = merge_keyword(m, key, value, s);
        }
        if (!ok) {
            return false;
        }
    }
    /* Last: while properties are joined, `out` still tells what the schemas before allow
     * besides. */
    value = json_object_get(s, "additionalProperties");
    return value == NULL || merge_keyword(m, "additionalProperties", value, s);
}

const json_t *whim_gb_schema_merge(whim_grammar_builder *b, const json_t *one, const json_t *two,
                                   const gplace *place, int32_t depth)
{
    merge m = {.b = b, .place = place, .out = json_object()};
    bool ok = m.out != NULL && !whim_gb_late(b) && json_array_append_new(b->made, m.out) == 0;
    if (!ok) {
        whim_gb_no_memory(b);
        return NULL;
    }
    return merge_into(&m, one, depth) && merge_into(&m, two, depth) ? m.out : NULL;
}

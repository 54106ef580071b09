/* SPDX-License-Identifier: Apache-2.0 */
/* One schema for what several schemas allow together: allOf, and keywords beside $ref or anyOf.
 * Keywords that speak about one another are joined together: properties with what is allowed
 * besides them, items with those before them. What cannot be joined is refused. */
#include "grammar/schema/merge.h"

#include <stdio.h>
#include <string.h>

bool whim_merge_fail(gmerge *m, const char *key, const char *what)
{
    char buf[GPLACE_ROOM];
    whim_gb_fail(m->b, WHIM_ERR_INVALID, "%s: %s of schemas that hold together %s",
                 whim_gplace_text(m->place, buf), key, what);
    return false;
}

bool whim_merge_never(gmerge *m, const char *key, const char *what)
{
    char text[128];
    if (!m->never) {
        snprintf(text, sizeof text, "has schemas that hold together, and %s %s", key, what);
        (void)whim_gb_impossible(m->b, m->place, NULL, text);
    }
    m->never = true;
    return true;
}

bool whim_gb_put(whim_grammar_builder *b, json_t *object, const char *key, json_t *value)
{
    if (value == NULL || json_object_set_new_nocheck(object, key, value) != 0) {
        whim_gb_no_memory(b);
        return false;
    }
    return true;
}

bool whim_merge_put(gmerge *m, const char *key, json_t *value)
{
    return whim_gb_put(m->b, m->out, key, value);
}

json_t *whim_merge_both(json_t *one, json_t *two)
{
    if (one == NULL || json_is_true(one) || json_is_false(two)) {
        return json_incref(two == NULL ? one : two);
    }
    if (two == NULL || json_is_true(two) || json_is_false(one) || json_equal(one, two)) {
        return json_incref(one);
    }
    json_t *all = json_object_size(one) == 1 ? json_object_get(one, "allOf") : NULL;
    if (!json_is_array(all)) {
        return json_pack("{s:[O,O]}", "allOf", one, two);
    }
    all = json_copy(all); /* a longer list, not a deeper one: many may be joined */
    if (all == NULL || json_array_append(all, two) != 0) {
        json_decref(all);
        return NULL;
    }
    return json_pack("{s:o}", "allOf", all);
}

const json_t *whim_gb_schema_both(whim_grammar_builder *b, const json_t *one, const json_t *two)
{
    json_t *made = whim_merge_both((json_t *)one, (json_t *)two);
    if (one == NULL && two == NULL) {
        return NULL;
    }
    if (made == NULL || json_array_append_new(b->made, made) != 0) {
        whim_gb_no_memory(b);
        return NULL;
    }
    return made;
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
static json_t *join_lists(gmerge *m, const json_t *one, const json_t *two, bool in_both)
{
    json_t *list = in_both ? json_array() : json_copy((json_t *)one);
    for (size_t i = 0; i < json_array_size(two) && list != NULL; i++) {
        json_t *value = json_array_get(two, i);
        if (i % 64 == 0 && whim_gb_late(m->b)) { /* each is compared with a whole list */
            break;
        }
        if (has_value(one, value) == in_both) {
            json_array_append(list, value);
        }
    }
    return list;
}

/* --- types ------------------------------------------------------------------------------------ */

static bool has_type(const json_t *list, const char *name)
{
    json_t *text = json_string(name);
    bool has = has_value(list, text);
    json_decref(text);
    return has;
}

/* A type as a list of types, null too where the schema is nullable. */
static json_t *type_list(const json_t *type, bool nullable)
{
    json_t *list = json_is_array(type) ? json_copy((json_t *)type) : json_pack("[O]", type);
    if (list != NULL && nullable && !has_type(list, "null")) {
        json_array_append_new(list, json_string("null"));
    }
    return list;
}

/* Types of both; an integer is a number. */
static bool merge_types(gmerge *m, json_t *type, bool nullable)
{
    json_t *old = json_object_get(m->out, "type");
    json_t *mine = type_list(old == NULL ? type : old, old == NULL && nullable);
    json_t *other = type_list(type, nullable), *joined = json_array();
    for (size_t i = 0; i < json_array_size(mine); i++) {
        const char *one = json_string_value(json_array_get(mine, i));
        bool number = one != NULL && strcmp(one, "number") == 0;
        if (one == NULL || has_value(other, json_array_get(mine, i)) ||
            (strcmp(one, "integer") == 0 && has_type(other, "number"))) {
            json_array_append(joined, json_array_get(mine, i));
        } else if (number && has_type(other, "integer")) {
            json_array_append_new(joined, json_string("integer"));
        }
    }
    json_decref(mine);
    json_decref(other);
    bool none = json_array_size(joined) == 0;
    return whim_merge_put(m, "type", joined) &&
           (!none || whim_merge_never(m, "the types", "leave no type"));
}

/* --- other keywords --------------------------------------------------------------------------- */

/* A list that grows by the values of another. */
static bool add_to_list(gmerge *m, const char *key, const json_t *values)
{
    json_t *old = json_object_get(m->out, key);
    return whim_merge_put(
        m, key, old == NULL ? json_copy((json_t *)values) : join_lists(m, old, values, false));
}

static bool add_one(gmerge *m, const char *key, json_t *value)
{
    json_t *list = json_pack("[O]", value);
    bool ok = list != NULL && add_to_list(m, key, list);
    json_decref(list);
    return ok;
}

/* A list of choices: one of them holds. */
static bool add_choice(gmerge *m, const char *key, json_t *list)
{
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return whim_gb_fail_at(m->b, m->place, key, "must be a list of schemas") >= 0;
    }
    json_t *choice = json_pack("{s:O}", key, list);
    bool ok = choice != NULL && add_one(m, GK_CHOICES, choice);
    json_decref(choice);
    return ok;
}

static bool merge_bound(gmerge *m, const char *key, json_t *old, json_t *value)
{
    bool low = strncmp(key, "min", 3) == 0 || strcmp(key, "exclusiveMinimum") == 0;
    if (!json_is_number(old) || !json_is_number(value)) {
        return whim_merge_fail(m, key, "must be numbers");
    }
    double mine = json_number_value(old), other = json_number_value(value);
    return (low ? mine >= other : mine <= other) || whim_merge_put(m, key, json_incref(value));
}

/* A keyword that both schemas have, with values that differ. */
static bool merge_keyword(gmerge *m, const char *key, json_t *old, json_t *value)
{
    static const char bounds[] = "minimum maximum exclusiveMinimum exclusiveMaximum minLength "
                                 "maxLength minItems maxItems minProperties maxProperties";
    if (strcmp(key, "required") == 0 && json_is_array(old) && json_is_array(value)) {
        return add_to_list(m, key, value);
    }
    if (strcmp(key, "enum") == 0) {
        json_t *list = join_lists(m, old, value, true);
        bool none = json_array_size(list) == 0;
        return whim_merge_put(m, key, list) &&
               (!none || whim_merge_never(m, "the values of enum", "leave no value"));
    }
    if (strcmp(key, "const") == 0) {
        return whim_merge_never(m, "const", "leave no value");
    }
    if (whim_schema_has_word(bounds, key)) {
        return merge_bound(m, key, old, value);
    }
    if (strcmp(key, "multipleOf") == 0 && json_is_integer(old) && json_is_integer(value)) {
        int64_t a = json_integer_value(old), c = json_integer_value(value), x = a, y = c;
        while (x > 0 && y > 0) {
            int64_t left = x % y;
            x = y;
            y = left;
        }
        bool small = a > 0 && c > 0 && a < INT32_MAX && c < INT32_MAX;
        return small ? whim_merge_put(m, key, json_integer(a / x * c))
                     : whim_merge_fail(m, key, "cannot be joined");
    }
    if (strcmp(key, "uniqueItems") == 0) {
        return whim_merge_put(m, key, json_boolean(json_is_true(old) || json_is_true(value)));
    }
    if (strcmp(key, "pattern") == 0) {
        return add_one(m, GK_PATTERNS, value);
    }
    return whim_merge_fail(m, key, "cannot be joined");
}

/* The bounds of draft 4, which have a flag beside them. */
static bool is_flagged(const json_t *s, const char *key)
{
    const char *flag = strcmp(key, "minimum") == 0   ? "exclusiveMinimum"
                       : strcmp(key, "maximum") == 0 ? "exclusiveMaximum"
                                                     : NULL;
    return flag != NULL && json_is_true(json_object_get(s, flag));
}

static bool merge_into(gmerge *m, const json_t *s, bool own, int32_t depth);

/* A choice of two, which are taken over. */
static bool add_either(gmerge *m, json_t *one, json_t *two)
{
    json_t *list = one != NULL && two != NULL ? json_pack("[O,O]", one, two) : NULL;
    bool ok = list != NULL && add_choice(m, "anyOf", list);
    json_decref(one);
    json_decref(two);
    json_decref(list);
    if (!ok) {
        whim_gb_no_memory(m->b);
    }
    return ok;
}

/* Whether a choice that `not` led to lists properties or items, as only the opposite of an opposite
 * does: by the standard nothing is listed there. */
static bool lists_something(const json_t *choice)
{
    static const char listing[] = "properties patternProperties additionalProperties items "
                                  "prefixItems $ref anyOf oneOf if dependentSchemas dependencies";
    const char *key;
    json_t *value;
    bool lists = false;
    json_object_foreach((json_t *)choice, key, value)
    {
        lists = lists || whim_schema_has_word(listing, key);
        for (size_t i = 0; i < json_array_size(value) && strcmp(key, "allOf") == 0; i++) {
            lists = lists || lists_something(json_array_get(value, i));
        }
    }
    return lists;
}

static bool merge_not(gmerge *m, const json_t *s, int32_t depth)
{
    json_t *list = whim_gb_schema_negate(m->b, s, m->place, depth);
    size_t n = json_array_size(list);
    bool ok = list != NULL && json_array_append(m->b->made, list) == 0;
    for (size_t i = 0; i < n; i++) {
        m->listed_by_not = m->listed_by_not || lists_something(json_array_get(list, i));
    }
    ok = ok && (n == 0   ? whim_merge_never(m, "not", "is a schema that every value fits")
                : n == 1 ? merge_into(m, json_array_get(list, 0), false, depth + 1)
                         : add_choice(m, "anyOf", list));
    json_decref(list);
    return ok;
}

/* What holds of objects that have a key: others beside it (a list of names), or a schema. */
static bool merge_dependent(gmerge *m, const char *key, json_t *needs)
{
    json_t *absent = json_object(), *present = NULL;
    bool ok = absent != NULL && whim_gb_put(m->b, absent, GK_ABSENT, json_pack("[s]", key));
    if (json_is_array(needs) || json_is_string(needs)) {
        json_t *names = json_is_array(needs) ? json_copy(needs) : json_pack("[O]", needs);
        ok = ok && names != NULL && json_array_append_new(names, json_string(key)) == 0;
        present = json_pack("{s:o}", "required", names);
    } else {
        present = json_pack("{s:[{s:[s]},O]}", "allOf", "required", key, needs);
    }
    if (!ok) {
        json_decref(absent);
        absent = NULL;
    }
    return add_either(m, absent, present);
}

static bool merge_if(gmerge *m, const json_t *s)
{
    json_t *condition = json_object_get(s, "if"), *yes = json_object_get(s, "then");
    json_t *no = json_object_get(s, "else");
    if (yes == NULL && no == NULL) {
        return true;
    }
    return add_either(
        m, json_pack("{s:[O,O]}", "allOf", condition, yes != NULL ? yes : json_true()),
        json_pack("{s:[{s:O},O]}", "allOf", "not", condition, no != NULL ? no : json_true()));
}

/* Schemas of keys that are not listed by them. */
static bool merge_held(gmerge *m, json_t *schemas)
{
    json_t *held = json_object_get(m->out, GK_HELD);
    json_t *joined = held == NULL ? json_object() : json_copy(held);
    const char *key;
    json_t *value;
    json_object_foreach(schemas, key, value)
    {
        json_t *old = json_object_get(joined, key);
        if (!whim_gb_put(m->b, joined, key, whim_merge_both(old, value))) {
            json_decref(joined);
            return false;
        }
    }
    return whim_merge_put(m, GK_HELD, joined);
}

/* Keywords that become choices. */
static bool merge_rule(gmerge *m, const json_t *s, const char *key, json_t *value, int32_t depth)
{
    const char *name;
    json_t *needs;
    if (strcmp(key, "not") == 0) {
        return merge_not(m, value, depth);
    }
    if (strcmp(key, "if") == 0) {
        return merge_if(m, s);
    }
    if (!json_is_object(value)) {
        return whim_gb_fail_at(m->b, m->place, key, "must be an object") >= 0;
    }
    bool ok = true;
    json_object_foreach(value, name, needs)
    {
        ok = ok && merge_dependent(m, name, needs);
    }
    return ok;
}

static bool merge_one(gmerge *m, const json_t *s, const char *key, json_t *value, int32_t depth)
{
    static const char together[] = "properties patternProperties additionalProperties items "
                                   "prefixItems additionalItems nullable contains minContains "
                                   "maxContains";
    if (strcmp(key, "$ref") == 0) {
        const json_t *target = whim_gb_schema_target(m->b, json_string_value(value), m->place);
        return target != NULL && merge_into(m, target, false, depth + 1);
    }
    if (strcmp(key, "allOf") == 0) {
        bool ok = json_array_size(value) > 0 ||
                  whim_gb_fail_at(m->b, m->place, key, "must be a list of schemas") >= 0;
        for (size_t i = 0; i < json_array_size(value) && ok; i++) {
            ok = merge_into(m, json_array_get(value, i), false, depth + 1);
        }
        return ok;
    }
    if (strcmp(key, GK_HELD) == 0) {
        return merge_held(m, value);
    }
    if (*key == GK_MARK && json_is_array(value)) {
        return add_to_list(m, key, value);
    }
    if (whim_schema_has_word("not if dependencies dependentRequired dependentSchemas", key)) {
        return merge_rule(m, s, key, value, depth);
    }
    if (strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0) {
        return add_choice(m, key, value);
    }
    if (strcmp(key, "type") == 0) {
        return merge_types(m, value, json_is_true(json_object_get(s, "nullable")));
    }
    if (whim_schema_is_note(key) || whim_schema_has_word(together, key)) {
        return true;
    }
    if (is_flagged(s, key)) {
        key = strcmp(key, "minimum") == 0 ? "exclusiveMinimum" : "exclusiveMaximum";
    } else if (strncmp(key, "exclusive", 9) == 0 && json_is_boolean(value)) {
        return true;
    }
    json_t *old = json_object_get(m->out, key);
    if (old == NULL) {
        return whim_merge_put(m, key, json_incref(value));
    }
    return json_equal(old, value) || merge_keyword(m, key, old, value);
}

/* What a schema means by unevaluated is settled before others join it: what they list is none of
 * its business. */
static const json_t *settled(gmerge *m, const json_t *s, int32_t depth)
{
    static const char *const pairs[][2] = {{"unevaluatedProperties", "additionalProperties"},
                                           {"unevaluatedItems", "items"}};
    const json_t *alone = whim_gb_schema_merge(m->b, s, json_true(), m->place, depth + 1);
    for (int32_t i = 0; i < 2 && json_is_object(alone); i++) {
        json_t *value = json_object_get(alone, pairs[i][0]);
        if (value == NULL || json_is_true(value)) {
            continue;
        }
        if (i == 1 && json_object_get(alone, "contains") != NULL) {
            (void)whim_merge_fail(m, pairs[i][0], "is not supported beside contains");
            return NULL;
        }
        if (json_object_get(alone, GK_CHOICES) != NULL) {
            (void)whim_merge_fail(m, pairs[i][0], "is not supported beside choices");
            return NULL;
        }
        bool ok = json_object_get(alone, pairs[i][1]) != NULL ||
                  whim_gb_put(m->b, (json_t *)alone, pairs[i][1], json_incref(value));
        if (!ok || json_object_del((json_t *)alone, pairs[i][0]) != 0) {
            return NULL;
        }
    }
    return alone;
}

/* `own`: the schema that all this is merged for. */
static bool merge_into(gmerge *m, const json_t *s, bool own, int32_t depth)
{
    if (whim_gb_late(m->b)) { /* references may double at each level */
        return false;
    }
    if (json_is_true(s)) {
        return true;
    }
    if (json_is_false(s)) {
        return whim_merge_never(m, "one", "is false: no value is valid");
    }
    if (!json_is_object(s)) {
        return whim_merge_fail(m, "one", "is no schema");
    }
    if (depth > m->b->limits.max_depth) {
        return whim_merge_fail(m, "the references", "are nested too deep");
    }
    if (!own && (json_object_get(s, "unevaluatedProperties") != NULL ||
                 json_object_get(s, "unevaluatedItems") != NULL)) {
        s = settled(m, s, depth);
        return s != NULL && merge_into(m, s, true, depth + 1);
    }
    bool ok = whim_merge_objects(m, s) && whim_merge_arrays(m, s) && whim_merge_contains(m, s);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s, key, value)
    {
        ok = ok && merge_one(m, s, key, value, depth);
    }
    return ok;
}

/* What is unevaluated is not told where `not` lists something. */
static bool check_listed(gmerge *m)
{
    static const char *const keys[] = {"unevaluatedProperties", "unevaluatedItems"};
    for (int32_t i = 0; i < 2 && m->listed_by_not; i++) {
        const json_t *value = json_object_get(m->out, keys[i]);
        if (value != NULL && !json_is_true(value)) {
            return whim_merge_fail(m, keys[i], "is not supported beside not of not");
        }
    }
    return true;
}

static bool only_objects(const json_t *s)
{
    const json_t *type = json_object_get(s, "type");
    type = json_array_size(type) == 1 ? json_array_get(type, 0) : type;
    return json_is_string(type) && strcmp(json_string_value(type), "object") == 0;
}

/* A key that must come and must not: no object fits. */
static bool check_required(gmerge *m)
{
    const json_t *required = json_object_get(m->out, "required");
    const json_t *absent = json_object_get(m->out, GK_ABSENT);
    const json_t *properties = json_object_get(m->out, "properties");
    for (size_t i = 0; i < json_array_size(required); i++) {
        json_t *name = json_array_get(required, i);
        const char *key = json_string_value(name);
        bool not_allowed = has_value(absent, name) ||
                           (key != NULL && json_is_false(json_object_get(properties, key)));
        if (not_allowed && only_objects(m->out)) {
            return whim_merge_never(m, "required", "names a key that must not come");
        }
    }
    return true;
}

const json_t *whim_gb_schema_merge(whim_grammar_builder *b, const json_t *one, const json_t *two,
                                   const gplace *place, int32_t depth)
{
    gmerge m = {.b = b, .place = place, .out = json_object()};
    bool ok = m.out != NULL && !whim_gb_late(b) && json_array_append_new(b->made, m.out) == 0;
    if (!ok) {
        whim_gb_no_memory(b);
        return NULL;
    }
    ok = merge_into(&m, one, true, depth) && merge_into(&m, two, false, depth) &&
         check_required(&m) && check_listed(&m) && !whim_gb_failed(b);
    return !ok ? NULL : m.never ? json_false() : m.out;
}

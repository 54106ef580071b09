/* SPDX-License-Identifier: Apache-2.0 */
/* What does not fit a schema: at least one of its keywords is broken, so that it is a list of
 * choices, one for each keyword that can be broken by what a grammar can hold. A choice that no
 * grammar of ours can hold is left out: what remains is still invalid by the schema, as asked. */
#include "grammar/schema/schema.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CHOICES = 4096, MOST_COUNT = 1000000000 };

typedef struct negation {
    whim_grammar_builder *b;
    const gplace *place;
    json_t *list;         /* the choices so far */
    const char *left_out; /* the keyword of a choice that was left out, or NULL */
} negation;

/* One choice: a key and its value, which is taken over, of a type (or NULL). */
static void add(negation *n, const char *type, const char *key, json_t *value)
{
    json_t *choice = json_object();
    bool ok = choice != NULL &&
              (type == NULL || whim_gb_put(n->b, choice, "type", json_string(type))) &&
              whim_gb_put(n->b, choice, key, value);
    if (!ok || json_array_append(n->list, choice) != 0) {
        whim_gb_no_memory(n->b);
    }
    json_decref(choice);
}

/* Another key and its value, which is taken over, of the choice added last. */
static void add_more(negation *n, const char *key, json_t *value)
{
    json_t *choice = json_array_get(n->list, json_array_size(n->list) - 1);
    if (choice == NULL || !whim_gb_put(n->b, choice, key, value)) {
        whim_gb_no_memory(n->b);
    }
}

static json_t *not_of(const json_t *schema)
{
    return json_pack("{s:O}", "not", (json_t *)schema);
}

/* {key: value} with any key; takes over `value`. */
static json_t *object_of(const char *key, json_t *value)
{
    json_t *object = json_object();
    if (object == NULL || json_object_set_new_nocheck(object, key, value) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static bool names_type(const json_t *type, const char *name)
{
    bool is = json_is_string(type) && strcmp(json_string_value(type), name) == 0;
    for (size_t i = 0; i < json_array_size(type) && !is; i++) {
        is = names_type(json_array_get(type, i), name);
    }
    return is;
}

static void negate_type(negation *n, const json_t *type, bool nullable)
{
    static const char *const all[] = {"object", "array", "string", "number", "boolean", "null"};
    json_t *others = json_array();
    for (size_t i = 0; i < sizeof all / sizeof all[0] && others != NULL; i++) {
        bool whole = strcmp(all[i], "number") == 0 && names_type(type, "integer");
        n->left_out = whole && !names_type(type, "number") ? "type" : n->left_out;
        if (!names_type(type, all[i]) && !whole && !(nullable && strcmp(all[i], "null") == 0)) {
            json_array_append_new(others, json_string(all[i]));
        }
    }
    if (json_array_size(others) > 0) {
        add(n, NULL, "type", json_incref(others));
    }
    json_decref(others);
}

/* A bound and what lies on its other side. */
static bool negate_bound(negation *n, const json_t *s, const char *key, const json_t *value)
{
    static const struct {
        const char *key, *type, *other;
        int32_t step; /* of a count */
    } bounds[] = {
        {"minimum", "number", "exclusiveMaximum", 0},
        {"maximum", "number", "exclusiveMinimum", 0},
        {"exclusiveMinimum", "number", "maximum", 0},
        {"exclusiveMaximum", "number", "minimum", 0},
        {"minLength", "string", "maxLength", -1},
        {"maxLength", "string", "minLength", 1},
        {"minItems", "array", "maxItems", -1},
        {"maxItems", "array", "minItems", 1},
        {"minProperties", "object", "maxProperties", -1},
        {"maxProperties", "object", "minProperties", 1},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        if (strcmp(bounds[i].key, key) != 0) {
            continue;
        }
        double count = json_number_value(value) + bounds[i].step;
        bool flagged =
            (strcmp(key, "minimum") == 0 && json_is_true(json_object_get(s, "exclusiveMinimum"))) ||
            (strcmp(key, "maximum") == 0 && json_is_true(json_object_get(s, "exclusiveMaximum")));
        if (json_is_boolean(value) || (bounds[i].step != 0 && count < 0)) {
            return true; /* a flag of draft 4, or a bound that nothing breaks */
        }
        if (bounds[i].step != 0 && !(count <= MOST_COUNT)) {
            n->left_out = key;
        } else if (bounds[i].step != 0) {
            add(n, bounds[i].type, bounds[i].other, json_integer((json_int_t)count));
        } else {
            add(n, bounds[i].type,
                flagged ? (*key == 'm' && key[1] == 'i' ? "maximum" : "minimum") : bounds[i].other,
                json_incref((json_t *)value));
        }
        return true;
    }
    return false;
}

static void negate_object(negation *n, const char *key, json_t *value)
{
    const char *name;
    json_t *schema;
    if (strcmp(key, "required") == 0) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            add(n, "object", GK_ABSENT, json_pack("[O]", json_array_get(value, i)));
        }
        return;
    }
    if (strcmp(key, "properties") != 0) {
        n->left_out = key;
        return;
    }
    json_object_foreach(value, name, schema)
    {
        if (json_is_true(schema) || (json_is_object(schema) && json_object_size(schema) == 0)) {
            continue;
        }
        add(n, "object", "required", json_pack("[s]", name));
        add_more(n, GK_HELD, object_of(name, not_of(schema)));
    }
}

/* Choices of several schemas: none of them holds. */
static void negate_choice(negation *n, const char *key, const json_t *list)
{
    json_t *none = json_array();
    for (size_t i = 0; i < json_array_size(list) && none != NULL; i++) {
        json_array_append_new(none, not_of(json_array_get(list, i)));
    }
    add(n, NULL, "allOf", none);
    n->left_out = strcmp(key, "oneOf") == 0 ? key : n->left_out; /* or two of them do */
}

/* Fewer items are alike than must be, or more than may be. */
static void negate_contains(negation *n, const json_t *s, json_t *contains)
{
    const gplace at = {.up = n->place, .key = "not"};
    int64_t least = 1, most = -1;
    if (!json_is_object(contains) && !json_is_boolean(contains)) {
        (void)whim_gb_fail_at(n->b, &at, "contains", "must be a schema");
        return;
    }
    if (!whim_gb_schema_count(n->b, s, "minContains", &at, &least) ||
        !whim_gb_schema_count(n->b, s, "maxContains", &at, &most)) {
        return;
    }
    if (least >= MOST_COUNT || most >= MOST_COUNT) {
        n->left_out = "contains";
        return;
    }
    if (least > 0) {
        add(n, "array", "contains", json_incref(contains));
        add_more(n, "minContains", json_integer(0));
        add_more(n, "maxContains", json_integer(least - 1));
    }
    if (most >= 0) {
        add(n, "array", "contains", json_incref(contains));
        add_more(n, "minContains", json_integer(most + 1));
    }
}

static void negate_into(negation *n, const json_t *s, int32_t depth);

static void negate_keyword(negation *n, const json_t *s, const char *key, json_t *value,
                           int32_t depth)
{
    if (strcmp(key, "type") == 0) {
        negate_type(n, value, json_is_true(json_object_get(s, "nullable")));
    } else if (strcmp(key, "enum") == 0 || strcmp(key, GK_NOT_VALUES) == 0) {
        add(n, NULL, *key == 'e' ? GK_NOT_VALUES : "enum", json_incref(value));
    } else if (strcmp(key, "const") == 0) {
        add(n, NULL, GK_NOT_VALUES, json_pack("[O]", value));
    } else if (strcmp(key, "not") == 0) {
        json_array_append(n->list, value);
    } else if (strcmp(key, "anyOf") == 0 || strcmp(key, "oneOf") == 0) {
        negate_choice(n, key, value);
    } else if (strcmp(key, "allOf") == 0) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            negate_into(n, json_array_get(value, i), depth + 1);
        }
    } else if (strcmp(key, "$ref") == 0) {
        const json_t *target = whim_gb_schema_target(n->b, json_string_value(value), n->place);
        negate_into(n, target, depth + 1);
    } else if (strcmp(key, "contains") == 0) {
        negate_contains(n, s, value);
    } else if (strcmp(key, "pattern") == 0) {
        add(n, "string", GK_NOT_PATTERNS, json_pack("[O]", value));
    } else if (strcmp(key, "multipleOf") == 0) {
        add(n, "integer", GK_NOT_MULTIPLE, json_pack("[O]", value));
        n->left_out = key;
    } else if (strcmp(key, "required") == 0 || strcmp(key, "properties") == 0) {
        negate_object(n, key, value);
    } else if (!whim_schema_has_word("nullable minContains maxContains", key) &&
               !negate_bound(n, s, key, value) && !whim_schema_is_note(key)) {
        n->left_out = key;
    }
}

static void negate_into(negation *n, const json_t *s, int32_t depth)
{
    if (s == NULL || json_is_true(s) || whim_gb_late(n->b)) {
        return;
    }
    if (json_array_size(n->list) > MOST_CHOICES) { /* references may double them at each level */
        (void)whim_gb_fail_at(n->b, n->place, "not", "has too many opposites");
        return;
    }
    if (json_is_false(s)) {
        json_array_append_new(n->list, json_true());
        return;
    }
    if (!json_is_object(s) || depth > n->b->limits.max_depth) {
        (void)whim_gb_fail_at(n->b, n->place, "not",
                              "must be a schema that is not nested too deep");
        return;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s, key, value)
    {
        negate_keyword(n, s, key, value, depth);
    }
}

json_t *whim_gb_schema_negate(whim_grammar_builder *b, const json_t *s, const gplace *place,
                              int32_t depth)
{
    negation n = {.b = b, .place = place, .list = json_array()};
    if (n.list == NULL) {
        whim_gb_no_memory(b);
        return NULL;
    }
    negate_into(&n, s, depth);
    if (n.left_out != NULL) {
        b->n_narrowed++;
        snprintf(b->left_out, sizeof b->left_out, "%s", n.left_out);
    }
    if (json_array_size(n.list) == 0 && n.left_out != NULL) {
        char buf[GPLACE_ROOM];
        (void)whim_gb_fail(b, WHIM_ERR_INVALID,
                           "%s.not: the opposite of %s is not supported (oneOf asks for it where "
                           "two of its schemas may fit one value)",
                           whim_gplace_text(place, buf), n.left_out);
    }
    if (whim_gb_failed(b)) {
        json_decref(n.list);
        return NULL;
    }
    return n.list;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments between tags: a string stands there as it is, everything else as JSON. What a schema
 * says and this form cannot be held to is refused, so that a forced or strict call is always
 * valid. */
#include "base/json.h"
#include "chat/answer_impl.h"
#include "chat/tools/parser.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CHOICES_DEEP = 8 };

/* The first of the words that is a key of the schema, or NULL. */
static const char *any_key(const json_t *schema, const char *words)
{
    char word[32];
    for (int n; sscanf(words, "%31s%n", word, &n) == 1; words += n) {
        void *found = json_object_iter_at((json_t *)schema, word);
        if (found != NULL) {
            return json_object_iter_key(found);
        }
    }
    return NULL;
}

void whim_answer_check_root(whim_answer *a, const json_t *schema, const char *path)
{
    static const char cannot[] =
        "$ref allOf anyOf oneOf not if patternProperties propertyNames dependentRequired "
        "dependentSchemas minProperties maxProperties";
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required");
    const char *key = any_key(schema, cannot);
    if (key == NULL && json_is_object(json_object_get(schema, "additionalProperties"))) {
        key = "additionalProperties";
    }
    if (key != NULL) {
        (void)whim_gb_fail(a->b, WHIM_ERR_INVALID,
                           "%s.%s is not supported: this model writes arguments one by one; list "
                           "them in \"properties\"",
                           path, key);
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (name != NULL && json_object_get(properties, name) == NULL) {
            (void)whim_gb_fail(a->b, WHIM_ERR_INVALID,
                               "%s.required names \"%.80s\", which is not in properties", path,
                               name);
        }
    }
}

json_t *whim_answer_property(const json_t *root, const json_t *property)
{
    static const char *const keys[] = {"$defs", "definitions"};
    json_t *schema = json_copy((json_t *)property);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *defs = json_object_get(root, keys[i]);
        if (defs != NULL && json_is_object(schema)) {
            json_object_set(schema, keys[i], defs);
        }
    }
    return schema;
}

/* One value that a property is held to, if it has one of the types. */
static void add_fixed(whim_answer *a, glist *texts, const json_t *value, uint32_t types)
{
    if ((whim_schema_type_of(value) & types) == 0) {
        return;
    }
    if (json_is_string(value)) {
        whim_glist_add(a->b, texts,
                       whim_grammar_literal(a->b, json_string_value(value),
                                            (int64_t)json_string_length(value)));
        return;
    }
    whim_str text = {0};
    whim_json_write(&text, value);
    if (text.failed) {
        whim_gb_no_memory(a->b);
    }
    whim_glist_add(a->b, texts, whim_answer_text(a, whim_str_text(&text)));
    whim_str_deinit(&text);
}

/* const or enum, then the end. */
static whim_grammar_node fixed_value(whim_answer *a, const char *end, const json_t *property,
                                     uint32_t types, const char *path)
{
    const json_t *one = json_object_get(property, "const"),
                 *list = json_object_get(property, "enum");
    glist texts = {0};
    if (one != NULL) {
        add_fixed(a, &texts, one, types);
    } else {
        for (size_t i = 0; i < json_array_size(list); i++) {
            add_fixed(a, &texts, json_array_get(list, i), types);
        }
    }
    if (texts.n == 0) {
        (void)whim_gb_fail(a->b, WHIM_ERR_INVALID, "%s allows no value", path);
    }
    return whim_gb_seq(a->b, whim_glist_node(a->b, &texts, GN_ANY_OF), whim_answer_text(a, end));
}

/* A string that has keywords, or null where it may be that. */
static whim_grammar_node held_text(whim_answer *a, const char *end, const json_t *property,
                                   uint32_t types, const char *path)
{
    whim_grammar_node text = whim_grammar_schema_text(a->b, property, path);
    if ((types & WHIM_TYPE_NULL) != 0) {
        text = whim_gb_any_of(a->b, text, whim_answer_text(a, "null"));
    }
    return whim_gb_seq(a->b, text, whim_answer_text(a, end));
}

static const char fixing[] = "const enum";

whim_grammar_node whim_answer_json_value(whim_answer *a, const char *end, const json_t *root,
                                         const json_t *property, const char *path)
{
    json_t *schema = whim_answer_property(root, property);
    whim_grammar_node value = whim_grammar_schema(a->b, schema, path);
    json_decref(schema);
    return whim_gb_seq(a->b, value, whim_answer_text(a, end));
}

static whim_grammar_node value_at(whim_answer *a, const char *end, const json_t *root,
                                  const json_t *property, const char *path, int depth);

/* One of several schemas; allOf may have one only. */
static whim_grammar_node chosen_value(whim_answer *a, const char *end, const json_t *root,
                                      const json_t *property, const char *list_key,
                                      const char *path, int depth)
{
    const json_t *list = json_object_get(property, list_key);
    bool all = strcmp(list_key, "allOf") == 0 && json_array_size(list) > 1;
    glist choices = {0};
    if (depth == 0 || all || whim_schema_holds_text(property) ||
        any_key(property, fixing) != NULL) {
        return whim_gb_fail(a->b, WHIM_ERR_INVALID,
                            "%s.%s is not supported for a text, so deep or beside other rules",
                            path, list_key);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        char where[256];
        snprintf(where, sizeof where, "%.200s.%s[%zu]", path, list_key, i);
        whim_glist_add(a->b, &choices,
                       value_at(a, end, root, json_array_get(list, i), where, depth - 1));
    }
    return whim_glist_node(a->b, &choices, GN_ANY_OF);
}

static whim_grammar_node value_at(whim_answer *a, const char *end, const json_t *root,
                                  const json_t *property, const char *path, int depth)
{
    property = whim_schema_resolve(root, property);
    uint32_t types = whim_schema_types(root, property);
    if (types != 0 && (types & WHIM_TYPE_STRING) == 0) {
        return whim_answer_json_value(a, end, root, property, path);
    }
    const char *key = any_key(property, "not if"), *list = any_key(property, "anyOf oneOf allOf");
    if (key != NULL) {
        return whim_gb_fail(a->b, WHIM_ERR_INVALID, "%s.%s is not supported for a text", path, key);
    }
    return list != NULL ? chosen_value(a, end, root, property, list, path, depth)
           : any_key(property, fixing) != NULL ? fixed_value(a, end, property, types, path)
           : whim_schema_holds_text(property)  ? held_text(a, end, property, types, path)
                                               : a->free_value;
}

whim_grammar_node whim_answer_tag_value(whim_answer *a, const char *end, const json_t *root,
                                        const json_t *property, const char *path)
{
    return value_at(a, end, root, property, path, MAX_CHOICES_DEEP);
}

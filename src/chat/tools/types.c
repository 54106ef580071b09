/* SPDX-License-Identifier: Apache-2.0 */
/* Which JSON types a parameter may have, as far as its schema says so plainly. */
#include "chat/tools/parser.h"
#include "grammar/impl.h"

#include <string.h>

enum { MAX_DEPTH = 8 };

static uint32_t of_word(const char *word)
{
    static const struct {
        const char *word;
        uint32_t type;
    } rows[] = {{"string", WHIM_TYPE_STRING}, {"integer", WHIM_TYPE_NUMBER},
                {"number", WHIM_TYPE_NUMBER}, {"boolean", WHIM_TYPE_BOOLEAN},
                {"null", WHIM_TYPE_NULL},     {"object", WHIM_TYPE_OBJECT},
                {"array", WHIM_TYPE_ARRAY}};
    for (size_t i = 0; word != NULL && i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(word, rows[i].word) == 0) {
            return rows[i].type;
        }
    }
    return 0;
}

uint32_t whim_schema_type_of(const json_t *value)
{
    static const uint32_t types[] = {
        [JSON_OBJECT] = WHIM_TYPE_OBJECT, [JSON_ARRAY] = WHIM_TYPE_ARRAY,
        [JSON_STRING] = WHIM_TYPE_STRING, [JSON_INTEGER] = WHIM_TYPE_NUMBER,
        [JSON_REAL] = WHIM_TYPE_NUMBER,   [JSON_TRUE] = WHIM_TYPE_BOOLEAN,
        [JSON_FALSE] = WHIM_TYPE_BOOLEAN, [JSON_NULL] = WHIM_TYPE_NULL,
    };
    return types[json_typeof(value)];
}

static uint32_t of_schema(const json_t *root, const json_t *schema, int depth)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const json_t *type = json_object_get(schema, "type");
    uint32_t types = of_word(json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++) {
        types |= of_word(json_string_value(json_array_get(type, i)));
    }
    if (types != 0 || schema == NULL || depth == 0) {
        return types;
    }
    const json_t *ref = json_object_get(schema, "$ref");
    if (ref != NULL) {
        return of_schema(root, whim_schema_pointer(root, json_string_value(ref)), depth - 1);
    }
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        const json_t *list = json_object_get(schema, lists[k]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            uint32_t one = of_schema(root, json_array_get(list, i), depth - 1);
            if (one == 0 && k < 2) {
                return 0; /* one of the choices may be anything */
            }
            types |= one;
        }
    }
    const json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    types |= one == NULL ? 0 : whim_schema_type_of(one);
    for (size_t i = 0; i < json_array_size(list); i++) {
        types |= whim_schema_type_of(json_array_get(list, i));
    }
    return types;
}

const json_t *whim_schema_resolve(const json_t *root, const json_t *schema)
{
    for (int depth = 0; depth < MAX_DEPTH && json_object_get(schema, "$ref") != NULL; depth++) {
        schema = whim_schema_pointer(root, json_string_value(json_object_get(schema, "$ref")));
    }
    return schema;
}

const json_t *whim_tool_function(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *its = json_string_value(json_object_get(function, "name"));
        if (its != NULL && strcmp(its, name) == 0) {
            return function;
        }
    }
    return NULL;
}

uint32_t whim_schema_types(const json_t *root, const json_t *schema)
{
    return of_schema(root, schema, MAX_DEPTH);
}

uint32_t whim_tool_types(const json_t *tools, const char *name, const char *key)
{
    const json_t *schema = json_object_get(whim_tool_function(tools, name), "parameters");
    return whim_schema_types(schema, json_object_get(json_object_get(schema, "properties"), key));
}

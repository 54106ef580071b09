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

/* --- readings --------------------------------------------------------------------------------- */

/* What the parser reads as JSON where an argument may be more than a text, by type. Of lists and
 * objects it is all that begins as one. */
#define BLANKS "[ \\t\\r\\n]*"
static const struct {
    uint32_t type;
    const char *json, *pattern;
} readings[] = {
    {WHIM_TYPE_NUMBER, "number", BLANKS "-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?" BLANKS},
    {WHIM_TYPE_BOOLEAN, "boolean", BLANKS "(true|false)" BLANKS "|True|False"},
    {WHIM_TYPE_NULL, "null", BLANKS "null" BLANKS},
    {WHIM_TYPE_ARRAY, "array", BLANKS "\\[" BLANKS "([\"\\[{\\]0-9tfn-][\\s\\S]*)?"},
    {WHIM_TYPE_OBJECT, "object", BLANKS "\\{" BLANKS "([\"}][\\s\\S]*)?"},
};
enum {
    N_READING = sizeof readings / sizeof readings[0],
    GROUPS = WHIM_TYPE_ARRAY | WHIM_TYPE_OBJECT,
    NO_TEXT = GROUPS | WHIM_TYPE_NUMBER | WHIM_TYPE_BOOLEAN | WHIM_TYPE_NULL,
};

/* A text less what would be read as one of the types. */
static whim_grammar_node but_not_read_as(whim_answer *a, whim_grammar_node text, uint32_t types)
{
    for (int i = 0; i < N_READING; i++) {
        if ((types & readings[i].type) != 0) {
            text = whim_gb_pair(a->b, GN_BUT_NOT, text,
                                whim_grammar_regex(a->b, readings[i].pattern, "tools"));
        }
    }
    return text;
}

/* Any text without a tag that the parser ends a value at. */
static whim_grammar_node free_text(whim_answer *a)
{
    const whim_tool_words *words = a->rule->format.tools;
    const char *marks[WHIM_N_VALUE_END + 1];
    int32_t n = 0;
    for (int i = 0; i <= WHIM_N_VALUE_END; i++) {
        const char *mark = i < WHIM_N_VALUE_END ? words->value_ends[i] : words->text_open;
        if (mark != NULL) {
            marks[n++] = mark;
        }
    }
    a->free_text = a->free_text >= 0 ? a->free_text : whim_grammar_text_without(a->b, marks, n);
    return a->free_text;
}

/* What the schema allows of these types, as JSON. */
static whim_grammar_node json_of_types(whim_answer *a, const json_t *root, const json_t *property,
                                       uint32_t types, const char *path)
{
    json_t *list = json_array();
    for (int i = 0; i < N_READING; i++) {
        if ((types & readings[i].type) != 0) {
            json_array_append_new(list, json_string(readings[i].json));
        }
    }
    json_t *both = json_pack("{s:[O, {s:o}]}", "allOf", property, "type", list);
    whim_grammar_node node = whim_answer_json_value(a, root, both, path);
    json_decref(both);
    return node;
}

whim_grammar_node whim_answer_any_value(whim_answer *a, uint32_t types)
{
    types = types == 0 ? GROUPS : types & GROUPS;
    whim_grammar_node text = but_not_read_as(a, free_text(a), types);
    if (types == 0) {
        return text;
    }
    json_t *anything = json_true();
    return whim_gb_any_of(a->b, text, json_of_types(a, NULL, anything, types, "tools"));
}

/* --- texts ------------------------------------------------------------------------------------ */

static const char fixing[] = "const enum";

static bool holds_end(const whim_tool_words *words, const char *text)
{
    bool holds = words->text_open != NULL && strstr(text, words->text_open) != NULL;
    for (int i = 0; i < WHIM_N_VALUE_END; i++) {
        const char *end = words->value_ends[i];
        holds = holds || (end != NULL && strstr(text, end) != NULL);
    }
    return holds;
}

/* The texts that const or enum lists; -1 without a failure: none. */
static whim_grammar_node fixed_texts(whim_answer *a, const json_t *property, const char *path)
{
    const json_t *one = json_object_get(property, "const"),
                 *list = json_object_get(property, "enum");
    glist texts = {0};
    for (size_t i = 0; i < (one != NULL ? 1 : json_array_size(list)); i++) {
        const json_t *value = one != NULL ? one : json_array_get(list, i);
        if (!json_is_string(value)) {
            continue;
        }
        if (holds_end(a->rule->format.tools, json_string_value(value))) {
            (void)whim_gb_fail(a->b, WHIM_ERR_INVALID,
                               "%s lists a text with a tag of this model's arguments", path);
        }
        whim_glist_add(a->b, &texts,
                       whim_grammar_literal(a->b, json_string_value(value),
                                            (int64_t)json_string_length(value)));
    }
    return texts.n == 0 ? -1 : whim_glist_node(a->b, &texts, GN_ANY_OF);
}

static whim_grammar_node texts_of(whim_answer *a, const json_t *root, const json_t *property,
                                  const char *path, int depth);

/* The texts that one of several schemas allows; allOf may have one only, and oneOf one that speaks
 * of texts or several that list them. */
static whim_grammar_node chosen_texts(whim_answer *a, const json_t *root, const json_t *property,
                                      const char *list_key, const char *path, int depth)
{
    const json_t *list = json_object_get(property, list_key);
    const bool is_one = strcmp(list_key, "oneOf") == 0;
    bool bad = (strcmp(list_key, "allOf") == 0 && json_array_size(list) > 1) || depth == 0 ||
               whim_schema_holds_text(property) || any_key(property, fixing) != NULL;
    bool all_fixed = true;
    glist choices = {0};
    for (size_t i = 0; i < json_array_size(list) && !bad; i++) {
        char where[256];
        snprintf(where, sizeof where, "%.200s.%s[%zu]", path, list_key, i);
        const json_t *part = whim_schema_resolve(root, json_array_get(list, i));
        whim_grammar_node texts = texts_of(a, root, part, where, depth - 1);
        if (texts >= 0) {
            all_fixed = all_fixed && any_key(part, fixing) != NULL;
            whim_glist_add(a->b, &choices, texts);
            bad = is_one && choices.n > 1 && !all_fixed;
        }
    }
    whim_grammar_node node = choices.n == 0 ? -1 : whim_glist_node(a->b, &choices, GN_ANY_OF);
    return !bad ? node
                : whim_gb_fail(a->b, WHIM_ERR_INVALID,
                               "%s.%s is not supported for a text, so deep or beside other rules",
                               path, list_key);
}

/* The texts of a schema; -1 without a failure: none. */
static whim_grammar_node texts_of(whim_answer *a, const json_t *root, const json_t *property,
                                  const char *path, int depth)
{
    property = whim_schema_resolve(root, property);
    const uint32_t types = whim_schema_types(root, property);
    if (json_is_false(property) || (types != 0 && (types & WHIM_TYPE_STRING) == 0)) {
        return -1;
    }
    const char *key = any_key(property, "not if"), *list = any_key(property, "anyOf oneOf allOf");
    if (key != NULL) {
        return whim_gb_fail(a->b, WHIM_ERR_INVALID, "%s.%s is not supported for a text", path, key);
    }
    return list != NULL                        ? chosen_texts(a, root, property, list, path, depth)
           : any_key(property, fixing) != NULL ? fixed_texts(a, property, path)
           : whim_schema_holds_text(property)  ? whim_grammar_schema_text(a->b, property, path)
                                               : free_text(a);
}

/* --- values ----------------------------------------------------------------------------------- */

whim_grammar_node whim_answer_json_value(whim_answer *a, const json_t *root, const json_t *property,
                                         const char *path)
{
    json_t *schema = whim_answer_property(root, property);
    whim_grammar_node value = whim_grammar_schema(a->b, schema, path);
    json_decref(schema);
    return value;
}

static bool says_nothing(const json_t *property)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)property, key, value)
    {
        if (!whim_schema_is_note(key)) {
            return false;
        }
    }
    return true;
}

whim_grammar_node whim_answer_tag_value(whim_answer *a, const json_t *root, const json_t *property,
                                        const char *path)
{
    const uint32_t types = whim_schema_types(root, property);
    if (types != 0 && (types & WHIM_TYPE_STRING) == 0) {
        return whim_answer_json_value(a, root, property, path);
    }
    if (types == 0 && says_nothing(property)) {
        return whim_answer_any_value(a, 0);
    }
    const uint32_t others = types == 0 ? NO_TEXT : types & NO_TEXT;
    whim_grammar_node texts = texts_of(a, root, property, path, MAX_CHOICES_DEEP);
    texts = texts < 0 ? texts : but_not_read_as(a, texts, others);
    if (others == 0 && texts < 0) {
        return whim_gb_fail(a->b, WHIM_ERR_INVALID, "%s allows no value", path);
    }
    if (others == 0) {
        return texts;
    }
    whim_grammar_node json = json_of_types(a, root, property, others, path);
    return texts < 0 ? json : whim_gb_any_of(a->b, texts, json);
}

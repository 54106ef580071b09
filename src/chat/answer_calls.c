/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of calls: every tool's call in the spelling of the model's template, arguments by the
 * tool's schema. In the forms with tags a parameter that may be a string is free text up to its end
 * tag; others are JSON by their schema. */
#include "chat/answer_impl.h"
#include "chat/tool_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_strict(const json_t *function)
{
    return json_is_true(json_object_get(function, "strict"));
}

/* The schema with `type: object`, which the arguments have whether it says so or not; NULL: any
 * object. */
static json_t *object_schema(const json_t *function)
{
    const json_t *given = json_object_get(function, "parameters");
    if (json_object_size(given) == 0) {
        return NULL;
    }
    json_t *schema = json_copy((json_t *)given);
    if (json_object_get(schema, "type") == NULL && json_object_get(schema, "$ref") == NULL &&
        json_object_get(schema, "anyOf") == NULL) {
        json_object_set_new(schema, "type", json_string("object"));
    }
    return schema;
}

static whim_grammar_node hermes_call(whim_answer *a, const json_t *function, const char *path,
                                     bool loose)
{
    whim_answer_parts parts = {0};
    json_t *schema = loose ? NULL : object_schema(function);
    char *name = json_dumps(json_object_get(function, "name"), JSON_ENCODE_ANY);
    whim_answer_add(&parts, whim_answer_text(a, "<tool_call>\n{\"name\": "));
    whim_answer_add(&parts, whim_answer_text(a, name == NULL ? "" : name));
    whim_answer_add(&parts, whim_answer_text(a, ", \"arguments\": "));
    whim_answer_add(&parts, schema == NULL ? whim_grammar_json_object(a->b)
                                           : whim_grammar_schema(a->b, schema, path));
    whim_answer_add(&parts, whim_answer_text(a, "}\n</tool_call>"));
    a->failed = a->failed || name == NULL;
    free(name); /* made by the JSON library */
    json_decref(schema);
    return whim_answer_seq(a, &parts);
}

/* --- the forms with tags ---------------------------------------------------------------------- */

static bool is_required(const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        if (word != NULL && strcmp(word, key) == 0) {
            return true;
        }
    }
    return false;
}

/* Parameters of any name with any text. */
static whim_grammar_node loose_parameters(whim_answer *a, const whim_tool_words *words)
{
    whim_answer_parts parts = {0};
    whim_answer_add(&parts, whim_answer_text(a, words->written.key));
    whim_answer_add(&parts, whim_grammar_regex(a->b, "[A-Za-z0-9_.-]{1,64}", "tools"));
    whim_answer_add(&parts, whim_answer_text(a, words->written.key_close));
    whim_answer_add(&parts, whim_grammar_until(a->b, words->written.value_end));
    whim_answer_add(&parts, whim_answer_text(a, words->written.after));
    return whim_grammar_repeat(a->b, whim_answer_seq(a, &parts), 0, -1);
}

static whim_grammar_node tag_call(whim_answer *a, const whim_tool_words *words,
                                  const json_t *function, const char *path, bool loose)
{
    whim_answer_parts parts = {0};
    const char *name = json_string_value(json_object_get(function, "name")), *key;
    const json_t *schema = json_object_get(function, "parameters");
    const json_t *properties = json_object_get(schema, "properties");
    json_t *property;
    whim_answer_add(&parts, whim_answer_text(a, words->written.function));
    whim_answer_add(&parts, whim_answer_text(a, name));
    whim_answer_add(&parts, whim_answer_text(a, words->written.function_close));
    if (!loose) {
        whim_answer_check_root(a, schema, path);
    }
    if (loose || (json_object_size(properties) == 0 &&
                  !json_is_false(json_object_get(schema, "additionalProperties")))) {
        whim_answer_add(&parts, loose_parameters(a, words));
    } else {
        json_object_foreach((json_t *)properties, key, property)
        {
            whim_answer_parts one = {0};
            char where[256];
            snprintf(where, sizeof where, "%s.properties.%.80s", path, key);
            whim_answer_add(&one, whim_answer_text(a, words->written.key));
            whim_answer_add(&one, whim_answer_text(a, key));
            whim_answer_add(&one, whim_answer_text(a, words->written.key_close));
            whim_answer_add(
                &one, whim_answer_tag_value(a, words->written.value_end, schema, property, where));
            whim_answer_add(&one, whim_answer_text(a, words->written.after));
            whim_grammar_node node = whim_answer_seq(a, &one);
            whim_answer_add(
                &parts, is_required(schema, key) ? node : whim_grammar_repeat(a->b, node, 0, 1));
        }
    }
    whim_answer_add(&parts, whim_answer_text(a, words->written.function_end));
    return whim_answer_seq(a, &parts);
}

/* --- all tools -------------------------------------------------------------------------------- */

static whim_grammar_node one_of_the_tools(whim_answer *a, bool strict_only)
{
    const whim_answer_rule *rule = a->rule;
    whim_answer_parts calls = {0};
    for (size_t i = 0; i < json_array_size(rule->tools); i++) {
        const json_t *function = json_object_get(json_array_get(rule->tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        char path[96];
        if (name == NULL || (rule->tool_name != NULL && strcmp(name, rule->tool_name) != 0)) {
            continue;
        }
        bool loose = strict_only && !is_strict(function);
        snprintf(path, sizeof path, "tools[%zu].%s",
                 rule->tool_at == NULL ? i : (size_t)rule->tool_at[i], rule->tool_schema);
        whim_answer_add(
            &calls, rule->format.tools == WHIM_TOOLS_HERMES
                        ? hermes_call(a, function, path, loose)
                        : tag_call(a, whim_tool_tags(rule->format.tools), function, path, loose));
    }
    return whim_answer_any(a, &calls);
}

/* A part, then more of it with something in between. */
static whim_grammar_node row_of(whim_answer *a, whim_grammar_node part, const char *between)
{
    if (a->rule->one_call || a->rule->tool_name != NULL) {
        return part;
    }
    whim_answer_parts next = {0}, row = {0};
    whim_answer_add(&next, whim_answer_text(a, between));
    whim_answer_add(&next, part);
    whim_answer_add(&row, part);
    whim_answer_add(&row, whim_grammar_repeat(a->b, whim_answer_seq(a, &next), 0, -1));
    return whim_answer_seq(a, &row);
}

whim_grammar_node whim_answer_calls(whim_answer *a, bool strict_only)
{
    whim_grammar_node call = one_of_the_tools(a, strict_only);
    if (a->rule->format.tools == WHIM_TOOLS_HERMES) {
        return row_of(a, call, "\n");
    }
    const whim_tool_words *words = whim_tool_tags(a->rule->format.tools);
    bool all = words->written.around_all;
    whim_answer_parts parts = {0};
    whim_answer_add(&parts, whim_answer_text(a, words->written.call));
    whim_answer_add(&parts, all ? row_of(a, call, "") : call);
    whim_answer_add(&parts, whim_answer_text(a, words->written.call_end));
    whim_grammar_node whole = whim_answer_seq(a, &parts);
    return all ? whole : row_of(a, whole, "\n");
}

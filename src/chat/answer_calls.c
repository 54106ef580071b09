/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of calls: every tool's call in the spelling of the model's template, arguments by the
 * tool's schema. Between tags an argument that may be a string is free text up to its end tag;
 * others are JSON by their schema. */
#include "base/alloc.h"
#include "base/json.h"
#include "chat/answer_impl.h"
#include "chat/tools/parser.h"

#include <stdio.h>
#include <string.h>

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

/* Whether the parser finds the end of a name, and Python would take it for one. */
static bool is_python_word(const char *word)
{
    return strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.-") ==
               strlen(word) &&
           word[0] != '\0' && strchr("0123456789.-", word[0]) == NULL &&
           strlen(word) <= WHIM_WORD_MAX;
}

/* The name, in quotes where the call is an object. */
static whim_grammar_node call_name(whim_answer *a, const whim_tool_words *words,
                                   const json_t *function)
{
    const json_t *name = json_object_get(function, "name");
    const char *text = json_string_value(name);
    size_t n = json_string_length(name);
    if (words->form != WHIM_TOOLS_OBJECT) {
        bool has_id = words->call_id != NULL && strstr(text, words->call_id) != NULL;
        if (words->form == WHIM_TOOLS_PYTHON && !is_python_word(text)) {
            return whim_gb_fail(
                a->b, WHIM_ERR_INVALID,
                "a tool is called \"%.80s\": this model's calls are Python, where a "
                "name has letters, digits and _ only, and at most %d bytes",
                text, WHIM_WORD_MAX);
        }
        const bool is_said = words->said != NULL && strcmp(text, words->said) == 0;
        bool good = !has_id && !is_said && n > 0 && n <= WHIM_WORD_MAX &&
                    strcspn(text, "\n<>[]{}\"'") == n && text[0] != ' ' && text[n - 1] != ' ';
        return good ? whim_answer_text(a, text)
                    : whim_gb_fail(a->b, WHIM_ERR_INVALID,
                                   "a tool is called \"%.80s\": between the tags of this model's "
                                   "calls a name has no brackets, quotes, line ends and outer "
                                   "spaces, and at most %d bytes",
                                   text, WHIM_WORD_MAX);
    }
    whim_str quoted = {0};
    whim_json_write(&quoted, name);
    whim_grammar_node node =
        quoted.failed ? whim_gb_no_memory(a->b) : whim_answer_text(a, whim_str_text(&quoted));
    whim_str_deinit(&quoted);
    return node;
}

static whim_grammar_node json_arguments(whim_answer *a, const json_t *function, const char *path,
                                        bool loose)
{
    json_t *schema = loose ? NULL : object_schema(function);
    whim_grammar_node arguments =
        schema == NULL ? whim_grammar_json_object(a->b) : whim_grammar_schema(a->b, schema, path);
    json_decref(schema);
    return arguments;
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

/* A parameter: its name, its value and the tags around them. */
static whim_grammar_node parameter(whim_answer *a, const whim_tool_words *words,
                                   whim_grammar_node name, const char *close,
                                   whim_grammar_node value)
{
    return whim_gb_seq(
        a->b, whim_answer_text(a, words->written.key), name, whim_answer_text(a, close), value,
        whim_answer_text(a, words->written.value_end), whim_answer_text(a, words->written.after));
}

/* Whether the parser finds the end of a key. */
static bool is_tag_key(const char *key)
{
    const size_t n = strlen(key);
    return n > 0 && n <= WHIM_WORD_MAX && strcspn(key, "\n<>\"'") == n;
}

/* A parameter of this name with any value. */
static whim_grammar_node loose_parameter(whim_answer *a, const whim_tool_words *words,
                                         whim_grammar_node name, uint32_t types)
{
    if (words->written.json_close == NULL) {
        return parameter(a, words, name, words->written.key_close, whim_answer_any_value(a, types));
    }
    return whim_gb_any_of(a->b,
                          parameter(a, words, name, words->written.key_close,
                                    whim_answer_any_value(a, WHIM_TYPE_STRING)),
                          parameter(a, words, name, words->written.json_close,
                                    whim_answer_json_value(a, NULL, json_true(), "tools")));
}

/* Parameters of any name with any value; those that the schema lists are read by their types. */
static whim_grammar_node loose_parameters(whim_answer *a, const whim_tool_words *words,
                                          const json_t *schema)
{
    glist keys = {0}, all = {0};
    const char *key;
    json_t *property;
    json_object_foreach(json_object_get(schema, "properties"), key, property)
    {
        if (is_tag_key(key)) {
            whim_grammar_node name = whim_answer_text(a, key);
            whim_glist_add(a->b, &keys, name);
            whim_glist_add(a->b, &all,
                           loose_parameter(a, words, name, whim_schema_types(schema, property)));
        }
    }
    whim_grammar_node other = whim_grammar_regex(a->b, "[A-Za-z0-9_.-]{1,64}", "tools");
    if (keys.n > 0) {
        other = whim_gb_pair(a->b, GN_BUT_NOT, other, whim_glist_node(a->b, &keys, GN_ANY_OF));
    }
    whim_glist_add(a->b, &all, loose_parameter(a, words, other, 0));
    return whim_grammar_repeat(a->b, whim_glist_node(a->b, &all, GN_ANY_OF), 0, -1);
}

static whim_grammar_node listed_parameters(whim_answer *a, const whim_tool_words *words,
                                           const json_t *schema, const char *path)
{
    glist all = {0};
    const char *key;
    json_t *property;
    json_object_foreach(json_object_get(schema, "properties"), key, property)
    {
        char where[256];
        snprintf(where, sizeof where, "%s.properties.%.80s", path, key);
        if (!is_tag_key(key)) {
            (void)whim_gb_fail(a->b, WHIM_ERR_INVALID,
                               "%s: between the tags of this model's calls a name has no brackets, "
                               "quotes and line ends, and at most %d bytes",
                               where, WHIM_WORD_MAX);
        }
        /* What may be something else than a text is JSON where the tag says so. */
        const bool json = words->written.json_close != NULL &&
                          whim_schema_types(schema, property) != WHIM_TYPE_STRING;
        whim_grammar_node value = json ? whim_answer_json_value(a, schema, property, where)
                                       : whim_answer_tag_value(a, schema, property, where);
        whim_grammar_node one =
            parameter(a, words, whim_answer_text(a, key),
                      json ? words->written.json_close : words->written.key_close, value);
        whim_glist_add(a->b, &all, is_required(schema, key) ? one : whim_gb_optional(a->b, one));
    }
    return whim_glist_node(a->b, &all, GN_SEQ);
}

static whim_grammar_node tag_arguments(whim_answer *a, const whim_tool_words *words,
                                       const json_t *function, const char *path, bool loose)
{
    const json_t *schema = json_object_get(function, "parameters");
    if (!loose) {
        whim_answer_check_root(a, schema, path);
    }
    loose = loose || (json_object_size(json_object_get(schema, "properties")) == 0 &&
                      !json_is_false(json_object_get(schema, "additionalProperties")));
    return loose ? loose_parameters(a, words, schema) : listed_parameters(a, words, schema, path);
}

/* --- a list in Python ------------------------------------------------------------------------- */

/* Values are JSON: the parser takes true, false and null as well. */
static whim_grammar_node python_arguments(whim_answer *a, const json_t *function, const char *path,
                                          bool loose)
{
    const json_t *schema = json_object_get(function, "parameters"), *more;
    const json_t *properties = json_object_get(schema, "properties");
    const char *key;
    json_t *property;
    glist members = {0};
    if (!loose) {
        whim_answer_check_root(a, schema, path);
    }
    more = json_object_get(schema, "additionalProperties");
    if (loose || (json_object_size(properties) == 0 && !json_is_false(more))) {
        whim_grammar_node any = whim_grammar_regex(a->b, "[A-Za-z_][A-Za-z0-9_]{0,63}=", "tools");
        int32_t member[] = {any, whim_answer_json_value(a, NULL, json_true(), "tools"),
                            GM_REPEATED};
        return whim_gb_members(a->b, member, 1, false);
    }
    json_object_foreach((json_t *)properties, key, property)
    {
        char where[256];
        snprintf(where, sizeof where, "%s.properties.%.80s", path, key);
        if (!is_python_word(key)) {
            (void)whim_gb_fail(
                a->b, WHIM_ERR_INVALID,
                "%s: this model's calls are Python, where a name has letters, digits "
                "and _ only, and at most %d bytes",
                where, WHIM_WORD_MAX);
        }
        whim_glist_add(a->b, &members,
                       whim_gb_seq(a->b, whim_answer_text(a, key), whim_answer_text(a, "=")));
        whim_glist_add(a->b, &members, whim_answer_json_value(a, schema, property, where));
        whim_glist_add(a->b, &members, is_required(schema, key) ? GM_REQUIRED : GM_OPTIONAL);
    }
    whim_grammar_node all = members.n > 0 ? whim_gb_members(a->b, members.ids, members.n / 3, false)
                                          : whim_answer_text(a, "");
    whim_free(members.ids);
    return all;
}

/* --- all tools -------------------------------------------------------------------------------- */

static whim_grammar_node one_of_the_tools(whim_answer *a, bool strict_only, bool named)
{
    const whim_answer_rule *rule = a->rule;
    const whim_tool_words *words = rule->format.tools;
    glist calls = {0};
    for (size_t i = 0; i < json_array_size(rule->tools); i++) {
        const json_t *function = json_object_get(json_array_get(rule->tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        char path[96];
        if (name == NULL || (rule->tool_name != NULL && strcmp(name, rule->tool_name) != 0)) {
            continue;
        }
        bool loose = strict_only && !json_is_true(json_object_get(function, "strict"));
        snprintf(path, sizeof path, "tools[%zu].%s",
                 rule->tool_at == NULL ? i : (size_t)rule->tool_at[i], rule->tool_schema);
        const json_t *schema = loose ? NULL : json_object_get(function, "parameters");
        whim_grammar_node arguments =
            words->form == WHIM_TOOLS_TAGGED   ? tag_arguments(a, words, function, path, loose)
            : words->form == WHIM_TOOLS_PYTHON ? python_arguments(a, function, path, loose)
            : words->quote != NULL             ? whim_answer_marked_object(a, schema, path)
                                               : json_arguments(a, function, path, loose);
        whim_glist_add(a->b, &calls,
                       whim_gb_seq(a->b, whim_answer_text(a, named ? "" : words->written.function),
                                   call_name(a, words, function),
                                   whim_answer_text(a, words->written.function_close), arguments,
                                   whim_answer_text(a, words->written.function_end)));
    }
    return whim_glist_node(a->b, &calls, GN_ANY_OF);
}

/* A part, then more of others with something in between. */
static whim_grammar_node row_of(whim_answer *a, whim_grammar_node part, whim_grammar_node other,
                                const char *between)
{
    const bool alone =
        a->rule->format.tools->form == WHIM_TOOLS_CHANNELS; /* a call ends an answer */
    if (alone || a->rule->one_call || a->rule->format.one_call || a->rule->tool_name != NULL) {
        return part;
    }
    whim_grammar_node next = whim_gb_seq(a->b, whim_answer_text(a, between), other);
    return whim_gb_seq(a->b, part, whim_grammar_repeat(a->b, next, 0, -1));
}

whim_grammar_node whim_answer_calls(whim_answer *a, bool strict_only, bool named)
{
    const whim_tool_words *words = a->rule->format.tools;
    const bool all = words->written.around_all;
    const whim_grammar_node call = one_of_the_tools(a, strict_only, named);
    const whim_grammar_node other = named ? one_of_the_tools(a, strict_only, false) : call;
    whim_grammar_node whole =
        whim_gb_seq(a->b, whim_answer_text(a, words->written.call),
                    all ? row_of(a, call, other, words->written.between) : call,
                    whim_answer_text(a, words->written.call_end));
    return all ? whole : row_of(a, whole, whole, words->written.between);
}

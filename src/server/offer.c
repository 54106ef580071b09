/* SPDX-License-Identifier: Apache-2.0 */
/* Which tools a model is offered, and whether it must call one. */
#include "server/offer.h"

#include <stdio.h>

/* A new reference; NULL without memory. */
static json_t *schema_of(json_t *schema)
{
    if (schema == NULL) {
        return json_pack("{s:s, s:{}}", "type", "object", "properties");
    }
    if (whim_peek(schema, "type") != NULL) {
        return json_incref(schema);
    }
    json_t *typed = json_pack("{s:s}", "type", "object"), *value;
    const char *key;
    json_object_foreach(schema, key, value)
    {
        if (json_object_set(typed, key, value) != 0) {
            json_decref(typed);
            return NULL;
        }
    }
    return typed;
}

/* What stands between a group and the name of a tool in it, for the model: names of functions have
 * no points. */
static const char joint[] = "__";

json_t *whim_offer_name(const json_t *group, json_t *name)
{
    return group == NULL
               ? json_incref(name)
               : json_pack("s++", json_string_value(group), joint, json_string_value(name));
}

static bool check_name(const whim_fields *f)
{
    const char *text = NULL;
    if (!whim_field_string(f, "name", &text)) {
        return false;
    }
    return (text != NULL && text[0] != '\0') ||
           whim_field_refuse(f, "name", "must be a string that is not empty");
}

/* The schema of a single argument, "input", which says what form the text must have. */
static json_t *text_schema(const whim_fields *f)
{
    const json_t *format = whim_field(f, "format");
    const char *syntax = json_string_value(whim_peek(format, "syntax"));
    const char *definition = json_string_value(whim_peek(format, "definition"));
    json_t *about = definition == NULL
                        ? json_string("The whole input, as plain text.")
                        : json_sprintf("The whole input, as plain text in the form of this grammar "
                                       "(%s):\n%s",
                                       syntax == NULL ? "lark" : syntax, definition);
    return json_pack("{s:s, s:{s:{s:s, s:o}}, s:[s]}", "type", "object", "properties", "input",
                     "type", "string", "description", about, "required", "input");
}

static bool add_text_tool(const whim_fields *f, json_t *tools)
{
    if (!check_name(f) || !whim_task_check_tool(f)) {
        return false;
    }
    json_t *tool = json_pack("{s:s, s:{s:O, s:O*, s:o}}", "type", "function", "function", "name",
                             whim_field(f, "name"), "description", whim_field(f, "description"),
                             "parameters", text_schema(f));
    return json_array_append_new(tools, tool) == 0 || whim_fault_no_memory(f->fault);
}

static bool add_tool(const whim_fields *f, const char *schema_key, const json_t *group,
                     json_t *tools)
{
    json_t *name = whim_field(f, "name"), *description = whim_field(f, "description");
    json_t *strict = whim_field(f, "strict"), *schema = NULL;
    if (!check_name(f) || !whim_task_check_tool(f) || !whim_field_object(f, schema_key, &schema)) {
        return false;
    }
    /* "O*" leaves a missing value out; the order of the keys is that of the prompt. */
    json_t *tool = json_pack("{s:s, s:{s:o, s:O*, s:o, s:O*}}", "type", "function", "function",
                             "name", whim_offer_name(group, name), "description", description,
                             "parameters", schema_of(schema), "strict", strict);
    return json_array_append_new(tools, tool) == 0 || whim_fault_no_memory(f->fault);
}

/* For the log: what a client may write there is plain and short. */
static const char *type_for_log(const char *type)
{
    size_t n = strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return n <= 64 && type[n] == '\0' ? type : "?";
}

static bool read_list(const whim_fields *f, json_t **list)
{
    return whim_field_array(f, "tools", list) &&
           (json_array_size(*list) <= WHIM_MAX_TOOLS ||
            whim_field_refuse(f, "tools", "must be a list of at most %d tools", WHIM_MAX_TOOLS));
}

/* What `convert` works with. */
typedef struct offer_run {
    const whim_offer_form *form;
    json_t *tools;    /* so far */
    int32_t *tool_at; /* [WHIM_MAX_TOOLS] */
    whim_str *left_out;
} offer_run;

/* Entry `at` of the request's list, or the entry of a group that is. */
static bool convert_one(const whim_fields *f, const json_t *group, int32_t at, offer_run *run)
{
    const json_t *type = whim_peek(f->obj, "type");
    if (!json_is_string(type) && (type != NULL || !run->form->type_optional)) {
        return whim_field_refuse(f, "type", "must be a string");
    }
    bool is_text =
        group == NULL && run->form->text_type != NULL && whim_peek_is(type, run->form->text_type);
    if (type != NULL && !is_text && !whim_peek_is(type, run->form->type)) {
        whim_str_printf(run->left_out, "%s%s", run->left_out->len > 0 ? "," : "",
                        type_for_log(json_string_value(type)));
        return true;
    }
    size_t n = json_array_size(run->tools);
    if (n == WHIM_MAX_TOOLS) {
        return whim_fault_set(f->fault, WHIM_FAULT_BAD_VALUE, "tools",
                              "\"tools\" must be a list of at most %d tools", WHIM_MAX_TOOLS);
    }
    run->tool_at[n] = at;
    return is_text ? add_text_tool(f, run->tools)
                   : add_tool(f, run->form->schema_key, group, run->tools);
}

static bool convert_group(const whim_fields *f, int32_t at, offer_run *run)
{
    json_t *inside = NULL;
    if (!check_name(f) || !read_list(f, &inside)) {
        return false;
    }
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(inside); i++) {
        whim_fields in = whim_field_item(f, "tools", inside, i);
        ok = convert_one(&in, whim_field(f, "name"), at, run);
    }
    return ok;
}

static bool convert(const whim_fields *f, const json_t *list, offer_run *run)
{
    const char *group = run->form->group;
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        whim_fields at = whim_field_item(f, "tools", list, i);
        ok = group != NULL && whim_peek_is(whim_peek(at.obj, "type"), group)
                 ? convert_group(&at, (int32_t)i, run)
                 : convert_one(&at, NULL, (int32_t)i, run);
    }
    return ok;
}

bool whim_offer_read(const whim_fields *f, const whim_offer_form *form, whim_task *task)
{
    json_t *list = NULL;
    if (!read_list(f, &list)) {
        return false;
    }
    offer_run run = {.form = form, .tools = json_array(), .left_out = &task->left_out};
    task->tool_schema = form->schema_key;
    task->tool_at = whim_arena_alloc_array(&task->arena, WHIM_MAX_TOOLS, sizeof *task->tool_at);
    run.tool_at = task->tool_at;
    bool ok = run.tools != NULL && run.tool_at != NULL
                  ? convert(f, list, &run) && whim_task_set_tools(f, "tools", run.tools, task)
                  : whim_fault_no_memory(f->fault);
    json_decref(run.tools);
    task->choice = task->tools == NULL ? WHIM_CHOICE_NONE : WHIM_CHOICE_AUTO;
    return ok;
}

static bool has_named(const json_t *list, const char *type, const char *name)
{
    bool found = false;
    for (size_t i = 0; !found && i < json_array_size(list); i++) {
        const json_t *tool = json_array_get(list, i);
        found = whim_peek_is(whim_peek(tool, "type"), type) &&
                whim_peek_is(whim_peek(tool, "name"), name);
    }
    return found;
}

bool whim_offer_takes_text(const whim_offer_form *form, const json_t *list, const char *name)
{
    return form->text_type != NULL && has_named(list, form->text_type, name) &&
           !has_named(list, form->type, name);
}

json_t *whim_offer_text(const char *arguments, int64_t n)
{
    int64_t left = WHIM_JSON_VALUES;
    const whim_json_limits limits = {
        .max_bytes = INT64_MAX, .max_depth = WHIM_JSON_DEPTH, .values_left = &left};
    json_t *object;
    if (whim_json_read(&object, arguments, n, limits, NULL) != WHIM_ERR_OK) {
        return NULL;
    }
    json_t *input = whim_peek(object, "input");
    json_t *text = json_is_string(input) ? json_incref(input) : NULL;
    json_decref(object);
    return text;
}

const char *whim_offer_group_of(const whim_offer_form *form, const json_t *list, const char *name)
{
    if (has_named(list, form->type, name)) {
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *tool = json_array_get(list, i);
        const char *group = json_string_value(whim_peek(tool, "name"));
        size_t n = group == NULL ? 0 : strlen(group);
        if (whim_peek_is(whim_peek(tool, "type"), form->group) && strncmp(name, group, n) == 0 &&
            strncmp(name + n, joint, strlen(joint)) == 0 &&
            has_named(whim_peek(tool, "tools"), form->type, name + n + strlen(joint))) {
            return group;
        }
    }
    return NULL;
}

bool whim_offer_need_call(const whim_fields *f, whim_task *task)
{
    task->choice = WHIM_CHOICE_REQUIRED;
    return task->tools != NULL ||
           whim_fault_set(f->fault, WHIM_FAULT_BAD_VALUE, "tool_choice",
                          "\"tool_choice\" asks for a call, but \"tools\" has none that can be "
                          "offered");
}

bool whim_offer_need_named_call(const whim_fields *f, whim_task *task)
{
    const char *name = NULL;
    if (!whim_offer_need_call(f, task) || !whim_field_string(f, "name", &name)) {
        return false;
    }
    if (name == NULL || !whim_library_has_tool(task->tools, name)) {
        return whim_field_refuse(f, "name", "must be the name of one of \"tools\"");
    }
    task->ask.tool_name = name;
    return true;
}

static const char *allowed_name(const json_t *item)
{
    const char *nested = whim_peek_function_name(item);
    return nested != NULL ? nested : json_string_value(whim_peek(item, "name"));
}

static bool is_allowed(const json_t *list, const json_t *tool)
{
    const char *name = whim_peek_function_name(tool);
    bool found = false;
    for (size_t i = 0; !found && i < json_array_size(list); i++) {
        found = strcmp(allowed_name(json_array_get(list, i)), name) == 0;
    }
    return found;
}

bool whim_offer_keep(const whim_fields *f, const int32_t *places, int32_t n, whim_task *task)
{
    json_t *kept = json_array();
    int32_t *kept_at = whim_arena_alloc_array(&task->arena, n, sizeof *kept_at);
    bool ok = kept != NULL && kept_at != NULL;
    for (int32_t i = 0; ok && i < n; i++) {
        kept_at[i] = task->tool_at == NULL ? places[i] : task->tool_at[places[i]];
        ok = json_array_append(kept, json_array_get(task->tools, (size_t)places[i])) == 0;
    }
    if (!ok) {
        json_decref(kept);
        return whim_fault_no_memory(f->fault);
    }
    task->tool_at = kept_at;
    json_decref(task->tools);
    task->tools = n == 0 ? NULL : json_incref(kept);
    task->choice = n == 0 ? WHIM_CHOICE_NONE : task->choice;
    json_decref(kept);
    return true;
}

/* Leave only the tools of the list, whose names are known. */
static bool keep_allowed(const whim_fields *f, const json_t *list, whim_task *task)
{
    int32_t places[WHIM_MAX_TOOLS], n = 0;
    for (size_t i = 0; i < json_array_size(task->tools); i++) {
        if (is_allowed(list, json_array_get(task->tools, i))) {
            places[n++] = (int32_t)i;
        }
    }
    return whim_offer_keep(f, places, n, task);
}

bool whim_offer_read_allowed(const whim_fields *f, whim_task *task)
{
    const json_t *mode = whim_field(f, "mode"), *list = whim_field(f, "tools");
    size_t n = json_array_size(list);
    bool required = whim_peek_is(mode, "required");
    if (!required && !whim_peek_is(mode, "auto")) {
        return whim_field_refuse(f, "mode", "must be \"auto\" or \"required\"");
    }
    if (n == 0 || n > WHIM_MAX_TOOLS) {
        return whim_field_refuse(f, "tools", "must be a list of 1 to %d tools", WHIM_MAX_TOOLS);
    }
    for (size_t i = 0; i < n; i++) {
        const char *name = allowed_name(json_array_get(list, i));
        if (name == NULL || !whim_library_has_tool(task->tools, name)) {
            return whim_field_refuse(f, "tools",
                                     "must name tools of \"tools\"; entry %zu names \"%.100s\"", i,
                                     name == NULL ? "" : name);
        }
    }
    task->choice = required ? WHIM_CHOICE_REQUIRED : WHIM_CHOICE_AUTO;
    return keep_allowed(f, list, task);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of OpenAI requests: what the answer must look like, tools, and the chat request as a
 * whole. */
#include "server/openai/openai.h"

#include "server/offer.h"

#include <inttypes.h>

/* {"schema": ..} in a field, under OpenAI's name or that of text-generation-inference. */
static bool read_named_schema(const whim_fields *f, const char *key, whim_task *task)
{
    whim_fields in;
    const char *text = NULL; /* checked only: the answer does not depend on them */
    bool strict = false;
    if (!whim_field_inside(f, key, &in) || !whim_field_string(&in, "name", &text) ||
        !whim_field_string(&in, "description", &text) || !whim_field_bool(&in, "strict", &strict) ||
        !whim_field_object(&in, "schema", &task->schema)) {
        return false;
    }
    return task->schema != NULL || whim_field_refuse(&in, "schema", "is missing");
}

/* The schema wherever clients put it: {"json_schema": {"schema": ..}}, {"schema": ..}, or
 * text-generation-inference's {"value": ..}, which holds a named one where the type says so. Any of
 * them holds with any type, so that none is dropped; `needed`: one must be there. */
static bool read_schema(const whim_fields *f, bool is_named, bool needed, whim_task *task)
{
    static const char *const keys[] = {"json_schema", "schema", "value"};
    static const char *const at[] = {"response_format.json_schema.schema", "response_format.schema",
                                     "response_format.value", "response_format.value.schema"};
    int found = -1;
    for (int i = 0; i < 3; i++) {
        if (whim_field(f, keys[i]) == NULL) {
            continue;
        }
        if (found >= 0) {
            return whim_field_refuse(f, keys[i], "cannot be given beside \"%s%s\"", f->prefix,
                                     keys[found]);
        }
        found = i;
    }
    if (found < 0) {
        task->ask.json_object = !needed;
        return !needed || (is_named ? read_named_schema(f, "json_schema", task)
                                    : whim_field_refuse(f, "value", "is missing"));
    }
    bool inside = found == 0 || (found == 2 && is_named);
    task->schema_at = at[found + (found == 2 && is_named)];
    return inside ? read_named_schema(f, keys[found], task)
                  : whim_field_object(f, keys[found], &task->schema);
}

static bool read_regex(const whim_fields *f, whim_task *task)
{
    task->form_at = "response_format.value";
    return whim_field_string(f, "value", &task->ask.regex) &&
           (task->ask.regex != NULL || whim_field_refuse(f, "value", "is missing"));
}

bool whim_openai_read_format(const whim_fields *f, whim_task *task)
{
    whim_fields in;
    if (!whim_field_inside(f, "response_format", &in)) {
        return false;
    }
    const json_t *type = whim_field(&in, "type");
    if (in.obj == NULL || whim_peek_is(type, "text")) {
        return true;
    }
    bool is_object = whim_peek_is(type, "json_object"), is_regex = whim_peek_is(type, "regex");
    bool is_named = whim_peek_is(type, "json_schema");
    if (!is_object && !is_named && !is_regex && !whim_peek_is(type, "json")) {
        return whim_field_refuse(&in, "type",
                                 "must be text, json_object, json_schema, json or regex");
    }
    if (!whim_task_one_form(f, "response_format", task)) {
        return false;
    }
    return is_regex ? read_regex(&in, task) : read_schema(&in, is_named, !is_object, task);
}

static bool read_stream_options(const whim_fields *f, whim_task *task)
{
    whim_fields in;
    bool include = false, continuous = false;
    if (!whim_field_inside(f, "stream_options", &in) ||
        !whim_field_bool(&in, "include_usage", &include) ||
        !whim_field_bool(&in, "continuous_usage_stats", &continuous)) {
        return false;
    }
    if (!task->stream && json_object_size(in.obj) > 0) {
        return whim_field_refuse(f, "stream_options", "is only allowed with \"stream\": true");
    }
    task->include_usage = include;
    task->continuous_usage = include && continuous;
    return true;
}

bool whim_openai_read_shared(const whim_fields *f, whim_task *task)
{
    int64_t n = 1;
    if (!whim_field_int(f, "n", 1, WHIM_MAX_CHOICES, &n) ||
        !whim_field_bool(f, "return_progress", &task->ask.prompt_progress) ||
        !whim_task_read_stops(f, "stop", task) || !read_stream_options(f, task) ||
        !whim_openai_read_format(f, task)) {
        return false;
    }
    task->ask.n_choice = (int32_t)n;
    return true;
}

/* --- tools ------------------------------------------------------------------------------------ */

static bool read_tool_choice(const whim_fields *f, whim_task *task)
{
    const json_t *choice = whim_field(f, "tool_choice");
    const char *name = whim_peek_function_name(choice);
    task->choice = task->tools == NULL ? WHIM_CHOICE_NONE : WHIM_CHOICE_AUTO;
    if (choice == NULL || whim_peek_is(choice, "auto")) {
        return true;
    }
    if (whim_peek_is(choice, "none")) {
        task->choice = WHIM_CHOICE_NONE;
        return true;
    }
    bool required = whim_peek_is(choice, "required");
    bool named = whim_peek_is(json_object_get(choice, "type"), "function") && name != NULL;
    bool allowed = whim_peek_is(json_object_get(choice, "type"), "allowed_tools");
    if (!required && !named && !allowed) {
        return whim_field_refuse(f, "tool_choice",
                                 "must be none, auto, required, a function with a name, or "
                                 "allowed_tools");
    }
    if (task->tools == NULL) {
        return whim_field_refuse(f, "tool_choice", "asks for a tool, but there are no tools");
    }
    if (allowed) {
        whim_fields in = {whim_peek(choice, "allowed_tools"), "tool_choice.allowed_tools.",
                          f->fault};
        return whim_offer_read_allowed(&in, task);
    }
    if (named && !whim_library_has_tool(task->tools, name)) {
        return whim_field_refuse(f, "tool_choice",
                                 "names the tool \"%.100s\", which is not in tools", name);
    }
    task->choice = WHIM_CHOICE_REQUIRED;
    task->ask.tool_name = name;
    return true;
}

static bool read_tools(const whim_fields *f, whim_task *task)
{
    json_t *tools = NULL;
    bool parallel = true;
    if (!whim_field_array(f, "tools", &tools) ||
        (tools != NULL && !whim_task_set_tools(f, "tools", tools, task)) ||
        !read_tool_choice(f, task) || !whim_field_bool(f, "parallel_tool_calls", &parallel)) {
        return false;
    }
    task->ask.one_call = !parallel;
    return true;
}

/* --- chat ------------------------------------------------------------------------------------- */

static bool refuse_old(const whim_fields *f)
{
    static const struct {
        const char *key, *why;
    } old[] = {
        {"functions", "is not supported; use tools"},
        {"function_call", "is not supported; use tool_choice"},
        {"audio", "is not supported: this server reads and writes text only"},
        {"web_search_options", "is not supported: this server does not search the web"},
    };
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++) {
        if (whim_field(f, old[i].key) != NULL) {
            return whim_field_refuse(f, old[i].key, "%s", old[i].why);
        }
    }
    json_t *modalities = NULL, *item;
    size_t i;
    if (!whim_field_array(f, "modalities", &modalities)) {
        return false;
    }
    json_array_foreach(modalities, i, item)
    {
        if (!whim_peek_is(item, "text")) {
            return whim_field_refuse(f, "modalities", "may hold only \"text\"");
        }
    }
    return true;
}

static bool read_limit(const whim_fields *f, whim_task *task)
{
    static const char *const keys[] = {"max_completion_tokens", "max_tokens"};
    bool is_said = false; /* the first that is there counts */
    for (int i = 0; i < 2; i++) {
        int64_t limit = 0;
        if (!whim_field_int(f, keys[i], INT64_MIN, INT64_MAX, &limit)) {
            return false;
        }
        if (whim_field(f, keys[i]) != NULL && limit < 1 && limit != -1) {
            return whim_field_refuse(f, keys[i],
                                     "is %" PRId64 "; it must be at least 1 (-1, or leave it "
                                     "out, for no limit)",
                                     limit);
        }
        task->ask.max_tokens = is_said       ? task->ask.max_tokens
                               : limit == -1 ? 0 /* none, as in other servers */
                                             : limit;
        is_said |= whim_field(f, keys[i]) != NULL;
    }
    return true;
}

static bool read_logprobs(const whim_fields *f, whim_task *task)
{
    int64_t top = 0;
    if (!whim_field_bool(f, "logprobs", &task->ask.logprobs) ||
        !whim_field_int(f, "top_logprobs", 0, WHIM_MAX_TOP, &top)) {
        return false;
    }
    if (whim_field(f, "top_logprobs") != NULL && !task->ask.logprobs) {
        return whim_field_refuse(f, "top_logprobs", "needs \"logprobs\": true");
    }
    task->ask.top_logprobs = (int32_t)top;
    return true;
}

static bool read_turns(const whim_fields *f, whim_task *task)
{
    json_t *messages = NULL;
    bool add_prompt = false, go_on = false;
    const char *effort = NULL;
    if (!whim_field_array(f, "messages", &messages) ||
        !whim_field_bool(f, "add_generation_prompt", &add_prompt) ||
        !whim_field_bool(f, "continue_final_message", &go_on) ||
        !whim_field_string(f, "reasoning_effort", &effort) ||
        !whim_task_set_effort(f, "reasoning_effort", effort, task)) {
        return false;
    }
    if (messages == NULL || json_array_size(messages) == 0) {
        return whim_field_refuse(f, "messages", messages == NULL ? "is missing" : "is empty");
    }
    if (add_prompt && go_on) {
        return whim_field_refuse(f, "continue_final_message",
                                 "and add_generation_prompt cannot both be true");
    }
    task->messages = json_incref(messages);
    task->new_turn = add_prompt;
    return true;
}

/* The text of a part of a prediction; NULL with the fault set. */
static const char *part_text(const whim_fields *in, const json_t *parts, size_t i)
{
    const json_t *part = json_array_get(parts, i), *text = whim_peek(part, "text");
    if (!whim_peek_is(whim_peek(part, "type"), "text") || !json_is_string(text)) {
        whim_fields item = whim_field_item(in, "content", parts, i);
        whim_field_refuse(&item, "type", "must be \"text\", with a string as its text");
        return NULL;
    }
    return json_string_value(text);
}

/* Text, or parts that are joined. */
static bool read_prediction(const whim_fields *f, whim_task *task)
{
    whim_fields in;
    if (!whim_field_inside(f, "prediction", &in)) {
        return false;
    }
    const json_t *content = whim_field(&in, "content"), *type = whim_field(&in, "type");
    if (type != NULL && !whim_peek_is(type, "content")) {
        return whim_field_refuse(&in, "type", "must be \"content\"");
    }
    if (content == NULL || json_is_string(content)) {
        task->ask.prediction = json_string_value(content);
        return true;
    }
    if (!json_is_array(content)) {
        return whim_field_refuse(&in, "content", "must be a string or a list of text parts");
    }
    whim_str joined = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(content); i++) {
        const char *text = part_text(&in, content, i);
        ok = text != NULL;
        whim_str_append(&joined, ok ? text : "");
    }
    if (ok) {
        task->ask.prediction = whim_arena_strndup(&task->arena, whim_str_text(&joined), joined.len);
        ok = (!joined.failed && task->ask.prediction != NULL) || whim_fault_no_memory(f->fault);
    }
    whim_str_deinit(&joined);
    return ok;
}

bool whim_openai_read_chat(const whim_api *api, const whim_fields *f, whim_task *task)
{
    return refuse_old(f) && whim_task_read_common(api, f, task) &&
           whim_openai_read_shared(f, task) && read_limit(f, task) && read_logprobs(f, task) &&
           read_turns(f, task) && read_tools(f, task) && read_prediction(f, task);
}

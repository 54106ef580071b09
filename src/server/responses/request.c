/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a Responses body beside its turns. */
#include "server/offer.h"
#include "server/responses/responses.h"

static bool read_choice_object(const whim_fields *f, whim_task *task)
{
    const json_t *type = whim_field(f, "type");
    if (whim_peek_is(type, "allowed_tools")) {
        return whim_offer_read_allowed(f, task);
    }
    if (whim_peek_is(type, "function") || whim_peek_is(type, "custom")) {
        return whim_offer_need_named_call(f, task);
    }
    return whim_field_refuse(f, "type", "must be \"function\", \"custom\" or \"allowed_tools\"");
}

static bool read_choice(const whim_fields *f, whim_task *task)
{
    const json_t *choice = whim_field(f, "tool_choice");
    if (choice == NULL || whim_peek_is(choice, "auto")) {
        return true;
    }
    if (whim_peek_is(choice, "none")) {
        task->choice = WHIM_CHOICE_NONE;
        return true;
    }
    if (whim_peek_is(choice, "required")) {
        return whim_offer_need_call(f, task);
    }
    if (!json_is_object(choice)) {
        return whim_field_refuse(f, "tool_choice",
                                 "must be \"none\", \"auto\", \"required\" or an object");
    }
    whim_fields at;
    return whim_field_inside(f, "tool_choice", &at) && read_choice_object(&at, task);
}

const whim_offer_form whim_responses_tools = {
    .type = "function", .schema_key = "parameters", .text_type = "custom", .group = "namespace"};

static bool read_tools(const whim_fields *f, whim_task *task)
{
    bool parallel = true;
    if (!whim_field_bool(f, "parallel_tool_calls", &parallel) ||
        !whim_offer_read(f, &whim_responses_tools, task)) {
        return false;
    }
    task->ask.one_call = !parallel;
    return read_choice(f, task);
}

/* text.format; the schema is flat here, not inside "json_schema". */
static bool read_text(const whim_fields *f, whim_task *task)
{
    whim_fields at, in;
    if (!whim_field_inside(f, "text", &at) || !whim_field_inside(&at, "format", &in)) {
        return false;
    }
    const json_t *type = whim_field(&in, "type");
    if (in.obj == NULL || whim_peek_is(type, "text")) {
        return true;
    }
    if (!whim_task_one_form(&at, "format", task)) {
        return false;
    }
    task->form_at = task->format_at = "text.format";
    task->schema_at = "text.format.schema";
    bool is_object = whim_peek_is(type, "json_object");
    if (!is_object && !whim_peek_is(type, "json_schema")) {
        return whim_field_refuse(&in, "type",
                                 "must be \"text\", \"json_object\" or \"json_schema\"");
    }
    if (whim_field(&in, "json_schema") != NULL) {
        return whim_field_refuse(&in, "json_schema",
                                 "is not a field of this route; the schema is \"schema\" itself");
    }
    if (!whim_field_object(&in, "schema", &task->schema)) {
        return false;
    }
    if (task->schema == NULL && !is_object) {
        return whim_field_refuse(&in, "schema", "is required");
    }
    task->ask.json_object = task->schema == NULL;
    return true;
}

static bool read_reasoning(const whim_fields *f, whim_task *task)
{
    whim_fields at;
    const char *effort = NULL;
    return whim_field_inside(f, "reasoning", &at) && whim_field_string(&at, "effort", &effort) &&
           whim_task_set_effort(&at, "effort", effort, task);
}

/* What needs a store of more than conversations. */
static bool refuse_state(const whim_fields *f)
{
    static const char *const stored[] = {"conversation", "prompt"};
    bool background = false;
    for (int i = 0; i < 2; i++) {
        if (whim_field(f, stored[i]) != NULL) {
            return whim_field_refuse(f, stored[i],
                                     "cannot be used: it is not stored here; use "
                                     "previous_response_id, or send the whole conversation as "
                                     "\"input\"");
        }
    }
    if (!whim_field_bool(f, "background", &background)) {
        return false;
    }
    return !background ||
           whim_field_refuse(f, "background",
                             "cannot be true: an answer is made while its client waits here");
}

/* Log-probabilities are not in these answers; what else may be asked for is, or is of tools that
 * only OpenAI runs. */
static bool check_include(const whim_fields *f)
{
    json_t *include = NULL;
    if (!whim_field_array(f, "include", &include)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(include); i++) {
        if (whim_peek_is(json_array_get(include, i), "message.output_text.logprobs")) {
            return whim_field_refuse(f, "include",
                                     "must not ask for message.output_text.logprobs, which these "
                                     "answers do not have; use /v1/chat/completions");
        }
    }
    return true;
}

/* The answer repeats it. */
static bool check_metadata(const whim_fields *f)
{
    json_t *metadata = NULL, *value;
    const char *key;
    if (!whim_field_object(f, "metadata", &metadata)) {
        return false;
    }
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value)) {
            return whim_field_refuse(f, "metadata", "must hold strings; \"%.100s\" is %s", key,
                                     whim_json_kind(value));
        }
    }
    return true;
}

/* "auto" would leave out the oldest turns where "disabled" is refused. It is not done, so it is not
 * looked at, and the log tells it. */
static bool check_truncation(const whim_fields *f)
{
    const json_t *how = whim_peek(f->obj, "truncation");
    if (whim_peek_is(how, "auto")) {
        return true;
    }
    return whim_field(f, "truncation") == NULL || whim_peek_is(how, "disabled") ||
           whim_field_refuse(f, "truncation", "must be \"disabled\" or \"auto\"");
}

bool whim_responses_read(const whim_api *api, const whim_fields *f, whim_task *task)
{
    task->messages_at = "input";
    static const char *const told[] = {
        "metadata", "previous_response_id", "text", "tool_choice", "tools", NULL};
    task->told = told;
    return refuse_state(f) && check_include(f) && check_metadata(f) && check_truncation(f) &&
           whim_task_read_common(api, f, task) && whim_task_read_stops(f, "stop", task) &&
           whim_field_int(f, "max_output_tokens", 1, INT32_MAX, &task->ask.max_tokens) &&
           whim_responses_read_turns(api, f, task) && read_tools(f, task) && read_text(f, task) &&
           read_reasoning(f, task);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of an Anthropic body beside its turns: tools, the choice among them, thinking, the
 * answer's form; and the routes that read them. */
#include "server/anthropic/anthropic.h"
#include "server/offer.h"
#include "server/router.h"

#include <string.h>

static bool read_choice(const whim_fields *f, whim_task *task)
{
    whim_fields at;
    if (!whim_field_inside(f, "tool_choice", &at) ||
        !whim_field_bool(&at, "disable_parallel_tool_use", &task->ask.one_call)) {
        return false;
    }
    const json_t *type = whim_field(&at, "type");
    if (at.obj == NULL || whim_peek_is(type, "auto")) {
        return true;
    }
    if (whim_peek_is(type, "none")) {
        task->choice = WHIM_CHOICE_NONE;
        return true;
    }
    if (whim_peek_is(type, "any")) {
        return whim_offer_need_call(&at, task);
    }
    if (whim_peek_is(type, "tool")) {
        return whim_offer_need_named_call(&at, task);
    }
    return whim_field_refuse(&at, "type", "must be \"auto\", \"any\", \"tool\" or \"none\"");
}

/* Tools that only Anthropic's servers run, or whose schema only its models know, have a type with a
 * date. */
static bool read_tools(const whim_fields *f, whim_task *task)
{
    static const whim_offer_form form = {
        .type = "custom", .type_optional = true, .schema_key = "input_schema"};
    return whim_offer_read(f, &form, task) && whim_anthropic_offer(f, task) && read_choice(f, task);
}

static bool read_thinking(const whim_fields *f, whim_task *task)
{
    whim_fields at;
    task->ask.thinking = WHIMBREL_THINKING_OFF; /* older code takes content[0] for the text */
    if (!whim_field_inside(f, "thinking", &at)) {
        return false;
    }
    const json_t *type = whim_field(&at, "type");
    if (at.obj == NULL || whim_peek_is(type, "disabled")) {
        return true;
    }
    if (!whim_peek_is(type, "enabled") && !whim_peek_is(type, "adaptive") &&
        !whim_peek_is(type, "between_tools")) {
        return whim_field_refuse(
            &at, "type", "must be \"enabled\", \"adaptive\", \"between_tools\" or \"disabled\"");
    }
    task->ask.thinking = WHIMBREL_THINKING_ON;
    const char *display = NULL; /* the answer looks at it again */
    return whim_field_string(&at, "display", &display) &&
           (!whim_peek_is(type, "enabled") ||
            whim_field_int(&at, "budget_tokens", 1, INT32_MAX, &task->ask.think_budget));
}

/* `output_format` at the top is the older name of output_config.format. */
static bool read_format(const whim_fields *f, const char *key, const char *format_at,
                        const char *schema_at, whim_task *task)
{
    json_t *format = NULL;
    if (!whim_field_object(f, key, &format)) {
        return false;
    }
    if (format == NULL) {
        return true;
    }
    json_t *schema = whim_peek(format, "schema");
    if (!whim_peek_is(whim_peek(format, "type"), "json_schema") || !json_is_object(schema)) {
        return whim_field_refuse(f, key, "must be {\"type\": \"json_schema\", \"schema\": {..}}");
    }
    bool has_older = task->form_at != NULL && strcmp(task->form_at, "output_format") == 0;
    if (!has_older && !whim_task_one_form(f, key, task)) {
        return false;
    }
    task->form_at = format_at;
    task->schema = schema;
    task->format_at = format_at;
    task->schema_at = schema_at;
    return true;
}

static bool read_style(const whim_fields *f, whim_task *task)
{
    whim_fields at;
    const char *effort = NULL;
    if (!whim_field_inside(f, "output_config", &at) || !whim_field_string(&at, "effort", &effort) ||
        (effort != NULL && !whim_task_set_effort(&at, "effort", effort, task))) {
        return false;
    }
    /* After the effort: whether to think at all is said by `thinking` alone. */
    return read_thinking(f, task) &&
           read_format(f, "output_format", "output_format", "output_format.schema", task) &&
           read_format(&at, "format", "output_config.format", "output_config.format.schema", task);
}

/* Edits of the turns before they are read. None is done, so they are not looked at, and the log
 * tells them; but no edit at all, and all thoughts kept, change nothing. */
static void pass_over_idle_edits(const whim_fields *f)
{
    const json_t *edits = whim_peek(whim_peek(f->obj, "context_management"), "edits");
    bool is_idle = edits == NULL || json_is_array(edits);
    for (size_t i = 0; is_idle && i < json_array_size(edits); i++) {
        const json_t *edit = json_array_get(edits, i);
        is_idle = whim_peek_is(whim_peek(edit, "type"), "clear_thinking_20251015") &&
                  whim_peek_is(whim_peek(edit, "keep"), "all");
    }
    if (is_idle) {
        (void)whim_field(f, "context_management");
    }
}

bool whim_anthropic_read(const whim_api *api, const whim_fields *f, whim_task *task)
{
    /* The turns that the template sees are not those of the body: merged, split, the system's in
     * front. */
    static const char *const told[] = {"thinking", NULL};
    task->messages_at = "messages";
    task->told = told;
    pass_over_idle_edits(f);
    return whim_task_read_common(api, f, task) && whim_task_read_stops(f, "stop_sequences", task) &&
           whim_anthropic_read_turns(f, task) && read_tools(f, task) && read_style(f, task);
}

/* max_tokens is required; 0 fills the cache and generates nothing. */
bool whim_anthropic_read_whole(const whim_api *api, const whim_fields *f, whim_task *task)
{
    int64_t n = -1;
    if (!whim_anthropic_read(api, f, task) || !whim_field_int(f, "max_tokens", 0, INT32_MAX, &n)) {
        return false;
    }
    task->ask.max_tokens = n == 0 ? -1 : n;
    return n >= 0 || whim_field_refuse(f, "max_tokens", "is required");
}

/* --- the routes ------------------------------------------------------------------------------- */

void whim_route_messages(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &whim_anthropic_form);
}

void whim_route_count_tokens(const whim_api *api, whim_exchange *ex)
{
    whim_fault fault = {0};
    whim_prompt prompt = {.open_think = false};
    whim_task *task = whim_task_open(api, ex, whim_anthropic_read, &fault);
    if (task != NULL && whim_task_render(api, task, &prompt, &fault)) {
        whim_str body = {0};
        whim_put_form(&body, "{'input_tokens':%l}", prompt.ids.n);
        whim_api_reply(api, ex, &body);
        whim_str_deinit(&body);
    } else {
        whim_api_refuse(api, ex, &fault);
    }
    whim_prompt_deinit(&prompt);
    whim_task_destroy(task);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of /api/chat and /api/generate. */
#include "server/ollama/ollama.h"

#include "server/openai/openai.h"
#include "server/turns.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- what both have --------------------------------------------------------------------------- */

/* Such a request only asks for the model to be loaded. */
static bool is_empty(const whim_fields *f, const char *key)
{
    const json_t *value = whim_field(f, key);
    return value == NULL || whim_peek_is(value, "") ||
           (json_is_array(value) && json_array_size(value) == 0);
}

/* num_predict is the limit; 0 and less: none but the context. */
static bool read_options(const whim_api *api, const whim_fields *f, whim_task *task)
{
    whim_fields in;
    int64_t n = -1;
    if (!whim_field_inside(f, "options", &in) || !whim_task_read_sampling(api, &in, task) ||
        !whim_foreign_read(&in, task) || !whim_task_read_tokens(api, &in, task) ||
        !whim_task_read_stops(&in, "stop", task) ||
        !whim_field_int(&in, "num_predict", -2, INT32_MAX, &n)) {
        return false;
    }
    task->ask.max_tokens = n < 0 ? 0 : n;
    return true;
}

static bool read_format(const whim_fields *f, whim_task *task)
{
    json_t *format = whim_field(f, "format");
    if (format == NULL || whim_peek_is(format, "")) {
        return true;
    }
    if (!whim_task_one_form(f, "format", task)) {
        return false;
    }
    task->format_at = task->schema_at = "format";
    if (json_is_object(format)) {
        task->schema = format;
        return true;
    }
    task->ask.json_object = whim_peek_is(format, "json");
    return task->ask.json_object ||
           whim_field_refuse(f, "format", "must be \"json\" or a JSON Schema");
}

static bool read_think(const whim_fields *f, whim_task *task)
{
    const json_t *think = whim_field(f, "think");
    if (json_is_string(think)) {
        return whim_task_set_effort(f, "think", json_string_value(think), task);
    }
    if (think != NULL && !json_is_boolean(think)) {
        return whim_field_refuse(f, "think",
                                 "must be true, false, or how much: low, medium or high");
    }
    task->ask.thinking = think == NULL         ? task->ask.thinking
                         : json_is_true(think) ? WHIMBREL_THINKING_ON
                                               : WHIMBREL_THINKING_OFF;
    return true;
}

/* Fields that would change the answer and are not done here. */
static bool refuse_some(const whim_fields *f)
{
    static const struct {
        const char *key, *why;
    } some[] = {
        {"images", "is not supported: this server reads text only"},
        {"template", "is not supported; use raw with a prompt that is already written out"},
        {"context", "is not supported; send the conversation to /api/chat"},
        {"logprobs", "is not supported here; use /v1/chat/completions"},
        {"top_logprobs", "is not supported here; use /v1/chat/completions"},
    };
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        const json_t *value = whim_field(f, some[i].key);
        bool is_empty = value == NULL || whim_peek_is(value, "") || json_is_false(value) ||
                        (json_is_integer(value) && json_integer_value(value) == 0) ||
                        (json_is_array(value) && json_array_size(value) == 0);
        if (!is_empty) {
            return whim_field_refuse(f, some[i].key, "%s", some[i].why);
        }
    }
    return true;
}

static bool read_shared(const whim_api *api, const whim_fields *f, whim_task *task)
{
    task->stream = true; /* unless the body says otherwise */
    return refuse_some(f) && whim_task_read_common(api, f, task) && read_options(api, f, task) &&
           read_format(f, task) && read_think(f, task);
}

/* --- messages --------------------------------------------------------------------------------- */

/* Calls have no ids here, so they are counted. A result belongs to the first call of the last turn
 * that has none yet, and has the tool's name where it tells one. */
typedef struct call_count {
    int64_t n_call;
    const json_t *calls; /* of the last turn with calls */
    int64_t first;       /* number of the first of these */
    uint64_t answered;   /* a bit for each of them */
} call_count;

static json_t *call_id(int64_t number)
{
    return json_sprintf("call_%" PRId64, number);
}

static int64_t call_answered(call_count *count, const char *name)
{
    enum { MOST = 64 };
    int64_t n = (int64_t)json_array_size(count->calls), found = -1;
    for (int pass = name != NULL ? 0 : 1; pass < 2 && found < 0; pass++) {
        for (int64_t i = 0; i < n && i < MOST && found < 0; i++) {
            const char *of = whim_peek_function_name(json_array_get(count->calls, (size_t)i));
            bool fits = pass == 1 || (of != NULL && strcmp(of, name) == 0);
            found = fits && (count->answered >> i & 1) == 0 ? i : -1;
        }
    }
    if (found < 0) { /* more results than calls */
        return count->n_call++;
    }
    count->answered |= UINT64_C(1) << found;
    return count->first + found;
}

static bool read_calls(const whim_fields *f, whim_turns *turns, call_count *count)
{
    json_t *calls = NULL;
    if (!whim_field_array(f, "tool_calls", &calls)) {
        return false;
    }
    *count = (call_count){.n_call = count->n_call, .calls = calls, .first = count->n_call};
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *function = whim_peek(json_array_get(calls, i), "function");
        json_t *name = whim_peek(function, "name"), *arguments = whim_peek(function, "arguments");
        if (!json_is_string(name) || (arguments != NULL && !json_is_object(arguments))) {
            return whim_field_refuse(f, "tool_calls",
                                     "must hold functions with a name and an object of arguments; "
                                     "entry %zu is not like that",
                                     i);
        }
        json_t *none = json_object(), *id = call_id(count->n_call++);
        turns->failed |= none == NULL || id == NULL;
        if (!turns->failed) {
            whim_turns_call(turns, id, name, arguments != NULL ? arguments : none);
        }
        json_decref(none);
        json_decref(id);
    }
    return true;
}

static bool read_message(const whim_fields *f, whim_turns *turns, call_count *count)
{
    const char *role = NULL, *content = "", *thinking = "", *tool = NULL;
    if (!refuse_some(f) || !whim_field_string(f, "role", &role) ||
        !whim_field_string(f, "content", &content) ||
        !whim_field_string(f, "thinking", &thinking) || !whim_field_string(f, "tool_name", &tool)) {
        return false;
    }
    if (role == NULL || role[0] == '\0') { /* which others there are, the template says */
        return whim_field_refuse(f, "role",
                                 "must be system, user, assistant, tool or another one "
                                 "that the model's chat template has");
    }
    if (strcmp(role, "tool") == 0) {
        whim_str text = {0};
        json_t *id = call_id(call_answered(count, tool));
        whim_str_append(&text, content);
        turns->failed |= id == NULL || text.failed;
        if (!turns->failed) {
            whim_turns_result(turns, id, &text);
        }
        json_decref(id);
        whim_str_deinit(&text);
        return true;
    }
    whim_turns_close(turns);
    whim_turns_open(turns, role);
    whim_str_append(&turns->text, content);
    whim_str_append(&turns->reasoning, thinking);
    return read_calls(f, turns, count);
}

static bool take_turns(const whim_fields *f, whim_turns *turns, bool ok, whim_task *task)
{
    if (!ok) {
        whim_turns_deinit(turns);
        return false;
    }
    turns->failed |= turns->text.failed || turns->reasoning.failed;
    task->messages = whim_turns_take(turns);
    return task->messages != NULL || whim_fault_no_memory(f->fault);
}

static bool read_messages(const whim_fields *f, whim_task *task)
{
    whim_turns turns = {0};
    call_count count = {0};
    json_t *messages = NULL;
    bool ok = whim_field_array(f, "messages", &messages);
    for (size_t i = 0; ok && i < json_array_size(messages); i++) {
        whim_fields at = whim_field_item(f, "messages", messages, i);
        ok = read_message(&at, &turns, &count);
    }
    return take_turns(f, &turns, ok, task);
}

bool whim_ollama_read_chat(const whim_api *api, const whim_fields *f, whim_task *task)
{
    json_t *tools = NULL;
    if (!read_shared(api, f, task) || !whim_field_array(f, "tools", &tools) ||
        (tools != NULL && !whim_task_set_tools(f, "tools", tools, task))) {
        return false;
    }
    if (is_empty(f, "messages")) {
        return true;
    }
    if (!read_messages(f, task)) {
        return false;
    }
    task->choice = task->tools == NULL ? WHIM_CHOICE_NONE : WHIM_CHOICE_AUTO;
    return true;
}

/* --- one prompt ------------------------------------------------------------------------------- */

/* The prompt as the user's turn; written out already where it is raw, or has a suffix. */
bool whim_ollama_read_generate(const whim_api *api, const whim_fields *f, whim_task *task)
{
    const char *prompt = "", *system = "", *suffix = "";
    bool raw = false;
    if (!read_shared(api, f, task) || !whim_field_string(f, "prompt", &prompt) ||
        !whim_field_string(f, "system", &system) || !whim_field_string(f, "suffix", &suffix) ||
        !whim_field_bool(f, "raw", &raw)) {
        return false;
    }
    bool is_written = raw || suffix[0] != '\0';
    if (is_written && system[0] != '\0') {
        return whim_field_refuse(f, "system",
                                 "cannot be given with raw or suffix; write it into the prompt");
    }
    if (is_empty(f, "prompt")) {
        return true;
    }
    if (is_written) {
        return whim_openai_read_prompts(api, f, task);
    }
    whim_turns turns = {0};
    if (system[0] != '\0') {
        whim_turns_open(&turns, "system");
        whim_str_append(&turns.text, system);
    }
    whim_turns_open(&turns, "user");
    whim_str_append(&turns.text, prompt);
    task->choice = WHIM_CHOICE_NONE;
    task->messages_at = "prompt";
    return take_turns(f, &turns, true, task);
}

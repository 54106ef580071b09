/* SPDX-License-Identifier: Apache-2.0 */
/* From a task to requests of the library, with prompt and grammar: the slow part, done on the
 * handler's thread before anything is sent. */
#include "server/api.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SCHEMA_BYTES = 1 << 20 };

/* What the client calls a field of the library's; NULL: none of its fields. */
static const char *param_of(const whim_task *task, const char *field)
{
    bool is_form =
        strcmp(field, "words") == 0 || strcmp(field, "regex") == 0 || strcmp(field, "grammar") == 0;
    return is_form && task->form_at != NULL                                  ? task->form_at
           : strcmp(field, "schema_json") == 0                               ? task->format_at
           : strcmp(field, "tools_json") == 0                                ? "tools"
           : task->messages_at != NULL && strncmp(field, "messages", 8) == 0 ? task->messages_at
           : field[0] != '\0'                                                ? field
                                                                             : NULL;
}

static bool fault_of(whim_fault *fault, whim_err err, const char *param, const whim_diag *diag)
{
    if (err == WHIM_ERR_NO_MEMORY) {
        return whim_fault_no_memory(fault);
    }
    if (err == WHIM_ERR_NO_FIT) { /* the text was too long to be tokenized */
        return whim_fault_set(fault, WHIM_FAULT_CONTEXT, param, "%.1000s", diag->text);
    }
    return whim_fault_set(fault, WHIM_FAULT_BAD_VALUE, param, "%.1000s", diag->text);
}

static whim_request_extra extra_of(const whim_task *task)
{
    return (whim_request_extra){
        .messages = task->messages,
        .tools = task->choice == WHIM_CHOICE_NONE ? NULL : task->tools,
        .args = task->kwargs,
        .schema = task->schema,
        .new_turn = task->new_turn,
        .is_closed = task->is_closed,
        .schema_at = task->schema_at,
        .tool_schema = task->tool_schema,
        .tool_at = task->tool_at,
        .no_compile = !task->may_take_long,
        .allowed = task->allowed,
        .n_allowed = task->n_allowed,
        .history = task->history,
        .keep_last = task->keep_last,
        .from_front = task->from_front,
    };
}

bool whim_task_render(const whim_api *api, whim_task *task, whim_prompt *out, whim_fault *fault)
{
    char field[128] = "messages";
    whim_diag diag = {{0}};
    const whim_request_extra extra = extra_of(task);
    whim_err err = whim_request_render(api->model, &task->ask, &extra, out, field, &diag);
    return err == WHIM_ERR_OK || fault_of(fault, err, param_of(task, field), &diag);
}

/* Bytes of a schema as text; false without memory for its size. */
static bool size_of(const json_t *schema, size_t *bytes)
{
    *bytes = schema != NULL ? json_dumpb(schema, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) : 0;
    return schema == NULL || *bytes > 0;
}

static bool check_size(const json_t *schema, const char *param, const char *name, whim_fault *fault)
{
    size_t bytes;
    if (!size_of(schema, &bytes)) {
        return whim_fault_no_memory(fault);
    }
    return bytes <= MAX_SCHEMA_BYTES ||
           whim_fault_set(fault, WHIM_FAULT_BAD_VALUE, param, "\"%s\" is larger than %d bytes",
                          name, MAX_SCHEMA_BYTES);
}

/* The size of every schema that the grammar is built of. */
static bool check_sizes(const whim_task *task, const whim_request_extra *extra, whim_fault *fault)
{
    size_t i;
    const json_t *tool;
    json_array_foreach(extra->tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        const bool is_held = task->form_at != NULL || task->choice == WHIM_CHOICE_REQUIRED ||
                             json_is_true(json_object_get(function, "strict"));
        char param[96];
        snprintf(param, sizeof param, "tools[%zu].%s",
                 task->tool_at == NULL ? i : (size_t)task->tool_at[i],
                 task->tool_schema == NULL ? "function.parameters" : task->tool_schema);
        if (is_held && !check_size(json_object_get(function, "parameters"), param, param, fault)) {
            return false;
        }
    }
    return check_size(task->schema, task->format_at, task->schema_at, fault);
}

/* What the request says, within the server's bound and the context. */
static int64_t max_tokens_of(const whim_api *api, const whim_task *task)
{
    int64_t most = api->max_tokens > 0 && api->max_tokens < api->ctx ? api->max_tokens : api->ctx;
    if (task->ask.max_tokens == 0) {
        return api->max_tokens > 0 ? most : 0;
    }
    return task->ask.max_tokens < most ? task->ask.max_tokens : most;
}

/* Where the request does not say: not in a conversation, but for who wants tokens after the model's
 * own end. */
static bool may_repeat(const whim_api *api, const whim_task *task)
{
    return task->repetition_detection >= 0
               ? task->repetition_detection == 0
               : !api->repetition_detection || task->messages == NULL || task->ask.ignore_end;
}

/* What was cut off a prompt is not told again, either. */
static void cut_prompt(whim_task *task, int32_t p)
{
    int64_t n;
    whim_ids *prompt = &task->prompts[p];
    whimbrel_prompt_ids(task->requests[p], &n);
    if (n < prompt->n) {
        int64_t from = task->from_front ? 0 : prompt->n - n;
        memmove(prompt->ids, prompt->ids + from, (size_t)n * sizeof *prompt->ids);
        prompt->n = n;
        task->is_cut = true;
    }
}

static bool make_request(const whim_api *api, whim_task *task, int32_t p,
                         const whim_request_extra *extra, whim_fault *fault)
{
    char field[128];
    whim_diag diag = {{0}};
    whimbrel_request_options ask = task->ask;
    ask.max_tokens = max_tokens_of(api, task);
    ask.may_repeat = may_repeat(api, task);
    ask.must_call = task->choice == WHIM_CHOICE_REQUIRED;
    ask.sampling = &task->sampling;
    ask.ids = task->prompts != NULL ? task->prompts[p].ids : NULL;
    ask.n_id = task->prompts != NULL ? task->prompts[p].n : 0;
    whim_err err = whim_request_make(api->model, &ask, extra, &task->requests[p], field, &diag);
    if (err == WHIM_ERR_BUSY) {
        *fault = (whim_fault){.is_put_off = true};
        return false;
    }
    if (err == WHIM_ERR_OK && task->prompts != NULL) {
        cut_prompt(task, p);
    }
    if (err == WHIM_ERR_NO_FIT) {
        int64_t n;
        whimbrel_prompt_ids(task->requests[p], &n);
        if (n > 0) {
            return whim_fault_context(fault, n, api->ctx);
        }
    }
    return err == WHIM_ERR_OK || fault_of(fault, err, param_of(task, field), &diag);
}

bool whim_task_prepare(const whim_api *api, whim_task *task, whim_fault *fault)
{
    whim_request_extra extra = extra_of(task);
    task->n_prompt = task->messages != NULL ? 1 : task->n_prompt;
    task->requests = whim_arena_alloc_array(&task->arena, task->n_prompt, sizeof *task->requests);
    if (task->requests == NULL) {
        return whim_fault_no_memory(fault);
    }
    bool ok = check_sizes(task, &extra, fault);
    for (int32_t p = 0; p < task->n_prompt && ok; p++) {
        ok = make_request(api, task, p, &extra, fault);
        extra.like = task->requests[0];
    }
    return ok;
}

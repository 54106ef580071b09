/* SPDX-License-Identifier: Apache-2.0 */
/* From messages to a prompt, and from what the answer must look like to a grammar: the slow part of
 * a request, done on the handler's thread before anything is sent. */
#include "server/api.h"

#include "base/alloc.h"
#include "library/grammar_cache.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SCHEMA_BYTES = 1 << 20 };

static bool fault_of(whim_fault *fault, whim_err err, const char *param, const whim_diag *diag)
{
    if (err == WHIM_ERR_NO_MEMORY) {
        return whim_fault_no_memory(fault);
    }
    return whim_fault_set(fault, WHIM_FAULT_BAD_VALUE, param, "%.1000s", diag->text);
}

bool whim_task_render(const whim_api *api, whim_task *task, whim_prompt *out, whim_fault *fault)
{
    char param[128] = "messages";
    whim_diag diag = {{0}};
    whim_prompt_request request = {
        .messages = task->messages,
        .tools = task->choice == WHIM_CHOICE_NONE ? NULL : task->tools,
        .kwargs = task->kwargs,
        .thinking = task->thinking,
        .effort = task->effort,
        .new_turn = task->new_turn,
    };
    *out = (whim_prompt){0};
    whim_err err = whim_prompt_make(api->chat, &request, out, param, &diag);
    bool renamed = task->messages_at != NULL && strncmp(param, "messages", 8) == 0;
    return err == WHIM_ERR_OK || fault_of(fault, err, renamed ? task->messages_at : param, &diag);
}

/* The field that asked for a grammar, for the message about it. */
static const char *rule_param(const whim_task *task)
{
    return task->regex != NULL                         ? "regex"
           : task->n_word > 0                          ? "choice"
           : task->schema != NULL || task->json_object ? task->format_at
           : task->tools != NULL                       ? "tools"
                                                       : NULL;
}

static bool is_too_large(const json_t *schema)
{
    return schema != NULL &&
           json_dumpb(schema, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) > MAX_SCHEMA_BYTES;
}

/* The size of every schema that the grammar is built of. */
static bool check_sizes(const whim_answer_rule *rule, const whim_task *task, whim_fault *fault)
{
    bool all = rule->choice == WHIM_CHOICE_REQUIRED || rule->schema != NULL || rule->json_object ||
               rule->regex != NULL || rule->n_word > 0;
    size_t i;
    const json_t *tool;
    json_array_foreach(rule->tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        if ((all || json_is_true(json_object_get(function, "strict"))) &&
            is_too_large(json_object_get(function, "parameters"))) {
            char param[96];
            snprintf(param, sizeof param, "tools[%zu].%s",
                     rule->tool_at == NULL ? i : (size_t)rule->tool_at[i], rule->tool_schema);
            return whim_fault_set(fault, WHIM_FAULT_BAD_VALUE, param,
                                  "\"%s\" is larger than %d bytes", param, MAX_SCHEMA_BYTES);
        }
    }
    return !is_too_large(rule->schema) ||
           whim_fault_set(fault, WHIM_FAULT_BAD_VALUE, task->format_at,
                          "\"%s\" is larger than %d bytes", rule->schema_at, MAX_SCHEMA_BYTES);
}

static bool make_grammar(const whim_api *api, whim_task *task, whim_fault *fault)
{
    bool tools = task->choice != WHIM_CHOICE_NONE && task->tools != NULL;
    whim_diag diag = {{0}};
    whim_answer_rule rule = {
        .format = api->chat->format,
        .starts_inside = task->open_think,
        .may_reason = task->may_reason,
        .tools = tools ? task->tools : NULL,
        .choice = tools ? task->choice : WHIM_CHOICE_NONE,
        .tool_name = task->tool_name,
        .one_call = task->one_call,
        .schema = task->schema,
        .json_object = task->json_object,
        .regex = task->regex,
        .words = task->words,
        .n_word = task->n_word,
        .bytes = api->bytes,
        .schema_at = task->schema_at,
        .tool_at = task->tool_at,
        .tool_schema = task->tool_schema,
    };
    if ((task->schema != NULL || task->json_object) + (task->regex != NULL) + (task->n_word > 0) >
        1) {
        return whim_fault_set(fault, WHIM_FAULT_BAD_VALUE, rule_param(task),
                              "only one of %s, regex and choice may be given", task->format_at);
    }
    if (!check_sizes(&rule, task, fault)) {
        return false;
    }
    whim_err err =
        whim_grammar_cache_get(api->grammars, &rule, task->may_take_long, &task->grammar, &diag);
    if (err == WHIM_ERR_BUSY) {
        *fault = (whim_fault){.is_put_off = true};
        return false;
    }
    return err == WHIM_ERR_OK || fault_of(fault, err, rule_param(task), &diag);
}

static bool take_prompt(const whim_api *api, whim_task *task, whim_prompt *prompt,
                        whim_fault *fault)
{
    if (prompt->ids.n == 0) {
        return whim_fault_set(fault, WHIM_FAULT_BAD_VALUE,
                              task->messages_at != NULL ? task->messages_at : "messages",
                              "the prompt is empty");
    }
    if (prompt->ids.n >= api->ctx) {
        return whim_fault_context(fault, prompt->ids.n, api->ctx);
    }
    task->prompts = whim_alloc(sizeof *task->prompts);
    if (task->prompts == NULL) {
        return whim_fault_no_memory(fault);
    }
    task->n_prompt = 1;
    task->prompts[0] = prompt->ids;
    prompt->ids = (whim_ids){0};
    task->open_think = prompt->open_think;
    task->may_reason = prompt->may_reason;
    task->parse_tools = task->tools != NULL && task->choice != WHIM_CHOICE_NONE;
    return true;
}

bool whim_task_prepare(const whim_api *api, whim_task *task, whim_fault *fault)
{
    if (task->messages != NULL) {
        whim_prompt prompt;
        bool ok =
            whim_task_render(api, task, &prompt, fault) && take_prompt(api, task, &prompt, fault);
        whim_prompt_deinit(&prompt);
        if (!ok) {
            return false;
        }
    }
    return make_grammar(api, task, fault);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A body through the readers of /v1/messages and /v1/responses: what they take is a list of turns
 * that can be rendered, what they refuse has a reason. */
#include "server/anthropic/anthropic.h"
#include "server/responses/responses.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define CHECK(cond) \
    if (!(cond)) {  \
        abort();    \
    }

static void check_turn(const json_t *turn)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    const char *role = json_string_value(json_object_get(turn, "role"));
    bool known = false;
    CHECK(role != NULL && json_is_string(json_object_get(turn, "content")));
    for (int i = 0; i < 5; i++) {
        known |= strcmp(role, roles[i]) == 0;
    }
    CHECK(known);
    const json_t *calls = json_object_get(turn, "tool_calls");
    CHECK(calls == NULL || (json_array_size(calls) > 0 && strcmp(role, "assistant") == 0));
}

static void check_taken(const whim_task *task)
{
    CHECK(json_is_array(task->messages));
    for (size_t i = 0; i < json_array_size(task->messages); i++) {
        check_turn(json_array_get(task->messages, i));
    }
    CHECK(task->tools == NULL || json_array_size(task->tools) <= WHIM_MAX_TOOLS);
    CHECK(task->choice != WHIM_CHOICE_REQUIRED || task->tools != NULL);
    CHECK(task->ask.tool_name == NULL || whim_library_has_tool(task->tools, task->ask.tool_name));
    CHECK(task->schema == NULL || json_is_object(task->schema));
    CHECK(task->ask.thinking <= WHIMBREL_THINKING_ON && task->ask.think_budget >= 0);
}

static void read_as(whim_task_reader *fn, const uint8_t *data, size_t n)
{
    static const whim_api api = {.name = "tiny", .n_vocab = 100, .ctx = 1000};
    whim_fault fault = {0};
    char *text = malloc(n + 1); /* a body has a NUL after it */
    memcpy(text, data, n);
    text[n] = '\0';
    json_t *body = whim_body_parse(text, (int64_t)n, &fault);
    free(text);
    whim_task *task = body == NULL ? NULL : whim_task_create(&api, body);
    if (task != NULL) {
        whim_fields f = {.obj = task->body, .prefix = "", .fault = &fault};
        if (fn(&api, &f, task)) {
            check_taken(task);
        } else {
            CHECK(fault.message[0] != '\0' && fault.kind == WHIM_FAULT_BAD_VALUE);
        }
    }
    whim_task_destroy(task);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    read_as(whim_anthropic_read, data, n);
    read_as(whim_responses_read, data, n);
    return 0;
}

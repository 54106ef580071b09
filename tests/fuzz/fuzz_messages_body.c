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

typedef bool read_fn(const whim_api *api, const whim_fields *f, whim_gen *gen, whim_str *left_out);

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

static void check_taken(const whim_gen *gen)
{
    CHECK(json_is_array(gen->messages));
    for (size_t i = 0; i < json_array_size(gen->messages); i++) {
        check_turn(json_array_get(gen->messages, i));
    }
    CHECK(gen->tools == NULL || json_array_size(gen->tools) <= WHIM_MAX_TOOLS);
    CHECK(gen->choice != WHIM_CHOICE_REQUIRED || gen->tools != NULL);
    CHECK(gen->tool_name == NULL || whim_gen_has_tool(gen, gen->tool_name));
    CHECK(gen->schema == NULL || json_is_object(gen->schema));
    CHECK(gen->thinking >= -1 && gen->thinking <= 1 && gen->think_budget >= 0);
}

static void read_as(read_fn *fn, const uint8_t *data, size_t n)
{
    static const whim_api api = {.model = "tiny", .n_vocab = 100, .ctx = 1000};
    whim_fault fault = {0};
    whim_str left_out = {0};
    char *text = malloc(n + 1); /* a body has a NUL after it */
    memcpy(text, data, n);
    text[n] = '\0';
    json_t *body = whim_body_parse(text, (int64_t)n, &fault);
    free(text);
    whim_gen *gen = body == NULL ? NULL : whim_gen_create(&api, body);
    if (gen != NULL) {
        whim_fields f = {.obj = gen->body, .prefix = "", .fault = &fault};
        if (fn(&api, &f, gen, &left_out)) {
            check_taken(gen);
        } else {
            CHECK(fault.message[0] != '\0' && fault.kind == WHIM_FAULT_BAD_VALUE);
        }
    }
    whim_gen_destroy(gen);
    whim_str_deinit(&left_out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    read_as(whim_anthropic_read, data, n);
    read_as(whim_responses_read, data, n);
    return 0;
}

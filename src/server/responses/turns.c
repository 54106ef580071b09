/* SPDX-License-Identifier: Apache-2.0 */
/* The items of a Responses input as turns in the OpenAI form. Neighbouring items of the assistant
 * (reasoning, text, calls) are one turn; every other message is a turn of its own. */
#include "server/turns.h"
#include "server/body/body.h"
#include "server/responses/responses.h"
#include "server/responses/store.h"

#include <stdio.h>

/* The parts of a message or of a tool's result. What is not text is refused where the user sent it;
 * in a result the model is told, because an agent would send the same history with every later
 * turn. */
static bool join_parts(const whim_fields *f, const char *key, bool in_result, whim_str *out)
{
    const json_t *content = whim_field(f, key);
    if (json_is_string(content)) {
        whim_turns_join_json(out, content);
        return true;
    }
    if (!json_is_array(content)) {
        return whim_field_refuse(f, key, "must be a string or a list of parts");
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i), *type = whim_peek(part, "type");
        const json_t *text = whim_peek(part, whim_peek_is(type, "refusal") ? "refusal" : "text");
        char where[48];
        snprintf(where, sizeof where, "%s[%zu]", key, i);
        if (!json_is_string(type)) {
            return whim_field_refuse(f, where, "must be an object with a string \"type\"");
        }
        if (whim_peek_is(type, "input_text") || whim_peek_is(type, "output_text") ||
            whim_peek_is(type, "text") || whim_peek_is(type, "refusal")) {
            if (!json_is_string(text)) {
                return whim_field_refuse(f, where, "must have a string as its text");
            }
            whim_turns_join_json(out, text);
        } else if (in_result) {
            static const char told[] = "[image left out: this model reads text only]";
            whim_turns_join(out, told, sizeof told - 1);
        } else {
            return whim_field_refuse(f, where,
                                     "must be an \"input_text\" or \"output_text\" part: this "
                                     "model reads text only");
        }
    }
    return true;
}

static bool message(whim_turns *turns, const whim_fields *f)
{
    static const char *const roles[] = {"user", "system", "developer"};
    const json_t *role = whim_field(f, "role");
    if (whim_peek_is(role, "assistant")) {
        whim_turns_open(turns, "assistant");
        return join_parts(f, "content", false, &turns->text);
    }
    for (int i = 0; i < 3; i++) {
        if (whim_peek_is(role, roles[i])) {
            whim_turns_close(turns);
            whim_turns_open(turns, roles[i]);
            return join_parts(f, "content", false, &turns->text);
        }
    }
    return whim_field_refuse(f, "role",
                             "must be \"user\", \"assistant\", \"system\" or \"developer\"");
}

static bool need_string(const whim_fields *f, const char *key, json_t **out)
{
    *out = whim_field(f, key);
    return json_is_string(*out) || whim_field_refuse(f, key, "must be a string");
}

static bool function_call(whim_turns *turns, const whim_fields *f)
{
    json_t *id, *name, *arguments;
    const char *group = NULL;
    if (!need_string(f, "call_id", &id) || !need_string(f, "name", &name) ||
        !whim_field_string(f, "namespace", &group) || !need_string(f, "arguments", &arguments)) {
        return false;
    }
    json_t *full = whim_offer_name(whim_field(f, "namespace"), name);
    whim_turns_open(turns, "assistant");
    whim_turns_call(turns, id, full, arguments);
    json_decref(full);
    return true;
}

/* A call of a tool that takes plain text: another model made it earlier in this session. */
static bool custom_call(whim_turns *turns, const whim_fields *f)
{
    json_t *id, *name, *input;
    if (!need_string(f, "call_id", &id) || !need_string(f, "name", &name) ||
        !need_string(f, "input", &input)) {
        return false;
    }
    json_t *arguments = json_pack("{s:O}", "input", input);
    whim_turns_open(turns, "assistant");
    whim_turns_call(turns, id, name, arguments);
    json_decref(arguments);
    return true;
}

static bool call_output(whim_turns *turns, const whim_fields *f)
{
    json_t *id;
    whim_str text = {0};
    bool ok = need_string(f, "call_id", &id) && join_parts(f, "output", true, &text);
    if (ok) {
        whim_turns_result(turns, id, &text);
    }
    whim_str_deinit(&text);
    return ok;
}

/* The texts of `content`, or where there are none those of `summary`; what is encrypted is another
 * server's. */
static bool reasoning(whim_turns *turns, const whim_fields *f)
{
    static const char *const keys[] = {"content", "summary"};
    bool any = false;
    whim_turns_open(turns, "assistant");
    for (int k = 0; k < 2 && !any; k++) {
        const json_t *list = whim_field(f, keys[k]);
        if (list != NULL && !json_is_array(list)) {
            return whim_field_refuse(f, keys[k], "must be a list of parts");
        }
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *text = whim_peek(json_array_get(list, i), "text");
            if (!json_is_string(text)) {
                return whim_field_refuse(f, keys[k], "must be a list of parts with a \"text\"");
            }
            whim_turns_join_json(&turns->reasoning, text);
            any = true;
        }
    }
    return true;
}

static bool item(whim_turns *turns, const whim_fields *f)
{
    static const struct {
        const char *type;
        bool (*fn)(whim_turns *turns, const whim_fields *f);
    } known[] = {
        {"message", message},
        {"function_call", function_call},
        {"function_call_output", call_output},
        {"reasoning", reasoning},
        {"custom_tool_call", custom_call},
        {"custom_tool_call_output", call_output},
    };
    const json_t *type = whim_field(f, "type");
    if (type == NULL && whim_field(f, "role") != NULL) {
        return message(turns, f);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (whim_peek_is(type, known[i].type)) {
            return known[i].fn(turns, f);
        }
    }
    if (whim_peek_is(type, "item_reference")) {
        return whim_field_refuse(
            f, "type", "is \"item_reference\", but items are not stored here: send the item");
    }
    return whim_field_refuse(f, "type",
                             "must be \"message\", \"function_call\", \"function_call_output\" or "
                             "\"reasoning\"");
}

static bool items(whim_turns *turns, const whim_fields *f, const json_t *input)
{
    if (json_is_string(input)) {
        whim_turns_close(turns);
        whim_turns_open(turns, "user");
        whim_turns_join_json(&turns->text, input);
        return true;
    }
    if (json_array_size(input) == 0) {
        return whim_field_refuse(f, "input", "must be a string or a list of at least one item");
    }
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(input); i++) {
        whim_fields at = whim_field_item(f, "input", input, i);
        ok = item(turns, &at);
    }
    return ok;
}

/* --- conversations ---------------------------------------------------------------------------- */

static bool items_before(whim_turns *turns, const whim_api *api, const whim_fields *f)
{
    static const char key[] = "previous_response_id";
    const char *id = NULL;
    char missing[WHIM_RESPONSE_ID_MOST] = "";
    whim_str text = {0};
    if (!whim_field_string(f, key, &id) || id == NULL) {
        return whim_field(f, key) == NULL;
    }
    snprintf(missing, sizeof missing, "%.47s", id);
    if (api->responses == NULL || !whim_response_store_items(api->responses, id, &text, missing)) {
        whim_str_deinit(&text);
        if (missing[0] == '\0') {
            return whim_field_refuse(f, key,
                                     "continues a conversation of more than %d bytes; send it as "
                                     "\"input\"",
                                     WHIM_CONVERSATION_BYTES);
        }
        return whim_field_refuse(f, key,
                                 "cannot be continued: this server has no response %.47s (any "
                                 "more): the oldest go first, and none outlives the server; send "
                                 "the whole conversation as \"input\"",
                                 missing);
    }
    const whim_json_limits limits = {.max_bytes = INT64_MAX, .max_depth = WHIM_JSON_DEPTH};
    json_t *list = NULL;
    bool ok = (!text.failed && whim_json_read(&list, whim_str_text(&text), text.len, limits,
                                              NULL) == WHIM_ERR_OK) ||
              whim_fault_no_memory(f->fault);
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        whim_fields at = whim_field_item(f, key, list, i);
        ok = item(turns, &at);
    }
    json_decref(list);
    whim_str_deinit(&text);
    return ok;
}

/* For a request that continues from this response; with `"store": false` none can. */
static bool items_keep(const whim_fields *f, whim_task *task)
{
    bool store = true;
    const json_t *input = whim_field(f, "input");
    if (!whim_field_bool(f, "store", &store) || !store) {
        return whim_field(f, "store") == NULL || !store;
    }
    if (json_is_string(input)) {
        whim_put_form(&task->input_items, "{'role':'user','content':%j}", input);
    }
    for (size_t i = 0; i < json_array_size(input); i++) {
        whim_str_append(&task->input_items, i > 0 ? "," : "");
        whim_put_json(&task->input_items, json_array_get(input, i));
    }
    return true;
}

bool whim_responses_read_turns(const whim_api *api, const whim_fields *f, whim_task *task)
{
    whim_turns turns = {0};
    const json_t *instructions = whim_field(f, "instructions");
    if (instructions != NULL && !json_is_string(instructions)) {
        return whim_field_refuse(f, "instructions", "must be a string");
    }
    if (json_string_length(instructions) > 0) {
        whim_turns_open(&turns, "system");
        whim_turns_join_json(&turns.text, instructions);
    }
    bool ok = items_before(&turns, api, f) && items(&turns, f, whim_field(f, "input")) &&
              (api->responses == NULL || items_keep(f, task));
    if (ok) {
        task->messages = whim_turns_take(&turns);
        ok = task->messages != NULL || whim_fault_no_memory(f->fault);
    }
    whim_turns_deinit(&turns);
    return ok;
}

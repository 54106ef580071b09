/* SPDX-License-Identifier: Apache-2.0 */
/* Response objects and their items as JSON. Strict clients check every key of them. */
#include "server/body/body.h"
#include "server/body/peek.h"
#include "server/responses/responses.h"

#include <inttypes.h>
#include <string.h>

static const whim_answer_part *part_at(const whim_answer_choice *c, int32_t index)
{
    return index < c->n_part ? &c->parts[index] : NULL;
}

static whim_chat_event_kind kind_of(const whim_answer_part *part)
{
    return part == NULL ? WHIM_CHAT_CONTENT : part->kind;
}

void whim_response_put_item_id(const char *response_id, const whim_answer_choice *c, int32_t index,
                               whim_str *out)
{
    const whim_answer_part *part = part_at(c, index);
    if (kind_of(part) == WHIM_CHAT_CALL_BEGIN) {
        whim_str_printf(out, "\"fc_%s\"", part->id);
    } else {
        whim_str_printf(out, "\"%s_%s_%d\"", kind_of(part) == WHIM_CHAT_REASONING ? "rs" : "msg",
                        response_id + strlen("resp_"), index);
    }
}

const char *whim_response_status_name(whim_response_status status)
{
    static const char *const names[] = {"in_progress", "completed", "incomplete", "failed"};
    return names[status];
}

/* A part that another one follows came to its end; the last one as the choice did. */
static whim_response_status item_status(const whim_answer_choice *c, int32_t index, bool whole)
{
    const whim_answer_part *part = part_at(c, index);
    if (!whole) {
        return WHIM_RESPONSE_IN_PROGRESS;
    }
    if (part != NULL && part->complete) {
        return WHIM_RESPONSE_COMPLETED;
    }
    bool cut = kind_of(part) == WHIM_CHAT_CALL_BEGIN || !c->ended ||
               whim_answer_choice_finish(c) == WHIM_FINISH_LENGTH;
    return cut ? WHIM_RESPONSE_INCOMPLETE : WHIM_RESPONSE_COMPLETED;
}

static void put_call(const json_t *tools, const whim_answer_part *part, bool whole, whim_str *out)
{
    const char *name = whim_str_text(&part->name);
    const char *group = whim_offer_group_of(&whim_responses_tools, tools, name);
    int64_t n_group = group == NULL ? 0 : (int64_t)strlen(group) + 2;
    whim_str_printf(out, ",\"call_id\":\"call_%s\",\"name\":", part->id);
    whim_put_text(out, name + n_group, part->name.len - n_group);
    if (group != NULL) {
        whim_str_append(out, ",\"namespace\":");
        whim_put_cstr(out, group);
    }
    whim_str_append(out, ",\"arguments\":");
    if (whole && part->complete && part->text.len == 0) {
        whim_str_append(out, "\"{}\"");
    } else {
        whim_put_text(out, whim_str_text(&part->text), whole ? part->text.len : 0);
    }
}

void whim_response_put_item(const whim_response *r, int32_t index, bool whole, whim_str *out)
{
    static const char *const types[] = {"reasoning", "message", "function_call"};
    const whim_answer_part *part = part_at(r->c, index);
    whim_chat_event_kind kind = kind_of(part);
    const char *text = part == NULL ? "" : whim_str_text(&part->text);
    int64_t n = part == NULL ? 0 : part->text.len;
    whim_str_append(out, "{\"id\":");
    whim_response_put_item_id(r->id, r->c, index, out);
    whim_str_printf(out, ",\"type\":\"%s\",\"status\":\"%s\"",
                    types[kind == WHIM_CHAT_REASONING    ? 0
                          : kind == WHIM_CHAT_CALL_BEGIN ? 2
                                                         : 1],
                    whim_response_status_name(item_status(r->c, index, whole)));
    if (kind == WHIM_CHAT_CALL_BEGIN) {
        put_call(whim_peek(r->task->body, "tools"), part, whole, out);
        whim_str_append_char(out, '}');
        return;
    }
    bool thought = kind == WHIM_CHAT_REASONING;
    whim_str_append(out, thought ? ",\"summary\":[],\"encrypted_content\":null,\"content\":["
                                 : ",\"role\":\"assistant\",\"content\":[");
    if (whole) {
        whim_str_append(out, thought ? "{\"type\":\"reasoning_text\",\"text\":"
                                     : "{\"type\":\"output_text\",\"annotations\":[],"
                                       "\"logprobs\":[],\"text\":");
        whim_put_text(out, text, n);
        whim_str_append_char(out, '}');
    }
    whim_str_append(out, "]}");
}

static void put_error(const whim_fault *fault, whim_str *out)
{
    if (fault == NULL) {
        whim_str_append(out, ",\"error\":null");
        return;
    }
    const char *code = fault->kind == WHIM_FAULT_CONTEXT      ? "context_length_exceeded"
                       : fault->kind == WHIM_FAULT_QUEUE_FULL ? "rate_limit_exceeded"
                                                              : "server_error";
    whim_str message = {0};
    whim_fault_message(fault, WHIM_DIALECT_OPENAI, &message);
    whim_str_printf(out, ",\"error\":{\"code\":\"%s\",\"message\":", code);
    whim_put_text(out, whim_str_text(&message), message.len);
    whim_str_append_char(out, '}');
    whim_str_deinit(&message);
}

static void put_usage(const whim_usage *u, whim_str *out)
{
    if (u == NULL) {
        whim_str_append(out, ",\"usage\":null");
        return;
    }
    whim_str_printf(out,
                    ",\"usage\":{\"input_tokens\":%" PRId64
                    ",\"input_tokens_details\":{\"cached_tokens\":%" PRId64
                    ",\"cache_write_tokens\":0},\"output_tokens\":%" PRId64
                    ",\"output_tokens_details\":{\"reasoning_tokens\":%" PRId64
                    "},\"total_tokens\":%" PRId64 "}",
                    u->n_prompt, u->n_cached, u->n_made, u->n_reasoning, u->n_prompt + u->n_made);
}

static void put_output(const whim_response *r, whim_str *out)
{
    whim_str_append(out, ",\"output\":[");
    for (int32_t i = 0; r->c != NULL && i < (r->c->n_part == 0 ? 1 : r->c->n_part); i++) {
        whim_str_append(out, i > 0 ? "," : "");
        whim_response_put_item(r, i, true, out);
    }
    whim_str_append_char(out, ']');
}

/* The functions of the request; tools that were left out are not said to be there. */
static void put_tools(const json_t *tools, whim_str *out)
{
    bool any = false;
    whim_str_append(out, ",\"tools\":[");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i), *type = whim_peek(tool, "type");
        if (whim_peek_is(type, whim_responses_tools.type) ||
            whim_peek_is(type, whim_responses_tools.group)) {
            whim_str_append(out, any ? "," : "");
            whim_put_json(out, tool);
            any = true;
        }
    }
    whim_str_append_char(out, ']');
}

static void put_value(const char *key, const json_t *value, const char *otherwise, whim_str *out)
{
    whim_str_printf(out, ",\"%s\":", key);
    if (value == NULL) {
        whim_str_append(out, otherwise);
    } else {
        whim_put_json(out, value);
    }
}

/* What was asked, as far as it was understood. The instructions are not repeated: they are long,
 * and each event of a stream that holds a response would carry them. */
static void put_request(const whim_task *task, bool brief, whim_str *out)
{
    const json_t *body = task->body, *text = whim_peek(body, "text");
    whim_str_append(out, ",\"background\":false,\"instructions\":null,\"max_output_tokens\":");
    if (task->max_tokens > 0) {
        whim_str_printf(out, "%" PRId64, task->max_tokens);
    } else {
        whim_str_append(out, "null");
    }
    put_value("metadata", brief ? NULL : whim_peek(body, "metadata"), "{}", out);
    whim_str_printf(out, ",\"parallel_tool_calls\":%s,\"previous_response_id\":null",
                    task->one_call ? "false" : "true");
    whim_str_append(out, ",\"reasoning\":{\"effort\":");
    whim_put_cstr(out, task->effort);
    whim_str_append(out, ",\"summary\":null},\"temperature\":");
    whim_put_real(out, task->params.temperature);
    put_value("text\":{\"format", whim_peek(text, "format"), "{\"type\":\"text\"}", out);
    whim_str_append_char(out, '}');
    put_value("tool_choice", whim_peek(body, "tool_choice"), "\"auto\"", out);
    put_tools(brief ? NULL : whim_peek(body, "tools"), out);
    whim_str_append(out, ",\"top_p\":");
    whim_put_real(out, task->params.top_p);
    whim_str_append(out, ",\"truncation\":\"disabled\"");
}

void whim_response_put(const whim_response *r, whim_str *out)
{
    bool cut = r->status == WHIM_RESPONSE_INCOMPLETE;
    whim_str_printf(out,
                    "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%" PRId64
                    ",\"status\":\"%s\",\"model\":",
                    r->id, r->created, whim_response_status_name(r->status));
    whim_put_cstr(out, r->api->model);
    put_error(r->fault, out);
    whim_str_append(out, cut ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"
                             : ",\"incomplete_details\":null");
    put_output(r, out);
    put_request(r->task, r->brief, out);
    put_usage(r->usage, out);
    whim_str_append_char(out, '}');
}

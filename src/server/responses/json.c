/* SPDX-License-Identifier: Apache-2.0 */
/* Response objects and their items as JSON. Strict clients check every key of them. */
#include "server/body/body.h"
#include "server/responses/responses.h"

#include <string.h>

static const whim_answer_part *part_at(const whim_answer_choice *c, int32_t index)
{
    return index < c->n_part ? &c->parts[index] : NULL;
}

static whim_chat_event_kind kind_of(const whim_answer_part *part)
{
    return part == NULL ? WHIM_CHAT_CONTENT : part->kind;
}

bool whim_response_is_text_call(const whim_task *task, const whim_answer_part *part)
{
    return kind_of(part) == WHIM_CHAT_CALL_BEGIN &&
           whim_offer_takes_text(&whim_responses_tools, whim_peek(task->body, "tools"),
                                 whim_str_text(&part->name));
}

void whim_response_put_input(const whim_answer_part *part, whim_str *out)
{
    json_t *text = whim_offer_text(whim_str_text(&part->text), part->text.len);
    if (text != NULL) {
        whim_put_text(out, json_string_value(text), (int64_t)json_string_length(text));
    } else {
        whim_put_form(out, "%t", &part->text);
    }
    json_decref(text);
}

void whim_response_put_item_id(const whim_response *r, int32_t index, whim_str *out)
{
    const whim_answer_part *part = part_at(r->c, index);
    if (kind_of(part) == WHIM_CHAT_CALL_BEGIN) {
        whim_put_form(out, "'%s_%s'", whim_response_is_text_call(r->task, part) ? "ctc" : "fc",
                      part->id);
    } else {
        whim_put_form(out, "'%s_%s_%d'", kind_of(part) == WHIM_CHAT_REASONING ? "rs" : "msg",
                      r->id + strlen("resp_"), index);
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
    bool is_empty = whole && part->complete && part->text.len == 0;
    whim_put_form(out, ",'call_id':'call_%s','name':%n", part->id, name + n_group,
                  part->name.len - n_group);
    whim_put_form(out, group != NULL ? ",'namespace':%q,'arguments':" : ",'arguments':", group);
    whim_put_form(out, is_empty ? "'{}'" : "%n", whim_str_text(&part->text),
                  whole ? part->text.len : INT64_C(0));
}

static void put_text_call(const whim_answer_part *part, bool whole, whim_str *out)
{
    whim_put_form(out, ",'call_id':'call_%s','name':%t,'input':", part->id, &part->name);
    if (whole) {
        whim_response_put_input(part, out);
    } else {
        whim_str_append(out, "\"\"");
    }
}

void whim_response_put_item(const whim_response *r, int32_t index, bool whole, whim_str *out)
{
    const whim_answer_part *part = part_at(r->c, index);
    whim_chat_event_kind kind = kind_of(part);
    bool is_call = kind == WHIM_CHAT_CALL_BEGIN, thought = kind == WHIM_CHAT_REASONING;
    bool is_text = whim_response_is_text_call(r->task, part);
    whim_str_append(out, "{\"id\":");
    whim_response_put_item_id(r, index, out);
    whim_put_form(out, ",'type':%q,'status':%q",
                  is_text   ? "custom_tool_call"
                  : is_call ? "function_call"
                  : thought ? "reasoning"
                            : "message",
                  whim_response_status_name(item_status(r->c, index, whole)));
    if (is_call) {
        if (is_text) {
            put_text_call(part, whole, out);
        } else {
            put_call(whim_peek(r->task->body, "tools"), part, whole, out);
        }
        whim_str_append_char(out, '}');
        return;
    }
    whim_put_form(out, thought ? ",'summary':[],'encrypted_content':null,'content':["
                               : ",'role':'assistant','content':[");
    if (whole) {
        whim_put_form(out,
                      thought ? "{'type':'reasoning_text','text':%t}"
                              : "{'type':'output_text','annotations':[],'logprobs':[],'text':%t}",
                      part == NULL ? &(whim_str){0} : &part->text);
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
    /* Without memory for the message the code alone is told. */
    whim_put_form(out, ",'error':{'code':%q,'message':%n}", code, whim_str_text(&message),
                  message.len);
    whim_str_deinit(&message);
}

static void put_usage(const whim_usage *u, whim_str *out)
{
    if (u == NULL) {
        whim_str_append(out, ",\"usage\":null");
        return;
    }
    whim_put_form(out,
                  ",'usage':{'input_tokens':%l,'input_tokens_details':{'cached_tokens':%l,"
                  "'cache_write_tokens':0},'output_tokens':%l,'output_tokens_details':"
                  "{'reasoning_tokens':%l},'total_tokens':%l}",
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
            whim_peek_is(type, whim_responses_tools.text_type) ||
            whim_peek_is(type, whim_responses_tools.group)) {
            whim_str_append(out, any ? "," : "");
            whim_put_json(out, tool);
            any = true;
        }
    }
    whim_str_append_char(out, ']');
}

/* What was asked, as far as it was understood. The instructions are not repeated: they are long,
 * and each event of a stream that holds a response would carry them. */
static void put_request(const whim_task *task, bool brief, whim_str *out)
{
    const json_t *body = task->body, *format = whim_peek(whim_peek(body, "text"), "format");
    const json_t *metadata = brief ? NULL : whim_peek(body, "metadata");
    const json_t *choice = whim_peek(body, "tool_choice");
    whim_put_form(out,
                  task->ask.max_tokens > 0
                      ? ",'background':false,'instructions':null,'max_output_tokens':%l"
                      : ",'background':false,'instructions':null,'max_output_tokens':null",
                  task->ask.max_tokens);
    whim_put_form(out, metadata == NULL ? ",'metadata':{}" : ",'metadata':%j", metadata);
    whim_put_form(out,
                  ",'parallel_tool_calls':%s,'previous_response_id':%j,'reasoning':{'effort':%q,"
                  "'summary':null},'temperature':%r,'text':{'format':",
                  task->ask.one_call ? "false" : "true", whim_peek(body, "previous_response_id"),
                  task->ask.effort, (double)task->sampling.temperature);
    whim_put_form(out, format == NULL ? "{'type':'text'}}" : "%j}", format);
    whim_put_form(out, choice == NULL ? ",'tool_choice':'auto'" : ",'tool_choice':%j", choice);
    put_tools(brief ? NULL : whim_peek(body, "tools"), out);
    whim_put_form(out, ",'top_p':%r,'truncation':'disabled'", (double)task->sampling.top_p);
}

void whim_response_put(const whim_response *r, whim_str *out)
{
    bool cut = r->status == WHIM_RESPONSE_INCOMPLETE;
    whim_put_form(out, "{'id':%q,'object':'response','created_at':%l,'status':%q,'model':%q", r->id,
                  r->created, whim_response_status_name(r->status), r->api->name);
    put_error(r->fault, out);
    whim_put_form(out, cut ? ",'incomplete_details':{'reason':'max_output_tokens'}"
                           : ",'incomplete_details':null");
    put_output(r, out);
    put_request(r->task, r->brief, out);
    put_usage(r->usage, out);
    whim_str_append_char(out, '}');
}

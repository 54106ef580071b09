/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of /v1/messages: the event stream and the whole message. A part of the choice is a block,
 * with the part's number as its index.
 * Invariants of a stream: 1. (ping)*, message_start, ping, blocks, message_delta, message_stop; 2.
 * at most one block is open, and there is at least one; 3. input_json_delta pieces joined are a
 * prefix of valid JSON. */
#include "server/anthropic/anthropic.h"
#include "server/body/body.h"

#include <string.h>

static void send_event(whim_answer *a)
{
    whim_sse_end(&a->out);
    whim_answer_send(a);
}

/* Thinking with display "omitted": the client wants the block and its signature, not the text. */
static bool hides_thinking(const whim_answer *a)
{
    const json_t *thinking = whim_peek(a->task->body, "thinking");
    return whim_peek_is(whim_peek(thinking, "display"), "omitted");
}

/* Clients drop thinking without a signature when they send it back. Ours signs nothing: what comes
 * back is taken as any other text of the conversation. */
static void put_signature(const whim_answer *a, whim_str *out)
{
    whim_put_form(out, ",'signature':'whim%s'", a->id + strlen(a->form->id_prefix));
}

static void put_usage(whim_str *out, whim_usage usage, int64_t n_made)
{
    whim_put_form(out,
                  ",'usage':{'input_tokens':%l,'cache_creation_input_tokens':0,"
                  "'cache_read_input_tokens':%l,'output_tokens':%l",
                  usage.n_prompt - usage.n_cached, usage.n_cached, n_made);
    whim_put_form(out,
                  n_made > 0 && usage.n_reasoning > 0
                      ? ",'output_tokens_details':{'thinking_tokens':%l}}"
                      : "}",
                  usage.n_reasoning);
}

/* "stop_reason" and "stop_sequence". */
static void put_stop(const whim_answer *a, whim_str *out)
{
    const whim_answer_choice *c = &a->choices[0];
    whim_finish finish = whim_answer_choice_finish(c);
    const char *reason = "end_turn", *sequence = NULL;
    if (finish == WHIM_FINISH_CALLS) {
        reason = "tool_use";
    } else if (finish == WHIM_FINISH_LENGTH) {
        bool full = c->end == WHIM_END_CONTEXT || c->end == WHIM_END_KV;
        reason = full ? "model_context_window_exceeded" : "max_tokens";
    } else if (c->stop >= 0) {
        reason = "stop_sequence";
        sequence = a->task->ask.stops[c->stop];
    }
    whim_put_form(out, "'stop_reason':%q,'stop_sequence':%q", reason, sequence);
}

/* A message up to its content. */
static void put_head(const whim_answer *a, whim_str *out)
{
    whim_put_form(out, "{'id':%q,'type':'message','role':'assistant','model':%q,'content':[", a->id,
                  a->api->name);
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* A block as it begins, without its closing brace; `text` and `n` are what it holds already. */
static void put_block(const whim_answer *a, const whim_answer_part *part, const char *text,
                      int64_t n, whim_str *out)
{
    if (part != NULL && part->kind == WHIM_CHAT_CALL_BEGIN) {
        whim_put_form(out, "{'type':'tool_use','id':'toolu_%s','name':%t,'input':", part->id,
                      &part->name);
        whim_str_append_n(out, n > 0 ? text : "{}", n > 0 ? n : 2);
    } else if (part != NULL && part->kind == WHIM_CHAT_REASONING) {
        whim_put_form(out, "{'type':'thinking','thinking':%n", text,
                      hides_thinking(a) ? INT64_C(0) : n);
    } else {
        whim_put_form(out, "{'type':'text','text':%n", text, n);
    }
}

static void begin_block(whim_answer *a, const whim_answer_choice *c)
{
    const whim_answer_part *part = whim_answer_item_part(a, c);
    bool thinks = part != NULL && part->kind == WHIM_CHAT_REASONING;
    whim_sse_begin(&a->out, "content_block_start");
    whim_put_form(&a->out, ",'index':%d,'content_block':", a->n_item - 1);
    put_block(a, part, "", 0, &a->out);
    whim_put_form(&a->out, thinks ? ",'signature':''}" : "}");
    send_event(a);
}

/* Up to the delta's own field. */
static void begin_delta(whim_answer *a, const char *type)
{
    whim_sse_begin(&a->out, "content_block_delta");
    whim_put_form(&a->out, ",'index':%d,'delta':{'type':%q", a->n_item - 1, type);
}

static void delta(whim_answer *a, const whim_answer_choice *c, whim_chat_event_kind kind,
                  const char *text, int64_t n)
{
    static const char *const words[][2] = {
        [WHIM_CHAT_REASONING] = {"thinking_delta", "thinking"},
        [WHIM_CHAT_CONTENT] = {"text_delta", "text"},
        [WHIM_CHAT_CALL_ARGS] = {"input_json_delta", "partial_json"},
    };
    (void)c;
    if (kind != WHIM_CHAT_REASONING || !hides_thinking(a)) {
        begin_delta(a, words[kind][0]);
        whim_put_form(&a->out, ",%q:%n}", words[kind][1], text, n);
        send_event(a);
    }
}

static void end_block(whim_answer *a, const whim_answer_choice *c)
{
    const whim_answer_part *part = whim_answer_item_part(a, c);
    if (part != NULL && part->kind == WHIM_CHAT_REASONING) {
        begin_delta(a, "signature_delta");
        put_signature(a, &a->out);
        whim_str_append_char(&a->out, '}');
        send_event(a);
    }
    whim_sse_begin(&a->out, "content_block_stop");
    whim_put_form(&a->out, ",'index':%d", a->n_item - 1);
    send_event(a);
}

/* --- the form --------------------------------------------------------------------------------- */

static void keep_alive(whim_answer *a)
{
    whim_sse_begin(&a->out, "ping");
    send_event(a);
}

/* The first event, because only now is it known how much of the prompt was there already; until
 * then the headers and pings are all there is. */
static void admitted(whim_answer *a)
{
    whim_sse_begin(&a->out, "message_start");
    whim_str_append(&a->out, ",\"message\":");
    put_head(a, &a->out);
    whim_str_append(&a->out, "],\"stop_reason\":null,\"stop_sequence\":null");
    put_usage(&a->out, whim_answer_usage(a), 0);
    whim_str_append_char(&a->out, '}');
    send_event(a);
    keep_alive(a);
}

/* The blocks of a whole message. A call that the limit cut is no object: only a stream can show
 * it. */
static void put_content(const whim_answer *a, whim_str *out)
{
    const whim_answer_choice *c = &a->choices[0];
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_part; i++) {
        const whim_answer_part *part = &c->parts[i];
        if (part->kind == WHIM_CHAT_CALL_BEGIN && !part->complete) {
            continue;
        }
        whim_str_append(out, n++ > 0 ? "," : "");
        put_block(a, part, whim_str_text(&part->text), part->text.len, out);
        if (part->kind == WHIM_CHAT_REASONING) {
            put_signature(a, out);
        }
        whim_str_append_char(out, '}');
    }
    if (n == 0) {
        put_block(a, NULL, "", 0, out);
        whim_str_append_char(out, '}');
    }
}

static void finish(whim_answer *a)
{
    whim_usage usage = whim_answer_usage(a);
    if (!a->task->stream) {
        put_head(a, &a->out);
        put_content(a, &a->out);
        whim_str_append(&a->out, "],");
        put_stop(a, &a->out);
        put_usage(&a->out, usage, usage.n_made);
        whim_str_append_char(&a->out, '}');
        return;
    }
    whim_sse_begin(&a->out, "message_delta");
    whim_str_append(&a->out, ",\"delta\":{");
    put_stop(a, &a->out);
    whim_str_append_char(&a->out, '}');
    put_usage(&a->out, usage, usage.n_made);
    send_event(a);
    whim_sse_begin(&a->out, "message_stop");
    send_event(a);
}

static void fail(whim_answer *a, const whim_fault *fault)
{
    whim_str_append(&a->out, "event: error\ndata: ");
    whim_fault_body(fault, WHIM_DIALECT_ANTHROPIC, whim_exchange_request(a->ex)->request_id,
                    &a->out);
    whim_str_append(&a->out, "\n\n");
    whim_answer_send(a);
}

const whim_answer_form whim_anthropic_form = {
    .read = whim_anthropic_read_whole,
    .id_prefix = "msg_",
    .dialect = WHIM_DIALECT_ANTHROPIC,
    .admitted = admitted,
    .event = whim_answer_item_event,
    .choice_end = whim_answer_item_end,
    .item_begin = begin_block,
    .item_delta = delta,
    .item_end = end_block,
    .finish = finish,
    .fail = fail,
    .keep_alive = keep_alive,
};

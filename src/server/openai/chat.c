/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/chat/completions: the route, and how its answers are written. */
#include "server/openai/openai.h"
#include "server/router.h"

typedef struct chat_state {
    whim_str head; /* what every chunk begins with */
} chat_state;

/* `data: {head,"choices":[{"index":i,"delta":{` */
static void open_delta(whim_answer *a, const whim_answer_choice *c)
{
    const chat_state *s = a->state;
    whim_str_append_n(&a->out, whim_str_text(&s->head), s->head.len);
    whim_put_form(&a->out, "{'index':%d,'delta':{", c->index);
}

static void put_delta_end(whim_answer *a, whim_answer_choice *c)
{
    whim_str_append(&a->out, "},\"logprobs\":");
    whim_openai_put_chat_logprobs(a, c);
    whim_openai_put_end(a, c, c->ended);
    whim_str_append_char(&a->out, '}');
    whim_answer_choice_covered(c);
}

static void close_delta(whim_answer *a, whim_answer_choice *c)
{
    put_delta_end(a, c);
    whim_openai_send_chunk(a);
}

static void chat_begin(whim_answer *a)
{
    chat_state *s = a->state;
    whim_str_append(&s->head, "data: {");
    whim_openai_put_head(a, "chat.completion.chunk", &s->head);
    whim_str_append(&s->head, ",\"choices\":[");
    for (int32_t i = 0; i < a->n_choice; i++) {
        open_delta(a, &a->choices[i]);
        whim_str_append(&a->out, "\"role\":\"assistant\",\"content\":\"\"");
        close_delta(a, &a->choices[i]);
    }
}

/* An empty delta: clients that do not know the field see nothing new. */
static void chat_progress(whim_answer *a, int32_t p)
{
    open_delta(a, &a->choices[0]);
    put_delta_end(a, &a->choices[0]);
    whim_openai_send_progress(a, p);
}

/* Reasoning goes out under the two names that clients look for. */
static void put_reasoning(whim_str *out, const char *text, int64_t n)
{
    whim_put_form(out, "'reasoning_content':%n,'reasoning':%n", text, n, text, n);
}

static void chat_event(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                       const whim_chat_event *ev)
{
    if (!a->task->stream || ev->kind == WHIM_CHAT_CALL_END) {
        return;
    }
    open_delta(a, c);
    switch (ev->kind) {
    case WHIM_CHAT_REASONING:
        put_reasoning(&a->out, ev->text, ev->n);
        break;
    case WHIM_CHAT_CALL_BEGIN:
        /* Id, type and name once: the client's helper joins repeated strings. */
        whim_put_form(&a->out,
                      "'tool_calls':[{'index':%d,'id':'call_%s','type':'function',"
                      "'function':{'name':%n,'arguments':''}}]",
                      c->n_call - 1, part->id, ev->text, ev->n);
        break;
    case WHIM_CHAT_CALL_ARGS:
        whim_put_form(&a->out, "'tool_calls':[{'index':%d,'function':{'arguments':%n}}]",
                      c->n_call - 1, ev->text, ev->n);
        break;
    default:
        whim_put_form(&a->out, "'content':%n", ev->text, ev->n);
    }
    close_delta(a, c);
}

static void chat_choice_end(whim_answer *a, whim_answer_choice *c)
{
    open_delta(a, c);
    close_delta(a, c);
}

static void put_calls(whim_answer *a, const whim_answer_choice *c)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_part; i++) {
        const whim_answer_part *part = &c->parts[i];
        if (part->kind != WHIM_CHAT_CALL_BEGIN) {
            continue;
        }
        whim_str_append(&a->out, n++ == 0 ? ",\"tool_calls\":[" : ",");
        whim_put_form(&a->out,
                      "{'id':'call_%s','type':'function','function':{'name':%t,'arguments':%t}}",
                      part->id, &part->name, &part->text);
    }
    whim_str_append(&a->out, n > 0 ? "]" : "");
}

static void put_choice(whim_answer *a, whim_answer_choice *c)
{
    whim_str text = {0};
    bool any = whim_answer_choice_text(c, WHIM_CHAT_CONTENT, &text);
    whim_put_form(&a->out, "{'index':%d,'message':{'role':'assistant','content':", c->index);
    whim_put_form(&a->out, !any && c->n_call > 0 ? "null,'refusal':null" : "%t,'refusal':null",
                  &text);
    whim_str_clear(&text);
    if (whim_answer_choice_text(c, WHIM_CHAT_REASONING, &text)) {
        whim_str_append_char(&a->out, ',');
        put_reasoning(&a->out, whim_str_text(&text), text.len);
    }
    a->out.failed |= text.failed;
    whim_str_deinit(&text);
    put_calls(a, c);
    whim_str_append(&a->out, "},\"logprobs\":");
    whim_openai_put_chat_logprobs(a, c);
    whim_openai_put_end(a, c, true);
    whim_str_append_char(&a->out, '}');
}

static void chat_finish(whim_answer *a)
{
    const chat_state *s = a->state;
    whim_openai_finish(a, &s->head, "chat.completion", put_choice);
}

static void chat_deinit(whim_answer *a)
{
    chat_state *s = a->state;
    whim_str_deinit(&s->head);
}

static const whim_answer_form chat_form = {
    .read = whim_openai_read_chat,
    .id_prefix = "chatcmpl-",
    .dialect = WHIM_DIALECT_OPENAI,
    .state_bytes = sizeof(chat_state),
    .begin = chat_begin,
    .progress = chat_progress,
    .event = chat_event,
    .choice_end = chat_choice_end,
    .finish = chat_finish,
    .fail = whim_openai_fail,
    .keep_alive = whim_openai_keep_alive,
    .deinit = chat_deinit,
};

void whim_route_chat(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &chat_form);
}

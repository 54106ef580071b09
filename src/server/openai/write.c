/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of OpenAI answers: heads, usage, log-probabilities, the ends of streams. */
#include "server/openai/openai.h"

#include "base/utf8.h"

#include <string.h>

void whim_openai_put_head(const whim_answer *a, const char *object, whim_str *out)
{
    whim_put_form(out, "'id':%q,'object':%q,'created':%l,'model':%q,'system_fingerprint':%q", a->id,
                  object, a->created, a->api->name, a->api->fingerprint);
}

static void put_usage(const whim_answer *a, whim_str *out)
{
    whim_usage u = whim_answer_usage(a);
    whim_put_form(out,
                  "{'prompt_tokens':%l,'completion_tokens':%l,'total_tokens':%l,"
                  "'prompt_tokens_details':{'cached_tokens':%l},"
                  "'completion_tokens_details':{'reasoning_tokens':%l,"
                  "'proposed_tokens':%l,'accepted_tokens':%l",
                  u.n_prompt, u.n_made, u.n_prompt + u.n_made, u.n_cached, u.n_reasoning,
                  u.n_proposed, u.n_right);
    if (a->task->ask.prediction != NULL) {
        whim_put_form(out, ",'accepted_prediction_tokens':%l,'rejected_prediction_tokens':%l",
                      u.n_predicted, u.n_mispredicted);
    }
    whim_str_append(out, "}}");
}

/* `,"timings":{..}` where the request wants it, else nothing. */
static void put_timings(const whim_answer *a, whim_str *out)
{
    if (!a->task->return_timings) {
        return;
    }
    whim_answer_times t = whim_answer_get_times(a);
    int64_t n = whim_answer_usage(a).n_made - a->n_choice; /* the first ones end the prefill */
    whim_str_printf(out,
                    ",\"timings\":{\"queue_ms\":%.3f,\"first_token_ms\":%.3f,\"decode_ms\":%.3f,"
                    "\"tokens_per_second\":%.3f}",
                    t.queue_ms, t.first_token_ms, t.decode_ms,
                    n > 0 && t.decode_ms > 0 ? (double)n * 1000 / t.decode_ms : 0.0);
}

static void put_chunk_usage(whim_answer *a)
{
    whim_str_append_char(&a->out, ']');
    if (a->task->continuous_usage) {
        whim_str_append(&a->out, ",\"usage\":");
        put_usage(a, &a->out);
    } else if (a->task->include_usage) {
        whim_str_append(&a->out, ",\"usage\":null");
    }
}

void whim_openai_send_chunk(whim_answer *a)
{
    put_chunk_usage(a);
    whim_str_append(&a->out, "}\n\n");
    whim_answer_send(a);
}

void whim_openai_send_progress(whim_answer *a, int32_t p)
{
    put_chunk_usage(a);
    whim_str_append_char(&a->out, ',');
    whim_answer_put_progress(a, p, &a->out);
    whim_str_append(&a->out, "}\n\n");
    whim_answer_send(a);
}

void whim_openai_put_ids(whim_str *out, const int32_t *ids, int64_t n)
{
    whim_str_append_char(out, '[');
    for (int64_t i = 0; i < n; i++) {
        whim_str_printf(out, "%s%d", i == 0 ? "" : ",", ids[i]);
    }
    whim_str_append_char(out, ']');
}

void whim_openai_put_end(whim_answer *a, const whim_answer_choice *c, bool finishes)
{
    whim_str *out = &a->out;
    if (!finishes) {
        whim_str_append(out, ",\"finish_reason\":null");
    } else {
        whim_finish finish = whim_answer_choice_finish(c);
        bool in_circles = finish == WHIM_FINISH_LENGTH && c->end == WHIM_END_REPETITION;
        whim_str_printf(out, ",\"finish_reason\":\"%s\"%s", whim_finish_name(finish),
                        in_circles ? ",\"stop_reason\":\"repetition\"" : "");
    }
    if (!a->task->return_token_ids) {
        return;
    }
    whim_str_append(out, ",\"token_ids\":[");
    for (int64_t i = 0; i < c->pending.n; i++) {
        whim_str_printf(out, "%s%d", i == 0 ? "" : ",", c->pending.tokens[i].id);
    }
    whim_str_append_char(out, ']');
}

void whim_openai_put_token(const whim_answer *a, int32_t id, whim_str *out)
{
    int64_t n = 0;
    const char *bytes = whim_tokenizer_bytes(a->api->tok, id, &n);
    if (a->task->tokens_as_ids) {
        whim_str_printf(out, "\"token_id:%d\"", id);
        return;
    }
    if (whim_utf8_valid_prefix(bytes, n) == n) {
        whim_put_text(out, bytes, n);
        return;
    }
    whim_str_append(out, "\"bytes:");
    for (int64_t i = 0; i < n; i++) {
        whim_str_printf(out, "\\\\x%02x", (unsigned)(uint8_t)bytes[i]);
    }
    whim_str_append_char(out, '"');
}

void whim_openai_put_entry(const whim_answer *a, int32_t id, float logprob, whim_str *out)
{
    int64_t n = 0;
    const char *bytes = whim_tokenizer_bytes(a->api->tok, id, &n);
    whim_str_append(out, "\"token\":");
    if (a->task->tokens_as_ids) {
        whim_openai_put_token(a, id, out);
    } else {
        whim_put_text(out, bytes, n);
    }
    whim_put_form(out, ",'logprob':%r,'bytes':[", (double)logprob);
    for (int64_t i = 0; i < n; i++) {
        whim_str_printf(out, "%s%u", i == 0 ? "" : ",", (unsigned)(uint8_t)bytes[i]);
    }
    whim_str_append_char(out, ']');
}

void whim_openai_put_chat_logprobs(whim_answer *a, const whim_answer_choice *c)
{
    whim_str *out = &a->out;
    int64_t told = 0;
    for (int64_t i = 0; a->task->ask.logprobs && i < c->pending.n; i++) {
        const whim_answer_token *t = &c->pending.tokens[i];
        if (t->is_end) {
            continue;
        }
        whim_str_append(out, told++ == 0 ? "{\"content\":[{" : ",{");
        whim_openai_put_entry(a, t->id, t->logprob, out);
        whim_str_append(out, ",\"top_logprobs\":[");
        for (int32_t k = 0; k < t->n_top; k++) {
            whim_str_append(out, k == 0 ? "{" : ",{");
            whim_openai_put_entry(a, t->top[k].id, t->top[k].logprob, out);
            whim_str_append_char(out, '}');
        }
        whim_str_append(out, "]}");
    }
    whim_str_append(out, told > 0 ? "],\"refusal\":null}" : "null");
}

void whim_openai_put_prompt_ids(whim_answer *a, int32_t p)
{
    if (a->task->return_token_ids) {
        int64_t n;
        const int32_t *ids = whimbrel_prompt_ids(a->task->requests[p], &n);
        whim_str_append(&a->out, ",\"prompt_token_ids\":");
        whim_openai_put_ids(&a->out, ids, n);
    }
}

/* What follows the choices of a whole answer. */
static void put_rest(whim_answer *a)
{
    whim_str_append(&a->out, "],\"usage\":");
    put_usage(a, &a->out);
    put_timings(a, &a->out);
}

static void send_done(whim_answer *a)
{
    whim_str_append(&a->out, "data: [DONE]\n\n");
    whim_answer_send(a);
}

static void finish_stream(whim_answer *a, const whim_str *head)
{
    if (a->task->include_usage) {
        whim_str_append_n(&a->out, whim_str_text(head), head->len);
        put_rest(a);
        whim_str_append(&a->out, "}\n\n");
        whim_answer_send(a);
    }
    send_done(a);
}

void whim_openai_finish(whim_answer *a, const whim_str *head, const char *object,
                        void (*put_choice)(whim_answer *a, whim_answer_choice *c))
{
    if (a->task->stream) {
        finish_stream(a, head);
        return;
    }
    whim_str_append_char(&a->out, '{');
    whim_openai_put_head(a, object, &a->out);
    whim_str_append(&a->out, ",\"choices\":[");
    for (int32_t i = 0; i < a->n_choice; i++) {
        whim_str_append(&a->out, i == 0 ? "" : ",");
        put_choice(a, &a->choices[i]);
    }
    put_rest(a);
    if (a->task->messages != NULL) { /* raw prompts have theirs in the choices */
        whim_openai_put_prompt_ids(a, 0);
    }
    whim_str_append_char(&a->out, '}');
}

void whim_openai_fail(whim_answer *a, const whim_fault *fault)
{
    whim_str_append(&a->out, "data: ");
    whim_fault_body(fault, WHIM_DIALECT_OPENAI, whim_exchange_request(a->ex)->request_id, &a->out);
    whim_str_append(&a->out, "\n\n");
    whim_answer_send(a);
    send_done(a);
}

void whim_openai_keep_alive(whim_answer *a)
{
    /* A comment: a chunk without choices makes some clients index an empty list. */
    whim_str_append(&a->out, ": keep-alive\n\n");
    whim_answer_send(a);
}

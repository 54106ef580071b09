/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of /completion and /infill: an object for each, in a list where there are several; or an
 * event for each piece and a last one for each answer. */
#include "server/llamacpp/llamacpp.h"

#include "server/openai/openai.h"
#include "server/router.h"
#include "text/detokenizer.h"

#include <string.h>

void whim_llamacpp_put_settings(const whim_api *api, const whim_task *task, whim_str *out)
{
    const whimbrel_sampling *p = task != NULL ? &task->sampling : &api->sampling;
    int64_t most = task == NULL || task->ask.max_tokens == 0 ? -1
                   : task->ask.max_tokens < 0                ? 0
                                                             : task->ask.max_tokens;
    whim_put_form(
        out,
        "{'n_predict':%l,'max_tokens':%l,'seed':%l,'temperature':%r,'top_k':%d,'top_p':%r,"
        "'min_p':%r,'repeat_penalty':%r,'presence_penalty':%r,'frequency_penalty':%r,"
        "'xtc_probability':%r,'xtc_threshold':%r,'typical_p':1.0,'mirostat':0,'ignore_eos':%s,"
        "'stream':%s,'n_probs':%d,'stop':[",
        most, most, task != NULL ? (int64_t)p->seed : -1, (double)p->temperature, p->top_k,
        (double)p->top_p, (double)p->min_p, (double)p->repetition_penalty,
        (double)p->presence_penalty, (double)p->frequency_penalty, (double)p->xtc_probability,
        (double)p->xtc_threshold, task != NULL && task->ask.ignore_end ? "true" : "false",
        task != NULL && task->stream ? "true" : "false", task != NULL ? task->ask.top_logprobs : 0);
    for (int32_t i = 0; task != NULL && i < task->ask.n_stop; i++) {
        whim_put_form(out, i == 0 ? "%q" : ",%q", task->ask.stops[i]);
    }
    whim_str_append_char(out, ']');
    whim_llamacpp_put_bias(p, out);
    whim_str_append_char(out, '}');
}

/* --- parts of an answer ----------------------------------------------------------------------- */

static void put_tokens(const whim_answer *a, const whim_answer_choice *c, whim_str *out)
{
    whim_str_append(out, ",\"tokens\":[");
    for (int64_t i = 0; a->task->return_token_ids && i < c->pending.n; i++) {
        whim_str_printf(out, i == 0 ? "%d" : ",%d", c->pending.tokens[i].id);
    }
    whim_str_append_char(out, ']');
}

static void put_probabilities(const whim_answer *a, const whim_answer_choice *c, whim_str *out)
{
    if (!a->task->ask.logprobs) {
        return;
    }
    whim_str_append(out, ",\"completion_probabilities\":[");
    for (int64_t i = 0; i < c->pending.n; i++) {
        const whim_answer_token *t = &c->pending.tokens[i];
        whim_put_form(out, i == 0 ? "{'id':%d," : ",{'id':%d,", t->id);
        whim_openai_put_entry(a, t->id, t->logprob, out);
        whim_str_append(out, ",\"top_logprobs\":[");
        for (int32_t k = 0; k < t->n_top; k++) {
            whim_put_form(out, k == 0 ? "{'id':%d," : ",{'id':%d,", t->top[k].id);
            whim_openai_put_entry(a, t->top[k].id, t->top[k].logprob, out);
            whim_str_append_char(out, '}');
        }
        whim_str_append(out, "]}");
    }
    whim_str_append_char(out, ']');
}

/* `n_timed`: those of the n tokens that the time was for. */
static void put_speed(const char *name, int64_t n, int64_t n_timed, double ms, whim_str *out)
{
    bool known = n_timed > 0 && ms > 0;
    whim_put_form(out, ",'%s_n':%l,'%s_ms':%r,'%s_per_token_ms':%r,'%s_per_second':%r", name, n,
                  name, ms, name, known ? ms / (double)n_timed : 0.0, name,
                  known ? (double)n_timed * 1000 / ms : 0.0);
}

static void put_timings(const whim_answer *a, int64_t n_prompt, int64_t n_cached, int64_t n_made,
                        whim_str *out)
{
    whim_answer_times t = whim_answer_get_times(a);
    double prompt_ms = t.first_token_ms > t.queue_ms ? t.first_token_ms - t.queue_ms : 0;
    whim_put_form(out, ",'timings':{'cache_n':%l", n_cached);
    put_speed("prompt", n_prompt - n_cached, n_prompt - n_cached, prompt_ms, out);
    put_speed("predicted", n_made, n_made - 1, t.decode_ms,
              out); /* the prompt's end is the first */
    whim_str_append_char(out, '}');
}

/* The prompt's text; of several answers none has it, as it would be there for each. */
static void put_prompt(const whim_answer *a, int32_t p, whim_str *out)
{
    whim_str text = {0};
    int64_t n = 0;
    const int32_t *ids = whimbrel_prompt_ids(a->task->requests[p], &n);
    whim_detokenizer d;
    whim_detokenizer_init(&d, a->api->tok, true);
    for (int64_t i = 0; a->task->ask.n_choice == 1 && i < n; i++) {
        whim_detokenizer_push(&d, ids[i], &text);
    }
    whim_detokenizer_flush(&d, &text);
    whim_put_form(out, ",'prompt':%t", &text);
    whim_str_deinit(&text);
}

static bool has_new_line(const whim_answer_choice *c)
{
    bool found = false;
    for (int32_t i = 0; i < c->n_part && !found; i++) {
        found =
            memchr(whim_str_text(&c->parts[i].text), '\n', (size_t)c->parts[i].text.len) != NULL;
    }
    return found;
}

/* `{"index":..,"content":..,"tokens":..,"stop":..,"id_slot":..`, and counts. */
static void put_head(const whim_answer *a, const whim_answer_choice *c, const char *text, int64_t n,
                     whim_str *out)
{
    int64_t n_prompt = 0;
    whimbrel_prompt_ids(a->task->requests[c->index / a->task->ask.n_choice], &n_prompt);
    whim_put_form(out, "{'index':%d,'content':%n", c->index, text, n);
    put_tokens(a, c, out);
    whim_put_form(out, ",'id_slot':-1,'tokens_predicted':%l,'tokens_evaluated':%l", c->n_made,
                  n_prompt);
    put_probabilities(a, c, out);
}

/* What an answer ends with. */
static void put_end(const whim_answer *a, const whim_answer_choice *c, whim_str *out)
{
    int32_t p = c->index / a->task->ask.n_choice;
    int64_t n_prompt = 0, n_cached = a->prompts[p].n_cached;
    bool is_word = c->end == WHIM_END_STOP && c->stop >= 0 && c->stop < a->task->ask.n_stop;
    const char *why = c->end == WHIM_END_EOS ? "eos" : c->end == WHIM_END_STOP ? "word" : "limit";
    whimbrel_prompt_ids(a->task->requests[p], &n_prompt);
    whim_put_form(out, ",'stop':true,'model':%q,'generation_settings':", a->api->name);
    whim_llamacpp_put_settings(a->api, a->task, out);
    put_prompt(a, p, out);
    whim_put_form(out,
                  ",'has_new_line':%s,'truncated':%s,'stop_type':%q,'stopping_word':%q,"
                  "'tokens_cached':%l",
                  has_new_line(c) ? "true" : "false",
                  c->end == WHIM_END_CONTEXT || c->end == WHIM_END_KV ? "true" : "false", why,
                  is_word ? a->task->ask.stops[c->stop] : "", n_cached);
    put_timings(a, n_prompt, n_cached, c->n_made, out);
    whim_str_append_char(out, '}');
}

/* --- the forms -------------------------------------------------------------------------------- */

static void event(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                  const whim_chat_event *ev)
{
    (void)part;
    if (!a->task->stream) {
        return;
    }
    whim_str_append(&a->out, "data: ");
    put_head(a, c, ev->text, ev->n, &a->out);
    whim_str_append(&a->out, ",\"stop\":false}\n\n");
    whim_answer_choice_covered(c);
    whim_answer_send(a);
}

static void progress(whim_answer *a, int32_t p)
{
    whim_answer_choice *c = &a->choices[p * a->task->ask.n_choice];
    whim_str_append(&a->out, "data: ");
    put_head(a, c, "", 0, &a->out);
    whim_str_append(&a->out, ",\"stop\":false,");
    whim_answer_put_progress(a, p, &a->out);
    whim_str_append(&a->out, "}\n\n");
    whim_answer_send(a);
}

/* The last event has times, which are known when all answers have ended. */
static void choice_end(whim_answer *a, whim_answer_choice *c)
{
    (void)a;
    (void)c;
}

/* An answer with this text, of which streams have told all before; or what was chosen of it. */
static void put_whole(whim_answer *a, const whim_answer_choice *c, const char *text, int64_t n)
{
    whim_str whole = {0};
    put_head(a, c, text, n, &whole);
    put_end(a, c, &whole);
    whim_llamacpp_put_chosen(a->task, &whole, &a->out);
    a->out.failed |= whole.failed;
    whim_str_deinit(&whole);
}

static void finish_stream(whim_answer *a)
{
    for (int32_t i = 0; i < a->n_choice; i++) {
        whim_str_append(&a->out, "data: ");
        put_whole(a, &a->choices[i], "", 0);
        whim_str_append(&a->out, "\n\n");
        whim_answer_send(a);
    }
}

static void finish(whim_answer *a)
{
    if (a->task->stream) {
        finish_stream(a);
        return;
    }
    whim_str_append(&a->out, a->n_choice > 1 ? "[" : "");
    for (int32_t i = 0; i < a->n_choice; i++) {
        whim_str text = {0};
        whim_answer_choice_text(&a->choices[i], WHIM_CHAT_CONTENT, &text);
        whim_str_append(&a->out, i > 0 ? "," : "");
        put_whole(a, &a->choices[i], whim_str_text(&text), text.len);
        a->out.failed |= text.failed;
        whim_str_deinit(&text);
    }
    whim_str_append(&a->out, a->n_choice > 1 ? "]" : "");
}

static void fail(whim_answer *a, const whim_fault *fault)
{
    whim_str_append(&a->out, "data: ");
    whim_fault_body(fault, WHIM_DIALECT_OPENAI, whim_exchange_request(a->ex)->request_id, &a->out);
    whim_str_append(&a->out, "\n\n");
    whim_answer_send(a);
}

#define FORM                                                                                    \
    .id_prefix = "cmpl-", .dialect = WHIM_DIALECT_OPENAI, .event = event, .progress = progress, \
    .choice_end = choice_end, .finish = finish, .fail = fail, .keep_alive = whim_openai_keep_alive
const whim_answer_form whim_llamacpp_completion_form = {.read = whim_llamacpp_read_completion,
                                                        FORM};
const whim_answer_form whim_llamacpp_infill_form = {.read = whim_llamacpp_read_infill, FORM};

void whim_route_llamacpp_completion(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &whim_llamacpp_completion_form);
}

void whim_route_llamacpp_infill(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &whim_llamacpp_infill_form);
}

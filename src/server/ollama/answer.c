/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of /api/chat and /api/generate: an object, or a line for each piece and a last one with
 * "done" and the counts. */
#include "server/ollama/ollama.h"

#include "base/clock.h"
#include "server/body/body.h"

#include <stdio.h>
#include <time.h>

static bool is_chat(const whim_answer *a)
{
    return a->form == &whim_ollama_chat_form;
}

void whim_ollama_put_head(const whim_api *api, whim_str *out)
{
    struct timespec now = {0};
    struct tm utc = {0};
    char at[32] = "", whole[48];
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc) != NULL) {
        strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%S", &utc);
    }
    snprintf(whole, sizeof whole, "%s.%09ldZ", at, now.tv_nsec);
    whim_put_form(out, "{'model':%q,'created_at':%q", api->name, whole);
}

/* --- what an answer holds --------------------------------------------------------------------- */

/* Texts and calls of a piece or of the whole answer. */
typedef struct piece {
    const char *text, *thinking;
    int64_t n_text, n_thinking;
    const whim_answer_part *parts; /* [n] the complete calls among them are told */
    int32_t n_part;
} piece;

/* A call's arguments on one line: in a whole value line ends are but blanks. */
static void put_arguments(const whim_str *text, whim_str *out)
{
    for (int64_t i = 0; i < text->len; i++) {
        char c = text->text[i];
        whim_str_append_char(out, c == '\n' || c == '\r' ? ' ' : c);
    }
    whim_str_append(out, text->len > 0 ? "" : "{}");
}

static void put_calls(const piece *p, whim_str *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_part; i++) {
        const whim_answer_part *part = &p->parts[i];
        if (part->kind != WHIM_CHAT_CALL_BEGIN || !part->complete) {
            continue;
        }
        whim_str_append(out, n++ == 0 ? ",\"tool_calls\":[" : ",");
        whim_put_form(out, "{'function':{'name':%t,'arguments':", &part->name);
        put_arguments(&part->text, out);
        whim_str_append(out, "}}");
    }
    whim_str_append(out, n > 0 ? "]" : "");
}

/* An object up to "done", without what follows it. */
static void put_piece(whim_answer *a, const piece *p, bool done)
{
    whim_str *out = &a->out;
    whim_ollama_put_head(a->api, out);
    whim_put_form(out,
                  is_chat(a) ? ",'message':{'role':'assistant','content':%n" : ",'response':%n",
                  p->text, p->n_text);
    if (p->n_thinking > 0) {
        whim_put_form(out, ",'thinking':%n", p->thinking, p->n_thinking);
    }
    put_calls(p, out);
    whim_put_form(out, is_chat(a) ? "},'done':%s" : ",'done':%s", done ? "true" : "false");
}

static int64_t ns_of(double ms)
{
    return ms > 0 ? (int64_t)(ms * 1e6) : 0;
}

static void put_end(whim_answer *a)
{
    whim_usage usage = whim_answer_usage(a);
    whim_answer_times times = whim_answer_get_times(a);
    bool cut = whim_answer_choice_finish(&a->choices[0]) == WHIM_FINISH_LENGTH;
    whim_put_form(&a->out,
                  ",'done_reason':%q,'total_duration':%l,'load_duration':0,'prompt_eval_count':%l,"
                  "'prompt_eval_duration':%l,'eval_count':%l,'eval_duration':%l}",
                  cut ? "length" : "stop", whim_clock_ns() - whim_exchange_start_ns(a->ex),
                  usage.n_prompt, ns_of(times.first_token_ms - times.queue_ms), usage.n_made,
                  ns_of(times.decode_ms));
}

/* --- the forms -------------------------------------------------------------------------------- */

/* Without a prompt the client only wants the model loaded, and it is. */
static bool reply_loaded(const whim_api *api, whim_exchange *ex, const char *part,
                         const whim_task *task)
{
    whim_str body = {0};
    if (task->messages != NULL || task->n_prompt > 0) {
        return false;
    }
    whim_ollama_put_head(api, &body);
    whim_put_form(&body, ",%s,'done':true,'done_reason':'load'}", part);
    whim_api_reply(api, ex, &body);
    whim_str_deinit(&body);
    return true;
}

static bool reply_chat_loaded(const whim_api *api, whim_exchange *ex, const whim_task *task)
{
    return reply_loaded(api, ex, "\"message\":{\"role\":\"assistant\",\"content\":\"\"}", task);
}

static bool reply_generate_loaded(const whim_api *api, whim_exchange *ex, const whim_task *task)
{
    return reply_loaded(api, ex, "\"response\":\"\"", task);
}

static void event(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                  const whim_chat_event *ev)
{
    piece p = {.text = "", .thinking = ""};
    (void)c;
    if (!a->task->stream) {
        return;
    }
    switch (ev->kind) {
    case WHIM_CHAT_REASONING:
        p.thinking = ev->text;
        p.n_thinking = ev->n;
        break;
    case WHIM_CHAT_CONTENT:
        p.text = ev->text;
        p.n_text = ev->n;
        break;
    case WHIM_CHAT_CALL_END:
        p.parts = part;
        p.n_part = 1;
        break;
    default: /* a call is told when it is whole */
        return;
    }
    put_piece(a, &p, false);
    whim_str_append(&a->out, "}\n");
    whim_answer_send(a);
}

static void choice_end(whim_answer *a, whim_answer_choice *c)
{
    (void)a;
    (void)c;
}

static void finish(whim_answer *a)
{
    const whim_answer_choice *c = &a->choices[0];
    whim_str text = {0}, thinking = {0};
    piece p = {.text = "", .thinking = ""};
    if (!a->task->stream) {
        whim_answer_choice_text(c, WHIM_CHAT_CONTENT, &text);
        whim_answer_choice_text(c, WHIM_CHAT_REASONING, &thinking);
        p = (piece){.text = whim_str_text(&text),
                    .n_text = text.len,
                    .thinking = whim_str_text(&thinking),
                    .n_thinking = thinking.len,
                    .parts = c->parts,
                    .n_part = c->n_part};
    }
    put_piece(a, &p, true);
    put_end(a);
    a->out.failed |= text.failed || thinking.failed;
    whim_str_deinit(&text);
    whim_str_deinit(&thinking);
    if (a->task->stream) {
        whim_str_append_char(&a->out, '\n');
        whim_answer_send(a);
    }
}

static void fail(whim_answer *a, const whim_fault *fault)
{
    whim_fault_body(fault, WHIM_DIALECT_OLLAMA, whim_exchange_request(a->ex)->request_id, &a->out);
    whim_str_append_char(&a->out, '\n');
    whim_answer_send(a);
}

/* Clients read a line as JSON, also an empty one: a blank belongs to the line that follows. */
static void keep_alive(whim_answer *a)
{
    whim_str_append_char(&a->out, ' ');
    whim_answer_send(a);
}

#define FORM                                                                                       \
    .id_prefix = "ollama-", .dialect = WHIM_DIALECT_OLLAMA, .stream_type = "application/x-ndjson", \
    .event = event, .choice_end = choice_end, .finish = finish, .fail = fail,                      \
    .keep_alive = keep_alive
const whim_answer_form whim_ollama_chat_form = {
    .read = whim_ollama_read_chat, .reply_at_once = reply_chat_loaded, FORM};
const whim_answer_form whim_ollama_generate_form = {
    .read = whim_ollama_read_generate, .reply_at_once = reply_generate_loaded, FORM};

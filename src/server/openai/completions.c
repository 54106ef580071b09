/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/completions: the route, and how its answers are written. A choice's text begins with the
 * prompt where echo is asked for; log-probabilities say where in that text, counted in characters,
 * each token begins. */
#include "server/openai/openai.h"

#include "base/alloc.h"
#include "server/router.h"
#include "text/detokenizer.h"

#include <inttypes.h>
#include <string.h>

/* Where a choice's tokens stand in its text. */
typedef struct choice_text {
    whim_detokenizer detok;
    int64_t offset; /* characters before the next token */
    bool echoed;
} choice_text;

/* What is told of tokens: a list of each, in this order. */
enum { TOKENS, LOGPROBS, TOPS, OFFSETS, N_LIST };
typedef struct logprob_lists {
    whim_str of[N_LIST], scratch;
    int64_t n;
} logprob_lists;

typedef struct text_state {
    whim_str head;
    choice_text *texts; /* [n_choice] */
    /* The echo of one prompt, written once for all its choices: with many of them it is nearly all
     * of the answer. */
    logprob_lists echo;
    choice_text after_echo;
    int32_t n_echo; /* that prompt's number + 1; 0: none yet */
} text_state;

static bool has_echo(const whim_answer *a)
{
    return json_is_true(json_object_get(a->task->body, "echo"));
}

/* --- log-probabilities ------------------------------------------------------------------------ */

static int64_t count_chars(const char *text, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        count += ((uint8_t)text[i] & 0xC0) != 0x80;
    }
    return count;
}

/* The offset of a token, and on to the next. */
static int64_t next_offset(choice_text *t, int32_t id, whim_str *scratch)
{
    int64_t at = t->offset < 0 ? 0 : t->offset;
    whim_str_clear(scratch);
    whim_detokenizer_push(&t->detok, id, scratch);
    t->offset += count_chars(whim_str_text(scratch), scratch->len);
    return at;
}

/* A token's name in an object that is being written. */
typedef struct told_name {
    int64_t at, n;
} told_name;

static bool is_told(const whim_str *out, const told_name *names, int32_t n, told_name name)
{
    bool found = false;
    for (int32_t i = 0; i < n && !found; i++) {
        found = names[i].n == name.n &&
                memcmp(out->text + names[i].at, out->text + name.at, (size_t)name.n) == 0;
    }
    return found;
}

/* {text: logprob} of the alternatives and of the token itself; a text that comes twice is told
 * once. */
static void put_top(const whim_answer *a, const whim_answer_token *t, whim_str *out)
{
    told_name names[WHIM_MAX_TOP + 1];
    int32_t n = 0;
    whim_str_append_char(out, '{');
    for (int32_t k = 0; k <= t->n_top && !out->failed; k++) {
        int32_t id = k < t->n_top ? t->top[k].id : t->id;
        int64_t before = out->len;
        whim_str_append(out, n > 0 ? "," : "");
        told_name name = {.at = out->len};
        whim_openai_put_token(a, id, out);
        name.n = out->len - name.at;
        if (is_told(out, names, n, name)) {
            out->len = before;
            continue;
        }
        names[n++] = name;
        whim_str_append_char(out, ':');
        whim_put_real(out, (double)(k < t->n_top ? t->top[k].logprob : t->logprob));
    }
    whim_str_append_char(out, '}');
}

static void lists_deinit(logprob_lists *l)
{
    for (int i = 0; i < N_LIST; i++) {
        whim_str_deinit(&l->of[i]);
    }
    whim_str_deinit(&l->scratch);
    l->n = 0;
}

/* The end token too: clients that score a prompt count on one entry for every token. */
static void lists_add(whim_answer *a, choice_text *text, const whim_answer_tokens *tokens,
                      logprob_lists *l)
{
    for (int64_t i = 0; i < tokens->n; i++) {
        const whim_answer_token *t = &tokens->tokens[i];
        const char *comma = l->n++ == 0 ? "" : ",";
        for (int k = 0; k < N_LIST; k++) {
            whim_str_append(&l->of[k], comma);
        }
        whim_openai_put_token(a, t->id, &l->of[TOKENS]);
        if (t->has_logprob) {
            whim_put_real(&l->of[LOGPROBS], (double)t->logprob);
            put_top(a, t, &l->of[TOPS]);
        } else {
            whim_str_append(&l->of[LOGPROBS], "null");
            whim_str_append(&l->of[TOPS], "null");
        }
        whim_str_printf(&l->of[OFFSETS], "%" PRId64, next_offset(text, t->id, &l->scratch));
    }
}

/* The prompt that was sent as text, or NULL. */
static const json_t *prompt_sent(const whim_answer *a, int32_t p)
{
    const json_t *prompt = json_object_get(a->task->body, "prompt");
    const json_t *one = json_is_string(prompt) ? prompt : json_array_get(prompt, (size_t)p);
    /* With a suffix the prompt holds more than what was sent; null and "" are none. */
    bool whole =
        !a->task->is_cut && json_string_length(json_object_get(a->task->body, "suffix")) == 0;
    return json_is_string(one) && whole ? one : NULL;
}

/* Characters of a first token that the tokenizer put before the text that was sent: they are not in
 * the echo. */
static int64_t hidden_bos(const whim_answer *a, int32_t p)
{
    const json_t *sent = prompt_sent(a, p);
    int64_t n = 0;
    int32_t first = a->task->prompts[p].ids[0];
    const char *bytes = whim_tokenizer_bytes(a->api->tok, first, &n);
    bool hidden = sent != NULL && whim_tokenizer_is_special(a->api->tok, first) &&
                  strncmp(json_string_value(sent), bytes, (size_t)n) != 0;
    return hidden ? count_chars(bytes, n) : 0;
}

/* The lists of the prompt's tokens. */
static void lists_echo(whim_answer *a, int32_t p, choice_text *text, logprob_lists *l)
{
    text_state *s = a->state;
    if (s->n_echo != p + 1) {
        lists_deinit(&s->echo);
        s->after_echo = *text;
        s->after_echo.offset = -hidden_bos(a, p);
        lists_add(a, &s->after_echo, &a->prompts[p].echo, &s->echo);
        s->after_echo.detok.show_special = a->task->ask.show_special;
        s->n_echo = p + 1;
    }
    text->detok = s->after_echo.detok;
    text->offset = s->after_echo.offset;
    for (int i = 0; i < N_LIST; i++) {
        whim_str_append_n(&l->of[i], whim_str_text(&s->echo.of[i]), s->echo.of[i].len);
        l->of[i].failed |= s->echo.of[i].failed;
    }
    l->n = s->echo.n;
}

static void put_logprobs(whim_answer *a, whim_answer_choice *c, bool with_echo)
{
    static const char *const heads[] = {"{\"tokens\":[", "],\"token_logprobs\":[",
                                        "],\"top_logprobs\":[", "],\"text_offset\":["};
    text_state *s = a->state;
    choice_text *text = &s->texts[c->index];
    logprob_lists l = {.n = 0};
    if (with_echo) {
        lists_echo(a, c->index / a->task->ask.n_choice, text, &l);
    }
    lists_add(a, text, &c->pending, &l);
    if (!a->task->ask.logprobs || l.n == 0) {
        whim_str_append(&a->out, "null");
    } else {
        for (int i = 0; i < N_LIST; i++) {
            whim_str_append(&a->out, heads[i]);
            whim_str_append(&a->out, whim_str_text(&l.of[i]));
            a->out.failed |= l.of[i].failed;
            whim_str_deinit(&l.of[i]);
        }
        whim_str_append(&a->out, "]}");
    }
    lists_deinit(&l);
}

/* --- choices ---------------------------------------------------------------------------------- */

/* The prompt as text: what was sent, or the text of the ids. */
static void put_prompt_text(const whim_answer *a, int32_t p, whim_str *out)
{
    const json_t *one = prompt_sent(a, p);
    if (one != NULL) {
        whim_str_append_n(out, json_string_value(one), (int64_t)json_string_length(one));
        return;
    }
    whim_detokenizer d;
    whim_detokenizer_init(&d, a->api->tok, true);
    for (int64_t i = 0; i < a->task->prompts[p].n; i++) {
        whim_detokenizer_push(&d, a->task->prompts[p].ids[i], out);
    }
    whim_detokenizer_flush(&d, out);
}

/* `{"index":..,"text":..,"logprobs":..,"finish_reason":..}` of a text or of a piece of it. */
static void put_choice(whim_answer *a, whim_answer_choice *c, const whim_str *text, bool with_echo,
                       bool finishes)
{
    whim_put_form(&a->out, "{'index':%d,'text':%t,'logprobs':", c->index, text);
    put_logprobs(a, c, with_echo);
    whim_openai_put_end(a, c, finishes);
}

static void send_piece(whim_answer *a, whim_answer_choice *c, const char *text, int64_t n,
                       bool finishes)
{
    text_state *s = a->state;
    bool echo = has_echo(a) && !s->texts[c->index].echoed;
    whim_str piece = {0};
    if (echo) {
        s->texts[c->index].echoed = true;
        put_prompt_text(a, c->index / a->task->ask.n_choice, &piece);
    }
    whim_str_append_n(&piece, text, n);
    whim_str_append_n(&a->out, whim_str_text(&s->head), s->head.len);
    put_choice(a, c, &piece, echo, finishes);
    whim_str_append_char(&a->out, '}');
    whim_str_deinit(&piece);
    whim_answer_choice_covered(c);
    whim_openai_send_chunk(a);
}

/* --- the form --------------------------------------------------------------------------------- */

/* Called before the first use of the state. */
static bool texts_ready(whim_answer *a)
{
    text_state *s = a->state;
    if (s->texts == NULL) {
        s->texts = whim_alloc_array(a->n_choice, sizeof *s->texts);
        for (int32_t i = 0; s->texts != NULL && i < a->n_choice; i++) {
            whim_detokenizer_init(&s->texts[i].detok, a->api->tok,
                                  has_echo(a) || a->task->ask.show_special);
        }
    }
    a->out.failed |= s->texts == NULL;
    return s->texts != NULL;
}

static void text_begin(whim_answer *a)
{
    text_state *s = a->state;
    whim_str_append(&s->head, "data: {");
    whim_openai_put_head(a, "text_completion", &s->head);
    whim_str_append(&s->head, ",\"choices\":[");
    if (!texts_ready(a)) {
        whim_answer_send(a);
        return;
    }
    for (int32_t i = 0; i < a->n_choice; i++) {
        whim_str_append_n(&a->out, whim_str_text(&s->head), s->head.len);
        whim_put_form(&a->out, "{'index':%d,'text':'','logprobs':null,'finish_reason':null}", i);
        whim_openai_send_chunk(a);
    }
}

static void text_progress(whim_answer *a, int32_t p)
{
    const text_state *s = a->state;
    const whim_answer_choice *c = &a->choices[p * a->task->ask.n_choice];
    whim_str_append_n(&a->out, whim_str_text(&s->head), s->head.len);
    whim_put_form(&a->out, "{'index':%d,'text':'','logprobs':null", c->index);
    whim_openai_put_end(a, c, false);
    whim_str_append_char(&a->out, '}');
    whim_openai_send_progress(a, p);
}

static void text_event(whim_answer *a, whim_answer_choice *c, whim_answer_part *part,
                       const whim_chat_event *ev)
{
    (void)part;
    if (a->task->stream && texts_ready(a)) {
        send_piece(a, c, ev->text, ev->n, false);
    }
}

static void text_choice_end(whim_answer *a, whim_answer_choice *c)
{
    const text_state *s = a->state;
    if (!texts_ready(a)) {
        return;
    }
    if (has_echo(a) && !s->texts[c->index].echoed) {
        /* nothing came after the prompt, and a finish has no text */
        send_piece(a, c, "", 0, false);
    }
    send_piece(a, c, "", 0, true);
}

static void put_whole(whim_answer *a, whim_answer_choice *c)
{
    int32_t p = c->index / a->task->ask.n_choice;
    whim_str text = {0};
    if (has_echo(a)) {
        put_prompt_text(a, p, &text);
    }
    whim_answer_choice_text(c, WHIM_CHAT_CONTENT, &text);
    put_choice(a, c, &text, has_echo(a), true);
    whim_str_deinit(&text);
    whim_openai_put_prompt_ids(a, p);
    whim_str_append_char(&a->out, '}');
}

static void text_finish(whim_answer *a)
{
    const text_state *s = a->state;
    if (a->task->stream || texts_ready(a)) {
        whim_openai_finish(a, &s->head, "text_completion", put_whole);
    }
}

static void text_deinit(whim_answer *a)
{
    text_state *s = a->state;
    whim_str_deinit(&s->head);
    lists_deinit(&s->echo);
    whim_free(s->texts);
}

static const whim_answer_form text_form = {
    .read = whim_openai_read_completion,
    .id_prefix = "cmpl-",
    .dialect = WHIM_DIALECT_OPENAI,
    .state_bytes = sizeof(text_state),
    .begin = text_begin,
    .progress = text_progress,
    .event = text_event,
    .choice_end = text_choice_end,
    .finish = text_finish,
    .fail = whim_openai_fail,
    .keep_alive = whim_openai_keep_alive,
    .deinit = text_deinit,
};

void whim_route_completions(const whim_api *api, whim_exchange *ex)
{
    whim_answer_route(api, ex, &text_form);
}

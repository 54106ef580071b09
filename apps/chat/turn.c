/* SPDX-License-Identifier: Apache-2.0 */
/* One answer of a chat. The whole conversation is rendered anew for every turn; the prefix tree has
 * the pages of what was fed before, so that only what is new costs time. */
#include "chat/chat.h"

#include "chat/reasoning.h"

#include <stdio.h>
#include <string.h>

/* An answer under way. */
typedef struct turn {
    chat *c;
    whim_reasoning split;
    whim_str reasoning, content;
    whim_piece_kind last;
} turn;

static void on_piece(void *ctx, whim_piece_kind kind, const char *text, int64_t n)
{
    turn *t = ctx;
    chat_view *view = &t->c->view;
    bool thought = kind == WHIM_PIECE_REASONING;
    if (!thought && t->last == WHIM_PIECE_REASONING && t->reasoning.len > 0) {
        view_break(view);
    }
    t->last = kind;
    whim_str *kept = thought ? &t->reasoning : &t->content;
    for (int64_t i = 0; i < n; i++) { /* messages are C strings: a NUL is kept as U+FFFD */
        whim_str_append_n(kept, text[i] != '\0' ? text + i : "\xef\xbf\xbd",
                          text[i] != '\0' ? 1 : 3);
    }
    /* A reader that is no terminal gets the answer only. */
    if (!thought || view->terminal) {
        view_text(view, thought ? CHAT_DIM : CHAT_PLAIN, text, n);
    }
    if (view->failed) {
        interrupted = 1; /* nobody reads */
    }
}

static void on_event(void *ctx, const whim_job_event *event)
{
    turn *t = ctx;
    if (event->n_text > 0) {
        whim_reasoning_push(&t->split, event->text, event->n_text, on_piece, t);
    }
}

static void say_full(chat *c, int64_t n_prompt)
{
    whim_str hint = {0};
    append_context_hint(&hint, c->ctx, c->config);
    view_error(
        &c->view,
        "the conversation would have %lld tokens, the context has %lld: there is no room for an "
        "answer. Your message was not taken, the conversation is as before; /undo makes room, "
        "/clear "
        "begins anew; %s.",
        (long long)n_prompt, (long long)c->ctx, whim_str_text(&hint));
    whim_str_deinit(&hint);
}

/* Why an answer ended before its end. */
static void say_end(chat *c, const asked *got)
{
    switch (got->end) {
    case WHIM_END_CONTEXT:
        view_error(&c->view,
                   "the context of %lld tokens is full: the answer ends here. Nothing was dropped; "
                   "/undo takes the last turn back, /clear begins anew, and a larger --ctx gives "
                   "more room (the model's limit is %lld).",
                   (long long)c->ctx, (long long)c->config->max_ctx);
        break;
    case WHIM_END_KV:
        view_error(&c->view,
                   "the memory for keys and values is full: the answer ends here; --kv-mem "
                   "gives more, /clear begins anew.");
        break;
    case WHIM_END_LENGTH:
        view_note(&c->view, "[cut after %lld tokens, as --max-tokens says]", (long long)got->n_id);
        break;
    case WHIM_END_REPETITION:
        view_error(&c->view,
                   "the model repeats itself: the answer ends here; /regenerate asks for another "
                   "one, --no-repetition-detection lets it go on.");
        break;
    case WHIM_END_INTERRUPT:
        view_note(&c->view, "[stopped]");
        break;
    default:
        break;
    }
}

static void say_speed(chat *c, const asked *got)
{
    char speed[48] = "";
    if (got->n_id == 0) {
        return;
    }
    if (got->n_id > 1 && got->gen_s > 0) {
        snprintf(speed, sizeof speed, ", %.1f tokens/s", (double)(got->n_id - 1) / got->gen_s);
    }
    view_note(&c->view, "[%lld tokens%s; first after %.1f s; context %lld of %lld]",
              (long long)got->n_id, speed, got->prompt_s, (long long)got->n_context,
              (long long)c->ctx);
}

static whim_err encode(chat *c, whim_ids *ids, bool *open_think, whim_diag *diag)
{
    json_t *messages = whim_conversation_messages(&c->conv);
    if (messages == NULL) {
        return whim_fail(diag, WHIM_ERR_INVALID, "the conversation holds text that is not UTF-8");
    }
    whim_err err = text_model_encode_chat(&c->tm, messages, NULL, ids, open_think, diag);
    json_decref(messages);
    return err;
}

static whim_err generate(turn *t, const whim_ids *ids, bool open_think, asked *got, whim_diag *diag)
{
    chat *c = t->c;
    whim_job_cfg cfg = ask_cfg(&c->tm, c->options, ids, open_think);
    cfg.max_repeated = detects_repetition(c->options, true) ? WHIM_REPETITION_LIMIT : 0;
    WHIM_TRY(answer_form_grammar(&c->form, open_think, &cfg.grammar, diag));
    interrupted = 0;
    view_quiet_keys(&c->view, true);
    whim_err err = ask(c->service, &cfg, on_event, t, got, diag);
    whim_reasoning_flush(&t->split, on_piece, t);
    view_quiet_keys(&c->view, false);
    view_break(&c->view);
    return err;
}

/* An answer that was stopped is kept as far as it came; one that never began is not. */
static whim_err keep(turn *t)
{
    if (t->content.failed || t->reasoning.failed) {
        return WHIM_ERR_NO_MEMORY;
    }
    if (t->content.len == 0 && t->reasoning.len == 0 && interrupted) {
        return WHIM_ERR_OK;
    }
    return whim_conversation_push(&t->c->conv, "assistant", whim_str_text(&t->content),
                                  t->reasoning.len > 0 ? whim_str_text(&t->reasoning) : NULL);
}

void chat_answer(chat *c)
{
    whim_diag diag = {""};
    whim_ids ids = {0};
    asked got;
    bool open_think = false;
    turn t = {.c = c, .last = WHIM_PIECE_CONTENT};
    whim_err err = encode(c, &ids, &open_think, &diag);
    if (err == WHIM_ERR_OK && ids.n >= c->ctx) {
        say_full(c, ids.n);
        c->failed = !c->view.terminal;
    } else if (err == WHIM_ERR_OK) {
        whim_reasoning_init(&t.split, open_think, NULL);
        err = generate(&t, &ids, open_think, &got, &diag);
        if (err == WHIM_ERR_OK) {
            say_end(c, &got);
            say_speed(c, &got);
            err = keep(&t);
        }
    }
    if (err != WHIM_ERR_OK) {
        view_error(&c->view, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
        c->failed = !c->view.terminal;
    }
    whim_str_deinit(&t.reasoning);
    whim_str_deinit(&t.content);
    whim_ids_deinit(&ids);
}

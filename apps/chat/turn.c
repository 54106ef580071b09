/* SPDX-License-Identifier: Apache-2.0 */
/* One answer of a chat. The whole conversation is rendered anew for every turn; the prefix tree has
 * the pages of what was fed before, so that only what is new costs time. */
#include "chat/chat.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* An answer under way. */
typedef struct turn {
    chat *c;
    whim_str reasoning, content;
    bool thought; /* the last piece was reasoning */
} turn;

static void show_piece(turn *t, const whimbrel_event *piece)
{
    chat_view *view = &t->c->view;
    const char *text = piece->text;
    bool thought = piece->kind == WHIMBREL_EVENT_REASONING;
    if (!thought && t->thought && t->reasoning.len > 0) {
        view_break(view);
    }
    t->thought = thought;
    whim_str *kept = thought ? &t->reasoning : &t->content;
    for (int64_t i = 0; i < piece->n_text; i++) { /* messages are C strings: NUL becomes U+FFFD */
        whim_str_append_n(kept, text[i] != '\0' ? text + i : "\xef\xbf\xbd",
                          text[i] != '\0' ? 1 : 3);
    }
    /* A reader that is no terminal gets the answer only. */
    if (!thought || view->terminal) {
        view_piece(view, thought, text, piece->n_text);
    }
    if (view->failed) {
        interrupted = 1; /* nobody reads */
    }
}

static void on_event(void *ctx, const whimbrel_event *event)
{
    if (event->kind == WHIMBREL_EVENT_REASONING || event->kind == WHIMBREL_EVENT_TEXT) {
        show_piece(ctx, event);
    }
}

static void say_full(chat *c)
{
    whim_str hint = {0};
    append_context_hint(&hint, c->options, c->info);
    view_error(&c->view,
               "the conversation would fill the context of %lld tokens: there is no room for an "
               "answer. Your message was not added; the conversation is as it was before. /undo "
               "makes room, /clear begins a new conversation; %s.",
               (long long)c->context, whim_str_text(&hint));
    whim_str_deinit(&hint);
}

static void say_context_end(chat *c)
{
    if (c->model == NULL) {
        view_error(&c->view, "the server's context is full, or it allows no longer answers: the "
                             "answer ends here. /undo takes the last turn back, /clear begins "
                             "a new conversation.");
        return;
    }
    view_error(&c->view,
               "the context of %lld tokens is full: the answer ends here. Nothing was dropped; "
               "/undo takes the last turn back, /clear begins a new conversation, and a larger "
               "--ctx gives more room (the model's limit is %lld).",
               (long long)c->context, (long long)c->info->model_context);
}

/* Why an answer ended before its end. */
static void say_end(chat *c, const asked *got)
{
    switch (got->end) {
    case WHIMBREL_END_CONTEXT:
        say_context_end(c);
        break;
    case WHIMBREL_END_MEMORY:
        view_error(&c->view,
                   "the memory for keys and values is full: the answer ends here; --kv-mem "
                   "gives more, /clear begins a new conversation.");
        break;
    case WHIMBREL_END_LENGTH:
        view_note(&c->view, "[cut after %lld tokens, as --max-tokens says]", (long long)got->n_id);
        break;
    case WHIMBREL_END_REPETITION:
        view_error(&c->view,
                   "the model repeats itself: the answer ends here; /regenerate asks for another "
                   "one, --no-repetition-detection lets it go on.");
        break;
    case WHIMBREL_END_CANCELLED:
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
    char room[48] = "";
    if (got->n_context > 0) {
        snprintf(room, sizeof room, "; context %lld", (long long)got->n_context);
    }
    if (got->n_context > 0 && c->context > 0) {
        snprintf(room + strlen(room), sizeof room - strlen(room), " of %lld",
                 (long long)c->context);
    }
    view_note(&c->view, "[%lld tokens%s; first after %.1f s%s]", (long long)got->n_id, speed,
              got->prompt_s, room);
}

/* A request for the next turn of our own model; NULL with the error set. */
static whimbrel_request *prepare(chat *c, whimbrel_error *error)
{
    whimbrel_request_options ask = ask_options(c->options, &c->sampling, &c->form);
    whimbrel_request *request = NULL;
    whim_str text = {0};
    whim_json_write(&text, c->conv);
    ask.messages_json = whim_str_text(&text);
    ask.may_repeat = !detects_repetition(c->options, true);
    whimbrel_prepare(c->model, &ask, &request, error);
    whim_str_deinit(&text);
    return request;
}

static whimbrel_status generate(turn *t, whimbrel_request *request, asked *got,
                                whimbrel_error *error)
{
    chat *c = t->c;
    interrupted = 0;
    view_quiet_keys(&c->view, true);
    whimbrel_status status = c->model != NULL ? ask(request, on_event, t, got, error)
                                              : joined_ask(c, on_event, t, got, error);
    view_quiet_keys(&c->view, false);
    view_break(&c->view);
    return status;
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
    return whim_conversation_push(t->c->conv, "assistant", whim_str_text(&t->content),
                                  t->reasoning.len > 0 ? whim_str_text(&t->reasoning) : NULL);
}

/* False with the error set, or after it was told that there is no room. A server has no request of
 * ours: NULL. */
static bool take_turn(turn *t, whimbrel_request *request, whimbrel_error *error)
{
    chat *c = t->c;
    int64_t n = 0;
    asked got;
    if (request != NULL) {
        whimbrel_prompt_ids(request, &n);
    }
    error->text[0] = '\0';
    if (request != NULL && n >= c->context) {
        say_full(c);
        return false;
    }
    if (generate(t, request, &got, error) != WHIMBREL_OK) {
        return false;
    }
    say_end(c, &got);
    say_speed(c, &got);
    whim_err err = keep(t);
    snprintf(error->text, sizeof error->text, "%s", err != WHIM_ERR_OK ? whim_err_text(err) : "");
    return err == WHIM_ERR_OK;
}

void chat_answer(chat *c)
{
    whimbrel_error error;
    whim_str text = {0};
    turn t = {.c = c};
    whimbrel_request *request = c->model != NULL ? prepare(c, &error) : NULL;
    bool refused = c->model != NULL && request == NULL;
    if (refused && error.status == WHIMBREL_NO_FIT) {
        say_full(c);
        c->failed = !c->view.terminal;
    } else if (refused || !take_turn(&t, request, &error)) {
        append_error(&text, &error);
        if (error.text[0] != '\0') {
            view_error(&c->view, "%s", whim_str_text(&text));
        }
        c->failed = !c->view.terminal;
    }
    whimbrel_free(request);
    whim_str_deinit(&text);
    whim_str_deinit(&t.reasoning);
    whim_str_deinit(&t.content);
}

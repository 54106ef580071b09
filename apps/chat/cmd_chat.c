/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel chat: a conversation in the terminal, or line by line through pipes. */
#include "base/file.h"
#include "chat/chat.h"

#include <stdio.h>
#include <string.h>

/* Of recurrent states: where a turn, or one before it that is asked for anew, can go on. */
enum { CHECKPOINTS = 4 };

static void banner(chat *c)
{
    whim_str params = {0};
    whim_str context = {0};
    append_context(&context, c->options, c->engine, c->ctx);
    append_params(&params, &c->tm.params, true);
    view_note(&c->view, "%s: %s", whim_path_base(c->tm.path), whim_str_text(&context));
    view_note(&c->view, "sampling: %s (defaults from %s)", whim_str_text(&params),
              whim_generation_source_name(c->tm.wishes.source));
    view_note(&c->view, "/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat");
    whim_str_deinit(&params);
    whim_str_deinit(&context);
}

/* "/word", alone or with more behind a blank; "//", "/usr/bin" and several lines are messages. */
static bool is_command(const char *message)
{
    size_t n = strspn(message + (message[0] == '/'), "abcdefghijklmnopqrstuvwxyz?");
    char after = message[0] == '/' ? message[1 + n] : '/';
    return message[0] == '/' && n > 0 && (after == '\0' || after == ' ' || after == '\t') &&
           strchr(message, '\n') == NULL;
}

/* One message: a command or something to answer. */
static void take_message(chat *c, const whim_str *text)
{
    const char *message = whim_str_text(text);
    if (text->failed || message[strspn(message, " \t\r\n")] == '\0') {
        return;
    }
    if (is_command(message)) {
        chat_command(c, message);
    } else if (memchr(message, '\0', (size_t)text->len) != NULL ||
               whim_conversation_push(&c->conv, "user", message, NULL) != WHIM_ERR_OK) {
        view_error(&c->view, "this message cannot be taken");
    } else {
        int64_t before = c->conv.n;
        chat_answer(c);
        if (c->conv.n == before) {
            whim_conversation_pop(&c->conv); /* no answer: as if it had not been asked */
        }
    }
}

static void talk(chat *c, chat_input *input)
{
    whim_str text = {0};
    bool warned = false;
    while (!c->quit && !c->view.failed) {
        interrupted = 0;
        chat_line got = input_read(input, &text);
        if (got == CHAT_EOF || (got == CHAT_INTERRUPT && warned)) {
            break;
        }
        warned = got == CHAT_INTERRUPT && text.len == 0;
        if (warned) {
            view_note(&c->view, "[Ctrl-C once more, Ctrl-D or /quit ends the chat]");
        }
        if (got == CHAT_LINE) {
            take_message(c, &text);
        }
    }
    whim_str_deinit(&text);
}

static bool chat_open(chat *c, loader *load)
{
    const whim_options *o = c->options;
    c->config = whim_engine_config(c->engine);
    c->ctx = whim_engine_ctx(c->engine);
    if (!text_model_open(&c->tm, o, c->engine, c->tm.path) ||
        !text_model_sampling(&c->tm, o, c->engine, false)) {
        return false;
    }
    if (c->tm.tmpl == NULL) {
        complain(EXIT_FAILED,
                 "%s has no chat template: it is not made for chats. \"whimbrel run -p\" continues "
                 "text with it; --chat-template FILE gives it one",
                 c->tm.path);
        return false;
    }
    if (!check_utf8(o->system != NULL ? o->system : "", "the system message") || !check_stops(o)) {
        return false;
    }
    if (o->system != NULL &&
        whim_conversation_push(&c->conv, "system", o->system, NULL) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    if (!answer_form_open(&c->form, &c->tm, true, false) || !load_engine(c->engine, load)) {
        return false;
    }
    c->service = ask_open(&c->tm, &c->form, c->engine);
    return c->service != NULL;
}

static bool chat_run(chat *c)
{
    chat_input *input = NULL;
    if (input_open(&c->view, &input) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    catch_interrupt(false);
    if (!c->options->quiet) {
        banner(c);
    }
    talk(c, input);
    input_close(input);
    if (c->view.failed) {
        complain(EXIT_FAILED, "cannot write to standard output");
    }
    return !c->view.failed && !c->failed;
}

int cmd_chat(const whim_options *options)
{
    char path[MODEL_PATH_MAX];
    chat c = {.options = options};
    loader load;
    bool ok = false;
    view_init(&c.view);
    if (!answer_form_read(&c.form, options)) {
        answer_form_close(&c.form);
        return EXIT_USAGE;
    }
    c.tm.path = choose_model(options, path);
    if (c.tm.path != NULL) {
        whim_engine_cfg cfg = engine_cfg(options, c.tm.path);
        cfg.n_checkpoint = CHECKPOINTS;
        cfg.kv_as_used = true; /* a prompt to type at comes soon, and few talks fill the context */
        /* The memory plan is for those who ask; refusals name its numbers. */
        c.engine = open_engine(&cfg, options->quiet || c.view.terminal, &load);
        load.quiet = options->quiet;
    }
    if (c.engine != NULL) {
        ok = chat_open(&c, &load) && chat_run(&c);
    }
    whim_service_destroy(c.service);
    answer_form_close(&c.form);
    text_model_close(&c.tm);
    whim_engine_close(c.engine);
    whim_conversation_deinit(&c.conv);
    return ok ? EXIT_OK : EXIT_FAILED;
}

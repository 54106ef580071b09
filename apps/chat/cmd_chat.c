/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel chat: a conversation in the terminal, or line by line through pipes. */
#include "chat/chat.h"

#include <stdio.h>
#include <string.h>

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
               whim_conversation_push(c->conv, "user", message, NULL) != WHIM_ERR_OK) {
        view_error(&c->view, "this message cannot be taken");
    } else {
        int64_t before = chat_size(c);
        chat_answer(c);
        if (chat_size(c) == before) {
            whim_conversation_cut(c->conv, before - 1); /* no answer: as if it had not been asked */
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

static bool chat_run(chat *c)
{
    chat_input *input = NULL;
    if (input_open(&c->view, &input) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    catch_interrupt(false);
    if (!c->options->quiet) {
        chat_banner(c);
        view_note(&c->view,
                  "/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat");
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
    static chat c; /* zeroed, and the screen must not move */
    int code = EXIT_FAILED;
    c.options = options;
    c.conv = json_array();
    view_init(&c.view);
    if (!form_read(&c.form, options)) {
        code = EXIT_USAGE;
    } else if (chat_open(&c) && chat_run(&c)) {
        code = EXIT_OK;
    }
    chat_close(&c);
    view_deinit(&c.view);
    form_free(&c.form);
    json_decref(c.conv);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel chat: a conversation in the terminal, or line by line through pipes. */
#include "base/file.h"
#include "chat/chat.h"
#include "texts.h"

#include <stdio.h>
#include <string.h>

static void banner(chat *c)
{
    whim_str params = {0};
    whim_str context = {0};
    append_context(&context, c->options, whim_library_engine(c->model), c->info->context);
    append_params(&params, &c->sampling.v, true);
    view_note(&c->view, "%s: %s", whim_path_base(c->path), whim_str_text(&context));
    view_note(&c->view, "sampling: %s (defaults from %s)", whim_str_text(&params),
              c->info->sampling);
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

/* Whether there can be an answer of the form that is asked for: found out before weights load. */
static bool check_form(const chat *c)
{
    const whimbrel_message any = {"user", "?"};
    whimbrel_request_options ask = ask_options(c->options, &c->sampling, &c->form);
    whimbrel_request *request;
    whimbrel_error error;
    ask.messages = &any;
    ask.n_message = 1;
    if (form_is_given(&c->form) &&
        whimbrel_prepare(c->model, &ask, &request, &error) != WHIMBREL_OK) {
        complain_of(&error);
        return false;
    }
    if (form_is_given(&c->form)) {
        whimbrel_free(request);
    }
    return true;
}

static bool chat_open(chat *c, loader *load)
{
    const whim_options *o = c->options;
    c->info = whimbrel_get_info(c->model);
    if (!sampling_choose(&c->sampling, o, c->model, c->path, false)) {
        return false;
    }
    if (!c->info->has_template) {
        complain(EXIT_FAILED,
                 "%s has no chat template: it is not made for chats. \"whimbrel run -p\" continues "
                 "text with it; --chat-template FILE gives it one",
                 c->path);
        return false;
    }
    if (!check_utf8(o->system != NULL ? o->system : "", "the system message") || !check_stops(o)) {
        return false;
    }
    if (o->system != NULL &&
        whim_conversation_push(c->conv, "system", o->system, NULL) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    return check_form(c) && load_model(c->model, load);
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

static whimbrel_model *open_it(const chat *c, loader *load)
{
    whimbrel_model_options options = model_options(c->options, c->path);
    whim_library_extra extra = model_extra(c->options);
    extra.no_checkpoints = false; /* a turn goes on from the one before */
    options.wake = ask_wake;
    /* The memory plan is for those who ask; refusals name its numbers. */
    whimbrel_model *model =
        open_model(&options, &extra, c->options->quiet || c->view.terminal, load);
    load->quiet = c->options->quiet;
    return model;
}

int cmd_chat(const whim_options *options)
{
    char path[MODEL_PATH_MAX];
    chat c = {.options = options, .conv = json_array()};
    loader load;
    int code = EXIT_FAILED;
    view_init(&c.view);
    if (!form_read(&c.form, options)) {
        code = EXIT_USAGE;
    } else {
        c.path = choose_model(options, path);
        c.model = c.path != NULL ? open_it(&c, &load) : NULL;
    }
    if (c.model != NULL && chat_open(&c, &load) && chat_run(&c)) {
        code = EXIT_OK;
    }
    whimbrel_close(c.model);
    view_deinit(&c.view);
    form_free(&c.form);
    json_decref(c.conv);
    return code;
}

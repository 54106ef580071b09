/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a chat that begin with "/". */
#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "chat/chat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SAVED_BYTES = 64 << 20 };

typedef struct command {
    const char *name;
    const char *operand; /* for the help */
    const char *help;
    void (*run)(chat *c, const char *rest);
} command;

static const command *commands(int32_t *n);

static bool has_system(const chat *c)
{
    const char *role = whim_message_text(c->conv, 0, "role");
    return role != NULL && strcmp(role, "system") == 0;
}

/* Messages after the system message. */
static int64_t first_turn(const chat *c)
{
    return has_system(c) ? 1 : 0;
}

static void do_help(chat *c, const char *rest)
{
    int32_t n;
    const command *list = commands(&n);
    whim_str text = {0};
    (void)rest;
    for (int32_t i = 0; i < n; i++) {
        char left[48];
        snprintf(left, sizeof left, "%s%s%s", list[i].name, list[i].operand[0] != '\0' ? " " : "",
                 list[i].operand);
        whim_str_printf(&text, "%-22s %s\n", left, list[i].help);
    }
    whim_str_append(
        &text,
        "Ctrl-C stops an answer; Ctrl-D ends the chat. End a line with \\ to continue it on the "
        "next, or put several lines between lines of \"\"\". Enter sends pasted lines.");
    view_say(&c->view, "%s", whim_str_text(&text));
    whim_str_deinit(&text);
}

static void do_clear(chat *c, const char *rest)
{
    (void)rest;
    whim_conversation_cut(c->conv, first_turn(c));
    view_note(&c->view, "[a new conversation%s]",
              has_system(c) ? "; the system message stays" : "");
}

/* Put a system message in front, or take it away when the text is empty. */
static whim_err set_system(chat *c, const char *text)
{
    json_t *message = text[0] == '\0' ? NULL : whim_message_make("system", text, NULL);
    if (text[0] != '\0' && message == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    if (has_system(c)) {
        json_array_remove(c->conv, 0);
    }
    return message == NULL || json_array_insert_new(c->conv, 0, message) == 0 ? WHIM_ERR_OK
                                                                              : WHIM_ERR_NO_MEMORY;
}

static void do_system(chat *c, const char *rest)
{
    if (rest[0] == '\0') {
        view_say(&c->view, "%s",
                 has_system(c) ? whim_message_text(c->conv, 0, "content")
                               : "there is no system message; /system TEXT sets one");
        return;
    }
    if (set_system(c, strcmp(rest, "none") == 0 ? "" : rest) != WHIM_ERR_OK) {
        view_error(&c->view,
                   "this system message cannot be taken: it is not UTF-8, or memory is out");
        return;
    }
    view_note(&c->view, has_system(c) ? "[system message set; it holds from the next answer on]"
                                      : "[no system message]");
}

/* Write beside the file and rename: a file that was there stays whole. */
static bool write_file(const char *path, const whim_str *text, whim_diag *diag)
{
    char temp[MODEL_PATH_MAX];
    bool ok = snprintf(temp, sizeof temp, "%s.part", path) < (int)sizeof temp;
    FILE *file = ok ? fopen(temp, "w") : NULL;
    if (!ok) {
        errno = ENAMETOOLONG;
    }
    ok = file != NULL && fwrite(text->text, 1, (size_t)text->len, file) == (size_t)text->len;
    if (file != NULL && fclose(file) != 0) {
        ok = false;
    }
    ok = ok && rename(temp, path) == 0;
    if (!ok) {
        whim_fail(diag, WHIM_ERR_IO, "cannot write %s: %s", path, strerror(errno));
        if (file != NULL) {
            unlink(temp);
        }
    }
    return ok;
}

static void do_save(chat *c, const char *rest)
{
    whim_diag diag = {""};
    whim_str text = {0};
    if (rest[0] == '\0') {
        view_error(&c->view, "/save needs the name of a file");
        return;
    }
    if (whim_conversation_dump(c->conv, &text, &diag) != WHIM_ERR_OK ||
        !write_file(rest, &text, &diag)) {
        view_error(&c->view, "%s", diag.text);
    } else {
        view_note(&c->view, "[saved %lld messages to %s]", (long long)chat_size(c), rest);
    }
    whim_str_deinit(&text);
}

static void show_conversation(chat *c)
{
    for (int64_t i = 0; i < chat_size(c) && c->view.terminal; i++) {
        const char *role = whim_message_text(c->conv, i, "role");
        const char *content = whim_message_text(c->conv, i, "content");
        bool user = strcmp(role, "user") == 0;
        view_break(&c->view);
        if (strcmp(role, "assistant") == 0) {
            view_piece(&c->view, false, content, (int64_t)strlen(content));
            continue;
        }
        view_text(&c->view, CHAT_DIM, user ? "> " : "system: ", user ? 2 : 8);
        view_text(&c->view, CHAT_PLAIN, content, (int64_t)strlen(content));
    }
    view_break(&c->view);
}

static void do_load(chat *c, const char *rest)
{
    whim_diag diag = {""};
    char *text = NULL;
    int64_t n = 0;
    if (rest[0] == '\0') {
        view_error(&c->view, "/load needs the name of a file");
        return;
    }
    if (whim_file_read_all(rest, MAX_SAVED_BYTES, &text, &n, &diag) != WHIM_ERR_OK ||
        whim_conversation_parse(&c->conv, text, n, rest, &diag) != WHIM_ERR_OK) {
        view_error(&c->view, "%s", diag.text);
    } else {
        show_conversation(c);
        view_note(&c->view, "[loaded %lld messages from %s]", (long long)chat_size(c), rest);
    }
    whim_free(text);
}

/* Where the last question stands, or -1. */
static int64_t last_question(const chat *c)
{
    int64_t at = chat_size(c) - 1;
    while (at >= first_turn(c) && strcmp(whim_message_text(c->conv, at, "role"), "user") != 0) {
        at--;
    }
    return at >= first_turn(c) ? at : -1;
}

static void do_regenerate(chat *c, const char *rest)
{
    (void)rest;
    int64_t at = last_question(c);
    json_t *old = at < 0 ? NULL : json_copy(c->conv);
    if (old == NULL) {
        view_error(&c->view, at < 0 ? "there is no message to answer again" : "out of memory");
        return;
    }
    if (c->sampling.v.temperature > 0 && !whim_options_gave(c->options, &c->options->seed)) {
        c->sampling.v.seed++; /* the same seed would give the same answer */
    }
    whim_conversation_cut(c->conv, at + 1);
    chat_answer(c);
    if (chat_size(c) == at + 1) { /* no new one came */
        json_t *without = c->conv;
        c->conv = old;
        old = without;
        if (chat_size(c) > at + 1) {
            view_note(&c->view, "[the old answer stays]");
        }
    }
    json_decref(old);
}

static void do_undo(chat *c, const char *rest)
{
    (void)rest;
    int64_t at = last_question(c);
    char *text = at < 0 ? NULL : strdup(whim_message_text(c->conv, at, "content"));
    if (text == NULL) {
        view_error(&c->view, at < 0 ? "there is nothing to undo" : "out of memory");
        return;
    }
    whim_conversation_cut(c->conv, at);
    int64_t len = (int64_t)strlen(text);
    int64_t shown = len > 60 ? whim_utf8_before(text, 61) : len; /* whole characters only */
    for (int64_t i = 0; i < shown; i++) {
        text[i] = text[i] == '\n' ? ' ' : text[i];
    }
    view_note(&c->view, "[taken back: %.*s%s]", (int)shown, text, shown < len ? " ..." : "");
    free(text);
}

static void do_params(chat *c, const char *rest)
{
    whim_diag diag = {""};
    char name[64];
    whim_str text = {0};
    size_t n = strcspn(rest, " \t=");
    const char *value = rest + n + strspn(rest + n, " \t=");
    if (rest[0] != '\0') {
        snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), rest);
        if (value[0] == '\0') {
            view_error(&c->view, "/params NAME VALUE changes a parameter, such as /params "
                                 "temperature 0.5");
            return;
        }
        if (!(c->model != NULL ? set_param(&c->sampling.v, c->info->n_vocab, name, value, &diag)
                               : joined_set_param(&c->server, name, value, &diag))) {
            view_error(&c->view, "%s", diag.text);
            return;
        }
    }
    if (c->model != NULL) {
        append_params(&text, &c->sampling.v, true);
    } else {
        joined_append_params(&c->server, &text);
    }
    view_say(&c->view, "%s", whim_str_text(&text));
    whim_str_deinit(&text);
}

static void do_model(chat *c, const char *rest)
{
    if (rest[0] != '\0') {
        chat_switch(c, rest);
    } else if (c->model == NULL) {
        view_say(&c->view, "%s, at %s", c->server.model.name, c->server.url);
    } else {
        view_say(&c->view, "%s (%s)", whim_path_base(c->path), c->path);
    }
}

static void do_quit(chat *c, const char *rest)
{
    (void)rest;
    c->quit = true;
}

static const command command_table[] = {
    {"/help", "", "this list", do_help},
    {"/clear", "", "begin a new conversation", do_clear},
    {"/system", "[TEXT]", "show or set the system message (none: remove it)", do_system},
    {"/save", "FILE", "write the conversation to a file", do_save},
    {"/load", "FILE", "continue a conversation from a file", do_load},
    {"/regenerate", "", "answer the last message again", do_regenerate},
    {"/undo", "", "take back the last message and its answer", do_undo},
    {"/model", "[NAME]", "show the model, or continue with another one", do_model},
    {"/params", "[NAME VALUE]", "show or change how answers are sampled", do_params},
    {"/quit", "", "end the chat", do_quit},
};

static const command *commands(int32_t *n)
{
    *n = (int32_t)(sizeof command_table / sizeof command_table[0]);
    return command_table;
}

void chat_command(chat *c, const char *line)
{
    int32_t n, best = WHIM_NAME_FAR;
    const command *list = commands(&n), *near = NULL;
    char name[32];
    size_t len = strcspn(line, " \t\n");
    snprintf(name, sizeof name, "%.*s", (int)(len < 31 ? len : 31), line);
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) == 0) {
            list[i].run(c, line + len + strspn(line + len, " \t\n"));
            return;
        }
        int32_t distance = whim_name_distance(name + 1, list[i].name + 1);
        if (distance < best) {
            best = distance;
            near = &list[i];
        }
    }
    view_error(&c->view, "there is no command %s; %s%s%s", name,
               near != NULL ? "did you mean " : "", near != NULL ? near->name : "/help lists them",
               near != NULL ? "?" : "");
}

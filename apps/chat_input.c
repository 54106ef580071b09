/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from the user: with libedit on a terminal, plain otherwise. Text that is pasted (the terminal marks it)
 * goes into the line as it is, newlines too, and is sent only by Enter; a long paste stands in the line as a
 * mark and is put back when the line is sent. */
#include "base/alloc.h"
#include "base/os/term.h"
#include "chat.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_SIZE = 1000, SHORT_PASTE = 400, SHORT_PASTE_LINES = 6, MAX_PASTES = 32 };

typedef struct paste {
    char mark[64];
    whim_str text;
} paste;

struct chat_input {
    EditLine *edit; /* NULL: plain lines */
    History *history;
    char history_path[MODEL_PATH_MAX];
    const char *prompt;
    bool prompts;             /* plain lines, but a person reads them */
    bool interrupted;         /* Ctrl-C ended the line */
    paste pastes[MAX_PASTES]; /* of the message under way */
    int32_t n_paste;
    char *line; /* getline's */
    size_t line_cap;
};

/* --- keys --------------------------------------------------------------------------------------- */

static chat_input *input_of(EditLine *edit)
{
    void *data = NULL;
    el_get(edit, EL_CLIENTDATA, &data);
    return data;
}

static char *prompt_of(EditLine *edit)
{
    return (char *)(uintptr_t)input_of(edit)->prompt; /* libedit does not write to it */
}

static unsigned char key_interrupt(EditLine *edit, int key)
{
    (void)key;
    input_of(edit)->interrupted = true;
    return CC_NEWLINE;
}

static unsigned char key_suspend(EditLine *edit, int key)
{
    (void)edit;
    (void)key;
    raise(SIGTSTP);
    return CC_REDISPLAY;
}

/* Ctrl-D deletes; on an empty line it is the end. */
static unsigned char key_eof(EditLine *edit, int key)
{
    (void)key;
    const LineInfo *line = el_line(edit);
    if (line->lastchar == line->buffer) {
        return CC_EOF;
    }
    el_push(edit, "\033[3~");
    return CC_NORM;
}

static void append_wide(whim_str *text, wchar_t c)
{
    char bytes[MB_LEN_MAX];
    mbstate_t state = {0};
    size_t n = wcrtomb(bytes, c, &state);
    if (n != (size_t)-1) {
        whim_str_append_n(text, bytes, (int64_t)n);
    }
}

static bool ends_with(const whim_str *text, const char *end)
{
    int64_t n = (int64_t)strlen(end);
    return text->len >= n && memcmp(text->text + text->len - n, end, (size_t)n) == 0;
}

/* Everything up to the terminal's mark for the end of a paste; line ends become newlines. */
static void paste_read(EditLine *edit, whim_str *text)
{
    static const char end[] = "\033[201~";
    wchar_t c;
    while (text->len < MAX_PROMPT_BYTES && el_wgetc(edit, &c) == 1) {
        append_wide(text, c == L'\r' ? L'\n' : c);
        if (ends_with(text, end)) {
            text->len -= (int64_t)strlen(end);
            text->text[text->len] = '\0';
            return;
        }
    }
}

static int32_t count_lines(const whim_str *text)
{
    int32_t n = 1;
    for (int64_t i = 0; i < text->len; i++) {
        n += text->text[i] == '\n';
    }
    return n;
}

static unsigned char key_paste(EditLine *edit, int key)
{
    (void)key;
    chat_input *input = input_of(edit);
    whim_str text = {0};
    paste_read(edit, &text);
    int32_t lines = count_lines(&text);
    const char *insert = whim_str_text(&text);
    if ((text.len > SHORT_PASTE || lines > SHORT_PASTE_LINES) && input->n_paste < MAX_PASTES) {
        paste *p = &input->pastes[input->n_paste++];
        snprintf(p->mark, sizeof p->mark, "[paste %d: %d lines, %lld bytes]", input->n_paste, lines,
                 (long long)text.len);
        p->text = text;
        text = (whim_str){0};
        insert = p->mark;
    }
    if (insert[0] != '\0') {
        el_insertstr(edit, insert);
    }
    whim_str_deinit(&text);
    return CC_REFRESH;
}

/* --- opening ------------------------------------------------------------------------------------ */

static void bind_keys(EditLine *edit)
{
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_ADDFN, "whim-interrupt", "Drop the line", key_interrupt);
    el_set(edit, EL_ADDFN, "whim-suspend", "Stop the program", key_suspend);
    el_set(edit, EL_ADDFN, "whim-eof", "Delete, or end", key_eof);
    el_set(edit, EL_ADDFN, "whim-paste", "Take a paste", key_paste);
    el_set(edit, EL_BIND, "^C", "whim-interrupt", NULL);
    el_set(edit, EL_BIND, "^Z", "whim-suspend", NULL);
    el_set(edit, EL_BIND, "^D", "whim-eof", NULL);
    el_set(edit, EL_BIND, "\\e[200~", "whim-paste", NULL);
    el_set(edit, EL_BIND, "\\e[3~", "ed-delete-next-char", NULL);
    el_set(edit, EL_BIND, "\\e[H", "ed-move-to-beg", NULL);
    el_set(edit, EL_BIND, "\\e[F", "ed-move-to-end", NULL);
    el_set(edit, EL_BIND, "\\e[1~", "ed-move-to-beg", NULL);
    el_set(edit, EL_BIND, "\\e[4~", "ed-move-to-end", NULL);
    el_set(edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(edit, EL_BIND, "^W", "ed-delete-prev-word", NULL);
    /* Ctrl-C and Ctrl-Z come as keys while a line is edited. */
    el_set(edit, EL_SETTY, "-d", "-isig", NULL);
}

static void history_open(chat_input *input)
{
    HistEvent event;
    input->history = history_init();
    if (input->history == NULL) {
        return;
    }
    history(input->history, &event, H_SETSIZE, HISTORY_SIZE);
    history(input->history, &event, H_SETUNIQUE, 1);
    if (cache_path("chat_history", input->history_path, sizeof input->history_path)) {
        history(input->history, &event, H_LOAD, input->history_path);
    } else {
        input->history_path[0] = '\0';
    }
    el_set(input->edit, EL_HIST, history, input->history);
}

/* Without a locale of its own the terminal is taken to speak UTF-8. */
static void locale_open(void)
{
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        setlocale(LC_CTYPE, "C.UTF-8");
    }
}

whim_err input_open(const chat_view *view, chat_input **out)
{
    chat_input *input = whim_alloc(sizeof *input);
    if (input == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    bool terminal = view->terminal && whim_os_term_is(STDIN_FILENO);
    input->prompt = "> ";
    input->prompts = terminal;
    if (terminal && terminal_can_edit()) {
        locale_open();
        input->edit = el_init("whimbrel", stdin, stdout, stderr);
    }
    if (input->edit != NULL) {
        el_set(input->edit, EL_CLIENTDATA, input);
        el_set(input->edit, EL_PROMPT, prompt_of);
        el_set(input->edit, EL_SIGNAL, 1);
        bind_keys(input->edit);
        history_open(input);
    }
    *out = input;
    return WHIM_ERR_OK;
}

static void pastes_clear(chat_input *input)
{
    for (int32_t i = 0; i < input->n_paste; i++) {
        whim_str_deinit(&input->pastes[i].text);
    }
    input->n_paste = 0;
}

void input_close(chat_input *input)
{
    HistEvent event;
    if (input == NULL) {
        return;
    }
    if (input->history != NULL && input->history_path[0] != '\0') {
        mode_t old = umask(077); /* what was typed is private */
        history(input->history, &event, H_SAVE, input->history_path);
        umask(old);
    }
    if (input->edit != NULL) {
        el_end(input->edit);
    }
    if (input->history != NULL) {
        history_end(input->history);
    }
    pastes_clear(input);
    free(input->line);
    whim_free(input);
}

/* --- reading ------------------------------------------------------------------------------------ */

static void remember(chat_input *input, const char *line)
{
    HistEvent event;
    if (input->history != NULL && line[strspn(line, " \t\n")] != '\0') {
        history(input->history, &event, H_ENTER, line);
    }
}

static chat_line edit_line(chat_input *input, whim_str *out)
{
    static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";
    int n = 0;
    input->interrupted = false;
    fputs(paste_on, stdout);
    fflush(stdout);
    errno = 0;
    const char *line = el_gets(input->edit, &n);
    fputs(paste_off, stdout);
    if (input->interrupted || (line == NULL && errno == EINTR)) {
        fputs("^C\n", stdout);
        fflush(stdout);
        /* What stood in the line is left there by libedit until the next one begins. */
        el_reset(input->edit);
        if (n > 0) {
            whim_str_append_n(out, line, n);
        }
        return CHAT_INTERRUPT;
    }
    if (line == NULL || n <= 0) {
        fputc('\n', stdout);
        fflush(stdout);
        return CHAT_EOF;
    }
    n -= line[n - 1] == '\n';
    whim_str_append_n(out, line, n);
    remember(input, whim_str_text(out));
    return CHAT_LINE;
}

static chat_line plain_line(chat_input *input, whim_str *out)
{
    if (input->prompts) {
        fputs(input->prompt, stdout);
        fflush(stdout);
    }
    errno = 0;
    ssize_t n = getline(&input->line, &input->line_cap, stdin);
    if (n < 0 && errno == EINTR) {
        clearerr(stdin);
        fputc('\n', stdout);
        return CHAT_INTERRUPT;
    }
    if (n < 0) {
        return CHAT_EOF;
    }
    n -= n > 0 && input->line[n - 1] == '\n';
    n -= n > 0 && input->line[n - 1] == '\r';
    whim_str_append_n(out, input->line, n);
    return CHAT_LINE;
}

/* One line with its pastes put back, appended to the message. */
static chat_line next_line(chat_input *input, const char *prompt, whim_str *text)
{
    whim_str line = {0};
    input->prompt = prompt;
    chat_line got = input->edit != NULL ? edit_line(input, &line) : plain_line(input, &line);
    const char *at = whim_str_text(&line);
    for (int32_t i = 0; i < input->n_paste; i++) {
        const char *mark = strstr(at, input->pastes[i].mark);
        if (mark != NULL) {
            whim_str_append_n(text, at, mark - at);
            whim_str_append_n(text, whim_str_text(&input->pastes[i].text),
                              input->pastes[i].text.len);
            at = mark + strlen(input->pastes[i].mark);
        }
    }
    whim_str_append(text, at);
    whim_str_deinit(&line);
    pastes_clear(input);
    return got;
}

/* Lines up to one that ends with """; the quotes are dropped. */
static chat_line quoted_lines(chat_input *input, whim_str *text)
{
    static const char quotes[] = "\"\"\"";
    memmove(text->text, text->text + 3, (size_t)text->len - 2);
    text->len -= 3;
    while (!ends_with(text, quotes)) {
        if (text->len > 0) {
            whim_str_append_char(text, '\n');
        }
        chat_line got = next_line(input, ". ", text);
        if (got != CHAT_LINE) {
            return got == CHAT_EOF && text->len > 0 ? CHAT_LINE : got;
        }
    }
    text->len -= 3;
    while (text->len > 0 && text->text[text->len - 1] == '\n') {
        text->len--;
    }
    text->text[text->len] = '\0';
    return CHAT_LINE;
}

chat_line input_read(chat_input *input, whim_str *text)
{
    whim_str_clear(text);
    chat_line got = next_line(input, "> ", text);
    if (got == CHAT_LINE && strncmp(whim_str_text(text), "\"\"\"", 3) == 0) {
        return quoted_lines(input, text);
    }
    while (got == CHAT_LINE && ends_with(text, "\\")) {
        text->text[text->len - 1] = '\n';
        got = next_line(input, ". ", text);
    }
    /* The end of the input ends a message that was begun. */
    return got == CHAT_EOF && text->len > 0 ? CHAT_LINE : got;
}

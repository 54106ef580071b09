/* SPDX-License-Identifier: Apache-2.0 */
/* Lines from the user: with libedit on a terminal, plain otherwise. Text that is pasted (the
 * terminal marks it) goes into the line as it is, newlines too, and is sent only by Enter; a long
 * paste stands in the line as a mark and is put back when the line is sent. */
#include "base/alloc.h"
#include "base/os/facts.h"
#include "chat/chat.h"
#include "texts.h"

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

enum { HISTORY_SIZE = 1000, SHORT_PASTE = 400, SHORT_PASTE_LINES = 6 };

typedef struct paste {
    char mark[64];
    whim_str text;
} paste;

struct chat_input {
    EditLine *edit; /* NULL: plain lines */
    History *history;
    char history_path[MODEL_PATH_MAX];
    const char *prompt;
    bool prompts;     /* plain lines, but a person reads them */
    bool interrupted; /* Ctrl-C ended the line */
    bool reflows;     /* the terminal breaks rows anew when it gets narrower */
    int32_t width;    /* for which the line was drawn */
    paste *pastes;    /* of the whole session: history brings their marks back */
    int32_t n_paste;
    int64_t paste_cap;
    char *line; /* getline's */
    size_t line_cap;
};

/* --- the size of the terminal ----------------------------------------------------------------- */

static volatile sig_atomic_t resized, continued;

static void on_signal(int sig)
{
    *(sig == SIGWINCH ? &resized : &continued) = 1;
}

/* libedit counts rows in the old width: the line is wiped here and drawn as if there had been
 * none. */
static void redraw(EditLine *edit, chat_input *input)
{
    int32_t width = whim_os_term_width(STDOUT_FILENO);
    const LineInfo *line = el_line(edit);
    edited e = {input->prompt, line->buffer, line->cursor, line->lastchar};
    int32_t up = edited_rows_above(&e, input->width, input->reflows ? width : INT32_MAX);
    if (continued) { /* others have written since, and may have set the terminal */
        el_set(edit, EL_PREP_TERM, 0);
        el_set(edit, EL_PREP_TERM, 1);
        fputs("\033[?2004h", stdout);
        up = 0;
    }
    resized = continued = 0;
    fputc('\r', stdout);
    if (up > 0) {
        fprintf(stdout, "\033[%dA", up);
    }
    fputs("\033[J", stdout);
    fflush(stdout);
    el_resize(edit);
    input->width = width;
    el_set(edit, EL_REFRESH);
}

static chat_input *input_of(EditLine *edit)
{
    void *data = NULL;
    el_get(edit, EL_CLIENTDATA, &data);
    return data;
}

/* One character from the terminal, for libedit: 1, 0 at the end, -1 for a failure. */
static int read_wide(EditLine *edit, wchar_t *c)
{
    chat_input *input = input_of(edit);
    mbstate_t state = {0};
    for (;;) {
        char byte;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        int why = errno;
        if (resized || continued) {
            redraw(edit, input);
        }
        if (got < 0 && why == EINTR && !interrupted) {
            continue;
        }
        if (got <= 0) {
            input->interrupted = got < 0 && why == EINTR;
            errno = why;
            return (int)got;
        }
        size_t n = mbrtowc(c, &byte, 1, &state);
        if (n == (size_t)-1) {
            state = (mbstate_t){0}; /* no character: left out */
        } else if (n != (size_t)-2) {
            return 1;
        }
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

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
    (void)key;
    el_set(edit, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    el_set(edit, EL_PREP_TERM, 1);
    continued = 0;
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

/* Some terminals send both halves of CR LF as CR: then every line end is there twice. A text of few
 * lines may as well have blank ones between them. */
static bool ends_are_doubled(const whim_str *text)
{
    int32_t n = 0;
    for (int64_t i = 0; i < text->len; i++) {
        if (text->text[i] == '\n' || (text->text[i] == '\r' && text->text[i + 1] != '\r')) {
            return false;
        }
        if (text->text[i] == '\r') {
            i++;
            n++;
        }
    }
    return n >= 3;
}

/* Line ends, however they are written, become newlines. */
static void fold_line_ends(whim_str *text)
{
    char second = ends_are_doubled(text) ? '\r' : '\n';
    int64_t n = 0;
    for (int64_t i = 0; i < text->len; i++) {
        char c = text->text[i];
        i += c == '\r' && text->text[i + 1] == second;
        text->text[n++] = c == '\r' ? '\n' : c;
    }
    if (text->len > 0) {
        text->text[text->len = n] = '\0';
    }
}

/* Everything up to the terminal's mark for the end of a paste. */
static void paste_read(EditLine *edit, whim_str *text)
{
    static const char end[] = "\033[201~";
    wchar_t c;
    while (text->len < MAX_PROMPT_BYTES && el_wgetc(edit, &c) == 1) {
        append_wide(text, c);
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

static paste *paste_add(chat_input *input)
{
    return whim_grow(&input->pastes, input->n_paste + 1, &input->paste_cap, sizeof *input->pastes)
               ? &input->pastes[input->n_paste++]
               : NULL;
}

static unsigned char key_paste(EditLine *edit, int key)
{
    (void)key;
    chat_input *input = input_of(edit);
    whim_str text = {0};
    paste_read(edit, &text);
    fold_line_ends(&text);
    int32_t lines = count_lines(&text);
    const char *insert = whim_str_text(&text);
    bool is_long = text.len > SHORT_PASTE || lines > SHORT_PASTE_LINES;
    paste *p = is_long ? paste_add(input) : NULL;
    if (p != NULL) {
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

/* --- opening ---------------------------------------------------------------------------------- */

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
    /* CR and LF of a paste are told apart; Enter is CR. */
    el_set(edit, EL_SETTY, "-d", "-icrnl", NULL);
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
        el_set(input->edit, EL_GETCFN, read_wide);
        /* Rows that end by themselves would be joined with the next one in a wider terminal. */
        el_set(input->edit, EL_SETTC, "am", "no", NULL);
        input->reflows = terminal_reflows();
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
    whim_free(input->pastes);
}

/* The first mark of a paste in the text, or NULL. */
static const char *find_mark(const chat_input *input, const char *text, const paste **found)
{
    const char *first = NULL;
    for (int32_t i = 0; i < input->n_paste; i++) {
        const char *mark = strstr(text, input->pastes[i].mark);
        if (mark != NULL && (first == NULL || mark < first)) {
            first = mark;
            *found = &input->pastes[i];
        }
    }
    return first;
}

/* Lines with marks mean nothing to the next program. */
static void history_drop_marks(chat_input *input)
{
    HistEvent event;
    const paste *found;
    int more = input->n_paste > 0 ? history(input->history, &event, H_FIRST) : -1;
    while (more >= 0) {
        if (find_mark(input, event.str, &found) != NULL) {
            history(input->history, &event, H_DEL, event.num);
            more = history(input->history, &event, H_FIRST);
        } else {
            more = history(input->history, &event, H_NEXT);
        }
    }
}

void input_close(chat_input *input)
{
    HistEvent event;
    if (input == NULL) {
        return;
    }
    if (input->history != NULL && input->history_path[0] != '\0') {
        history_drop_marks(input);
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

/* --- reading ---------------------------------------------------------------------------------- */

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
    struct sigaction action = {.sa_handler = on_signal}, old_size, old_cont; /* reads end */
    sigemptyset(&action.sa_mask);
    resized = continued = 0;
    input->width = whim_os_term_width(STDOUT_FILENO);
    sigaction(SIGWINCH, &action, &old_size);
    sigaction(SIGCONT, &action, &old_cont);
    const char *line = el_gets(input->edit, &n);
    sigaction(SIGWINCH, &old_size, NULL);
    sigaction(SIGCONT, &old_cont, NULL);
    fputs(paste_off, stdout);
    if (input->interrupted) {
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
    const paste *p = NULL;
    for (const char *mark; (mark = find_mark(input, at, &p)) != NULL;) {
        whim_str_append_n(text, at, mark - at);
        whim_str_append_n(text, whim_str_text(&p->text), p->text.len);
        at = mark + strlen(p->mark);
    }
    whim_str_append(text, at);
    whim_str_deinit(&line);
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

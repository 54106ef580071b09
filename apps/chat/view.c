/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of a chat, and the state of the terminal, which is put back when a signal ends the
 * program. */
#include "base/os/facts.h"
#include "chat/chat.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct termios tty_before; /* as the program found it */
static bool sends_codes;          /* the terminal understands them */

/* Only what a signal handler may call. */
static void on_end(int sig)
{
    static const char codes[] = "\033[0m\033[?2004l"; /* no style, no marks around pastes */
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) {       /* one in the background would be stopped */
        tcsetattr(STDIN_FILENO, TCSANOW, &tty_before);
        ssize_t n = sends_codes ? write(STDOUT_FILENO, codes, sizeof codes - 1) : 0;
        (void)n; /* there is nobody left to tell */
    }
    raise(sig); /* SA_RESETHAND: now it ends the program */
}

static void guard_terminal(void)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND}, old;
    sigemptyset(&action.sa_mask);
    if (tcgetattr(STDIN_FILENO, &tty_before) != 0) {
        return;
    }
    sends_codes = terminal_can_edit();
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) {
            sigaction(signals[i], &action, NULL);
        }
    }
}

static void put(chat_view *view, const char *text, int64_t n)
{
    if (n > 0 && fwrite(text, 1, (size_t)n, stdout) != (size_t)n) {
        view->failed = true;
    }
}

static void set_style(chat_view *view, uint8_t style)
{
    static const struct {
        uint8_t style;
        const char *code;
    } codes[] = {{CHAT_DIM, "2"}, {CHAT_BOLD, "1"}, {CHAT_ITALIC, "3"}, {CHAT_CODE, "36"}};
    whim_str code = {0};
    if (!view->color || style == view->style) {
        return;
    }
    whim_str_append(&code, view->style != CHAT_PLAIN ? "\033[0m" : "");
    const char *before = "\033[";
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if ((style & codes[i].style) != 0) {
            whim_str_printf(&code, "%s%s", before, codes[i].code);
            before = ";";
        }
    }
    whim_str_append(&code, style != CHAT_PLAIN ? "m" : "");
    put(view, whim_str_text(&code), code.len);
    whim_str_deinit(&code);
    view->style = style;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void on_text(void *ctx, uint8_t style, const char *text, int64_t n)
{
    chat_view *view = ctx;
    set_style(view, style);
    put(view, text, n);
    view->at_start = text[n - 1] == '\n';
}

static void on_turn(void *ctx, int32_t indent, const char *blanks, int64_t n)
{
    (void)blanks;
    (void)n;
    if (indent >= 0) {
        put(ctx, "\n", 1);
        for (int32_t i = 0; i < indent; i++) {
            put(ctx, " ", 1);
        }
    }
}

static int32_t width_of(const chat_view *view)
{
    return view->wraps ? whim_os_term_width(STDOUT_FILENO) : 0;
}

void view_init(chat_view *view)
{
    *view = (chat_view){.at_start = true};
    view->terminal = whim_os_term_is(STDOUT_FILENO);
    view->color = view->terminal && terminal_has_color();
    view->wraps = view->terminal && terminal_can_edit();
    prose_init(&view->prose, &(prose_sink){view, on_text, on_turn}, width_of(view));
    if (view->terminal) {
        guard_terminal();
    }
}

void view_deinit(chat_view *view)
{
    prose_deinit(&view->prose);
}

static void flush(chat_view *view)
{
    if (fflush(stdout) != 0) {
        view->failed = true;
    }
}

/* Pipes get the bytes as they are. */
static void put_plain(chat_view *view, const char *text, int64_t n)
{
    put(view, text, n);
    if (n > 0) {
        view->at_start = text[n - 1] == '\n';
    }
    flush(view);
}

void view_text(chat_view *view, uint8_t style, const char *text, int64_t n)
{
    if (!view->terminal) {
        put_plain(view, text, n);
        return;
    }
    flow_resize(&view->prose.flow, width_of(view));
    prose_begin(&view->prose, style, false);
    prose_put(&view->prose, text, n);
    prose_end(&view->prose);
    view->in_answer = false;
    flush(view);
}

void view_piece(chat_view *view, bool thought, const char *text, int64_t n)
{
    if (!view->terminal) {
        put_plain(view, text, n);
        return;
    }
    flow_resize(&view->prose.flow, width_of(view));
    if (!view->in_answer || view->thought != thought) {
        prose_begin(&view->prose, thought ? CHAT_DIM : CHAT_PLAIN, !thought);
        view->in_answer = true;
        view->thought = thought;
    }
    prose_put(&view->prose, text, n);
    flush(view);
}

void view_break(chat_view *view)
{
    prose_end(&view->prose);
    view->in_answer = false;
    set_style(view, CHAT_PLAIN);
    if (!view->at_start) {
        view_text(view, CHAT_PLAIN, "\n", 1);
    }
    flush(view);
}

static void say(chat_view *view, uint8_t style, const char *fmt, va_list ap)
{
    whim_str text = {0};
    whim_str_vprintf(&text, fmt, ap);
    view_break(view);
    view_text(view, style, whim_str_text(&text), text.len);
    whim_str_deinit(&text);
    view_break(view);
}

void view_note(chat_view *view, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (view->terminal) {
        say(view, CHAT_DIM, fmt, ap);
    }
    va_end(ap);
}

void view_say(chat_view *view, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(view, CHAT_PLAIN, fmt, ap);
    va_end(ap);
}

void view_error(chat_view *view, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (view->terminal) {
        say(view, CHAT_BOLD, fmt, ap);
    } else {
        whim_str text = {0};
        whim_str_vprintf(&text, fmt, ap);
        view_break(view);
        complain(EXIT_FAILED, "%s", whim_str_text(&text));
        whim_str_deinit(&text);
    }
    va_end(ap);
}

void view_quiet_keys(chat_view *view, bool quiet)
{
    static struct termios loud;
    static bool is_quiet;
    if (quiet && view->terminal && tcgetattr(STDIN_FILENO, &loud) == 0) {
        struct termios tty = loud;
        tty.c_lflag &= ~(tcflag_t)ECHO;
        is_quiet = tcsetattr(STDIN_FILENO, TCSANOW, &tty) == 0;
    } else if (!quiet && is_quiet) {
        tcsetattr(STDIN_FILENO, TCSANOW, &loud);
        is_quiet = false;
    }
}

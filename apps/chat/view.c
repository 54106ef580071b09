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

void view_init(chat_view *view)
{
    *view = (chat_view){.at_start = true};
    view->terminal = whim_os_term_is(STDOUT_FILENO);
    view->color = view->terminal && terminal_has_color();
    if (view->terminal) {
        guard_terminal();
    }
}

static void put(chat_view *view, const char *text, int64_t n)
{
    if (n > 0 && fwrite(text, 1, (size_t)n, stdout) != (size_t)n) {
        view->failed = true;
    }
}

static void set_style(chat_view *view, chat_style style)
{
    static const char *const codes[] = {"\033[0m", "\033[2m", "\033[1m"};
    if (!view->color || style == view->style) {
        return;
    }
    if (view->style != CHAT_PLAIN) {
        put(view, codes[CHAT_PLAIN], 4);
    }
    if (style != CHAT_PLAIN) {
        put(view, codes[style], 4);
    }
    view->style = style;
}

void view_text(chat_view *view, chat_style style, const char *text, int64_t n)
{
    int64_t from = 0;
    set_style(view, style);
    for (int64_t i = 0; view->terminal && i < n;) {
        int64_t skip = terminal_control_length(text + i, n - i);
        if (skip > 0) {
            put(view, text + from, i - from);
            from = i + skip;
        }
        i += skip > 0 ? skip : 1;
    }
    put(view, text + from, n - from);
    if (n > 0) {
        view->at_start = text[n - 1] == '\n';
    }
    if (fflush(stdout) != 0) {
        view->failed = true;
    }
}

void view_break(chat_view *view)
{
    set_style(view, CHAT_PLAIN);
    if (!view->at_start) {
        view_text(view, CHAT_PLAIN, "\n", 1);
    }
}

static void say(chat_view *view, chat_style style, const char *fmt, va_list ap)
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

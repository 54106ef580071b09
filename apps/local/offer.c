/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a model for people who name none. A server asks before it binds its port, so that nobody
 * connects to one that waits for an answer. */
#include "local/offer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/os/facts.h"
#include "hub_model.h"
#include "local/fetch.h"
#include "local/fit.h"
#include "local/table.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MAX_SHOWN = 8, LINE_MAX_BYTES = 1024 };

/* Where the name lies that takes the place of MODEL. */
static char chosen[LINE_MAX_BYTES];

static void choose(whim_options *options, const char *name)
{
    snprintf(chosen, sizeof chosen, "%s", name);
    options->model = chosen;
}

/* --- auto ------------------------------------------------------------------------------------- */

void model_auto(whim_options *options)
{
    static fit_list list;
    const model_fit *better, *best;
    char source[64], rate[64], memory[32], taken[32];
    if (options->model == NULL || strcasecmp(options->model, "auto") != 0 ||
        whim_path_get_type(options->model) != WHIM_PATH_NONE) {
        return;
    }
    options->model = NULL;
    best = fit_find(&list) ? fit_best(&list, &better) : NULL;
    whim_format_bytes(memory, sizeof memory, list.room.memory);
    if (best == NULL) {
        if (!options->quiet) {
            tell_of("auto", "auto: the default model, because %s",
                    list.room.has_hub
                        ? "no other fits this machine"
                        : "no hub answers, and no other model that fits is on this machine");
        }
        return;
    }
    choose(options, best->canonical);
    if (options->quiet) {
        return;
    }
    fit_source(best, source, sizeof source);
    fit_speed(best, rate, sizeof rate);
    whim_format_bytes(taken, sizeof taken, best->row->memory);
    tell_of("auto", "auto: %s (%s), %s; takes %s of %s free memory; %s", best->name,
            best->canonical, source, taken, memory, rate);
    if (better != NULL) {
        fit_source(better, source, sizeof source);
        tell_of("auto", "auto: %s would fit, too (%s): whimbrel pull %s", better->name, source,
                better->name);
    }
}

/* --- the question ----------------------------------------------------------------------------- */

/* Somebody who can answer: a program in the background would be stopped by its terminal. */
static bool may_ask(const whim_options *options)
{
    return options->model == NULL && options->ask_time > 0 && !options->quiet && !env_is_ci() &&
           whim_os_term_is(STDIN_FILENO) && whim_os_term_is(STDERR_FILENO) &&
           tcgetpgrp(STDIN_FILENO) == getpgrp() && strcmp(options->load_format, "dummy") != 0;
}

/* Whether the default model is here or can be fetched. Without it the first of the others takes its
 * place. */
static bool has_default(const whim_options *options)
{
    char path[MODEL_PATH_MAX];
    return cache_find(default_model_name(), path, sizeof path) || fetch_is_possible(options);
}

/* The place of the first one that is shown. The best ones are at the end of the list. */
static int32_t first_shown(const fit_list *list)
{
    return list->n > MAX_SHOWN ? list->n - MAX_SHOWN : 0;
}

/* `n_own`: 1 with the default model in front, else 0. */
static void print_offer(const fit_list *list, int32_t n_own)
{
    const model_fit *better, *best = fit_best(list, &better);
    text_table table;
    char memory[32], source[64], rate[64], number[16], path[MODEL_PATH_MAX];
    whim_str out = {0};
    whim_format_bytes(memory, sizeof memory, list->room.memory);
    fprintf(stderr,
            "\nNo MODEL was given. These fit this machine (%s of memory free, read at %.0f "
            "GB/s):\n\n",
            memory, list->room.read_gbs);
    text_table_init(&table,
                    (const char *const[]){"", "MODEL", "SIZE", "COMES FROM", "SPEED", "", NULL});
    fit_default_speed(list, rate, sizeof rate);
    if (n_own > 0) {
        bool cached = cache_find(default_model_name(), path, sizeof path);
        text_table_add(&table, (const char *const[]){"  1", "the default", "135M",
                                                     cached ? "in the cache" : "0.1 GB to fetch",
                                                     rate, "a demo: quick, and knows little"});
    }
    for (int32_t i = first_shown(list); i < list->n; i++) {
        const model_fit *fit = &list->v[i];
        char about[128];
        fit_source(fit, source, sizeof source);
        fit_speed(fit, rate, sizeof rate);
        snprintf(number, sizeof number, "  %d", i - first_shown(list) + 1 + n_own);
        snprintf(about, sizeof about, "%s%s", fit->row->about,
                 fit == best ? " (what \"auto\" takes)" : "");
        text_table_add(&table, (const char *const[]){number, fit->name, fit->row->params, source,
                                                     rate, about});
    }
    text_table_write(&table, &out);
    fputs(whim_str_text(&out), stderr);
    text_table_deinit(&table);
    whim_str_deinit(&out);
}

typedef enum answer { ANSWER_LINE, ANSWER_END, ANSWER_LATE } answer;

/* A line of the terminal without its end. */
static answer read_answer(char *line, size_t size, double seconds)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int64_t until = whim_clock_ns() + (int64_t)(seconds * (double)WHIM_NS_PER_S);
    for (;;) {
        int64_t left = (until - whim_clock_ns()) / WHIM_NS_PER_MS;
        int n = left > 0 ? poll(&input, 1, (int)(left < INT32_MAX ? left : INT32_MAX)) : 0;
        if (n == 0) {
            return ANSWER_LATE;
        }
        if (n > 0) {
            break;
        }
        if (errno != EINTR) {
            return ANSWER_END;
        }
    }
    ssize_t got = read(STDIN_FILENO, line, size - 1);
    if (got <= 0) {
        if (!whim_os_term_is(STDIN_FILENO)) {
            raise(SIGHUP); /* the window was closed, of which the signal may come later */
        }
        return ANSWER_END;
    }
    line[got] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    return ANSWER_LINE;
}

/* Blanks at both ends away. */
static char *trimmed(char *line)
{
    line += strspn(line, " \t");
    size_t n = strlen(line);
    while (n > 0 && strchr(" \t", line[n - 1]) != NULL) {
        line[--n] = '\0';
    }
    return line;
}

/* Take model `number` of those that were printed. The first is taken if nobody chooses. */
static void take_number(whim_options *options, const fit_list *list, int32_t n_own, int32_t number)
{
    if (number > n_own) {
        choose(options, list->v[first_shown(list) + number - 1 - n_own].canonical);
    }
}

/* False: that is none of them, which was said. */
static bool take_answer(whim_options *options, const fit_list *list, int32_t n_own,
                        const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    int32_t n_shown = list->n - first_shown(list) + n_own;
    if (n_own > 0 && strcasecmp(text, "default") == 0) {
        return true;
    }
    if (text[0] == '\0') {
        take_number(options, list, n_own, 1);
        return true;
    }
    if (*end == '\0') {
        if (number < 1 || number > n_shown) {
            fprintf(stderr, "there are 1 to %d; ", n_shown);
            return false;
        }
        take_number(options, list, n_own, (int32_t)number);
        return true;
    }
    char ignored[CATALOGUE_TEXT_MAX];
    if (strcasecmp(text, "auto") == 0 || whim_path_get_type(text) != WHIM_PATH_NONE ||
        catalogue_find(text, ignored) != NULL || whim_hub_ref_looks(text)) {
        choose(options, text);
        model_auto(options);
        return true;
    }
    complain_no_model(text, "");
    return false;
}

void model_offer(whim_options *options)
{
    static fit_list list;
    char line[LINE_MAX_BYTES];
    if (!may_ask(options) || !fit_find(&list) || list.n == 0) {
        return;
    }
    int32_t n_own = has_default(options) ? 1 : 0;
    const char *first = n_own > 0 ? "the default" : list.v[first_shown(&list)].name;
    print_offer(&list, n_own);
    fputc('\n', stderr);
    for (bool taken = false; !taken;) {
        fprintf(stderr, "number, or another name; Enter takes %s, as does waiting %g s: ", first,
                options->ask_time);
        answer how = read_answer(line, sizeof line, options->ask_time);
        if (how != ANSWER_LINE) {
            fprintf(stderr, "\n%s: %s%s\n", how == ANSWER_LATE ? "nobody answered" : "no answer",
                    first, n_own > 0 ? " model" : "");
            take_number(options, &list, n_own, 1);
            return;
        }
        taken = take_answer(options, &list, n_own, trimmed(line));
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Answers and what a parser reads out of them, each checked whole and cut in every way. */
#ifndef WHIM_TESTS_CHAT_ROWS_H
#define WHIM_TESTS_CHAT_ROWS_H

#include <stdint.h>

#include "support/chat_events.h"
#include "support/cmocka.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, "
    "\"n\": {\"type\": \"number\"}, \"b\": {\"type\": \"boolean\"}, \"o\": {\"type\": "
    "\"object\"}, \"a\": {\"type\": \"array\"}, \"sn\": {\"type\": [\"string\", \"null\"]}, "
    "\"any\": {}}}}}]";

typedef struct row {
    const char *text, *events;
} row;

/* For sanitizers. */
static inline bool is_quick(void)
{
    return getenv("TEST_QUICK") != NULL;
}

/* Of a model that reasons and calls in these words. */
/* Of a whole group of tests. */
static json_t *row_tools;

static inline int row_tools_load(void **state)
{
    (void)state;
    row_tools = json_loads(tools_text, 0, NULL);
    return row_tools == NULL;
}

static inline int row_tools_drop(void **state)
{
    (void)state;
    json_decref(row_tools);
    return 0;
}

static inline whim_chat_parser_cfg row_config(const char *words, const json_t *tools)
{
    return (whim_chat_parser_cfg){
        .format = {.tools = whim_tool_words_named(words), .native_tools = true, .reasons = true},
        .parse_tools = true,
        .tools = tools,
    };
}

static inline void parse_row(const whim_chat_parser_cfg *cfg, const char *text, int64_t n,
                             const int64_t *cuts, int64_t n_cut, chat_log *log)
{
    assert_true(chat_log_parse(log, cfg, text, n, cuts, n_cut));
    if (log->wrong) {
        fail_msg("[%.*s] is wrong: %s", (int)n, text, whim_str_text(&log->text));
    }
}

static inline void same_when_cut(const whim_chat_parser_cfg *cfg, const char *text, int64_t n,
                                 const chat_log *whole, const int64_t *cuts, int64_t n_cut)
{
    chat_log log;
    parse_row(cfg, text, n, cuts, n_cut, &log);
    if (strcmp(whim_str_text(&log.text), whim_str_text(&whole->text)) != 0) {
        fail_msg("[%.*s] cut first at %lld gave\n%s\nwhole\n%s", (int)n, text, (long long)cuts[0],
                 whim_str_text(&log.text), whim_str_text(&whole->text));
    }
    chat_log_deinit(&log);
}

/* The text cut at every place, and every beginning of it byte by byte. */
static inline void check_cuts(const whim_chat_parser_cfg *cfg, const char *text)
{
    int64_t all[1024];
    const int64_t n_text = (int64_t)strlen(text);
    assert_true(n_text < 1024);
    for (int64_t n = 1; n <= n_text; n++) {
        chat_log whole;
        parse_row(cfg, text, n, NULL, 0, &whole);
        all[n - 1] = n;
        if (n > 1) {
            same_when_cut(cfg, text, n, &whole, all, n - 1);
        }
        for (int64_t at = 1; n == n_text && at < n; at++) {
            same_when_cut(cfg, text, n, &whole, &at, 1);
        }
        chat_log_deinit(&whole);
    }
}

static inline void check_rows_of(const whim_chat_parser_cfg *cfg, const row *rows, size_t n)
{
    assert_non_null(cfg->format.tools);
    for (size_t i = 0; i < n; i++) {
        chat_log log;
        parse_row(cfg, rows[i].text, (int64_t)strlen(rows[i].text), NULL, 0, &log);
        if (strcmp(whim_str_text(&log.text), rows[i].events) != 0) {
            fail_msg("row %zu: [%s] gave\n%s\nexpected\n%s", i, rows[i].text,
                     whim_str_text(&log.text), rows[i].events);
        }
        chat_log_deinit(&log);
        check_cuts(cfg, rows[i].text);
    }
}

static inline void check_rows(const char *words, const row *rows, size_t n)
{
    json_t *tools = json_loads(tools_text, 0, NULL);
    const whim_chat_parser_cfg cfg = row_config(words, tools);
    check_rows_of(&cfg, rows, n);
    json_decref(tools);
}

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of answers, where the form of its calls does not matter; tools/ has the forms. */
#include <stdint.h>

#include "base/alloc.h"
#include "support/chat_rows.h"
#include "support/cmocka.h"

/* No byte is lost or doubled where a call becomes too long before its name is known. */
static void long_openings_are_content(void **state)
{
    (void)state;
    static const struct {
        const char *words, *begin, *end;
        char fill;
    } rows[] = {
        {"deepseek", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>fXYZ", ' '},
        {"calls-args", "[TOOL_CALLS]f[CALL_ID]", "[ARGS]XYZ", 'a'},
        {"calls-args", "[TOOL_CALLS]", "[ARGS]XYZ", 'a'},
        {"calls-list", "[TOOL_CALLS]", "{}", ' '},
    };
    int64_t step = is_quick() ? 22 : 1;
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (int64_t n = (1 << 20) - 64; n < (1 << 20) + 2; n += step + n % 7) {
            whim_chat_parser_cfg cfg = row_config(rows[i].words, row_tools);
            chat_log log;
            whim_str text = {0};
            whim_str_append(&text, rows[i].begin);
            for (int64_t k = 0; k < n; k++) {
                whim_str_append_char(&text, rows[i].fill);
            }
            whim_str_append(&text, rows[i].end);
            assert_true(chat_log_parse(&log, &cfg, text.text, text.len, NULL, 0));
            assert_int_equal(log.text.len, text.len + 3); /* c[..] */
            chat_log_deinit(&log);
            whim_str_deinit(&text);
        }
    }
}

/* Wherever an answer that can hold nothing else is cut, no piece of a call becomes content. */
static void a_cut_call_is_no_content_where_only_calls_come(void **state)
{
    (void)state;
    static const struct {
        const char *words, *text;
    } answers[] = {
        {"hermes", "<think>a</think>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": 1}}\n"
                   "</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"},
        {"xml", "<think>a</think>\n<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n"
                "</function>\n</tool_call>"},
        {"llama3", "{\"name\": \"f\", \"parameters\": {\"s\": 1}}; {\"name\": \"f\", "
                   "\"parameters\": {}}"},
        {"calls-list", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", "
                       "\"arguments\": {\"s\": 1}}]"},
        {"calls-args", "[TOOL_CALLS]f[ARGS]{\"s\": 1}[TOOL_CALLS]f[ARGS]{}"},
        {"functionary", "<function=f>{\"s\": 1}</function><function=f>{}</function>"},
    };
    for (size_t i = 0; i < COUNT(answers); i++) {
        whim_chat_parser_cfg cfg = row_config(answers[i].words, row_tools);
        const char *text = answers[i].text;
        cfg.only_calls = true;
        for (int64_t n = 0; n <= (int64_t)strlen(text); n++) {
            chat_log log;
            assert_true(chat_log_parse(&log, &cfg, text, n, NULL, 0));
            if (strstr(whim_str_text(&log.text), "c[") != NULL) {
                fail_msg("%.*s gave %s", (int)n, text, log.text.text);
            }
            chat_log_deinit(&log);
        }
    }
}

static void tags_are_text_without_tools(void **state)
{
    (void)state;
    static const char text[] = "<think>a</think>\n<tool_call>{\"name\": \"f\"}</tool_call> ";
    whim_chat_parser_cfg cfg = row_config("hermes", row_tools);
    chat_log log;
    cfg.parse_tools = false;
    assert_true(chat_log_parse(&log, &cfg, text, (int64_t)strlen(text), NULL, 0));
    assert_string_equal(log.text.text, "r[a]c[<tool_call>{\"name\": \"f\"}</tool_call> ]");
    chat_log_deinit(&log);
    cfg.format.reasons = false;
    assert_true(chat_log_parse(&log, &cfg, text, 17, NULL, 0));
    assert_string_equal(log.text.text, "c[<think>a</think>\n]");
    chat_log_deinit(&log);
    whim_chat_parser *p;
    cfg.starts_inside = true;
    assert_int_equal(whim_chat_parser_create(&cfg, &p), WHIM_ERR_OK);
    assert_true(whim_chat_parser_in_reasoning(p));
    log = (chat_log){.last = -1};
    whim_chat_parser_push(p, "a</think>b", 10, chat_log_event, &log);
    assert_false(whim_chat_parser_in_reasoning(p));
    whim_chat_parser_destroy(p);
    chat_log_deinit(&log);
}

/* Nothing is lost when memory runs out at any point: the bytes are there, whatever they are
 * called. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char text[] = "hello \n <tool_call>\n{\"arguments\": {\"a\": 1}, \"name\": \"f\"}";
    whim_chat_parser_cfg cfg = row_config("hermes", row_tools);
    whim_chat_parser *p;
    whim_alloc_fail_after(0);
    assert_int_equal(whim_chat_parser_create(&cfg, &p), WHIM_ERR_NO_MEMORY);
    whim_alloc_fail_after(-1);
    for (int64_t n = 0; n < 8; n++) {
        chat_log log = {.last = -1};
        whim_str_printf(&log.text, "%250s", ""); /* room, which the test itself must not lack */
        whim_str_printf(&log.args, "%250s", "");
        whim_str_clear(&log.text);
        whim_str_clear(&log.args);
        assert_int_equal(whim_chat_parser_create(&cfg, &p), WHIM_ERR_OK);
        whim_alloc_fail_after(n);
        whim_chat_parser_push(p, text, (int64_t)strlen(text), chat_log_event, &log);
        whim_chat_parser_finish(p, chat_log_event, &log);
        whim_alloc_fail_after(-1);
        whim_chat_parser_destroy(p);
        assert_non_null(strstr(whim_str_text(&log.text), "hello"));
        assert_non_null(strstr(whim_str_text(&log.text), "\"a\": 1"));
        chat_log_deinit(&log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_openings_are_content),
        cmocka_unit_test(tags_are_text_without_tools),
        cmocka_unit_test(a_cut_call_is_no_content_where_only_calls_come),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, row_tools_load, row_tools_drop);
}

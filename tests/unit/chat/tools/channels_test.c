/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are messages with headers: reasoning, content and calls out of them, however they
 * are cut. */
#include "base/alloc.h"
#include "support/chat_rows.h"

#define THOUGHT(text) "<|channel|>analysis<|message|>" text "<|end|>"
#define NEXT "<|start|>assistant"
#define FINAL(text) "<|channel|>final<|message|>" text

static void harmony_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {FINAL("Hi <b>\n<|"), "c[Hi <b>\n<|]"},
        {THOUGHT("I <think>") NEXT FINAL("so<|return|>"), "r[I <think>]c[so]"},
        {THOUGHT("a") NEXT THOUGHT("b") NEXT FINAL("c"), "r[a\nb]c[c]"},
        {THOUGHT("a") NEXT " to=functions.f<|channel|>commentary json<|message|>{\"i\": 1}<|call|>",
         "r[a] 0:fargs[{\"i\": 1}] end"},
        {"<|channel|>commentary to=functions.g.h <|constrain|>json<|message|> {\"s\": "
         "\"<|end|\"}\n",
         " 0:g.hargs[{\"s\": \"<|end|\"}] end"},
        {"<|channel|>commentary to=functions.f<|message|>{\"s\": \"<|end|>\\\"<|call|>\"}<|call|>",
         " 0:fargs[{\"s\": \"<|end|>\\\"<|call|>\"}] end"},
        {"<|channel|>commentary<|message|>Let me see.<|end|>" NEXT
         "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>" NEXT
         " to=functions.g<|channel|>commentary json<|message|>{}",
         "c[Let me see.] 0:fargs[{}] end 1:gargs[{}] end"},
        /* a message that the next one ends */
        {"<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "r[a]c[b]"},
        {"<|channel|>analysis<|message|>a" NEXT FINAL("b"), "r[a]c[b]"},
        /* no headers at all, as where the prompt has one already */
        {" and so on", "c[ and so on]"},
        {"too<|end|>", "c[too]"},
        {"<|other|>x", "c[<|other|>x]"},
        /* not for a function */
        {"<|channel|>commentary to=browser.find <|constrain|>json<|message|>{}", "c[{}]"},
        /* cut */
        {"<|channel|>analysis<|message|>a<|en", "r[a<|en]"},
        {"<|channel|>anal", ""},
        {" to=functions.f<|channel|>commentary json<|message|>{\"i\": ", " 0:fargs[{\"i\": ]"},
        /* malformed */
        {" to=functions.f<|channel|>commentary json<|message|>[1]<|call|>",
         "c[ to=functions.f<|channel|>commentary json<|message|>[1]]"},
        {" to=functions.f<|channel|>commentary json<|message|>{\"i\": x} y",
         " 0:fargs[{\"i\": ]c[x} y]"},
        {" to=functions.f<|channel|>commentary json<|message|>{}z", " 0:fargs[{}] endc[z]"},
        {" to=functions.f<|channel|>commentary json<|message|><|call|>" NEXT FINAL("b"),
         "c[ to=functions.f<|channel|>commentary json<|message|>\nb]"},
        {FINAL("one<|end|>") NEXT "<|channel|>commentary to=functions.f<|message|>no json",
         "c[one\n" NEXT "<|channel|>commentary to=functions.f<|message|>no json]"},
        /* what only looks as if a header began */
        {"to=5 is the answer", "c[to=5 is the answer]"},
        {"<|channel|>commentary to=functions.f<|message|><",
         "c[<|channel|>commentary to=functions.f<|message|><]"},
        {"<", "c[<]"},
    };
    check_rows("harmony", rows, COUNT(rows));
}

/* Without tools a message to a function is content, and headers are none. */
static void no_tools_are_offered(void **state)
{
    (void)state;
    static const char text[] =
        THOUGHT("a") NEXT " to=functions.f<|channel|>commentary json<|message|>{}";
    const whim_chat_parser_cfg cfg = {
        .format = {.tools = whim_tool_words_named("harmony"), .native_tools = true}};
    chat_log log;
    parse_row(&cfg, text, (int64_t)strlen(text), NULL, 0, &log);
    assert_string_equal(whim_str_text(&log.text), "r[a]c[{}]");
    chat_log_deinit(&log);
    whim_chat_parser *p;
    assert_int_equal(whim_chat_parser_create(&cfg, &p), WHIM_ERR_OK);
    log = (chat_log){.last = -1};
    assert_false(whim_chat_parser_in_reasoning(p));
    whim_chat_parser_push(p, text, 31, chat_log_event, &log);
    assert_true(whim_chat_parser_in_reasoning(p));
    whim_chat_parser_push(p, text + 31, (int64_t)strlen(text) - 31, chat_log_event, &log);
    assert_false(whim_chat_parser_in_reasoning(p));
    whim_chat_parser_destroy(p);
    chat_log_deinit(&log);
}

/* Nothing that was said is lost when memory runs out at any point. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char text[] = "<|channel|>final<|message|>hello";
    const whim_chat_parser_cfg cfg = {
        .format = {.tools = whim_tool_words_named("harmony"), .native_tools = true}};
    for (int64_t n = 0; n < 6; n++) {
        whim_chat_parser *p;
        chat_log log = {.last = -1};
        whim_str_printf(&log.text, "%250s", ""); /* room, which the test itself must not lack */
        whim_str_clear(&log.text);
        assert_int_equal(whim_chat_parser_create(&cfg, &p), WHIM_ERR_OK);
        whim_alloc_fail_after(n);
        whim_chat_parser_push(p, text, (int64_t)strlen(text), chat_log_event, &log);
        whim_chat_parser_finish(p, chat_log_event, &log);
        whim_alloc_fail_after(-1);
        whim_chat_parser_destroy(p);
        assert_non_null(strstr(whim_str_text(&log.text), "hello"));
        chat_log_deinit(&log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(harmony_rows),
                                       cmocka_unit_test(no_tools_are_offered),
                                       cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

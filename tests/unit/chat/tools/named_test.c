/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose name stands before their arguments: those with an id in front, and answers that say
 * whom each part is for. */
#include <stdint.h>

#include "base/alloc.h"
#include "support/chat_rows.h"

static void named_rows(void **state)
{
    (void)state;
    static const row mistral[] = {
        {"ok [TOOL_CALLS]f[ARGS]{\"i\": 1}[TOOL_CALLS]g.h[ARGS] {}",
         "c[ok] 0:fargs[{\"i\": 1}] end 1:g.hargs[{}] end"},
        {"[TOOL_CALLS]f[CALL_ID]a[b[ARGS]{\"s\": \"[ARGS]\"} z",
         " 0:fargs[{\"s\": \"[ARGS]\"}] endc[z]"},
        {"[TOOL_CALLS] f [ARGS]{}", " 0:fargs[{}] end"},
        {"[TOOL_CALLS][ARGS]{}", "c[[TOOL_CALLS][ARGS]{}]"},
        {"[TOOL_CALLS]f[ARGS][1]", "c[[TOOL_CALLS]f[ARGS][1]]"},
        {"[TOOL_CALLS]f\n[ARGS]{}", "c[[TOOL_CALLS]f\n[ARGS]{}]"},
        {"[TOOL_CALLS][TOOL_CALLS]f[ARGS]{}", "c[[TOOL_CALLS]] 0:fargs[{}] end"},
        {"[TOOL_CALLS]f[ARGS]{\"i\": 1,}x", " 0:fargs[{\"i\": 1,]c[}x]"},
        {"[TOOL_CALLS]f[AR", "c[[TOOL_CALLS]f[AR]"},
        {"[TOOL_CALLS]f[ARGS]{\"i", " 0:fargs[{\"i]"},
    };
    static const row functionary[] = {
        {"<function=f>{\"i\": 1}</function><function=g>{}</function>\nb",
         " 0:fargs[{\"i\": 1}] end 1:gargs[{}] endc[b]"},
        {"<function=f>{}<function=g>{}", " 0:fargs[{}] end 1:gargs[{}] end"},
        {"<function=f>text</function>", "c[<function=f>text</function>]"},
        {"<function=f>{\"i\": x}</function> y", " 0:fargs[{\"i\": ]c[x}y]"},
    };
    static const row deepseek[] = {
        {"a\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"i\": "
         "1}<｜tool▁call▁end｜>\n"
         "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>b",
         "c[a] 0:fargs[{\"i\": 1}] end 1:gargs[{}] endc[b]"},
        {"<｜tool▁calls▁begin｜>x", "c[<｜tool▁calls▁begin｜>x]"},
    };
    static const row fenced[] = {
        {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"i\": "
         "1}\n```"
         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
         " 0:fargs[{\"i\": 1}] end"},
    };
    check_rows("calls-args", mistral, COUNT(mistral));
    check_rows("functionary", functionary, COUNT(functionary));
    check_rows("deepseek", deepseek, COUNT(deepseek));
    check_rows("deepseek-fenced", fenced, COUNT(fenced));
}

#define BEGIN(id) "<|tool_call:begin|>" id "<|tool_call:name|>"

static void solar_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so<|tool_calls|>" BEGIN("a1b2") "f<|tool_call:args|>{\"s\": "
                                          "\"<|calls|>\"}<|tool_call:end|>" BEGIN(
                                              "") "g<|tool_call:args|> {}<|tool_call:end|>"
                                                  "<|calls|>b",
         "c[so] 0:fargs[{\"s\": \"<|calls|>\"}] end 1:gargs[{}] endc[b]"},
        {"<|tool_calls|>" BEGIN("x"), "c[<|tool_calls|>" BEGIN("x") "]"},
        {"<|tool_calls|><|tool_call:begin|>x<|tool", "c[<|tool_calls|><|tool_call:begin|>x<|tool]"},
        {"<|tool_calls|>" BEGIN("x") "<|tool_call:args|>{}",
         "c[<|tool_calls|>" BEGIN("x") "<|tool_call:args|>{}]"},
    };
    check_rows("solar", rows, COUNT(rows));
}

/* Thoughts are a turn of their own, and so is what is said. */
static void solar_thoughts(void **state)
{
    (void)state;
#define THOUGHT "<|think|>why<|end|><|begin|>assistant"
    static const row rows[] = {
        {THOUGHT "<|content|>so", "r[why]c[so]"},
        {THOUGHT "<|tool_calls|>" BEGIN("a1") "f<|tool_call:args|>{}<|tool_call:end|><|calls|>",
         "r[why] 0:fargs[{}] end"},
        {"<|content|>so", "c[so]"},
        {"<|think|>why<|end|>", "r[why<|end|>]"},
    };
    json_t *tools = json_loads(tools_text, 0, NULL);
    whim_chat_parser_cfg cfg = row_config("solar", tools);
    for (int32_t i = 0; i < whim_think_words_n_known; i++) {
        const whim_think_words *words = &whim_think_words_known[i];
        cfg.format.think = strcmp(words->open, "<|think|>") == 0 ? words : cfg.format.think;
    }
    check_rows_of(&cfg, rows, COUNT(rows));
    cfg.parse_tools = false;
    check_rows_of(&cfg, rows, 1);
    json_decref(tools);
}

/* An id that does not end is no id. */
static void long_ids_break(void **state)
{
    (void)state;
    char text[700];
    const whim_chat_parser_cfg cfg = {
        .format = {.tools = whim_tool_words_named("solar"), .native_tools = true},
        .parse_tools = true};
    chat_log log;
    snprintf(text, sizeof text, "<|tool_calls|><|tool_call:begin|>%0300d<|tool_call:name|>f", 0);
    parse_row(&cfg, text, (int64_t)strlen(text), NULL, 0, &log);
    assert_int_equal(log.n_call, 0);
    assert_non_null(strstr(whim_str_text(&log.text), text));
    chat_log_deinit(&log);
    check_cuts(&cfg, text);
}

/* The prompt ends with the mark before whom the answer is for. */
static void addressed_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"all\nHi.\n", "c[Hi.\n]"},
        {"all\n  two\nlines", "c[  two\nlines]"},
        {"f\n{\"i\": 1}", " 0:fargs[{\"i\": 1}] end"},
        {"all\nLet me see.\n>>>f\n{\"s\": \">>>all\\n\"}>>>f\n {}",
         "c[Let me see.] 0:fargs[{\"s\": \">>>all\\n\"}] end 1:fargs[{}] end"},
        {"f\n{}>>>all\nDone.>>>all\nYes.", " 0:fargs[{}] endc[Done.\nYes.]"},
        {"all\nA.\n>>>all\n B.\n>>>all\n\n>>>f\n{}", "c[A.\n B.] 0:fargs[{}] end"},
        {"all\n>>>all\nA.>>>f\n{}>>>all\nB.", "c[A.] 0:fargs[{}] endc[\nB.]"},
        /* Python's prompt is the mark, too */
        {"all\n>>> f\n1\n>>>g\n{}", "c[>>> f\n1\n>>>g\n{}]"},
        /* what is for nobody that is known is content, and so is what has no name */
        {"Hi.", "c[Hi.]"},
        {"Hi.\nHow are you?", "c[Hi.\nHow are you?]"},
        {"other\n{}", "c[other\n{}]"},
        {"f\nno", "c[f\nno]"},
        {"\nx", "c[\nx]"},
        {"a\"b\n>>>f\n{}", "c[a\"b] 0:fargs[{}] end"},
        {"f\n{\"i\": x", " 0:fargs[{\"i\": ]c[x]"},
        {"al", "c[al]"},
    };
    json_t *tools = json_loads(tools_text, 0, NULL);
    whim_chat_parser_cfg cfg = {
        .format = {.tools = whim_tool_words_named("functionary-v3"), .native_tools = true},
        .starts_named = true,
        .parse_tools = true,
        .tools = tools,
    };
    static const row later[] = {{"so f\n{}", "c[so f\n{}]"},
                                {"so\n>>>f\n{}", "c[so] 0:fargs[{}] end"}};
    static const row none[] = {
        {"all\nHi. >>>f\n{}", "c[Hi. >>>f\n{}]"}, {"f\n{}\n", "c[f\n{}\n]"}, {"<b>\n", "c[<b>\n]"}};
    check_rows_of(&cfg, rows, COUNT(rows));
    cfg.starts_named = false; /* as where the prompt goes on with a turn */
    check_rows_of(&cfg, later, COUNT(later));
    cfg.starts_named = true;
    cfg.parse_tools = false;
    check_rows_of(&cfg, none, COUNT(none));
    json_decref(tools);
}

/* Thoughts in the words of the model that writes such calls; those of others are text. */
static void thoughts_in_other_words(void **state)
{
    (void)state;
    static const row rows[] = {
        {"[THINK]Why <think>?\n[/THINK]\nso[TOOL_CALLS]f[ARGS]{\"i\": 1}",
         "r[Why <think>?]c[so] 0:fargs[{\"i\": 1}] end"},
        {"[THINK]a[TOOL_CALLS]f[ARGS]{}[/THINK]b", "r[a[TOOL_CALLS]f[ARGS]{}]c[b]"},
        {"<think>a</think>b", "c[<think>a</think>b]"},
        {"[THINK]a[/THI", "r[a[/THI]"},
        {"[THI", "c[[THI]"},
    };
    json_t *tools = json_loads(tools_text, 0, NULL);
    const whim_chat_parser_cfg cfg = {.format = {.tools = whim_tool_words_named("calls-args"),
                                                 .native_tools = true,
                                                 .reasons = true,
                                                 .think = &whim_think_words_known[1]},
                                      .parse_tools = true,
                                      .tools = tools};
    check_rows_of(&cfg, rows, COUNT(rows));
    json_decref(tools);
}

/* Nothing is lost when memory runs out at any point. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char text[] = "hello you\nand all";
    const whim_chat_parser_cfg cfg = {
        .format = {.tools = whim_tool_words_named("functionary-v3"), .native_tools = true},
        .starts_named = true,
        .parse_tools = true};
    for (int64_t n = 0; n < 10; n++) {
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
        assert_string_equal(whim_str_text(&log.text), "c[hello you\nand all");
        chat_log_deinit(&log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_rows),        cmocka_unit_test(solar_rows),
        cmocka_unit_test(solar_thoughts),    cmocka_unit_test(long_ids_break),
        cmocka_unit_test(addressed_rows),    cmocka_unit_test(thoughts_in_other_words),
        cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with tags around keys and around values: what is read out of them, and that nothing depends
 * on how an answer, or any beginning of it, is cut. */
#include <stdint.h>

#include "base/alloc.h"
#include "support/chat_rows.h"
#include "support/cmocka.h"

static void xml_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so\n\n<tool_call>\n<function=f>\n<parameter=s>\na \"b\"\n\tc\\\n</parameter>\n"
         "<parameter=i>\n2\n</parameter>\n</function>\n</tool_call>\n",
         "c[so] 0:fargs[{\"s\": \"a \\\"b\\\"\\n\\tc\\\\\", \"i\": 2}] end"},
        {"<tool_call>\n<function=f>\n</function>\n</tool_call>", " 0:fargs[{}] end"},
        {"<tool_call><function=f><parameter=s>5</parameter><parameter=i>x5</parameter>"
         "</function></tool_call>",
         " 0:fargs[{\"s\": \"5\", \"i\": \"x5\"}] end"},
        {"<function=f><parameter=s>a</parameter><parameter=i>1</parameter><parameter=s>b</"
         "parameter>"
         "<parameter=i>{</parameter><parameter=n>2</parameter></function>",
         " 0:fargs[{\"s\": \"a\", \"i\": 1, \"n\": 2}] end"},
        {"<function=f><parameter=i>1</parameter><parameter=i>2", " 0:fargs[{\"i\": 1]"},
        {"<function=f><parameter=s>a</parameter></function>\n<function=f><parameter=s>b</parameter>"
         "</function>",
         " 0:fargs[{\"s\": \"a\"}] end 1:fargs[{\"s\": \"b\"}] end"},
        {"<think>w\n<tool_call>\n<function=f>\n</function>\n</tool_call>", "r[w] 0:fargs[{}] end"},
        {"<function=f><parameter=b>True</parameter><parameter=n>-1.5e3</parameter></function>",
         " 0:fargs[{\"b\": true, \"n\": -1.5e3}] end"},
        {"<tool_call>\n<function=f>\n<parameter=o>\n {\"k\": [1, \"<\"]} \n</parameter>\n"
         "<parameter=a>\n[1,\n2]\n</parameter>\n<parameter=sn>\nnull\n</parameter>\n</function>\n"
         "</tool_call>",
         " 0:fargs[{\"o\": {\"k\": [1, \"<\"]}, \"a\": [1,\n2], \"sn\": null}] end"},
        {"<tool_call><function=g><parameter=u>12</parameter><parameter=v>12 a</parameter>"
         "<parameter=w>\"q\"</parameter><parameter=x>tru</parameter></function></tool_call>",
         " 0:gargs[{\"u\": 12, \"v\": \"12 a\", \"w\": \"\\\"q\\\"\", \"x\": \"tru\"}] end"},
        {"<function=f><parameter=b>T1</parameter></function>", " 0:fargs[{\"b\": \"T1\"}] end"},
        {"<function=f><parameter=b>Fal</parameter></function>", " 0:fargs[{\"b\": \"Fal\"}] end"},
        {"<function=f><parameter=b>true</parameter></function>", " 0:fargs[{\"b\": true}] end"},
        {"<tool_call><function=f><parameter=s>\n</parameter></function></tool_call>",
         " 0:fargs[{\"s\": \"\"}] end"},
        {"<tool_call><function=f><parameter=any>\n</parameter></function></tool_call>",
         " 0:fargs[{\"any\": \"\"}] end"},
        {"<tool_call><function=f><parameter=s>\n\n\na\n\n</parameter></function></tool_call>",
         " 0:fargs[{\"s\": \"\\n\\na\\n\"}] end"},
        {"<tool_call><function=f><parameter=s>a</param\n</functio</parameter></function>"
         "</tool_call>",
         " 0:fargs[{\"s\": \"a</param\\n</functio\"}] end"},
        /* missing ends */
        {"<tool_call>\n<function=f>\n<parameter=s>\na\n<parameter=i>\n3\n</function>\n"
         "</tool_call>z",
         " 0:fargs[{\"s\": \"a\", \"i\": 3}] endc[z]"},
        {"<tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n</tool_call>\n<tool_call>"
         "<function=g></function></tool_call>",
         " 0:fargs[{\"s\": \"a\"}] end 1:gargs[{}] end"},
        /* cut */
        {"<tool_call>\n<function=f>\n<parameter=s>\nab\n</para", " 0:fargs[{\"s\": \"ab]"},
        {"<tool_call>\n<function=f>\n<parameter=i>\n12", " 0:fargs[{\"i\": 12]"},
        {"<tool_call>\n<function=f>\n<param", " 0:fargs[{]"},
        {"<tool_call>\n<function=f>\n<parameter=ke", " 0:fargs[{]"},
        {"<tool_call>\n<function=f", "c[<tool_call>\n<function=f]"},
        /* malformed */
        {"<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
         "c[<tool_call>\n{\"name\": \"f\"}\n</tool_call>]"},
        {"<tool_call><function=>", "c[<tool_call><function=>]"},
        {"<tool_call><function=a\nb>", "c[<tool_call><function=a\nb>]"},
        {"<tool_call><function=f>junk</function></tool_call> z", " 0:fargs[{]c[junk</function>z]"},
        {"<tool_call><function=f><parameter=a\n>", " 0:fargs[{]c[<parameter=a\n>]"},
        {"<tool_call><function=f></function>junk</tool_call>", " 0:fargs[{}] endc[junk]"},
        {"<tool_call><tool_call><function=f></function></tool_call>",
         "c[<tool_call>] 0:fargs[{}] end"},
    };
    check_rows("xml", rows, COUNT(rows));
}

static void invoke_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"<think>w</think>\n\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter "
         "name=\"s\">Oslo\n</parameter>\n<parameter name=\"i\">2</parameter>\n</invoke>\n<invoke "
         "name=\"g\">\n</invoke>\n</minimax:tool_call>",
         "r[w] 0:fargs[{\"s\": \"Oslo\\n\", \"i\": 2}] end 1:gargs[{}] end"},
        {"<minimax:tool_call><invoke name='f'><parameter name=s>a</parameter></invoke>"
         "</minimax:tool_call>\nb",
         " 0:fargs[{\"s\": \"a\"}] endc[b]"},
        {"<tool_call>x", "c[<tool_call>x]"},
        {"<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"b\">\nfalse\n</invoke>",
         " 0:fargs[{\"b\": false}] end"},
        {"<minimax:tool_call>\nwhat", "c[<minimax:tool_call>\nwhat]"},
        /* In a string of JSON a tag is text, unless it begins a line. */
        {"<minimax:tool_call><invoke name=\"f\"><parameter name=\"o\">{\"k\": \"</parameter>\"}"
         "</parameter></invoke></minimax:tool_call>",
         " 0:fargs[{\"o\": {\"k\": \"</parameter>\"}}] end"},
        {"<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">[\"x\n</invoke>\n"
         "</minimax:tool_call>",
         " 0:fargs[{\"a\": \"[\\\"x\"}] end"},
        {"<minimax:tool_call><invoke name=\"f\"><parameter name=\"s\">[\"</parameter></invoke>",
         " 0:fargs[{\"s\": \"[\\\"\"}] end"},
        {"<minimax:tool_call><invoke name=\"f\"></invoke><invoke na", " 0:fargs[{}] end"},
        {"<minimax:tool_call><invoke name=\"f\"></invoke><invoke name=\"g",
         " 0:fargs[{}] endc[<invoke name=\"g]"},
    };
    check_rows("invoke", rows, COUNT(rows));
}

static void pairs_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"<think>w</think>\nso\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a "
         "\"b\"\n</arg_value>\n<arg_key>i</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n"
         "<tool_call>g\n</tool_call>",
         "r[w]c[so] 0:fargs[{\"s\": \"a \\\"b\\\"\\n\", \"i\": 2}] end 1:gargs[{}] end"},
        {"<tool_call>f<arg_key>s</arg_key><arg_value></arg_value><arg_key>o</arg_key><arg_value>"
         "{\"a\": [1, \"</\"]}</arg_value></tool_call><tool_call>g</tool_call> end",
         " 0:fargs[{\"s\": \"\", \"o\": {\"a\": [1, \"</\"]}}] end 1:gargs[{}] endc[end]"},
        {"<tool_call>\n a b \n</tool_call>", " 0:a bargs[{}] end"},
        /* a key that comes twice, and ends that are missing */
        {"<tool_call>f\n<arg_key>i</arg_key><arg_value>1</arg_value><arg_key>i</arg_key><arg_value>"
         "2</arg_value></tool_call>",
         " 0:fargs[{\"i\": 1}] end"},
        {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x\n<arg_key>i</arg_key>\n<arg_value>3\n"
         "</tool_call>z",
         " 0:fargs[{\"s\": \"x\", \"i\": 3}] endc[z]"},
        {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value></arg</arg_value>\n</tool_call>",
         " 0:fargs[{\"s\": \"</arg\"}] end"},
        /* tags that a thought holds begin nothing */
        {"<think>a <tool_call>f</tool_call></think>b", "r[a <tool_call>f</tool_call>]c[b]"},
        /* cut */
        {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>ab</arg", " 0:fargs[{\"s\": \"ab]"},
        {"<tool_call>f\n<arg_key>s</arg", " 0:fargs[{]"},
        {"<tool_call>f\n", "c[<tool_call>f\n]"},
        /* malformed */
        {"<tool_call>{\"name\": \"f\"}</tool_call>", "c[<tool_call>{\"name\": \"f\"}</tool_call>]"},
        {"<tool_call>\n</tool_call>", "c[<tool_call>\n</tool_call>]"},
        {"<tool_call>a\nb</tool_call>", "c[<tool_call>a\nb</tool_call>]"},
        {"<tool_call>some words\nmore", "c[<tool_call>some words\nmore]"},
        {"<tool_call><tool_call>g</tool_call>", "c[<tool_call>] 0:gargs[{}] end"},
        {"<tool_call>f\n<arg_key></arg_key>", " 0:fargs[{]c[<arg_key></arg_key>]"},
        {"<tool_call>f\n<arg_key>s\n</arg_key>", " 0:fargs[{]c[<arg_key>s\n</arg_key>]"},
        {"<tool_call>f\n<arg_key>s</arg_key>x</tool_call>",
         " 0:fargs[{]c[<arg_key>s</arg_key>x</tool_call>]"},
        {"<tool_call>f\n</tool_call></tool_call> z", " 0:fargs[{}] endc[</tool_call> z]"},
    };
    check_rows("pairs", rows, COUNT(rows));
    check_rows("pairs-tight", rows, COUNT(rows));
}

/* A tag ends the name, and all calls stand in a list. */
static void separated_rows(void **state)
{
    (void)state;
#define HY(x) "<" x ":opensource>"
#define HYEND(x) "</" x ":opensource>"
#define KEY(key, value) \
    HY("arg_key") key HYEND("arg_key") "\n" HY("arg_value") value HYEND("arg_value") "\n"
#define CALL(name, inner) HY("tool_call") name HY("tool_sep") "\n" inner HYEND("tool_call") "\n"
    static const row rows[] = {
        {"so" HY("tool_calls") "\n" CALL("f", KEY("s", "a <b>\n") KEY("i", "-2")) CALL("g", "")
             HYEND("tool_calls"),
         "c[so] 0:fargs[{\"s\": \"a <b>\\n\", \"i\": -2}] end 1:gargs[{}] end"},
        {CALL("f", KEY("o", "{\"a\": [1]}")), " 0:fargs[{\"o\": {\"a\": [1]}}] end"},
        {HY("tool_calls") HY("tool_call") "f\n" KEY("i", "1") HYEND("tool_call"),
         " 0:fargs[{\"i\": 1}] end"},
        {HY("tool_calls") HY("tool_call") "f" HY("tool_sep"),
         "c[" HY("tool_calls") HY("tool_call") "f" HY("tool_sep") "]"},
        {HY("tool_calls") HY("tool_call") "f" HY("tool_sep") "x",
         "c[" HY("tool_calls") HY("tool_call") "f" HY("tool_sep") "x]"},
        {"<tool_calls:", "c[<tool_calls:]"},
    };
    static const row plain[] = {
        {"<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n"
         "</tool_call>\n</tool_calls>",
         " 0:fargs[{\"s\": \"x\"}] end"},
    };
#undef HY
#undef HYEND
#undef KEY
#undef CALL
    check_rows("hy3", rows, COUNT(rows));
    check_rows("hy3-preview", plain, COUNT(plain));
}

#define OPEN "<｜DSML｜tool_calls>\n"
#define CLOSE "</｜DSML｜tool_calls>"
#define INVOKE(name, inner) "<｜DSML｜invoke name=\"" name "\">\n" inner "</｜DSML｜invoke>\n"
#define TYPED(key, string, value) \
    "<｜DSML｜parameter name=\"" key "\" string=\"" string "\">" value "</｜DSML｜parameter>\n"

/* The tag says what a value is, and wins over the schema. */
static void dsml_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so\n\n" OPEN INVOKE("f", TYPED("s", "true", "a\n\"b\"") TYPED("i", "false", "2") TYPED(
                                       "o", "false", "{\"k\": [1, \"x\"]}")) INVOKE("g", "") CLOSE,
         "c[so] 0:fargs[{\"s\": \"a\\n\\\"b\\\"\", \"i\": 2, \"o\": {\"k\": [1, "
         "\"x\"]}}] end 1:gargs[{}] end"},
        {OPEN INVOKE("f", TYPED("i", "true", "2") TYPED("s", "false", "\"q\"")
                              TYPED("new", "false", "no JSON")) CLOSE " end",
         " 0:fargs[{\"i\": \"2\", \"s\": \"q\", \"new\": \"no JSON\"}] endc[end]"},
        {OPEN "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"s\">x</｜DSML｜parameter>",
         " 0:fargs[{\"s\": \"x\"]"},
        {OPEN "x", "c[" OPEN "x]"},
    };
    check_rows("dsml", rows, COUNT(rows));
}

/* A text that says so goes on up to an end of its own. */
static void params_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so\n<function name=\"f\"><param name=\"s\"><![CDATA[a</param>\n<b>]]></param><param "
         "name=\"i\">2</param></function>\n<function name=\"g\"></function> z",
         "c[so] 0:fargs[{\"s\": \"a</param>\\n<b>\", \"i\": 2}] end 1:gargs[{}] endc[z]"},
        {"<function name=\"f\"><param name=\"o\"><![CDATA[{}]]></param><param "
         "name=\"s\"><![CDA]]></param></function>",
         " 0:fargs[{\"o\": \"{}\", \"s\": \"<![CDA]]>\"}] end"},
        {"<function name=\"f\"><param name=\"s\">x<![CDATA[</param></function>",
         " 0:fargs[{\"s\": \"x<![CDATA[\"}] end"},
        {"<function name=\"f\"><param name=\"s\"><![CDATA[</param></function>",
         " 0:fargs[{\"s\": \"</param></function>]"},
        {"<function name=\"f\"><param name=\"s\"><![CDAT", " 0:fargs[{\"s\": \"]"},
    };
    check_rows("params", rows, COUNT(rows));
}

static void seed_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so\n<seed:tool_call>\n<function=f>\n<parameter=s>a\n</parameter>\n<parameter=i>2</"
         "parameter>\n</function>\n</seed:tool_call>",
         "c[so] 0:fargs[{\"s\": \"a\\n\", \"i\": 2}] end"},
        {"<seed:tool_call>x", "c[<seed:tool_call>x]"},
    };
    check_rows("seed", rows, COUNT(rows));
}

/* The number of a call is behind its name. */
static void sections_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_"
         "begin|>{\"i\": 1}<|tool_call_end|><|tool_call_begin|>functions.g:12<|tool_call_argument_"
         "begin|> {}<|tool_call_end|><|tool_calls_section_end|>b",
         "c[so] 0:fargs[{\"i\": 1}] end 1:gargs[{}] endc[b]"},
        {"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0{}",
         "c[<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0{}]"},
        {"<|tool_calls_section_begin|>x", "c[<|tool_calls_section_begin|>x]"},
    };
    check_rows("sections", rows, COUNT(rows));
}

/* Nothing is lost when memory runs out at any point. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char text[] = "hello <tool_call>fun\n<arg_key>key</arg_key>\n<arg_value>value";
    const whim_chat_parser_cfg cfg = {.format = {.tools = whim_tool_words_named("pairs")},
                                      .parse_tools = true};
    for (int64_t n = 0; n < 10; n++) {
        whim_chat_parser *p;
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
        assert_non_null(strstr(whim_str_text(&log.text), "fun"));
        assert_non_null(strstr(whim_str_text(&log.text), "value"));
        chat_log_deinit(&log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xml_rows),          cmocka_unit_test(invoke_rows),
        cmocka_unit_test(pairs_rows),        cmocka_unit_test(separated_rows),
        cmocka_unit_test(dsml_rows),         cmocka_unit_test(params_rows),
        cmocka_unit_test(seed_rows),         cmocka_unit_test(sections_rows),
        cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of answers: every form row by row, and for generated answers that cuts never matter
 * and that arguments begin valid JSON at every moment. */
#include <stdint.h>

#include "base/alloc.h"
#include "support/chat_events.h"
#include "support/cmocka.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, "
    "\"n\": {\"type\": \"number\"}, \"b\": {\"type\": \"boolean\"}, \"o\": {\"type\": "
    "\"object\"}, \"a\": {\"type\": \"array\"}, \"sn\": {\"type\": [\"string\", \"null\"]}, "
    "\"any\": {}}}}}]";

static json_t *tools;

static whim_chat_parser_cfg config(const char *words, bool inside)
{
    return (whim_chat_parser_cfg){
        .format = {.tools = whim_tool_words_named(words), .native_tools = true, .reasons = true},
        .starts_inside = inside,
        .parse_tools = true,
        .tools = tools,
    };
}

typedef struct row {
    const char *text, *events;
} row;

/* For sanitizers. */
static bool is_quick(void)
{
    return getenv("TEST_QUICK") != NULL;
}

static void check_rows(const char *words, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        whim_chat_parser_cfg cfg = config(words, false);
        chat_log log;
        assert_true(
            chat_log_parse(&log, &cfg, rows[i].text, (int64_t)strlen(rows[i].text), NULL, 0));
        if (log.wrong || strcmp(whim_str_text(&log.text), rows[i].events) != 0) {
            fail_msg("row %zu%s: [%s] gave\n%s\nexpected\n%s", i, log.wrong ? " (wrong)" : "",
                     rows[i].text, whim_str_text(&log.text), rows[i].events);
        }
        chat_log_deinit(&log);
    }
}

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void hermes_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"hello", "c[hello]"},
        {" hi \n", "c[ hi \n]"},
        {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
         " 0:fargs[{\"a\": 1}] end"},
        {"<think>\nwhy\n</think>\n\nso\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
         "{}}\n</tool_call>\n<tool_call>{\"arguments\": {\"x\": [\"}\"]}, \"name\": "
         "\"g\"}</tool_call> \n end",
         "r[why]c[so] 0:fargs[{}] end 1:gargs[{\"x\": [\"}\"]}] endc[end]"},
        {"<tool_call>{\"name\": \"f\"}</tool_call>", " 0:fargs[{}] end"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", " 0:fargs[{}] end"},
        {"<tool_call>{\"name\": \"f\", \"parameters\": {\"q\":2}}</tool_call>",
         " 0:fargs[{\"q\":2}] end"},
        {"<tool_call>{\"id\": 5, \"name\": \"f\", \"arguments\": {}, \"x\": [1]}</tool_call>",
         " 0:fargs[{}] end"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": "
         "\\\"\\u00e9\\\\n\\\"}\"}</tool_call>",
         " 0:fargs[{\"a\": \"é\\n\"}] end"},
        {"<tool_call>{\"arguments\": \"\", \"name\": \"\\ud83d\\ude00\\ud83d\"}</tool_call>",
         " 0:😀\xef\xbf\xbd"
         "args[{}] end"},
        /* cut */
        {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b", " 0:fargs[{\"a\": \"b]"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool",
         " 0:fargs[{\"a\": 1}] end"},
        {"a \n<tool_call>{\"name\": \"f\"", "c[a \n<tool_call>{\"name\": \"f\"]"},
        {"a <tool_", "c[a <tool_]"},
        /* malformed */
        {"x <tool_call>nonsense</tool_call> y", "c[x <tool_call>nonsense</tool_call> y]"},
        {"<tool_call>{\"name\": 5}</tool_call>", "c[<tool_call>{\"name\": 5}</tool_call>]"},
        {"<tool_call>{\"arguments\": {}}</tool_call>",
         "c[<tool_call>{\"arguments\": {}}</tool_call>]"},
        {"<tool_call>{\"name\": \"\", \"arguments\": {}}",
         "c[<tool_call>{\"name\": \"\", \"arguments\": {}}]"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,}}\n</tool_call>\nmore",
         " 0:fargs[{\"a\": 1,]c[}}more]"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>", " 0:fargs[{}] endc[}]"},
        {"<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
         "c[<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>]"},
        {"<tool_call>\n<tool_call>{\"name\": \"f\"}</tool_call>",
         "c[<tool_call>\n] 0:fargs[{}] end"},
        {"<<tool_call>{\"name\": \"f\"}</tool_call>", "c[<] 0:fargs[{}] end"},
        {"a</tool_call>b", "c[a</tool_call>b]"},
        {"<think>a <tool_call>{}</tool_call>", "r[a ]c[<tool_call>{}</tool_call>]"},
        {"<think>a\n\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "r[a] 0:fargs[{}] end"},
        {"<think><tool_</think>b", "r[<tool_]c[b]"},
    };
    check_rows("hermes", rows, COUNT(rows));
}

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

/* Without tags: an answer that begins as an object is a call of one of the tools. */
static void bare_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"{\"name\": \"f\", \"parameters\": {\"a\": [1, {}]}}", " 0:fargs[{\"a\": [1, {}]}] end"},
        {" \n{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}\n", " 0:fargs[{}] end"},
        {"<|python_tag|>{\"name\": \"f\", \"arguments\": {\"i\": 1}}", " 0:fargs[{\"i\": 1}] end"},
        {"{\"name\": \"f\", \"parameters\": {\"i\": 1}}; {\"name\": \"f\", \"parameters\": {}}",
         " 0:fargs[{\"i\": 1}] end 1:fargs[{}] end"},
        {"{\"name\": \"f\", \"parameters\": {}}\n{\"name\": \"f\", \"parameters\": {}} so",
         " 0:fargs[{}] end 1:fargs[{}] endc[so]"},
        {"<think>w</think>\n\n{\"name\": \"f\", \"parameters\": {}}", "r[w] 0:fargs[{}] end"},
        {"Sure. <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "c[Sure.] 0:fargs[{}] end"},
        {"{\"name\": \"f\", \"parameters\": {}}; <|python_tag|>{\"name\": \"f\", \"parameters\": "
         "{}}",
         " 0:fargs[{}] end 1:fargs[{}] end"},
        {"{\"name\": \"f\", \"parameters\": {}}<|python_tag|>{\"name\": \"f\", \"parameters\": "
         "{}}",
         " 0:fargs[{}] end 1:fargs[{}] end"},
        {"<|python_tag|>print(1) {", "c[print(1) {]"},
        /* an answer in JSON is no call */
        {"{\"name\": \"Ada\", \"parameters\": {}}", "c[{\"name\": \"Ada\", \"parameters\": {}}]"},
        {"{\"name\": \"f\"}", "c[{\"name\": \"f\"}]"},
        {"{\"a\": {\"name\": \"f\", \"parameters\": {}}}",
         "c[{\"a\": {\"name\": \"f\", \"parameters\": {}}}]"},
        {"So: {\"name\": \"f\", \"parameters\": {}}",
         "c[So: {\"name\": \"f\", \"parameters\": {}}]"},
        {"{1} and {\"name\": \"f\", \"parameters\": {}}",
         "c[{1} and {\"name\": \"f\", \"parameters\": {}}]"},
        {"[{\"name\": \"f\", \"parameters\": {}}]", "c[[{\"name\": \"f\", \"parameters\": {}}]]"},
        /* cut */
        {"{\"name\": \"f\", \"para", "c[{\"name\": \"f\", \"para]"},
        {"{\"name\": \"f\", \"parameters\": {\"a", " 0:fargs[{\"a]"},
        {"<|python", "c[<|python]"},
    };
    check_rows("llama3", rows, COUNT(rows));
}

/* An answer in JSON that is no call comes out as soon as that is clear. */
static void bare_answers_do_not_wait(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"title\": \"Hello\", \"te", "{\"name\": \"Ada\", \"te"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        whim_chat_parser_cfg cfg = config("llama3", false);
        whim_chat_parser *p;
        chat_log log = {.last = -1};
        cfg.format.reasons = false;
        assert_int_equal(whim_chat_parser_create(&cfg, &p), WHIM_ERR_OK);
        whim_chat_parser_push(p, texts[i], (int64_t)strlen(texts[i]), chat_log_event, &log);
        assert_non_null(strstr(whim_str_text(&log.text), texts[i]));
        whim_chat_parser_destroy(p);
        chat_log_deinit(&log);
    }
}

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
            whim_chat_parser_cfg cfg = config(rows[i].words, false);
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

static void list_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"i\": 1}, \"id\": \"abcdefghi\"}, "
         "{\"name\": \"g\", \"arguments\": {}}]",
         " 0:fargs[{\"i\": 1}] end 1:gargs[{}] end"},
        {"so [TOOL_CALLS]{\"name\": \"f\", \"arguments\": {}}", "c[so] 0:fargs[{}] end"},
        {"[TOOL_CALLS][{\"name\": \"f\"}] done", " 0:fargs[{}] endc[done]"},
        {"[TOOL_CALLS]f", "c[[TOOL_CALLS]f]"},
        {"[TOOL_CALLS][", "c[[TOOL_CALLS][]"},
        {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, x", " 0:fargs[{}] endc[x]"},
        {"[TOOL_", "c[[TOOL_]"},
    };
    static const row closed[] = {
        {"<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>\nend",
         " 0:fargs[{}] endc[end]"},
        {"<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}] end", " 0:fargs[{}] endc[end]"},
        {"<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}},]</TOOLCALL>", " 0:fargs[{}] end"},
        {"<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": 3}]</TOOLCALL> z",
         " 0:fargs[{}] endc[{\"name\": 3}]z]"},
    };
    static const row bare[] = {
        {"[{\"name\": \"f\", \"arguments\": {\"i\": 1}}, {\"name\": \"f\"}] so",
         " 0:fargs[{\"i\": 1}] endc[{\"name\": \"f\"}] so]"},
        {"[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {}}] so",
         " 0:fargs[{}] end 1:fargs[{}] endc[so]"},
        {"{\"name\": \"f\", \"arguments\": {}}", " 0:fargs[{}] end"},
        {"[{\"name\": \"Ada\"}]", "c[[{\"name\": \"Ada\"}]]"},
        {"[1, {\"a\": 2}]", "c[[1, {\"a\": 2}]]"},
        {"so [{\"name\": \"f\", \"arguments\": {}}]",
         "c[so [{\"name\": \"f\", \"arguments\": {}}]]"},
    };
    static const row lines[] = {
        {"so\n<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", "
         "\"arguments\": {}}\n</tool_calls>\nz",
         "c[so] 0:fargs[{}] end 1:gargs[{}] endc[z]"},
        {"<tool_calls>\nno", "c[<tool_calls>\nno]"},
    };
    check_rows("calls-list", rows, COUNT(rows));
    check_rows("toolcall", closed, COUNT(closed));
    check_rows("bare-list", bare, COUNT(bare));
    check_rows("tool_calls-lines", lines, COUNT(lines));
}

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
        whim_chat_parser_cfg cfg = config(answers[i].words, false);
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
    whim_chat_parser_cfg cfg = config("hermes", false);
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

/* --- generated answers ------------------------------------------------------------------------ */

static uint64_t seed;

static uint32_t roll(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

#define PICK(list) ((list)[roll((uint32_t)COUNT(list))])

static const char *const values[] = {"1",
                                     "-0.5e+7",
                                     "true",
                                     "null",
                                     "\"x\"",
                                     "\"\\u00e9\\ud83d\\ude00\\n\\\\\"",
                                     "[]",
                                     "[1, [2]]",
                                     "{\"k\": {\"</tool_call>\": \"<\"}}",
                                     "\"é</parameter>\"",
                                     "{}",
                                     "[true,false]",
                                     "1e999"};
static const char *const plain_values[] = {
    "Oslo", "5", "True", "false",          "null",    "{\"a\": 1}", "[1, 2", "a\nb\n",
    "\n",   "",  "é😀",   "<b>\"q\"\\</b>", "</param", "\x01\x1f",   "12x",   " 7 "};
static const char *const keys[] = {"s", "i", "n", "b", "o", "a", "sn", "any", "é", "x y"};
static const char *const words[] = {
    "hi ", "\n",           "<",       "<tool", "</think>",      "ñ😀", " ", "{",
    "}",   "</tool_call>", "<think>", "\n\n",  "<parameter=s>", "a<b"};
static const char *const junk[] = {"", ",", "}", "\"", "<", "\\", "x", "\n", "<tool_call>", "{"};

static void make_arguments(whim_str *args)
{
    whim_str_append(args, "{");
    for (uint32_t i = 0, n = roll(4); i < n; i++) {
        whim_str_printf(args, "%s\"%s\":%s%s", i > 0 ? ", " : "", PICK(keys), roll(2) ? " " : "",
                        PICK(values));
    }
    whim_str_append(args, "}");
}

/* A few calls in the words of a form whose arguments are JSON. */
static void make_written(whim_str *out, const whim_tool_words *w)
{
    whim_str_append(out, w->written.call);
    for (uint32_t i = 0, n = 1 + roll(3); i < n; i++) {
        const char *quote = w->form == WHIM_TOOLS_OBJECT ? "\"" : "";
        whim_str_append(out, i > 0 ? w->written.between : "");
        whim_str_printf(out, "%s%s%s%s%s%s", w->written.function, quote, roll(4) ? "f" : "other",
                        quote, w->written.function_close, roll(3) ? "" : " ");
        make_arguments(out);
        whim_str_append(out, roll(9) ? w->written.function_end : "");
        whim_str_append(out, roll(3) ? "" : "\n");
    }
    whim_str_append(out, w->written.call_end);
}

static void make_hermes(whim_str *out)
{
    whim_str args = {0};
    make_arguments(&args);
    if (roll(4) == 0) {
        json_t *text = json_stringn(args.text, (size_t)args.len);
        char *dump = json_dumps(text, JSON_ENCODE_ANY | (roll(2) ? JSON_ENSURE_ASCII : 0));
        whim_str_clear(&args);
        whim_str_append(&args, dump);
        free(dump);
        json_decref(text);
    }
    const char *s = roll(2) ? "\n" : "";
    const char *name = roll(2) ? "f" : "g\\u00e9";
    if (roll(3)) {
        whim_str_printf(out, "<tool_call>%s{\"name\": \"%s\", \"arguments\": %s}%s</tool_call>", s,
                        name, args.text, s);
    } else {
        whim_str_printf(out, "<tool_call>%s{\"arguments\": %s, \"name\": \"%s\"}%s</tool_call>", s,
                        args.text, name, s);
    }
    whim_str_deinit(&args);
}

static void make_tags(whim_str *out, bool invoke)
{
    const char *s = roll(2) ? "\n" : "", *pad = invoke ? "" : s;
    whim_str_printf(out, invoke ? "<minimax:tool_call>%s" : "<tool_call>%s", s);
    for (uint32_t calls = invoke ? 1 + roll(2) : 1; calls > 0; calls--) {
        whim_str_printf(out, invoke ? "<invoke name=\"%s\">%s" : "<function=%s>%s",
                        roll(3) ? "f" : "other", s);
        for (uint32_t i = 0, n = roll(4); i < n; i++) {
            whim_str_printf(out, invoke ? "<parameter name=\"%s\">%s" : "<parameter=%s>%s",
                            PICK(keys), pad);
            whim_str_append(out, roll(2) ? PICK(values) : PICK(plain_values));
            whim_str_printf(out, "%s%s%s", pad, roll(8) ? "</parameter>" : "", s);
        }
        whim_str_printf(out, "%s%s", roll(8) ? (invoke ? "</invoke>" : "</function>") : "", s);
    }
    whim_str_append(out, invoke ? "</minimax:tool_call>" : "</tool_call>");
}

static void make_answer(whim_str *out, const whim_tool_words *form)
{
    if (roll(3) == 0) {
        whim_str_printf(out, "<think>\n%s\n</think>\n\n", PICK(words));
    }
    for (uint32_t i = 0, n = 1 + roll(4); i < n; i++) {
        if (roll(2)) {
            whim_str_append(out, PICK(words));
        }
        if (roll(3) && form->form != WHIM_TOOLS_TAGGED) {
            if (strcmp(form->name, "hermes") == 0) {
                make_hermes(out);
            } else {
                make_written(out, form);
            }
        } else if (roll(3)) {
            make_tags(out, strcmp(form->name, "invoke") == 0);
        }
        whim_str_append(out, roll(2) ? PICK(words) : "");
    }
    whim_str_append(out, "");
    switch (roll(4)) {
    case 0: /* cut */
        out->len = out->len == 0 ? 0 : roll((uint32_t)out->len);
        break;
    case 1: { /* damage: a piece goes, another comes */
        whim_str hurt = {0};
        int64_t at = out->len == 0 ? 0 : roll((uint32_t)out->len), gone = roll(4);
        gone = gone > out->len - at ? out->len - at : gone;
        whim_str_append_n(&hurt, out->text, at);
        whim_str_append(&hurt, PICK(junk));
        whim_str_append_n(&hurt, out->text + at + gone, out->len - at - gone);
        whim_str_deinit(out);
        *out = hurt;
        break;
    }
    default:
        break;
    }
}

static void compare(const whim_chat_parser_cfg *cfg, const whim_str *text, const chat_log *whole,
                    const int64_t *cuts, int64_t n_cut)
{
    chat_log log;
    assert_true(chat_log_parse(&log, cfg, whim_str_text(text), text->len, cuts, n_cut));
    if (log.wrong || log.text.len != whole->text.len ||
        memcmp(whim_str_text(&log.text), whim_str_text(&whole->text), (size_t)log.text.len) != 0) {
        fail_msg("[%.*s] cut first at %lld:\n%s\nwhole%s:\n%s", (int)text->len, text->text,
                 (long long)cuts[0], whim_str_text(&log.text), log.wrong ? " (wrong)" : "",
                 whim_str_text(&whole->text));
    }
    chat_log_deinit(&log);
}

static void cuts_do_not_matter(const char *form, int rounds)
{
    int64_t n_call = 0;
    rounds /= is_quick() ? 8 : 1;
    seed = 77 + (uint64_t)strlen(form);
    for (int round = 0; round < rounds; round++) {
        whim_chat_parser_cfg cfg = config(form, roll(4) == 0);
        whim_str text = {0};
        chat_log whole;
        int64_t cuts[4096];
        cfg.tools = roll(4) ? tools : NULL;
        make_answer(&text, cfg.format.tools);
        assert_true(chat_log_parse(&whole, &cfg, whim_str_text(&text), text.len, NULL, 0));
        if (whole.wrong) {
            fail_msg("[%.*s]: %s", (int)text.len, text.text, whim_str_text(&whole.text));
        }
        n_call += whole.n_call;
        for (int64_t at = 0; at <= text.len; at += round % 5 == 0 ? 1 : 1 + roll(40)) {
            compare(&cfg, &text, &whole, &at, 1);
        }
        for (int i = 0; i < 3; i++) {
            int64_t n = 0;
            for (int64_t at = i == 0; at < text.len && n < (int64_t)COUNT(cuts);
                 at += 1 + (i == 0 ? 0 : roll(9))) {
                cuts[n++] = at;
            }
            compare(&cfg, &text, &whole, n > 0 ? cuts : &text.len, n);
        }
        chat_log_deinit(&whole);
        whim_str_deinit(&text);
    }
    assert_true(n_call > rounds / 10); /* the generator makes calls at all */
}

static void hermes_cuts(void **state)
{
    (void)state;
    cuts_do_not_matter("hermes", 1600);
}

static void xml_cuts(void **state)
{
    (void)state;
    cuts_do_not_matter("xml", 1600);
}

static void invoke_cuts(void **state)
{
    (void)state;
    cuts_do_not_matter("invoke", 1600);
}

static void json_cuts(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "llama3",         "calls-list",      "toolcall", "calls-args", "functionary",
        "deepseek",       "deepseek-fenced", "sections", "tool_calls", "tool_calls-lines",
        "bare",           "bare-list",       "actions",  "mcp",        "tool_call-list",
        "gigachat-roles", "fenced"};
    for (size_t i = 0; i < COUNT(forms); i++) {
        cuts_do_not_matter(forms[i], 400);
    }
}

/* Nothing is lost when memory runs out at any point: the bytes are there, whatever they are
 * called. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char text[] = "hello \n <tool_call>\n{\"arguments\": {\"a\": 1}, \"name\": \"f\"}";
    whim_chat_parser_cfg cfg = config("hermes", false);
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

static int setup(void **state)
{
    (void)state;
    tools = json_loads(tools_text, 0, NULL);
    return tools == NULL;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(tools);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hermes_rows),
        cmocka_unit_test(xml_rows),
        cmocka_unit_test(invoke_rows),
        cmocka_unit_test(bare_rows),
        cmocka_unit_test(bare_answers_do_not_wait),
        cmocka_unit_test(long_openings_are_content),
        cmocka_unit_test(list_rows),
        cmocka_unit_test(named_rows),
        cmocka_unit_test(tags_are_text_without_tools),
        cmocka_unit_test(hermes_cuts),
        cmocka_unit_test(xml_cuts),
        cmocka_unit_test(invoke_cuts),
        cmocka_unit_test(json_cuts),
        cmocka_unit_test(a_cut_call_is_no_content_where_only_calls_come),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

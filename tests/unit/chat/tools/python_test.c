/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are a list in Python: what is read out of them, and that nothing depends on how an
 * answer, or any beginning of it, is cut. */
#include <stdint.h>

#include "base/alloc.h"
#include "base/math/rng.h"
#include "support/chat_rows.h"
#include "support/cmocka.h"

static void python_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"[f(s=\"a 'b'\", i=2), f(s='c \"d\"')]",
         " 0:fargs[{\"s\": \"a 'b'\", \"i\": 2}] end 1:fargs[{\"s\": \"c \\\"d\\\"\"}] end"},
        {"<think>w</think>\n[f()]\nso", "r[w] 0:fargs[{}] endc[so]"},
        {" [ f( o = {'k': [1, -2.5e3, True, None,],}, i=false , ) ] ",
         " 0:fargs[{\"o\": {\"k\":[1, -2.5e3, true, null]}, \"i\": false}] end"},
        /* what Python and JSON escape */
        {"[f(s='\\'\\n\\\\\\x41\\u00e9\\U0001f600\\d\\\nz\n')]",
         " 0:fargs[{\"s\": \"'\\n\\\\\\u0041\\u00e9\\ud83d\\ude00\\\\dz\\n\"}] end"},
        {"[f(s=\"}])\", o={\"a\": \"b\"})]",
         " 0:fargs[{\"s\": \"}])\", \"o\": {\"a\":\"b\"}}] end"},
        /* an answer that is no call */
        {"[1, 2]", "c[[1, 2]]"},
        {"[other(a=1)]", "c[[other(a=1)]]"},
        {"[f(\"Oslo\")]", "c[[f(\"Oslo\")]]"},
        {"[f (i=1)]", "c[[f (i=1)]]"},
        {"so [f(i=1)]", "c[so [f(i=1)]]"},
        {"{\"a\": 1}", "c[{\"a\": 1}]"},
        {"[]", "c[[]]"},
        /* cut */
        {"[f(i", "c[[f(i]"},
        {"[f(i=", " 0:fargs[{\"i\": ]"},
        {"[f(i=Tr", " 0:fargs[{\"i\": ]"},
        {"[f(s='a\\", " 0:fargs[{\"s\": \"a]"},
        /* malformed */
        {"[f(i=1", " 0:fargs[{\"i\": 1]"},
        {"[f(i=1 s=2)]", " 0:fargs[{\"i\": 1]c[s=2)]]"},
        {"[f(i=word)]", " 0:fargs[{\"i\": ]c[word)]]"},
        {"[f(s='\\xg1')]", " 0:fargs[{\"s\": \"]c[\\xg1')]]"},
        {"[f(i=1,,)]", " 0:fargs[{\"i\": 1]c[,,)]]"},
        {"[f(o={1: 2})]", " 0:fargs[{\"o\": {]c[1: 2})]]"},
        {"[f(i=1}]", " 0:fargs[{\"i\": 1]c[}]]"},
        {"[f(i=1), other(i=2)]", " 0:fargs[{\"i\": 1}] endc[, other(i=2)]]"},
        {"[f(i=1) and", " 0:fargs[{\"i\": 1}] endc[and]"},
    };
    check_rows("python", rows, COUNT(rows));
}

/* Between tags the name need be none of the tools'. */
static void tagged_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"so <|tool_call_start|>[f(i=1), g(k_1.x='y')]<|tool_call_end|>z",
         "c[so] 0:fargs[{\"i\": 1}] end 1:gargs[{\"k_1.x\": \"y\"}] endc[z]"},
        {"<|tool_call_start|>\n[g()]", " 0:gargs[{}] end"},
        {"<|tool_call_start|>[g()] x", " 0:gargs[{}] endc[x]"},
        {"<|tool_call_start|>g()", "c[<|tool_call_start|>g()]"},
        {"<|tool_call_start|>[5", "c[<|tool_call_start|>[5]"},
    };
    check_rows("python-tags", rows, COUNT(rows));
}

/* --- made-up answers -------------------------------------------------------------------------- */

static uint64_t at;

static uint32_t roll(uint32_t n)
{
    return (uint32_t)(whim_rng_at(99, at++) % n);
}

#define PICK(list) ((list)[roll(COUNT(list))])

static void make_value(whim_str *out, int depth)
{
    static const char *const plain[] = {
        "1",  "-2.5", "True", "None",    "false", "word",   "\"x\\n\"", "'é\\'😀'", "'\\x4", "'\"'",
        "''", "[",    "{}",   "\"\\u12", "\x01",  "'a\nb'", "1.",       "",        "'}])'"};
    const uint32_t kind = roll(depth > 0 ? 6 : 4);
    if (kind < 4) {
        whim_str_append(out, PICK(plain));
        return;
    }
    whim_str_append(out, kind == 4 ? "[" : "{");
    for (uint32_t i = 0, n = roll(4); i < n; i++) {
        whim_str_printf(out, "%s%s", i > 0 ? ", " : "",
                        kind == 4 ? ""
                        : roll(2) ? "'k':"
                                  : "\"x\": ");
        make_value(out, depth - 1);
    }
    whim_str_append(out, roll(9) ? "" : ",");
    whim_str_append(out, roll(20) == 0 ? "" : kind == 4 ? "]" : "}");
}

static void cuts_do_not_matter(void **state)
{
    (void)state;
    int64_t n_call = 0;
    json_t *tools = json_loads(tools_text, 0, NULL);
    for (int round = 0; round < 800; round++) {
        const bool tags = round % 2;
        const whim_chat_parser_cfg cfg = {
            .format = {.tools = whim_tool_words_named(tags ? "python-tags" : "python"),
                       .native_tools = true},
            .parse_tools = true,
            .tools = tools};
        whim_str text = {0};
        chat_log whole;
        int64_t cuts[4096];
        whim_str_append(&text, tags ? "so <|tool_call_start|>[" : "[");
        for (uint32_t i = 0, n = 1 + roll(3); i < n; i++) {
            whim_str_append(&text, i > 0 ? ", f(" : "f(");
            for (uint32_t k = 0, m = roll(3); k < m; k++) {
                whim_str_printf(&text, "%sk%u%s", k > 0 ? ", " : "", k, roll(5) ? "=" : " = ");
                make_value(&text, 2);
            }
            whim_str_append(&text, roll(9) ? ")" : "");
        }
        whim_str_append(&text, tags ? "]<|tool_call_end|> end" : "] end");
        int64_t n = roll(3) ? text.len : roll((uint32_t)text.len);
        assert_true(chat_log_parse(&whole, &cfg, whim_str_text(&text), n, NULL, 0));
        if (whole.wrong) {
            fail_msg("[%.*s]: %s", (int)n, text.text, whim_str_text(&whole.text));
        }
        n_call += whole.n_call;
        for (int i = 0; i < 4; i++) {
            int64_t n_cut = 0;
            for (int64_t k = 1; k < n; k += i == 0 ? 1 : 1 + roll(9)) {
                cuts[n_cut++] = k;
            }
            if (n_cut > 0) {
                same_when_cut(&cfg, whim_str_text(&text), n, &whole, cuts, n_cut);
            }
        }
        chat_log_deinit(&whole);
        whim_str_deinit(&text);
    }
    json_decref(tools);
    assert_true(n_call > 400); /* the generator makes calls at all */
}

/* Nothing is lost when memory runs out at any point: the bytes are there, whatever they are
 * called. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static const char text[] = "hello <|tool_call_start|>[fun(key='value";
    const whim_chat_parser_cfg cfg = {.format = {.tools = whim_tool_words_named("python-tags")},
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(python_rows), cmocka_unit_test(tagged_rows),
                                       cmocka_unit_test(cuts_do_not_matter),
                                       cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

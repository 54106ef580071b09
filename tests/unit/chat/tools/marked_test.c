/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose arguments are nearly JSON, with texts between marks: what is read out of them, and
 * that nothing depends on how an answer, or any beginning of it, is cut. */
#include <stdint.h>

#include "base/alloc.h"
#include "base/math/rng.h"
#include "support/chat_rows.h"
#include "support/cmocka.h"

#define CALL(name, args) "<|tool_call>call:" name args "<tool_call|>"
#define T(text) "<|\"|>" text "<|\"|>"

static void marked_rows(void **state)
{
    (void)state;
    static const row rows[] = {
        {"<think>w</think>\nso " CALL("f", "{s:" T("a \"b\"\\\n") ",i:2}"),
         "r[w]c[so] 0:fargs[{\"s\":\"a \\\"b\\\"\\\\\\n\",\"i\":2}] end"},
        {CALL("g", "{}") CALL("f", "{o:{a:[1,-2.5e3,true,None],b:{}},z:null}") " end",
         " 0:gargs[{}] end 1:fargs[{\"o\":{\"a\":[1,-2.5e3,true,null],\"b\":{}},\"z\":null}] "
         "endc[end]"},
        /* what looks like a mark and is none, in a text and behind it */
        {CALL("f", "{s:" T("<|\"<|\"|<|x <|") "}"),
         " 0:fargs[{\"s\":\"<|\\\"<|\\\"|<|x <|\"}] end"},
        {CALL("f", "{s:[" T("") "," T("é}]{,:") "]}"), " 0:fargs[{\"s\":[\"\",\"é}]{,:\"]}] end"},
        /* white space, and quotes after all */
        {CALL("f", "{ s: " T("a") " , x y:1 , \"q\" : \"r\\n\" }"),
         " 0:fargs[{ \"s\": \"a\" , \"x y\":1 , \"q\" : \"r\\n\" }] end"},
        {CALL("f", "{" T("k") ":" T("v") "}"), " 0:fargs[{\"k\":\"v\"}] end"},
        /* tags that a thought holds begin nothing */
        {"<think>" CALL("g", "{}") "</think>b", "r[" CALL("g", "{}") "]c[b]"},
        /* cut */
        {"<|tool_call>call:f", "c[<|tool_call>call:f]"},
        {"<|tool_call>call:f{", " 0:fargs[{]"},
        {"<|tool_call>call:f{s:<|\"|>ab<|\"", " 0:fargs[{\"s\":\"ab]"},
        {"<|tool_call>call:f{ke", " 0:fargs[{\"ke]"},
        {"<|tool_call>call:f{k:No", " 0:fargs[{\"k\":]"},
        /* malformed */
        {"<|tool_call>call:{}<tool_call|>", "c[<|tool_call>call:{}<tool_call|>]"},
        {"<|tool_call>call:a\nb{}", "c[<|tool_call>call:a\nb{}]"},
        {CALL("f", "{k}") "z", " 0:fargs[{\"k]c[}z]"},
        {CALL("f", "{k:word}"), " 0:fargs[{\"k\":]c[word}]"},
        {CALL("f", "{k:<|x}"), " 0:fargs[{\"k\":]c[<|x}]"},
        {CALL("f", "{k:Nope}"), " 0:fargs[{\"k\":]c[Nope}]"},
        {CALL("f", "{k:1,}"), " 0:fargs[{\"k\":1,]c[}]"},
        {"<|tool_call>call:f{}z", " 0:fargs[{}] endc[z]"},
    };
    check_rows("marked", rows, COUNT(rows));
}

/* --- made-up answers -------------------------------------------------------------------------- */

static uint64_t at;

static uint32_t roll(uint32_t n)
{
    return (uint32_t)(whim_rng_at(77, at++) % n);
}

#define PICK(list) ((list)[roll(COUNT(list))])

static void make_value(whim_str *out, int depth)
{
    static const char *const plain[] = {"1",  "-2.5", "true", "null", "None",     "word",
                                        "\"", "<|",   "[",    "{}",   "\"x\\n\"", ""};
    static const char *const texts[] = {"", "Oslo", "a\nb", "<|\"|", "é😀", "}", "\x01", "<|\"|>"};
    uint32_t kind = roll(depth > 0 ? 6 : 3);
    if (kind < 2) {
        whim_str_printf(out, T("%s"), PICK(texts));
    } else if (kind == 2) {
        whim_str_append(out, PICK(plain));
    } else {
        whim_str_append(out, kind == 3 ? "[" : "{");
        for (uint32_t i = 0, n = roll(4); i < n; i++) {
            whim_str_printf(out, "%s%s", i > 0 ? "," : "",
                            kind == 3 ? ""
                            : roll(3) ? "k:"
                                      : "x y :");
            make_value(out, depth - 1);
        }
        whim_str_append(out, roll(20) == 0 ? "" : kind == 3 ? "]" : "}");
    }
}

static void cuts_do_not_matter(void **state)
{
    (void)state;
    int64_t n_call = 0;
    const whim_chat_parser_cfg cfg = {
        .format = {.tools = whim_tool_words_named("marked"), .native_tools = true},
        .parse_tools = true};
    for (int round = 0; round < 600; round++) {
        whim_str text = {0};
        chat_log whole;
        int64_t cuts[4096];
        for (uint32_t i = 0, n = 1 + roll(3); i < n; i++) {
            whim_str_append(&text, roll(2) ? "so\n" : "");
            whim_str_append(&text, "<|tool_call>call:f{k:");
            make_value(&text, 3);
            whim_str_append(&text, roll(9) ? "}<tool_call|>" : "}");
        }
        int64_t n = roll(3) ? text.len : roll((uint32_t)text.len);
        assert_true(chat_log_parse(&whole, &cfg, whim_str_text(&text), n, NULL, 0));
        assert_false(whole.wrong);
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
    assert_true(n_call > 300); /* the generator makes calls at all */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(marked_rows),
                                       cmocka_unit_test(cuts_do_not_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

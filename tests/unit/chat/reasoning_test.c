/* SPDX-License-Identifier: Apache-2.0 */
/* The splitter: what is reasoning and what content, and that cuts of the stream do not matter. */
#include <stdint.h>

#include "base/str.h"
#include "chat/reasoning.h"
#include "support/cmocka.h"

#include <string.h>

typedef struct both {
    whim_str reasoning, content;
} both;

static void gather(void *ctx, whim_piece_kind kind, const char *text, int64_t n)
{
    both *b = ctx;
    assert_true(n > 0);
    assert_true(kind == WHIM_PIECE_CONTENT || b->content.len == 0); /* reasoning comes first */
    whim_str_append_n(kind == WHIM_PIECE_REASONING ? &b->reasoning : &b->content, text, n);
}

static const char call_tag[] = "<tool_call>";

static void split_all(both *b, const whim_think_words *words, const char *text, bool inside)
{
    whim_reasoning split;
    whim_reasoning_init(&split, words, inside, call_tag, gather, b);
    whim_reasoning_push(&split, text, (int64_t)strlen(text));
    whim_reasoning_flush(&split);
}

/* A text with these words in place of the first that are known. */
static void spell(whim_str *out, const char *text, const whim_think_words *words)
{
    const whim_think_words *usual = &whim_think_words_known[0];
    while (*text != '\0') {
        const bool opens = strncmp(text, usual->open, strlen(usual->open)) == 0;
        const bool closes = strncmp(text, usual->close, strlen(usual->close)) == 0;
        whim_str_append_n(out,
                          opens    ? words->open
                          : closes ? words->close
                                   : text,
                          opens    ? (int64_t)strlen(words->open)
                          : closes ? (int64_t)strlen(words->close)
                                   : 1);
        text += opens ? strlen(usual->open) : closes ? strlen(usual->close) : 1;
    }
}

static void both_deinit(both *b)
{
    whim_str_deinit(&b->reasoning);
    whim_str_deinit(&b->content);
}

static void one_shot(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool inside;
        const char *reasoning, *content;
    } rows[] = {
        {"<think>\nwhy\n</think>\n\nso", false, "why", "so"},
        {"<think>why</think>so", false, "why", "so"},
        {" \n<think>why</think>\n so", false, "why", " so"},
        {"plain", false, "", "plain"},
        {"  plain <think>x</think>", false, "", "  plain <think>x</think>"},
        {"<thin", false, "", "<thin"},
        {" <thinner>", false, "", " <thinner>"},
        {"why\n</think>\n\nso", true, "why", "so"},
        {"<think>\nwhy</think>so", true, "why", "so"},
        {"\n<think>\nwhy</think>so", true, "why", "so"},
        {"a<think>b</think>c", true, "a<think>b", "c"},
        {"<think><think>b</think>c", false, "<think>b", "c"},
        {"a\n\nb\n</thin\n</think>\nx\n", true, "a\n\nb\n</thin", "x\n"},
        {"a <</think>b", true, "a <", "b"},
        {"never ends\n", true, "never ends\n", ""},
        {"ends </thi", true, "ends </thi", ""},
        {"<think>\n\n</think>\n\nso</think>", false, "", "so</think>"},
        {"", true, "", ""},
        {"", false, "", ""},
        {"\n\n", false, "", "\n\n"},
        {"x</think>", true, "x", ""},
        {"x\n\n<tool_call>\ny</think>", true, "x", "<tool_call>\ny</think>"},
        {"<think>x<tool_call>", false, "x", "<tool_call>"},
        {"x<tool_<tool_</think>y<tool_call>", true, "x<tool_<tool_", "y<tool_call>"},
        {"ends <tool_call", true, "ends <tool_call", ""},
    };
    enum { N_ROW = sizeof rows / sizeof rows[0] };
    for (size_t i = 0; i < N_ROW * (size_t)whim_think_words_n_known; i++) {
        const whim_think_words *words = &whim_think_words_known[i / N_ROW];
        both b = {{0}};
        whim_str text = {0}, reasoning = {0}, content = {0};
        spell(&text, rows[i % N_ROW].text, words);
        spell(&reasoning, rows[i % N_ROW].reasoning, words);
        spell(&content, rows[i % N_ROW].content, words);
        split_all(&b, words, whim_str_text(&text), rows[i % N_ROW].inside);
        if (strcmp(whim_str_text(&b.reasoning), whim_str_text(&reasoning)) != 0 ||
            strcmp(whim_str_text(&b.content), whim_str_text(&content)) != 0) {
            fail_msg("row %zu, %s: got [%s] and [%s]", i % N_ROW, words->open,
                     whim_str_text(&b.reasoning), whim_str_text(&b.content));
        }
        both_deinit(&b);
        whim_str_deinit(&text);
        whim_str_deinit(&reasoning);
        whim_str_deinit(&content);
    }
}

/* Marks around what is said are dropped: one before it where an answer may begin, once. */
static void what_is_said_has_a_mark(void **state)
{
    (void)state;
    static const whim_think_words words = {"<t>", "</t>", "<says>", {"</says>", "</all>"}};
    static const struct {
        const char *text, *reasoning, *content;
    } rows[] = {
        {"<t>why</t><says>so</says></all>", "why", "so"},
        {"</says></all>", "", ""},
        {"</says><call>x</call></all>y", "", "<call>x</call>y"},
        {"<says>a</sa<b></says", "", "a</sa<b></says"},
        {"<</says></</all>", "", "<</"},
        {"<t>a</all></t><says>b", "a</all>", "b"},
        {"<t>why</t></says>", "why", ""},
        {"<t>why</t><says>so", "why", "so"},
        {"<t>why</t>\n<says>\nso", "why", "\nso"},
        {"<says>so", "", "so"},
        {" \n<says>so", "", "so"},
        {"<t>why</t><call>", "why", "<call>"},
        {"<t>why</t><says", "why", "<says"},
        {"<t>why</t>\n<sa<says>", "why", "<sa<says>"},
        {"<says><says><t>x", "", "<says><t>x"},
        {"so<says>", "", "so<says>"},
        {"<t><says></t>so", "<says>", "so"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        both b = {{0}};
        split_all(&b, &words, rows[i].text, false);
        if (strcmp(whim_str_text(&b.reasoning), rows[i].reasoning) != 0 ||
            strcmp(whim_str_text(&b.content), rows[i].content) != 0) {
            fail_msg("%s: got [%s] and [%s]", rows[i].text, whim_str_text(&b.reasoning),
                     whim_str_text(&b.content));
        }
        both_deinit(&b);
    }
}

/* Texts made of the pieces that matter, cut anywhere. */
static void cuts_do_not_matter(void **state)
{
    (void)state;
    static const char *const parts[] = {"<think>",
                                        "</think>",
                                        "\n",
                                        " ",
                                        "<",
                                        "</",
                                        "th",
                                        "ink>",
                                        "a",
                                        "word ",
                                        "é",
                                        ">",
                                        "</thi",
                                        "\n\n",
                                        "<tool_call>",
                                        "<tool_",
                                        "<|content|>",
                                        "<|con",
                                        "<|close|>response<|sep|>",
                                        "<|close|>"};
    uint64_t seed = 1;
    for (int round = 0; round < 8000; round++) {
        char text[256] = "";
        int n_part = 1 + (int)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 60);
        for (int i = 0; i < n_part; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            strcat(text, parts[(seed >> 33) % (sizeof parts / sizeof parts[0])]);
        }
        both whole = {{0}}, cut = {{0}};
        const whim_think_words *words =
            &whim_think_words_known[round / 2 % whim_think_words_n_known];
        whim_str spelled = {0};
        spell(&spelled, text, words);
        split_all(&whole, words, whim_str_text(&spelled), round % 2);
        whim_reasoning split;
        whim_reasoning_init(&split, words, round % 2, call_tag, gather, &cut);
        int64_t n = spelled.len;
        for (int64_t at = 0; at < n;) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            int64_t len = 1 + (int64_t)((seed >> 33) % (round % 5 == 0 ? 1 : 9));
            len = len > n - at ? n - at : len;
            whim_reasoning_push(&split, spelled.text + at, len);
            at += len;
        }
        whim_reasoning_flush(&split);
        if (strcmp(whim_str_text(&whole.reasoning), whim_str_text(&cut.reasoning)) != 0 ||
            strcmp(whim_str_text(&whole.content), whim_str_text(&cut.content)) != 0) {
            fail_msg("\"%s\" depends on its cuts", whim_str_text(&spelled));
        }
        whim_str_deinit(&spelled);
        both_deinit(&whole);
        both_deinit(&cut);
    }
}

/* Much white space, long runs: what the fixed buffers must survive. */
static void long_runs(void **state)
{
    (void)state;
    char text[3000];
    memset(text, ' ', sizeof text);
    strcpy(text + 63, " <think>a</think>b");
    both b = {{0}};
    split_all(&b, NULL, text, false);
    assert_string_equal(whim_str_text(&b.content), "b");
    both_deinit(&b);
    memset(text, ' ', sizeof text);
    strcpy(text + 65, "<think>a</think>b");
    b = (both){{0}};
    split_all(&b, NULL, text, false);
    assert_string_equal(whim_str_text(&b.content), text);
    both_deinit(&b);
    memset(text, '\n', sizeof text);
    memcpy(text, "a", 1);
    strcpy(text + 2500, "b");
    b = (both){{0}};
    split_all(&b, NULL, text, true);
    assert_string_equal(whim_str_text(&b.reasoning), text);
    both_deinit(&b);
}

static void prompts_open_and_close(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        bool open;
    } rows[] = {{"ai\n<think>\n", true},
                {"<think>\n\n</think>\n\n", false},
                {"", false},
                {"hi", false},
                {"<think>x</think> <think>", true},
                {"<think", false},
                {"what is <think>?<|im_end|>\nassistant\n", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t n = (int64_t)strlen(rows[i].prompt);
        assert_int_equal(whim_reasoning_prompt_is_open(NULL, rows[i].prompt, n), rows[i].open);
        for (int32_t k = 1; k < whim_think_words_n_known; k++) {
            const whim_think_words *words = &whim_think_words_known[k];
            whim_str text = {0};
            spell(&text, rows[i].prompt, words);
            assert_int_equal(whim_reasoning_prompt_is_open(words, whim_str_text(&text), text.len),
                             rows[i].open);
            assert_false(whim_reasoning_prompt_is_open(words, rows[i].prompt, n));
            whim_str_deinit(&text);
        }
    }
    both b = {{0}};
    whim_reasoning split;
    whim_reasoning_init(&split, NULL, false, NULL, gather, &b);
    assert_false(whim_reasoning_is_inside(&split));
    whim_reasoning_push(&split, "<think>x", 8);
    assert_true(whim_reasoning_is_inside(&split));
    both_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_shot),
        cmocka_unit_test(what_is_said_has_a_mark),
        cmocka_unit_test(cuts_do_not_matter),
        cmocka_unit_test(long_runs),
        cmocka_unit_test(prompts_open_and_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

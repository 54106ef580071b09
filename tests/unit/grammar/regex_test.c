/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions: what they take, what is refused and where, and limits of size. */
#include "unit/grammar/grammar_fixture.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static whim_grammar *regex(const char *pattern, whim_diag *diag)
{
    whim_grammar_builder *b = fixture_builder();
    return fixture_build(b, whim_grammar_regex(b, pattern, "regex"), diag);
}

static void expressions_take_their_texts(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *good[6], *bad[6];
    } rows[] = {
        {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
        {"^abc$", {"abc"}, {"ab", "abcd"}},
        {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
        {"(a|b)*c", {"c", "abac"}, {"ab", "ca"}},
        {"a{2,3}", {"aa", "aaa"}, {"a", "aaaa"}},
        {"a{2}b{0,1}", {"aa", "aab"}, {"a", "aabb"}},
        {"a{2,}", {"aa", "aaaaaaa"}, {"a"}},
        {"a{,2}", {"", "a", "aa"}, {"aaa"}},
        {"a{x}", {"a{x}"}, {"ax"}},
        {"a+?b*?c??", {"a", "aabbc"}, {"", "ac1"}},
        {"[a-c0-9_-]+", {"a-b_9"}, {"d", ""}},
        {"[^a-c]", {"d", "\xC3\xA9", "\xF0\x9F\x98\x80", "\n"}, {"a", "\xC3", "dd"}},
        {"[]a]+", {"]a"}, {"b"}},
        {"[\\d\\-x]+", {"1-x"}, {"a"}},
        {"\\d\\D\\w\\W\\s\\S", {"1aa- x"}, {"1111 x", "aaa- x"}},
        {"\\x41\\u0042\\u{43}\\n\\t\\.\\/\\\\", {"ABC\n\t./\\"}, {"ABC"}},
        {".", {"x", "\xE4\xB8\xAD"}, {"\n", "\r", "", "xx", "\xE4\xB8", "\xFF"}},
        {"[\xC3\xA0-\xC3\xA9]x", {"\xC3\xA9x", "\xC3\xA0x"}, {"\xC3\xAAx", "ex"}},
        {"(?:ab)+(?P<name>c)(?<other>d)", {"ababcd"}, {"ab", "cd"}},
        {"((((a))))", {"a"}, {"", "aa"}},
        {"(^a|b)(c|d$)", {"ac", "bd"}, {"a", "c"}},
        {"\\Aa\\z", {"a"}, {"b"}},
        {"(a?){3}b", {"b", "ab", "aaab"}, {"aaaab"}},
        {"(a*)*b", {"b", "aaab"}, {"a"}},
        {"(?:[01][0-9]|2[0-3]):[0-5][0-9]", {"23:59", "00:00"}, {"24:00", "1:00"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_diag diag = {{0}};
        whim_grammar *g = regex(rows[i].pattern, &diag);
        if (g == NULL) {
            fail_msg("%s: %s", rows[i].pattern, diag.text);
        }
        for (int k = 0; k < 6 && rows[i].good[k] != NULL; k++) {
            if (!fixture_takes(g, rows[i].good[k])) {
                fail_msg("%s does not take %s", rows[i].pattern, rows[i].good[k]);
            }
        }
        for (int k = 0; k < 6 && rows[i].bad[k] != NULL; k++) {
            if (fixture_takes(g, rows[i].bad[k])) {
                fail_msg("%s takes %s", rows[i].pattern, rows[i].bad[k]);
            }
        }
        whim_grammar_unref(g);
    }
}

static void bad_expressions_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *message;
    } rows[] = {
        {"a(b", "character 4"},
        {"ab)", "character 3"},
        {"*a", "nothing to repeat"},
        {"a**", "needs a group"},
        {"a++", "needs a group"},
        {"[a", "] is missing"},
        {"[b-a]", "ends before it begins"},
        {"a{3,2}", "ends before it begins"},
        {"(?=a)", "look-around"},
        {"(?!a)b", "look-around"},
        {"(?<=a)b", "look-around"},
        {"(?i)a", "flags"},
        {"(a)\\1", "character 5"},
        {"a\\b", "not supported"},
        {"\\p{L}", "not supported"},
        {"a\\", "backslash"},
        {"a^b", "^ inside"},
        {"(a$)b", "$ inside"},
        {"^*", "cannot be repeated"},
        {"\\u{110000}", "no such character"},
        {"\\xg1", "hexadecimal"},
        {"[^\\x00-\\u{10FFFF}]", "no answer"},
        {"\xFF", "no UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_diag diag = {{0}};
        whim_grammar *g = regex(rows[i].pattern, &diag);
        if (g != NULL || strstr(diag.text, rows[i].message) == NULL) {
            fail_msg("%s: %s", rows[i].pattern, g != NULL ? "taken" : diag.text);
        }
    }
}

static void large_expressions_meet_a_limit(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "(((a{1000}){1000}){1000}){1000}",
        "((a{0,100}){0,100}){0,100}",
        "(a|b)*a(a|b){30}",
        "(.*a){25}",
        "((a|ab|abc|b|bc)*){20}x",
        "(\\w+\\s?)+$",
        "([a-z]{1,5000}){1,5000}",
        "a{9999999}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_diag diag = {{0}};
        whim_grammar *g = regex(rows[i], &diag);
        assert_true(g != NULL || strstr(diag.text, "too large") != NULL ||
                    strstr(diag.text, "longer than") != NULL);
        whim_grammar_unref(g);
    }
    whim_diag diag = {{0}};
    whim_str deep = {0};
    for (int i = 0; i < 100000; i++) {
        whim_str_append_char(&deep, '(');
    }
    assert_null(regex(deep.text, &diag));
    assert_non_null(strstr(diag.text, "nested too deep"));
    whim_str_deinit(&deep);
}

/* Random expressions and texts, against the matcher of another library. */
static void another_matcher_agrees(void **state)
{
    (void)state;
    static const char *const atoms[] = {"a", "b", "c", "[ab]", "[^a]", "(?:ab|c)", ".", "(?:b*c)"};
    static const char *const marks[] = {"", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}"};
    int64_t n_match = 0;
    for (uint64_t i = 0; i < 200; i++) {
        char pattern[200] = "", whole[220];
        uint64_t n = whim_rng_at(5, i) % 5 + 1;
        for (uint64_t k = 0; k < n; k++) {
            uint64_t r = whim_rng_at(i + 100, k);
            strcat(pattern, atoms[r % 8]);
            strcat(pattern, marks[(r >> 8) % 8]);
            strcat(pattern, (r >> 16) % 5 == 0 && k + 1 < n ? "|" : "");
        }
        snprintf(whole, sizeof whole, "^(?:%s)\\z", pattern);
        int code;
        PCRE2_SIZE at;
        pcre2_code *re =
            pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
        assert_non_null(re);
        pcre2_match_data *match = pcre2_match_data_create(4, NULL);
        whim_diag diag = {{0}};
        whim_grammar *g = regex(pattern, &diag);
        assert_non_null(g);
        for (uint64_t k = 0; k < 60; k++) {
            char text[8] = "";
            uint64_t r = whim_rng_at(i + 999, k);
            for (uint64_t c = 0; c < r % 7; c++) {
                text[c] = (char)('a' + (r >> (8 + 4 * c)) % 4);
                text[c + 1] = '\0';
            }
            bool theirs = pcre2_match(re, (PCRE2_SPTR)text, strlen(text), 0, 0, match, NULL) >= 0;
            if (fixture_takes(g, text) != theirs) {
                fail_msg("%s on \"%s\": the other says %d", pattern, text, theirs);
            }
            n_match += theirs;
        }
        whim_grammar_unref(g);
        pcre2_match_data_free(match);
        pcre2_code_free(re);
    }
    assert_true(n_match > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_take_their_texts),
        cmocka_unit_test(bad_expressions_are_refused),
        cmocka_unit_test(large_expressions_meet_a_limit),
        cmocka_unit_test(another_matcher_agrees),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

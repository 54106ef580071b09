/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars as texts: what they take (all short texts, against the law written in C), what is
 * refused and where, and walks of recursive ones. */
#include "base/heap/faults.h"
#include "unit/grammar/grammar_fixture.h"

#include <jansson.h>

static whim_grammar *gbnf(const char *text, whim_diag *diag)
{
    whim_grammar_builder *b = fixture_builder();
    return fixture_build(b, whim_grammar_gbnf(b, text, "grammar"), diag);
}

static whim_grammar *good_gbnf(const char *text)
{
    whim_diag diag = {{0}};
    whim_grammar *g = gbnf(text, &diag);
    if (g == NULL) {
        fail_msg("%s: %s", text, diag.text);
    }
    return g;
}

static void grammars_take_their_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *good[6], *bad[6];
    } rows[] = {
        {"root ::= \"abc\"", {"abc"}, {"", "ab", "abcd"}},
        {"root ::= \"\"", {""}, {"a"}},
        {"root ::=", {""}, {"a"}},
        {"root ::= \"a\" | \"bc\" |", {"a", "bc", ""}, {"b", "abc"}},
        {"root ::= \"a\" \"b\"* [cd]+ .?", {"ac", "abbcd", "acx", "ac\n"}, {"a", "acxx"}},
        {"root ::= \"ab\"{2} x{1,2}\nx ::= \"y\"", {"ababy", "ababyy"}, {"abab", "aby"}},
        {"root ::= [0-9]{2,} \"-\"{,1} [^0-9]{0,2}", {"12", "123-", "12ab"}, {"1", "12abc"}},
        {"root ::= \"a\"{ 1 , 2 }", {"a", "aa"}, {"", "aaa"}},
        {"root ::= \"a\"{0}", {""}, {"a"}},
        {"root ::= [0-9] +", {"1", "12"}, {""}},
        {"root ::= (\"a\" | \"b\") * \"c\" {2}", {"cc", "abcc"}, {"c"}},
        {"root ::= a\na ::= \"x\" a{0}", {"x"}, {"xx"}},
        {"root ::= (\"\" \"\"){1000000}", {""}, {"x"}},
        {"root ::= (\"a\" | \"b\" (\"c\" | \"d\"))+", {"a", "bcabd"}, {"b", "c"}},
        {"# what\nroot ::= a # it is\n  | \"#\"\n\na ::=\n \"x\" # \"y\"\n", {"x", "#"}, {"y", ""}},
        {"root::=a-b a_c\na-b::=\"1\"\na_c::=\"2\"", {"12"}, {"1", "2"}},
        {"root ::= \"\\n\\t\\r\\\\\\\"\\x41\\u00e9\\U0001F600\\[\\]\"",
         {"\n\t\r\\\"A\xC3\xA9\xF0\x9F\x98\x80[]"},
         {"n"}},
        {"root ::= [\\]\\-\\\\a^]+ [\\x30-\\x32]", {"]-\\a^1"}, {"b0", "a3"}},
        {"root ::= [^\\x00-\\x7F\"]", {"\xC3\xA9"}, {"a", "\""}},
        {"root ::= [a-]", {"a", "-"}, {"b"}},
        {"root ::= \"\xE4\xB8\xAD\" [\xC3\xA0-\xC3\xA9]", {"\xE4\xB8\xAD\xC3\xA1"}, {"\xE4\xB8"}},
        {"root ::= x\r\nx ::= \"a\"\r\n", {"a"}, {"\r"}},
        {"root ::= ws \"a\" ws\nws ::= ([ \\t] ws)?", {"a", "  a\t "}, {" ", "a a"}},
        {"root ::= list\nlist ::= list \",\" item | item\nitem ::= [a-z]", {"a,b,c"}, {"a,", ","}},
        {"root ::= e\ne ::= e \"+\" t | e \"-\" t | t\nt ::= t \"*\" f | f\nf ::= \"(\" e \")\" | "
         "[0-9]",
         {"1", "1+2*3", "(1-2)*(3+4*5)-6"},
         {"1+", "(1", "1)"}},
        {"root ::= a a\na ::= b b\nb ::= \"x\"?", {"", "x", "xxxx"}, {"xxxxx"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_grammar *g = good_gbnf(rows[i].text);
        for (int k = 0; k < 6 && rows[i].good[k] != NULL; k++) {
            if (!fixture_takes(g, rows[i].good[k])) {
                fail_msg("%s does not take \"%s\"", rows[i].text, rows[i].good[k]);
            }
        }
        for (int k = 0; k < 6 && rows[i].bad[k] != NULL; k++) {
            if (fixture_takes(g, rows[i].bad[k])) {
                fail_msg("%s takes \"%s\"", rows[i].text, rows[i].bad[k]);
            }
        }
        whim_grammar_unref(g);
    }
}

/* --- all short texts -------------------------------------------------------------------------- */

static bool is_nested(const char *s) /* a^n b^n */
{
    size_t n = strlen(s);
    return n % 2 == 0 && strspn(s, "a") == n / 2 && strspn(s + n / 2, "b") == n / 2;
}

static bool is_palindrome(const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++) {
        if (s[i] != s[n - 1 - i] || s[i] == 'c') {
            return false;
        }
    }
    return true;
}

static bool is_balanced(const char *s) /* a opens, b closes, c is anything else */
{
    int64_t depth = 0;
    for (; *s != '\0' && depth >= 0; s++) {
        depth += *s == 'a' ? 1 : *s == 'b' ? -1 : 0;
    }
    return depth == 0;
}

/* As many a as b: rules that can be read in many ways. */
static bool is_even(const char *s)
{
    int64_t sum = 0;
    for (; *s != '\0'; s++) {
        sum += *s == 'a' ? 1 : *s == 'b' ? -1 : 100;
    }
    return sum == 0;
}

static bool is_list(const char *s) /* a's with single c's between them */
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == 'b' || (s[i] == 'c' && (i == 0 || i + 1 == n || s[i + 1] == 'c'))) {
            return false;
        }
    }
    return n > 0;
}

static bool is_last_b(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && strspn(s, "ac") == n - 1 && s[n - 1] == 'b';
}

static void short_texts_follow_the_law(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool (*law)(const char *s);
    } rows[] = {
        {"root ::= \"a\" root \"b\" | \"\"", is_nested},
        {"root ::= x\nx ::= (\"a\" x \"b\")?", is_nested},
        {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | [ab]?", is_palindrome},
        {"root ::= p\np ::= \"a\" p \"a\" | \"b\" p \"b\" | \"a\" | \"b\" | \"\"", is_palindrome},
        {"root ::= (\"a\" root \"b\" | \"c\")*", is_balanced},
        {"root ::= s\ns ::= o s | o |\no ::= \"a\" s \"b\" | \"c\"", is_balanced},
        {"root ::= \"a\" root \"b\" root | \"b\" root \"a\" root | \"\"", is_even},
        {"root ::= s\ns ::= \"a\" b s | \"b\" a s |\na ::= \"a\" | \"b\" a a\nb ::= \"b\" | \"a\" "
         "b b",
         is_even},
        {"root ::= w (\"c\" w)*\nw ::= \"a\" w | \"a\"", is_list},
        {"root ::= root \"c\" w | w\nw ::= w \"a\" | \"a\"", is_list},
        {"root ::= n \"b\"\nn ::= m n |\nm ::= \"a\" | \"c\"", is_last_b},
        {"root ::= t\nt ::= [ac] t | \"b\"", is_last_b},
    };
    enum { LONGEST = 6 };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_grammar *g = good_gbnf(rows[i].text);
        for (int32_t length = 0, count = 1; length <= LONGEST; length++, count *= 3) {
            for (int32_t which = 0; which < count; which++) {
                char s[LONGEST + 1] = {0};
                for (int32_t k = 0, rest = which; k < length; k++, rest /= 3) {
                    s[k] = "abc"[rest % 3];
                }
                if (fixture_takes(g, s) != rows[i].law(s)) {
                    fail_msg("%s: \"%s\"", rows[i].text, s);
                }
            }
        }
        whim_grammar_unref(g);
    }
}

static void mistakes_have_a_place(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "line 1, column 1: there is no rule \"root\""},
        {"a ::= \"x\"", "there is no rule \"root\""},
        {"root ::= \"x\" |\n  y", "line 2, column 3: there is no rule \"y\""},
        {"root ::= \"x", "line 1, column 10: this text is not closed"},
        {"root ::= \"x\n\"", "line 1, column 10: this text is not closed"},
        {"root ::= [a-z", "line 1, column 10: this class is not closed"},
        {"root ::= [z-a]", "line 1, column 11: this range ends before it begins"},
        {"root ::= (\"a\"", "line 1, column 10: this group is not closed"},
        {"root ::= \"a\")", "line 1, column 13: this ) closes nothing"},
        {"root ::= *", "line 1, column 10: there is nothing to repeat"},
        {"root ::= \"\xC3\xA9\" \"a\"**", "line 1, column 18: a repetition of a repetition"},
        {"root ::= \"a\"{2,1}", "line 1, column 13: this repetition ends before it begins"},
        {"root ::= \"a\"{}", "line 1, column 13: a repetition is {m}"},
        {"root ::= \"a\"{99999999}", "line 1, column 14: this number is above 1000000"},
        {"root ::= \"\\q\"", "line 1, column 11: this escape is not known"},
        {"root ::= \"\\x4\"", "line 1, column 11: 2 hexadecimal digits"},
        {"root ::= \"\\ud800\"", "line 1, column 11: there is no such character"},
        {"root ::= \"\\U00110000\"", "line 1, column 11: there is no such character"},
        {"root ::= 'a'", "line 1, column 10: a text in \"..\", a class"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule \"root\" is there twice"},
        {"root ::= <[5]>", "line 1, column 10: tokens"},
        {"root ::= \"a\" (= \"b\")", "line 1, column 14: look-ahead is not supported"},
        {"start: \"a\"", "line 1, column 6: this looks like Lark"},
        {"?start: \"a\"", "line 1, column 1: this looks like Lark"},
        {"%import common.WS", "line 1, column 1: this looks like Lark"},
        {"root = \"a\"", "line 1, column 6: a rule is expected: name ::= .."},
        {"root ::= \"a\"\nx", "line 2, column 1: there is no rule \"x\""},
        {"root ::= a\na ::= b \"x\"\nb ::= a | \"y\"",
         "line 2, column 1: the rule \"a\" can come to"},
        {"root ::= a\nw ::= \" \"?\na ::= w a \"x\" | \"y\"",
         "line 3, column 1: the rule \"a\" can come"},
        {"root ::= root \"x\"", "line 1, column 1: the rule \"root\" can come to itself"},
        {"root ::= \"a\" root", "no answer can satisfy"},
        {"root ::= []", "no answer can satisfy"},
        {"root ::= [a-z]{1000000} [a-z]{1000000}", "too large"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        whim_diag diag = {{0}};
        whim_grammar *g = gbnf(rows[i][0], &diag);
        if (g != NULL || strstr(diag.text, rows[i][1]) == NULL) {
            fail_msg("%s: \"%s\" does not say \"%s\"", rows[i][0], diag.text, rows[i][1]);
        }
    }
    whim_diag diag = {{0}};
    char deep[256] = "root ::= ";
    memset(deep + 9, '(', 100);
    assert_null(gbnf(deep, &diag));
    assert_non_null(strstr(diag.text, "line 1, column 74: groups are nested more than 64 deep"));
    assert_null(gbnf("root ::= \"\xFF\"", &diag));
    assert_non_null(strstr(diag.text, "line 1, column 11: this is no UTF-8"));
}

/* --- walks ------------------------------------------------------------------------------------ */

static const char json_grammar[] =
    "root ::= object\n"
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws (member (\",\" ws member)*)? \"}\" ws\n"
    "member ::= string \":\" ws value\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt/] | \"u1\" "
    "[0-9a-f]{3}))* "
    "\"\\\"\" ws\n"
    "number ::= \"-\"? ([0-9] | [1-9] [0-9]{0,8}) (\".\" [0-9]{1,4})? ws\n"
    "ws ::= ([ \\t\\n] ws)?\n";

/* Masks and tokens agree (fixture_walk asserts it), and what comes is JSON to another reader. */
static void walks_of_a_grammar_are_json(void **state)
{
    (void)state;
    whim_grammar *g = good_gbnf(json_grammar);
    int32_t n_done = 0;
    for (uint64_t i = 0; i < 60; i++) {
        whim_grammar_state *s = fixture_state(g);
        whim_str out = {0};
        if (fixture_walk(s, fixture_tok, ID_END, i, 60, &out)) {
            json_error_t error;
            json_t *json = json_loadb(whim_str_text(&out), (size_t)out.len,
                                      JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
            if (json == NULL) {
                fail_msg("%s: %s", whim_str_text(&out), error.text);
            }
            json_decref(json);
            n_done++;
        }
        whim_str_deinit(&out);
        whim_grammar_state_destroy(s);
    }
    assert_true(n_done > 30);
    whim_grammar_unref(g);
}

/* A mask has a token exactly when the bytes of it can be taken one by one. */
static void check_masks(const char *text)
{
    whim_grammar *g = good_gbnf(text);
    for (uint64_t key = 0; key < 20; key++) {
        whim_grammar_state *s = fixture_state(g);
        for (uint64_t i = 0; i < 30; i++) {
            uint32_t mask[N_FIXTURE_WORD];
            assert_true(whim_grammar_mask(s, mask, N_FIXTURE_WORD));
            for (int32_t id = 0; id < ID_END; id++) {
                int64_t n, k = 0;
                const char *bytes = whim_tokenizer_bytes(fixture_tok, id, &n);
                assert_true(whim_grammar_keep(s));
                while (k < n && whim_grammar_accept(s, (uint8_t)bytes[k])) {
                    k++;
                }
                whim_grammar_go_back(s);
                assert_true(fixture_bit(mask, id) == (k == n));
            }
            int32_t id = fixture_pick(mask, N_FIXTURE_WORD, whim_rng_at(key, i));
            if (id == ID_END) {
                break;
            }
            assert_true(whim_grammar_accept(s, id));
        }
        whim_grammar_state_destroy(s);
    }
    whim_grammar_unref(g);
}

static void masks_hold_what_can_be_taken(void **state)
{
    (void)state;
    check_masks("root ::= x+\nx ::= y \"1\" z | \"{\" x \"}\" | y\n"
                "y ::= \"a\" y | \"b\"\nz ::= (\"2\" z)?");
    /* Its quotes are not those of JSON: a text goes on where a string would have ended. */
    check_masks("root ::= pair (\",\" pair)*\npair ::= \"\\\"a\\\":\" value\n"
                "value ::= string | \"[\" value \"]\"\n"
                "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | "
                "\"u\" [0-9a-fA-F]{4}))* \"\\\"\"");
}

/* A rule that ends with itself is a loop, not a pile: the walk stays as small as at its begin. */
static void long_lists_are_cheap(void **state)
{
    (void)state;
    whim_grammar *g = good_gbnf("root ::= \"[\" list \"]\"\nlist ::= item \",\" list | item\n"
                                "item ::= \"{\" list \"}\" | [a-z] item | [a-z]\n");
    whim_grammar_state *s = fixture_state(g);
    assert_true(whim_grammar_accept(s, '['));
    for (int32_t i = 0; i < 5000; i++) {
        assert_true(whim_grammar_accept(s, i % 7 == 6 ? ',' : 'a' + i % 7));
    }
    uint32_t mask[N_FIXTURE_WORD];
    assert_true(whim_grammar_mask(s, mask, N_FIXTURE_WORD));
    assert_false(whim_grammar_is_stuck(s));
    assert_true(whim_grammar_accept(s, 'z') && whim_grammar_accept(s, ']'));
    assert_true(whim_grammar_must_end(s));
    whim_grammar_state_destroy(s);
    whim_grammar_unref(g);
}

/* Blanks behind a rule that ends with itself may belong to any of its callers. */
static void callers_that_share_blanks_are_walked(void **state)
{
    (void)state;
    whim_grammar *g = good_gbnf("root ::= \"[\" list \"]\"\nlist ::= item (\",\" ws list)? ws\n"
                                "item ::= [a-z]+\nws ::= (\" \" ws)?");
    whim_grammar_state *s = fixture_state(g);
    assert_true(whim_grammar_accept(s, '['));
    for (int32_t i = 0; i < 150; i++) {
        assert_true(whim_grammar_accept(s, 'a') && whim_grammar_accept(s, ','));
        assert_true(whim_grammar_accept(s, ' '));
    }
    uint32_t mask[N_FIXTURE_WORD];
    assert_true(whim_grammar_accept(s, 'a') && whim_grammar_mask(s, mask, N_FIXTURE_WORD));
    assert_false(whim_grammar_is_stuck(s));
    assert_true(fixture_bit(mask, ']') && fixture_bit(mask, ',') && fixture_bit(mask, ' '));
    assert_true(whim_grammar_accept(s, ' ') && whim_grammar_accept(s, ']'));
    assert_true(whim_grammar_must_end(s));
    whim_grammar_state_destroy(s);
    whim_grammar_unref(g);
}

/* A text that can be read in more and more ways ends stuck, after a bounded amount of work. */
static void too_many_readings_are_stuck(void **state)
{
    (void)state;
    whim_grammar *g = good_gbnf("root ::= s \"!\"\ns ::= \"a\" s s \"b\"? | \"a\" s | \"a\"");
    whim_grammar_state *s = fixture_state(g);
    uint32_t mask[N_FIXTURE_WORD];
    int32_t n = 0;
    do {
        assert_true(whim_grammar_mask(s, mask, N_FIXTURE_WORD));
    } while (!whim_grammar_is_stuck(s) && whim_grammar_accept(s, 'a') && ++n < 1000000);
    assert_in_range(n, 50, 999999);
    whim_grammar_state_destroy(s);
    whim_grammar_unref(g);
}

/* Masks and tokens of an answer, until memory lacks: how many came, and whether each mask was as
 * it is where nothing fails. */
static int32_t walk_until_lack(whim_grammar_state *s, const uint32_t right[][N_FIXTURE_WORD],
                               int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        uint32_t mask[N_FIXTURE_WORD];
        assert_true(whim_grammar_mask(s, mask, N_FIXTURE_WORD));
        if (whim_grammar_lacks_memory(s)) {
            assert_true(whim_grammar_is_stuck(s));
            return i;
        }
        assert_memory_equal(mask, right[i], sizeof mask);
        if (!whim_grammar_accept(s, i % 2 == 0 ? '(' : 'a')) {
            assert_true(whim_grammar_lacks_memory(s));
            return i;
        }
    }
    return n;
}

/* One of the allocations of a mask or of a token fails: that is told, or all is as it should be. A
 * mask with some of its tokens, or with the end alone, would be another answer. */
static void missing_memory_is_told(void **state)
{
    (void)state;
    enum { N = 40 };
    static const char text[] = "root ::= s* [c-f]{0,9}\ns ::= \"(\" \"a\" (s | [d-g]{2,9})* \")\"?";
    uint32_t right[N][N_FIXTURE_WORD];
    whim_grammar *g = good_gbnf(text);
    whim_grammar_state *s = fixture_state(g);
    whim_alloc_fail_nth(INT64_MAX); /* first they are counted */
    for (int32_t i = 0; i < N; i++) {
        assert_true(whim_grammar_mask(s, right[i], N_FIXTURE_WORD));
        assert_true(whim_grammar_accept(s, i % 2 == 0 ? '(' : 'a'));
    }
    const int64_t n_seen = whim_alloc_seen();
    whim_alloc_fail_nth(0);
    whim_grammar_state_destroy(s);
    whim_grammar_unref(g);
    int64_t n_told = 0;
    for (int64_t n = 1; n <= n_seen; n++) {
        g = good_gbnf(text); /* anew: the masks of the one before are kept */
        s = fixture_state(g);
        whim_alloc_fail_nth(n);
        n_told += walk_until_lack(s, right, N) < N;
        whim_alloc_fail_nth(0);
        whim_grammar_state_destroy(s);
        whim_grammar_unref(g);
    }
    assert_true(n_told > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars_take_their_texts),
        cmocka_unit_test(short_texts_follow_the_law),
        cmocka_unit_test(mistakes_have_a_place),
        cmocka_unit_test(walks_of_a_grammar_are_json),
        cmocka_unit_test(masks_hold_what_can_be_taken),
        cmocka_unit_test(long_lists_are_cheap),
        cmocka_unit_test(callers_that_share_blanks_are_walked),
        cmocka_unit_test(too_many_readings_are_stuck),
        cmocka_unit_test(missing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of the other engine: rewritten, refused, matched. */
#include "base/heap/budget.h"
#include "unit/text/text_fixture.h"

static void patterns_are_rewritten(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a\\sb[\\S]", "a\\p{White_Space}b[\\P{White_Space}]"},
        {"\\h[\\h]", "[0-9a-fA-F][0-9a-fA-F]"},
        {"\\p{Han}\\p{^L}\\P{Letter}\\p{Alpha}", "\\p{sc:Han}\\p{^L}\\P{L}\\p{Alphabetic}"},
        {"\\p{N}{1,3}+", "(?:\\p{N}{1,3})+"},
        {"(ab){2}+c", "(?:(ab){2})+c"},
        {"[ab]{2}+|x{3}", "(?:[ab]{2})+|x{3}"},
        {"a{,b+", "a{,b+"},
        {"[]a][^]a]", "[\\]a][^\\]a]"},
        {"\\u00e9\\\\\\/", "\\x{00e9}\\\\\\/"},
        {"(?i:'s)|\xC3\xA9++", "(?i:'s)|\xC3\xA9++"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_str out = {0};
        whim_diag diag = {{0}};
        assert_int_equal(whim_regex_translate(cases[i][0], &out, &diag), WHIM_ERR_OK);
        assert_string_equal(whim_str_text(&out), cases[i][1]);
        whim_str_deinit(&out);
        whim_regex *regex;
        assert_int_equal(whim_regex_compile(cases[i][0], &regex, &diag), WHIM_ERR_OK);
        whim_regex_free(regex);
    }
}

static void patterns_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"[a[b]]", "class in a class"},
        {"[a&&b]", "&&"},
        {"(?m:a)", "(?m:"},
        {"(?~a)", "(?~"},
        {"[\\W]", "negated"},
        {"\\p", "braces"},
        {"\\p{Nope}", "pattern"},
        {"a\\", "backslash"},
        {"[a", "not closed"},
        {"(a", "at byte"},
        {"a**\\C", "at byte"},
        {"\\u12", "hex"},
        {"(*UTF)a", "(*UT"},
        {"[[:alpha]", ":]"},
        {"\xFF", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_regex *regex;
        whim_diag diag = {{0}};
        whim_err err = whim_regex_compile(cases[i][0], &regex, &diag);
        if (err == WHIM_ERR_OK || strstr(diag.text, cases[i][1]) == NULL) {
            fail_msg("%s: expected \"%s\": %s", cases[i][0], cases[i][1], diag.text);
        }
        assert_null(regex);
    }
}

/* What the two engines read differently by themselves. */
static void classes_follow_the_other_engine(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        int64_t begin, end; /* begin -1: no match */
    } cases[] = {
        {"\\s", "\xE1\xA0\x8E", -1, 0}, /* U+180E is no white space */
        {"\\s", "a\xC2\x85", 1, 3},     /* U+0085 is */
        {"\\w+",
         " \xCC\x81"
         "a_\xE2\x82\x81",
         1, 5},                         /* marks are, subscripts are not */
        {"(?i:'s)", "'\xC5\xBF", 0, 3}, /* long s */
        {"^b", "a\nb", 2, 3},           /* anchors are of lines */
        {"a$", "a\nb", 0, 1},
        {".", "\nx", 1, 2},
        {"\\p{Han}", "\xE3\x83\xBC", -1, 0}, /* script, not its extensions */
    };
    whim_matcher *matcher;
    assert_int_equal(whim_matcher_create(&matcher), WHIM_ERR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_regex *regex;
        whim_diag diag = {{0}};
        bool found;
        whim_match m = {-1, 0};
        assert_int_equal(whim_regex_compile(cases[i].pattern, &regex, &diag), WHIM_ERR_OK);
        assert_int_equal(whim_regex_find(regex, matcher, cases[i].text,
                                         (int64_t)strlen(cases[i].text), 0, &found, &m, &diag),
                         WHIM_ERR_OK);
        bool right = !found || (m.begin == cases[i].begin && m.end == cases[i].end);
        if (found != (cases[i].begin >= 0) || !right) {
            fail_msg("%s: found %d [%lld, %lld)", cases[i].pattern, found, (long long)m.begin,
                     (long long)m.end);
        }
        whim_regex_free(regex);
    }
    whim_matcher_free(matcher);
}

/* A text that the pattern goes far back in takes memory, which is on the account of requests. */
static void deep_matches_are_counted(void **state)
{
    (void)state;
    enum { N = 40000, MIB = 1 << 20 };
    whim_regex *regex;
    whim_matcher *matcher;
    whim_match match;
    whim_diag diag = {{0}};
    bool found;
    char *text = test_malloc(N);
    memset(text, 'a', N);
    text[N - 1] = 'c'; /* else it is plain that nothing matches */
    assert_int_equal(whim_regex_compile("(?:(a)|b)*c", &regex, &diag), WHIM_ERR_OK);
    if (!whim_regex_has_jit(regex)) {
        test_free(text);
        whim_regex_free(regex);
        skip();
    }
    for (int large = 0; large < 2; large++) {
        whim_budget_set(large ? 64 * MIB : 8 * MIB);
        int32_t had = whim_budget_share(WHIM_BUDGET_WHOLE);
        assert_int_equal(whim_matcher_create(&matcher), WHIM_ERR_OK);
        whim_err err = whim_regex_find(regex, matcher, text, N, 0, &found, &match, &diag);
        assert_int_equal(err, large ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY);
        assert_int_equal(whim_budget_used() > 16 * MIB, large);
        whim_matcher_free(matcher);
        whim_budget_share(had);
        assert_true(whim_budget_used() < MIB);
        whim_budget_set(0);
    }
    whim_regex_free(regex);
    test_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_rewritten),
        cmocka_unit_test(patterns_are_refused),
        cmocka_unit_test(classes_follow_the_other_engine),
        cmocka_unit_test(deep_matches_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

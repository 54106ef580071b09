/* SPDX-License-Identifier: Apache-2.0 */
/* The same rule gives the same grammar, another rule another one, and old ones make room. */
#include "library/grammar_cache.h"

#include "base/heap/budget.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <string.h>

static whim_grammar *get(whim_grammar_cache *cache, const whim_answer_rule *rule)
{
    whim_grammar *g = NULL;
    whim_diag diag = {""};
    if (whim_grammar_cache_get(cache, rule, true, &g, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    whim_grammar_unref(g); /* the cache holds it */
    return g;
}

static void equal_rules_share(void **state)
{
    (void)state;
    whim_grammar_cache *cache = whim_grammar_cache_create(NULL);
    json_t *schema = json_pack("{s:s}", "type", "integer"), *same = json_deep_copy(schema);
    const char *two[] = {"ab", "c"}, *other[] = {"a", "bc"};
    whim_answer_rule a = {.schema = schema, .schema_at = "s"},
                     b = {.schema = same, .schema_at = "s"};
    whim_answer_rule words = {.words = two, .n_word = 2}, others = {.words = other, .n_word = 2};
    assert_ptr_equal(get(cache, &a), get(cache, &b));
    assert_ptr_not_equal(get(cache, &words), get(cache, &others));
    b.may_reason = true;
    assert_ptr_not_equal(get(cache, &a), get(cache, &b));
    json_object_set_new(same, "minimum", json_integer(3));
    b.may_reason = false;
    assert_ptr_not_equal(get(cache, &a), get(cache, &b));
    json_decref(schema);
    json_decref(same);
    whim_grammar_cache_destroy(cache);
}

static void compiling_is_counted(void **state)
{
    (void)state;
    static whim_meters meters;
    whim_grammar_cache *cache = whim_grammar_cache_create(&meters);
    whim_answer_rule good = {.regex = "a+"}, bad = {.regex = "a("}, none = {.n_word = 0};
    whim_diag diag = {""};
    whim_grammar *g = NULL;
    get(cache, &good);
    get(cache, &good);
    assert_int_not_equal(whim_grammar_cache_get(cache, &bad, true, &g, &diag), WHIM_ERR_OK);
    assert_null(get(cache, &none));
    int64_t n = 0;
    for (int32_t i = 0; i <= WHIM_HISTOGRAM_LIMITS_GRAMMAR_TIME; i++) {
        n += whim_meter_get(&meters, GRAMMAR_TIME, i);
    }
    assert_int_equal(n, 2);
    assert_int_equal(whim_meter_get(&meters, GRAMMAR_FAILED, 0), 1);
    assert_int_equal(whim_meter_get(&meters, GRAMMAR_HITS, 0), 1);
    whim_grammar_cache_destroy(cache);
}

static void old_ones_go(void **state)
{
    (void)state;
    whim_grammar_cache *cache = whim_grammar_cache_create(NULL);
    whim_answer_rule kept = {.regex = "kept"};
    whim_diag diag = {""};
    whim_grammar *first;
    assert_int_equal(whim_grammar_cache_get(cache, &kept, true, &first, &diag), WHIM_ERR_OK);
    for (int32_t i = 0; i < 100; i++) {
        char pattern[16];
        snprintf(pattern, sizeof pattern, "x%d", i);
        get(cache, &(whim_answer_rule){.regex = pattern});
        if (i < 60) {
            assert_ptr_equal(get(cache, &kept), first);
        }
    }
    assert_ptr_not_equal(get(cache, &kept), first); /* which lives, for we hold it */
    whim_grammar_unref(first);
    assert_int_equal(whim_grammar_cache_get(cache, &kept, true, &first, &diag), WHIM_ERR_OK);
    for (int32_t i = 0; i < 16; i++) { /* no more than 16: what they hold is bounded */
        char pattern[16];
        snprintf(pattern, sizeof pattern, "y%d", i);
        get(cache, &(whim_answer_rule){.regex = pattern});
    }
    assert_ptr_not_equal(get(cache, &kept), first);
    whim_grammar_unref(first);
    whim_grammar_cache_destroy(cache);
}

/* What is kept takes a part of the memory for requests, and what could be compiled at first can be
 * compiled after any number of others. */
static void the_rest_of_the_memory_is_for_others(void **state)
{
    (void)state;
    enum { BUDGET = 8 << 20, ALL = WHIM_BUDGET_WHOLE };
    whim_grammar_cache *cache = whim_grammar_cache_create(NULL);
    whim_budget_set(BUDGET);
    int32_t had = whim_budget_share(ALL);
    for (int32_t i = 0; i < 60; i++) {
        char pattern[64];
        snprintf(pattern, sizeof pattern, "([a-z]{0,900}x|[0-9a-f]{1,%d})%d", 1200 + i % 7, i);
        get(cache, &(whim_answer_rule){.regex = pattern});
        assert_true(whim_budget_used() <= BUDGET / ALL + WHIM_BUDGET_LATE);
    }
    whim_budget_share(had);
    whim_grammar_cache_destroy(cache);
    whim_budget_set(0);
}

static void free_text_and_errors(void **state)
{
    (void)state;
    whim_grammar_cache *cache = whim_grammar_cache_create(NULL);
    whim_grammar *g;
    whim_diag diag = {""};
    assert_null(get(cache, &(whim_answer_rule){0}));
    assert_int_equal(
        whim_grammar_cache_get(cache, &(whim_answer_rule){.regex = "("}, true, &g, &diag),
        WHIM_ERR_INVALID);
    assert_int_equal(
        whim_grammar_cache_get(NULL, &(whim_answer_rule){.regex = "a"}, true, &g, &diag),
        WHIM_ERR_OK);
    whim_grammar_unref(g);
    whim_grammar_cache_destroy(cache);
    whim_grammar_cache_destroy(NULL);
}

/* A failure is found again without compiling, with its own message; what it is called in the
 * request is part of it. */
static void failures_are_kept(void **state)
{
    (void)state;
    static whim_meters meters;
    whim_grammar_cache *cache = whim_grammar_cache_create(&meters);
    json_t *schema = json_pack("{s:s}", "type", "nothing");
    whim_answer_rule bad = {.schema = schema, .schema_at = "here"}, same = bad;
    whim_grammar *g = NULL;
    whim_diag first = {""}, second = {""}, third = {""};
    assert_int_equal(whim_grammar_cache_get(cache, &bad, true, &g, &first), WHIM_ERR_INVALID);
    assert_int_equal(whim_grammar_cache_get(cache, &bad, false, &g, &second), WHIM_ERR_INVALID);
    assert_null(g);
    assert_non_null(strstr(first.text, "here"));
    assert_string_equal(first.text, second.text);
    assert_int_equal(whim_meter_get(&meters, GRAMMAR_FAILED, 0), 1);
    assert_int_equal(whim_meter_get(&meters, GRAMMAR_HITS, 0), 1);
    same.schema_at = "there";
    assert_int_equal(whim_grammar_cache_get(cache, &same, true, &g, &third), WHIM_ERR_INVALID);
    assert_non_null(strstr(third.text, "there"));
    json_decref(schema);
    whim_grammar_cache_destroy(cache);
}

/* Failures come cheap: any number of them leaves most grammars where they are. */
static void failures_push_out_few(void **state)
{
    (void)state;
    whim_grammar_cache *cache = whim_grammar_cache_create(NULL);
    whim_diag diag = {""};
    whim_grammar *g = NULL;
    char regex[16];
    whim_answer_rule rule = {.regex = regex};
    for (int i = 0; i < 12; i++) {
        snprintf(regex, sizeof regex, "a%d", i);
        assert_int_equal(whim_grammar_cache_get(cache, &rule, true, &g, &diag), WHIM_ERR_OK);
        whim_grammar_unref(g);
    }
    for (int i = 0; i < 40; i++) {
        snprintf(regex, sizeof regex, "(%d", i);
        assert_int_equal(whim_grammar_cache_get(cache, &rule, true, &g, &diag), WHIM_ERR_INVALID);
    }
    for (int i = 0; i < 12; i++) {
        snprintf(regex, sizeof regex, "a%d", i);
        assert_int_equal(whim_grammar_cache_get(cache, &rule, false, &g, &diag), WHIM_ERR_OK);
        whim_grammar_unref(g);
    }
    whim_grammar_cache_destroy(cache);
}

/* Who may not compile is told so, gets what is known, and free text at once. */
static void compiling_can_be_forbidden(void **state)
{
    (void)state;
    whim_grammar_cache *cache = whim_grammar_cache_create(NULL);
    whim_answer_rule rule = {.regex = "a+"}, none = {.n_word = 0};
    whim_grammar *g = NULL;
    whim_diag diag = {""};
    assert_int_equal(whim_grammar_cache_get(cache, &rule, false, &g, &diag), WHIM_ERR_BUSY);
    assert_null(g);
    assert_int_equal(whim_grammar_cache_get(cache, &none, false, &g, &diag), WHIM_ERR_OK);
    assert_null(g);
    get(cache, &rule);
    assert_int_equal(whim_grammar_cache_get(cache, &rule, false, &g, &diag), WHIM_ERR_OK);
    assert_non_null(g);
    whim_grammar_unref(g);
    whim_grammar_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_rules_share),
        cmocka_unit_test(compiling_is_counted),
        cmocka_unit_test(old_ones_go),
        cmocka_unit_test(the_rest_of_the_memory_is_for_others),
        cmocka_unit_test(free_text_and_errors),
        cmocka_unit_test(failures_are_kept),
        cmocka_unit_test(failures_push_out_few),
        cmocka_unit_test(compiling_can_be_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

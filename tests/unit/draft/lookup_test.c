/* SPDX-License-Identifier: Apache-2.0 */
/* The index against a search through the whole text, on random texts of few words; growth in odd
 * steps; circles; memory that runs out. */
#include "draft/lookup.h"
#include "support/cmocka.h"

#include "base/math/rng.h"

#include <string.h>

enum { N = 3000, MAX = 6, RUN = WHIM_LOOKUP_RUN };

static int32_t text[N];

static void text_make(uint64_t seed, int32_t n_word)
{
    for (int i = 0; i < N; i++) {
        text[i] = (int32_t)(whim_rng_at(seed, (uint64_t)i) % (uint64_t)n_word);
    }
}

/* Whether the n found tokens follow, somewhere before the end, what the text ends with. */
static bool stands_there(int64_t len, const int32_t *found, int64_t n)
{
    for (int64_t at = RUN; at < len; at++) {
        bool same = memcmp(text + at - RUN, text + len - RUN, RUN * sizeof *text) == 0;
        for (int64_t i = 0; same && i < n; i++) {
            same = found[i] == (at + i < len ? text[at + i] : found[at + i - len]);
        }
        if (same) {
            return true;
        }
    }
    return false;
}

static void finds_what_followed(void **state)
{
    (void)state;
    int64_t n_found = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        whim_lookup l = {0};
        text_make(seed, seed % 2 == 1 ? 9 : 200);
        for (int64_t len = 0; len < N; len += 1 + (int64_t)(whim_rng_at(seed, 7) % 5)) {
            int32_t found[MAX];
            assert_true(whim_lookup_grow(&l, text, len));
            int64_t n = whim_lookup_find(&l, text, text, len, found, MAX);
            assert_true(n == 0 || n == MAX);
            if (n > 0) {
                assert_true(stands_there(len, found, n));
                n_found++;
            }
        }
        whim_lookup_deinit(&l);
    }
    assert_true(n_found > 500);
}

static void a_run_that_stood_there_is_found(void **state)
{
    (void)state;
    whim_lookup l = {0};
    text_make(11, 5000);
    memcpy(text + 2000, text + 700, 40 * sizeof *text);
    assert_true(whim_lookup_grow(&l, text, 2004));
    int32_t found[MAX];
    assert_int_equal(whim_lookup_find(&l, text, text, 2004, found, MAX), MAX);
    assert_memory_equal(found, text + 704, sizeof found);
    /* What was never there is not found, nor is anything from two tokens. */
    assert_int_equal(whim_lookup_find(&l, text, (int32_t[]){-1, -2, -3}, 3, found, MAX), 0);
    assert_int_equal(whim_lookup_find(&l, text, text, 2, found, MAX), 0);
    whim_lookup_deinit(&l);
}

/* Of two places the one before which more is the same; of equal ones the newer. */
static void the_longer_match_wins(void **state)
{
    (void)state;
    static const int32_t words[] = {7, 1, 2, 3, 50, 8, 1, 2, 3, 60, 9, 9, 7, 1, 2, 3};
    enum { LEN = sizeof words / sizeof words[0] };
    whim_lookup l = {0};
    int32_t found[1];
    assert_true(whim_lookup_grow(&l, words, LEN));
    assert_int_equal(whim_lookup_find(&l, words, words, LEN, found, 1), 1);
    assert_int_equal(found[0], 50);
    assert_int_equal(whim_lookup_find(&l, words, words + LEN - 3, 3, found, 1), 1);
    assert_int_equal(found[0], 60);
    whim_lookup_deinit(&l);
}

static void another_text_has_an_end(void **state)
{
    (void)state;
    static const int32_t source[] = {1, 2, 3, 4, 5}, tail[] = {9, 9, 1, 2, 3};
    whim_lookup l = {0};
    int32_t found[MAX];
    assert_true(whim_lookup_grow(&l, source, 5));
    assert_int_equal(whim_lookup_find(&l, source, tail, 5, found, MAX), 2);
    assert_int_equal(found[0], 4);
    assert_int_equal(found[1], 5);
    whim_lookup_deinit(&l);
}

static void circles_go_on(void **state)
{
    (void)state;
    static const int32_t round[] = {4, 5, 4, 5, 4, 5};
    whim_lookup l = {0};
    int32_t found[MAX];
    assert_true(whim_lookup_grow(&l, round, 6));
    assert_int_equal(whim_lookup_find(&l, round, round, 6, found, MAX), MAX);
    for (int i = 0; i < MAX; i++) {
        assert_int_equal(found[i], 4 + i % 2);
    }
    whim_lookup_deinit(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_followed),   cmocka_unit_test(a_run_that_stood_there_is_found),
        cmocka_unit_test(the_longer_match_wins), cmocka_unit_test(another_text_has_an_end),
        cmocka_unit_test(circles_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

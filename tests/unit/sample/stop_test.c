/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings: however the text is cut, what is shown is the same; nothing of a stop string is
 * ever shown. */
#include "sample/stop.h"
#include "support/cmocka.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/math/rng.h"

#include <string.h>

typedef struct result {
    char shown[128];
    int32_t matched;
} result;

/* Push `text` cut after every byte whose bit in `cuts` is set. */
static result push_cut(const char *text, const char *const *stops, int32_t n_stop, uint64_t cuts)
{
    result r = {.matched = -1};
    whim_stop stop;
    whim_str out = {0};
    int64_t n = (int64_t)strlen(text), from = 0;
    bool ended = false;
    whim_stop_init(&stop, stops, n_stop);
    for (int64_t i = 1; i <= n && !ended; i++) {
        if (i == n || (cuts >> (i - 1) & 1) != 0) {
            ended = whim_stop_push(&stop, text + from, i - from, &out);
            from = i;
        }
    }
    if (!ended) {
        whim_stop_flush(&stop, &out);
    }
    assert_false(out.failed);
    strcpy(r.shown, whim_str_text(&out));
    r.matched = stop.matched;
    whim_stop_deinit(&stop);
    whim_str_deinit(&out);
    return r;
}

static void expect(const char *text, const char *const *stops, int32_t n_stop, const char *shown,
                   int32_t matched)
{
    uint64_t all = UINT64_C(1) << (strlen(text) > 0 ? strlen(text) - 1 : 0);
    assert_true(strlen(text) <= 14);
    for (uint64_t cuts = 0; cuts < all; cuts++) {
        result r = push_cut(text, stops, n_stop, cuts);
        assert_string_equal(r.shown, shown);
        assert_int_equal(r.matched, matched);
    }
}

static void every_cut_gives_the_same(void **state)
{
    (void)state;
    static const char *const one[] = {"stop"};
    expect("", one, 1, "", -1);
    expect("stop", one, 1, "", 0);
    expect("a stop b", one, 1, "a ", 0);
    expect("ststop", one, 1, "st", 0);
    expect("a sto", one, 1, "a sto", -1);
    expect("stosto", one, 1, "stosto", -1);
    static const char *const self[] = {"aab"};
    expect("aaab", self, 1, "a", 0);
    expect("aaaaaabb", self, 1, "aaaa", 0);
    static const char *const two[] = {"xaby", "ab"};
    expect("xaby", two, 2, "x", 1); /* "ab" ends first */
    expect("xab", two, 2, "x", 1);
    static const char *const same_end[] = {"b", "ab", "xab"};
    expect("zxabz", same_end, 3, "z", 2); /* the longest of those that end together */
    static const char *const wide[] = {"終わり", "\n\n"};
    expect("終終わり", wide, 2, "終", 0);
    expect("a\n終わ\n", wide, 2, "a\n終わ\n", -1);
    static const char *const empty[] = {"", "q"};
    expect("aq", empty, 2, "a", 1); /* an empty string never matches */
    expect("aq", NULL, 0, "aq", -1);
}

/* The law: look for the first end of a match in the whole text. */
static result law(const char *text, const char *const *stops, int32_t n_stop)
{
    result r = {.matched = -1};
    int64_t n = (int64_t)strlen(text);
    for (int64_t end = 1; end <= n && r.matched < 0; end++) {
        int64_t best = 0;
        for (int32_t i = 0; i < n_stop; i++) {
            int64_t m = (int64_t)strlen(stops[i]);
            if (m > best && m <= end && memcmp(text + end - m, stops[i], (size_t)m) == 0) {
                best = m;
                r.matched = i;
            }
        }
        if (r.matched >= 0) {
            n = end - best;
        }
    }
    memcpy(r.shown, text, (size_t)n);
    return r;
}

static void random_texts_follow_the_law(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20000; round++) {
        char text[41] = "", words[3][6] = {"", "", ""};
        const char *stops[3] = {words[0], words[1], words[2]};
        uint64_t at = 0;
        int n = (int)(whim_rng_at(round, at++) % 40);
        for (int i = 0; i < n; i++) {
            text[i] = (char)('a' + whim_rng_at(round, at++) % 2);
        }
        for (int s = 0; s < 3; s++) {
            int m = 2 + (int)(whim_rng_at(round, at++) % 4);
            for (int i = 0; i < m; i++) {
                words[s][i] = (char)('a' + whim_rng_at(round, at++) % 2);
            }
        }
        result want = law(text, stops, 3);
        result got = push_cut(text, stops, 3, whim_rng_at(round, at++));
        assert_string_equal(got.shown, want.shown);
        /* Equal stop strings: the first of them is named by both. */
        assert_int_equal(got.matched, want.matched);
    }
}

/* Only what may become a stop string is held back. */
static void text_is_shown_as_soon_as_it_may_be(void **state)
{
    (void)state;
    static const char *const stops[] = {"END"};
    whim_stop stop;
    whim_str out = {0};
    whim_stop_init(&stop, stops, 1);
    assert_false(whim_stop_push(&stop, "abE", 3, &out));
    assert_string_equal(whim_str_text(&out), "ab");
    assert_false(whim_stop_push(&stop, "N", 1, &out));
    assert_string_equal(whim_str_text(&out), "ab");
    assert_false(whim_stop_push(&stop, "x", 1, &out));
    assert_string_equal(whim_str_text(&out), "abENx");
    assert_true(whim_stop_push(&stop, "yENDz", 5, &out));
    assert_true(whim_stop_push(&stop, "more", 4, &out)); /* nothing comes after a match */
    whim_stop_flush(&stop, &out);
    assert_string_equal(whim_str_text(&out), "abENxy");
    whim_stop_deinit(&stop);
    whim_str_deinit(&out);
}

static void lost_memory_shows_in_the_text(void **state)
{
    (void)state;
    static const char *const stops[] = {"END"};
    whim_stop stop;
    whim_str out = {0};
    whim_stop_init(&stop, stops, 1);
    whim_alloc_fail_after(0);
    whim_stop_push(&stop, "abc", 3, &out);
    whim_alloc_fail_after(-1);
    assert_true(out.failed);
    whim_stop_deinit(&stop);
    whim_str_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same),
        cmocka_unit_test(random_texts_follow_the_law),
        cmocka_unit_test(text_is_shown_as_soon_as_it_may_be),
        cmocka_unit_test(lost_memory_shows_in_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

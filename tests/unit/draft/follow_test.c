/* SPDX-License-Identifier: Apache-2.0 */
/* An answer that follows a predicted text: from its beginning, over tokens that were changed, left
 * out and put in, to another part of it, past its end, and away from it. */
#include "draft/follow.h"
#include "support/cmocka.h"

#include <string.h>

enum { N = 300 };

static int32_t text[N], answer[2 * N];
static int64_t n_answer;
static whim_lookup index_of;
static whim_follow follow;

/* No token twice, but for every tenth, which is the same everywhere. */
static int start(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N; i++) {
        text[i] = i % 10 == 9 ? 7 : 1000 + i;
    }
    n_answer = 0;
    follow = (whim_follow){0};
    assert_true(whim_lookup_grow(&index_of, text, N));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    whim_lookup_deinit(&index_of);
    return 0;
}

static void say(int32_t id)
{
    answer[n_answer++] = id;
    whim_follow_take(&follow, &index_of, text, answer, n_answer);
}

static void say_text(int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        say(text[i]);
    }
}

/* What is proposed now is the text from `at` on; -1: nothing is. */
static void proposes(int64_t at)
{
    int32_t out[4] = {0};
    int64_t n = whim_follow_propose(&follow, &index_of, text, out, 4);
    int64_t left = at < 0 ? 0 : N - at;
    assert_int_equal(n, left < 4 ? left : 4);
    if (n > 0) {
        assert_memory_equal(out, text + at, (size_t)n * sizeof *out);
    }
}

static void it_begins_at_the_beginning(void **state)
{
    (void)state;
    proposes(0);
    say(5); /* what goes before it is no reason to leave */
    proposes(0);
    say(6);
    proposes(0);
    say_text(0, 3);
    proposes(3);
    assert_int_equal(follow.n_right, 3);
    say_text(3, N);
    proposes(N);
    assert_int_equal(follow.n_right, N);
    say(1);
    proposes(-1);
}

static void changes_are_walked_over(void **state)
{
    (void)state;
    say_text(0, 50);
    say(1); /* in place of one */
    proposes(-1);
    say(text[51]);
    proposes(-1);
    say(text[52]);
    proposes(53);
    say_text(53, 100);
    say_text(121, 123); /* some are left out */
    proposes(123);
    say_text(123, 150);
    for (int32_t i = 0; i < 40; i++) { /* and forty put in */
        say(i);
        proposes(-1);
    }
    say_text(150, 152);
    proposes(152);
    assert_int_equal(follow.n_right, 50 + 47 + 27);
}

/* Far from where it was left, it takes a run to find the place. */
static void another_part_is_found(void **state)
{
    (void)state;
    say_text(0, 20);
    say_text(201, 203);
    proposes(-1);
    say(text[203]);
    proposes(204);
    say_text(204, 210);
    say_text(31, 34); /* and back */
    proposes(34);
}

static void nothing_is_nowhere(void **state)
{
    (void)state;
    int32_t out[4];
    whim_lookup none = {0};
    whim_follow f = {0};
    assert_int_equal(whim_follow_propose(&f, &none, NULL, out, 4), 0);
    whim_follow_take(&f, &none, NULL, text, 9);
    assert_int_equal(whim_follow_propose(&f, &none, NULL, out, 4), 0);
    assert_int_equal(f.n_right, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_begins_at_the_beginning, start, stop),
        cmocka_unit_test_setup_teardown(changes_are_walked_over, start, stop),
        cmocka_unit_test_setup_teardown(another_part_is_found, start, stop),
        cmocka_unit_test(nothing_is_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

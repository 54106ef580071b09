/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas. */
#include "base/alloc.h"
#include "base/arena.h"
#include "support/cmocka.h"

#include <string.h>

#include <stdint.h>

static void test_growing(void **state)
{
    (void)state;
    whim_arena arena;
    whim_arena_init(&arena);
    assert_non_null(whim_arena_alloc(&arena, 0));
    whim_arena_reset(&arena);
    whim_arena_init(&arena);
    char *pieces[200];
    for (int i = 0; i < 200; i++) { /* past one chunk */
        pieces[i] = whim_arena_alloc(&arena, 1000);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 64, 0);
        for (int j = 0; j < 1000; j++) {
            assert_int_equal(pieces[i][j], 0);
        }
        memset(pieces[i], i, 1000);
    }
    for (int i = 0; i < 200; i++) {
        assert_int_equal((unsigned char)pieces[i][0], i);
        assert_int_equal((unsigned char)pieces[i][999], i);
    }
    char *big = whim_arena_alloc(&arena, 1000000);
    assert_non_null(big);
    big[999999] = 1;
    assert_int_equal(arena.total, 200 * 1024 + 1000000);
    whim_arena_reset(&arena);
    assert_int_equal(arena.total, 0);
    assert_non_null(whim_arena_alloc(&arena, 1));
    whim_arena_reset(&arena);
}

static void test_refusals(void **state)
{
    (void)state;
    whim_arena arena;
    whim_arena_init(&arena);
    assert_null(whim_arena_alloc(&arena, -1));
    assert_null(whim_arena_alloc(&arena, INT64_MAX));
    assert_null(whim_arena_alloc_array(&arena, INT64_MAX / 2, 3));
    assert_null(whim_arena_alloc_array(&arena, -1, 3));
    whim_alloc_fail_after(0);
    assert_null(whim_arena_alloc(&arena, 1));
    whim_alloc_fail_after(-1);
    char *text = whim_arena_strndup(&arena, "abcdef", 3);
    assert_string_equal(text, "abc");
    int32_t *array = whim_arena_alloc_array(&arena, 5, sizeof *array);
    assert_int_equal(array[4], 0);
    whim_arena_reset(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

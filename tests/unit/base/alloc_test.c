/* SPDX-License-Identifier: Apache-2.0 */
/* The heap: zeroed, aligned, refusing nonsense; the guard and the countdown of the fault tests. */
#include "base/alloc.h"
#include "support/cmocka.h"
#include "support/death.h"

#include <string.h>

#include <stdint.h>

static void assert_zero(const char *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(bytes[i], 0);
    }
}

static void test_alloc(void **state)
{
    (void)state;
    for (int64_t n = -1; n < 300; n += 37) {
        char *p = whim_alloc(n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_zero(p, n > 0 ? n : 1);
        memset(p, 0xff, n > 0 ? (size_t)n : 1);
        whim_free(p);
    }
    assert_null(whim_alloc(INT64_MAX));
    whim_free(NULL);
}

static void test_array(void **state)
{
    (void)state;
    char *p = whim_alloc_array(10, 7);
    assert_non_null(p);
    assert_zero(p, 70);
    whim_free(p);
    assert_null(whim_alloc_array(INT64_MAX / 2, 3));
    assert_null(whim_alloc_array(-1, 3));
    assert_null(whim_alloc_array(3, -1));
}

static void test_resize(void **state)
{
    (void)state;
    char *p = whim_realloc(NULL, 0, 8);
    assert_non_null(p);
    memcpy(p, "abcdefg", 8);
    p = whim_realloc(p, 8, 200);
    assert_non_null(p);
    assert_string_equal(p, "abcdefg");
    assert_zero(p + 8, 192);
    p = whim_realloc(p, 200, 4);
    assert_memory_equal(p, "abcd", 4);
    whim_alloc_fail_after(0);
    assert_null(whim_realloc(p, 4, 400));
    whim_alloc_fail_after(-1);
    assert_memory_equal(p, "abcd", 4);
    whim_free(p);
}

static void test_grow(void **state)
{
    (void)state;
    int32_t *list = NULL;
    int64_t cap = 0;
    for (int32_t i = 0; i < 1000; i++) {
        assert_true(whim_grow(&list, i + 1, &cap, sizeof *list));
        assert_true(cap > i && cap < 2 * i + 65);
        list[i] = i;
    }
    for (int32_t i = 0; i < 1000; i++) {
        assert_int_equal(list[i], i);
    }
    int32_t *before = list;
    whim_alloc_fail_after(0);
    assert_false(whim_grow(&list, 5000, &cap, sizeof *list));
    whim_alloc_fail_after(-1);
    assert_false(whim_grow(&list, INT64_MAX / 2, &cap, sizeof *list));
    assert_ptr_equal(list, before);
    assert_int_equal(cap, 1024);
    whim_free(list);
}

static void test_countdown(void **state)
{
    (void)state;
    whim_alloc_fail_after(2);
    void *a = whim_alloc(1), *b = whim_alloc(1), *c = whim_alloc(1), *d = whim_alloc(1);
    whim_alloc_fail_after(-1);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(c);
    assert_null(d);
    whim_free(a);
    whim_free(b);
    a = whim_alloc(1);
    assert_non_null(a);
    whim_free(a);
}

/* Ends quietly (exit status 0) only when the trip was counted and the memory was given. */
static void alloc_under_guard(void *ctx)
{
    (void)ctx;
    whim_alloc_guard_enter();
    whim_alloc_guard_enter();
    whim_alloc_guard_leave();
    void *p = whim_alloc(1);
    whim_alloc_guard_leave();
    if (p == NULL || whim_alloc_guard_trips() != 1) {
        _exit(1);
    }
    whim_free(whim_alloc(1));
    if (whim_alloc_guard_trips() != 1) {
        _exit(1);
    }
}

static void test_guard(void **state)
{
    (void)state;
    assert_int_equal(whim_alloc_guard_trips(), 0);
#ifdef WHIM_DEBUG
    assert_int_equal(death_signal(alloc_under_guard, NULL), SIGABRT);
#else
    assert_int_equal(death_signal(alloc_under_guard, NULL), 0);
#endif
    whim_alloc_guard_enter();
    whim_alloc_guard_leave();
    whim_free(whim_alloc(1));
    assert_int_equal(whim_alloc_guard_trips(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc),     cmocka_unit_test(test_array),
        cmocka_unit_test(test_resize),    cmocka_unit_test(test_grow),
        cmocka_unit_test(test_countdown), cmocka_unit_test(test_guard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

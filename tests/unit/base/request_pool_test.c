/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks run once, newest first, with the request's memory still there. */
#include "base/alloc.h"
#include "base/request_pool.h"
#include "support/cmocka.h"

#include <string.h>

#include <stdint.h>

typedef struct note {
    char *trail;
    const char *text;
    whim_request_pool *adds; /* a hook that adds another */
} note;

static void hook(void *ctx)
{
    note *n = ctx;
    strcat(n->trail, n->text);
    if (n->adds != NULL) {
        n->text = "+";
        whim_request_pool *pool = n->adds;
        n->adds = NULL;
        assert_int_equal(whim_request_pool_defer(pool, hook, n), WHIM_ERR_OK);
    }
}

static note *note_create(whim_request_pool *pool, char *trail, const char *text)
{
    note *n = whim_arena_alloc(&pool->arena, sizeof *n);
    *n = (note){.trail = trail, .text = text};
    return n;
}

static void test_order(void **state)
{
    (void)state;
    char trail[32] = "";
    whim_request_pool pool;
    whim_request_pool_init(&pool);
    assert_int_equal(whim_request_pool_defer(&pool, hook, note_create(&pool, trail, "a")), 0);
    assert_non_null(whim_arena_alloc(&pool.arena, 100000));
    note *adder = note_create(&pool, trail, "b");
    adder->adds = &pool;
    assert_int_equal(whim_request_pool_defer(&pool, hook, adder), 0);
    assert_int_equal(whim_request_pool_defer(&pool, hook, note_create(&pool, trail, "c")), 0);
    assert_string_equal(trail, "");
    whim_request_pool_deinit(&pool);
    assert_string_equal(trail, "cb+a");
    whim_request_pool_deinit(&pool);
    assert_string_equal(trail, "cb+a");
    assert_int_equal(whim_request_pool_defer(&pool, hook, note_create(&pool, trail, "d")), 0);
    whim_request_pool_deinit(&pool);
    assert_string_equal(trail, "cb+ad");
}

static void test_no_memory(void **state)
{
    (void)state;
    char trail[8] = "";
    note outside = {.trail = trail, .text = "x"};
    whim_request_pool pool;
    whim_request_pool_init(&pool);
    whim_alloc_fail_after(0);
    assert_int_equal(whim_request_pool_defer(&pool, hook, &outside), WHIM_ERR_NO_MEMORY);
    whim_alloc_fail_after(-1);
    whim_request_pool_deinit(&pool);
    assert_string_equal(trail, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

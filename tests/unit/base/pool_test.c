/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed blocks: all of them can be had once, none twice. */
#include "base/alloc.h"
#include "base/pool.h"
#include "support/cmocka.h"
#include "support/death.h"

#include <string.h>

#include <stdint.h>

static void test_take_and_give(void **state)
{
    (void)state;
    whim_pool pool;
    assert_int_equal(whim_pool_init(&pool, 100, 5), WHIM_ERR_OK);
    char *blocks[5];
    for (int i = 0; i < 5; i++) {
        blocks[i] = whim_pool_take(&pool);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], i + 1, 100);
        assert_int_equal(whim_pool_index(&pool, blocks[i]), i);
        assert_ptr_equal(whim_pool_at(&pool, i), blocks[i]);
    }
    assert_null(whim_pool_take(&pool));
    assert_int_equal(pool.n_free, 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(blocks[i][0], i + 1);
        assert_int_equal(blocks[i][99], i + 1);
    }
    whim_pool_give(&pool, blocks[1]);
    whim_pool_give(&pool, blocks[3]);
    whim_pool_give(&pool, NULL);
    assert_int_equal(pool.n_free, 2);
    char *again = whim_pool_take(&pool);
    assert_ptr_equal(again, blocks[3]);
    assert_int_equal(again[0], 0);
    assert_int_equal(again[99], 0);
    assert_ptr_equal(whim_pool_take(&pool), blocks[1]);
    whim_pool_deinit(&pool);
}

typedef struct misuse {
    whim_pool *pool;
    void *block;
} misuse;

static void give(void *ctx)
{
    misuse *m = ctx;
    whim_pool_give(m->pool, m->block);
}

static void test_misuse(void **state)
{
    (void)state;
    whim_pool pool;
    assert_int_equal(whim_pool_init(&pool, 128, 3), WHIM_ERR_OK);
    char *a = whim_pool_take(&pool), *b = whim_pool_take(&pool);
    int local = 0;
    whim_pool_give(&pool, a);
    assert_int_equal(death_signal(give, &(misuse){&pool, b}), 0);
    assert_int_equal(death_signal(give, &(misuse){&pool, a}), SIGABRT);
    assert_int_equal(death_signal(give, &(misuse){&pool, b + 64}), SIGABRT);
    assert_int_equal(death_signal(give, &(misuse){&pool, a + 3 * 128}), SIGABRT);
    assert_int_equal(death_signal(give, &(misuse){&pool, &local}), SIGABRT);
    whim_pool_deinit(&pool);
}

static void test_edges(void **state)
{
    (void)state;
    whim_pool pool;
    assert_int_equal(whim_pool_init(&pool, 8, 0), WHIM_ERR_OK);
    assert_null(whim_pool_take(&pool));
    whim_pool_deinit(&pool);
    assert_int_equal(whim_pool_init(&pool, 0, 1), WHIM_ERR_INVALID);
    assert_int_equal(whim_pool_init(&pool, INT64_MAX, 1), WHIM_ERR_INVALID);
    assert_int_equal(whim_pool_init(&pool, 1, -1), WHIM_ERR_INVALID);
    for (int64_t n = 0; n < 2; n++) {
        whim_alloc_fail_after(n);
        assert_int_equal(whim_pool_init(&pool, 64, 4), WHIM_ERR_NO_MEMORY);
        whim_alloc_fail_after(-1);
        assert_null(whim_pool_take(&pool));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take_and_give),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

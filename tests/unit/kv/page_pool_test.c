/* SPDX-License-Identifier: Apache-2.0 */
/* The page pool: every page handed out once, free again when its last reference goes. */
#include "kv/page_pool.h"
#include "support/cmocka.h"

#include "base/alloc.h"
#include "support/death.h"

#include <stdint.h>

static void pages_are_handed_out_once(void **state)
{
    (void)state;
    whim_page_pool pool;
    assert_int_equal(whim_page_pool_init(&pool, 5, 1), WHIM_ERR_OK);
    assert_int_equal(pool.n_free, 5);
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(whim_page_pool_take(&pool), i); /* lowest first */
    }
    assert_int_equal(pool.n_free, 0);
    assert_int_equal(whim_page_pool_take(&pool), -1);
    assert_int_equal(pool.n_free, 0);
    whim_page_pool_give(&pool, 3);
    whim_page_pool_give(&pool, 1);
    assert_int_equal(pool.n_free, 2);
    assert_int_equal(whim_page_pool_take(&pool), 1); /* last freed first */
    assert_int_equal(whim_page_pool_take(&pool), 3);
    assert_int_equal(whim_page_pool_take(&pool), -1);
    whim_page_pool_deinit(&pool);
}

static void an_empty_pool_is_legal(void **state)
{
    (void)state;
    whim_page_pool pool;
    assert_int_equal(whim_page_pool_init(&pool, 0, 1), WHIM_ERR_OK);
    assert_int_equal(whim_page_pool_take(&pool), -1);
    whim_page_pool_deinit(&pool);
}

static void note_share(void *ctx, int32_t page)
{
    int32_t *note = ctx;
    note[0]++;
    note[1] = page;
}

static void the_last_reference_frees(void **state)
{
    (void)state;
    whim_page_pool pool;
    int32_t note[2] = {0, -1}; /* calls, last page */
    assert_int_equal(whim_page_pool_init(&pool, 3, 1), WHIM_ERR_OK);
    pool.on_share = note_share;
    pool.share_ctx = note;
    assert_int_equal(whim_page_pool_take(&pool), 0);
    assert_int_equal(whim_page_pool_take(&pool), 1);
    assert_int_equal(note[0], 0);
    whim_page_pool_ref(&pool, 1);
    assert_int_equal(note[0], 1); /* one to two */
    assert_int_equal(note[1], 1);
    whim_page_pool_ref(&pool, 1);
    whim_page_pool_give(&pool, 1);
    assert_int_equal(note[0], 1); /* two to three and back: nothing new */
    assert_int_equal(pool.n_free, 1);
    whim_page_pool_give(&pool, 1);
    assert_int_equal(note[0], 2); /* two to one */
    assert_int_equal(pool.n_free, 1);
    whim_page_pool_give(&pool, 1);
    assert_int_equal(note[0], 2);
    assert_int_equal(pool.n_free, 2);
    assert_int_equal(pool.refs[1], 0);
    assert_int_equal(whim_page_pool_take(&pool), 1);
    whim_page_pool_deinit(&pool);
}

static void ref_page(void *ctx)
{
    whim_page_pool pool;
    if (whim_page_pool_init(&pool, 4, 1) == WHIM_ERR_OK && whim_page_pool_take(&pool) == 0) {
        whim_page_pool_ref(&pool, *(int32_t *)ctx);
    }
    whim_page_pool_deinit(&pool);
}

static void give_page(void *ctx)
{
    whim_page_pool pool;
    if (whim_page_pool_init(&pool, 4, 1) == WHIM_ERR_OK && whim_page_pool_take(&pool) == 0) {
        whim_page_pool_give(&pool, *(int32_t *)ctx);
    }
    whim_page_pool_deinit(&pool);
}

static void a_wrong_page_ends_the_process(void **state)
{
    (void)state;
    static int32_t pages[] = {0, 1, -1, 4};
    assert_int_equal(death_signal(give_page, &pages[0]), 0); /* the one that is held */
    assert_int_equal(death_signal(ref_page, &pages[0]), 0);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(death_signal(ref_page, &pages[i]), SIGABRT);
        assert_int_equal(death_signal(give_page, &pages[i]), SIGABRT);
    }
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    whim_page_pool pool;
    for (int64_t n = 0; n < 2; n++) {
        whim_alloc_fail_after(n);
        assert_int_equal(whim_page_pool_init(&pool, 8, 1), WHIM_ERR_NO_MEMORY);
        whim_alloc_fail_after(-1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_handed_out_once),
        cmocka_unit_test(an_empty_pool_is_legal),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(a_wrong_page_ends_the_process),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("page_pool", tests, NULL, NULL);
}

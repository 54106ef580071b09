/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences: pages come as positions need them and go back when positions are cut. */
#include "kv/sequence.h"
#include "support/cmocka.h"

#include "base/alloc.h"
#include "ops/args/attn_args.h"
#include "support/death.h"

#include <stdint.h>

enum { P = 32 };

static void pages_follow_positions(void **state)
{
    (void)state;
    whim_page_pool pool;
    whim_sequence seq;
    assert_int_equal(whim_page_pool_init(&pool, 10, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&seq, 5 * P, P), WHIM_ERR_OK);
    assert_int_equal(seq.max_page, 5);
    static const struct {
        int64_t add, needed, len, pages;
    } steps[] = {{0, 0, 0, 0},
                 {1, 1, 1, 1},
                 {P - 1, 0, P, 1},
                 {1, 1, P + 1, 2},
                 {2 * P, 2, 3 * P + 1, 4},
                 {2 * P - 1, 1, 5 * P, 5}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_int_equal(whim_sequence_pages_needed(&seq, steps[i].add), steps[i].needed);
        assert_int_equal(whim_sequence_grow(&seq, &pool, steps[i].add), WHIM_ERR_OK);
        assert_int_equal(seq.len, steps[i].len);
        assert_int_equal(seq.n_page, steps[i].pages);
        assert_int_equal(pool.n_free, 10 - steps[i].pages);
    }
    whim_sequence_deinit(&seq, &pool);
    assert_int_equal(pool.n_free, 10);
    whim_page_pool_deinit(&pool);
}

static void refusals_change_nothing(void **state)
{
    (void)state;
    whim_page_pool pool;
    whim_sequence seq;
    assert_int_equal(whim_page_pool_init(&pool, 2, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&seq, 4 * P, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_grow(&seq, &pool, P + 1), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_grow(&seq, &pool, P), WHIM_ERR_FULL);
    assert_int_equal(whim_sequence_grow(&seq, &pool, 3 * P), WHIM_ERR_INVALID);
    assert_int_equal(whim_sequence_grow(&seq, &pool, -1), WHIM_ERR_INVALID);
    assert_int_equal(seq.len, P + 1);
    assert_int_equal(seq.n_page, 2);
    assert_int_equal(pool.n_free, 0);
    assert_int_equal(whim_sequence_grow(&seq, &pool, P - 1), WHIM_ERR_OK);
    whim_sequence_deinit(&seq, &pool);
    whim_page_pool_deinit(&pool);
}

static void cutting_gives_pages_back(void **state)
{
    (void)state;
    whim_page_pool pool;
    whim_sequence a, b;
    assert_int_equal(whim_page_pool_init(&pool, 8, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&a, 8 * P, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&b, 8 * P, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_grow(&a, &pool, 3 * P), WHIM_ERR_OK);
    whim_sequence_cut(&a, &pool, P + 1);
    assert_int_equal(a.n_page, 2);
    assert_int_equal(a.len, P + 1);
    assert_int_equal(pool.n_free, 6);
    assert_int_equal(whim_sequence_grow(&b, &pool, 1), WHIM_ERR_OK);
    assert_int_equal(b.pages[0], 2); /* the page that was cut off */
    whim_sequence_cut(&a, &pool, P);
    assert_int_equal(a.n_page, 1);
    whim_sequence_cut(&a, &pool, 0);
    assert_int_equal(a.n_page, 0);
    assert_int_equal(pool.n_free, 7);
    whim_sequence_deinit(&a, &pool);
    whim_sequence_deinit(&b, &pool);
    assert_int_equal(pool.n_free, 8);
    whim_page_pool_deinit(&pool);
}

static void slots_are_page_and_place(void **state)
{
    (void)state;
    whim_page_pool pool;
    whim_sequence a, b;
    assert_int_equal(whim_page_pool_init(&pool, 8, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&a, 8 * P, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&b, 8 * P, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_grow(&a, &pool, 2), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_grow(&b, &pool, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_grow(&a, &pool, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_slot(&a, 0), 0);
    assert_int_equal(whim_sequence_slot(&a, P - 1), P - 1);
    assert_int_equal(whim_sequence_slot(&a, P + 1), 2 * P + 1);
    assert_int_equal(whim_sequence_slot(&b, 7), P + 7);
    whim_sequence_deinit(&a, &pool);
    whim_sequence_deinit(&b, &pool);
    whim_page_pool_deinit(&pool);
}

static void shared_pages_stay_with_their_other_holders(void **state)
{
    (void)state;
    whim_page_pool pool;
    whim_sequence a, b;
    assert_int_equal(whim_page_pool_init(&pool, 6, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&a, 6 * P, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&b, 6 * P, P), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_grow(&a, &pool, 2 * P + 1), WHIM_ERR_OK);
    whim_page_pool_ref(&pool, a.pages[0]);
    whim_page_pool_ref(&pool, a.pages[1]);
    whim_sequence_share(&b, a.pages, 2);
    assert_int_equal(b.len, 2 * P);
    assert_int_equal(b.n_page, 2);
    assert_int_equal(pool.n_free, 3);
    assert_int_equal(whim_sequence_pages_needed(&b, P), 1);
    assert_int_equal(whim_sequence_grow(&b, &pool, P), WHIM_ERR_OK);
    assert_int_equal(b.pages[2], 3); /* not a's third page */
    assert_int_equal(whim_sequence_slot(&b, P + 3), whim_sequence_slot(&a, P + 3));
    whim_sequence_deinit(&a, &pool);
    assert_int_equal(pool.n_free, 3); /* only the page that was a's alone */
    assert_int_equal(pool.refs[b.pages[0]], 1);
    whim_sequence_deinit(&b, &pool);
    assert_int_equal(pool.n_free, 6);
    whim_page_pool_deinit(&pool);
}

/* Cut into a page that somebody else holds too, then go on in it. */
static void grow_in_shared(void *ctx)
{
    whim_page_pool pool;
    whim_sequence seq;
    if (whim_page_pool_init(&pool, 4, P) == WHIM_ERR_OK &&
        whim_sequence_init(&seq, 4 * P, P) == WHIM_ERR_OK &&
        whim_sequence_grow(&seq, &pool, 2 * P) == WHIM_ERR_OK) {
        whim_page_pool_ref(&pool, seq.pages[1]);
        whim_sequence_cut(&seq, &pool, *(int64_t *)ctx);
        if (whim_sequence_grow(&seq, &pool, 1) == WHIM_ERR_OK) {
            whim_sequence_deinit(&seq, &pool);
        }
    }
    whim_page_pool_deinit(&pool);
}

static void a_shared_page_is_never_written(void **state)
{
    (void)state;
    static int64_t lens[] = {2 * P, P, P - 1, 2 * P - 1};
    assert_int_equal(death_signal(grow_in_shared, &lens[0]), 0);
    assert_int_equal(death_signal(grow_in_shared, &lens[1]), 0);
    assert_int_equal(death_signal(grow_in_shared, &lens[2]), 0);
    assert_int_equal(death_signal(grow_in_shared, &lens[3]), SIGABRT);
}

static void cut_too_far(void *ctx)
{
    whim_page_pool pool;
    whim_sequence seq;
    if (whim_page_pool_init(&pool, 2, P) == WHIM_ERR_OK &&
        whim_sequence_init(&seq, P, P) == WHIM_ERR_OK &&
        whim_sequence_grow(&seq, &pool, 3) == WHIM_ERR_OK) {
        whim_sequence_cut(&seq, &pool, *(int64_t *)ctx);
        whim_sequence_deinit(&seq, &pool);
    }
    whim_page_pool_deinit(&pool);
}

static void a_wrong_cut_ends_the_process(void **state)
{
    (void)state;
    static int64_t lens[] = {3, 4, -1};
    assert_int_equal(death_signal(cut_too_far, &lens[0]), 0);
    assert_int_equal(death_signal(cut_too_far, &lens[1]), SIGABRT);
    assert_int_equal(death_signal(cut_too_far, &lens[2]), SIGABRT);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    whim_sequence seq;
    whim_alloc_fail_after(0);
    assert_int_equal(whim_sequence_init(&seq, 100, P), WHIM_ERR_NO_MEMORY);
    whim_alloc_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_follow_positions),
        cmocka_unit_test(refusals_change_nothing),
        cmocka_unit_test(cutting_gives_pages_back),
        cmocka_unit_test(slots_are_page_and_place),
        cmocka_unit_test(shared_pages_stay_with_their_other_holders),
        cmocka_unit_test(a_shared_page_is_never_written),
        cmocka_unit_test(a_wrong_cut_ends_the_process),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("sequence", tests, NULL, NULL);
}

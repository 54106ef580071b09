/* SPDX-License-Identifier: Apache-2.0 */
/* The batch arrays: what a step writes where, and what padding holds. */
#include "runner/batch_arrays.h"
#include "support/cmocka.h"

#include <stdint.h>
#include <string.h>

enum { P = WHIM_KV_PAGE, N_HOST = 4096 };

static const whim_runner_cfg cfg = {
    .max_rows = 100, .max_seqs = 4, .max_outs = 6, .max_ctx = 3 * P + 1};
static int32_t host[N_HOST];
static int32_t tokens[100];

static int setup(void **state)
{
    (void)state;
    memset(host, 0x5a, sizeof host);
    for (int32_t i = 0; i < 100; i++) {
        tokens[i] = 1000 + i;
    }
    return 0;
}

static void arrays_do_not_overlap(void **state)
{
    (void)state;
    whim_batch_layout l;
    whim_batch_layout_init(&l, &cfg);
    assert_int_equal(l.max_pages, 4);
    assert_true(l.max_fresh >= 100 / P + 4);
    const int64_t starts[] = {l.tokens,   l.positions, l.slots,      l.q_start, l.kv_len,
                              l.out_rows, l.fresh,     l.page_table, l.n_elem};
    const int64_t sizes[] = {100, 100, 100, 5, 4, 6, l.max_fresh, 4 * 4};
    assert_int_equal(starts[0], 0);
    for (int i = 0; i < 8; i++) {
        assert_true(starts[i + 1] >= starts[i] + sizes[i]);
    }
    assert_true(l.n_elem <= N_HOST);
}

static void expect_ints(const int32_t *got, const int32_t *expected, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (got[i] != expected[i]) {
            fail_msg("element %lld is %d, expected %d", (long long)i, got[i], expected[i]);
        }
    }
}

static void a_step_of_two_sequences(void **state)
{
    (void)state;
    whim_batch_layout l;
    whim_batch_layout_init(&l, &cfg);
    /* a: 30 positions were there, 4 more cross into page 7; b: new, 3 positions on page 5. */
    int32_t a_pages[] = {2, 7, 0, 0}, b_pages[] = {5, 0, 0, 0};
    whim_sequence a = {.pages = a_pages, .n_page = 2, .max_page = 4, .len = 34};
    whim_sequence b = {.pages = b_pages, .n_page = 1, .max_page = 4, .len = 3};
    whim_step_part parts[] = {{&a, tokens, 4, 2}, {&b, tokens + 50, 3, 1}};
    whim_step_size bucket = {8, 4, 4};
    assert_int_equal(whim_batch_fill(&l, host, parts, 2, &bucket), 2);
    expect_ints(host + l.tokens, (int32_t[]){1000, 1001, 1002, 1003, 1050, 1051, 1052, -1}, 8);
    expect_ints(host + l.positions, (int32_t[]){30, 31, 32, 33, 0, 1, 2, 0}, 8);
    expect_ints(
        host + l.slots,
        (int32_t[]){2 * P + 30, 2 * P + 31, 7 * P, 7 * P + 1, 5 * P, 5 * P + 1, 5 * P + 2, -1}, 8);
    expect_ints(host + l.q_start, (int32_t[]){0, 4, 7, 7, 7}, 5);
    expect_ints(host + l.kv_len, (int32_t[]){34, 3, 0, 0}, 4);
    expect_ints(host + l.out_rows, (int32_t[]){2, 3, 6, -1}, 4);
    expect_ints(host + l.fresh, (int32_t[]){7, 5}, 2);
    expect_ints(host + l.page_table, (int32_t[]){2, 7}, 2);
    assert_int_equal(host[l.page_table + l.max_pages], 5);
    assert_int_equal(host[l.tokens + 8], 0x5a5a5a5a); /* nothing beyond the bucket */
    assert_int_equal(host[l.out_rows + 4], 0x5a5a5a5a);
}

/* A context of a million tokens costs a step of short sequences nothing. */
static void the_table_is_as_wide_as_the_longest(void **state)
{
    (void)state;
    whim_batch_layout l;
    whim_runner_cfg long_cfg = cfg;
    long_cfg.max_ctx = 1 << 20;
    whim_batch_layout_init(&l, &long_cfg);
    assert_int_equal(l.max_pages, (1 << 20) / P);
    int32_t a_pages[] = {2, 7}, b_pages[] = {5};
    whim_sequence a = {.pages = a_pages, .n_page = 2, .max_page = 2, .len = 34};
    whim_sequence b = {.pages = b_pages, .n_page = 1, .max_page = 2, .len = 3};
    whim_step_part parts[] = {{&b, tokens, 3, 1}, {&a, tokens, 4, 1}, {&b, tokens, 3, 1}};
    whim_step_size bucket = {10, 3, 3};
    whim_batch batch = {0};
    whim_batch_narrow(&l, parts, 3);
    whim_batch_fill(&l, host, parts, 3, &bucket);
    whim_batch_view(&l, host, &bucket, &batch);
    assert_int_equal(batch.max_pages, 2);
    expect_ints(host + l.page_table, (int32_t[]){5, 0x5a5a5a5a, 2, 7, 5}, 5);
}

static void pages_are_fresh_once(void **state)
{
    (void)state;
    whim_batch_layout l;
    whim_batch_layout_init(&l, &cfg);
    int32_t pages[] = {3, 1, 4, 2};
    whim_sequence seq = {.pages = pages, .max_page = 4};
    static const struct {
        int64_t len, n_tok, n_fresh;
        int32_t first;
    } cases[] = {
        {1, 1, 1, 3},         {P, P, 1, 3},         {P, P - 1, 0, 0},
        {P + 1, 1, 1, 1},     {3 * P, 3 * P, 3, 3}, {3 * P + 1, 2 * P, 2, 4},
        {3 * P, 2 * P, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        seq.len = cases[i].len;
        seq.n_page = (cases[i].len + P - 1) / P;
        whim_step_part part = {&seq, tokens, cases[i].n_tok, 0};
        whim_step_size bucket = {cases[i].n_tok, 1, 0};
        assert_int_equal(whim_batch_fill(&l, host, &part, 1, &bucket), cases[i].n_fresh);
        if (cases[i].n_fresh > 0) {
            assert_int_equal(host[l.fresh], cases[i].first);
        }
    }
}

static void the_view_points_into_the_block(void **state)
{
    (void)state;
    whim_batch_layout l;
    whim_batch_layout_init(&l, &cfg);
    whim_step_size bucket = {16, 2, 1};
    whim_batch batch = {0};
    whim_batch_view(&l, host, &bucket, &batch);
    assert_true(batch.n_row == 16 && batch.n_seq == 2 && batch.n_out == 1);
    assert_int_equal(batch.max_pages, 4);
    assert_ptr_equal(batch.tokens, host + l.tokens);
    assert_ptr_equal(batch.positions, host + l.positions);
    assert_ptr_equal(batch.slots, host + l.slots);
    assert_ptr_equal(batch.q_start, host + l.q_start);
    assert_ptr_equal(batch.kv_len, host + l.kv_len);
    assert_ptr_equal(batch.out_rows, host + l.out_rows);
    assert_ptr_equal(batch.page_table, host + l.page_table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(arrays_do_not_overlap, setup),
        cmocka_unit_test_setup(a_step_of_two_sequences, setup),
        cmocka_unit_test_setup(the_table_is_as_wide_as_the_longest, setup),
        cmocka_unit_test_setup(pages_are_fresh_once, setup),
        cmocka_unit_test_setup(the_view_points_into_the_block, setup),
    };
    return cmocka_run_group_tests_name("batch_arrays", tests, NULL, NULL);
}

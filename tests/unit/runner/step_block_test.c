/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: where a bucket's arrays are, and that nothing which leads outside the limits is let
 * through. */
#include "runner/fill.h"
#include "support/cmocka.h"

#include <stdint.h>
#include <string.h>

enum { P = 32, N_BLOCK = 1024 };

static const whim_step_limits limits = {.max_rows = 64,
                                        .max_seqs = 4,
                                        .max_outs = 8,
                                        .max_ctx = 2 * P,
                                        .page_len = P,
                                        .n_page = 10,
                                        .n_state = 3,
                                        .n_vocab = 100,
                                        .max_kept = 7};
static const whim_step_size bucket = {8, 4, 4, 1};
static int32_t block[N_BLOCK];

static int fill_one(void **state)
{
    (void)state;
    int32_t a_pages[] = {2, 7}, b_pages[] = {5};
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7};
    whim_sequence a = {
        .pages = a_pages, .n_page = 2, .max_page = 2, .page_len = P, .len = 34, .state = 1};
    whim_sequence b = {
        .pages = b_pages, .n_page = 1, .max_page = 2, .page_len = P, .len = 3, .state = 2};
    whim_step_part parts[] = {{&a, tokens, 4, 2}, {&b, tokens + 4, 3, 1}};
    memset(block, 0, sizeof block);
    whim_step_fill(parts, 2, &bucket, 0, block);
    return 0;
}

static void arrays_do_not_overlap(void **state)
{
    (void)state;
    whim_step_layout l = whim_step_layout_of(&bucket);
    const int64_t starts[] = {l.tokens, l.positions,  l.slots,      l.q_start,  l.kv_len,
                              l.states, l.state_outs, l.page_start, l.out_rows, l.pages};
    static const int64_t sizes[] = {8, 8, 8, 5, 4, 4, 4, 4, 4};
    assert_int_equal(starts[0], WHIM_STEP_HEAD);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(starts[i + 1], starts[i] + sizes[i]);
    }
}

static void the_view_points_into_the_block(void **state)
{
    (void)state;
    whim_step_layout l = whim_step_layout_of(&bucket);
    whim_batch batch = {0};
    whim_step_view(block, &limits, &bucket, &batch);
    assert_int_equal(batch.max_pages, 4 * 2);
    assert_true(batch.n_row == 8 && batch.n_seq == 4 && batch.n_out == 4);
    assert_ptr_equal(batch.tokens, block + l.tokens);
    assert_ptr_equal(batch.positions, block + l.positions);
    assert_ptr_equal(batch.slots, block + l.slots);
    assert_ptr_equal(batch.q_start, block + l.q_start);
    assert_ptr_equal(batch.kv_len, block + l.kv_len);
    assert_ptr_equal(batch.state_slots, block + l.states);
    assert_ptr_equal(batch.state_outs, block + l.state_outs);
    assert_ptr_equal(batch.page_start, block + l.page_start);
    assert_ptr_equal(batch.pages, block + whim_step_max_words(&limits) - 4 * 2);
    assert_ptr_equal(batch.out_rows, block + l.out_rows);
}

static whim_err check(int64_t n_word)
{
    whim_diag diag = {""};
    whim_err err = whim_step_check(block, n_word, &limits, 0, &diag);
    assert_true((err == WHIM_ERR_OK) == (diag.text[0] == '\0'));
    return err;
}

/* With word `at` changed the block is refused. */
static void expect_refused(int64_t at, int32_t value)
{
    int32_t before = block[at];
    assert_int_equal(check(whim_step_head_of(block)->n_word), WHIM_ERR_OK);
    block[at] = value;
    if (check(N_BLOCK) != WHIM_ERR_CORRUPT) {
        fail_msg("word %lld may be %d", (long long)at, value);
    }
    block[at] = before;
}

static void heads_that_lie(void **state)
{
    (void)state;
    int64_t n_word = whim_step_head_of(block)->n_word;
    assert_int_equal(check(n_word), WHIM_ERR_OK);
    assert_int_equal(check(n_word - 1), WHIM_ERR_CORRUPT);
    assert_int_equal(check(WHIM_STEP_HEAD - 1), WHIM_ERR_CORRUPT);
    assert_int_equal(check(0), WHIM_ERR_CORRUPT);
    for (int64_t i = 0; i < WHIM_STEP_HEAD - 3; i++) {
        expect_refused(i, INT32_MIN);
        expect_refused(i, INT32_MAX);
        expect_refused(i, -1);
    }
    whim_step_head *head = (whim_step_head *)(void *)block;
    expect_refused(&head->n_word - block, (int32_t)n_word + 1);
    expect_refused(&head->n_row - block, 9);      /* more than the bucket */
    expect_refused(&head->n_page - block, 4);     /* the sum is wrong */
    expect_refused(&head->bucket_seq - block, 3); /* the same */
}

static void arrays_that_lead_outside(void **state)
{
    (void)state;
    whim_step_layout l = whim_step_layout_of(&bucket);
    const struct {
        int64_t at;
        int32_t value;
    } cases[] = {
        {l.tokens, 100},       {l.tokens, -2},        {l.tokens + 7, 5}, /* padding */
        {l.positions, -1},     {l.positions + 1, 30}, {l.positions + 7, 2 * P},
        {l.slots, -2},         {l.slots + 7, 10 * P}, {l.q_start, 1},
        {l.q_start + 1, -1},   {l.q_start + 1, 8},    {l.q_start + 2, 3},
        {l.q_start + 4, 8},    {l.kv_len, 3},         {l.kv_len, 2 * P + 1},
        {l.kv_len + 1, P + 3}, {l.kv_len + 3, -1},    {l.states, 3},
        {l.states + 3, -2},    {l.state_outs + 1, 3}, {l.state_outs, -2},
        {l.page_start, 2},     {l.page_start + 1, 3}, {l.page_start + 1, -1},
        {l.page_start + 3, 1}, {l.out_rows, 7},       {l.out_rows + 3, -2},
        {l.pages, 10},         {l.pages + 2, -1},     {l.pages + 3, 10},
        {l.pages + 4, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refused(cases[i].at, cases[i].value);
    }
}

static void rows_that_cannot_be_taken(void **state)
{
    (void)state;
    static const struct {
        whim_step_take takes[2];
        int64_t n, n_kept;
        bool good;
    } cases[] = {
        {{{0, 5, 0, 2}, {2, 0, 2, 5}}, 2, 7, true},
        {{{0, 2 * P - 3, 4, 3}}, 1, 7, true},
        {{{0}}, 0, 0, true},
        {{{0, 5, 0, 2}, {2, 0, 1, 5}}, 2, 7, false}, /* a row twice */
        {{{0, 5, 3, 2}, {2, 0, 0, 2}}, 2, 7, false}, /* out of order */
        {{{2, 5, 0, 2}, {2, 7, 2, 5}}, 2, 7, false}, /* a state twice */
        {{{0, 5, 0, 3}}, 1, 2, false},
        {{{0, 5, 0, 0}}, 1, 7, false},
        {{{0, 5, -1, 2}}, 1, 7, false},
        {{{0, 5, INT32_MAX, INT32_MAX}}, 1, 7, false},
        {{{3, 5, 0, 2}}, 1, 7, false},
        {{{-1, 5, 0, 2}}, 1, 7, false},
        {{{0, -1, 0, 2}}, 1, 7, false},
        {{{0, 2 * P - 1, 0, 2}}, 1, 7, false},
        {{{0, 5, 0, 1}}, 1, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_diag diag = {""};
        whim_err err =
            whim_step_takes_check(cases[i].takes, cases[i].n, &limits, cases[i].n_kept, &diag);
        if ((err == WHIM_ERR_OK) != cases[i].good || (err != WHIM_ERR_OK && diag.text[0] == '\0')) {
            fail_msg("case %zu: %s", i, diag.text);
        }
    }
    whim_step_take many[5] = {{0, 0, 0, 1}, {1, 0, 1, 1}, {2, 0, 2, 1}, {3, 0, 3, 1}, {4, 0, 4, 1}};
    whim_step_limits more = limits;
    whim_diag diag = {""};
    more.n_state = 5;
    assert_int_equal(whim_step_takes_check(many, 4, &more, 7, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_step_takes_check(many, 5, &more, 7, &diag), WHIM_ERR_CORRUPT);
}

/* A bucket of 8 rows, of which 7 could be kept. */
static void rows_that_cannot_be_kept(void **state)
{
    (void)state;
    whim_step_head *head = (whim_step_head *)(void *)block;
    expect_refused(&head->flags - block, WHIM_STEP_KEEP);
    whim_step_limits more = limits;
    whim_diag diag = {""};
    more.max_kept = 8;
    head->flags = WHIM_STEP_KEEP;
    assert_int_equal(whim_step_check(block, head->n_word, &more, 0, &diag), WHIM_ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(arrays_do_not_overlap, fill_one),
        cmocka_unit_test_setup(the_view_points_into_the_block, fill_one),
        cmocka_unit_test_setup(heads_that_lie, fill_one),
        cmocka_unit_test_setup(arrays_that_lead_outside, fill_one),
        cmocka_unit_test(rows_that_cannot_be_taken),
        cmocka_unit_test_setup(rows_that_cannot_be_kept, fill_one),
    };
    return cmocka_run_group_tests_name("step_block", tests, NULL, NULL);
}

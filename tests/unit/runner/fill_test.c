/* SPDX-License-Identifier: Apache-2.0 */
/* From sequences to blocks: what a step writes where, and what padding holds. */
#include "runner/fill.h"
#include "support/cmocka.h"

#include <stdint.h>
#include <string.h>

enum { P = 32, N_BLOCK = 4096 };

static const whim_step_limits limits = {.max_rows = 200,
                                        .max_seqs = 4,
                                        .max_outs = 6,
                                        .max_ctx = 3 * P + 1,
                                        .page_len = P,
                                        .n_page = 20,
                                        .n_state = 9,
                                        .n_vocab = 2000};
static int32_t block[N_BLOCK];
static int32_t tokens[200];

static int setup(void **state)
{
    (void)state;
    memset(block, 0x5a, sizeof block);
    for (int32_t i = 0; i < 200; i++) {
        tokens[i] = 1000 + i;
    }
    assert_true(whim_step_max_words(&limits) <= N_BLOCK);
    return 0;
}

static void expect_ints(const int32_t *got, const int32_t *expected, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (got[i] != expected[i]) {
            fail_msg("element %lld is %d, expected %d", (long long)i, got[i], expected[i]);
        }
    }
}

static void expect_whole(void)
{
    whim_diag diag = {""};
    const whim_step_head *head = whim_step_head_of(block);
    if (whim_step_check(block, head->n_word, &limits, 0, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_int_equal(block[head->n_word], 0x5a5a5a5a); /* nothing beyond its end */
}

static void a_step_of_two_sequences(void **state)
{
    (void)state;
    /* a: 30 positions were there, 4 more cross into page 7; b: new, 3 positions on page 5. */
    int32_t a_pages[] = {2, 7, 0, 0}, b_pages[] = {5, 0, 0, 0};
    whim_sequence a = {
        .pages = a_pages, .n_page = 2, .max_page = 4, .page_len = P, .len = 34, .state = -1};
    whim_sequence b = {
        .pages = b_pages, .n_page = 1, .max_page = 4, .page_len = P, .len = 3, .state = 8};
    whim_step_part parts[] = {{&a, tokens, 4, 2}, {&b, tokens + 50, 3, 1}};
    whim_step_size bucket = {8, 4, 4, 1};
    whim_step_layout l = whim_step_layout_of(&bucket);
    whim_step_fill(parts, 2, &bucket, 0, block);
    expect_ints(block + l.tokens, (int32_t[]){1000, 1001, 1002, 1003, 1050, 1051, 1052, -1}, 8);
    expect_ints(block + l.positions, (int32_t[]){30, 31, 32, 33, 0, 1, 2, 0}, 8);
    expect_ints(
        block + l.slots,
        (int32_t[]){2 * P + 30, 2 * P + 31, 7 * P, 7 * P + 1, 5 * P, 5 * P + 1, 5 * P + 2, -1}, 8);
    expect_ints(block + l.q_start, (int32_t[]){0, 4, 7, 7, 7}, 5);
    expect_ints(block + l.kv_len, (int32_t[]){34, 3, 0, 0}, 4);
    expect_ints(block + l.states, (int32_t[]){-1, 8, -1, -1}, 4);
    expect_ints(block + l.state_outs, (int32_t[]){-1, 8, -1, -1}, 4);
    expect_ints(block + l.page_start, (int32_t[]){0, 2, 0, 0}, 4);
    expect_ints(block + l.out_rows, (int32_t[]){2, 3, 6, -1}, 4);
    expect_ints(block + l.pages, (int32_t[]){2, 7, 5}, 3);
    expect_ints(whim_step_fresh(block), (int32_t[]){7, 5}, 2);
    parts[1].keeps_state = true;
    whim_step_fill(parts, 2, &bucket, 0, block);
    expect_ints(block + l.states, (int32_t[]){-1, 8, -1, -1}, 4);
    expect_ints(block + l.state_outs, (int32_t[]){-1, -1, -1, -1}, 4);
    whim_step_size work = whim_step_work(block);
    assert_true(work.n_row == 7 && work.n_seq == 2 && work.n_out == 3 && work.n_top == 1);
    work = whim_step_bucket(block);
    assert_true(work.n_row == 8 && work.n_seq == 4 && work.n_out == 4 && work.n_top == 1);
    assert_int_equal(whim_step_head_of(block)->n_word, l.pages + 3 + 2);
    expect_whole();
}

static void nothing_is_a_step_too(void **state)
{
    (void)state;
    whim_step_size bucket = {0, 0, 0, 0};
    whim_step_fill(NULL, 0, &bucket, 0, block);
    assert_int_equal(whim_step_head_of(block)->n_word, WHIM_STEP_HEAD + 1); /* q_start has one */
    expect_whole();
}

static void pages_are_fresh_once(void **state)
{
    (void)state;
    int32_t pages[] = {3, 1, 4, 2};
    whim_sequence seq = {.pages = pages, .max_page = 4, .page_len = P, .state = -1};
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
        memset(block, 0x5a, sizeof block);
        whim_step_fill(&part, 1, &bucket, 0, block);
        assert_int_equal(whim_step_head_of(block)->n_fresh, cases[i].n_fresh);
        if (cases[i].n_fresh > 0) {
            assert_int_equal(whim_step_fresh(block)[0], cases[i].first);
        }
        expect_whole();
    }
}

/* The pages of what is there travel, not those of the longest context. */
static void a_long_context_costs_nothing(void **state)
{
    (void)state;
    int32_t pages[] = {3};
    whim_sequence seq = {.pages = pages,
                         .n_page = 1,
                         .max_page = INT64_C(1) << 20,
                         .page_len = P,
                         .len = 5,
                         .state = -1};
    whim_step_part part = {&seq, tokens, 1, 1};
    whim_step_size bucket = {1, 1, 1, 0};
    whim_step_fill(&part, 1, &bucket, 0, block);
    assert_int_equal(whim_step_head_of(block)->n_word, WHIM_STEP_HEAD + 3 * 1 + 2 + 4 * 1 + 1 +
                                                           1); /* rows, q_start, seqs, out, page */
}

static void tokens_that_are_not_known_yet(void **state)
{
    (void)state;
    int32_t pages[] = {3}, later[] = {whim_step_result_token(2), 7};
    whim_sequence seq = {
        .pages = pages, .n_page = 1, .max_page = 4, .page_len = P, .len = 9, .state = -1};
    whim_step_part part = {&seq, later, 2, 1};
    whim_step_size bucket = {2, 1, 1, 1};
    whim_diag diag = {""};
    whim_step_fill(&part, 1, &bucket, 0, block);
    const whim_step_head *head = whim_step_head_of(block);
    assert_int_equal(head->flags, WHIM_STEP_AFTER);
    assert_int_equal(whim_step_result_of(block[whim_step_layout_of(&bucket).tokens]), 2);
    assert_int_equal(whim_step_result_of(7), -1);
    assert_int_equal(whim_step_result_of(-1), -1);
    assert_int_equal(whim_step_check(block, head->n_word, &limits, 3, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_step_check(block, head->n_word, &limits, 2, &diag), WHIM_ERR_CORRUPT);
    assert_non_null(strstr(diag.text, "a token -4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_step_of_two_sequences, setup),
        cmocka_unit_test_setup(nothing_is_a_step_too, setup),
        cmocka_unit_test_setup(pages_are_fresh_once, setup),
        cmocka_unit_test_setup(a_long_context_costs_nothing, setup),
        cmocka_unit_test_setup(tokens_that_are_not_known_yet, setup),
    };
    return cmocka_run_group_tests_name("fill", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps are cut, and what a rank's arrays say of one that is. */
#include "parallel/cut.h"
#include "support/cmocka.h"

#include <string.h>

enum { MAX_ROWS = 32, MAX_SEQS = 4, N_WORD = 512 };

static whim_cut cut_of(int32_t n_rank, int32_t rank, int32_t *owners)
{
    return (whim_cut){
        .cfg = {.n_rank = n_rank, .rank = rank, .max_rows = MAX_ROWS, .max_seqs = MAX_SEQS},
        .owners = owners};
}

static int64_t rows_of(int32_t n_rank, int64_t n_seq, const int32_t *new_rows)
{
    int32_t q_start[MAX_SEQS + 1] = {0}, kv_len[MAX_SEQS];
    for (int64_t s = 0; s < n_seq; s++) {
        q_start[s + 1] = q_start[s] + new_rows[s];
        kv_len[s] = new_rows[s] + 3;
    }
    whim_cut cut = cut_of(n_rank, 0, NULL);
    return whim_cut_rows(&cut, &(whim_cut_step){.n_row = q_start[n_seq],
                                                .bucket_row = q_start[n_seq],
                                                .bucket_seq = n_seq,
                                                .q_start = q_start,
                                                .kv_len = kv_len});
}

static void steps_are_cut_where_it_helps(void **state)
{
    (void)state;
    assert_int_equal(rows_of(2, 1, (int32_t[]){4}), 2);
    assert_int_equal(rows_of(2, 1, (int32_t[]){3}), 0);
    assert_int_equal(rows_of(2, 4, (int32_t[]){1, 1, 1, 1}), 0); /* all are rank 0's */
    assert_int_equal(rows_of(2, 2, (int32_t[]){1, 3}), 2);
    assert_int_equal(rows_of(2, 4, (int32_t[]){1, 1, 1, 2}), 0); /* most are */
    assert_int_equal(rows_of(2, 4, (int32_t[]){1, 1, 1, 20}), 13);
    assert_int_equal(rows_of(4, 2, (int32_t[]){3, 21}), 6);
    assert_int_equal(rows_of(1, 1, (int32_t[]){20}), 0);
    assert_int_equal(rows_of(0, 1, (int32_t[]){20}), 0);
}

/* Two ranks, 5 new rows behind 4 that were there and 1 new one: chunks of 2 1 1 1 and of 1 0 0 0.
 * The bucket has room for more of everything. */
static void a_rank_has_its_rows(void **state)
{
    (void)state;
    static int32_t owners[2 * MAX_ROWS], words[N_WORD];
    static const int32_t q_start[] = {0, 5, 6, 6, 6}, kv_len[] = {9, 1, 0, 0};
    static const int32_t page_start[] = {0, 7, 0, 0}, positions[] = {4, 5, 6, 7, 8, 0, 0, 0};
    static const int32_t slots[] = {40, 41, 42, 43, 44, 90, -1, -1};
    const whim_cut_step step = {6, 8, 4, q_start, kv_len, page_start, positions, slots};
    whim_cut cut = cut_of(2, 0, owners);
    whim_batch_cut v;
    assert_int_equal(whim_cut_rows(&cut, &step), 4); /* two, one, and the other sequence's */
    assert_true(whim_cut_bytes_of(&cut.cfg) <= (int64_t)sizeof words);
    memset(words, 0x5a, sizeof words);
    assert_true(whim_cut_fill(&cut, &step, 5, words) <= N_WORD);
    whim_cut_view(&cut.cfg, words, 5, 4, &v);
    assert_true(v.n_rank == 2 && v.rank == 0 && v.n_row == 5 && v.n_seq == 8);
    static const int32_t own[] = {0, 1, 5, 4, -1}, at[] = {4, 5, 0, 8, 0};
    static const int32_t chunks[] = {0, 2, 3, 3, 3, 4, 4, 4, 4};
    static const int32_t keys[] = {6, 1, 0, 0, 9, 1, 0, 0}, lists[] = {0, 7, 0, 0, 0, 7, 0, 0};
    static const int32_t places[] = {0, 2, 1, 3, 6, 4, -1, -1};
    static const int32_t gathered[] = {40, 42, 41, 43, 90, -1, 44, -1, -1, -1};
    assert_memory_equal(v.own, own, sizeof own);
    assert_memory_equal(v.positions, at, sizeof at);
    assert_memory_equal(v.q_start, chunks, sizeof chunks);
    assert_memory_equal(v.kv_len, keys, sizeof keys);
    assert_memory_equal(v.page_start, lists, sizeof lists);
    assert_memory_equal(v.places, places, sizeof places);
    assert_memory_equal(v.slots, gathered, sizeof gathered);
}

/* All lengths of up to three sequences: no rank has more rows than is said, but for one as many, and
 * larger steps than is said are cut. */
static void no_rank_has_more_than_is_said(void **state)
{
    (void)state;
    enum { SEQS = 3, ROWS = 21 };
    for (int32_t n_rank = 2; n_rank <= 5; n_rank++) {
        whim_cut cut = {.cfg = {.n_rank = n_rank, .max_rows = ROWS, .max_seqs = SEQS}};
        int64_t most = 0, whole = 0;
        for (int32_t i = 0; i < (ROWS + 1) * (ROWS + 1) * (ROWS + 1); i++) {
            int32_t a = i % (ROWS + 1), b = a + i / (ROWS + 1) % (ROWS + 1);
            int32_t n_row = b + i / (ROWS + 1) / (ROWS + 1);
            const int32_t q_start[] = {0, a, b, n_row}, kv_len[] = {a, b - a, n_row - b};
            if (n_row > 0 && n_row <= ROWS) {
                int64_t own = whim_cut_rows(&cut, &(whim_cut_step){.n_row = n_row,
                                                                   .bucket_row = n_row,
                                                                   .bucket_seq = SEQS,
                                                                   .q_start = q_start,
                                                                   .kv_len = kv_len});
                most = own > most ? own : most;
                whole = own == 0 && n_row > whole ? n_row : whole;
            }
        }
        assert_true(most <= whim_cut_max_rows(&cut.cfg));
        assert_true(most >= whim_cut_max_rows(&cut.cfg) - 1);
        assert_true(whole <= whim_cut_max_whole(&cut.cfg));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_cut_where_it_helps),
        cmocka_unit_test(a_rank_has_its_rows),
        cmocka_unit_test(no_rank_has_more_than_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

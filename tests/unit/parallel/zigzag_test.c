/* SPDX-License-Identifier: Apache-2.0 */
/* Who has which rows: two worked examples, and what holds for all steps. */
#include "base/math/rng.h"
#include "parallel/zigzag.h"
#include "support/cmocka.h"

#include <string.h>

enum { MAX_RANK = 8, MAX_SEQ = 9, MAX_NEW = 50, MAX_BEFORE = 70, N_RANDOM = 3000 };
enum { MAX_ROW = MAX_SEQ * MAX_NEW };

/* A rank's part of an example. */
typedef struct part {
    int32_t q_start[5], kv_len[4];
    int32_t rows[16]; /* of the step, in its own order */
} part;

static void check_part(const whim_zigzag *z, int32_t rank, const part *wanted)
{
    int32_t q_start[5], kv_len[4], ranks[32], rows[32];
    whim_zigzag_chunks(z, rank, q_start, kv_len);
    assert_memory_equal(q_start, wanted->q_start, sizeof q_start);
    assert_memory_equal(kv_len, wanted->kv_len, sizeof kv_len);
    assert_int_equal(whim_zigzag_rows(z, rank), q_start[4]);
    whim_zigzag_owners(z, ranks, rows);
    for (int32_t i = 0; i < q_start[4]; i++) {
        assert_int_equal(ranks[wanted->rows[i]], rank);
        assert_int_equal(rows[wanted->rows[i]], i);
    }
}

/* Where each row is among rows of ranks one behind the other, as many for each as the most. */
static void check_sources(const whim_zigzag *z, const int32_t *wanted, int32_t n)
{
    int32_t ranks[32], rows[32];
    whim_zigzag_owners(z, ranks, rows);
    for (int32_t t = 0; t < n; t++) {
        assert_int_equal(ranks[t] * whim_zigzag_most(z) + rows[t], wanted[t]);
    }
}

/* 10 and 7 rows; rank 0 has A0-2 B0-1 A8-9 B6. */
static void two_ranks_share_two_prompts(void **state)
{
    (void)state;
    static const int32_t q_start[] = {0, 10, 17}, kv_len[] = {10, 7};
    static const part parts[] = {
        {{0, 3, 5, 7, 8}, {3, 2, 10, 7}, {0, 1, 2, 10, 11, 8, 9, 16}},
        {{0, 3, 5, 7, 9}, {6, 4, 8, 6}, {3, 4, 5, 12, 13, 6, 7, 14, 15}},
    };
    static const int32_t sources[] = {0, 1, 2, 9, 10, 11, 14, 15, 5, 6, 3, 4, 12, 13, 16, 17, 7};
    whim_zigzag z = {2, 2, q_start, kv_len};
    assert_int_equal(whim_zigzag_most(&z), 9);
    check_part(&z, 0, &parts[0]);
    check_part(&z, 1, &parts[1]);
    check_sources(&z, sources, 17);
}

/* 3 rows of a new prompt, and 21 behind 5 that were there: chunks without rows, and the last row of
 * the first prompt is rank 2's. */
static void four_ranks_share_a_short_and_a_cached_one(void **state)
{
    (void)state;
    static const int32_t q_start[] = {0, 3, 24}, kv_len[] = {3, 26}, behind[] = {8, 21};
    static const part parts[] = {
        {{0, 1, 4, 4, 6}, {1, 8, 3, 26}, {0, 3, 4, 5, 22, 23}},
        {{0, 1, 4, 4, 6}, {2, 11, 3, 24}, {1, 6, 7, 8, 20, 21}},
        {{0, 1, 4, 4, 6}, {3, 14, 3, 22}, {2, 9, 10, 11, 18, 19}},
        {{0, 0, 3, 3, 6}, {3, 17, 3, 20}, {12, 13, 14, 15, 16, 17}},
    };
    static const int32_t sources[] = {0,  6,  12, 1,  2,  3,  7,  8,  9,  13, 14, 15,
                                      18, 19, 20, 21, 22, 23, 16, 17, 10, 11, 4,  5};
    whim_zigzag z = {4, 2, q_start, kv_len};
    assert_int_equal(whim_zigzag_most(&z), 6);
    for (int32_t r = 0; r < 4; r++) {
        check_part(&z, r, &parts[r]);
    }
    check_sources(&z, sources, 24);
    /* Had the first one the 5 in its cache, only keys would move. */
    z.kv_len = behind;
    for (int32_t r = 0; r < 4; r++) {
        part moved = parts[r];
        for (int32_t c = 0; c < 4; c++) {
            moved.kv_len[c] += c % 2 == 0 ? 5 : -5;
        }
        check_part(&z, r, &moved);
    }
}

/* The owner of a sequence's last row. */
static int32_t owner_of_last(int32_t n_row, int32_t n_rank)
{
    return n_row >= 2 * n_rank ? 0 : n_row <= n_rank ? n_row - 1 : 2 * n_rank - n_row;
}

static int32_t draw(uint64_t *counter, int32_t below)
{
    return (int32_t)(whim_rng_at(19, (*counter)++) % (uint64_t)below);
}

/* Each row is somebody's once, at the position that its chunk says; shares are even. */
static void check_random(const whim_zigzag *z)
{
    static int32_t ranks[MAX_ROW + 1], rows[MAX_ROW + 1];
    static int32_t seen[MAX_RANK][MAX_ROW + 1];
    int32_t n = z->q_start[z->n_seq], q_start[2 * MAX_SEQ + 1], kv_len[2 * MAX_SEQ];
    memset(seen, 0xff, sizeof seen);
    whim_zigzag_owners(z, ranks, rows);
    for (int32_t t = 0; t < n; t++) {
        assert_in_range(ranks[t], 0, z->n_rank - 1);
        assert_in_range(rows[t], 0, whim_zigzag_rows(z, ranks[t]) - 1);
        assert_int_equal(seen[ranks[t]][rows[t]], -1);
        seen[ranks[t]][rows[t]] = t;
    }
    int64_t sum = 0;
    for (int32_t r = 0; r < z->n_rank; r++) {
        whim_zigzag_chunks(z, r, q_start, kv_len);
        int64_t own = whim_zigzag_rows(z, r);
        assert_int_equal(q_start[2 * z->n_seq], own);
        assert_true(own <= n / z->n_rank + z->n_seq && own <= whim_zigzag_most(z));
        sum += own;
        for (int64_t c = 0; c < 2 * z->n_seq; c++) {
            int64_t s = c % z->n_seq, before = z->kv_len[s] - (z->q_start[s + 1] - z->q_start[s]);
            for (int32_t i = q_start[c]; i < q_start[c + 1]; i++) {
                int64_t position = before + seen[r][i] - z->q_start[s];
                assert_int_equal(position, kv_len[c] - q_start[c + 1] + i);
            }
        }
    }
    assert_int_equal(sum, n);
    for (int64_t s = 0; s < z->n_seq; s++) {
        int32_t n_row = z->q_start[s + 1] - z->q_start[s];
        if (n_row > 0) {
            assert_int_equal(ranks[z->q_start[s + 1] - 1], owner_of_last(n_row, z->n_rank));
        }
    }
}

static void any_step_is_dealt_whole(void **state)
{
    (void)state;
    uint64_t at = 0;
    for (int32_t i = 0; i < N_RANDOM; i++) {
        int32_t q_start[MAX_SEQ + 1] = {0}, kv_len[MAX_SEQ];
        int32_t n_rank = 2 + draw(&at, MAX_RANK - 1), n_seq = 1 + draw(&at, MAX_SEQ);
        for (int32_t s = 0; s < n_seq; s++) {
            int32_t n = draw(&at, MAX_NEW + 1);
            q_start[s + 1] = q_start[s] + n;
            kv_len[s] = n + draw(&at, MAX_BEFORE + 1);
        }
        check_random(&(whim_zigzag){n_rank, n_seq, q_start, kv_len});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_share_two_prompts),
        cmocka_unit_test(four_ranks_share_a_short_and_a_cached_one),
        cmocka_unit_test(any_step_is_dealt_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

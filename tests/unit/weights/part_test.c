/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of ranks: published models at sizes that divide nothing, and what holds of all of them. */
#include "support/cmocka.h"
#include "weights/part.h"

#include "base/math/rng.h"

#include <stddef.h>

enum { MAX_RANK = 16 };

static void expect_sizes(int64_t n_unit, int32_t n_rank, const int64_t *n)
{
    int64_t at = 0;
    for (int32_t r = 0; r < n_rank; r++) {
        whim_part part = whim_part_of(n_unit, n_rank, r);
        assert_int_equal(part.n, n[r]);
        assert_int_equal(part.at, at);
        at += part.n;
    }
    assert_int_equal(at, n_unit);
}

static void units_of_published_models(void **state)
{
    (void)state;
    static const struct {
        int64_t n_unit;
        int32_t n_rank;
        int64_t n[MAX_RANK];
    } cases[] = {
        /* MiniMax-M2: 8 KV heads, 1536 = 12 blocks of FP8 */
        {8, 3, {3, 3, 2}},
        {8, 5, {2, 2, 2, 1, 1}},
        {8, 6, {2, 2, 1, 1, 1, 1}},
        {8, 7, {2, 1, 1, 1, 1, 1, 1}},
        {8, 8, {1, 1, 1, 1, 1, 1, 1, 1}},
        {12, 3, {4, 4, 4}},
        {12, 5, {3, 3, 2, 2, 2}},
        {12, 6, {2, 2, 2, 2, 2, 2}},
        {12, 7, {2, 2, 2, 2, 2, 1, 1}},
        {12, 8, {2, 2, 2, 2, 1, 1, 1, 1}},
        {12, 16, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}},
        /* Qwen3-30B-A3B: 768 = 6 blocks */
        {6, 3, {2, 2, 2}},
        {6, 4, {2, 2, 1, 1}},
        {6, 6, {1, 1, 1, 1, 1, 1}},
        /* key heads of a gated delta net */
        {16, 3, {6, 5, 5}},
        {16, 6, {3, 3, 3, 3, 2, 2}},
        {0, 4, {0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_sizes(cases[i].n_unit, cases[i].n_rank, cases[i].n);
    }
}

static void heads_of_published_models(void **state)
{
    (void)state;
    static const struct {
        int64_t n_head, n_kv;
        int32_t n_rank;
        int64_t q[MAX_RANK], kv[MAX_RANK];
    } cases[] = {
        /* MiniMax-M2 */
        {48, 8, 3, {18, 18, 12}, {3, 3, 2}},
        {48, 8, 5, {12, 12, 12, 6, 6}, {2, 2, 2, 1, 1}},
        {48, 8, 6, {12, 12, 6, 6, 6, 6}, {2, 2, 1, 1, 1, 1}},
        {48, 8, 7, {12, 6, 6, 6, 6, 6, 6}, {2, 1, 1, 1, 1, 1, 1}},
        {48, 8, 8, {6, 6, 6, 6, 6, 6, 6, 6}, {1, 1, 1, 1, 1, 1, 1, 1}},
        {48,
         8,
         16,
         {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3},
         {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        /* Qwen3-30B-A3B; at 6 two KV heads have two ranks each */
        {32, 4, 3, {16, 8, 8}, {2, 1, 1}},
        {32, 4, 6, {4, 4, 4, 4, 8, 8}, {1, 1, 1, 1, 1, 1}},
        /* the default model */
        {9, 3, 2, {6, 3}, {2, 1}},
        {9, 3, 5, {2, 1, 2, 1, 3}, {1, 1, 1, 1, 1}},
        /* more ranks than query heads */
        {4, 2, 7, {1, 1, 0, 0, 1, 1, 0}, {1, 1, 0, 0, 1, 1, 0}},
        {0, 0, 3, {0, 0, 0}, {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int32_t r = 0; r < cases[i].n_rank; r++) {
            whim_heads_part part =
                whim_heads_part_of(cases[i].n_head, cases[i].n_kv, cases[i].n_rank, r);
            assert_int_equal(part.q.n, cases[i].q[r]);
            assert_int_equal(part.kv.n, cases[i].kv[r]);
        }
    }
}

static void blocks_and_vocabularies(void **state)
{
    (void)state;
    static const struct {
        int64_t n, block;
        int32_t n_rank;
        int64_t sizes[MAX_RANK];
    } cases[] = {
        {1536, 128, 5, {384, 384, 256, 256, 256}},
        {768, 128, 4, {256, 256, 128, 128}},
        {768, 1, 5, {154, 154, 154, 153, 153}},
        {1536, 256, 5, {512, 256, 256, 256, 256}},
        {200064, 16, 3, {66688, 66688, 66688}},
        {200064, 16, 7, {28592, 28592, 28576, 28576, 28576, 28576, 28576}},
        {151936, 16, 3, {50656, 50640, 50640}},
        {32001, 16, 2, {16016, 15985}},
        {40, 16, 5, {16, 16, 8, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t at = 0;
        for (int32_t r = 0; r < cases[i].n_rank; r++) {
            whim_part part = whim_part_blocks(cases[i].n, cases[i].block, cases[i].n_rank, r);
            assert_int_equal(part.n, cases[i].sizes[r]);
            assert_int_equal(part.at, at);
            at += part.n;
        }
        assert_int_equal(at, cases[i].n);
    }
}

static void widths_in_what_is_packed_together(void **state)
{
    (void)state;
    static const struct {
        int64_t n, block;
        int32_t n_rank;
        int64_t first, last;
    } cases[] = {
        {512, 1, 3, 192, 160}, {512, 32, 3, 192, 160}, {512, 128, 3, 256, 128},
        {512, 1, 16, 32, 32},  {512, 1, 17, 31, 30},   {60, 1, 7, 9, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t n = cases[i].n_rank;
        assert_int_equal(whim_part_width(cases[i].n, cases[i].block, n, 0).n, cases[i].first);
        assert_int_equal(whim_part_width(cases[i].n, cases[i].block, n, n - 1).n, cases[i].last);
    }
}

static void whole_blocks_around_a_part(void **state)
{
    (void)state;
    static const struct {
        whim_part part;
        int64_t block;
        whim_part wide;
    } cases[] = {
        {{64, 64}, 256, {0, 256}},     {{192, 128}, 256, {0, 512}}, {{192, 128}, 1, {192, 128}},
        {{256, 256}, 256, {256, 256}}, {{300, 0}, 256, {300, 0}},   {{96, 32}, 32, {96, 32}},
        {{1000, 30}, 128, {896, 256}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_part wide = whim_part_widen(cases[i].part, cases[i].block);
        assert_int_equal(wide.at, cases[i].wide.at);
        assert_int_equal(wide.n, cases[i].wide.n);
    }
}

/* Query heads are there once and in order, each beside its KV head; a KV head is held twice only
 * where ranks are more, and counts once, where it is held first. */
static void check_heads(int64_t group, int64_t n_kv, int32_t n_rank)
{
    int64_t q_at = 0, kv_end = 0, counted = 0, least = INT64_MAX, most = 0;
    for (int32_t r = 0; r < n_rank; r++) {
        whim_heads_part p = whim_heads_part_of(group * n_kv, n_kv, n_rank, r);
        assert_int_equal(p.q.at, q_at);
        q_at += p.q.n;
        assert_int_equal(p.kv.n > 0, p.q.n > 0);
        if (p.q.n > 0) {
            assert_int_equal(p.q.at / group, p.kv.at);
            assert_int_equal((p.q.at + p.q.n - 1) / group, p.kv.at + p.kv.n - 1);
            assert_int_equal(p.counts_kv, p.kv.at == kv_end);
            assert_true(p.counts_kv || n_rank > n_kv);
            kv_end = p.kv.at + p.kv.n;
        }
        counted += p.counts_kv ? p.kv.n : 0;
        least = p.kv.n < least ? p.kv.n : least;
        most = p.kv.n > most ? p.kv.n : most;
    }
    assert_int_equal(q_at, group * n_kv);
    assert_int_equal(counted, n_kv);
    assert_true(most - least <= 1);
}

static void all_heads_are_somebodys(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        check_heads(1 + (int64_t)(whim_rng_at(1, i) % 12), 1 + (int64_t)(whim_rng_at(2, i) % 24),
                    1 + (int32_t)(whim_rng_at(3, i) % 70));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_of_published_models),
        cmocka_unit_test(heads_of_published_models),
        cmocka_unit_test(blocks_and_vocabularies),
        cmocka_unit_test(widths_in_what_is_packed_together),
        cmocka_unit_test(whole_blocks_around_a_part),
        cmocka_unit_test(all_heads_are_somebodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

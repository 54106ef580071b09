/* SPDX-License-Identifier: Apache-2.0 */
/* Ranking: the best k in order, whatever k is, with ties and infinities. */
#include "support/cmocka.h"
#include "tensor/rank.h"

#include <stdint.h>

#include "base/math/rng.h"

#include <math.h>
#include <stdlib.h>

enum { N = 700 };

static float x[N];

static int by_rank(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    return x[i] > x[j] ? -1 : x[i] < x[j] ? 1 : i - j;
}

static void make_keys(uint64_t *keys)
{
    for (int32_t i = 0; i < N; i++) {
        keys[i] = whim_rank_key(x[i], i);
    }
}

static void the_best_k_in_order(void **state)
{
    (void)state;
    static const int32_t ks[] = {0, 1, 2, 3, 64, 699, 700};
    int32_t order[N];
    uint64_t keys[N];
    for (int i = 0; i < N; i++) {
        x[i] = roundf(whim_rng_normal_at(1, (uint64_t)i) * 8) / 4; /* many equals */
        order[i] = i;
    }
    x[11] = -INFINITY;
    x[12] = -0.0f;
    x[13] = 0.0f;
    x[14] = INFINITY;
    x[15] = -3e38f;
    qsort(order, N, sizeof order[0], by_rank);
    for (size_t t = 0; t < sizeof ks / sizeof ks[0]; t++) {
        make_keys(keys);
        whim_rank_top(keys, N, ks[t]);
        for (int32_t i = 0; i < ks[t]; i++) {
            assert_int_equal(whim_rank_id(keys[i]), order[i]);
        }
    }
    /* In two parts, as a growing nucleus does it. */
    make_keys(keys);
    whim_rank_top(keys, N, 10);
    whim_rank_top(keys + 10, N - 10, 30);
    for (int32_t i = 0; i < 40; i++) {
        assert_int_equal(whim_rank_id(keys[i]), order[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_best_k_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

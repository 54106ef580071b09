/* SPDX-License-Identifier: Apache-2.0 */
/* The norm of q and k over all ranks, on the law: ranks that each have some of the heads, with
 * their sums added as an all-reduce would, give what one rank with all heads gives, and what double
 * precision gives. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/math/rng.h"
#include "ops/ops.h"
#include "support/cmocka.h"

enum {
    ROWS = 3,
    HEADS = 6,
    KV = 3,
    D = 24,
    FREQ = 5, /* a part of each head is rotated */
    MAX_COLS = (HEADS + 2 * KV) * D,
};

/* Which heads a rank has, and how many heads of k it counts. */
typedef struct rank_part {
    int64_t head0, n_head, kv0, n_kv, n_kv_sum;
} rank_part;

static float q_all[ROWS][HEADS * D], k_all[ROWS][KV * D], v_all[ROWS][KV * D];
static float q_norm[HEADS * D], k_norm[KV * D], cos_sin[ROWS][2 * FREQ];
static float q_got[ROWS][HEADS * D], k_got[ROWS][KV * D], v_got[ROWS][KV * D];

static void fill(uint64_t key, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = whim_rng_normal_at(key, (uint64_t)i);
    }
}

static int setup(void **state)
{
    (void)state;
    fill(1, &q_all[0][0], ROWS * HEADS * D);
    fill(2, &k_all[0][0], ROWS * KV * D);
    fill(3, &v_all[0][0], ROWS * KV * D);
    fill(4, q_norm, HEADS * D);
    fill(5, k_norm, KV * D);
    fill(6, &cos_sin[0][0], ROWS * 2 * FREQ);
    return 0;
}

/* A rank's product [q | k | v]; returns its columns. */
static int64_t rank_qkv(const rank_part *p, float *qkv)
{
    int64_t q = p->n_head * D, kv = p->n_kv * D, width = q + 2 * kv;
    for (int64_t r = 0; r < ROWS; r++, qkv += width) {
        memcpy(qkv, &q_all[r][p->head0 * D], (size_t)q * sizeof(float));
        memcpy(qkv + q, &k_all[r][p->kv0 * D], (size_t)kv * sizeof(float));
        memcpy(qkv + q + kv, &v_all[r][p->kv0 * D], (size_t)kv * sizeof(float));
    }
    return width;
}

static void rank_split(whim_stream *law, const rank_part *p, const float *sums)
{
    static float qkv[ROWS * MAX_COLS], q[ROWS * HEADS * D], k[ROWS * KV * D], v[ROWS * KV * D];
    int64_t width = rank_qkv(p, qkv);
    whim_split_qkv_tp_rmsnorm_rope_args args = {.qkv = qkv,
                                                .qkv_stride = width,
                                                .sums = sums,
                                                .q_width = HEADS * D,
                                                .k_width = KV * D,
                                                .q_norm = q_norm + p->head0 * D,
                                                .k_norm = k_norm + p->kv0 * D,
                                                .eps = 1e-3f,
                                                .cos_sin = &cos_sin[0][0],
                                                .q = q,
                                                .k = k,
                                                .v = v,
                                                .n_row = ROWS,
                                                .n_head = p->n_head,
                                                .n_kv = p->n_kv,
                                                .d_head = D,
                                                .n_freq = FREQ};
    assert_int_equal(whim_op_split_qkv_tp_rmsnorm_rope(law, &args), WHIM_ERR_OK);
    for (int64_t r = 0; r < ROWS; r++) {
        int64_t n = p->n_head * D, m = p->n_kv * D;
        memcpy(&q_got[r][p->head0 * D], q + r * n, (size_t)n * sizeof(float));
        memcpy(&k_got[r][p->kv0 * D], k + r * m, (size_t)m * sizeof(float));
        memcpy(&v_got[r][p->kv0 * D], v + r * m, (size_t)m * sizeof(float));
    }
}

static void run_ranks(const rank_part *parts, int n)
{
    static float qkv[ROWS * MAX_COLS];
    whim_stream law;
    float total[2 * ROWS] = {0}, own[2 * ROWS];
    whim_law_stream_init(&law);
    for (int i = 0; i < n; i++) {
        whim_qk_sumsq_args args = {.qkv = qkv,
                                   .qkv_stride = rank_qkv(&parts[i], qkv),
                                   .sums = own,
                                   .n_row = ROWS,
                                   .n_head = parts[i].n_head,
                                   .n_kv = parts[i].n_kv_sum,
                                   .d_head = D};
        assert_int_equal(whim_op_qk_sumsq(&law, &args), WHIM_ERR_OK);
        for (int s = 0; s < 2 * ROWS; s++) {
            total[s] += own[s];
        }
    }
    for (int i = 0; i < n; i++) {
        rank_split(&law, &parts[i], total);
    }
}

/* One row of n columns, normalised as a whole and rotated head by head, in double. */
static void expect_row(const float *got, const float *x, const float *w, const float *table,
                       int64_t n)
{
    double sum = 0, y[HEADS * D];
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * x[i];
    }
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] / sqrt(sum / (double)n + (double)1e-3f) * w[i];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i % D;
        double want = y[i];
        if (at < FREQ) {
            want = y[i] * table[at] - y[i + FREQ] * table[FREQ + at];
        } else if (at < 2 * FREQ) {
            want = y[i] * table[at - FREQ] + y[i - FREQ] * table[at];
        }
        assert_true(fabs(got[i] - want) <= 1e-5);
    }
}

static void ranks_agree_with_double(void **state)
{
    (void)state;
    static const rank_part one[] = {{0, 6, 0, 3, 3}};
    static const rank_part uneven[] = {{0, 4, 0, 2, 2}, {4, 2, 2, 1, 1}};
    /* Six ranks of one head: two of them hold each head of k, and the later one counts it. */
    static const rank_part six[] = {{0, 1, 0, 1, 0}, {1, 1, 0, 1, 1}, {2, 1, 1, 1, 0},
                                    {3, 1, 1, 1, 1}, {4, 1, 2, 1, 0}, {5, 1, 2, 1, 1}};
    static const struct {
        const rank_part *parts;
        int n;
    } splits[] = {{one, 1}, {uneven, 2}, {six, 6}};
    for (int i = 0; i < 3; i++) {
        memset(q_got, 0, sizeof q_got);
        memset(k_got, 0, sizeof k_got);
        run_ranks(splits[i].parts, splits[i].n);
        for (int r = 0; r < ROWS; r++) {
            expect_row(q_got[r], q_all[r], q_norm, cos_sin[r], HEADS * D);
            expect_row(k_got[r], k_all[r], k_norm, cos_sin[r], KV * D);
        }
        assert_memory_equal(v_got, v_all, sizeof v_all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_agree_with_double)};
    return cmocka_run_group_tests_name("tp_norm", tests, setup, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The norm of q and k over all ranks against a kernel that others wrote, at the sizes of MiniMax-M2
 * (tools/golden/make_tp_norm_golden.py ran it, on one rank and on two). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "support/cmocka.h"
#include "tensor/half.h"

enum { ROWS = 2, HEADS = 48, KV = 8, D = 128, FREQ = 32, ALL = HEADS + 2 * KV, MADE = HEADS + KV };

static uint16_t qkv_all[ROWS][ALL * D], norms[MADE * D]; /* BF16; of q, then of k */
static float cos_sin[ROWS][2 * FREQ];
static float want[ROWS][MADE * D], got[ROWS][MADE * D]; /* q, then k */

static void read_part(FILE *file, void *to, size_t bytes)
{
    assert_int_equal(fread(to, 1, bytes, file), bytes);
}

static int setup(void **state)
{
    (void)state;
    FILE *file = fopen("tests/data/tp_norm/in.bin", "rb");
    assert_non_null(file);
    read_part(file, qkv_all, sizeof qkv_all);
    read_part(file, norms, sizeof norms);
    read_part(file, cos_sin, sizeof cos_sin);
    fclose(file);
    return 0;
}

/* `n` heads of `from` as floats. */
static void widen(const uint16_t *from, int64_t head, int64_t n, float *to)
{
    for (int64_t i = 0; i < n * D; i++) {
        to[i] = whim_bf16_to_f32(from[head * D + i]);
    }
}

/* One of n_rank ranks, which have as many heads each. */
typedef struct rank_half {
    int64_t n_head, n_kv, head0, kv0;
    float qkv[ROWS][ALL * D];
    float sums[ROWS][2];
} rank_half;

static void rank_open(rank_half *p, int64_t n_rank, int64_t rank)
{
    p->n_head = HEADS / n_rank;
    p->n_kv = KV / n_rank;
    p->head0 = rank * p->n_head;
    p->kv0 = rank * p->n_kv;
    for (int64_t r = 0; r < ROWS; r++) {
        float *k = p->qkv[r] + p->n_head * D;
        widen(qkv_all[r], p->head0, p->n_head, p->qkv[r]);
        widen(qkv_all[r], HEADS + p->kv0, p->n_kv, k);
        widen(qkv_all[r], HEADS + KV + p->kv0, p->n_kv, k + p->n_kv * D);
    }
}

static void rank_sums(rank_half *p, whim_stream *law)
{
    whim_qk_sumsq_args args = {.qkv = p->qkv[0],
                               .qkv_stride = ALL * D,
                               .sums = p->sums[0],
                               .n_row = ROWS,
                               .n_head = p->n_head,
                               .n_kv = p->n_kv,
                               .d_head = D};
    assert_int_equal(whim_op_qk_sumsq(law, &args), WHIM_ERR_OK);
}

static void rank_norm(rank_half *p, whim_stream *law, const float *sums)
{
    static float q_norm[HEADS * D], k_norm[KV * D];
    static float q[ROWS * HEADS * D], k[ROWS * KV * D], v[ROWS * KV * D];
    widen(norms, p->head0, p->n_head, q_norm);
    widen(norms, HEADS + p->kv0, p->n_kv, k_norm);
    whim_split_qkv_tp_rmsnorm_rope_args args = {.qkv = p->qkv[0],
                                                .qkv_stride = ALL * D,
                                                .sums = sums,
                                                .q_width = HEADS * D,
                                                .k_width = KV * D,
                                                .q_norm = q_norm,
                                                .k_norm = k_norm,
                                                .eps = 1e-6f,
                                                .cos_sin = cos_sin[0],
                                                .q = q,
                                                .k = k,
                                                .v = v,
                                                .n_row = ROWS,
                                                .n_head = p->n_head,
                                                .n_kv = p->n_kv,
                                                .d_head = D,
                                                .n_freq = FREQ};
    assert_int_equal(whim_op_split_qkv_tp_rmsnorm_rope(law, &args), WHIM_ERR_OK);
    size_t q_bytes = (size_t)(p->n_head * D) * sizeof *q,
           k_bytes = (size_t)(p->n_kv * D) * sizeof *k;
    for (int64_t r = 0; r < ROWS; r++) {
        memcpy(got[r] + p->head0 * D, q + r * p->n_head * D, q_bytes);
        memcpy(got[r] + (HEADS + p->kv0) * D, k + r * p->n_kv * D, k_bytes);
    }
}

static void run_ranks(int64_t n_rank)
{
    static rank_half ranks[2];
    whim_stream law;
    float total[2 * ROWS] = {0};
    whim_law_stream_init(&law);
    for (int64_t i = 0; i < n_rank; i++) {
        rank_open(&ranks[i], n_rank, i);
        rank_sums(&ranks[i], &law);
        for (int s = 0; s < 2 * ROWS; s++) { /* as the all-reduce does */
            total[s] += ranks[i].sums[s / 2][s % 2];
        }
    }
    for (int64_t i = 0; i < n_rank; i++) {
        rank_norm(&ranks[i], &law, total);
    }
}

static void ranks_agree_with_the_kernel(void **state)
{
    (void)state;
    for (int n_rank = 1; n_rank <= 2; n_rank++) {
        char path[64];
        snprintf(path, sizeof path, "tests/data/tp_norm/out%d.bin", n_rank);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        read_part(file, want, sizeof want);
        fclose(file);
        memset(got, 0, sizeof got);
        run_ranks(n_rank);
        for (int64_t i = 0; i < ROWS * MADE * D; i++) {
            float a = (&got[0][0])[i], b = (&want[0][0])[i];
            assert_true(fabsf(a - b) <= 1e-6f * fmaxf(1.0f, fabsf(b)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_agree_with_the_kernel)};
    return cmocka_run_group_tests_name("tp_witness", tests, setup, NULL);
}

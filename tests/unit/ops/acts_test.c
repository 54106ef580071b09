/* SPDX-License-Identifier: Apache-2.0 */
/* Storage types of activations: what a store rounds to, and the law of `linear` on every pair of
 * types, against double precision and against each other. */
#include "ops/ops.h"
#include "support/cmocka.h"

#include "base/math/rng.h"
#include "tensor/fp8.h"
#include "tensor/half.h"
#include "tensor/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 5, K = 512, ROWS = 3, MAX_ROW_BYTES = K * 4 };

static float x[ROWS * K];

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS * K; i++) {
        x[i] = whim_rng_normal_at(3, (uint64_t)i) * (i / 100 % 3 == 0 ? 0.01f : 2.0f);
    }
    return 0;
}

/* --- stores ----------------------------------------------------------------------------------- */

static void bf16_is_half_to_even(void **state)
{
    (void)state;
    const float in[] = {1.0f, 0x1.01p0f, 0x1.03p0f, -0x1.010002p0f, 0x1.fffffep127f, -0.0f};
    const float want[] = {1.0f, 1.0f, 0x1.04p0f, -0x1.02p0f, INFINITY, -0.0f};
    uint16_t row[6];
    float got[6];
    whim_act_store(WHIM_ACT_BF16, in, row, 6);
    whim_act_load(WHIM_ACT_BF16, row, got, 6);
    assert_memory_equal(got, want, sizeof want);
}

static void fp8_has_a_scale_for_128(void **state)
{
    (void)state;
    float in[2 * 128] = {0}, got[2 * 128];
    uint8_t row[2 * WHIM_FP8_BLOCK_BYTES];
    in[0] = 896.0f; /* d = 2 */
    in[1] = -1.0f;
    in[2] = 2.0f * 17.0f; /* between the codes 16 and 18: to the even one */
    in[3] = 2.0f * 19.0f;
    in[4] = 0x1p-10f; /* half of the smallest code: to zero */
    whim_act_store(WHIM_ACT_FP8, in, row, 2 * 128);
    whim_act_load(WHIM_ACT_FP8, row, got, 2 * 128);
    assert_true(whim_fp8_scale(row) == 2.0f);
    assert_true(got[0] == 896.0f && got[1] == -1.0f && got[2] == 32.0f && got[3] == 40.0f);
    for (int i = 4; i < 256; i++) {
        assert_true(got[i] == 0.0f);
    }
    assert_true(whim_fp8_scale(row + WHIM_FP8_BLOCK_BYTES) == 0.0f);
}

/* What is no number makes its block none, and no other. */
static void blocks_with_nan_are_nan(void **state)
{
    (void)state;
    static const whim_act types[] = {WHIM_ACT_Q8, WHIM_ACT_FP8};
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 6; i++) {
        whim_act type = types[i / 3];
        _Alignas(64) char row[MAX_ROW_BYTES];
        float in[256], got[256];
        memcpy(in, x, sizeof in);
        in[130] = odd[i % 3];
        whim_act_store(type, in, row, 256);
        whim_act_load(type, row, got, 256);
        for (int64_t j = 0; j < 256; j++) {
            bool same_block = j / whim_act_block(type) == 130 / whim_act_block(type);
            assert_true((isnan(got[j]) != 0) == same_block);
        }
    }
}

/* Half a step of the type at the block's largest, and the largest itself kept. */
static void stores_are_near(void **state)
{
    (void)state;
    static const double steps[] = {0, 0x1p-8, 0.5 / 127, 0x1p-4};
    for (int t = 0; t < WHIM_ACT_COUNT; t++) {
        _Alignas(64) char row[MAX_ROW_BYTES];
        float got[K];
        whim_act_store((whim_act)t, x, row, K);
        whim_act_load((whim_act)t, row, got, K);
        int64_t block = whim_act_block((whim_act)t) > 1 ? whim_act_block((whim_act)t) : 1;
        for (int64_t i = 0; i < K; i++) {
            double top = 0;
            for (int64_t j = i / block * block; j < i / block * block + block; j++) {
                top = fmax(top, fabs((double)x[j]));
            }
            double relative = t == WHIM_ACT_Q8 ? top : fabs((double)x[i]) + 0x1p-9 * top / 448;
            assert_true(fabs((double)got[i] - x[i]) <= steps[t] * relative * 1.0001);
        }
    }
}

/* --- products --------------------------------------------------------------------------------- */

typedef struct product {
    whim_weight w;
    char rows[N * MAX_ROW_BYTES]; /* the weight's */
    _Alignas(64) char stored[ROWS * MAX_ROW_BYTES];
    float y[ROWS * N];
} product;

static void weights_make(product *p, whim_dtype dtype)
{
    const whim_dtype_info *info = whim_dtype_get(dtype);
    int64_t bytes = N * whim_dtype_row_bytes(dtype, K);
    for (int64_t i = 0; i < bytes; i++) {
        p->rows[i] = (char)whim_rng_at(9, (uint64_t)i);
    }
    for (int64_t i = 0; i < N * K && info->kind == WHIM_DTYPE_KIND_FLOAT; i++) {
        float v = whim_rng_normal_at(4, (uint64_t)i);
        uint16_t h = dtype == WHIM_DTYPE_F16 ? whim_f32_to_f16(v) : whim_f32_to_bf16(v);
        memcpy(p->rows + i * info->block_bytes, info->block_bytes == 4 ? (void *)&v : (void *)&h,
               (size_t)info->block_bytes);
    }
    for (int64_t i = 0; i < bytes && dtype == WHIM_DTYPE_FP8; i++) {
        p->rows[i] = (char)(p->rows[i] & 0xbf); /* no NaN */
    }
    p->w = (whim_weight){dtype, N, K, p->rows};
}

/* Scales of block types: halves or floats wherever they lie, all sane after this. */
static void scales_make(product *p)
{
    float wide[K];
    const whim_dtype_info *info = whim_dtype_get(p->w.dtype);
    for (int64_t b = 0; b < N * K / info->block_elems && info->block_elems > 1; b++) {
        char *block = p->rows + b * info->block_bytes;
        float scale = 0.01f * (float)(1 + b % 5);
        uint16_t half = whim_f32_to_f16(scale);
        if (info->block_elems == 128) {
            memcpy(block, &scale, 4);
        } else if (p->w.dtype == WHIM_DTYPE_MXFP4) {
            block[0] = 120;
        } else { /* every place that some type has one at */
            static const int at[] = {0, 2, 80, 82, 108, 208};
            for (int i = 0; i < 6; i++) {
                if (at[i] + 2 <= info->block_bytes) {
                    memcpy(block + at[i], &half, 2);
                }
            }
        }
    }
    whim_dequant_row(p->w.dtype, p->rows, wide, K);
    for (int i = 0; i < K; i++) {
        assert_true(isfinite(wide[i]));
    }
}

static void run(product *p, whim_act type, const float *from)
{
    char space[K * 4];
    whim_stream law;
    whim_law_stream_init(&law);
    law.workspace = (whim_workspace){space, sizeof space, 0, 0};
    whim_narrow_args store = {.x = from,
                              .x_stride = K,
                              .y_type = type,
                              .y = p->stored,
                              .y_stride = K,
                              .n_row = ROWS,
                              .n_col = K};
    whim_linear_args a = {.w = p->w,
                          .x = p->stored,
                          .x_stride = K,
                          .x_type = type,
                          .y = p->y,
                          .y_stride = N,
                          .n_row = ROWS};
    assert_int_equal(whim_op_narrow(&law, &store), WHIM_ERR_OK);
    assert_int_equal(whim_op_linear(&law, &a), WHIM_ERR_OK);
}

/* y in double from what is stored, within the roundings of F32 sums, and of int8 where the law
 * makes them. */
static void expect_near(const product *p, whim_act type)
{
    bool makes_q8 =
        whim_dtype_get(p->w.dtype)->kind == WHIM_DTYPE_KIND_QUANT && type != WHIM_ACT_Q8;
    float wide[K], in[K];
    for (int64_t r = 0; r < ROWS; r++) {
        whim_act_load(type, p->stored + whim_act_bytes(type, r * K), in, K);
        for (int64_t n = 0; n < N; n++) {
            double sum = 0, size = 0;
            whim_dequant_row(p->w.dtype, p->rows + n * whim_dtype_row_bytes(p->w.dtype, K), wide,
                             K);
            for (int i = 0; i < K; i++) {
                sum += (double)wide[i] * in[i];
                size += fabs((double)wide[i] * in[i]);
            }
            double limit = makes_q8 ? 0.02 : 1e-4;
            if (fabs(p->y[r * N + n] - sum) > limit * size + 1e-6) {
                fail_msg("%s with %s: %g instead of %g, size %g", whim_dtype_get(p->w.dtype)->name,
                         whim_act_name(type), (double)p->y[r * N + n], sum, size);
            }
        }
    }
}

static void every_pair_has_a_law(void **state)
{
    (void)state;
    static product p, plain;
    for (int t = 0; t < WHIM_DTYPE_COUNT; t++) {
        if (whim_dtype_get((whim_dtype)t)->kind == WHIM_DTYPE_KIND_INT) {
            continue;
        }
        weights_make(&p, (whim_dtype)t);
        scales_make(&p);
        for (int type = 0; type < WHIM_ACT_COUNT; type++) {
            run(&p, (whim_act)type, x);
            expect_near(&p, (whim_act)type);
        }
        memcpy(&plain, &p, sizeof plain);
        plain.w.data = plain.rows;
        bool quant = whim_dtype_get((whim_dtype)t)->kind == WHIM_DTYPE_KIND_QUANT;
        run(&plain, WHIM_ACT_F32, x);
        run(&p, WHIM_ACT_Q8, x);
        assert_int_equal(memcmp(p.y, plain.y, sizeof p.y) == 0, quant); /* stored, then or now */
        float exact[ROWS * K];
        run(&p, WHIM_ACT_BF16, x);
        whim_act_load(WHIM_ACT_BF16, p.stored, exact, ROWS * K);
        run(&plain, WHIM_ACT_F32, exact);
        assert_memory_equal(p.y, plain.y, sizeof p.y);
    }
}

/* Both scales of FP8 stay outside of the sum: exact where the sum of the codes' products is. */
static void fp8_pairs_scale_once(void **state)
{
    (void)state;
    static product p;
    float in[ROWS * K] = {0};
    weights_make(&p, WHIM_DTYPE_FP8);
    memset(p.rows, 0, sizeof p.rows);
    float third = 1.0f / 3.0f;
    for (int b = 0; b < K / 128; b++) {
        memcpy(p.rows + b * WHIM_FP8_BLOCK_BYTES, &third, 4);
        p.rows[b * WHIM_FP8_BLOCK_BYTES + WHIM_FP8_CODES_AT] = 0x38;     /* 1 */
        p.rows[b * WHIM_FP8_BLOCK_BYTES + WHIM_FP8_CODES_AT + 1] = 0x40; /* 2 */
        in[b * 128] = 448.0f * 0.7f;
        in[b * 128 + 1] = -224.0f * 0.7f;
    }
    in[128] = 2.0f * 448.0f * 0.7f; /* one block whose products do not cancel */
    run(&p, WHIM_ACT_FP8, in);
    float d = in[128] / 448.0f;
    assert_true(p.y[0] == fmaf(448.0f - 2 * 112.0f, third * d, 0.0f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_is_half_to_even),    cmocka_unit_test(fp8_has_a_scale_for_128),
        cmocka_unit_test(blocks_with_nan_are_nan), cmocka_unit_test(stores_are_near),
        cmocka_unit_test(every_pair_has_a_law),    cmocka_unit_test(fp8_pairs_scale_once),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

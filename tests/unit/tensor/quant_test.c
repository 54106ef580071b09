/* SPDX-License-Identifier: Apache-2.0 */
/* tensor/quant and unpack.h: every type against values read by the gguf package or made here, the
 * integer dot against a double-precision one, the bound that keeps it exact, and the activation
 * quantiser. */
#include <stdint.h>
#include <stdio.h>

#include "base/math/rng.h"
#include "support/cmocka.h"
#include "tensor/unpack.h"

#include "quant_golden_32.h"
#include "quant_golden_iq.h"
#include "quant_golden_k234.h"
#include "quant_golden_k56.h"

#define GOLDEN(t)                                                                                  \
    {                                                                                              \
        WHIM_DTYPE_##t, sizeof golden_##t##_bits / sizeof golden_##t##_bits[0], golden_##t##_data, \
            sizeof golden_##t##_data, golden_##t##_bits                                            \
    }
static const struct golden {
    whim_dtype dtype;
    int64_t n;
    const uint8_t *data;
    size_t n_byte;
    const uint32_t *bits; /* [n] */
} golden_list[] = {
    GOLDEN(Q4_0),  GOLDEN(Q4_1),    GOLDEN(Q5_0),   GOLDEN(Q5_1),  GOLDEN(Q8_0),    GOLDEN(Q2_K),
    GOLDEN(Q3_K),  GOLDEN(Q4_K),    GOLDEN(Q5_K),   GOLDEN(Q6_K),  GOLDEN(IQ4_NL),  GOLDEN(IQ4_XS),
    GOLDEN(MXFP4), GOLDEN(IQ2_XXS), GOLDEN(IQ2_XS), GOLDEN(IQ2_S), GOLDEN(IQ3_XXS), GOLDEN(IQ3_S),
};
enum { N_GOLDEN = sizeof(golden_list) / sizeof(golden_list[0]), N_MAX = 512 };

static void list_is_complete(void **state)
{
    (void)state;
    int n_quant = 0;
    for (int t = 0; t < WHIM_DTYPE_COUNT; t++) {
        const whim_dtype_info *info = whim_dtype_get((whim_dtype)t);
        n_quant += info->kind == WHIM_DTYPE_KIND_QUANT && info->gguf_id >= 0;
    }
    assert_int_equal(n_quant, N_GOLDEN);
    for (int k = 0; k < N_GOLDEN; k++) {
        const struct golden *g = &golden_list[k];
        assert_int_equal(whim_dtype_row_bytes(g->dtype, g->n), g->n_byte);
    }
}

static void dequant_equals_gguf(void **state)
{
    (void)state;
    for (int k = 0; k < N_GOLDEN; k++) {
        const struct golden *gold = &golden_list[k];
        float got[N_MAX];
        whim_dequant_row(gold->dtype, gold->data, got, gold->n);
        for (int64_t i = 0; i < gold->n; i++) {
            whim_quant_group g;
            whim_quant_unpack(gold->dtype, gold->data, i / 32, &g);
            int h = (int)(i % 32) / 16;
            float want = whim_f32_from_bits(gold->bits[i]);
            /* A difference of nearly equal terms is only as good as the terms. */
            double terms = fabs((double)g.d * g.sc[h] * g.q[i % 32]) + fabs((double)g.m * g.mn[h]);
            if (!(got[i] == want || fabs((double)got[i] - want) <= 2e-7 * terms)) {
                fail_msg("%s[%d]: %a, expected %a", whim_dtype_get(gold->dtype)->name, (int)i,
                         (double)got[i], (double)want);
            }
            assert_true(whim_dtype_has_min(gold->dtype) || (g.m == 0 && g.mn[h] == 0));
        }
    }
}

static void dequant_plain_types(void **state)
{
    (void)state;
    const float f32[3] = {1.5f, -0.0f, 3e38f};
    const uint16_t f16[3] = {0x3e00, 0x8001, 0x7bff};
    const uint16_t bf16[3] = {0x3fc0, 0x8001, 0x7f7f};
    float out[3];
    whim_dequant_row(WHIM_DTYPE_F32, f32, out, 3);
    assert_memory_equal(out, f32, sizeof(f32));
    whim_dequant_row(WHIM_DTYPE_F16, f16, out, 3);
    assert_true(out[0] == 1.5f && out[1] == -0x1p-24f && out[2] == 65504.0f);
    whim_dequant_row(WHIM_DTYPE_BF16, bf16, out, 3);
    assert_true(out[0] == 1.5f && out[1] == -0x1p-133f && out[2] == 0x1.fep127f);
    assert_false(whim_dtype_has_min(WHIM_DTYPE_F32));
}

static void random_block(uint64_t key, whim_q8_block *a)
{
    float x[32];
    for (int i = 0; i < 32; i++) {
        x[i] = whim_rng_normal_at(key, (uint64_t)i);
    }
    whim_q8_quantize32(x, a);
}

static void dot_equals_dequantised_dot(void **state)
{
    (void)state;
    for (int k = 0; k < N_GOLDEN; k++) {
        const struct golden *gold = &golden_list[k];
        bool has_min = whim_dtype_has_min(gold->dtype);
        /* The last MXFP4 block, with the scale 2^127, overflows any dot. */
        int64_t n = gold->dtype == WHIM_DTYPE_MXFP4 ? gold->n - 32 : gold->n;
        float w[N_MAX];
        whim_dequant_row(gold->dtype, gold->data, w, n);
        float acc = 0;
        double want = 0, size = 0;
        for (int64_t b = 0; b < n / 32; b++) {
            whim_quant_group g;
            whim_q8_block a;
            random_block((uint64_t)(100 * k + b), &a);
            whim_quant_unpack(gold->dtype, gold->data, b, &g);
            acc = whim_group_dot_step(acc, &g, &a, has_min);
            for (int i = 0; i < 32; i++) {
                int h = i / 16;
                want += (double)w[32 * b + i] * a.s * a.q[i];
                size += fabs((double)g.d * g.sc[h] * g.q[i] * a.s * a.q[i]) +
                        fabs((double)g.m * g.mn[h] * a.s * a.q[i]);
            }
        }
        assert_true(size > 0 && fabs(acc - want) <= 1e-6 * size);
    }
}

/* The largest |integer dot| of group `group` of a block against activations of +-127. */
static int64_t group_bound(whim_dtype dtype, const uint8_t *block, int64_t group)
{
    whim_quant_group g;
    whim_quant_unpack(dtype, block, group, &g);
    int64_t sum = 0;
    for (int i = 0; i < 32; i++) {
        int64_t product = (int64_t)g.sc[i / 16] * g.q[i] * 127;
        sum += product < 0 ? -product : product;
    }
    return sum;
}

/* Climb byte by byte from a start to a block with a larger bound; the bytes hardly interact. */
static int64_t climb(whim_dtype dtype, uint8_t *block)
{
    int64_t n_byte = whim_dtype_get(dtype)->block_bytes;
    int64_t group = whim_dtype_get(dtype)->block_elems / 32 - 1;
    int64_t best = group_bound(dtype, block, group);
    for (int64_t step = 0; step < 2 * n_byte; step++) {
        uint8_t *byte = &block[step % n_byte];
        uint8_t keep = *byte;
        for (int v = 0; v < 256; v++) {
            *byte = (uint8_t)v;
            int64_t bound = group_bound(dtype, block, group);
            keep = bound > best ? (uint8_t)v : keep;
            best = bound > best ? bound : best;
        }
        *byte = keep;
    }
    return best;
}

static int64_t worst_bound(whim_dtype dtype)
{
    uint8_t zeros[256] = {0}, ones[256], noise[256];
    for (int i = 0; i < 256; i++) {
        ones[i] = 255;
        noise[i] = (uint8_t)whim_rng_at(77, (uint64_t)i);
    }
    int64_t a = climb(dtype, zeros), b = climb(dtype, ones), c = climb(dtype, noise);
    a = b > a ? b : a;
    return c > a ? c : a;
}

/* INT8 is no type of GGUF, so its golden values are made here: two blocks with scales that no half
 * has. */
static void int8_block_by_block(void **state)
{
    (void)state;
    static const float d[2] = {0x1.234568p-9f, -3.0e-20f};
    uint8_t row[2 * 132];
    float x[256], got[256];
    for (int i = 0; i < 256; i++) {
        int8_t q = (int8_t)(i * 37 - 128);
        memcpy(row + i / 128 * 132 + 4 + i % 128, &q, 1);
        x[i] = whim_rng_normal_at(9, (uint64_t)i);
    }
    memcpy(row, &d[0], 4);
    memcpy(row + 132, &d[1], 4);
    assert_int_equal(whim_dtype_row_bytes(WHIM_DTYPE_INT8, 256), sizeof row);
    whim_dequant_row(WHIM_DTYPE_INT8, row, got, 256);
    float acc = 0.5f, want = 0.5f;
    for (int b = 0; b < 8; b++) {
        whim_q8_block a;
        whim_quant_group g;
        whim_q8_quantize32(x + 32 * b, &a);
        whim_quant_unpack(WHIM_DTYPE_INT8, row, b, &g);
        acc = whim_group_dot_step(acc, &g, &a, whim_dtype_has_min(WHIM_DTYPE_INT8));
        int32_t dot = 0;
        for (int i = 32 * b; i < 32 * b + 32; i++) {
            int8_t q = (int8_t)(i * 37 - 128);
            assert_true(got[i] == (float)q * d[i / 128]);
            dot += q * a.q[i % 32];
        }
        want = fmaf((float)dot, d[b / 4] * a.s, want);
    }
    assert_true(acc == want);
    assert_true(worst_bound(WHIM_DTYPE_INT8) == 32 * 128 * 127);
}

static void integer_dot_is_exact_in_float(void **state)
{
    (void)state;
    static const struct {
        whim_dtype dtype;
        int64_t bound;
    } known[] = {
        {WHIM_DTYPE_Q4_0, 32 * 8 * 127},        {WHIM_DTYPE_Q8_0, 32 * 128 * 127},
        {WHIM_DTYPE_Q3_K, 32 * 32 * 4 * 127},   {WHIM_DTYPE_Q5_K, 32 * 63 * 31 * 127},
        {WHIM_DTYPE_Q6_K, 32 * 128 * 32 * 127}, {WHIM_DTYPE_IQ4_XS, 32 * 32 * 127 * 127},
        {WHIM_DTYPE_MXFP4, 32 * 12 * 127},
    };
    for (int k = 0; k < N_GOLDEN; k++) {
        assert_true(worst_bound(golden_list[k].dtype) < 1 << 24);
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        assert_int_equal(worst_bound(known[i].dtype), known[i].bound);
    }
}

static void q8_follows_its_law(void **state)
{
    (void)state;
    for (uint64_t t = 0; t < 20000; t++) {
        float x[32];
        whim_q8_block a;
        float top = 0;
        float scale = ldexpf(1.0f, (int)(t % 240) - 118);
        for (uint64_t i = 0; i < 32; i++) {
            x[i] = whim_rng_normal_at(t, i) * scale;
            x[i] = t % 5 == 0 && i == 7 ? 0.5f * scale * (float)(t % 9) : x[i];
            top = fmaxf(top, fabsf(x[i]));
        }
        whim_q8_quantize32(x, &a);
        int32_t sum[2] = {0};
        float s = top / 127.0f;
        assert_true(a.s == s);
        for (int i = 0; i < 32; i++) {
            float want = rintf(x[i] * (1.0f / s));
            assert_true(fabsf(want) <= 127.0f && (float)a.q[i] == want);
            sum[i / 16] += a.q[i];
        }
        assert_memory_equal(a.sum, sum, sizeof(sum));
    }
}

static void q8_rounds_half_to_even(void **state)
{
    (void)state;
    float x[32] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.5f, 0x1.fffffep-2f};
    const int8_t want[8] = {127, 0, 2, 2, 0, -2, 126, 0};
    whim_q8_block a;
    whim_q8_quantize32(x, &a);
    assert_true(a.s == 1.0f);
    assert_memory_equal(a.q, want, 8);
    assert_true(a.sum[0] == 255 && a.sum[1] == 0);
}

static void q8_odd_blocks(void **state)
{
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0f, -0.0f, 0x1p-149f, 0x1p-121f};
    const int8_t zeros[32] = {0};
    for (int k = 0; k < 8; k++) {
        float x[32] = {0};
        whim_q8_block a;
        x[0] = k < 4 ? 3.0f : 0.0f;
        x[19] = odd[k];
        whim_q8_quantize32(x, &a);
        assert_true(k < 4 ? isnan(a.s) : a.s == 0.0f);
        assert_memory_equal(a.q, zeros, 32);
        assert_true(a.sum[0] == 0 && a.sum[1] == 0);
    }
    float big[32] = {0x1.fffffep127f, -0x1.fffffep127f, 0x1p121f};
    whim_q8_block a;
    whim_q8_quantize32(big, &a);
    assert_true(a.q[0] == 127 && a.q[1] == -127 && a.q[2] == 1 && a.s < INFINITY);
}

static void nan_scale_reaches_the_result(void **state)
{
    (void)state;
    float x[32] = {NAN};
    whim_q8_block a;
    whim_quant_group g;
    whim_q8_quantize32(x, &a);
    whim_quant_unpack(WHIM_DTYPE_Q4_1, golden_Q4_1_data, 0, &g);
    assert_true(isnan(whim_group_dot_step(1.0f, &g, &a, false)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_is_complete),    cmocka_unit_test(dequant_equals_gguf),
        cmocka_unit_test(dequant_plain_types), cmocka_unit_test(dot_equals_dequantised_dot),
        cmocka_unit_test(int8_block_by_block), cmocka_unit_test(integer_dot_is_exact_in_float),
        cmocka_unit_test(q8_follows_its_law),  cmocka_unit_test(q8_rounds_half_to_even),
        cmocka_unit_test(q8_odd_blocks),       cmocka_unit_test(nan_scale_reaches_the_result),
    };
    return cmocka_run_group_tests_name("quant", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tensor/quant_encode.h: what is representable comes back exactly, the rest within half a step;
 * ties go to even; the search for a scale pays; e4m3 against the format's own list of values. */
#include "tensor/quant_encode.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/math/rng.h"
#include "support/cmocka.h"
#include "tensor/fp8.h"
#include "tensor/half.h"

enum { N = WHIM_GROUP };

static const whim_dtype scale_types[] = {WHIM_DTYPE_F32, WHIM_DTYPE_F16, WHIM_DTYPE_BF16};

/* Roughly normal: the sum of uniform numbers. */
static float draw(uint64_t key, uint64_t i, float size)
{
    double sum = -6.0;
    for (uint64_t k = 0; k < 12; k++) {
        sum += (double)(whim_rng_key(key, 12 * i + k) >> 11) * 0x1p-53;
    }
    return (float)sum * size;
}

static void fill(float *w, uint64_t key, float size)
{
    for (uint64_t i = 0; i < N; i++) {
        w[i] = draw(key, i, size);
    }
}

static double squared_error(const float *w, const int8_t *codes, float scale)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double off = (double)w[i] - (double)codes[i] * (double)scale;
        sum += off * off;
    }
    return sum;
}

static void scales_are_exact_for_every_reader(float scale, whim_dtype type)
{
    assert_true(whim_f16_to_f32(whim_f32_to_f16(scale)) == scale);
    if (type == WHIM_DTYPE_BF16) {
        assert_true(whim_bf16_to_f32(whim_f32_to_bf16(scale)) == scale);
    }
}

static void codes_are_the_nearest(void **state)
{
    (void)state;
    static const float sizes[] = {1e-9f, 1e-7f, 3e-6f, 0.02f, 1.0f, 200.0f};
    for (uint64_t key = 0; key < 3 * 2 * 6 * 20; key++) {
        whim_dtype type = scale_types[key % 3];
        int32_t bits = key / 3 % 2 == 0 ? 4 : 8;
        float w[N];
        int8_t codes[N];
        fill(w, key, sizes[key / 6 % 6]);
        float scale = whim_encode_int(w, bits, type, codes);
        scales_are_exact_for_every_reader(scale, type);
        int32_t most = (1 << (bits - 1)) - 1;
        for (int i = 0; i < N; i++) {
            double at = (double)w[i] / (double)scale;
            double want = nearbyint(at);
            want = want > most ? most : want < -most - 1 ? -most - 1 : want;
            if (fabs((double)codes[i] - at) > fabs(want - at) + 1e-6) {
                fail_msg("%d bits, scale %g: %g became %d", bits, (double)scale, (double)w[i],
                         codes[i]);
            }
            if (bits == 8) { /* the whole range is there */
                assert_true(fabs((double)w[i] - (double)codes[i] * (double)scale) <=
                            0.5 * (double)scale * 1.0001);
            }
        }
    }
}

/* Multiples of a scale that reach the ends of the codes are what they were. */
static void representable_weights_come_back(void **state)
{
    (void)state;
    for (int bits = 4; bits <= 8; bits += 4) {
        for (int e = -16; e <= 7; e++) {
            float step = ldexpf(bits == 4 ? 1.5f : 1.0f, e), w[N];
            int8_t codes[N];
            int32_t most = (1 << (bits - 1)) - 1;
            for (int i = 0; i < N; i++) {
                w[i] = step * (float)((i * 5 + 3) % (2 * most + 1) - most);
            }
            w[7] = step * (float)most;
            float scale = whim_encode_int(w, bits, WHIM_DTYPE_BF16, codes);
            assert_true(fabsf(scale) == step);
            for (int i = 0; i < N; i++) {
                assert_true((float)codes[i] * scale == w[i]);
            }
        }
    }
}

static void ties_go_to_even(void **state)
{
    (void)state;
    float w[N] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -127.0f};
    static const int8_t want[N] = {127, 0, 2, 2, 0, -2, -2, 126, -127};
    int8_t codes[N];
    assert_true(whim_encode_int(w, 8, WHIM_DTYPE_F16, codes) == 1.0f);
    assert_memory_equal(codes, want, N);
}

static void zeros_and_limits(void **state)
{
    (void)state;
    float w[N] = {0};
    int8_t codes[N], none[N] = {0};
    for (int bits = 4; bits <= 8; bits += 4) {
        memset(w, 0, sizeof w);
        memset(codes, 1, sizeof codes);
        assert_true(whim_encode_int(w, bits, WHIM_DTYPE_F16, codes) != 0.0f);
        assert_memory_equal(codes, none, N);
        w[3] = -whim_encode_int_limit(bits);
        float scale = whim_encode_int(w, bits, WHIM_DTYPE_BF16, codes);
        assert_true(fabsf(scale) <= 256.0f);
        assert_true(fabsf((float)codes[3] * scale - w[3]) <= 0.5f * fabsf(scale));
        memset(w, 0, sizeof w);
        w[5] = FLT_TRUE_MIN; /* below all scales */
        assert_true(fabsf(whim_encode_int(w, bits, WHIM_DTYPE_F32, codes)) == 0x1p-24f);
        assert_memory_equal(codes, none, N);
    }
    w[9] = NAN;
    assert_true(isnan(whim_absmax(w, N)));
    w[9] = -INFINITY;
    assert_true(isinf(whim_absmax(w, N)));
    assert_true(whim_absmax(w, 5) == 0.0f && whim_absmax(w, 0) == 0.0f);
}

/* Against the plain rule that the largest weight is the largest code. */
static void the_search_pays(void **state)
{
    (void)state;
    double searched = 0, plain = 0;
    for (uint64_t key = 0; key < 2000; key++) {
        float w[N];
        int8_t codes[N];
        fill(w, key, 0.02f);
        float scale = whim_encode_int(w, 4, WHIM_DTYPE_BF16, codes);
        double error = squared_error(w, codes, scale);
        searched += error;
        scale = whim_bf16_to_f32(whim_f32_to_bf16(whim_absmax(w, N) / 7.0f));
        for (int i = 0; i < N; i++) {
            float code = whim_rintf_small(w[i] / scale);
            codes[i] = (int8_t)(code > 7.0f ? 7.0f : code);
        }
        double other = squared_error(w, codes, scale);
        assert_true(error <= other * 1.00001);
        plain += other;
    }
    print_message("squared error of the search: %.3f of the plain rule's\n", searched / plain);
    assert_true(searched < 0.75 * plain);
}

/* --- e4m3 ------------------------------------------------------------------------------------- */

static void every_e4m3_comes_back(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        if (code % 128 != 127) {
            assert_int_equal(whim_f32_to_e4m3(whim_e4m3_to_f32((uint8_t)code)), code);
        }
    }
}

/* Between two neighbours: below, at and above the middle. */
static void e4m3_rounds_half_to_even(void **state)
{
    (void)state;
    for (int code = 0; code < 126; code++) {
        float low = whim_e4m3_to_f32((uint8_t)code), high = whim_e4m3_to_f32((uint8_t)(code + 1));
        float middle = (low + high) / 2; /* exact */
        int even = code % 2 == 0 ? code : code + 1;
        assert_int_equal(whim_f32_to_e4m3(middle), even);
        assert_int_equal(whim_f32_to_e4m3(-middle), even + 128);
        assert_int_equal(whim_f32_to_e4m3(nextafterf(middle, 0.0f)), code);
        assert_int_equal(whim_f32_to_e4m3(nextafterf(middle, 1e9f)), code + 1);
    }
    assert_int_equal(whim_f32_to_e4m3(449.0f), 0x7e);
    assert_int_equal(whim_f32_to_e4m3(-FLT_MAX), 0xfe);
    assert_int_equal(whim_f32_to_e4m3(-FLT_TRUE_MIN), 0x80);
}

static void fp8_scales_reach_the_range(void **state)
{
    (void)state;
    static const float sizes[] = {FLT_TRUE_MIN, 1e-30f, 0.013f, 1.0f, 1e30f, FLT_MAX};
    for (int i = 0; i < 6; i++) {
        float scale = whim_fp8_scale_for(sizes[i]);
        uint8_t code;
        whim_encode_fp8(&sizes[i], 1, scale, &code);
        assert_true(scale >= FLT_MIN && scale <= FLT_MAX / 448);
        assert_int_equal(code, i == 0 ? 0 : 0x7e);
    }
    assert_true(whim_fp8_scale_for(0.0f) == 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_the_nearest),
        cmocka_unit_test(representable_weights_come_back),
        cmocka_unit_test(ties_go_to_even),
        cmocka_unit_test(zeros_and_limits),
        cmocka_unit_test(the_search_pays),
        cmocka_unit_test(every_e4m3_comes_back),
        cmocka_unit_test(e4m3_rounds_half_to_even),
        cmocka_unit_test(fp8_scales_reach_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

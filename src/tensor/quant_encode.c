/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing scales and codes. */
#include "tensor/quant_encode.h"

#include "base/check.h"
#include "tensor/half.h"

#include <float.h>
#include <math.h>

enum { LANES = 8 };

/* A reader may hold codes of 8 bits without their sign, and decodes in F16: 255 * 256 is below
 * 65504. */
static const float max_scale = 256.0f;
/* The least scale is the least step of F16. */
static const float min_scale = 0x1p-24f;
static const float e4m3_max = 448.0f;

float whim_absmax(const float *w, int64_t n)
{
    uint32_t most = 0; /* magnitudes are in order as integers, NaN above all */
    for (int64_t i = 0; i < n; i++) {
        uint32_t mag = whim_f32_bits(w[i]) & 0x7fffffffu;
        most = mag > most ? mag : most;
    }
    return whim_f32_from_bits(most);
}

static int32_t most_code(int32_t bits)
{
    return (1 << (bits - 1)) - 1;
}

float whim_encode_int_limit(int32_t bits)
{
    return max_scale * (float)most_code(bits);
}

/* BF16 has fewer bits than F16, but for the smallest numbers: those are multiples of the least
 * step, exact in both, and rounded up, because so few steps could miss the largest weight by
 * much. */
static float round_scale(float signed_scale, whim_dtype type)
{
    float scale = fabsf(signed_scale);
    if (type == WHIM_DTYPE_BF16) {
        scale = whim_bf16_to_f32(whim_f32_to_bf16(scale));
    }
    scale = scale < 128 * min_scale ? ceilf(scale / min_scale) * min_scale
                                    : whim_f16_to_f32(whim_f32_to_f16(scale));
    scale = scale < min_scale ? min_scale : scale > max_scale ? max_scale : scale;
    return copysignf(scale, signed_scale);
}

/* The code of a weight in steps of its scale. Comparisons are those of integers: with floats the
 * loops below would not vectorise. */
static inline int32_t nearest(float steps, int32_t most)
{
    const float magic = 0x1.8p23f; /* as whim_rintf_small */
    int32_t code = (int32_t)(whim_f32_bits(steps + magic) - whim_f32_bits(magic));
    code = code < most ? code : most;
    return code > -most - 1 ? code : -most - 1;
}

/* What codes of one scale do: their squared error, and the scale that would fit them best, 0 where
 * all are 0. */
static float try_scale(const float *w, float scale, int32_t most, float *better)
{
    float off[LANES] = {0}, product[LANES] = {0}, square[LANES] = {0};
    float per = 1.0f / scale;
    for (int i = 0; i < WHIM_GROUP; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            float code = (float)nearest(w[i + j] * per, most);
            float left = w[i + j] - code * scale;
            off[j] += left * left;
            product[j] += w[i + j] * code;
            square[j] += code * code;
        }
    }
    for (int j = 1; j < LANES; j++) {
        off[0] += off[j];
        product[0] += product[j];
        square[0] += square[j];
    }
    *better = square[0] > 0.0f ? product[0] / square[0] : 0.0f;
    return off[0];
}

/* The weight with the largest magnitude, with its sign. */
static float largest(const float *w)
{
    float most = 0.0f;
    for (int i = 0; i < WHIM_GROUP; i++) {
        most = fabsf(w[i]) > fabsf(most) ? w[i] : most;
    }
    return most;
}

/* The largest weight gets code -7 to -8.5, where that is cut; each such scale, and what refitting
 * makes of it. */
static float search_scale(const float *w, int32_t most, whim_dtype type)
{
    /* About 30 % less squared error than absmax / 7 for normal weights (quant_encode_test prints
     * it). */
    static const float parts[] = {7.0f, 7.5f, 8.0f, 8.5f};
    float extreme = largest(w), best = 0.0f, least = INFINITY;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        float scale = round_scale(-extreme / parts[i], type), better;
        for (int fit = 0; fit < 2 && scale != 0.0f; fit++) {
            float error = try_scale(w, scale, most, &better);
            best = error < least ? scale : best;
            least = error < least ? error : least;
            scale = better != 0.0f ? round_scale(better, type) : 0.0f;
        }
    }
    return best;
}

float whim_encode_int(const float w[WHIM_GROUP], int32_t bits, whim_dtype scale_type,
                      int8_t codes[WHIM_GROUP])
{
    float absmax = whim_absmax(w, WHIM_GROUP), scale = 1.0f; /* of zeros: any would do */
    int32_t most = most_code(bits);
    whim_check(absmax <= whim_encode_int_limit(bits));
    if (absmax > 0.0f) {
        scale = bits == 4 ? search_scale(w, most, scale_type)
                          : round_scale(absmax / (float)most, scale_type);
    }
    for (int i = 0; i < WHIM_GROUP; i++) {
        codes[i] = (int8_t)nearest(w[i] / scale, most);
    }
    return scale;
}

uint8_t whim_f32_to_e4m3(float x)
{
    uint32_t u = whim_f32_bits(x), mag = u & 0x7fffffffu;
    uint32_t most = whim_f32_bits(e4m3_max);
    mag = mag < most ? mag : most;
    /* Three bits of mantissa are left: the addition carries into the exponent by itself. */
    uint32_t normal = (mag + 0x7ffffu + (mag >> 20 & 1u) - (120u << 23)) >> 20;
    /* The addition rounds to a multiple of 2^-9, the spacing of subnormal codes. */
    uint32_t subnormal = whim_f32_bits(whim_f32_from_bits(mag) + 0x1p14f) - 0x46800000u;
    uint32_t code = whim_select_below(mag, 0x3c800000u, subnormal, normal); /* 2^-6 */
    return (uint8_t)(code | (u >> 24 & 0x80u));
}

float whim_fp8_scale_for(float absmax)
{
    float scale = absmax / e4m3_max;
    return absmax == 0.0f ? 1.0f : scale < FLT_MIN ? FLT_MIN : scale;
}

void whim_encode_fp8(const float *w, int64_t n, float scale, uint8_t *codes)
{
    for (int64_t i = 0; i < n; i++) {
        codes[i] = whim_f32_to_e4m3(w[i] / scale);
    }
}

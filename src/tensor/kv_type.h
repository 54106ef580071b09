/* SPDX-License-Identifier: Apache-2.0 */
/* The types that keys and values are stored in; all facts come from kv_type.def. A type of its own
 * and not an element type, because the scale of Q8 belongs to a whole vector (one token, one KV
 * head), whose length is the model's. A vector of Q8: int8 q_i and one F32 s, x_i = q_i * s.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_KV_TYPE_H
#define WHIM_TENSOR_KV_TYPE_H

#include "tensor/half.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum whim_kv_type {
#define WHIM_KV_TYPE(name, bytes, scale_bytes) WHIM_KV_##name,
#include "tensor/kv_type.def"
#undef WHIM_KV_TYPE
    WHIM_KV_TYPE_COUNT
} whim_kv_type;

/* As in kv_type.def, e.g. "BF16". `type` must be valid. */
const char *whim_kv_type_name(whim_kv_type type);

/* Find by name without regard to case ("bf16"); false when unknown. */
bool whim_kv_type_from_name(const char *name, whim_kv_type *out);

/* Bytes of the stored form of a vector of n elements, scale included. */
int64_t whim_kv_vector_bytes(whim_kv_type type, int64_t n);

/* THE LAW of storing a vector as Q8: NaN counts as 0 and magnitudes are limited to below 2^127, so
 * that q * s is finite; s = largest magnitude / 127, or 0 where that would be subnormal; q = x * (1
 * / s) rounded half to even, which needs no clamp, or 0. */
static inline float whim_kv_q8_limit(float x)
{
    return whim_f32_limit(x, 0x7effffffu);
}

static inline float whim_kv_q8_scale(const float *x, int64_t n)
{
    int32_t top = 0; /* bits of the largest magnitude; as integers they are ordered */
    for (int64_t i = 0; i < n; i++) {
        int32_t mag = (int32_t)(whim_f32_bits(whim_kv_q8_limit(x[i])) & 0x7fffffffu);
        top = mag > top ? mag : top;
    }
    float s = whim_f32_from_bits((uint32_t)top) / 127.0f;
    return s >= 0x1p-126f ? s : 0.0f;
}

/* Some of the vector's elements, s from all of them. */
static inline void whim_kv_q8_round(const float *restrict x, int64_t n, float s, int8_t *restrict q)
{
    float inv = s > 0.0f ? 1.0f / s : 0.0f;
    for (int64_t i = 0; i < n; i++) {
        q[i] = (int8_t)(whim_f32_bits(whim_kv_q8_limit(x[i]) * inv + 0x1.8p23f) & 0xffu);
    }
}

#endif

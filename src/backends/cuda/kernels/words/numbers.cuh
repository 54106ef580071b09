/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions and arithmetic that C has no words for. */
#pragma once

static float half_to_float(uint16_t h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

/* 2^f and 1 / f by the unit's own functions: not of the last bit. */
static float exp2_fast(float f)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(f));
    return y;
}

static float reciprocal_fast(float f)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(f));
    return y;
}

/* Both as BF16, rounded to nearest. */
static uint32_t pack_bf16(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/* Whole numbers as F16. */
static uint32_t pack_f16(int low, int high)
{
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"((float)high), "f"((float)low));
    return both;
}

/* Two numbers of F16 at once: v + by, v * by + more; and of BF16. Each is rounded once. */
static uint32_t half2_add(uint32_t v, uint32_t by)
{
    uint32_t out;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(v), "r"(by));
    return out;
}

static uint32_t half2_fma(uint32_t v, uint32_t by, uint32_t more)
{
    uint32_t out;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(v), "r"(by), "r"(more));
    return out;
}

static uint32_t bf16x2_fma(uint32_t v, uint32_t by, uint32_t more)
{
    uint32_t out;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(v), "r"(by), "r"(more));
    return out;
}

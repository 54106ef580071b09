/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of activations, stored and loaded. */
#include "tensor/act.h"

#include "tensor/fp8.h"
#include "tensor/half.h"
#include "tensor/quant_encode.h"
#include "tensor/unpack.h"

#include <string.h>

static const struct {
    const char *name;
    int64_t elems, bytes;
} types[] = {
#define WHIM_ACT(name, text, elems, bytes) {text, elems, bytes},
#include "tensor/act.def"
#undef WHIM_ACT
};

const char *whim_act_name(whim_act type)
{
    return types[type].name;
}

int64_t whim_act_block(whim_act type)
{
    return types[type].elems;
}

int64_t whim_act_bytes(whim_act type, int64_t n)
{
    return n / types[type].elems * types[type].bytes;
}

/* The rules of whim_q8_quantize32, for a block of FP8. */
static void fp8_store(const float *x, uint8_t *block)
{
    uint32_t top = 0; /* bits of the largest magnitude; as integers they are ordered */
    for (int i = 0; i < WHIM_FP8_BLOCK; i++) {
        uint32_t mag = whim_f32_bits(x[i]) & 0x7fffffffu;
        top = mag > top ? mag : top;
    }
    float d = whim_f32_from_bits(top) / 448.0f;
    bool finite = top < 0x7f800000u;
    bool usable = finite && d >= 0x1p-126f;
    float inv = usable ? 1.0f / d : 0.0f;
    for (int i = 0; i < WHIM_FP8_BLOCK; i++) {
        block[WHIM_FP8_CODES_AT + i] = usable ? whim_f32_to_e4m3(x[i] * inv) : 0;
    }
    d = usable ? d : finite ? 0.0f : NAN;
    memcpy(block, &d, sizeof d);
}

void whim_act_store(whim_act type, const float *x, void *row, int64_t n)
{
    char *block = row;
    for (int64_t i = 0; i < n; i += types[type].elems, block += types[type].bytes) {
        switch (type) {
        case WHIM_ACT_BF16: {
            uint16_t bits = whim_f32_to_bf16(x[i]);
            memcpy(block, &bits, sizeof bits);
            break;
        }
        case WHIM_ACT_Q8:
            whim_q8_quantize32(x + i, (whim_q8_block *)(void *)block);
            break;
        case WHIM_ACT_FP8:
            fp8_store(x + i, (uint8_t *)block);
            break;
        default:
            memcpy(block, x + i, sizeof *x);
        }
    }
}

static void q8_load(const whim_q8_block *block, float *x)
{
    for (int i = 0; i < WHIM_GROUP; i++) {
        x[i] = (float)block->q[i] * block->s;
    }
}

void whim_act_load(whim_act type, const void *row, float *x, int64_t n)
{
    const char *block = row;
    for (int64_t i = 0; i < n; i += types[type].elems, block += types[type].bytes) {
        switch (type) {
        case WHIM_ACT_BF16: {
            uint16_t bits;
            memcpy(&bits, block, sizeof bits);
            x[i] = whim_bf16_to_f32(bits);
            break;
        }
        case WHIM_ACT_Q8:
            q8_load((const whim_q8_block *)(const void *)block, x + i);
            break;
        case WHIM_ACT_FP8:
            whim_fp8_widen(block, x + i);
            break;
        default:
            memcpy(x + i, block, sizeof *x);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking of GGUF's IQ2 and IQ3 types: entries of a code book with signs. Blocks of 256 = 8
 * groups. Layouts as in unpack.h. Signs are bits, of the first weight in the lowest place; seven of
 * eight are kept where the eighth makes their number even.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_UNPACK_IQ_H
#define WHIM_TENSOR_UNPACK_IQ_H

#include "tensor/iq_grids.h"
#include "tensor/unpack.h"

static inline uint32_t whim_load_u32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline int whim_eight_signs(uint32_t seven)
{
    return (int)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

/* Eight weights of an entry of IQ2. */
static inline void whim_iq2_eight(uint16_t entry, int signs, int8_t *q)
{
    for (int i = 0; i < 8; i++) {
        q[i] = whim_iq2_values[(entry >> 2 * i & 3) | (signs >> i & 1) << 2];
    }
}

/* Eight weights of two entries of IQ3. */
static inline void whim_iq3_eight(const int8_t values[16], const uint16_t entries[2], int signs,
                                  int8_t *q)
{
    for (int i = 0; i < 8; i++) {
        q[i] = values[(entries[i / 4] >> 3 * (i % 4) & 7) | (signs >> i & 1) << 3];
    }
}

/* d h@0, for each group u8 entries[4], u32 signs 4 x 7 bits and a scale of 4, @2 */
static inline void whim_unpack_iq2_xxs(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 66, *at = b + 2 + 8 * (group % 8);
    uint32_t packed = whim_load_u32(at + 4);
    int sc = 2 * (int)(packed >> 28) + 1;
    whim_group_scales(out, whim_load_f16(b) * 0.125f, sc, sc);
    for (int i = 0; i < 4; i++) {
        whim_iq2_eight(whim_iq2_xxs_grid[at[i]], whim_eight_signs(packed >> 7 * i & 127),
                       out->q + 8 * i);
    }
}

/* d h@0, u16 (signs << 9 | entry)[32]@2, scales of 4 bits, one per 16, u8[8]@66 */
static inline void whim_unpack_iq2_xs(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 74, *at = b + 2 + 8 * (group % 8);
    int scales = b[66 + group % 8];
    whim_group_scales(out, whim_load_f16(b) * 0.125f, 2 * (scales & 15) + 1, 2 * (scales >> 4) + 1);
    for (int i = 0; i < 4; i++) {
        uint32_t packed = at[2 * i] | (uint32_t)at[2 * i + 1] << 8;
        whim_iq2_eight(whim_iq2_xs_grid[packed & 511], whim_eight_signs(packed >> 9),
                       out->q + 8 * i);
    }
}

/* d h@0, u8 entries[32]@2, u8 signs[32]@34, high 2 bits of the entries u8[8]@66, scales of 4 bits,
 * one per 16, u8[8]@74 */
static inline void whim_unpack_iq2_s(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 82, *at = b + 2 + 4 * (group % 8);
    int high = b[66 + group % 8], scales = b[74 + group % 8];
    whim_group_scales(out, whim_load_f16(b) * 0.125f, 2 * (scales & 15) + 1, 2 * (scales >> 4) + 1);
    for (int i = 0; i < 4; i++) {
        int entry = at[i] | (high >> 2 * i & 3) << 8;
        whim_iq2_eight(whim_iq2_s_grid[entry], at[32 + i], out->q + 8 * i);
    }
}

/* d h@0, u8 entries[64]@2, for each group u32 signs 4 x 7 bits and a scale of 4, @66 */
static inline void whim_unpack_iq3_xxs(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 98, *at = b + 2 + 8 * (group % 8);
    uint32_t packed = whim_load_u32(b + 66 + 4 * (group % 8));
    int sc = 2 * (int)(packed >> 28) + 1;
    whim_group_scales(out, whim_load_f16(b) * 0.25f, sc, sc);
    for (int i = 0; i < 4; i++) {
        uint16_t entries[2] = {whim_iq3_xxs_grid[at[2 * i]], whim_iq3_xxs_grid[at[2 * i + 1]]};
        whim_iq3_eight(whim_iq3_xxs_values, entries, whim_eight_signs(packed >> 7 * i & 127),
                       out->q + 8 * i);
    }
}

/* d h@0, u8 entries[64]@2, ninth bits of the entries u8[8]@66, u8 signs[32]@74, scales of 4 bits
 * u8[4]@106 */
static inline void whim_unpack_iq3_s(const void *row, int64_t group, whim_quant_group *out)
{
    const uint8_t *b = (const uint8_t *)row + group / 8 * 110, *at = b + 2 + 8 * (group % 8);
    int j = (int)(group % 8), high = b[66 + j];
    int sc = 2 * (b[106 + j / 2] >> 4 * (j % 2) & 15) + 1;
    whim_group_scales(out, whim_load_f16(b), sc, sc);
    for (int i = 0; i < 4; i++) {
        uint16_t entries[2] = {whim_iq3_s_grid[at[2 * i] | (high >> 2 * i & 1) << 8],
                               whim_iq3_s_grid[at[2 * i + 1] | (high >> (2 * i + 1) & 1) << 8]};
        whim_iq3_eight(whim_iq3_s_values, entries, b[74 + 4 * j + i], out->q + 8 * i);
    }
}

#endif

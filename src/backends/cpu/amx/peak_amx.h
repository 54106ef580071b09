/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles' part of peak_macs: dots of full tiles, registers only, four sums in turn. */
#ifndef WHIM_BACKENDS_CPU_AMX_PEAK_AMX_H
#define WHIM_BACKENDS_CPU_AMX_PEAK_AMX_H

#include "backends/cpu/amx/bf16_amx.h"
#include "tensor/dtype.h"

#include <string.h>

#define PEAK_TILES

#define PEAK_ROUND(dot) \
    do {                \
        dot(0, 4, 6);   \
        dot(1, 4, 7);   \
        dot(2, 5, 6);   \
        dot(3, 5, 7);   \
    } while (0)

/* Multiply-adds done; 0 for types that the tiles do not take. */
static int64_t peak_tiles(whim_dtype dtype, int64_t rounds)
{
    bool quant = whim_dtype_get(dtype)->kind == WHIM_DTYPE_KIND_QUANT;
    if (!quant && !whim_cpu_wants_bf16(dtype)) {
        return 0;
    }
    char small[TILE_ROWS * TILE_ROW_BYTES]; /* a small number as int8 and as BF16 */
    memset(small, 0x3c, sizeof small);
    tiles_want(&bf16_shapes[BF16_ROWS - 1]);
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_LOAD(4, small, TILE_ROW_BYTES);
    TILE_LOAD(5, small, TILE_ROW_BYTES);
    TILE_LOAD(6, small, TILE_ROW_BYTES);
    TILE_LOAD(7, small, TILE_ROW_BYTES);
    for (int64_t i = 0; i < rounds; i++) {
        if (quant) {
            PEAK_ROUND(TILE_DOT_INT8);
        } else {
            PEAK_ROUND(TILE_DOT_BF16);
        }
    }
    tiles_release();
    return rounds * 4 * TILE_ROWS * WHIM_CPU_TILE * (quant ? 64 : 32);
}

#endif

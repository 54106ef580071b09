/* SPDX-License-Identifier: Apache-2.0 */
/* Products of BF16 rows with BF16 tiles: 32 k a step, in order, for every number of rows. Blocks of
 * 32 rows x 32 outputs use all eight tile registers; k is cut so that the weights of a block stay
 * in the first cache for all rows, and the sums wait in memory, unrounded, for the next cut.
 * Included after codes_tmpl.h. */
#ifndef WHIM_BACKENDS_CPU_AMX_BF16_AMX_H
#define WHIM_BACKENDS_CPU_AMX_BF16_AMX_H

#include "backends/cpu/amx/tiles_amx.h"

#define PRODUCT_BF16
#define PRODUCT_BF16_ORDER WHIM_CPU_BF16_TWO

enum {
    BF16_ROWS = 2 * TILE_ROWS, /* rows of a block */
    BF16_TILE = 16 * 32,       /* elements of a tile register */
    BF16_CUT = 8,              /* steps of 32 k */
};

/* Shapes for blocks of 1 .. 32 rows: 0 and 1 sums of the first 16, 2 and 3 of the others, 4 and 5
 * the rows, 6 and 7 the weights. Registers of no row have one, and are not used. */
#define BF16_SHAPE(first, second)                                              \
    {                                                                          \
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = { \
            first,                                                             \
            first,                                                             \
            second,                                                            \
            second,                                                            \
            first,                                                             \
            second,                                                            \
            16,                                                                \
            16                                                                 \
        }                                                                      \
    }
#define BF16_FIRST(n) BF16_SHAPE(n, 1)
#define BF16_SECOND(n) BF16_SHAPE(16, n)
#define BF16_SIXTEEN(X)                                                                      \
    X(1), X(2), X(3), X(4), X(5), X(6), X(7), X(8), X(9), X(10), X(11), X(12), X(13), X(14), \
        X(15), X(16)
static const tile_shapes bf16_shapes[BF16_ROWS] = {BF16_SIXTEEN(BF16_FIRST),
                                                   BF16_SIXTEEN(BF16_SECOND)};

/* One block: w and w2 (NULL: none) two tiles of outputs; a2 the rows after the first 16, whose sums
 * follow those of the first; w2's sums are out_next on. A step of the rows is a_step or a2_step
 * elements on, and the weights' first meets step `first` of the rows. */
typedef struct bf16_block {
    const uint16_t *a, *a2, *w, *w2;
    float *out;
    int64_t a_step, a2_step, out_next, first;
} bf16_block;

/* Steps s0 .. s1-1; `rows2`, `tiles2`: whether there are second ones, constants. */
ALWAYS_INLINE void bf16_steps(const bf16_block *x, int64_t s0, int64_t s1, bool rows2, bool tiles2)
{
    float *out = x->out, *out2 = out + x->out_next;
    const int64_t down = TILE_ROWS * WHIM_CPU_TILE;
    TILE_LOAD(0, out, TILE_ROW_BYTES);
    if (tiles2) {
        TILE_LOAD(1, out2, TILE_ROW_BYTES);
    }
    if (rows2) {
        TILE_LOAD(2, out + down, TILE_ROW_BYTES);
    }
    if (rows2 && tiles2) {
        TILE_LOAD(3, out2 + down, TILE_ROW_BYTES);
    }
    const uint16_t *w = x->w + s0 * BF16_TILE, *w2 = tiles2 ? x->w2 + s0 * BF16_TILE : NULL;
    const uint16_t *a = x->a + (x->first + s0) * x->a_step;
    const uint16_t *a2 = x->a2 + (x->first + s0) * x->a2_step;
    for (int64_t s = s0; s < s1; s++) {
        TILE_LOAD(4, a, TILE_ROW_BYTES);
        TILE_LOAD(6, w, TILE_ROW_BYTES);
        TILE_DOT_BF16(0, 4, 6);
        if (tiles2) {
            TILE_LOAD(7, w2, TILE_ROW_BYTES);
            TILE_DOT_BF16(1, 4, 7);
        }
        if (rows2) {
            TILE_LOAD(5, a2, TILE_ROW_BYTES);
            TILE_DOT_BF16(2, 5, 6);
        }
        if (rows2 && tiles2) {
            TILE_DOT_BF16(3, 5, 7);
        }
        a += x->a_step;
        a2 += x->a2_step;
        w += BF16_TILE;
        w2 += tiles2 ? BF16_TILE : 0;
    }
    TILE_STORE(0, out, TILE_ROW_BYTES);
    if (tiles2) {
        TILE_STORE(1, out2, TILE_ROW_BYTES);
    }
    if (rows2) {
        TILE_STORE(2, out + down, TILE_ROW_BYTES);
    }
    if (rows2 && tiles2) {
        TILE_STORE(3, out2 + down, TILE_ROW_BYTES);
    }
}

/* All rows of x, of `pitch` steps, in blocks of `block` (at most 32); `rows` is a multiple of
 * it. */
static void bf16_blocks(bf16_block x, int64_t pitch, int64_t n_step, int64_t rows, int64_t block)
{
    tiles_want(&bf16_shapes[block - 1]);
    for (int64_t s0 = 0; s0 < n_step; s0 += BF16_CUT) {
        int64_t s1 = n_step - s0 < BF16_CUT ? n_step : s0 + BF16_CUT;
        bf16_block at = x;
        for (int64_t r = 0; r < rows; r += block) {
            if (block > TILE_ROWS) {
                x.w2 != NULL ? bf16_steps(&at, s0, s1, true, true)
                             : bf16_steps(&at, s0, s1, true, false);
            } else {
                x.w2 != NULL ? bf16_steps(&at, s0, s1, false, true)
                             : bf16_steps(&at, s0, s1, false, false);
            }
            at.a += block * pitch * 32;
            at.a2 += block * pitch * 32;
            at.out += block * WHIM_CPU_TILE;
        }
    }
}

/* out = all rows with the tile w, out + out_next with w2 unless that is NULL; n_step * 32
 * inputs. */
static void bf16_product(whim_cpu_bf16_rows a, const uint16_t *w, const uint16_t *w2,
                         int64_t n_step, int64_t rows, float *out, int64_t out_next)
{
    int64_t full = rows / BF16_ROWS * BF16_ROWS, left = rows - full;
    bf16_block x = {.a = a.at,
                    .a2 = a.at + a.pitch * BF16_TILE,
                    .w = w,
                    .w2 = w2,
                    .out = out,
                    .a_step = BF16_TILE,
                    .a2_step = BF16_TILE,
                    .out_next = out_next,
                    .first = a.first};
    memset(out, 0, (size_t)(rows * WHIM_CPU_TILE) * sizeof *out);
    if (w2 != NULL) {
        memset(out + out_next, 0, (size_t)(rows * WHIM_CPU_TILE) * sizeof *out);
    }
    if (full > 0) {
        bf16_blocks(x, a.pitch, n_step, full, BF16_ROWS);
    }
    if (left > 0) {
        x.a += full * a.pitch * 32;
        x.a2 += full * a.pitch * 32;
        x.out += full * WHIM_CPU_TILE;
        x.a_step = (left < TILE_ROWS ? left : TILE_ROWS) * 32;
        x.a2_step = (left - TILE_ROWS) * 32; /* not used unless it is positive */
        bf16_blocks(x, a.pitch, n_step, left, left);
    }
}

#endif

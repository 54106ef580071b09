/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 16 or 8 int8 rows with an opened tile: its groups are B tiles as they lie (8 rows of
 * 4 k x 16 outputs), 32 k of the rows are an A tile. A group's dots go through memory to the vector
 * unit, which scales and adds them in order; the tiles work a few groups ahead. The dots are exact,
 * so these are the bits of quad_rows, which takes other numbers of rows and the types with two
 * sub-scales. Included after quad_tmpl.h. */
#ifndef WHIM_BACKENDS_CPU_AMX_ROWS_AMX_H
#define WHIM_BACKENDS_CPU_AMX_ROWS_AMX_H

#include "backends/cpu/amx/tiles_amx.h"

enum { INT8_SUMS = TILE_ROWS * WHIM_CPU_TILE }; /* room for the dots of a group */

/* 0..3 sums, 4 and 5 activations, 6 and 7 weights. */
#define INT8_SHAPES(n)                                  \
    {                                                   \
        .palette = 1, .rows = {n, n, n, n, n, n, 8, 8}, \
        .row_bytes = {64, 64, 64, 64, 32, 32, 64, 64},  \
    }
static const tile_shapes int8_shapes_16 = INT8_SHAPES(16), int8_shapes_8 = INT8_SHAPES(8);

/* What one group adds to the sums of `rows` (a constant) rows. */
ALWAYS_INLINE void int8_scale(const whim_cpu_form form, int rows, const open_tile *tile, int64_t g,
                              const int32_t *dots, const whim_cpu_act_meta *meta, vf *acc)
{
    quad_scales w = {.d = vf_load(tile->d + g * OPEN_SCALES)};
    if (form.has_min) {
        w.m = vf_load(tile->m + g * OPEN_SCALES);
    }
    quad_subs(form, open_tile_subs(form, tile, g), 0, &w);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        acc[r] =
            quad_step(acc[r], form, vb_load(dots + r * WHIM_CPU_TILE), vi_set1(0), &w, meta + r);
    }
}

/* Step g + at of the pipeline: the dots of that group begin in tile c, those of two groups before
 * leave tile c_done, those of three before are scaled. Fine steps, because the processor looks
 * ahead a few hundred instructions only. */
#define INT8_STEP(at, c, a, b, c_done)                                                \
    do {                                                                              \
        if (g + (at) < n_group) {                                                     \
            TILE_ZERO(c);                                                             \
            TILE_LOAD(a, q + (g + (at)) * block * WHIM_GROUP, WHIM_GROUP);            \
            TILE_LOAD(b, tile->values + (g + (at)) * WHIM_CPU_CODES, TILE_ROW_BYTES); \
            TILE_DOT_INT8(c, a, b);                                                   \
        }                                                                             \
        if (g + (at) >= 2 && g + (at) < n_group + 2) {                                \
            TILE_STORE(c_done, sums[((at) + 2) % 4], TILE_ROW_BYTES);                 \
        }                                                                             \
        if (g + (at) >= 3 && g + (at) < n_group + 3) {                                \
            int8_scale(form, rows, tile, g + (at)-3, sums[((at) + 1) % 4],            \
                       meta + (g + (at)-3) * block, acc);                             \
        }                                                                             \
    } while (0)

/* `rows` (a constant, 16 or 8) rows of a block of `block`. */
ALWAYS_INLINE void int8_rows(const whim_cpu_form form, int rows, const open_tile *tile,
                             int64_t n_group, const int8_t *q, const whim_cpu_act_meta *meta,
                             int64_t block, float *out)
{
    _Alignas(64) int32_t sums[4][INT8_SUMS];
    vf acc[TILE_ROWS];
    tiles_want(rows == TILE_ROWS ? &int8_shapes_16 : &int8_shapes_8);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        acc[r] = vf_load(out + r * WHIM_CPU_TILE);
    }
    for (int64_t g = 0; g < n_group + 3; g += 4) {
        INT8_STEP(0, 0, 4, 6, 2);
        INT8_STEP(1, 1, 5, 7, 3);
        INT8_STEP(2, 2, 4, 6, 0);
        INT8_STEP(3, 3, 5, 7, 1);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        vf_store(out + r * WHIM_CPU_TILE, acc[r]);
    }
}

/* `rows` (a constant of PRODUCT_STEPS) rows; see quad_rows. */
ALWAYS_INLINE void product_rows(const whim_cpu_form form, int rows, const open_tile *tile,
                                int64_t n_group, const int8_t *q, const whim_cpu_act_meta *meta,
                                int64_t block, float *out)
{
    if (form.subs < 2 && rows >= PRODUCT_ROWS) {
        int8_rows(form, rows, tile, n_group, q, meta, block, out);
        return;
    }
    for (int r = 0; r < rows; r += PRODUCT_ROWS) {
        quad_rows(form, rows < PRODUCT_ROWS ? rows : PRODUCT_ROWS, tile, n_group,
                  q + r * WHIM_GROUP, meta + r, block, out + r * WHIM_CPU_TILE);
    }
}

#undef PRODUCT_STEPS
#define PRODUCT_STEPS(STEP) STEP(TILE_ROWS) STEP(PRODUCT_ROWS) STEP(4) STEP(PRODUCT_TAIL)
#define PRODUCT_END() tiles_release()

/* Groups of a tile that are opened at once: they stay in the first cache for all rows. */
#define CHUNK_GROUPS 32

/* Half of the second cache of the machines that have tiles. */
#define CHUNK_BYTES (1 << 20)

#endif

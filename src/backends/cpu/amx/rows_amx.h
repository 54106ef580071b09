/* SPDX-License-Identifier: Apache-2.0 */
/* Products of 16 or 8 int8 rows with an opened tile: its groups are B tiles as they lie (8 rows of 4 k x 16
 * outputs), 32 k of the rows are an A tile. A group's dots go through memory to the vector unit, which scales
 * and adds them in order; the tiles work one batch of groups ahead. The dots are exact, so these are the
 * bits of quad_rows, which takes other numbers of rows and the types with two sub-scales.
 * Included after quad_tmpl.h. */
#ifndef WHIM_BACKENDS_CPU_AMX_ROWS_AMX_H
#define WHIM_BACKENDS_CPU_AMX_ROWS_AMX_H

#include "backends/cpu/amx/tiles_amx.h"

enum {
    INT8_BATCH = 4,                        /* groups whose dots are under way together */
    INT8_SUMS = TILE_ROWS * WHIM_CPU_TILE, /* room for the dots of a group */
};

/* 0..3 sums, 4 and 5 activations, 6 and 7 weights. */
#define INT8_SHAPES(n)                                  \
    {                                                   \
        .palette = 1, .rows = {n, n, n, n, n, n, 8, 8}, \
        .row_bytes = {64, 64, 64, 64, 32, 32, 64, 64},  \
    }
static const tile_shapes int8_shapes_16 = INT8_SHAPES(16), int8_shapes_8 = INT8_SHAPES(8);

/* Dots of group g: sums in tile c, by way of tiles a and b. */
#define INT8_DOT(c, a, b, g)                                       \
    do {                                                           \
        TILE_ZERO(c);                                              \
        TILE_LOAD(a, q + (g)*block * WHIM_GROUP, WHIM_GROUP);      \
        TILE_LOAD(b, values + (g)*WHIM_CPU_CODES, TILE_ROW_BYTES); \
        TILE_DOT_INT8(c, a, b);                                    \
    } while (0)

/* Dots of n (at most INT8_BATCH) groups into sums [n][16 rows][16]. */
static inline void int8_dots(const int8_t *values, const int8_t *q, int64_t block, int64_t n,
                             int32_t *sums)
{
    if (n == INT8_BATCH) {
        INT8_DOT(0, 4, 6, 0);
        INT8_DOT(1, 5, 7, 1);
        INT8_DOT(2, 4, 6, 2);
        INT8_DOT(3, 5, 7, 3);
        TILE_STORE(0, sums, TILE_ROW_BYTES);
        TILE_STORE(1, sums + INT8_SUMS, TILE_ROW_BYTES);
        TILE_STORE(2, sums + 2 * INT8_SUMS, TILE_ROW_BYTES);
        TILE_STORE(3, sums + 3 * INT8_SUMS, TILE_ROW_BYTES);
        return;
    }
    for (int64_t g = 0; g < n; g++) {
        INT8_DOT(0, 4, 6, g);
        TILE_STORE(0, sums + g * INT8_SUMS, TILE_ROW_BYTES);
    }
}

/* `rows` (a constant, 16 or 8) rows of a block of `block`. */
ALWAYS_INLINE void int8_rows(const whim_cpu_form form, int rows, const open_tile *tile,
                             int64_t n_group, const int8_t *q, const whim_cpu_act_meta *meta,
                             int64_t block, float *out)
{
    _Alignas(64) int32_t sums[2][INT8_BATCH * INT8_SUMS];
    int64_t n_batch = (n_group + INT8_BATCH - 1) / INT8_BATCH;
    vf acc[TILE_ROWS];
    tiles_want(rows == TILE_ROWS ? &int8_shapes_16 : &int8_shapes_8);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        acc[r] = vf_load(out + r * WHIM_CPU_TILE);
    }
    for (int64_t b = 0; b <= n_batch; b++) {
        int64_t g = b * INT8_BATCH;
        if (b < n_batch) {
            int64_t n = n_group - g < INT8_BATCH ? n_group - g : INT8_BATCH;
            int8_dots(tile->values + g * WHIM_CPU_CODES, q + g * block * WHIM_GROUP, block, n,
                      sums[b & 1]);
        }
        if (b == 0) {
            continue;
        }
        const int32_t *dots = sums[(b - 1) & 1];
        int64_t end = g < n_group ? g : n_group;
        for (g -= INT8_BATCH; g < end; g++, dots += INT8_SUMS) {
            quad_scales w = {.d = vf_load(tile->d + g * OPEN_SCALES)};
            if (form.has_min) {
                w.m = vf_load(tile->m + g * OPEN_SCALES);
            }
            quad_subs(form, open_tile_subs(form, tile, g), 0, &w);
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++) {
                acc[r] = quad_step(acc[r], form, vb_load(dots + r * WHIM_CPU_TILE), vi_set1(0), &w,
                                   meta + g * block + r);
            }
        }
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

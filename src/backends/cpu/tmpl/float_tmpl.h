/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of products with float weights and F32 rows: lanes along outputs, acc = fma(w, x, acc) over k in
 * order, FP8 block by block as whim_fp8_dot_step. Included once per level after codes_tmpl.h. */
#include "tensor/fp8.h"

enum { FLOAT_ROWS = 4 };

/* VF weights of a [k][16] tile, from element `at`. */
ALWAYS_INLINE vf float_at(whim_dtype type, const void *tile, int64_t at)
{
    return type == WHIM_DTYPE_F32    ? vf_load((const float *)tile + at)
           : type == WHIM_DTYPE_F16  ? vf_load_f16((const uint16_t *)tile + at)
           : type == WHIM_DTYPE_BF16 ? vf_load_bf16((const uint16_t *)tile + at)
                                     : vf_load_e4m3((const uint8_t *)tile + at);
}

/* k0 .. k1-1 of a tile for `rows` (a constant) rows, added to acc. */
ALWAYS_INLINE void float_stretch(whim_dtype type, int rows, const void *tile, int64_t k0,
                                 int64_t k1, const float *x, int64_t x_stride,
                                 vf acc[FLOAT_ROWS][TILE_VECS])
{
    for (int64_t i = k0; i < k1; i++) {
        vf weight[TILE_VECS];
        for (int v = 0; v < TILE_VECS; v++) {
            weight[v] = float_at(type, tile, i * WHIM_CPU_TILE + v * VF);
        }
        for (int r = 0; r < rows; r++) {
            vf value = vf_set1(x[r * x_stride + i]);
            for (int v = 0; v < TILE_VECS; v++) {
                acc[r][v] = vf_fma(weight[v], value, acc[r][v]);
            }
        }
    }
}

/* out [rows][16] = rows of x times one tile. */
ALWAYS_INLINE void float_rows(whim_dtype type, int rows, const void *tile, int64_t k,
                              const float *x, int64_t x_stride, float *out)
{
    vf acc[FLOAT_ROWS][TILE_VECS];
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < TILE_VECS; v++) {
            acc[r][v] = vf_set1(0.0f);
        }
    }
    if (type != WHIM_DTYPE_FP8) {
        float_stretch(type, rows, tile, 0, k, x, x_stride, acc);
    } else {
        const float *scales = (const float *)((const char *)tile + k * WHIM_CPU_TILE);
        for (int64_t i = 0; i < k; i += WHIM_FP8_BLOCK, scales += WHIM_CPU_TILE) {
            vf part[FLOAT_ROWS][TILE_VECS];
            for (int r = 0; r < rows; r++) {
                for (int v = 0; v < TILE_VECS; v++) {
                    part[r][v] = vf_set1(0.0f);
                }
            }
            float_stretch(type, rows, tile, i, i + WHIM_FP8_BLOCK, x, x_stride, part);
            for (int r = 0; r < rows; r++) {
                for (int v = 0; v < TILE_VECS; v++) {
                    acc[r][v] = vf_fma(part[r][v], vf_load(scales + v * VF), acc[r][v]);
                }
            }
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < TILE_VECS; v++) {
            vf_store(out + r * WHIM_CPU_TILE + v * VF, acc[r][v]);
        }
    }
}

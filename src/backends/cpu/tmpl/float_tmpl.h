/* SPDX-License-Identifier: Apache-2.0 */
/* Inner loops of products with float weights and F32 rows: lanes along outputs, acc = fma(w, x,
 * acc) over k in order. Included once per level after codes_tmpl.h. */
#include "tensor/fp8.h"

enum { FLOAT_ROWS = 4 };

/* Row i of a [k][16] tile. */
ALWAYS_INLINE void float_16(whim_dtype type, const void *tile, int64_t i, vf out[TILE_VECS])
{
    if (type == WHIM_DTYPE_FP8) {
        vf_load_e4m3((const uint8_t *)tile + i * WHIM_CPU_TILE, out);
        return;
    }
    for (int v = 0; v < TILE_VECS; v++) {
        int64_t at = i * WHIM_CPU_TILE + v * VF;
        out[v] = type == WHIM_DTYPE_F32   ? vf_load((const float *)tile + at)
                 : type == WHIM_DTYPE_F16 ? vf_load_f16((const uint16_t *)tile + at)
                                          : vf_load_bf16((const uint16_t *)tile + at);
    }
}

/* k rows of a tile for `rows` (a constant) rows of x, added to acc. */
ALWAYS_INLINE void float_stretch(whim_dtype type, int rows, const void *tile, int64_t k,
                                 const float *x, int64_t x_stride, vf acc[FLOAT_ROWS][TILE_VECS])
{
    for (int64_t i = 0; i < k; i++) {
        vf weight[TILE_VECS];
        float_16(type, tile, i, weight);
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
    float_stretch(type, rows, tile, k, x, x_stride, acc);
    for (int r = 0; r < rows; r++) {
        for (int v = 0; v < TILE_VECS; v++) {
            vf_store(out + r * WHIM_CPU_TILE + v * VF, acc[r][v]);
        }
    }
}

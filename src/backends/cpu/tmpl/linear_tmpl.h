/* SPDX-License-Identifier: Apache-2.0 */
/* The weight-matrix kernels, shared by all levels: included once per level after its vec header.
 * Lanes run along outputs (float types) or a dot is exact in integers (block types); the float sum over
 * k is in order for every number of rows, so all row counts and all levels give the same bits. */
#include "backends/cpu/kernels.h"
#include "base/fmath.h"
#include "tensor/half.h"
#include "tensor/unpack.h"

#include <string.h>

enum { TILE_VECS = WHIM_CPU_TILE / VF, FLOAT_ROWS = 4, QUANT_ROWS = 8 };

/* One tile of outputs for `rows` (<= FLOAT_ROWS) rows; `out` is [rows][WHIM_CPU_TILE]. */
#define DEFINE_FLOAT_TILE(name, elem, load)                                                       \
    static inline __attribute__((always_inline)) void tile_##name##_rows(                         \
        const elem *w, int64_t k, const float *x, int64_t x_stride, int rows, float *out)         \
    {                                                                                             \
        vf acc[FLOAT_ROWS][TILE_VECS];                                                            \
        for (int r = 0; r < rows; r++) {                                                          \
            for (int v = 0; v < TILE_VECS; v++) {                                                 \
                acc[r][v] = vf_zero();                                                            \
            }                                                                                     \
        }                                                                                         \
        for (int64_t i = 0; i < k; i++) {                                                         \
            vf weight[TILE_VECS];                                                                 \
            for (int v = 0; v < TILE_VECS; v++) {                                                 \
                weight[v] = load(w + i * WHIM_CPU_TILE + v * VF);                                 \
            }                                                                                     \
            for (int r = 0; r < rows; r++) {                                                      \
                vf value = vf_set1(x[r * x_stride + i]);                                          \
                for (int v = 0; v < TILE_VECS; v++) {                                             \
                    acc[r][v] = vf_fma(weight[v], value, acc[r][v]);                              \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
        for (int r = 0; r < rows; r++) {                                                          \
            for (int v = 0; v < TILE_VECS; v++) {                                                 \
                vf_store(out + r * WHIM_CPU_TILE + v * VF, acc[r][v]);                            \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
    static void tile_##name(const void *w, int64_t k, const float *x, int64_t x_stride, int rows, \
                            float *out)                                                           \
    {                                                                                             \
        switch (rows) {                                                                           \
        case 4:                                                                                   \
            tile_##name##_rows(w, k, x, x_stride, 4, out);                                        \
            break;                                                                                \
        case 3:                                                                                   \
            tile_##name##_rows(w, k, x, x_stride, 3, out);                                        \
            break;                                                                                \
        case 2:                                                                                   \
            tile_##name##_rows(w, k, x, x_stride, 2, out);                                        \
            break;                                                                                \
        default:                                                                                  \
            tile_##name##_rows(w, k, x, x_stride, 1, out);                                        \
            break;                                                                                \
        }                                                                                         \
    }
DEFINE_FLOAT_TILE(f32, float, vf_load)
DEFINE_FLOAT_TILE(f16, uint16_t, vf_load_f16)
DEFINE_FLOAT_TILE(bf16, uint16_t, vf_load_bf16)

typedef void float_tile(const void *w, int64_t k, const float *x, int64_t x_stride, int rows,
                        float *out);

static void linear_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_linear_args *a = args;
    float_tile *tile_fn = a->w.dtype == WHIM_DTYPE_F32   ? tile_f32
                          : a->w.dtype == WHIM_DTYPE_F16 ? tile_f16
                                                         : tile_bf16;
    int64_t n_tile = (a->w.n + WHIM_CPU_TILE - 1) / WHIM_CPU_TILE;
    int64_t tile_bytes = WHIM_CPU_TILE * whim_dtype_row_bytes(a->w.dtype, a->w.k);
    int64_t begin, end;
    whim_cpu_share(worker, n_tile, &begin, &end);
    float out[FLOAT_ROWS * WHIM_CPU_TILE];
    for (int64_t t = begin; t < end; t++) {
        const char *w = (const char *)a->w.data + t * tile_bytes;
        int64_t n0 = t * WHIM_CPU_TILE;
        int64_t n = a->w.n - n0 < WHIM_CPU_TILE ? a->w.n - n0 : WHIM_CPU_TILE;
        for (int64_t row = 0; row < a->n_row; row += FLOAT_ROWS) {
            int rows = (int)(a->n_row - row < FLOAT_ROWS ? a->n_row - row : FLOAT_ROWS);
            tile_fn(w, a->w.k, a->x + row * a->x_stride, a->x_stride, rows, out);
            for (int r = 0; r < rows; r++) {
                float *y = a->y + (row + r) * a->y_stride + n0;
                for (int64_t j = 0; j < n; j++) {
                    float sum = out[r * WHIM_CPU_TILE + j];
                    y[j] = a->bias != NULL ? sum + a->bias[n0 + j] : sum;
                }
            }
        }
    }
}

/* whim_group_dot_step with this level's integer dots; `split`: the halves have scales of their own. */
static inline __attribute__((always_inline)) float group_step(float acc, const whim_quant_group *g,
                                                              const whim_q8_block *a, bool has_min,
                                                              bool split)
{
    int32_t dot = split
                      ? g->sc[0] * vi_dot16(g->q, a->q) + g->sc[1] * vi_dot16(g->q + 16, a->q + 16)
                      : g->sc[0] * vi_dot32(g->q, a->q);
    acc = whim_fmaf((float)dot, g->d * a->s, acc);
    if (has_min) {
        int32_t sum = g->mn[0] * a->sum[0] + g->mn[1] * a->sum[1];
        acc = whim_fmaf(g->m, a->s * (float)sum, acc);
    }
    return acc;
}

/* One output for `rows` (<= QUANT_ROWS) rows: a group is unpacked once and used for all of them. */
#define DEFINE_QUANT_ROW(NAME, name, has_min)                                                    \
    static inline __attribute__((always_inline)) void dot_##name##_rows(                         \
        const void *w, int64_t n_group, const whim_q8_block *x, int rows, float *acc)            \
    {                                                                                            \
        enum {                                                                                   \
            SPLIT = WHIM_DTYPE_##NAME == WHIM_DTYPE_Q2_K ||                                      \
                    WHIM_DTYPE_##NAME == WHIM_DTYPE_Q3_K || WHIM_DTYPE_##NAME == WHIM_DTYPE_Q6_K \
        };                                                                                       \
        for (int r = 0; r < rows; r++) {                                                         \
            acc[r] = 0.0f;                                                                       \
        }                                                                                        \
        for (int64_t g = 0; g < n_group; g++) {                                                  \
            whim_quant_group group;                                                              \
            whim_unpack_##name(w, g, &group);                                                    \
            for (int r = 0; r < rows; r++) {                                                     \
                acc[r] = group_step(acc[r], &group, x + r * n_group + g, has_min, SPLIT);        \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    static void dot_##name(const void *w, int64_t n_group, const whim_q8_block *x, int rows,     \
                           float *acc)                                                           \
    {                                                                                            \
        if (rows == QUANT_ROWS) {                                                                \
            dot_##name##_rows(w, n_group, x, QUANT_ROWS, acc);                                   \
        } else if (rows == 1) {                                                                  \
            dot_##name##_rows(w, n_group, x, 1, acc);                                            \
        } else {                                                                                 \
            dot_##name##_rows(w, n_group, x, rows, acc);                                         \
        }                                                                                        \
    }
WHIM_QUANT_TYPES(DEFINE_QUANT_ROW)

typedef void quant_row(const void *w, int64_t n_group, const whim_q8_block *x, int rows,
                       float *acc);

static quant_row *const quant_rows[WHIM_DTYPE_COUNT] = {
#define X(NAME, name, has_min) [WHIM_DTYPE_##NAME] = dot_##name,
    WHIM_QUANT_TYPES(X)
#undef X
};

static void product_q8_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_product_args *a = args;
    quant_row *row_fn = quant_rows[a->w.dtype];
    int64_t row_bytes = whim_dtype_row_bytes(a->w.dtype, a->w.k);
    int64_t n_group = a->w.k / 32;
    int64_t begin, end;
    whim_cpu_share(worker, a->w.n, &begin, &end);
    float acc[QUANT_ROWS];
    for (int64_t row = 0; row < a->n_row; row += QUANT_ROWS) {
        int rows = (int)(a->n_row - row < QUANT_ROWS ? a->n_row - row : QUANT_ROWS);
        for (int64_t n = begin; n < end; n++) {
            const char *w = (const char *)a->w.data + n * row_bytes;
            row_fn(w, n_group, a->x + row * n_group, rows, acc);
            for (int r = 0; r < rows; r++) {
                float *y = a->y + (row + r) * a->y_stride;
                y[n] = a->bias != NULL ? acc[r] + a->bias[n] : acc[r];
            }
        }
    }
}

static void quantize_q8_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_quantize_q8_args *a = args;
    int64_t n_block = a->k / 32, begin, end;
    whim_cpu_share(worker, a->n_row * n_block, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        whim_q8_quantize32(a->x + i / n_block * a->x_stride + i % n_block * 32, &a->y[i]);
    }
}

/* Row `id` out of the packed tiles or blocks. */
static void embed_row(const whim_weight *w, int64_t id, float *y)
{
    if (whim_dtype_get(w->dtype)->kind == WHIM_DTYPE_KIND_QUANT) {
        whim_dequant_row(
            w->dtype, (const char *)w->data + id * whim_dtype_row_bytes(w->dtype, w->k), y, w->k);
        return;
    }
    int64_t at = id / WHIM_CPU_TILE * WHIM_CPU_TILE * w->k + id % WHIM_CPU_TILE;
    for (int64_t i = 0; i < w->k; i++, at += WHIM_CPU_TILE) {
        whim_dequant_row(w->dtype, (const char *)w->data + whim_dtype_row_bytes(w->dtype, at),
                         y + i, 1);
    }
}

static void embed_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_embed_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *y = a->y + r * a->y_stride;
        int64_t id = a->ids[r];
        if (id < 0 || id >= a->w.n) {
            memset(y, 0, (size_t)a->w.k * sizeof *y);
        } else {
            embed_row(&a->w, id, y);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a tile of a product: stored with its bias, joined with its neighbour by SwiGLU,
 * or searched for the largest. Included once per level before product_tmpl.h. */
#include "backends/cpu/kernels.h"
#include "base/math/fmath.h"
#include "tensor/rank_key.h"

/* A tile's results: rows row0 .. row0+rows-1, outputs n0 .. n0+n-1. */
typedef struct tile_place {
    int64_t row0, rows, n0, n;
} tile_place;

static void tile_add_bias(const tile_place *at, const float *bias, float *out)
{
    for (int64_t r = 0; r < at->rows && bias != NULL; r++) {
        for (int64_t j = 0; j < at->n; j++) {
            out[r * WHIM_CPU_TILE + j] += bias[at->n0 + j];
        }
    }
}

static void tile_store(const tile_place *at, const float *out, float *y, int64_t y_stride)
{
    for (int64_t r = 0; r < at->rows; r++) {
        float *row = y + (at->row0 + r) * y_stride + at->n0;
        if (at->n == WHIM_CPU_TILE) {
            memcpy(row, out + r * WHIM_CPU_TILE, WHIM_CPU_TILE * sizeof *row);
        } else {
            memcpy(row, out + r * WHIM_CPU_TILE, (size_t)at->n * sizeof *row);
        }
    }
}

/* gate = silu(gate) * up */
static void tile_swiglu(int64_t rows, float *gate, const float *up)
{
    swiglu_row(gate, up, gate, rows * WHIM_CPU_TILE);
}

/* Whether a value is not less than `least`; true for every NaN on either side. An equal value may
 * be one of a lower index, which comes first. */
static inline bool topk_beats(const float *x, int64_t n, float least)
{
    int32_t beats = 0;
    for (int64_t i = 0; i < n; i++) {
        beats |= !(x[i] < least);
    }
    return beats != 0;
}

/* best[0 .. k) is in order, a key of 0 stands for none; put `item`, which is larger than the last,
 * where it belongs. */
static inline void topk_insert(whim_cpu_best *best, int64_t k, whim_cpu_best item)
{
    int64_t at = k - 1;
    for (; at > 0 && best[at - 1].key < item.key; at--) {
        best[at] = best[at - 1];
    }
    best[at] = item;
}

/* Values x[0 .. n) of outputs n0 .. that belong to the best so far. */
static inline void topk_offer(whim_cpu_best *best, int64_t k, const float *x, int64_t n, int64_t n0)
{
    if (best[k - 1].key != 0 && !topk_beats(x, n, best[k - 1].value)) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = whim_rank_key(x[i], n0 + i);
        if (key > best[k - 1].key) {
            topk_insert(best, k, (whim_cpu_best){key, x[i]});
        }
    }
}

static inline void topk_write(const whim_cpu_best *best, int64_t k, float *values, int32_t *ids)
{
    for (int64_t j = 0; j < k; j++) {
        values[j] = best[j].key != 0 ? best[j].value : -INFINITY;
        ids[j] = best[j].key != 0 ? whim_rank_id(best[j].key) : -1;
    }
}

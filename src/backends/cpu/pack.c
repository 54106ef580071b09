/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights on the CPU. Float types: tiles of WHIM_CPU_TILE outputs, [tile][k][output], so that
 * vector lanes run along outputs and k is walked in order; the last tile is padded with zeros. Block
 * types: rows as in the file. */
#include "backends/cpu/cpu.h"

#include <string.h>

int64_t whim_cpu_weight_bytes(whim_device *dev, whim_dtype dtype, int64_t n, int64_t k)
{
    (void)dev;
    const whim_dtype_info *info = whim_dtype_get(dtype);
    if (info->kind == WHIM_DTYPE_KIND_INT || info->kind == WHIM_DTYPE_KIND_SCALED ||
        k % info->block_elems != 0) {
        return -1;
    }
    if (info->kind == WHIM_DTYPE_KIND_FLOAT) {
        n = (n + WHIM_CPU_TILE - 1) / WHIM_CPU_TILE * WHIM_CPU_TILE;
    }
    return n * whim_dtype_row_bytes(dtype, k);
}

static void pack_f32(const whim_pack *p)
{
    for (int64_t r = 0; r < p->n_row; r++) {
        int64_t row = p->row0 + r;
        const float *src = (const float *)p->src + r * p->k;
        float *dst =
            (float *)p->dst + row / WHIM_CPU_TILE * WHIM_CPU_TILE * p->k + row % WHIM_CPU_TILE;
        for (int64_t i = 0; i < p->k; i++) {
            dst[i * WHIM_CPU_TILE] = src[i];
        }
    }
}

static void pack_16(const whim_pack *p)
{
    for (int64_t r = 0; r < p->n_row; r++) {
        int64_t row = p->row0 + r;
        const uint16_t *src = (const uint16_t *)p->src + r * p->k;
        uint16_t *dst =
            (uint16_t *)p->dst + row / WHIM_CPU_TILE * WHIM_CPU_TILE * p->k + row % WHIM_CPU_TILE;
        for (int64_t i = 0; i < p->k; i++) {
            dst[i * WHIM_CPU_TILE] = src[i];
        }
    }
}

whim_err whim_cpu_pack_weight(whim_device *dev, const whim_pack *p)
{
    (void)dev;
    if (p->row0 < 0 || p->n_row < 0 || p->row0 + p->n_row > p->n) {
        return WHIM_ERR_INVALID;
    }
    if (p->dtype == WHIM_DTYPE_F32) {
        pack_f32(p);
    } else if (whim_dtype_get(p->dtype)->kind == WHIM_DTYPE_KIND_FLOAT) {
        pack_16(p);
    } else {
        int64_t row_bytes = whim_dtype_row_bytes(p->dtype, p->k);
        memcpy((char *)p->dst + p->row0 * row_bytes, p->src, (size_t)(p->n_row * row_bytes));
    }
    return WHIM_ERR_OK;
}

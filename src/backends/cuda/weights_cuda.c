/* SPDX-License-Identifier: Apache-2.0 */
/* Packing: a slab of rows becomes tiles on the host (launch_args.h has their form), which go to the
 * device in one copy. */
#include "backends/cuda/cuda.h"

#include "base/alloc.h"
#include "tensor/fp8.h"

#include <math.h>
#include <string.h>

static int64_t tile_bytes(whim_dtype dtype, int64_t k)
{
    const whim_dtype_info *info = whim_dtype_get(dtype);
    int64_t per;
    switch (info->kind) {
    case WHIM_DTYPE_KIND_FLOAT:
        per = WHIM_CUDA_VECTOR / info->block_bytes;
        return (k + per - 1) / per * WHIM_CUDA_VECTOR * WHIM_CUDA_TILE;
    case WHIM_DTYPE_KIND_SCALED:
        return whim_cuda_scaled_bytes(k);
    default: {
        whim_cuda_group_form form = whim_cuda_group_form_of(dtype);
        return k / WHIM_GROUP * (form.head_bytes + form.code_bytes) * WHIM_CUDA_TILE;
    }
    }
}

int64_t whim_cuda_weight_bytes(whim_device *base, whim_dtype dtype, int64_t n, int64_t k)
{
    (void)base;
    const whim_dtype_info *info = whim_dtype_get(dtype);
    int64_t bytes;
    if (info->kind == WHIM_DTYPE_KIND_INT || n < 0 || k < 0 || k % info->block_elems != 0 ||
        n > INT64_MAX - WHIM_CUDA_TILE || k > INT64_MAX / 4096 ||
        __builtin_mul_overflow((n + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE, tile_bytes(dtype, k),
                               &bytes)) {
        return -1;
    }
    return bytes;
}

static void float_row(char *tile, int64_t lane, int64_t elem, int64_t k, const char *src)
{
    int64_t per = WHIM_CUDA_VECTOR / elem;
    for (int64_t i = 0; i < k; i += per) {
        int64_t n = k - i < per ? k - i : per;
        memcpy(tile + whim_cuda_float_at(elem, lane, i), src + i * elem, (size_t)(n * elem));
    }
}

static void scaled_row(char *tile, int64_t lane, int64_t k, const char *src)
{
    int64_t n_block = k / WHIM_FP8_BLOCK;
    char *scales = tile + n_block * WHIM_CUDA_TILE * WHIM_FP8_BLOCK;
    float add = 0.0f;
    for (int64_t b = 0; b < n_block; b++, src += WHIM_FP8_BLOCK_BYTES) {
        memcpy(scales + (b * WHIM_CUDA_TILE + lane) * 4, src, 4);
        for (int64_t i = 0; i < WHIM_FP8_BLOCK; i++) {
            char code = src[WHIM_FP8_CODES_AT + i];
            tile[whim_cuda_scaled_at(lane, b * WHIM_FP8_BLOCK + i)] = code;
            add = (code & 0x7f) == 0x7f ? NAN : add;
        }
    }
    memcpy(scales + (n_block * WHIM_CUDA_TILE + lane) * 4, &add, 4);
}

/* Head and codes of a group, as they are stored. */
static void group_bytes(whim_dtype dtype, const char *row, int64_t g, whim_cuda_group_form form,
                        char *head, char *codes)
{
    if (form.head_bytes < (int32_t)sizeof(whim_cuda_wide_head)) {
        const char *block = row + g * (form.head_bytes + form.code_bytes);
        memcpy(head, block, (size_t)form.head_bytes);
        memcpy(codes, block + form.head_bytes, (size_t)form.code_bytes);
        return;
    }
    whim_quant_group group;
    whim_quant_unpack(dtype, row, g, &group);
    whim_cuda_wide_head wide = {
        group.d, group.m, {group.sc[0], group.sc[1]}, {group.mn[0], group.mn[1]}};
    memcpy(head, &wide, sizeof wide);
    memcpy(codes, group.q, sizeof group.q);
}

static void quant_row(char *tile, int64_t lane, whim_dtype dtype, int64_t k, const char *src)
{
    whim_cuda_group_form form = whim_cuda_group_form_of(dtype);
    int64_t step = (form.head_bytes + form.code_bytes) * WHIM_CUDA_TILE;
    char head[sizeof(whim_cuda_wide_head)], codes[WHIM_GROUP];
    for (int64_t g = 0; g < k / WHIM_GROUP; g++) {
        char *at = tile + g * step;
        group_bytes(dtype, src, g, form, head, codes);
        for (int64_t i = 0; i < form.code_bytes; i += WHIM_CUDA_VECTOR) {
            memcpy(at + i * WHIM_CUDA_TILE + lane * WHIM_CUDA_VECTOR, codes + i, WHIM_CUDA_VECTOR);
        }
        memcpy(at + form.code_bytes * WHIM_CUDA_TILE + lane * form.head_bytes, head,
               (size_t)form.head_bytes);
    }
}

static void row_pack(char *tile, int64_t lane, whim_dtype dtype, int64_t k, const char *src)
{
    const whim_dtype_info *info = whim_dtype_get(dtype);
    if (info->kind == WHIM_DTYPE_KIND_FLOAT) {
        float_row(tile, lane, info->block_bytes, k, src);
    } else if (info->kind == WHIM_DTYPE_KIND_SCALED) {
        scaled_row(tile, lane, k, src);
    } else {
        quant_row(tile, lane, dtype, k, src);
    }
}

whim_err whim_cuda_pack_weight(whim_device *base, const whim_pack *pack)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    if (whim_cuda_weight_bytes(base, pack->dtype, pack->n, pack->k) < 0 || pack->row0 < 0 ||
        pack->row0 % WHIM_CUDA_TILE != 0 || pack->n_row < 0 || pack->row0 > pack->n ||
        pack->n_row > pack->n - pack->row0) {
        return WHIM_ERR_INVALID;
    }
    int64_t each = tile_bytes(pack->dtype, pack->k);
    int64_t n_tile = (pack->n_row + WHIM_CUDA_TILE - 1) / WHIM_CUDA_TILE;
    int64_t row_bytes = whim_dtype_row_bytes(pack->dtype, pack->k);
    if (n_tile * each == 0) {
        return WHIM_ERR_OK;
    }
    char *tiles = whim_alloc((size_t)(n_tile * each));
    if (tiles == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int64_t r = 0; r < pack->n_row; r++) {
        row_pack(tiles + r / WHIM_CUDA_TILE * each, r % WHIM_CUDA_TILE, pack->dtype, pack->k,
                 (const char *)pack->src + r * row_bytes);
    }
    uint64_t dst = (uint64_t)(uintptr_t)pack->dst + (uint64_t)(pack->row0 / WHIM_CUDA_TILE * each);
    whim_err err = whim_cuda_enter(dev);
    if (err == WHIM_ERR_OK) {
        /* The copy may return when it has read its source; streams do not wait for it. */
        int status = dev->cu->cuMemcpyHtoD_v2(dst, tiles, (size_t)(n_tile * each));
        err = whim_cuda_error(status != 0 ? status : dev->cu->cuStreamSynchronize(NULL));
    }
    whim_free(tiles);
    return err;
}

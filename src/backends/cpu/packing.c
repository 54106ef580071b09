/* SPDX-License-Identifier: Apache-2.0 */
/* Writing packed weights, and reading single rows back (packing.h has the layout). */
#include "backends/cpu/packing.h"

#include "backends/cpu/cpu.h"
#include "tensor/fp8.h"
#include "tensor/half.h"
#include "tensor/unpack.h"

#include <string.h>

const whim_cpu_form *whim_cpu_form_of(whim_dtype dtype)
{
#define FORM(NAME, name, bits, offset, table, d, span, subs, has_min) \
    [WHIM_DTYPE_##NAME] = {bits, offset, WHIM_TABLE_##table, WHIM_DTYPE_##d, span, subs, has_min},
    static const whim_cpu_form forms[WHIM_DTYPE_COUNT] = {WHIM_CPU_FORMS(FORM)};
#undef FORM
#define IS(NAME, name, ...) enum { form_##name = WHIM_DTYPE_##NAME };
    WHIM_CPU_FORMS(IS)
#undef IS
#define SAME(NAME, other) [WHIM_DTYPE_##NAME] = form_##other,
    static const int32_t others[WHIM_DTYPE_COUNT] = {WHIM_CPU_SAME_FORMS(SAME)};
#undef SAME
    const whim_cpu_form *form = &forms[others[dtype] > 0 ? others[dtype] : (int32_t)dtype];
    return form->bits > 0 ? form : NULL;
}

/* k of a BF16 tile: matrix units take 32 at a time. */
static int64_t bf16_k(whim_cpu_bf16_order order, int64_t k)
{
    return order == WHIM_CPU_BF16_LANES ? k : (k + 31) / 32 * 32;
}

static int64_t float_tile_bytes(const whim_cpu_kernels *level, whim_dtype dtype, int64_t k)
{
    int64_t padded = dtype == WHIM_DTYPE_BF16 ? bf16_k(level->bf16_order, k) : k;
    return WHIM_CPU_TILE * whim_dtype_row_bytes(dtype, padded);
}

/* Place of (output o, input i) in a tile of 16-bit floats, or of FP8 codes. */
static inline int64_t place_of(whim_cpu_bf16_order order, int o, int64_t i)
{
    switch (order) {
    case WHIM_CPU_BF16_TWO:
        return i / 2 * 32 + o * 2 + i % 2;
    case WHIM_CPU_BF16_FOUR:
        return i / 4 * 64 + o * 4 + i % 4;
    default:
        return i * WHIM_CPU_TILE + o;
    }
}

/* FP8: codes, then [k / 128][16] F32 scales. */
static void pack_fp8_tile(whim_cpu_bf16_order order, const char *src, int n, int64_t k, char *dst)
{
    int64_t row_bytes = whim_dtype_row_bytes(WHIM_DTYPE_FP8, k);
    float *scales = (float *)(dst + k * WHIM_CPU_TILE);
    for (int o = 0; o < n; o++) {
        for (int64_t i = 0; i < k; i++) {
            const char *block = src + o * row_bytes + i / WHIM_FP8_BLOCK * WHIM_FP8_BLOCK_BYTES;
            dst[place_of(order, o, i)] = block[WHIM_FP8_CODES_AT + i % WHIM_FP8_BLOCK];
            scales[i / WHIM_FP8_BLOCK * WHIM_CPU_TILE + o] = whim_fp8_scale(block);
        }
    }
}

static void unpack_fp8_row(whim_cpu_bf16_order order, const char *tile, int o, int64_t k, float *y)
{
    const float *scales = (const float *)(tile + k * WHIM_CPU_TILE);
    for (int64_t i = 0; i < k; i++) {
        uint8_t code = (uint8_t)tile[place_of(order, o, i)];
        y[i] = whim_e4m3_to_f32(code) * scales[i / WHIM_FP8_BLOCK * WHIM_CPU_TILE + o];
    }
}

int64_t whim_cpu_tile_bytes(const whim_cpu_kernels *level, whim_dtype dtype, int64_t k)
{
    const whim_cpu_form *form = whim_cpu_form_of(dtype);
    return form != NULL ? whim_cpu_block_tile_bytes(form, k) : float_tile_bytes(level, dtype, k);
}

int64_t whim_cpu_weight_bytes(whim_device *dev, whim_dtype dtype, int64_t n, int64_t k)
{
    const whim_dtype_info *info = whim_dtype_get(dtype);
    if (info->kind == WHIM_DTYPE_KIND_INT || k % info->block_elems != 0) {
        return -1;
    }
    int64_t tile = whim_cpu_tile_bytes(((whim_cpu_device *)dev)->kernels, dtype, k);
    return (n + WHIM_CPU_TILE - 1) / WHIM_CPU_TILE * tile;
}

static void pack_f32_tile(const float *src, int n, int64_t k, float *dst)
{
    for (int o = 0; o < n; o++) {
        for (int64_t i = 0; i < k; i++) {
            dst[i * WHIM_CPU_TILE + o] = src[o * k + i];
        }
    }
}

static void pack_half_tile(whim_cpu_bf16_order order, const uint16_t *src, int n, int64_t k,
                           uint16_t *dst)
{
    for (int o = 0; o < n; o++) {
        for (int64_t i = 0; i < k; i++) {
            dst[place_of(order, o, i)] = src[o * k + i];
        }
    }
}

/* The 512 codes of a group into their planes of 1, 2, 4 or 8 bits. */
static void pack_codes(int bits, const uint8_t *codes, uint8_t *dst)
{
    int done = 0;
    for (int width = 8; width > 0; width /= 2) {
        if ((bits & width) == 0) {
            continue;
        }
        /* Planes of wider fields hold the lower bits of a code. */
        int per_block = 8 / width, mask = (1 << width) - 1;
        for (int b = 0; b < 8; b++) {
            uint8_t *block = dst + b / per_block * WHIM_CPU_BLOCK;
            const uint8_t *from = codes + b * WHIM_CPU_BLOCK;
            int shift = b % per_block * width;
            for (int i = 0; i < WHIM_CPU_BLOCK; i++) {
                int field = (from[i] >> done & mask) << shift;
                block[i] = (uint8_t)(shift > 0 ? block[i] | field : field);
            }
        }
        dst += width * WHIM_CPU_BLOCK;
        done += width;
    }
}

static uint8_t code_at(int bits, const uint8_t *src, int place)
{
    int code = 0, done = 0, b = place / WHIM_CPU_BLOCK, i = place % WHIM_CPU_BLOCK;
    for (int width = 8; width > 0; width /= 2) {
        if ((bits & width) != 0) {
            int per_block = 8 / width;
            int byte = src[b / per_block * WHIM_CPU_BLOCK + i];
            code |= (byte >> b % per_block * width & ((1 << width) - 1)) << done;
            src += width * WHIM_CPU_BLOCK;
            done += width;
        }
    }
    return (uint8_t)code;
}

static const int8_t *table_values(whim_cpu_table table)
{
    static const int8_t *const values[] = {
        [WHIM_TABLE_IQ4] = whim_iq4_values,     [WHIM_TABLE_FP4] = whim_fp4_values,
        [WHIM_TABLE_IQ2] = whim_iq2_values,     [WHIM_TABLE_IQ3_XXS] = whim_iq3_xxs_values,
        [WHIM_TABLE_IQ3_S] = whim_iq3_s_values,
    };
    return values[table];
}

/* The inverse of the tables, by the value's byte. Of fp4's two zeros the first is taken. */
static const uint8_t iq4_codes[256] = {
    [129] = 0, [152] = 1, [173] = 2, [191] = 3, [207] = 4, [221] = 5, [234] = 6, [246] = 7,
    [1] = 8,   [13] = 9,  [25] = 10, [38] = 11, [53] = 12, [69] = 13, [89] = 14, [113] = 15,
};
static const uint8_t fp4_codes[256] = {
    [0] = 0,   [1] = 1,    [2] = 2,    [3] = 3,    [4] = 4,    [6] = 5,    [8] = 6,    [12] = 7,
    [255] = 9, [254] = 10, [253] = 11, [252] = 12, [250] = 13, [248] = 14, [244] = 15,
};

static const uint8_t iq2_codes[256] = {
    [8] = 0, [25] = 1, [43] = 2, [248] = 4, [231] = 5, [213] = 6,
};
static const uint8_t iq3_xxs_codes[256] = {
    [4] = 0,   [12] = 1,  [20] = 2,   [28] = 3,   [36] = 4,   [44] = 5,   [52] = 6,   [62] = 7,
    [252] = 8, [244] = 9, [236] = 10, [228] = 11, [220] = 12, [212] = 13, [204] = 14, [194] = 15,
};
static const uint8_t iq3_s_codes[256] = {
    [1] = 0,   [3] = 1,   [5] = 2,    [7] = 3,    [9] = 4,    [11] = 5,   [13] = 6,   [15] = 7,
    [255] = 8, [253] = 9, [251] = 10, [249] = 11, [247] = 12, [245] = 13, [243] = 14, [241] = 15,
};

static const uint8_t *const table_codes[] = {
    [WHIM_TABLE_IQ4] = iq4_codes,     [WHIM_TABLE_FP4] = fp4_codes,
    [WHIM_TABLE_IQ2] = iq2_codes,     [WHIM_TABLE_IQ3_XXS] = iq3_xxs_codes,
    [WHIM_TABLE_IQ3_S] = iq3_s_codes,
};

static void group_codes(const whim_cpu_form *form, const whim_quant_group *g, uint8_t *codes)
{
    if (form->table == WHIM_TABLE_NONE) {
        for (int i = 0; i < WHIM_GROUP; i++) {
            codes[i] = (uint8_t)(g->q[i] + form->offset);
        }
        return;
    }
    const uint8_t *of_value = table_codes[form->table];
    for (int i = 0; i < WHIM_GROUP; i++) {
        codes[i] = of_value[(uint8_t)g->q[i]];
    }
}

static void put_scale(whim_dtype type, void *at, int i, float value)
{
    if (type == WHIM_DTYPE_F32) {
        ((float *)at)[i] = value;
    } else {
        ((uint16_t *)at)[i] =
            type == WHIM_DTYPE_F16 ? whim_f32_to_f16(value) : whim_f32_to_bf16(value);
    }
}

static float get_scale(whim_dtype type, const void *at, int i)
{
    return type == WHIM_DTYPE_F32   ? ((const float *)at)[i]
           : type == WHIM_DTYPE_F16 ? whim_f16_to_f32(((const uint16_t *)at)[i])
                                    : whim_bf16_to_f32(((const uint16_t *)at)[i]);
}

/* Scales and sub-scales of output o's group. d and m came from 16-bit floats (or are kept in F32),
 * so that storing them so loses nothing. */
static void pack_scales(const whim_cpu_form *form, char *tile, int o, int64_t group,
                        const whim_quant_group *g)
{
    char *scales = tile + whim_cpu_scales_at(form, group);
    char *subs = tile + whim_cpu_group_at(form, group) + WHIM_CPU_CODE_BYTES(form->bits);
    put_scale(form->d, scales, o, g->d);
    if (form->has_min) {
        put_scale(WHIM_DTYPE_F16, scales + WHIM_CPU_TILE * 2, o, g->m);
    }
    for (int h = 0; h < form->subs; h++) {
        subs[h * WHIM_CPU_TILE + o] = (char)g->sc[h];
        if (form->has_min) {
            subs[(form->subs + h) * WHIM_CPU_TILE + o] = (char)g->mn[h];
        }
    }
}

static void pack_block_tile(const whim_cpu_form *form, whim_cpu_order order, whim_dtype dtype,
                            const char *src, int n, int64_t k, char *dst)
{
    int64_t row_bytes = whim_dtype_row_bytes(dtype, k);
    int step = order == WHIM_CPU_ORDER_QUAD ? 4 : 8; /* codes that stay together */
    for (int64_t g = 0; g < k / WHIM_GROUP; g++) {
        uint8_t codes[WHIM_CPU_CODES] = {0};
        for (int o = 0; o < n; o++) {
            whim_quant_group group;
            uint8_t row[WHIM_GROUP];
            whim_quant_unpack(dtype, src + o * row_bytes, g, &group);
            group_codes(form, &group, row);
            for (int i = 0; i < WHIM_GROUP; i += step) {
                memcpy(codes + whim_cpu_code_place(order, o, i), row + i, (size_t)step);
            }
            pack_scales(form, dst, o, g, &group);
        }
        pack_codes(form->bits, codes, (uint8_t *)dst + whim_cpu_group_at(form, g));
    }
}

whim_err whim_cpu_pack_weight(whim_device *dev, const whim_pack *p)
{
    const whim_cpu_kernels *level = ((whim_cpu_device *)dev)->kernels;
    if (p->row0 < 0 || p->n_row < 0 || p->row0 + p->n_row > p->n || p->row0 % WHIM_CPU_TILE != 0) {
        return WHIM_ERR_INVALID;
    }
    const whim_cpu_form *form = whim_cpu_form_of(p->dtype);
    int64_t tile_bytes = whim_cpu_tile_bytes(level, p->dtype, p->k);
    int64_t row_bytes = whim_dtype_row_bytes(p->dtype, p->k);
    for (int64_t row = 0; row < p->n_row; row += WHIM_CPU_TILE) {
        int n = (int)(p->n_row - row < WHIM_CPU_TILE ? p->n_row - row : WHIM_CPU_TILE);
        const char *src = (const char *)p->src + row * row_bytes;
        char *dst = (char *)p->dst + (p->row0 + row) / WHIM_CPU_TILE * tile_bytes;
        if (form != NULL) {
            pack_block_tile(form, level->order, p->dtype, src, n, p->k, dst);
        } else if (p->dtype == WHIM_DTYPE_FP8) {
            pack_fp8_tile(level->bf16_order, src, n, p->k, dst);
        } else if (p->dtype == WHIM_DTYPE_F32) {
            pack_f32_tile((const float *)src, n, p->k, (float *)dst);
        } else {
            whim_cpu_bf16_order order =
                p->dtype == WHIM_DTYPE_BF16 ? level->bf16_order : WHIM_CPU_BF16_LANES;
            pack_half_tile(order, (const uint16_t *)src, n, p->k, (uint16_t *)dst);
        }
    }
    return WHIM_ERR_OK;
}

void whim_cpu_unpack_group(const whim_cpu_form *form, whim_cpu_order order, const void *tile, int o,
                           int64_t group, whim_quant_group *out)
{
    const char *scales = (const char *)tile + whim_cpu_scales_at(form, group);
    const uint8_t *codes = (const uint8_t *)tile + whim_cpu_group_at(form, group);
    const char *subs = (const char *)codes + WHIM_CPU_CODE_BYTES(form->bits);
    whim_group_scales(out, get_scale(form->d, scales, o), 1, 1);
    if (form->has_min) {
        whim_group_mins(out, get_scale(WHIM_DTYPE_F16, scales + WHIM_CPU_TILE * 2, o), 1, 1);
    }
    for (int h = 0; h < 2 && form->subs > 0; h++) {
        int at = h % form->subs * WHIM_CPU_TILE + o;
        out->sc[h] = (int8_t)subs[at];
        if (form->has_min) {
            out->mn[h] = (uint8_t)subs[form->subs * WHIM_CPU_TILE + at];
        }
    }
    for (int i = 0; i < WHIM_GROUP; i++) {
        int code = code_at(form->bits, codes, whim_cpu_code_place(order, o, i));
        out->q[i] = form->table != WHIM_TABLE_NONE ? table_values(form->table)[code]
                    : form->bits == 8              ? (int8_t)code
                                                   : (int8_t)(code - form->offset);
    }
}

void whim_cpu_unpack_row(const whim_cpu_kernels *level, const whim_weight *w, int64_t row, float *y)
{
    const whim_cpu_form *form = whim_cpu_form_of(w->dtype);
    int o = (int)(row % WHIM_CPU_TILE);
    const char *tile =
        (const char *)w->data + row / WHIM_CPU_TILE * whim_cpu_tile_bytes(level, w->dtype, w->k);
    if (form != NULL) {
        for (int64_t g = 0; g < w->k / WHIM_GROUP; g++) {
            whim_quant_group group;
            whim_cpu_unpack_group(form, level->order, tile, o, g, &group);
            whim_quant_widen(&group, y + g * WHIM_GROUP);
        }
        return;
    }
    if (w->dtype == WHIM_DTYPE_FP8) {
        unpack_fp8_row(level->bf16_order, tile, o, w->k, y);
        return;
    }
    whim_cpu_bf16_order order =
        w->dtype == WHIM_DTYPE_BF16 ? level->bf16_order : WHIM_CPU_BF16_LANES;
    for (int64_t i = 0; i < w->k; i++) {
        int64_t at = place_of(order, o, i);
        whim_dequant_row(w->dtype, tile + whim_dtype_row_bytes(w->dtype, at), y + i, 1);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the planes of packed block types (packing.h) with a level's vectors: codes, scales, and a
 * tile opened up to int8 and F32 for many rows. `form` is a constant where these are inlined. */
#include "backends/cpu/packing.h"
#include "tensor/half.h"
#include "tensor/unpack.h"

enum { VB = 4 * VF, BLOCK_VECS = WHIM_CPU_BLOCK / VB, TILE_VECS = WHIM_CPU_TILE / VF };

#define FORM_CONSTANT(NAME, name, bits, offset, table, d, span, subs, has_min) \
    static const whim_cpu_form form_##name = {                                 \
        bits, offset, WHIM_TABLE_##table, WHIM_DTYPE_##d, span, subs, has_min};
WHIM_CPU_FORMS(FORM_CONSTANT)
#undef FORM_CONSTANT

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Bytes at..at+VB-1 of code block b of a group. */
ALWAYS_INLINE vb codes_at(const whim_cpu_form form, const uint8_t *codes, int b, int at)
{
    if (form.bits == 8) {
        return vb_load(codes + b * WHIM_CPU_BLOCK + at);
    }
    vb out = vb_load(codes + at); /* overwritten by the first plane */
    int done = 0;
    if (form.bits & 4) {
        out = vb_place(vb_load(codes + b / 2 * WHIM_CPU_BLOCK + at), b % 2 * 4, 4, 0);
        codes += 4 * WHIM_CPU_BLOCK;
        done = 4;
    }
    if (form.bits & 2) {
        vb two = vb_place(vb_load(codes + b / 4 * WHIM_CPU_BLOCK + at), b % 4 * 2, 2, done);
        out = done > 0 ? vb_or(out, two) : two;
        codes += 2 * WHIM_CPU_BLOCK;
        done += 2;
    }
    if (form.bits & 1) {
        out = vb_or(out, vb_place(vb_load(codes + at), b, 1, done));
    }
    return out;
}

/* Whether codes are small and unsigned; otherwise codes_value gives signed integers. */
ALWAYS_INLINE bool form_has_codes(const whim_cpu_form form)
{
    return form.bits < 8 && form.table == WHIM_TABLE_NONE;
}

/* The same as signed integers of the weight. */
ALWAYS_INLINE vb values_at(const whim_cpu_form form, const uint8_t *codes, int b, int at)
{
    vb code = codes_at(form, codes, b, at);
    if (form.table == WHIM_TABLE_IQ4) {
        return vb_lookup(whim_iq4_values, code);
    }
    if (form.table == WHIM_TABLE_FP4) {
        return vb_lookup(whim_fp4_values, code);
    }
    if (form.table == WHIM_TABLE_IQ2) {
        return vb_lookup(whim_iq2_values, code);
    }
    if (form.table == WHIM_TABLE_IQ3_XXS) {
        return vb_lookup(whim_iq3_xxs_values, code);
    }
    if (form.table == WHIM_TABLE_IQ3_S) {
        return vb_lookup(whim_iq3_s_values, code);
    }
    return form.offset > 0 ? vb_sub1(code, (uint8_t)form.offset) : code;
}

/* Scales of outputs o .. o+VF-1. */
ALWAYS_INLINE vf scale_at(whim_dtype type, const void *scales, int o)
{
    return type == WHIM_DTYPE_F32   ? vf_load((const float *)scales + o)
           : type == WHIM_DTYPE_F16 ? vf_load_f16((const uint16_t *)scales + o)
                                    : vf_load_bf16((const uint16_t *)scales + o);
}

/* Where packed codes are walked: what lies PREFETCH_BYTES after group g's, wherever tiles end. */
ALWAYS_INLINE void codes_prefetch(const whim_cpu_form form, const uint8_t *codes)
{
    const int64_t step = whim_cpu_span_bytes(&form) / form.span;
    for (int64_t i = 0; i < step && PREFETCH_BYTES > 0; i += 64) {
        __builtin_prefetch(codes + PREFETCH_BYTES + i, 0, 2);
    }
}

/* A stretch of a tile's groups opened up: signed integers, F32 scales; sub-scales as packed. */
typedef struct open_tile {
    const char *packed;   /* the tile's start, */
    int64_t g0;           /* and the first group */
    const int8_t *values; /* [n_group][512], or NULL: only the scales were opened */
    int64_t value_stride; /* bytes from group to group of values */
    const float *d, *m;   /* [n_group][OPEN_SCALES] */
    const float *sc, *mn; /* [n_group][subs][OPEN_SCALES] where the level has OPEN_SUBS */
} open_tile;

/* A level defines these before, if its inner loop wants other than one float for each output, or
 * sub-scales as floats. */
#ifndef OPEN_SCALES
#define OPEN_SCALES WHIM_CPU_TILE
#define OPEN_SUBS 0
ALWAYS_INLINE void open_scales_store(float *dst, int v, vf scales)
{
    vf_store(dst + v * VF, scales);
}
#endif

/* Bytes that an opened group takes at most. */
enum { OPEN_GROUP_BYTES = WHIM_CPU_CODES + 6 * OPEN_SCALES * (int)sizeof(float) };

/* Sub-scales of group g of the stretch, as packed. */
ALWAYS_INLINE const char *open_tile_subs(const whim_cpu_form form, const open_tile *tile, int64_t g)
{
    return tile->packed + whim_cpu_group_at(&form, tile->g0 + g) + WHIM_CPU_CODE_BYTES(form.bits);
}

/* Open groups g0 .. g0+n-1 of a tile in `memory`, n * OPEN_GROUP_BYTES. 8-bit codes stay where they
 * are, unless vectors are so wide that they would often straddle two lines of the cache there. */
ALWAYS_INLINE open_tile tile_open(const whim_cpu_form form, const char *tile, int64_t g0, int64_t n,
                                  bool with_values, void *memory)
{
    const bool in_place = form.bits == 8 && form.span == 1 && VB < 64;
    int8_t *values = memory;
    float *d = (float *)(values + n * WHIM_CPU_CODES), *m = d + n * OPEN_SCALES;
    float *sc = m + n * OPEN_SCALES, *mn = sc + n * form.subs * OPEN_SCALES;
    for (int64_t g = 0; g < n; g++) {
        const char *scales = tile + whim_cpu_scales_at(&form, g0 + g);
        const uint8_t *codes = (const uint8_t *)tile + whim_cpu_group_at(&form, g0 + g);
        codes_prefetch(form, codes);
        for (int v = 0; v < TILE_VECS; v++) {
            open_scales_store(d + g * OPEN_SCALES, v, scale_at(form.d, scales, v * VF));
            if (form.has_min) {
                const char *mins = scales + WHIM_CPU_TILE * 2;
                open_scales_store(m + g * OPEN_SCALES, v, scale_at(WHIM_DTYPE_F16, mins, v * VF));
            }
        }
        for (int h = 0; h < form.subs && OPEN_SUBS; h++) {
            const char *of_group =
                (const char *)codes + WHIM_CPU_CODE_BYTES(form.bits) + h * WHIM_CPU_TILE;
            float *sc_at = sc + (g * form.subs + h) * OPEN_SCALES;
            float *mn_at = mn + (g * form.subs + h) * OPEN_SCALES;
            for (int v = 0; v < TILE_VECS; v++) {
                const char *of_vec = of_group + v * VF;
                open_scales_store(sc_at, v, vi_to_vf(vi_load_i8((const int8_t *)of_vec)));
                if (form.has_min) {
                    of_vec += form.subs * WHIM_CPU_TILE;
                    open_scales_store(mn_at, v, vi_to_vf(vi_load_u8((const uint8_t *)of_vec)));
                }
            }
        }
        for (int b = 0; b < 8 && with_values && !in_place; b++) {
            for (int v = 0; v < BLOCK_VECS; v++) {
                vb_store(values + g * WHIM_CPU_CODES + b * WHIM_CPU_BLOCK + v * VB,
                         values_at(form, codes, b, v * VB));
            }
        }
    }
    if (in_place) {
        values = (int8_t *)(uintptr_t)(tile + whim_cpu_group_at(&form, g0));
    }
    return (open_tile){
        .packed = tile,
        .g0 = g0,
        .values = with_values ? values : NULL,
        .value_stride = in_place ? whim_cpu_span_bytes(&form) : WHIM_CPU_CODES,
        .d = d,
        .m = m,
        .sc = sc,
        .mn = mn,
    };
}

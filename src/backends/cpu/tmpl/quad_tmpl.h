/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8 rows with tiles in QUAD order: one vector lane per output, dots of 4 along k.
 * Included once per level after codes_tmpl.h. Sums over k follow whim_group_dot_step. */

/* One group for `rows` rows: integer dots of both halves, sub-scales, then the two fma steps. `w`
 * gives vector v of code block b. */
typedef struct quad_scales {
    vf d, m;
    vi sc[2], mn[2];
} quad_scales;

ALWAYS_INLINE vf quad_step(vf acc, const whim_cpu_form form, vi low, vi high, const quad_scales *w,
                           const whim_cpu_act_meta *a)
{
    /* One sub-scale is multiplied in as a float: below 2^24 that is exact too, and cheaper. */
    vf dot = vi_to_vf(form.subs == 2 ? vi_add(vi_mul(low, w->sc[0]), vi_mul(high, w->sc[1]))
                                     : vi_add(low, high));
    if (form.subs == 1) {
        dot = vf_mul(dot, vi_to_vf(w->sc[0]));
    }
    acc = vf_fma(dot, vf_mul(w->d, vf_set1(a->s)), acc);
    if (form.has_min && form.subs == 0) {
        acc = vf_fma(w->m, vf_set1(a->t), acc);
    } else if (form.has_min) {
        vf sum = form.subs == 1
                     ? vf_mul(vi_to_vf(w->mn[0]), vf_set1((float)(a->half[0] + a->half[1])))
                     : vi_to_vf(vi_add(vi_mul(w->mn[0], vi_set1(a->half[0])),
                                       vi_mul(w->mn[1], vi_set1(a->half[1]))));
        acc = vf_fma(w->m, vf_mul(vf_set1(a->s), sum), acc);
    }
    return acc;
}

ALWAYS_INLINE void quad_subs(const whim_cpu_form form, const char *subs, int o, quad_scales *out)
{
    for (int h = 0; h < form.subs; h++) {
        out->sc[h] = vi_load_i8((const int8_t *)subs + h * WHIM_CPU_TILE + o);
        if (form.has_min) {
            const uint8_t *mn = (const uint8_t *)subs + (form.subs + h) * WHIM_CPU_TILE + o;
            out->mn[h] = vi_load_u8(mn);
        }
    }
}

/* Dots of the halves of one group for one row; `low` and `high` start at what the codes' offset
 * adds. */
ALWAYS_INLINE void quad_start(int bias, const whim_cpu_act_meta *a, vi *low, vi *high)
{
    *low = vi_set1(-bias * a->half[0]);
    *high = vi_set1(-bias * a->half[1]);
}

/* One row straight from the packed codes. */
ALWAYS_INLINE void product_one(const whim_cpu_form form, const char *tile, int64_t k,
                               const int8_t *q, const whim_cpu_act_meta *meta, float *out)
{
    const int bias = form_has_codes(form) ? form.offset : VI_VALUE_BIAS;
    vf acc[TILE_VECS];
    for (int v = 0; v < TILE_VECS; v++) {
        acc[v] = vf_set1(0.0f);
    }
    for (int64_t g = 0; g < k / WHIM_GROUP; g++) {
        const uint8_t *codes = (const uint8_t *)tile + whim_cpu_group_at(&form, g);
        const char *scales = tile + whim_cpu_scales_at(&form, g);
        codes_prefetch(form, codes);
        for (int v = 0; v < TILE_VECS; v++) {
            vi low, high;
            quad_start(bias, meta + g, &low, &high);
            for (int b = 0; b < 8; b++) {
                vi *dot = b < 4 ? &low : &high;
                const int8_t *a = q + g * WHIM_GROUP + 4 * b;
                *dot = form_has_codes(form)
                           ? vi_dot4_code(*dot, codes_at(form, codes, b, v * VB), a)
                           : vi_dot4_value(*dot, values_at(form, codes, b, v * VB), a);
            }
            quad_scales w = {.d = scale_at(form.d, scales, v * VF)};
            if (form.has_min) {
                w.m = scale_at(WHIM_DTYPE_F16, scales + WHIM_CPU_TILE * 2, v * VF);
            }
            quad_subs(form, (const char *)codes + WHIM_CPU_CODE_BYTES(form.bits), v * VF, &w);
            acc[v] = quad_step(acc[v], form, low, high, &w, meta + g);
        }
    }
    for (int v = 0; v < TILE_VECS; v++) {
        vf_store(out + v * VF, acc[v]);
    }
}

/* Few rows have loops of their own (wide_tmpl.h). */
ALWAYS_INLINE bool product_reads_codes(const whim_cpu_form form, int64_t rows)
{
    (void)form;
    (void)rows;
    return false;
}

/* Vector v of outputs for `rows` rows; see product_rows. */
ALWAYS_INLINE void quad_vector(const whim_cpu_form form, int rows, const open_tile *tile, int v,
                               int64_t n_group, const int8_t *q, const whim_cpu_act_meta *meta,
                               int64_t block, float *out)
{
    vf acc[PRODUCT_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        acc[r] = vf_load(out + r * WHIM_CPU_TILE);
    }
    for (int64_t g = 0; g < n_group; g++) {
        vi low[PRODUCT_ROWS], high[PRODUCT_ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            quad_start(VI_VALUE_BIAS, meta + g * block + r, &low[r], &high[r]);
        }
#pragma GCC unroll 8
        for (int b = 0; b < 8; b++) {
            vb w = vb_load(tile->values + g * tile->value_stride + v * VB + b * WHIM_CPU_BLOCK);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                vi *dot = b < 4 ? &low[r] : &high[r];
                const int8_t *a = q + (g * block + r) * WHIM_GROUP + 4 * b;
                *dot = vi_dot4_value(*dot, w, a);
            }
        }
        quad_scales w = {.d = vf_load(tile->d + g * WHIM_CPU_TILE + v * VF)};
        if (form.has_min) {
            w.m = vf_load(tile->m + g * WHIM_CPU_TILE + v * VF);
        }
        quad_subs(form, open_tile_subs(form, tile, g), v * VF, &w);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            acc[r] = quad_step(acc[r], form, low[r], high[r], &w, meta + g * block + r);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        vf_store(out + r * WHIM_CPU_TILE, acc[r]);
    }
}

/* `rows` (a constant, at most PRODUCT_ROWS) rows from an opened tile; out [rows][16] is added to. q
 * and meta are those of the first row and group; their block has `block` rows. */
ALWAYS_INLINE void product_rows(const whim_cpu_form form, int rows, const open_tile *tile,
                                int64_t n_group, const int8_t *q, const whim_cpu_act_meta *meta,
                                int64_t block, float *out)
{
    for (int v = 0; v < TILE_VECS; v++) {
        quad_vector(form, rows, tile, v, n_group, q, meta, block, out + v * VF);
    }
}

#define PRODUCT_WIDE
#define PRODUCT_ORDER WHIM_CPU_ORDER_QUAD
#define PRODUCT_TAIL 1 /* rows of the block that finishes what PRODUCT_ROWS leaves over */

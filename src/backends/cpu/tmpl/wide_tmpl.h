/* SPDX-License-Identifier: Apache-2.0 */
/* Products of a few int8 rows with tiles in QUAD order, straight from the packed codes, where a
 * vector is a whole tile wide: each code is taken apart once for all rows, and two tiles share what
 * is read of the rows. Memory is asked for group by group as the sums go on; asking for many groups
 * at once makes a core wait for them. Included by product_tmpl.h at levels with PRODUCT_WIDE. The
 * bits are those of quad_rows. */

/* Most rows that are multiplied so: their sums of two tiles stay in registers. */
enum { WIDE_ROWS = TILE_VECS == 1 ? PRODUCT_ROWS : 0 };

/* One or two tiles that are walked side by side. */
typedef struct wide_tiles {
    const char *tile[2];
    float *out[2]; /* [rows][16] each */
    int64_t bytes; /* of a tile */
    int64_t skip;  /* from the end of one of these to the next that is walked, in bytes */
} wide_tiles;

/* What group g of `n` tiles adds to the sums of `rows` rows; n and rows are constants, n is 1 for
 * types with two sub-scales. */
ALWAYS_INLINE void wide_group(const whim_cpu_form form, int rows, int n, const wide_tiles *t,
                              int64_t g, const int8_t *q, const whim_cpu_act_meta *meta,
                              vf acc[2][PRODUCT_ROWS])
{
    const bool small = form_has_codes(form), halves = form.subs == 2;
    const int bias = small ? form.offset : VI_VALUE_BIAS;
    const int64_t codes_at_g = whim_cpu_group_at(&form, g);
    vi low[2][PRODUCT_ROWS], high[PRODUCT_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        quad_start(bias, meta + r, &low[0][r], &high[r]);
        if (!halves) {
            low[0][r] = low[1][r] = vi_set1(-bias * (meta[r].half[0] + meta[r].half[1]));
            high[r] = vi_set1(0);
        }
    }
#pragma GCC unroll 8
    for (int b = 0; b < 8; b++) {
        vb w[2];
#pragma GCC unroll 2
        for (int i = 0; i < n; i++) {
            const uint8_t *codes = (const uint8_t *)t->tile[i] + codes_at_g;
            w[i] = small ? codes_at(form, codes, b, 0) : values_at(form, codes, b, 0);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const int8_t *a = q + r * WHIM_GROUP + 4 * b;
#pragma GCC unroll 2
            for (int i = 0; i < n; i++) {
                vi *dot = halves && b >= 4 ? &high[r] : &low[i][r];
                *dot = small ? vi_dot4_code(*dot, w[i], a) : vi_dot4_value(*dot, w[i], a);
            }
        }
    }
#pragma GCC unroll 2
    for (int i = 0; i < n; i++) {
        const char *scales = t->tile[i] + whim_cpu_scales_at(&form, g);
        quad_scales w = {.d = scale_at(form.d, scales, 0)};
        if (form.has_min) {
            w.m = scale_at(WHIM_DTYPE_F16, scales + WHIM_CPU_TILE * 2, 0);
        }
        quad_subs(form, t->tile[i] + codes_at_g + WHIM_CPU_CODE_BYTES(form.bits), 0, &w);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            acc[i][r] = quad_step(acc[i][r], form, low[i][r], high[r], &w, meta + r);
        }
    }
}

/* `rows` rows from row r on of a block of `block`, times `n` tiles; rows and n are constants. */
ALWAYS_INLINE void wide_walk(const whim_cpu_form form, int rows, int n, const wide_tiles *t,
                             int64_t n_group, const whim_cpu_act *act, int64_t block, int64_t r)
{
    vf acc[2][PRODUCT_ROWS];
#pragma GCC unroll 2
    for (int i = 0; i < n; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < rows; j++) {
            acc[i][j] = vf_zero();
        }
    }
    for (int64_t g = 0; g < n_group; g++) {
        int64_t at = whim_cpu_group_at(&form, g), row = g * block + r;
        int64_t skip = at + PREFETCH_BYTES < t->bytes ? 0 : t->skip;
#pragma GCC unroll 2
        for (int i = 0; i < n; i++) {
            codes_prefetch(form, (const uint8_t *)t->tile[i] + at + skip);
        }
        wide_group(form, rows, n, t, g, act->q + row * WHIM_GROUP, act->meta + row, acc);
    }
#pragma GCC unroll 2
    for (int i = 0; i < n; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < rows; j++) {
            vf_store(t->out[i] + (r + j) * WHIM_CPU_TILE, acc[i][j]);
        }
    }
}

/* At most WIDE_ROWS rows times one tile, or two. */
ALWAYS_INLINE void wide_product(const whim_cpu_form form, const wide_tiles *t, int64_t n_group,
                                const whim_cpu_act *act, int64_t rows)
{
    int64_t r = 0;
#define STEP(step)                                                                             \
    for (; r + (step) <= rows; r += (step)) {                                                  \
        if (t->tile[1] != NULL && form.subs < 2) {                                             \
            wide_walk(form, step, 2, t, n_group, act, rows, r);                                \
            continue;                                                                          \
        }                                                                                      \
        wide_walk(form, step, 1, t, n_group, act, rows, r);                                    \
        if (t->tile[1] != NULL) {                                                              \
            wide_tiles other = {                                                               \
                .tile = {t->tile[1]}, .out = {t->out[1]}, .bytes = t->bytes, .skip = t->skip}; \
            wide_walk(form, step, 1, &other, n_group, act, rows, r);                           \
        }                                                                                      \
    }
    STEP(PRODUCT_ROWS) STEP(4) STEP(2) STEP(1)
#undef STEP
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of attention on one KV type: scores of a page's keys and sums over its values,
 * for up to ATTN_PAIRS pairs (a query row and head) at once, so that one load of K or V serves them
 * all. Every sum has one accumulator and is walked in order, as the law wants: how many pairs go
 * together changes no bit. Included once per type by attn_tmpl.h, with TILE_NAME, TILE_ELEM,
 * TILE_VLOAD and TILE_LOAD1 defined. */
#define TILE_JOIN_(a, b) a##_##b
#define TILE_JOIN(a, b) TILE_JOIN_(a, b)
#define TILE(function) TILE_JOIN(function, TILE_NAME)

/* n is a constant wherever this is inlined, so that the loops over pairs unroll. */
ALWAYS_INLINE void TILE(score_lanes)(const TILE_ELEM *keys, int64_t d, const float *q, int n,
                                     float *p)
{
    vf acc[ATTN_PAIRS][ATTN_VECS];
    for (int r = 0; r < n; r++) {
        for (int v = 0; v < ATTN_VECS; v++) {
            acc[r][v] = vf_zero();
        }
    }
    for (int64_t i = 0; i < d; i++) {
        vf k[ATTN_VECS];
        for (int v = 0; v < ATTN_VECS; v++) {
            k[v] = TILE_VLOAD(keys + i * WHIM_CPU_PAGE + v * VF);
        }
        for (int r = 0; r < n; r++) {
            for (int v = 0; v < ATTN_VECS; v++) {
                acc[r][v] = vf_fma1(q[r * d + i], k[v], acc[r][v]);
            }
        }
    }
    for (int r = 0; r < n; r++) {
        for (int v = 0; v < ATTN_VECS; v++) {
            vf_store(p + r * SCORE_STRIDE + v * VF, acc[r][v]);
        }
    }
}

/* Scores of n pairs with the places [begin, end) of a page, in whole lanes: begin is a multiple of
 * ATTN_LANES. */
static void TILE(scores)(const void *page, int64_t d, const float *q, int n, int64_t begin,
                         int64_t end, float *p)
{
    for (int64_t j = begin; j < end; j += ATTN_LANES) {
        const TILE_ELEM *keys = (const TILE_ELEM *)page + j;
#define CALL(count) TILE(score_lanes)(keys, d, q, count, p + j)
        FOR_PAIRS(n)
#undef CALL
    }
}

ALWAYS_INLINE void TILE(value_lanes)(const TILE_ELEM *values, int64_t d, const float *p, int n,
                                     int vecs, int64_t begin, int64_t end, float *const *o)
{
    vf acc[ATTN_PAIRS][ATTN_VECS];
    for (int r = 0; r < n; r++) {
        for (int v = 0; v < vecs; v++) {
            acc[r][v] = vf_load(o[r] + v * VF);
        }
    }
    for (int64_t j = begin; j < end; j++) {
        vf x[ATTN_VECS];
        for (int v = 0; v < vecs; v++) {
            x[v] = TILE_VLOAD(values + j * d + v * VF);
        }
        for (int r = 0; r < n; r++) {
            for (int v = 0; v < vecs; v++) {
                acc[r][v] = vf_fma1(p[r * SCORE_STRIDE + j], x[v], acc[r][v]);
            }
        }
    }
    for (int r = 0; r < n; r++) {
        for (int v = 0; v < vecs; v++) {
            vf_store(o[r] + v * VF, acc[r][v]);
        }
    }
}

/* o[r] += p[r] * values over the places [begin, end) of a page, for n pairs. */
static void TILE(values)(const void *page, int64_t d, const float *p, int n, int64_t begin,
                         int64_t end, float *const *out)
{
    float *o[ATTN_PAIRS];
    memcpy(o, out, (size_t)n * sizeof *o);
    const TILE_ELEM *values = page;
    int64_t left = d;
    for (int step; left >= VF; left -= step * VF) {
        step = left >= ATTN_LANES ? ATTN_VECS : 1;
#define CALL(count)                                                             \
    step > 1 ? TILE(value_lanes)(values, d, p, count, ATTN_VECS, begin, end, o) \
             : TILE(value_lanes)(values, d, p, count, 1, begin, end, o)
        FOR_PAIRS(n)
#undef CALL
        values += step * VF;
        for (int r = 0; r < n; r++) {
            o[r] += step * VF;
        }
    }
    for (int64_t i = 0; i < left; i++) {
        for (int r = 0; r < n; r++) {
            for (int64_t j = begin; j < end; j++) {
                float x = TILE_LOAD1(values[j * d + i]);
                o[r][i] = whim_fmaf(p[r * SCORE_STRIDE + j], x, o[r][i]);
            }
        }
    }
}

static void TILE(widen)(const void *page, int64_t n, float *out)
{
    const TILE_ELEM *x = page;
    for (int64_t i = 0; i < n; i += VF) {
        vf_store(out + i, TILE_VLOAD(x + i));
    }
}

#undef TILE
#undef TILE_JOIN
#undef TILE_JOIN_
#undef TILE_NAME
#undef TILE_ELEM
#undef TILE_VLOAD
#undef TILE_LOAD1

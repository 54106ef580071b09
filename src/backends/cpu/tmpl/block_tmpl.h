/* SPDX-License-Identifier: Apache-2.0 */
/* Products of int8 rows with one tile of a block type; included by product_tmpl.h, after the header
 * with a level's inner loops (quad_tmpl.h or its own), which give
 *   PRODUCT_ORDER, PRODUCT_ROWS, PRODUCT_TAIL
 *   product_one   one row, straight from the packed codes
 *   product_rows  PRODUCT_ROWS or PRODUCT_TAIL rows, from a tile opened up once for all rows
 *   product_reads_codes  whether product_rows takes so many rows of a type from the packed codes
 * and may give
 *   PRODUCT_WIDE    few rows go to wide_product (wide_tmpl.h), two tiles of outputs at once
 *   PRODUCT_STEPS   the numbers of rows that product_rows takes, if not the two above
 *   CHUNK_GROUPS    groups of a tile that are opened at once
 *   CHUNK_BYTES     int8 rows that one chunk may take, so that they stay in a core's cache from
 *                   tile to tile
 *   PRODUCT_FEW     few_takes, few_lanes and few_product: a loop of its own for few rows of some
 *                   types
 *   PRODUCT_BELOW   a lower level that has these loops already: compiled again they are the same,
 *                   and take most of a level's time to compile
 *   PRODUCT_MANY    beside PRODUCT_BELOW: more than WIDE_ROWS rows have loops of their own
 * The sum over k is in order in all, so all row counts give the same bits. */
#ifndef PRODUCT_STEPS
#define PRODUCT_STEPS(STEP) STEP(PRODUCT_ROWS) STEP(PRODUCT_TAIL)
#endif
#ifndef CHUNK_GROUPS
#define CHUNK_GROUPS 128
#endif
#ifndef CHUNK_BYTES
#define CHUNK_BYTES INT64_MAX
#endif

#ifdef PRODUCT_WIDE
#include "backends/cpu/tmpl/wide_tmpl.h"
#else
enum { WIDE_ROWS = 0 };
#endif

enum {
    CHUNK_ROWS = 256, /* rows that share an opened tile: their int8 form stays in the cache */
    OUT_BYTES = CHUNK_ROWS * WHIM_CPU_TILE * (int)sizeof(float),
};
_Static_assert(CHUNK_GROUPS *OPEN_GROUP_BYTES + 2 * OUT_BYTES <= WHIM_CPU_SCRATCH, "scratch");
_Static_assert(ACT_ROWS % PRODUCT_ROWS == 0 || PRODUCT_ORDER == WHIM_CPU_ORDER_PAIR,
               "rows multiplied together are in one block of activations");

/* Scratch for opened groups, or for few_lanes. */
enum { OPEN_BYTES = WHIM_CPU_SCRATCH - 2 * OUT_BYTES };

#ifndef PRODUCT_FEW
#define few_takes(form, rows, k, room) false
#define few_lanes(form, rows, k, meta, lanes) (void)(lanes)
#define few_product(form, tile, rows, k, q, lanes, out) (void)(lanes)
#endif

/* One tile times at most CHUNK_ROWS rows; where product_takes_two, two. */
typedef struct product_job {
    const char *tile, *second; /* `second` may be NULL */
    int64_t skip; /* bytes from the end of a tile to the next one walked in its place */
    int64_t k, rows;
    whim_cpu_act act;     /* block types: the first row's int8 */
    const uint16_t *bf16; /* BF16 units: the first row */
    const float *x;       /* float types: the first row */
    int64_t x_stride;
    void *scratch; /* OPEN_BYTES */
    bool few;      /* it holds few_lanes of the rows */
    float *out;    /* [tiles][CHUNK_ROWS][16] */
} product_job;

/* `rows`: a constant. */
ALWAYS_INLINE void product_block(const whim_cpu_form form, int rows, const product_job *job,
                                 const open_tile *tile, int64_t g, int64_t n, int64_t r)
{
    /* The block that row r is in; in order QUAD the last one is only as large as it must be. */
    int64_t row0 = r / ACT_ROWS * ACT_ROWS, block = ACT_ROWS;
    if (PRODUCT_ORDER == WHIM_CPU_ORDER_QUAD && job->rows - row0 < block) {
        block = job->rows - row0;
    }
    int64_t at = row0 * (job->k / WHIM_GROUP) + g * block + r - row0;
    product_rows(form, rows, tile, n, job->act.q + at * WHIM_GROUP, job->act.meta + at,
                 PRODUCT_ORDER == WHIM_CPU_ORDER_QUAD ? block : job->k,
                 job->out + r * WHIM_CPU_TILE);
}

ALWAYS_INLINE void product_many(const whim_cpu_form form, const product_job *job)
{
    if (job->few && few_takes(form, job->rows, job->k, OPEN_BYTES)) {
        few_product(form, job->tile, job->rows, job->k, job->act.q, job->scratch, job->out);
        return;
    }
#if defined(PRODUCT_WIDE) && !defined(PRODUCT_BELOW)
    if (job->rows <= WIDE_ROWS) {
        wide_tiles tiles = {.tile = {job->tile, job->second},
                            .out = {job->out, job->out + CHUNK_ROWS * WHIM_CPU_TILE},
                            .bytes = whim_cpu_block_tile_bytes(&form, job->k),
                            .skip = job->skip};
        wide_product(form, &tiles, job->k / WHIM_GROUP, &job->act, job->rows);
        return;
    }
#endif
    int64_t n_group = job->k / WHIM_GROUP;
    int64_t rows = (job->rows + PRODUCT_TAIL - 1) / PRODUCT_TAIL * PRODUCT_TAIL;
    memset(job->out, 0, (size_t)(rows * WHIM_CPU_TILE) * sizeof *job->out);
    for (int64_t g = 0; g < n_group; g += CHUNK_GROUPS) {
        int64_t n = n_group - g < CHUNK_GROUPS ? n_group - g : CHUNK_GROUPS, r = 0;
        bool with_values = !product_reads_codes(form, job->rows);
        open_tile tile = tile_open(form, job->tile, g, n, with_values, job->scratch);
#define STEP(step)                                      \
    for (; r + (step) <= rows; r += (step)) {           \
        product_block(form, step, job, &tile, g, n, r); \
    }
        PRODUCT_STEPS(STEP)
#undef STEP
    }
}

typedef void product_tile(const product_job *job);

/* Of each block type: for several rows, and for one. */
typedef product_tile *const block_products[WHIM_DTYPE_COUNT][2];
#define BLOCK_PRODUCTS_(level) whim_cpu_block_products_##level
#define BLOCK_PRODUCTS(level) BLOCK_PRODUCTS_(level)

#ifndef PRODUCT_BELOW
#define DEFINE_PRODUCT(NAME, name, ...)                                                   \
    static void many_##name(const product_job *job)                                       \
    {                                                                                     \
        product_many(form_##name, job);                                                   \
    }                                                                                     \
    static void one_##name(const product_job *job)                                        \
    {                                                                                     \
        product_one(form_##name, job->tile, job->k, job->act.q, job->act.meta, job->out); \
    }
WHIM_CPU_FORMS(DEFINE_PRODUCT)
#undef DEFINE_PRODUCT
#define TYPE(NAME, name, ...) [WHIM_DTYPE_##NAME] = {many_##name, one_##name},
extern block_products BLOCK_PRODUCTS(WHIM_CPU_LEVEL);
block_products BLOCK_PRODUCTS(WHIM_CPU_LEVEL) = {WHIM_CPU_FORMS(TYPE) WHIM_CPU_SAME_FORMS(TYPE)};
#undef TYPE

static product_tile *block_product(whim_dtype dtype, bool one)
{
    return BLOCK_PRODUCTS(WHIM_CPU_LEVEL)[dtype][one];
}
#else
extern block_products BLOCK_PRODUCTS(PRODUCT_BELOW);
#ifdef PRODUCT_MANY
#define DEFINE_PRODUCT(NAME, name, ...)                                   \
    static void many_##name(const product_job *job)                       \
    {                                                                     \
        if (job->rows <= WIDE_ROWS) {                                     \
            BLOCK_PRODUCTS(PRODUCT_BELOW)[WHIM_DTYPE_##NAME][false](job); \
            return;                                                       \
        }                                                                 \
        product_many(form_##name, job);                                   \
    }
WHIM_CPU_FORMS(DEFINE_PRODUCT)
#undef DEFINE_PRODUCT
#endif

static product_tile *block_product(whim_dtype dtype, bool one)
{
#ifdef PRODUCT_MANY
#define TYPE(NAME, name, ...) [WHIM_DTYPE_##NAME] = many_##name,
    static product_tile *const many[WHIM_DTYPE_COUNT] = {WHIM_CPU_FORMS(TYPE)
                                                             WHIM_CPU_SAME_FORMS(TYPE)};
#undef TYPE
    if (!one) {
        return many[dtype];
    }
#endif
    return BLOCK_PRODUCTS(PRODUCT_BELOW)[dtype][one];
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* `linear`, its fused sisters and `embed`, shared by all levels: included once per level after store_tmpl.h,
 * rows_tmpl.h and the
 * header with its inner loops for int8 rows (quad_tmpl.h or the level's own), which give
 *   PRODUCT_ORDER, PRODUCT_ROWS, PRODUCT_TAIL
 *   product_one   one row, straight from the packed codes
 *   product_rows  PRODUCT_ROWS or PRODUCT_TAIL rows, from a tile opened up once for all rows
 *   product_reads_codes  whether product_rows takes so many rows of a type from the packed codes
 * The sum over k is in order in both, so all row counts give the same bits. */
#include "backends/cpu/kernels.h"

#include <string.h>

enum {
    CHUNK_ROWS = 256,   /* rows that share an opened tile: their int8 form stays in the cache */
    CHUNK_GROUPS = 128, /* groups of a tile that are opened at once */
    OUT_BYTES = CHUNK_ROWS * WHIM_CPU_TILE * (int)sizeof(float),
};
_Static_assert(CHUNK_GROUPS *OPEN_GROUP_BYTES + 2 * OUT_BYTES <= WHIM_CPU_SCRATCH, "scratch");
_Static_assert(PRODUCT_TAIL == ACT_ROWS, "the last rows are a block of activations");

/* One tile times at most CHUNK_ROWS rows. */
typedef struct product_job {
    const char *tile;
    int64_t k, rows;
    whim_cpu_act act; /* block types: the first row's int8 */
    const float *x;   /* float types: the first row */
    int64_t x_stride;
    void *scratch; /* for opened groups */
    float *out;    /* [rows, rounded up to a block][16] */
} product_job;

/* `rows`: a constant. */
ALWAYS_INLINE void product_block(const whim_cpu_form form, int rows, const product_job *job,
                                 const open_tile *tile, int64_t g, int64_t n, int64_t r)
{
    product_rows(form, rows, tile, n, job->act.q + r * job->k + g * ACT_ROWS * WHIM_GROUP,
                 job->act.meta + r * (job->k / WHIM_GROUP) + g * ACT_ROWS, job->k,
                 job->out + r * WHIM_CPU_TILE);
}

ALWAYS_INLINE void product_many(const whim_cpu_form form, const product_job *job)
{
    int64_t n_group = job->k / WHIM_GROUP;
    memset(job->out, 0, (size_t)(job->rows + ACT_ROWS - 1) * WHIM_CPU_TILE * sizeof *job->out);
    for (int64_t g = 0; g < n_group; g += CHUNK_GROUPS) {
        int64_t n = n_group - g < CHUNK_GROUPS ? n_group - g : CHUNK_GROUPS, r = 0;
        bool with_values = !product_reads_codes(form, job->rows);
        open_tile tile = tile_open(form, job->tile, job->k, g, n, with_values, job->scratch);
        for (; r + PRODUCT_ROWS <= job->rows; r += PRODUCT_ROWS) {
            product_block(form, PRODUCT_ROWS, job, &tile, g, n, r);
        }
        for (; r < job->rows; r += PRODUCT_TAIL) {
            product_block(form, PRODUCT_TAIL, job, &tile, g, n, r);
        }
    }
}

ALWAYS_INLINE void float_many(whim_dtype type, const product_job *job)
{
    int64_t r = 0;
    for (; r + FLOAT_ROWS <= job->rows; r += FLOAT_ROWS) {
        float_rows(type, FLOAT_ROWS, job->tile, job->k, job->x + r * job->x_stride, job->x_stride,
                   job->out + r * WHIM_CPU_TILE);
    }
    for (; r < job->rows; r++) {
        float_rows(type, 1, job->tile, job->k, job->x + r * job->x_stride, job->x_stride,
                   job->out + r * WHIM_CPU_TILE);
    }
}

typedef void product_tile(const product_job *job);

#define DEFINE_PRODUCT(NAME, name, bits, offset, table, d, span, subs, has_min)           \
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

#define DEFINE_FLOAT(NAME, name)                     \
    static void float_##name(const product_job *job) \
    {                                                \
        float_many(WHIM_DTYPE_##NAME, job);          \
    }
DEFINE_FLOAT(F32, f32)
DEFINE_FLOAT(F16, f16)
DEFINE_FLOAT(BF16, bf16)
DEFINE_FLOAT(FP8, fp8)
#undef DEFINE_FLOAT

static product_tile *product_of(whim_dtype dtype, bool one)
{
#define TYPE(NAME, name, ...) [WHIM_DTYPE_##NAME] = {many_##name, one_##name},
    static product_tile *const tiles[WHIM_DTYPE_COUNT][2] = {
        WHIM_CPU_FORMS(TYPE)[WHIM_DTYPE_F32] = {float_f32, float_f32},
        [WHIM_DTYPE_F16] = {float_f16, float_f16},
        [WHIM_DTYPE_BF16] = {float_bf16, float_bf16},
        [WHIM_DTYPE_FP8] = {float_fp8, float_fp8},
    };
#undef TYPE
    return tiles[dtype][one];
}

/* One tile of a product, or of gate and up, from rows to where the results go. */
static void product_item(const whim_cpu_product_args *a, product_tile *tile_fn, int64_t tile_at,
                         const tile_place *at, product_job *job, whim_cpu_best *best)
{
    job->tile = (const char *)a->w.data + tile_at;
    tile_fn(job);
    tile_add_bias(at, a->bias, job->out);
    if (a->up != NULL) {
        product_job up = *job;
        up.tile = (const char *)a->up + tile_at;
        up.out = job->out + CHUNK_ROWS * WHIM_CPU_TILE;
        tile_fn(&up);
        tile_add_bias(at, a->up_bias, up.out);
        tile_swiglu(at->rows, job->out, up.out);
    }
    if (best == NULL) {
        tile_store(at, job->out, a->y, a->y_stride);
        return;
    }
    for (int64_t r = 0; r < at->rows; r++) {
        topk_offer(best + (at->row0 + r) * a->k_top, a->k_top, job->out + r * WHIM_CPU_TILE, at->n,
                   at->n0);
    }
}

static void linear_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_product_args *a = args;
    int64_t k = a->w.k, n_tile = (a->w.n + WHIM_CPU_TILE - 1) / WHIM_CPU_TILE;
    int64_t n_chunk = (a->n_row + CHUNK_ROWS - 1) / CHUNK_ROWS;
    int64_t tile_bytes = whim_cpu_tile_bytes(&LEVEL_TABLE, a->w.dtype, k);
    product_tile *tile_fn = product_of(a->w.dtype, a->n_row == 1);
    product_source from = product_source_of(a, worker);
    whim_cpu_best *best = NULL;
    if (a->best != NULL) {
        best = a->best + worker->index * a->n_row * a->k_top;
        memset(best, 0, (size_t)(a->n_row * a->k_top) * sizeof *best);
    }
    product_job job = {.k = k,
                       .x_stride = from.x_stride,
                       .out = worker->scratch,
                       .scratch = (char *)worker->scratch + 2 * OUT_BYTES};
    whim_cpu_claim claim = whim_cpu_claim_open(worker, n_chunk * n_tile);
    while (whim_cpu_claim_next(&claim)) {
        for (int64_t item = claim.begin; item < claim.end; item++) {
            int64_t row0 = item / n_tile * CHUNK_ROWS, t = item % n_tile, n0 = t * WHIM_CPU_TILE;
            tile_place at = {.row0 = row0,
                             .rows = a->n_row - row0 < CHUNK_ROWS ? a->n_row - row0 : CHUNK_ROWS,
                             .n0 = n0,
                             .n = a->w.n - n0 < WHIM_CPU_TILE ? a->w.n - n0 : WHIM_CPU_TILE};
            job.rows = at.rows;
            job.x = from.x + row0 * from.x_stride;
            if (from.act.q != NULL) {
                job.act.q = from.act.q + row0 * k;
                job.act.meta = from.act.meta + row0 * (k / WHIM_GROUP);
            }
            product_item(a, tile_fn, t * tile_bytes, &at, &job, best);
        }
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
            whim_cpu_unpack_row(&LEVEL_TABLE, &a->w, id, y);
        }
    }
}

static void quantize_q8_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_quantize_q8_args *a = args;
    int64_t n_block = a->k / WHIM_GROUP, begin, end;
    whim_cpu_share(worker, a->n_row * n_block, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        whim_q8_quantize32(a->x + i / n_block * a->x_stride + i % n_block * WHIM_GROUP, &a->y[i]);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `linear`, its fused sisters and `embed`, shared by all levels: included once per level after
 * store_tmpl.h, rows_tmpl.h and what block_tmpl.h asks for. A level may give
 *   PRODUCT_BF16   BF16 weights, in PRODUCT_BF16_ORDER, and rows go to bf16_product, two tiles of
 *                  outputs at once; FP8 weights, opened as BF16, too
 *   PRODUCT_END    called after a worker's last product of a command */
#include "backends/cpu/kernels.h"

#include <string.h>

#ifndef PRODUCT_END
#define PRODUCT_END()
#endif

#include "backends/cpu/tmpl/block_tmpl.h"

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

#define DEFINE_FLOAT(NAME, name)                     \
    static void float_##name(const product_job *job) \
    {                                                \
        float_many(WHIM_DTYPE_##NAME, job);          \
    }
DEFINE_FLOAT(F32, f32)
DEFINE_FLOAT(F16, f16)
#ifndef PRODUCT_BF16
DEFINE_FLOAT(BF16, bf16)
#define PRODUCT_BF16_ORDER WHIM_CPU_BF16_LANES
#define PRODUCT_ROUND_ACT NULL
#include "backends/cpu/tmpl/fp8_f32_tmpl.h"
#else
#include "backends/cpu/tmpl/fp8_tmpl.h"

static void float_bf16(const product_job *job)
{
    int64_t n_step = whim_cpu_bf16_steps(job->k);
    bf16_product((whim_cpu_bf16_rows){job->bf16, n_step, 0}, (const uint16_t *)job->tile,
                 (const uint16_t *)job->second, n_step, job->rows, job->out,
                 CHUNK_ROWS * WHIM_CPU_TILE);
}
#define PRODUCT_ROUND_ACT round_act_kernel
#endif
#undef DEFINE_FLOAT

static product_tile *product_of(whim_dtype dtype, bool one)
{
    static product_tile *const floats[WHIM_DTYPE_COUNT] = {
        [WHIM_DTYPE_F32] = float_f32,
        [WHIM_DTYPE_F16] = float_f16,
        [WHIM_DTYPE_BF16] = float_bf16,
        [WHIM_DTYPE_FP8] = float_fp8,
    };
    return floats[dtype] != NULL ? floats[dtype] : block_product(dtype, one);
}

/* Whether the product goes to wide_product. */
static bool product_is_wide(const whim_cpu_product_args *a)
{
    return a->n_row > 1 && a->n_row <= WIDE_ROWS && whim_cpu_form_of(a->w.dtype) != NULL;
}

/* Whether one call multiplies the job's second tile too. */
static bool product_takes_two(const whim_cpu_product_args *a)
{
    return product_is_wide(a) || takes_bf16(a->w.dtype);
}

/* Where a tile's finished results go. */
static void product_put(const whim_cpu_product_args *a, const tile_place *at, const float *out,
                        whim_cpu_best *best)
{
    if (best == NULL) {
        tile_store(at, out, a->y, a->y_stride);
        return;
    }
    for (int64_t r = 0; r < at->rows; r++) {
        topk_offer(best + (at->row0 + r) * a->k_top, a->k_top, out + r * WHIM_CPU_TILE, at->n,
                   at->n0);
    }
}

/* Rows that are multiplied with one tile after another. */
static int64_t chunk_rows(const whim_cpu_product_args *a)
{
    int64_t row_bytes = a->w.k + a->w.k / WHIM_GROUP * (int64_t)sizeof(whim_cpu_act_meta);
    if (whim_cpu_form_of(a->w.dtype) == NULL || row_bytes == 0) {
        return CHUNK_ROWS;
    }
    int64_t rows = CHUNK_BYTES / row_bytes / 16 * 16;
    return rows < 64 ? 64 : rows < CHUNK_ROWS ? rows : CHUNK_ROWS;
}

static tile_place place_of(const whim_cpu_product_args *a, int64_t row0, int64_t rows, int64_t tile)
{
    int64_t n0 = tile * WHIM_CPU_TILE;
    return (tile_place){.row0 = row0,
                        .rows = rows,
                        .n0 = n0,
                        .n = a->w.n - n0 < WHIM_CPU_TILE ? a->w.n - n0 : WHIM_CPU_TILE};
}

/* The tile of place at[0], and of at[1] if job->second is not NULL, from rows to where the results
 * go: two tiles of gate and up are joined, others are neighbours. */
static void product_item(const whim_cpu_product_args *a, const tile_place at[2],
                         const product_job *job, whim_cpu_best *best)
{
    product_tile *tile_fn = product_of(a->w.dtype, a->n_row == 1);
    float *out = job->out, *second_out = out + CHUNK_ROWS * WHIM_CPU_TILE;
    product_job call = *job;
    if (!product_takes_two(a)) {
        call.second = NULL;
    }
    tile_fn(&call);
    tile_add_bias(&at[0], a->bias, out);
    if (job->second != NULL) {
        if (call.second == NULL) {
            call.tile = job->second;
            call.out = second_out;
            tile_fn(&call);
        }
        tile_add_bias(&at[1], a->up != NULL ? a->up_bias : a->bias, second_out);
    }
    if (a->up != NULL) {
        tile_swiglu(at[0].rows, out, second_out);
    }
    product_put(a, &at[0], out, best);
    if (a->up == NULL && job->second != NULL) {
        product_put(a, &at[1], second_out, best);
    }
}

/* The job's activations from row0 on. */
static void product_rows_at(const whim_cpu_product_args *a, const product_source *from,
                            int64_t row0, product_job *job)
{
    int64_t k = a->w.k;
    job->x = from->x + row0 * from->x_stride;
    if (from->bf16 != NULL) {
        job->bf16 = from->bf16 + row0 * whim_cpu_bf16_steps(k) * WHIM_GROUP;
    }
    if (from->act.q != NULL) {
        job->act.q = from->act.q + row0 * k;
        job->act.meta = from->act.meta + row0 * (k / WHIM_GROUP);
    }
}

/* How a product's tiles are dealt: items are steps of `tiles` tiles, one chunk of rows after the
 * other. */
typedef struct product_items {
    int64_t n_tile, tiles, n_step;
    int64_t chunk, n_chunk;
    int64_t tile_bytes;
    bool joined; /* an item's second tile is of the other weight */
} product_items;

static product_items product_items_of(const whim_cpu_product_args *a)
{
    bool joined = a->up != NULL;
    product_items i = {.n_tile = (a->w.n + WHIM_CPU_TILE - 1) / WHIM_CPU_TILE,
                       .tiles = !joined && product_takes_two(a) && !product_is_wide(a) ? 2 : 1,
                       .chunk = chunk_rows(a),
                       .tile_bytes = whim_cpu_tile_bytes(&LEVEL_TABLE, a->w.dtype, a->w.k),
                       .joined = joined};
    i.n_step = (i.n_tile + i.tiles - 1) / i.tiles;
    i.n_chunk = (a->n_row + i.chunk - 1) / i.chunk;
    return i;
}

/* What all items of a product share. */
static product_job product_job_of(const whim_cpu_product_args *a, const product_source *from,
                                  const whim_cpu_worker *worker)
{
    product_job job = {.k = a->w.k,
                       .x_stride = from->x_stride,
                       .out = worker->scratch,
                       .scratch = (char *)worker->scratch + 2 * OUT_BYTES};
    const whim_cpu_form *form = whim_cpu_form_of(a->w.dtype);
    job.few = form != NULL && a->n_row > 1 && few_takes(*form, a->n_row, a->w.k, OPEN_BYTES);
    if (job.few) {
        few_lanes(form, a->n_row, a->w.k, from->act.meta, job.scratch);
    }
    return job;
}

/* Items begin .. end - 1. */
static void product_run(const whim_cpu_product_args *a, const product_items *items,
                        const product_source *from, product_job *job, whim_cpu_best *best,
                        int64_t begin, int64_t end)
{
    int64_t taken = 1;
    for (int64_t item = begin; item < end; item += taken) {
        int64_t row0 = item / items->n_step * items->chunk;
        int64_t t = item % items->n_step * items->tiles;
        /* Few rows: two items at once, but the last ones, which are claimed singly. */
        taken = !items->joined && product_is_wide(a) && item + 1 < end ? 2 : 1;
        job->rows = a->n_row - row0 < items->chunk ? a->n_row - row0 : items->chunk;
        tile_place at[2] = {place_of(a, row0, job->rows, t),
                            place_of(a, row0, job->rows, items->joined ? t : t + 1)};
        product_rows_at(a, from, row0, job);
        job->tile = (const char *)a->w.data + t * items->tile_bytes;
        bool two = items->tiles * taken == 2 && t + 1 < items->n_tile;
        job->second = items->joined ? (const char *)a->up + t * items->tile_bytes
                      : two         ? job->tile + items->tile_bytes
                                    : NULL;
        job->skip = (taken - 1) * items->tile_bytes;
        product_item(a, at, job, best);
    }
}

static void linear_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_product_args *a = args;
    product_items items = product_items_of(a);
    product_source from = product_source_of(a, worker);
    whim_cpu_best *best = NULL;
    if (a->best != NULL) {
        best = a->best + worker->index * a->n_row * a->k_top;
        memset(best, 0, (size_t)(a->n_row * a->k_top) * sizeof *best);
    }
    product_job job = product_job_of(a, &from, worker);
    whim_cpu_claim claim = whim_cpu_claim_open(worker, items.n_chunk * items.n_step);
    while (whim_cpu_claim_next(&claim)) {
        product_run(a, &items, &from, &job, best, claim.begin, claim.end);
    }
    PRODUCT_END();
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

/* Groups of a row, as int8 or BF16; other types are nothing that products here take. */
static void narrow_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_narrow_args *a = args;
    int64_t n_group = (a->n_col + WHIM_GROUP - 1) / WHIM_GROUP, begin, end;
    whim_cpu_share(worker, a->n_row * n_group, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t r = i / n_group, at = i % n_group * WHIM_GROUP;
        const float *x = a->x + r * a->x_stride + at;
        int64_t place = r * a->y_stride + at, n = a->n_col - at;
        if (a->y_type == WHIM_ACT_Q8) {
            whim_q8_quantize32(x, (whim_q8_block *)a->y + place / WHIM_GROUP);
            continue;
        }
        for (int64_t j = 0; j < (n < WHIM_GROUP ? n : WHIM_GROUP); j++) {
            ((uint16_t *)a->y)[place + j] = whim_f32_to_bf16(x[j]);
        }
    }
}

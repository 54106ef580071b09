/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that a product reads: their int8 or BF16 form, made by all workers for all or by each
 * for itself. Included once per level after row_tmpl.h and the header that gives PRODUCT_ORDER. */
#include "backends/cpu/kernels.h"
#include "tensor/unpack.h"

#include <string.h>

enum {
    ACT_ROWS = PRODUCT_ORDER == WHIM_CPU_ORDER_PAIR ? 2 : 16, /* rows of a block of activations */
};

/* One row's group at its place of a block of rows: rows of a QUAD block lie one after the other,
 * those of a pair 8 and 8. */
static inline void act_put(const whim_q8_block *block, int row, int8_t *q, whim_cpu_act_meta *meta)
{
    if (PRODUCT_ORDER == WHIM_CPU_ORDER_QUAD) {
        memcpy(q + row * WHIM_GROUP, block->q, WHIM_GROUP);
    } else {
        for (int i = 0; i < WHIM_GROUP; i += 8) {
            memcpy(q + i * 2 + row * 8, block->q + i, 8);
        }
    }
    meta[row] = (whim_cpu_act_meta){block->s,
                                    block->s * (float)(block->sum[0] + block->sum[1]),
                                    {block->sum[0], block->sum[1]}};
}

/* Element `at` of row `row`, which begins a block. */
static inline const void *act_source(const whim_cpu_quantize_args *a, int64_t row, int64_t at)
{
    int64_t i = (a->rows != NULL ? a->rows[row] : row) * a->x_stride + at;
    return a->x_type == WHIM_ACT_F32
               ? (const float *)a->x + i
               : (const void *)((const char *)a->x + whim_act_bytes(a->x_type, i));
}

/* n elements from there on as F32: where they lie, or in `part`. */
static inline const float *act_floats(const whim_cpu_quantize_args *a, int64_t row, int64_t at,
                                      int64_t n, float *part)
{
    const void *x = act_source(a, row, at);
    if (a->x_type != WHIM_ACT_F32) {
        whim_act_load(a->x_type, x, part, n);
    }
    return a->x_type != WHIM_ACT_F32 ? part : x;
}

/* A row's group as int8; one that is so already has the bits that it was given. */
static inline void act_group(const whim_cpu_quantize_args *a, int64_t row, int64_t g,
                             whim_q8_block *block)
{
    float part[WHIM_GROUP];
    if (a->x_type == WHIM_ACT_Q8) {
        memcpy(block, act_source(a, row, g * WHIM_GROUP), sizeof *block);
    } else {
        whim_q8_quantize32(act_floats(a, row, g * WHIM_GROUP, WHIM_GROUP, part), block);
    }
}

/* Groups begin .. end - 1 of all blocks of rows as int8. */
static void act_quantize(const whim_cpu_quantize_args *a, const whim_cpu_act *act, int64_t begin,
                         int64_t end)
{
    int64_t n_group = a->k / WHIM_GROUP;
    for (int64_t item = begin; item < end; item++) {
        int64_t row0 = item / n_group * ACT_ROWS, g = item % n_group;
        /* The last pair is filled up with its row again; the last QUAD block is smaller. */
        int64_t rows = ACT_ROWS;
        if (PRODUCT_ORDER == WHIM_CPU_ORDER_QUAD && a->n_row - row0 < rows) {
            rows = a->n_row - row0;
        }
        int64_t at = row0 * n_group + g * rows;
        whim_q8_block block;
        for (int r = 0; r < rows; r++) {
            if (r == 0 || row0 + r < a->n_row) {
                act_group(a, row0 + r, g, &block);
            }
            act_put(&block, r, act->q + at * WHIM_GROUP, act->meta + at);
        }
    }
}

static int64_t act_items(const whim_cpu_quantize_args *a)
{
    return (a->n_row + ACT_ROWS - 1) / ACT_ROWS * (a->k / WHIM_GROUP);
}

static void quantize_act_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_quantize_args *a = args;
    whim_cpu_act act = whim_cpu_act_at(PRODUCT_ORDER, a->act, a->n_row, a->k);
    whim_cpu_claim claim = whim_cpu_claim_open(worker, act_items(a));
    while (whim_cpu_claim_next(&claim)) {
        act_quantize(a, &act, claim.begin, claim.end);
    }
}

/* Steps begin .. end - 1 of all rows, 32 k each, as BF16. */
static void act_round(const whim_cpu_quantize_args *a, uint16_t *act, int64_t begin, int64_t end)
{
    int64_t n_step = whim_cpu_bf16_steps(a->k);
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item / n_step, step = item % n_step, k0 = step * WHIM_GROUP;
        int64_t n = a->k - k0 < WHIM_GROUP ? a->k - k0 : WHIM_GROUP;
        uint16_t *y = act + whim_cpu_bf16_act_place(a->n_row, a->k, row, step);
        if (n < WHIM_GROUP) {
            memset(y, 0, WHIM_GROUP * sizeof *y);
        }
        if (a->x_type == WHIM_ACT_BF16) {
            memcpy(y, act_source(a, row, k0), (size_t)n * sizeof *y);
            continue;
        }
        float part[WHIM_GROUP];
        const float *x = act_floats(a, row, k0, n, part);
        for (int64_t i = 0; i < n; i++) {
            y[i] = whim_f32_to_bf16(x[i]);
        }
    }
}

#ifdef PRODUCT_BF16
static void round_act_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_quantize_args *a = args;
    whim_cpu_claim claim = whim_cpu_claim_open(worker, a->n_row * whim_cpu_bf16_steps(a->k));
    while (whim_cpu_claim_next(&claim)) {
        act_round(a, a->act, claim.begin, claim.end);
    }
}
enum { BF16_UNIT = true };
#else
enum { BF16_UNIT = false };
#endif

/* Whether products with weights of a type take BF16 rows here. */
static inline bool takes_bf16(whim_dtype dtype)
{
    return BF16_UNIT && whim_cpu_wants_bf16(dtype);
}

/* Where a product's rows are: those of the stream, or the worker's own. */
typedef struct product_source {
    const float *x;
    int64_t x_stride;
    whim_cpu_act act;     /* block types */
    const uint16_t *bf16; /* BF16 units */
} product_source;

/* Sum and norm of the worker's own rows. */
static void own_norm(const whim_cpu_product_args *a, float *rows)
{
    const whim_cpu_own *own = &a->own;
    int64_t k = a->w.k;
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *x = a->x + r * a->x_stride;
        float *row = rows + r * k;
        if (own->delta != NULL) {
            const float *delta = own->delta + r * own->delta_stride;
            for (int64_t i = 0; i < k; i++) {
                row[i] = x[i] + delta[i];
            }
            x = row;
        }
        norm_row(x, own->norm, own->eps, row, k);
    }
}

/* The worker's own rows, made now unless it has them. */
static product_source own_rows(const whim_cpu_product_args *a, const whim_cpu_worker *worker)
{
    product_source from = {.x = a->x, .x_stride = a->x_stride};
    int64_t k = a->w.k;
    if (a->own.norm != NULL) {
        if (!a->own.kept) {
            own_norm(a, worker->own);
        }
        from.x = worker->own;
        from.x_stride = k;
    }
    void *memory = (char *)worker->own + WHIM_CPU_OWN_FLOATS;
    whim_cpu_quantize_args narrow = {
        .x = from.x, .x_stride = from.x_stride, .n_row = a->n_row, .k = k};
    if (whim_cpu_form_of(a->w.dtype) != NULL) {
        from.act = whim_cpu_act_at(PRODUCT_ORDER, memory, a->n_row, k);
        if (!a->own.kept) {
            act_quantize(&narrow, &from.act, 0, act_items(&narrow));
        }
    } else if (takes_bf16(a->w.dtype)) {
        from.bf16 = memory;
        if (!a->own.kept) {
            act_round(&narrow, memory, 0, a->n_row * whim_cpu_bf16_steps(k));
        }
    }
    return from;
}

static product_source product_source_of(const whim_cpu_product_args *a,
                                        const whim_cpu_worker *worker)
{
    if (a->own.used) {
        return own_rows(a, worker);
    }
    product_source from = {.x = a->x, .x_stride = a->x_stride};
    if (a->act != NULL && takes_bf16(a->w.dtype)) {
        from.bf16 = a->act;
    } else if (a->act != NULL) {
        from.act = whim_cpu_act_at(PRODUCT_ORDER, a->act, a->n_row, a->w.k);
    }
    return from;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Access lists of all ops, made from operands.def, and of the CPU's own commands. */
#include "backends/cpu/access.h"

#include "ops/operands.h"

/* A matrix of `elem`-byte elements, strides in elements. */
static inline whim_access matrix(const void *at, int64_t n_row, int64_t n_col, int64_t stride,
                                 int64_t elem, bool write)
{
    return (whim_access){(uintptr_t)at, n_col * elem, stride * elem, n_row, write};
}

static whim_access floats(const float *at, int64_t n_row, int64_t n_col, int64_t stride, bool write)
{
    return matrix(at, n_row, n_col, stride, sizeof(float), write);
}

#define WHIM_OPERANDS(op)                                                   \
    static int32_t access_##op(const whim_##op##_args *a, whim_access *out) \
    {                                                                       \
        int32_t n = 0;                                                      \
        (void)a, (void)out;
#define WHIM_RULE(condition)
#define WHIM_LET(name, value) \
    int64_t name = value;     \
    (void)name;
#define WRITES(use) ((WHIM_USE_##use & WHIM_USE_WRITES) != 0)
#define WHIM_MATRIX(use, field, elem, by_row, rows, cols, stride)                                  \
    if ((WHIM_USE_##use & WHIM_USE_CONSTANT) == 0 && a->field != NULL) {                           \
        bool one = (WHIM_USE_##use & WHIM_USE_ONE_ROW) != 0 && (stride) == 0;                      \
        out[n++] =                                                                                 \
            matrix(a->field, one ? 1 : (rows), cols, stride, WHIM_ELEM_BYTES_##elem, WRITES(use)); \
    }
#define WHIM_ACTS(use, field, type, cols, stride)                             \
    out[n++] = (whim_access){(uintptr_t)a->field, whim_act_bytes(type, cols), \
                             whim_act_bytes(type, stride), a->n_row, WRITES(use)};
#define WHIM_WEIGHT(field)
/* How many pages there are is not known here and need not be: they conflict as a whole. */
#define WHIM_PAGES(use, field, lead, bytes, stride) \
    out[n++] = whim_access_span((const char *)a->field + (lead), bytes, WRITES(use));
/* Whose slots they are is known on the device only. */
#define WHIM_SLOTS(elems)                                                               \
    out[n++] =                                                                          \
        floats((const float *)((uintptr_t)a->state.slots + (uintptr_t)a->state.offset), \
               a->state.n_slot, elems, a->state.slot_stride / (int64_t)sizeof(float), true);
#define WHIM_SPACE(bytes)
#define WHIM_END(op) \
    return n;        \
    }
#include "ops/operands.def"

int32_t whim_access_list(whim_op op, const void *args, whim_access out[WHIM_ACCESS_MAX])
{
    switch (op) {
#define WHIM_OP(name)    \
    case WHIM_OP_##name: \
        return access_##name(args, out);
#include "ops/ops.def"
#undef WHIM_OP
    default:
        return 0;
    }
}

/* The int8 rows have one owner at a time, so one byte stands for all of them. */
int32_t whim_access_quantize(const whim_cpu_quantize_args *a, whim_access out[WHIM_ACCESS_MAX])
{
    out[0] = floats(a->x, a->n_row, a->k, a->x_stride, false);
    out[1] = whim_access_span(a->act, 1, true);
    return 2;
}

static whim_access best_span(const whim_cpu_best *best, int64_t n, bool write)
{
    return whim_access_span(best, n * (int64_t)sizeof *best, write);
}

int32_t whim_access_product(const whim_cpu_product_args *a, int64_t n_worker,
                            whim_access out[WHIM_ACCESS_MAX])
{
    out[0] = a->act != NULL ? whim_access_span(a->act, 1, false)
                            : floats(a->x, a->n_row, a->w.k, a->x_stride, false);
    out[1] = a->best != NULL ? best_span(a->best, n_worker * a->n_row * a->k_top, true)
                             : floats(a->y, a->n_row, a->w.n, a->y_stride, true);
    if (a->own.delta == NULL) {
        return 2;
    }
    out[2] = floats(a->own.delta, a->n_row, a->w.k, a->own.delta_stride, false);
    return 3;
}

int32_t whim_access_merge(const whim_cpu_merge_args *a, int64_t n_worker,
                          whim_access out[WHIM_ACCESS_MAX])
{
    out[0] = best_span(a->best, n_worker * a->n_row * a->k_top, false);
    out[1] = floats(a->values, a->n_row, a->k_top, a->k_top, true);
    out[2] = matrix(a->ids, a->n_row, a->k_top, a->k_top, sizeof *a->ids, true);
    return 3;
}

bool whim_access_interleaved(const whim_access *a, const whim_access *b)
{
    if (a->stride != b->stride || a->stride <= 0) {
        return true;
    }
    /* Same stride: column ranges of one matrix, which may lie side by side. */
    const whim_access *lo = a->at <= b->at ? a : b;
    const whim_access *hi = a->at <= b->at ? b : a;
    int64_t column = (int64_t)((hi->at - lo->at) % (uintptr_t)lo->stride);
    return column < lo->row_bytes || column + hi->row_bytes > lo->stride;
}

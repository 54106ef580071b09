/* SPDX-License-Identifier: Apache-2.0 */
/* Operands as lists, for those who have the time to walk one. */
#include "ops/operands.h"

#include <assert.h>
#include <stdio.h>

#define WHIM_OPERANDS(op) static_assert(0
#define WHIM_RULE(condition)
#define WHIM_LET(name, value)
#define WHIM_MATRIX(use, field, elem, by_row, rows, cols, stride) +1
#define WHIM_ACTS(use, field, type, cols, stride) +1
#define WHIM_WEIGHT(field) +1
#define WHIM_PAGES(use, field, lead, bytes, stride) +1
#define WHIM_SLOTS(elems) +1
#define WHIM_SPACE(bytes)
#define WHIM_END(op) <= WHIM_OPERANDS_MAX, "raise WHIM_OPERANDS_MAX");
#include "ops/operands.def"

/* A field has the type that its row says. */
#define IS(pointer, type) _Generic((pointer), type * : true, const type * : true)
#define IS_F32(pointer) IS(pointer, float)
#define IS_F64(pointer) IS(pointer, double)
#define IS_I32(pointer) IS(pointer, int32_t)
#define IS_WANT(pointer) IS(pointer, whim_sample_want)
#define IS_TOLD(pointer) IS(pointer, whim_sample_told)
#define IS_BYTE(pointer) IS(pointer, void)

static whim_operand *add(whim_operand *out, int32_t *n, const char *name, uint32_t use,
                         const void *args, const void *field, const void *data)
{
    whim_operand *o = &out[(*n)++];
    int64_t at = (const char *)field - (const char *)args;
    *o = (whim_operand){.name = name, .use = use, .field = at, .data = data};
    return o;
}
#define ADD(use, name, field) add(out, &n, name, WHIM_USE_##use, a, &a->field, a->field)

static void shape(whim_operand *o, int64_t elem_bytes, int64_t rows, int64_t cols, int64_t stride)
{
    bool one = (o->use & WHIM_USE_ONE_ROW) != 0 && stride == 0;
    o->by_row = o->by_row && !one;
    o->rows = one && rows > 1 ? 1 : rows;
    o->cols = cols;
    o->row_bytes = cols * elem_bytes;
    o->stride = one ? o->row_bytes : stride * elem_bytes;
}

/* The operands of an op, and the workspace that its law takes. */
#define WHIM_OPERANDS(op)                                                                  \
    static int32_t list_##op(const whim_##op##_args *a, whim_operand *out, int64_t *space) \
    {                                                                                      \
        int32_t n = 0;                                                                     \
        whim_operand *o = NULL;                                                            \
        (void)a, (void)out, (void)o, (void)space;
#define WHIM_RULE(condition)
#define WHIM_LET(name, value) \
    int64_t name = value;     \
    (void)name;
#define WHIM_MATRIX(use, name, type, is_by_row, rows, cols, stride) \
    static_assert(IS_##type(a->name), #name " is of another type"); \
    o = ADD(use, #name, name);                                      \
    o->elem = WHIM_ELEM_##type;                                     \
    o->by_row = is_by_row;                                          \
    shape(o, WHIM_ELEM_BYTES_##type, rows, cols, stride);
#define WHIM_ACTS(use, name, type, n_col, n_stride)                   \
    o = ADD(use, #name, name);                                        \
    o->elem = (type) == WHIM_ACT_F32 ? WHIM_ELEM_F32 : WHIM_ELEM_ACT; \
    o->act = type;                                                    \
    o->by_row = true;                                                 \
    o->rows = a->n_row;                                               \
    o->cols = n_col;                                                  \
    o->row_bytes = whim_act_bytes(type, n_col);                       \
    o->stride = whim_act_bytes(type, n_stride);
#define WHIM_WEIGHT(name)             \
    o = ADD(FIXED, #name, name.data); \
    o->elem = WHIM_ELEM_WEIGHT;       \
    o->dtype = a->name.dtype;         \
    o->rows = a->name.n;              \
    o->cols = a->name.k;              \
    o->stride = o->row_bytes = whim_dtype_row_bytes(o->dtype, o->cols);
#define WHIM_PAGES(use, name, start, bytes, stride) \
    o = ADD(use, #name, name);                      \
    o->elem = WHIM_ELEM_BYTE;                       \
    o->lead = start;                                \
    shape(o, 1, -1, bytes, stride);
#define WHIM_SLOTS(elems)                 \
    o = ADD(INOUT, "state", state.slots); \
    o->elem = WHIM_ELEM_F32;              \
    o->lead = a->state.offset;            \
    shape(o, WHIM_ELEM_BYTES_F32, a->state.n_slot, elems, a->state.slot_stride / 4);
#define WHIM_SPACE(bytes) *space = bytes;
#define WHIM_END(op) \
    return n;        \
    }
#include "ops/operands.def"

static int32_t list(whim_op op, const void *args, whim_operand *out, int64_t *space)
{
    switch (op) {
#define WHIM_OP(name)    \
    case WHIM_OP_##name: \
        return list_##name(args, out, space);
#include "ops/ops.def"
#undef WHIM_OP
    default:
        return 0;
    }
}

int32_t whim_operand_list(whim_op op, const void *args, whim_operand out[WHIM_OPERANDS_MAX])
{
    int64_t space;
    return list(op, args, out, &space);
}

int64_t whim_law_workspace(whim_op op, const void *args)
{
    whim_operand operands[WHIM_OPERANDS_MAX];
    int64_t space = 0;
    list(op, args, operands, &space);
    return space;
}

int64_t whim_operand_extent(const whim_operand *o)
{
    int64_t rows = o->rows < 0 ? 1 : o->rows;
    return rows == 0 || o->row_bytes == 0 ? 0 : o->lead + (rows - 1) * o->stride + o->row_bytes;
}

static int operand_text(const whim_operand *o, char *buf, size_t size)
{
    static const char *const names[] = {
#define X(name, type) #name,
        WHIM_ELEMS(X)
#undef X
    };
    const char *type = o->elem == WHIM_ELEM_WEIGHT ? whim_dtype_get(o->dtype)->name
                       : o->elem == WHIM_ELEM_ACT  ? whim_act_name(o->act)
                                                   : names[o->elem];
    return o->data == NULL ? snprintf(buf, size, " %s=none", o->name)
           : o->rows < 0 ? snprintf(buf, size, " %s=%s[*,%lld]", o->name, type, (long long)o->cols)
                         : snprintf(buf, size, " %s=%s[%lld,%lld]", o->name, type,
                                    (long long)o->rows, (long long)o->cols);
}

void whim_op_text(whim_op op, const void *args, char *buf, size_t size)
{
    whim_operand operands[WHIM_OPERANDS_MAX];
    int32_t n = whim_operand_list(op, args, operands);
    int used = snprintf(buf, size, "%s", whim_op_name(op));
    for (int32_t i = 0; i < n && used < (int)size; i++) {
        used += operand_text(&operands[i], buf + used, size - (size_t)used);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of a call from its rows of operands.def. */
#include "checkop/harness.h"

#include "base/check.h"

static checkop_role role_of(const whim_operand *o)
{
    static const checkop_role roles[] = {CHECKOP_IN, CHECKOP_IN, CHECKOP_OUT, CHECKOP_INOUT};
    return o->elem == WHIM_ELEM_WEIGHT ? CHECKOP_WEIGHT : roles[o->use & WHIM_USE_INOUT];
}

/* Ids have no contents that would do for every op: the case binds what is read of them. */
static checkop_fill fill_of(const whim_operand *o, checkop_fill fill)
{
    if ((o->use & WHIM_USE_READS) == 0) {
        return CHECKOP_JUNK;
    }
    whim_check(o->elem != WHIM_ELEM_I32 && o->rows >= 0);
    return o->elem == WHIM_ELEM_WEIGHT         ? CHECKOP_BLOCKS
           : o->elem == WHIM_ELEM_F64          ? CHECKOP_FREQS
           : (o->use & WHIM_USE_CONSTANT) != 0 ? CHECKOP_SANE
                                               : fill;
}

static int32_t buf_of(checkop_case *c, const whim_operand *o, checkop_fill fill, int64_t offset)
{
    static const checkop_kind kinds[] = {
        [WHIM_ELEM_F32] = CHECKOP_F32,    [WHIM_ELEM_F64] = CHECKOP_F64,
        [WHIM_ELEM_I32] = CHECKOP_I32,    [WHIM_ELEM_ACT] = CHECKOP_BYTES,
        [WHIM_ELEM_WANT] = CHECKOP_BYTES, [WHIM_ELEM_TOLD] = CHECKOP_BYTES,
        [WHIM_ELEM_BYTE] = CHECKOP_BYTES, [WHIM_ELEM_WEIGHT] = CHECKOP_BYTES};
    /* Weights begin where a page of memory does, as in a model. */
    static const int64_t steps[] = {
        [WHIM_ELEM_F32] = 4,  [WHIM_ELEM_F64] = 8,  [WHIM_ELEM_I32] = 4,  [WHIM_ELEM_ACT] = 4,
        [WHIM_ELEM_WANT] = 8, [WHIM_ELEM_TOLD] = 4, [WHIM_ELEM_BYTE] = 1, [WHIM_ELEM_WEIGHT] = 0};
    checkop_buf b = {.name = o->name,
                     .role = role_of(o),
                     .fill = fill_of(o, fill),
                     .kind = kinds[o->elem],
                     .dtype = o->dtype,
                     .rows = o->rows,
                     .cols = o->cols,
                     .row_bytes = o->row_bytes,
                     .stride_bytes = o->stride};
    return checkop_buf_add(c, b, (o->by_row ? offset : 1) * steps[o->elem]);
}

int32_t checkop_bound(const checkop_call *call, size_t field)
{
    for (int32_t i = 0; i < call->n_bind; i++) {
        if (call->bind[i].field == field) {
            return call->bind[i].buf;
        }
    }
    return -1;
}

void checkop_operands(checkop_case *c, checkop_call *call, checkop_fill fill, int64_t offset)
{
    whim_operand list[WHIM_OPERANDS_MAX];
    int32_t n = whim_operand_list(call->op, call->args.bytes, list);
    for (int32_t i = 0; i < n; i++) {
        const whim_operand *o = &list[i];
        bool none = o->data == NULL && (o->use & WHIM_USE_OPTIONAL) != 0;
        if (none || checkop_bound(call, (size_t)o->field) >= 0) {
            continue;
        }
        int32_t buf = -1;
        for (int32_t j = 0; j < i && o->data != NULL; j++) {
            buf = list[j].data == o->data ? checkop_bound(call, (size_t)list[j].field) : buf;
        }
        if (buf >= 0) {
            c->buf[buf].role = CHECKOP_INOUT;
        } else {
            buf = buf_of(c, o, fill, offset);
        }
        checkop_bind_at(c, call, (size_t)o->field, buf, o->by_row ? o->stride : 0);
        call->bind[call->n_bind - 1].offset = -o->lead;
    }
}

void checkop_subject(checkop_case *c, const checkop_call *call, size_t n_row_field, int64_t n_row)
{
    c->subject = (int32_t)(call - c->call);
    c->n_row = n_row;
    c->n_row_field = n_row_field;
    for (int32_t i = 0; i < call->n_bind; i++) {
        c->buf[call->bind[i].buf].by_row |= call->bind[i].row_step != 0;
    }
}

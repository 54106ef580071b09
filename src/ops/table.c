/* SPDX-License-Identifier: Apache-2.0 */
/* Names, sizes and tables of the ops, all made from ops.def, and the order in which a backend's
 * table is filled: its kernels, then compositions, then refusal. */
#include "ops/compose/compose.h"
#include "ops/ops.h"
#include "ops/ref/ref.h"

#include <assert.h>

#define WHIM_OP(name) \
    static_assert(sizeof(whim_##name##_args) <= WHIM_OP_ARGS_MAX, "raise WHIM_OP_ARGS_MAX");
#include "ops/ops.def"
#undef WHIM_OP

static const struct {
    const char *name;
    int64_t args_bytes;
} op_facts[WHIM_OP_COUNT] = {
#define WHIM_OP(name) {#name, sizeof(whim_##name##_args)},
#include "ops/ops.def"
#undef WHIM_OP
};

const char *whim_op_name(whim_op op)
{
    return op_facts[op].name;
}

int64_t whim_op_args_bytes(whim_op op)
{
    return op_facts[op].args_bytes;
}

whim_err whim_op_call(whim_stream *s, whim_op op, const void *args)
{
    switch (op) {
#define WHIM_OP(name)    \
    case WHIM_OP_##name: \
        return whim_op_##name(s, args);
#include "ops/ops.def"
#undef WHIM_OP
    default:
        return WHIM_ERR_INVALID;
    }
}

/* From here on the two kinds of op differ. */
#undef WHIM_PRIM
#undef WHIM_FUSED

bool whim_op_is_fused(whim_op op)
{
    static const bool fused[WHIM_OP_COUNT] = {
#define WHIM_PRIM(name) [WHIM_OP_##name] = false,
#define WHIM_FUSED(name) [WHIM_OP_##name] = true,
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED
    };
    return fused[op];
}

const whim_ops *whim_ops_law(void)
{
    static const whim_ops law = {
#define WHIM_PRIM(name) .name = whim_ref_##name,
#define WHIM_FUSED(name) .name = whim_compose_##name,
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED
    };
    return &law;
}

void whim_law_stream_init(whim_stream *s)
{
    *s = (whim_stream){.ops = whim_ops_law()};
}

#define WHIM_FUSED(name)
#define WHIM_COMM(name)
#define WHIM_PRIM(name)                                                        \
    static whim_err refuse_##name(whim_stream *s, const whim_##name##_args *a) \
    {                                                                          \
        (void)s;                                                               \
        (void)a;                                                               \
        return WHIM_ERR_UNSUPPORTED;                                           \
    }
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED

void whim_ops_fill(whim_ops *table)
{
    static const whim_ops rest = {
#define WHIM_PRIM(name) .name = refuse_##name,
#define WHIM_FUSED(name) .name = whim_compose_##name,
#define WHIM_COMM(name) .name = whim_alone_##name,
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED
    };
#define WHIM_PRIM(name) table->name = table->name != NULL ? table->name : rest.name;
#define WHIM_FUSED(name) WHIM_PRIM(name)
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED
}

bool whim_ops_has(const whim_ops *table, whim_op op)
{
    switch (op) {
#define WHIM_PRIM(name)  \
    case WHIM_OP_##name: \
        return table->name != refuse_##name;
#define WHIM_FUSED(name) \
    case WHIM_OP_##name: \
        return table->name != whim_compose_##name;
#define WHIM_COMM(name)  \
    case WHIM_OP_##name: \
        return table->name != whim_alone_##name;
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED
    default:
        return false;
    }
}

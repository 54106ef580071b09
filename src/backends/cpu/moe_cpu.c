/* SPDX-License-Identifier: Apache-2.0 */
/* moe_experts as commands. Every command touches the op's workspace, so that there is a barrier
 * between any two. */
#include "backends/cpu/moe_plan.h"
#include "backends/cpu/stream.h"

#include <assert.h>

static_assert(sizeof(whim_cpu_moe_args) <= WHIM_OP_ARGS_MAX, "command too small");

static whim_err push(whim_cpu_stream *s, whim_cpu_moe_step step, const whim_cpu_moe_args *args)
{
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_list(WHIM_OP_moe_experts, &args->op, accesses);
    accesses[n++] = whim_access_span(args->space, whim_cpu_moe_space_bytes(&args->op), true);
    return whim_cpu_push(s, s->dev->kernels->moe[step], args, sizeof *args, accesses, n);
}

/* Whether products with these weights take rows of another form than F32. */
static bool is_narrow(const whim_cpu_stream *s, whim_dtype dtype)
{
    return whim_cpu_form_of(dtype) != NULL ||
           (whim_cpu_wants_bf16(dtype) && s->dev->kernels->round_act != NULL);
}

static whim_err push_product(whim_cpu_stream *s, whim_cpu_moe_args *args, whim_moe_of of)
{
    args->of = (uint8_t)of;
    /* Rows of x are gathered in any case; those of silu(gate) * up lie in order already. */
    if (of != WHIM_MOE_DOWN || is_narrow(s, args->op.down.dtype)) {
        WHIM_TRY(push(s, WHIM_CPU_MOE_NARROW, args));
    }
    return push(s, WHIM_CPU_MOE_PRODUCT, args);
}

/* Whether a worker's scratch holds the narrow rows of one token. */
static bool one_fits(const whim_moe_experts_args *a)
{
    int64_t room = WHIM_CPU_SCRATCH / 2;
    return WHIM_CPU_MOE_ONE(a->gate.k) <= room && WHIM_CPU_MOE_ONE(a->down.k) * a->k_top <= room;
}

whim_err whim_cpu_op_moe_experts(whim_stream *base, const whim_moe_experts_args *a)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (!whim_cpu_op_accepts(base->device, WHIM_OP_moe_experts, a)) {
        return WHIM_ERR_UNSUPPORTED;
    }
    if (a->n_row == 0) {
        return WHIM_ERR_OK;
    }
    whim_cpu_moe_args args = {.op = *a, .apart = a->gate.dtype != a->up.dtype};
    WHIM_TRY(whim_workspace_take(base, whim_cpu_moe_space_bytes(a), &args.space));
    if (a->n_row == 1 && !args.apart && one_fits(a)) {
        WHIM_TRY(push(s, WHIM_CPU_MOE_ONE_UP, &args));
        return push(s, WHIM_CPU_MOE_ONE_DOWN, &args);
    }
    WHIM_TRY(push(s, WHIM_CPU_MOE_PLAN, &args));
    WHIM_TRY(push_product(s, &args, WHIM_MOE_GATE));
    if (args.apart) {
        WHIM_TRY(push_product(s, &args, WHIM_MOE_UP));
        WHIM_TRY(push(s, WHIM_CPU_MOE_SWIGLU, &args));
    }
    WHIM_TRY(push_product(s, &args, WHIM_MOE_DOWN));
    return push(s, WHIM_CPU_MOE_END, &args);
}

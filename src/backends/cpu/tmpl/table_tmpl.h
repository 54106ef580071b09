/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a level, after all its kernels. */
#include "backends/cpu/kernels.h"

/* Kernels of plain loops, the same at every level. */
#include "backends/cpu/tmpl/gdn_tmpl.h"
#include "backends/cpu/tmpl/moe_topk_tmpl.h"
#include "backends/cpu/tmpl/peak_tmpl.h"
#include "backends/cpu/tmpl/topk_tmpl.h"

#include "backends/cpu/tmpl/sample_tmpl.h"
#include "backends/cpu/tmpl/tp_norm_tmpl.h"

/* One kernel for all products. */
#define linear_swiglu_kernel linear_kernel
#define linear_topk_kernel linear_kernel

/* Several kernels, one after the other (moe_cpu.c). */
#define moe_experts_kernel NULL

const whim_cpu_kernels LEVEL_TABLE = {
    .level = LEVEL_STRING(WHIM_CPU_LEVEL),
    .order = PRODUCT_ORDER,
    .bf16_order = PRODUCT_BF16_ORDER,
    .round_act = PRODUCT_ROUND_ACT,
    .attn_matrix = ATTN_ON_MATRIX,
    .quantize_act = quantize_act_kernel,
    .merge_best = merge_best_kernel,
    .moe = {MOE_KERNELS},
    .peak_macs = peak_macs,
#define WHIM_OP(name) .name = name##_kernel,
#define WHIM_COMM(name)
#include "ops/ops.def"
#undef WHIM_OP
};

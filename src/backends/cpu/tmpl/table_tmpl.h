/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a level, after all its kernels: WHIM_CPU_LEVEL names it. */
#include "backends/cpu/kernels.h"

/* Kernels of plain loops, the same at every level. */
#include "backends/cpu/tmpl/topk_tmpl.h"
#include "backends/cpu/tmpl/tp_norm_tmpl.h"

#define LEVEL_STRING_(level) #level
#define LEVEL_STRING(level) LEVEL_STRING_(level)
#define LEVEL_TABLE_(level) whim_cpu_kernels_##level
#define LEVEL_TABLE(level) LEVEL_TABLE_(level)

/* Fused ops that are compositions on the CPU. */
#define linear_swiglu_kernel NULL
#define linear_topk_kernel NULL

extern const whim_cpu_kernels LEVEL_TABLE(WHIM_CPU_LEVEL);
const whim_cpu_kernels LEVEL_TABLE(WHIM_CPU_LEVEL) = {
    .level = LEVEL_STRING(WHIM_CPU_LEVEL),
    .product_q8 = product_q8_kernel,
#define WHIM_OP(name) .name = name##_kernel,
#include "ops/ops.def"
#undef WHIM_OP
};

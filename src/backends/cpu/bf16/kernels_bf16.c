/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level bf16: i8mm, and BF16 weights, keys and values on the BF16 matrix product. */
#define WHIM_CPU_LEVEL bf16
#define PRODUCT_BELOW i8mm

#include "backends/cpu/i8mm/open_i8mm.h"
#include "backends/cpu/neon/vec_neon.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#include "backends/cpu/bf16/attn_mmla.h"
#include "backends/cpu/bf16/bf16_mmla.h"
#include "backends/cpu/i8mm/pair_i8mm.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

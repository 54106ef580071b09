/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level avx2: AVX2 with FMA and F16C. */
#define WHIM_CPU_LEVEL avx2

#include "backends/cpu/avx2/vec_avx2.h"

#include "backends/cpu/tmpl/attn_tmpl.h"
#include "backends/cpu/tmpl/linear_tmpl.h"
#include "backends/cpu/tmpl/row_tmpl.h"

#include "backends/cpu/tmpl/table_tmpl.h"

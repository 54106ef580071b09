/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level avx512: AVX-512 (F, BW, VL, DQ). */
#define WHIM_CPU_LEVEL avx512

#include "backends/cpu/avx512/vec_avx512.h"

#include "backends/cpu/tmpl/attn_tmpl.h"
#include "backends/cpu/tmpl/linear_tmpl.h"
#include "backends/cpu/tmpl/row_tmpl.h"

#include "backends/cpu/tmpl/table_tmpl.h"

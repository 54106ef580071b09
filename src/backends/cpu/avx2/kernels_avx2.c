/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level avx2: AVX2 with FMA and F16C. */
#define WHIM_CPU_LEVEL avx2

#include "backends/cpu/avx2/vec_avx2.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#include "backends/cpu/tmpl/quad_tmpl.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

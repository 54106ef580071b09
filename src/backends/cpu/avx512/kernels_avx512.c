/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level avx512: AVX-512 (F, BW, VL, DQ). */
#define WHIM_CPU_LEVEL avx512

#include "backends/cpu/avx512/vec_avx512.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#include "backends/cpu/tmpl/quad_tmpl.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

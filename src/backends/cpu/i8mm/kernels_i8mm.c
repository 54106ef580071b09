/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level i8mm: Arm SIMD with the int8 matrix product. */
#define WHIM_CPU_LEVEL i8mm

#include "backends/cpu/i8mm/open_i8mm.h"
#include "backends/cpu/neon/vec_neon.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#include "backends/cpu/i8mm/pair_i8mm.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

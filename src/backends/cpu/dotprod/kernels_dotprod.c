/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level dotprod: Arm SIMD with the int8 dot product. */
#define WHIM_CPU_LEVEL dotprod

#include "backends/cpu/neon/vec_neon.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#include "backends/cpu/tmpl/quad_tmpl.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

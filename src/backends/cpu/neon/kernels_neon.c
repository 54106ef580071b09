/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level neon: plain Arm SIMD, the baseline of its family. */
#define WHIM_CPU_LEVEL neon

#include "backends/cpu/neon/vec_neon.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#include "backends/cpu/tmpl/quad_tmpl.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

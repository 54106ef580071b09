/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level sse2: the x86-64 baseline. */
#define WHIM_CPU_LEVEL sse2

#include "backends/cpu/sse2/vec_sse2.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#include "backends/cpu/tmpl/quad_tmpl.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

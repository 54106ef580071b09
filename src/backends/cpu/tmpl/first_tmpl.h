/* SPDX-License-Identifier: Apache-2.0 */
/* What a level's own loops build on, and its names: WHIM_CPU_LEVEL is defined by its file, which
 * includes this after its vectors. LEVEL_TABLE is its table of kernels, which some kernels need to
 * know what they belong to. */
#include "backends/cpu/kernels.h"

#define LEVEL_STRING_(level) #level
#define LEVEL_STRING(level) LEVEL_STRING_(level)
#define LEVEL_NAME_(level) whim_cpu_kernels_##level
#define LEVEL_NAME(level) LEVEL_NAME_(level)
#define LEVEL_TABLE LEVEL_NAME(WHIM_CPU_LEVEL)

extern const whim_cpu_kernels LEVEL_TABLE;

#include "backends/cpu/tmpl/codes_tmpl.h"
#include "backends/cpu/tmpl/exp_tmpl.h"
#include "backends/cpu/tmpl/float_tmpl.h"

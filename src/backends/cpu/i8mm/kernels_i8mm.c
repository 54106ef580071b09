/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level i8mm: Arm SIMD with the int8 matrix product. */
#define WHIM_CPU_LEVEL i8mm

#include "backends/cpu/i8mm/open_i8mm.h"
#include "backends/cpu/neon/vec_neon.h"

#include "backends/cpu/tmpl/level_tmpl.h"

#include "backends/cpu/tmpl/codes_tmpl.h"
#include "backends/cpu/tmpl/exp_tmpl.h"
#include "backends/cpu/tmpl/float_tmpl.h"

#include "backends/cpu/i8mm/pair_i8mm.h"

#include "backends/cpu/tmpl/kv_tmpl.h"

#include "backends/cpu/tmpl/attn_tmpl.h"
#include "backends/cpu/tmpl/row_tmpl.h"
#include "backends/cpu/tmpl/rows_tmpl.h"
#include "backends/cpu/tmpl/store_tmpl.h"

#include "backends/cpu/tmpl/product_tmpl.h"

#include "backends/cpu/tmpl/table_tmpl.h"

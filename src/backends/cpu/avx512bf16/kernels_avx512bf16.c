/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level avx512bf16: adds the BF16 dot product. */
#define WHIM_CPU_LEVEL avx512bf16

#include "backends/cpu/avx512/vec_avx512.h"

#include "backends/cpu/tmpl/level_tmpl.h"

#include "backends/cpu/tmpl/codes_tmpl.h"
#include "backends/cpu/tmpl/exp_tmpl.h"
#include "backends/cpu/tmpl/float_tmpl.h"
#include "backends/cpu/tmpl/quad_tmpl.h"

#include "backends/cpu/avx512bf16/bf16_avx512.h"

#include "backends/cpu/tmpl/kv_tmpl.h"

#include "backends/cpu/tmpl/attn_tmpl.h"
#include "backends/cpu/tmpl/row_tmpl.h"
#include "backends/cpu/tmpl/rows_tmpl.h"
#include "backends/cpu/tmpl/store_tmpl.h"

#include "backends/cpu/tmpl/product_tmpl.h"

#include "backends/cpu/tmpl/table_tmpl.h"

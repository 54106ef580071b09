/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level amx: AVX-512 with tile registers, int8 and BF16. */
#define WHIM_CPU_LEVEL amx
#define PRODUCT_BELOW avx512vnni
#define PRODUCT_MANY

#include "backends/cpu/avx512/fp8_avx512.h"
#include "backends/cpu/avx512/vec_avx512.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#define product_rows quad_rows
#include "backends/cpu/tmpl/quad_tmpl.h"
#undef product_rows

#include "backends/cpu/amx/bf16_amx.h"
#include "backends/cpu/amx/peak_amx.h"
#include "backends/cpu/amx/rows_amx.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

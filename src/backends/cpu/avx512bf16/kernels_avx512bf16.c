/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the level avx512bf16: adds the BF16 dot product. */
#define WHIM_CPU_LEVEL avx512bf16
#define PRODUCT_BELOW avx512vnni

#include "backends/cpu/avx512/fp8_avx512.h"
#include "backends/cpu/avx512/vec_avx512.h"

#include "backends/cpu/tmpl/first_tmpl.h"

#include "backends/cpu/tmpl/quad_tmpl.h"

#include "backends/cpu/avx512bf16/bf16_avx512.h"

#include "backends/cpu/tmpl/kernels_tmpl.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* All device code, one unit; backends/cuda/kernels.def lists what it offers. */
#include "common.cuh"

#include "base/math/fmath.c"
#include "tensor/rank.c"

#include "attn.cuh"
#include "attn_cluster.cuh"
#include "attn_few.cuh"
#include "attn_rows.cuh"
#include "draft.cuh"
#include "few_float.cuh"
#include "few_quant.cuh"
#include "gdn.cuh"
#include "linear.cuh"
#include "mma.cuh"
#include "mma_bulk.cuh"
#include "mma_few.cuh"
#include "mma_wide.cuh"
#include "moe.cuh"
#include "rows.cuh"
#include "sample.cuh"

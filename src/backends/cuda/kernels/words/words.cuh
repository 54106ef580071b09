/* SPDX-License-Identifier: Apache-2.0 */
/* The words in which kernels speak to the hardware beyond CUDA's own: each hides an instruction, and
 * nothing else in kernels/ has assembly. They exist twice. NVRTC takes the files beside this one. A
 * compiler for the CPU takes tests/emulated_gpu/words.h, where threads are fibers, and which has
 * CUDA's own words (threadIdx, __syncthreads, __shfl_sync ...), too: the tests of the backend run
 * without a GPU. What both must keep to is said here and beside the instructions. */
#pragma once
#include <stdint.h>

#ifdef __CUDACC__
#include "words/start.cuh"

#include "words/copies.cuh"
#include "words/numbers.cuh"
#include "words/unit.cuh"

#include "words/bulk.cuh"
#include "words/cluster.cuh"
#include "words/wide_unit.cuh"
#else
#include "emulated_gpu/words.h"
#endif

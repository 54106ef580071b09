/* SPDX-License-Identifier: Apache-2.0 */
/* The words in which kernels speak to the hardware beyond CUDA's own: each hides an instruction, and
 * nothing else in kernels/ has assembly. */
#pragma once
#include <stdint.h>

#include "words/start.cuh"

#include "words/copies.cuh"
#include "words/numbers.cuh"
#include "words/unit.cuh"

#include "words/bulk.cuh"
#include "words/cluster.cuh"
#include "words/wide_unit.cuh"

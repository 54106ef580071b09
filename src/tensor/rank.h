/* SPDX-License-Identifier: Apache-2.0 */
/* Ranking by selection, on the keys of tensor/rank_key.h.
 * Threads: stateless. */
#ifndef WHIM_TENSOR_RANK_H
#define WHIM_TENSOR_RANK_H

#include "tensor/rank_key.h"

#include <stdint.h>

/* Bring the k largest of n keys to the front, largest first; the order of the others is any. 0 <= k
 * <= n. */
void whim_rank_top(uint64_t *keys, int32_t n, int32_t k);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the emulated GPU: the host cannot touch it but for the time that kernels and copies run,
 * allocations have no neighbours, and a new one is full of ones.
 * Threads: under the driver's lock. */
#ifndef EMULATED_GPU_MEMORY_H
#define EMULATED_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GPU_MEMORY_BYTES = 1 << 30 };

uint64_t gpu_memory_alloc(size_t bytes); /* 0: there is no more */
bool gpu_memory_free(uint64_t at);
size_t gpu_memory_left(void);

/* Whether all these bytes are of one allocation. */
bool gpu_memory_has(uint64_t at, size_t bytes);

/* All allocations can be touched, or none. */
void gpu_memory_open(bool can_touch);

#endif

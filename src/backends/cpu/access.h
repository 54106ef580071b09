/* SPDX-License-Identifier: Apache-2.0 */
/* What memory an op reads and writes, so that the command list has a barrier exactly where a
 * command touches what an earlier one wrote, or writes what an earlier one touches.
 * Threads: stateless. */
#ifndef WHIM_BACKENDS_CPU_ACCESS_H
#define WHIM_BACKENDS_CPU_ACCESS_H

#include "backends/cpu/kernels.h"

#include <stdbool.h>
#include <stdint.h>

/* `n_row` rows of `row_bytes`, `stride` bytes apart. */
typedef struct whim_access {
    uintptr_t at;
    int64_t row_bytes, stride, n_row;
    bool write;
} whim_access;

enum { WHIM_ACCESS_MAX = 8 };

static inline whim_access whim_access_span(const void *at, int64_t bytes, bool write)
{
    return (whim_access){(uintptr_t)at, bytes, bytes, 1, write};
}

/* The accesses of an op that another op of a step could conflict with; constant inputs (weights,
 * norms, tables of the batch) are left out. Returns how many. */
int32_t whim_access_list(whim_op op, const void *args, whim_access out[WHIM_ACCESS_MAX]);

/* The same for the two halves of a product of block types, and the int8 rows between them. */
int32_t whim_access_quantize(const whim_cpu_quantize_args *args, whim_access out[WHIM_ACCESS_MAX]);
int32_t whim_access_product(const whim_cpu_product_args *args, int64_t n_worker,
                            whim_access out[WHIM_ACCESS_MAX]);
int32_t whim_access_merge(const whim_cpu_merge_args *args, int64_t n_worker,
                          whim_access out[WHIM_ACCESS_MAX]);

/* Overlap of two accesses that lie in one another's span. */
bool whim_access_interleaved(const whim_access *a, const whim_access *b);

/* Have they a byte in common, or may they? Asked several times for every command. */
static inline bool whim_access_overlap(const whim_access *a, const whim_access *b)
{
    uintptr_t a_end = a->at + (uintptr_t)((a->n_row - 1) * a->stride + a->row_bytes);
    uintptr_t b_end = b->at + (uintptr_t)((b->n_row - 1) * b->stride + b->row_bytes);
    if (a_end <= b->at || b_end <= a->at || a->n_row == 0 || b->n_row == 0 || a->row_bytes == 0 ||
        b->row_bytes == 0) {
        return false;
    }
    return whim_access_interleaved(a, b);
}

#endif

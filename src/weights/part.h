/* SPDX-License-Identifier: Apache-2.0 */
/* What of a model is whose: the shares of several ranks, in units that are never cut (heads,
 * blocks, rows). No other code divides by ranks. Shares may differ by a unit, and may be empty.
 * Threads: pure functions. */
#ifndef WHIM_WEIGHTS_PART_H
#define WHIM_WEIGHTS_PART_H

#include <stdbool.h>
#include <stdint.h>

typedef struct whim_part {
    int64_t at, n;
} whim_part;

/* Units of `rank`: parts follow each other, and the first n_unit % n_rank ranks have one more. */
whim_part whim_part_of(int64_t n_unit, int32_t n_rank, int32_t rank);

/* The same of n elements in units of `block` elements, the last of which may be smaller. */
whim_part whim_part_blocks(int64_t n, int64_t block, int32_t n_rank, int32_t rank);

/* The same of a width between two matrices, of which the second has blocks of `block` columns.
 * Devices pack up to 32 together: units are no smaller where each rank gets one of those. */
whim_part whim_part_width(int64_t n, int64_t block, int32_t n_rank, int32_t rank);

/* A part in units of `size` elements, as elements. */
static inline whim_part whim_part_times(whim_part part, int64_t size)
{
    return (whim_part){part.at * size, part.n * size};
}

/* The least whole blocks that hold a part. */
whim_part whim_part_widen(whim_part part, int64_t block);

/* Heads of a layer with grouped queries. Up to n_kv ranks cut the KV heads, and query heads go with
 * theirs. More ranks than KV heads: each KV head has ranks of its own, one after the other, which
 * cut its query heads; who gets none holds no KV head either. */
typedef struct whim_heads_part {
    whim_part q, kv;
    bool counts_kv; /* no lower rank holds these KV heads: sums over ranks have them from here */
} whim_heads_part;

whim_heads_part whim_heads_part_of(int64_t n_head, int64_t n_kv, int32_t n_rank, int32_t rank);

#endif

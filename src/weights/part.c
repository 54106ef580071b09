/* SPDX-License-Identifier: Apache-2.0 */
/* Ragged shares. */
#include "weights/part.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

whim_part whim_part_of(int64_t n_unit, int32_t n_rank, int32_t rank)
{
    int64_t each = n_unit / n_rank, more = n_unit % n_rank;
    return (whim_part){rank * each + smaller(rank, more), each + (rank < more)};
}

whim_part whim_part_blocks(int64_t n, int64_t block, int32_t n_rank, int32_t rank)
{
    whim_part units = whim_part_of((n + block - 1) / block, n_rank, rank);
    int64_t at = smaller(n, units.at * block), end = smaller(n, (units.at + units.n) * block);
    return (whim_part){at, end - at};
}

enum { PACKED = 32 };

whim_part whim_part_width(int64_t n, int64_t block, int32_t n_rank, int32_t rank)
{
    bool small = block < PACKED && n >= (int64_t)n_rank * PACKED;
    return whim_part_blocks(n, small ? PACKED : block, n_rank, rank);
}

whim_part whim_part_widen(whim_part part, int64_t block)
{
    int64_t at = part.at / block * block;
    int64_t end = (part.at + part.n + block - 1) / block * block;
    return part.n > 0 ? (whim_part){at, end - at} : part;
}

/* The KV head whose ranks `rank` is one of, of n_kv that share out more ranks. */
static int64_t kv_of_rank(int64_t n_kv, int32_t n_rank, int32_t rank)
{
    int64_t each = n_rank / n_kv, more = n_rank % n_kv, wide = more * (each + 1);
    return rank < wide ? rank / (each + 1) : more + (rank - wide) / each;
}

whim_heads_part whim_heads_part_of(int64_t n_head, int64_t n_kv, int32_t n_rank, int32_t rank)
{
    if (n_kv == 0) {
        return (whim_heads_part){0};
    }
    int64_t group = n_head / n_kv;
    if (n_rank <= n_kv) {
        whim_part kv = whim_part_of(n_kv, n_rank, rank);
        return (whim_heads_part){whim_part_times(kv, group), kv, true};
    }
    int64_t kv = kv_of_rank(n_kv, n_rank, rank);
    whim_part holders = whim_part_of(n_rank, (int32_t)n_kv, (int32_t)kv);
    whim_part q = whim_part_of(group, (int32_t)holders.n, rank - (int32_t)holders.at);
    return (whim_heads_part){
        .q = {kv * group + q.at, q.n},
        .kv = {kv, q.n > 0},
        .counts_kv = rank == holders.at,
    };
}

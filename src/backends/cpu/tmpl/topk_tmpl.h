/* SPDX-License-Identifier: Apache-2.0 */
/* The largest of a row. A row is read once, block by block; a block is looked into only when one of its
 * values beats the last of the best so far, which in a long row is rare. Workers split rows. */
#include "backends/cpu/kernels.h"
#include "tensor/rank_key.h"

enum { TOPK_BLOCK = 64 };

/* Whether a value is not at most `least`; true for every NaN on either side. */
static inline bool topk_block_beats(const float *x, int64_t n, float least)
{
    int32_t beats = 0;
    for (int64_t i = 0; i < n; i++) {
        beats |= !(x[i] <= least);
    }
    return beats != 0;
}

/* best[0 .. k) is in order; put `key`, which is larger than its last, where it belongs. */
static inline void topk_insert(uint64_t *best, int64_t k, uint64_t key)
{
    int64_t at = k - 1;
    for (; at > 0 && best[at - 1] < key; at--) {
        best[at] = best[at - 1];
    }
    best[at] = key;
}

/* A key of 0 stands for no column. */
static void topk_row(const float *x, int64_t n, uint64_t *best, int64_t k)
{
    memset(best, 0, (size_t)k * sizeof *best);
    float least = NAN; /* the last of the best; a later column must exceed it */
    for (int64_t at = 0; at < n; at += TOPK_BLOCK) {
        int64_t len = n - at >= TOPK_BLOCK ? TOPK_BLOCK : n - at;
        if (len == TOPK_BLOCK && !topk_block_beats(x + at, TOPK_BLOCK, least)) {
            continue;
        }
        for (int64_t i = at; i < at + len; i++) {
            uint64_t key = whim_rank_key(x[i], i);
            if (key > best[k - 1]) {
                topk_insert(best, k, key);
            }
        }
        least = best[k - 1] != 0 ? x[whim_rank_id(best[k - 1])] : NAN;
    }
}

static void topk_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_topk_args *a = args;
    uint64_t best[WHIM_TOPK_MAX];
    int64_t begin, end;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const float *x = a->x + r * a->x_stride;
        topk_row(x, a->n_col, best, a->k_top);
        for (int64_t j = 0; j < a->k_top; j++) {
            int32_t id = best[j] != 0 ? whim_rank_id(best[j]) : -1;
            a->values[r * a->k_top + j] = id >= 0 ? x[id] : -INFINITY;
            a->ids[r * a->k_top + j] = id;
        }
    }
}

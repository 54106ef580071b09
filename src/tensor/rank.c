/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, selection and sorting of keys. */
#include "tensor/rank.h"

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t t = *a;
    *a = *b;
    *b = t;
}

/* Downward heap on keys[0 .. n): the smallest is on top. */
static void sift(uint64_t *keys, int32_t at, int32_t n)
{
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= n) {
            return;
        }
        child += child + 1 < n && keys[child + 1] < keys[child];
        if (keys[at] <= keys[child]) {
            return;
        }
        swap(&keys[at], &keys[child]);
        at = child;
    }
}

/* The smallest of the k best stays on top of a heap; whoever beats it takes its place. A key is
 * compared once, and few beat it, so that the pass is linear for the k that matter and never worse
 * than n log k. */
void whim_rank_top(uint64_t *keys, int32_t n, int32_t k)
{
    for (int32_t i = k / 2 - 1; i >= 0; i--) {
        sift(keys, i, k);
    }
    for (int32_t i = k; i < n && k > 0; i++) {
        if (keys[i] > keys[0]) {
            swap(&keys[i], &keys[0]);
            sift(keys, 0, k);
        }
    }
    for (int32_t end = k - 1; end > 0; end--) {
        swap(&keys[0], &keys[end]);
        sift(keys, 0, end);
    }
}

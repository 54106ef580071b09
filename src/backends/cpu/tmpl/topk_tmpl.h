/* SPDX-License-Identifier: Apache-2.0 */
/* The largest of rows: of a matrix, and of what the workers found in their tiles of a product.
 * Workers split rows. Included once per level after store_tmpl.h. */
#include "backends/cpu/kernels.h"

enum {
    TOPK_BLOCK = 64
}; /* values looked at together; in a long row few blocks have one of the best */

static void topk_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_topk_args *a = args;
    int64_t begin, end, k = a->k_top;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        whim_cpu_best best[WHIM_TOPK_MAX] = {0};
        const float *x = a->x + r * a->x_stride;
        for (int64_t at = 0; at < a->n_col; at += TOPK_BLOCK) {
            int64_t n = a->n_col - at < TOPK_BLOCK ? a->n_col - at : TOPK_BLOCK;
            topk_offer(best, k, x + at, n, at);
        }
        topk_write(best, k, a->values + r * k, a->ids + r * k);
    }
}

/* linear_topk's second half. Keys are all different, so who found what does not matter. */
static void merge_best_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_cpu_merge_args *a = args;
    int64_t begin, end, k = a->k_top;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        whim_cpu_best best[WHIM_TOPK_MAX] = {0};
        for (int64_t w = 0; w < worker->count; w++) {
            const whim_cpu_best *found = a->best + (w * a->n_row + r) * k;
            for (int64_t j = 0; j < k && found[j].key > best[k - 1].key; j++) {
                topk_insert(best, k, found[j]);
            }
        }
        topk_write(best, k, a->values + r * k, a->ids + r * k);
    }
}

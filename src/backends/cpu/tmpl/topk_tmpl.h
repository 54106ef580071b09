/* SPDX-License-Identifier: Apache-2.0 */
/* The largest of rows: of a matrix, and of what the workers found in their tiles of a product; and
 * which of them a draft takes. Workers split rows. Included once per level after store_tmpl.h. */
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

/* The choice of row i after a token whose vector is p; returns the vector of what was chosen. */
static const float *pick_row(const whim_pick_chain_args *a, int64_t i, const float *p)
{
    const float *gate = a->gate != NULL ? a->gate + i * a->rank : NULL;
    float score = 0.0f;
    uint64_t best = 0;
    for (int64_t c = 0, at = i * a->k_top; c < a->k_top; c++, at++) {
        float u = whim_softcap(a->values[at] * a->scale, a->cap);
        float s = u + whim_dot16(p, gate, a->after + at * a->rank, a->rank);
        uint64_t key = a->ids[at] >= 0 ? whim_rank_key(s, c) : 0;
        score = key > best ? s : score;
        best = key > best ? key : best;
    }
    if (a->sure_w != NULL) {
        float sum = whim_dot16(a->z + i * a->n_hidden, NULL, a->sure_w, a->n_hidden);
        sum += a->sure_of_pairs ? whim_dot16(p, NULL, a->sure_w + a->n_hidden, a->rank) : 0.0f;
        score = *a->sure_bias + sum;
    }
    int64_t chosen = i * a->k_top + (best > 0 ? whim_rank_id(best) : 0);
    a->tokens[i * a->out_stride] = best > 0 ? a->ids[chosen] : -1;
    a->told[i * a->out_stride] = score;
    return best > 0 ? a->before + (a->n_src + chosen) * a->rank : p;
}

/* Workers split sequences: a row needs the choice of the one before it. */
static void pick_chain_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_pick_chain_args *a = args;
    int64_t begin, end;
    whim_cpu_share(worker, a->n_seq, &begin, &end);
    for (int64_t q = begin; q < end; q++) {
        const float *p = a->before + a->q_start[q] * a->rank;
        for (int64_t i = 0; i < a->n_row; i++) {
            if (a->rows[i] >= a->q_start[q] && a->rows[i] < a->q_start[q + 1]) {
                p = pick_row(a, i, p);
            }
        }
    }
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        if (a->rows[i] < a->q_start[0] || a->rows[i] >= a->q_start[a->n_seq]) {
            a->tokens[i * a->out_stride] = -1;
            a->told[i * a->out_stride] = 0.0f;
        }
    }
}

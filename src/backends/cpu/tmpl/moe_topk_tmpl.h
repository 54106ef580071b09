/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of experts, shared by all levels: scores a vector at a time, then the search of
 * topk_offer. Workers split rows. Included once per level after exp_tmpl.h and store_tmpl.h. */
#include "backends/cpu/kernels.h"
#include "base/math/fmath.h"
#include "base/math/max16.h"

enum { MOE_TOPK_BLOCK = 64 }; /* values looked at together */
_Static_assert(2 * WHIM_MOE_MAX_EXPERT * sizeof(float) <= WHIM_CPU_SCRATCH, "scratch");

/* y[] = exp(x[] - most) */
static void moe_exp_row(const float *x, float most, float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + EXP_LANES <= n; i += EXP_LANES) {
        vf e[EXP_VECS];
        EACH_VEC e[v] = vf_load(x + i + v * VF) - vf_set1(most);
        vf_exp(e);
        EACH_VEC vf_store(y + i + v * VF, e[v]);
    }
    for (; i < n; i++) {
        y[i] = whim_expf(x[i] - most);
    }
}

/* y[] = 1 / (1 + exp(-x[])) */
static void moe_sigmoid_row(const float *x, float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + EXP_LANES <= n; i += EXP_LANES) {
        vf e[EXP_VECS];
        EACH_VEC e[v] = -vf_load(x + i + v * VF);
        vf_exp(e);
        EACH_VEC vf_store(y + i + v * VF, vf_set1(1.0f) / (vf_set1(1.0f) + e[v]));
    }
    for (; i < n; i++) {
        y[i] = 1.0f / (1.0f + whim_expf(-x[i]));
    }
}

static void moe_score_row(const whim_moe_topk_args *a, const float *x, float *score)
{
    if (a->scoring == WHIM_MOE_SIGMOID) {
        moe_sigmoid_row(x, score, a->n_expert);
        return;
    }
    moe_exp_row(x, whim_max16(x, a->n_expert), score, a->n_expert);
    float sum = whim_sum16(score, a->n_expert);
    for (int64_t e = 0; e < a->n_expert; e++) {
        score[e] = score[e] / sum;
    }
}

/* The best of score + bias. */
static void moe_choose(const whim_moe_topk_args *a, const float *score, float *choice,
                       whim_cpu_best best[WHIM_TOPK_MAX])
{
    memset(best, 0, (size_t)a->k_top * sizeof *best);
    if (a->bias != NULL) {
        for (int64_t e = 0; e < a->n_expert; e++) {
            choice[e] = score[e] + a->bias[e];
        }
        score = choice;
    }
    for (int64_t at = 0; at < a->n_expert; at += MOE_TOPK_BLOCK) {
        int64_t n = a->n_expert - at < MOE_TOPK_BLOCK ? a->n_expert - at : MOE_TOPK_BLOCK;
        topk_offer(best, a->k_top, score + at, n, at);
    }
}

static void moe_topk_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_moe_topk_args *a = args;
    float *score = worker->scratch, *choice = score + WHIM_MOE_MAX_EXPERT;
    int64_t begin, end, k = a->k_top;
    whim_cpu_share(worker, a->n_row, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        whim_cpu_best best[WHIM_TOPK_MAX];
        float *weights = a->weights + r * k, sum = 0.0f;
        moe_score_row(a, a->logits + r * a->logits_stride, score);
        moe_choose(a, score, choice, best);
        for (int64_t j = 0; j < k; j++) {
            int32_t id = whim_rank_id(best[j].key);
            a->ids[r * k + j] = id;
            weights[j] = score[id];
            sum += weights[j];
        }
        for (int64_t j = 0; j < k; j++) {
            weights[j] = (a->renormalize ? weights[j] / sum : weights[j]) * a->scale;
        }
    }
}

static void moe_sum_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_moe_sum_args *a = args;
    enum { PIECE = 512 };
    int64_t pieces = (a->n_col + PIECE - 1) / PIECE, begin, end;
    whim_cpu_share(worker, a->n_row * pieces, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        int64_t r = item / pieces, at = item % pieces * PIECE;
        int64_t n = a->n_col - at < PIECE ? a->n_col - at : PIECE;
        const int32_t *ids = a->ids + r * a->choice_stride;
        float *y = a->y + r * a->y_stride + at;
        memset(y, 0, (size_t)n * sizeof *y);
        for (int64_t j = 0; j < a->k_top; j++) {
            if (ids[j] >= 0 && ids[j] < a->n_expert) {
                moe_join(a->weights[r * a->choice_stride + j],
                         a->x + r * a->x_stride + j * a->n_col + at, y, n);
            }
        }
    }
}

static void gated_add_kernel(const void *args, const whim_cpu_worker *worker)
{
    const whim_gated_add_args *a = args;
    enum { PIECE = 512 };
    int64_t pieces = (a->n_col + PIECE - 1) / PIECE, begin, end;
    whim_cpu_share(worker, a->n_row * pieces, &begin, &end);
    for (int64_t item = begin; item < end; item++) {
        int64_t r = item / pieces, at = item % pieces * PIECE;
        int64_t n = a->n_col - at < PIECE ? a->n_col - at : PIECE;
        float gate = 1.0f / (1.0f + whim_expf(-a->gate[r * a->gate_stride]));
        float *x = a->x + r * a->x_stride + at;
        const float *y = a->y + r * a->y_stride + at;
        for (int64_t i = 0; i < n; i++) {
            x[i] += gate * y[i];
        }
    }
}

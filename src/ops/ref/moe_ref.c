/* SPDX-License-Identifier: Apache-2.0 */
/* The law of the ops of a mixture of experts. */
#include "base/math/fmath.h"
#include "base/math/max16.h"
#include "ops/ref/ref.h"
#include "tensor/rank_key.h"

static float sigmoid(float x)
{
    return 1.0f / (1.0f + whim_expf(-x));
}

/* The scores of a row's experts. */
static void scores_of(const whim_moe_topk_args *a, const float *x, float *score)
{
    float most = whim_max16(x, a->n_expert);
    for (int64_t e = 0; e < a->n_expert; e++) {
        score[e] = a->scoring == WHIM_MOE_SIGMOID ? sigmoid(x[e]) : whim_expf(x[e] - most);
    }
    if (a->scoring == WHIM_MOE_SOFTMAX) {
        float sum = whim_sum16(score, a->n_expert);
        for (int64_t e = 0; e < a->n_expert; e++) {
            score[e] = score[e] / sum;
        }
    }
}

/* The largest key below `last` of score + bias. */
static uint64_t next_best(const whim_moe_topk_args *a, const float *score, uint64_t last)
{
    uint64_t best = 0;
    for (int64_t e = 0; e < a->n_expert; e++) {
        float choice = a->bias != NULL ? score[e] + a->bias[e] : score[e];
        uint64_t key = whim_rank_key(choice, e);
        best = key < last && key > best ? key : best;
    }
    return best;
}

whim_err whim_ref_moe_topk(whim_stream *s, const whim_moe_topk_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        float score[WHIM_MOE_MAX_EXPERT];
        float *weights = a->weights + r * a->k_top;
        int32_t *ids = a->ids + r * a->k_top;
        scores_of(a, a->logits + r * a->logits_stride, score);
        uint64_t key = UINT64_MAX;
        float sum = 0.0f;
        for (int64_t j = 0; j < a->k_top; j++) {
            key = next_best(a, score, key);
            ids[j] = whim_rank_id(key);
            weights[j] = score[ids[j]];
            sum += weights[j];
        }
        for (int64_t j = 0; j < a->k_top; j++) {
            weights[j] = (a->renormalize ? weights[j] / sum : weights[j]) * a->scale;
        }
    }
    return WHIM_ERR_OK;
}

/* Expert e's rows of a stack. */
static whim_weight expert_of(const whim_weight *stack, int64_t e, int64_t n)
{
    int64_t row = e * whim_moe_pitch(n);
    return (whim_weight){.dtype = stack->dtype,
                         .n = n,
                         .k = stack->k,
                         .data = (const char *)stack->data +
                                 row * whim_dtype_row_bytes(stack->dtype, stack->k)};
}

/* y = w x of one row. */
static whim_err product_row(whim_stream *s, whim_weight w, const void *x, whim_act x_type, float *y)
{
    int64_t used = s->workspace.used; /* the next may have what this one takes */
    whim_err err = whim_ref_linear(s, &(whim_linear_args){.w = w,
                                                          .x = x,
                                                          .x_stride = w.k,
                                                          .x_type = x_type,
                                                          .y = y,
                                                          .y_stride = w.n,
                                                          .n_row = 1});
    s->workspace.used = used;
    return err;
}

/* out = expert e of one row. */
static whim_err expert_row(whim_stream *s, const whim_moe_experts_args *a, int64_t e, const void *x,
                           float *act, float *up, float *out)
{
    int64_t d = a->gate.k, ff = a->down.k;
    WHIM_TRY(product_row(s, expert_of(&a->gate, e, ff), x, a->x_type, act));
    WHIM_TRY(product_row(s, expert_of(&a->up, e, ff), x, a->x_type, up));
    WHIM_TRY(whim_ref_swiglu(s, &(whim_swiglu_args){.gate = act,
                                                    .gate_stride = ff,
                                                    .up = up,
                                                    .up_stride = ff,
                                                    .y = act,
                                                    .y_stride = ff,
                                                    .n_row = 1,
                                                    .n_col = ff}));
    return product_row(s, expert_of(&a->down, e, d), act, WHIM_ACT_F32, out);
}

static void row_zero(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0.0f;
    }
}

/* y += weight * x */
static void row_join(float weight, const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = whim_fmaf(weight, x[i], y[i]);
    }
}

whim_err whim_ref_moe_experts(whim_stream *s, const whim_moe_experts_args *a)
{
    int64_t d = a->gate.k, ff = a->down.k, n_apart = a->weights == NULL ? a->k_top : 1;
    void *space;
    WHIM_TRY(whim_workspace_take(s, (d + 2 * ff) * (int64_t)sizeof(float), &space));
    float *act = space, *up = act + ff, *out = up + ff;
    for (int64_t r = 0; r < a->n_row; r++) {
        const char *x = (const char *)a->x + whim_act_bytes(a->x_type, r * a->x_stride);
        float *y = a->y + r * a->y_stride;
        row_zero(y, n_apart * d);
        for (int64_t j = 0; j < a->k_top; j++) {
            int64_t e = a->ids[r * a->k_top + j];
            if (e < 0 || e >= a->n_expert) {
                continue;
            }
            float *to = a->weights == NULL ? y + j * d : out;
            WHIM_TRY(expert_row(s, a, e, x, act, up, to));
            if (a->weights != NULL) {
                row_join(a->weights[r * a->k_top + j], out, y, d);
            }
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_moe_sum(whim_stream *s, const whim_moe_sum_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        const int32_t *ids = a->ids + r * a->choice_stride;
        float *y = a->y + r * a->y_stride;
        row_zero(y, a->n_col);
        for (int64_t j = 0; j < a->k_top; j++) {
            if (ids[j] >= 0 && ids[j] < a->n_expert) {
                row_join(a->weights[r * a->choice_stride + j],
                         a->x + r * a->x_stride + j * a->n_col, y, a->n_col);
            }
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_gated_add(whim_stream *s, const whim_gated_add_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        float gate = sigmoid(a->gate[r * a->gate_stride]);
        for (int64_t i = 0; i < a->n_col; i++) {
            a->x[r * a->x_stride + i] += gate * a->y[r * a->y_stride + i];
        }
    }
    return WHIM_ERR_OK;
}

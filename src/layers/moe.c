/* SPDX-License-Identifier: Apache-2.0 */
/* Experts: their tensors, and their part of a pass. */
#include "layers/moe.h"

#include "layers/projection.h"
#include "ops/ops.h"

static void bind_routed(whim_moe *moe, const whim_config *c, int32_t l, whim_binder *binder)
{
    const whim_moe_config *m = &c->moe;
    int64_t d = c->d_model, ff = m->d_expert, n = m->n_expert;
    const struct {
        whim_weight *out;
        int64_t n, k;
        whim_expert_names names;
    } experts[] = {
        {&moe->gate, ff, d, {"gate_proj", "gate_up_proj", 0, 2 * ff}},
        {&moe->up, ff, d, {"up_proj", "gate_up_proj", ff, 2 * ff}},
        {&moe->down, d, ff, {"down_proj", "down_proj", 0, d}},
    };
    whim_param router = {.weight = &moe->router, .n = n, .k = d, .widen = true};
    whim_bind(binder, &router, "layers.%d.mlp.gate.weight", l);
    if (m->choice_bias) {
        whim_param bias = {.values = &moe->bias, .n = n};
        whim_bind(binder, &bias, "layers.%d.mlp.e_score_correction_bias", l);
    }
    for (size_t i = 0; i < sizeof experts / sizeof experts[0]; i++) {
        whim_param stack = {.weight = experts[i].out,
                            .n = experts[i].n,
                            .k = experts[i].k,
                            .n_expert = n,
                            .experts = experts[i].names};
        whim_bind(binder, &stack, "layers.%d.mlp.experts", l);
    }
}

void whim_moe_bind(whim_moe *moe, const whim_config *c, int32_t l, whim_binder *binder)
{
    int64_t d = c->d_model, ff = c->moe.d_shared;
    const struct {
        whim_weight *out;
        int64_t n, k;
        const char *name;
    } shared[] = {
        {&moe->shared_router, 1, d, "shared_expert_gate"},
        {&moe->shared_gate, ff, d, "shared_expert.gate_proj"},
        {&moe->shared_up, ff, d, "shared_expert.up_proj"},
        {&moe->shared_down, d, ff, "shared_expert.down_proj"},
    };
    bind_routed(moe, c, l, binder);
    for (size_t i = 0; i < sizeof shared / sizeof shared[0] && ff > 0; i++) {
        whim_param w = {.weight = shared[i].out, .n = shared[i].n, .k = shared[i].k};
        whim_bind(binder, &w, "layers.%d.mlp.%s.weight", l, shared[i].name);
    }
}

whim_moe_space whim_moe_space_take(whim_bump *bump, const whim_config *c, int64_t n_row)
{
    const whim_moe_config *m = &c->moe;
    whim_moe_space s = {0};
    s.logits = whim_bump_rows(bump, n_row, m->n_expert);
    s.weights = whim_bump_rows(bump, n_row, m->top_k);
    s.ids = whim_bump_take(bump, n_row * m->top_k * (int64_t)sizeof *s.ids);
    if (m->d_shared > 0) {
        s.shared_gate = whim_bump_rows(bump, n_row, 1);
        s.shared_act = whim_bump_rows(bump, n_row, m->d_shared);
        s.shared_out = whim_bump_rows(bump, n_row, c->d_model);
    }
    return s;
}

/* y += sigmoid(gate(x)) * shared(x) */
static whim_err add_shared(const whim_moe *moe, whim_stream *s, const float *x, int64_t n_row,
                           const whim_moe_space *space, float *y)
{
    int64_t d = moe->shared_down.n, ff = moe->shared_gate.n;
    WHIM_TRY(whim_product(s, &moe->shared_router, x, n_row, space->shared_gate));
    WHIM_TRY(whim_op_linear_swiglu(s, &(whim_linear_swiglu_args){
                                          .gate = moe->shared_gate,
                                          .up = moe->shared_up,
                                          .x = x,
                                          .x_stride = d,
                                          .y = space->shared_act,
                                          .y_stride = ff,
                                          .n_row = n_row,
                                      }));
    WHIM_TRY(whim_product(s, &moe->shared_down, space->shared_act, n_row, space->shared_out));
    return whim_op_gated_add(s, &(whim_gated_add_args){
                                    .x = y,
                                    .x_stride = d,
                                    .gate = space->shared_gate,
                                    .gate_stride = 1,
                                    .y = space->shared_out,
                                    .y_stride = d,
                                    .n_row = n_row,
                                    .n_col = d,
                                });
}

whim_err whim_moe_forward(const whim_moe *moe, const whim_moe_config *config, whim_stream *s,
                          const float *x, int64_t n_row, const whim_moe_space *space, float *y)
{
    int64_t d = moe->router.k;
    WHIM_TRY(whim_product(s, &moe->router, x, n_row, space->logits));
    WHIM_TRY(
        whim_op_moe_topk(s, &(whim_moe_topk_args){
                                .logits = space->logits,
                                .logits_stride = config->n_expert,
                                .bias = moe->bias,
                                .weights = space->weights,
                                .ids = space->ids,
                                .n_row = n_row,
                                .n_expert = config->n_expert,
                                .k_top = config->top_k,
                                .scoring = config->sigmoid ? WHIM_MOE_SIGMOID : WHIM_MOE_SOFTMAX,
                                .renormalize = config->renormalize,
                                .scale = config->scale,
                            }));
    WHIM_TRY(whim_op_moe_experts(s, &(whim_moe_experts_args){
                                        .gate = moe->gate,
                                        .up = moe->up,
                                        .down = moe->down,
                                        .x = x,
                                        .x_stride = d,
                                        .ids = space->ids,
                                        .weights = space->weights,
                                        .y = y,
                                        .y_stride = d,
                                        .n_row = n_row,
                                        .n_expert = config->n_expert,
                                        .k_top = config->top_k,
                                    }));
    return moe->shared_gate.n > 0 ? add_shared(moe, s, x, n_row, space, y) : WHIM_ERR_OK;
}

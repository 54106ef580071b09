/* SPDX-License-Identifier: Apache-2.0 */
/* Experts: their tensors, and their part of a pass. */
#include "layers/moe.h"

#include "layers/projection.h"
#include "ops/ops.h"

/* The part of a width that one of some ranks has, in blocks of the type of `down`. */
static whim_part part_of(const whim_binder *binder, const whim_param *down, const char *name,
                         int32_t l, int32_t n_rank, int32_t rank)
{
    if (n_rank == 1) {
        return (whim_part){0, down->k};
    }
    int64_t block = whim_bind_block(binder, down, NULL, "layers.%d.mlp.%s", l, name);
    return whim_part_width(down->k, block, n_rank, rank);
}

/* Of gate and up a rank has rows, of down columns. */
static whim_param param_cut(whim_param param, const whim_part *part, bool rows, bool cut)
{
    param.row_runs = cut && rows ? part : NULL;
    param.n_row_run = cut && rows;
    param.col_runs = cut && !rows ? part : NULL;
    param.n_col_run = cut && !rows;
    return param;
}

static void bind_routed(whim_moe *moe, const whim_config *c, int32_t l, whim_binder *binder)
{
    const whim_moe_config *m = &c->moe;
    int64_t d = c->d_model, ff = m->d_expert, n = m->n_expert;
    const whim_param experts[] = {
        {&moe->gate, .n = ff, .k = d, .n_expert = n,
         .experts = {"gate_proj", "gate_up_proj", 0, 2 * ff}},
        {&moe->up, .n = ff, .k = d, .n_expert = n,
         .experts = {"up_proj", "gate_up_proj", ff, 2 * ff}},
        {&moe->down, .n = d, .k = ff, .n_expert = n, .experts = {"down_proj", "down_proj", 0, d}},
    };
    int32_t rank, n_rank = whim_binder_wide(binder, &rank);
    n_rank = binder->deal_span > 0 ? binder->deal_span : n_rank; /* that have an expert together */
    const whim_part part = part_of(binder, &experts[2], "experts", l, n_rank, rank % n_rank);
    whim_param router = {.weight = &moe->router, .n = n, .k = d, .widen = true};
    whim_bind(binder, &router, "layers.%d.mlp.gate.weight", l);
    if (m->choice_bias) {
        whim_param bias = {.values = &moe->bias, .n = n};
        whim_bind(binder, &bias, "layers.%d.mlp.e_score_correction_bias", l);
    }
    const whim_part own = moe->deal != NULL ? whim_deal_own(moe->deal) : (whim_part){0, n};
    for (size_t i = 0; i < sizeof experts / sizeof experts[0]; i++) {
        whim_param stack = param_cut(experts[i], &part, i<2, n_rank> 1);
        stack.own_experts = moe->deal != NULL ? &own : NULL;
        whim_bind(binder, &stack, "layers.%d.mlp.experts", l);
    }
}

void whim_moe_bind(whim_moe *moe, const whim_config *c, const whim_deal *deal, int32_t l,
                   whim_binder *binder)
{
    int64_t d = c->d_model, ff = c->moe.d_shared;
    const struct {
        whim_param param;
        const char *name;
    } shared[] = {
        {{&moe->shared_gate, .n = ff, .k = d}, "shared_expert.gate_proj.weight"},
        {{&moe->shared_up, .n = ff, .k = d}, "shared_expert.up_proj.weight"},
        {{&moe->shared_down, .n = d, .k = ff}, "shared_expert.down_proj.weight"},
    };
    moe->deal = deal;
    bind_routed(moe, c, l, binder);
    if (ff == 0) {
        return;
    }
    int32_t rank, n_rank = whim_binder_wide(binder, &rank);
    const whim_part part = part_of(binder, &shared[2].param, shared[2].name, l, n_rank, rank);
    whim_param router = {.weight = &moe->shared_router, .n = 1, .k = d};
    whim_bind(binder, &router, "layers.%d.mlp.shared_expert_gate.weight", l);
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        whim_param w = param_cut(shared[i].param, &part, i<2, n_rank> 1);
        whim_bind(binder, &w, "layers.%d.mlp.%s", l, shared[i].name);
    }
}

whim_moe_space whim_moe_space_take(whim_bump *bump, const whim_config *c, const whim_deal *deal,
                                   int64_t n_row, const whim_deal_apart *apart)
{
    const whim_moe_config *m = &c->moe;
    whim_moe_space s = {0};
    s.logits = whim_bump_rows(bump, n_row, m->n_expert);
    s.weights = whim_bump_rows(bump, n_row, m->top_k);
    s.ids = whim_bump_take(bump, n_row * m->top_k * (int64_t)sizeof *s.ids);
    if (deal != NULL) {
        s.deal = whim_deal_space_take(bump, deal, c, n_row, apart->n_each);
    }
    if (apart->marks != NULL && (deal == NULL || deal->cut)) {
        s.routed = whim_bump_take(bump, n_row * m->top_k * (int64_t)sizeof *s.routed);
    }
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
                          const float *x, int64_t n_row, const whim_deal_apart *apart,
                          const whim_moe_space *space, float *y)
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
    if (space->routed != NULL) {
        WHIM_TRY(whim_op_mask_ids(s, &(whim_mask_ids_args){.x = space->ids,
                                                           .marks = apart->marks,
                                                           .y = space->routed,
                                                           .n_src = n_row,
                                                           .n_row = n_row,
                                                           .n_col = config->top_k}));
    }
    const whim_moe_experts_args experts = {.gate = moe->gate,
                                           .up = moe->up,
                                           .down = moe->down,
                                           .x = x,
                                           .x_stride = d,
                                           .ids =
                                               space->routed != NULL ? space->routed : space->ids,
                                           .weights = space->weights,
                                           .y = y,
                                           .y_stride = d,
                                           .n_row = n_row,
                                           .n_expert = config->n_expert,
                                           .k_top = config->top_k};
    WHIM_TRY(moe->deal != NULL ? whim_dealt_experts(moe->deal, s, &experts, apart, &space->deal)
                               : whim_op_moe_experts(s, &experts));
    return moe->shared_router.n > 0 ? add_shared(moe, s, x, n_row, space, y) : WHIM_ERR_OK;
}

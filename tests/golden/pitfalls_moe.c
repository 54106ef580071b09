/* SPDX-License-Identifier: Apache-2.0 */
/* The mistakes that are easily made with experts, partial rotation and codes with scales. Ops with
 * a mistake take arrays of their own, as in pitfalls_list.c. */
#include "golden/pitfalls.h"
#include "weights/quantised/recipe.h"

#include <math.h>

enum { MAX_ROWS = 256, MAX_TOP = 16 };

/* --- configuration, bound weights ------------------------------------------------------------- */

static void moe_not_renormalised(whim_config *c)
{
    c->moe.renormalize = false;
}

static void moe_scoring_mistaken(whim_config *c)
{
    c->moe.sigmoid = !c->moe.sigmoid;
}

static void moe_one_fewer(whim_config *c)
{
    c->moe.top_k--;
}

static void rope_whole_head(whim_config *c)
{
    c->rope.rotary_dim = c->d_head;
}

static void moe_bias_ignored(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        dec->layers[l].moe->bias = NULL;
    }
}

static void moe_gate_up_swapped(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        whim_moe *moe = dec->layers[l].moe;
        whim_weight gate = moe != NULL ? moe->gate : (whim_weight){0};
        if (moe != NULL) {
            moe->gate = moe->up;
            moe->up = gate;
        }
    }
}

/* What a scale belongs to: the next expert. */
static void scales_one_off(whim_binder *binder)
{
    for (int64_t i = 0; i < binder->n_param; i++) {
        whim_param *param = &binder->params[i];
        for (int64_t p = 0; p + 1 < param->n_part; p++) {
            const whim_ckpt_tensor *own = param->parts[p].tensor;
            if (own->recipe == NULL) {
                break;
            }
            whim_ckpt_tensor *tensor = whim_arena_alloc(&binder->arena, sizeof *tensor);
            whim_recipe *recipe = whim_arena_alloc(&binder->arena, sizeof *recipe);
            *tensor = *own;
            *recipe = *own->recipe;
            recipe->scales = param->parts[p + 1].tensor->recipe->scales;
            tensor->recipe = recipe;
            param->parts[p].tensor = tensor;
        }
    }
}

/* --- ops -------------------------------------------------------------------------------------- */

static whim_err moe_ids_one_off(whim_stream *s, const whim_moe_experts_args *args)
{
    static int32_t ids[MAX_ROWS * MAX_TOP];
    WHIM_TRY(whim_stream_sync(s));
    for (int64_t i = 0; i < args->n_row * args->k_top; i++) {
        ids[i] = (int32_t)((args->ids[i] + 1) % args->n_expert);
    }
    whim_moe_experts_args a = *args;
    a.ids = ids;
    return pitfall_own_ops()->moe_experts(s, &a);
}

static whim_err moe_weights_ignored(whim_stream *s, const whim_moe_experts_args *args)
{
    static float weights[MAX_ROWS * MAX_TOP];
    for (int64_t i = 0; i < args->n_row * args->k_top; i++) {
        weights[i] = 1.0f / (float)args->k_top;
    }
    whim_moe_experts_args a = *args;
    a.weights = weights;
    return pitfall_own_ops()->moe_experts(s, &a);
}

/* Scores with the bias in them: what the law gives for sigmoids that the bias was added to. */
static whim_err moe_bias_in_weights(whim_stream *s, const whim_moe_topk_args *args)
{
    WHIM_TRY(pitfall_own_ops()->moe_topk(s, args));
    WHIM_TRY(whim_stream_sync(s));
    for (int64_t r = 0; r < args->n_row; r++) {
        float sum = 0.0f;
        float *w = args->weights + r * args->k_top;
        for (int64_t j = 0; j < args->k_top; j++) {
            int32_t id = args->ids[r * args->k_top + j];
            float x = args->logits[r * args->logits_stride + id];
            w[j] = 1.0f / (1.0f + expf(-x)) + args->bias[id];
            sum += w[j];
        }
        for (int64_t j = 0; j < args->k_top; j++) {
            w[j] /= sum;
        }
    }
    return WHIM_ERR_OK;
}

/* Each head of q and k by itself, with the first head's weights. */
static whim_err split_by_heads(whim_stream *s, const whim_split_qkv_tp_rmsnorm_rope_args *a)
{
    return pitfall_own_ops()->split_qkv_rmsnorm_rope(s, &(whim_split_qkv_rmsnorm_rope_args){
                                                            .qkv = a->qkv,
                                                            .qkv_stride = a->qkv_stride,
                                                            .q_norm = a->q_norm,
                                                            .k_norm = a->k_norm,
                                                            .eps = a->eps,
                                                            .cos_sin = a->cos_sin,
                                                            .q = a->q,
                                                            .k = a->k,
                                                            .v = a->v,
                                                            .n_row = a->n_row,
                                                            .n_head = a->n_head,
                                                            .n_kv = a->n_kv,
                                                            .d_head = a->d_head,
                                                            .n_freq = a->n_freq,
                                                        });
}

static void with_ids_one_off(whim_ops *ops)
{
    ops->moe_experts = moe_ids_one_off;
}

static void with_weights_ignored(whim_ops *ops)
{
    ops->moe_experts = moe_weights_ignored;
}

static void with_bias_in_weights(whim_ops *ops)
{
    ops->moe_topk = moe_bias_in_weights;
}

static void with_split_by_heads(whim_ops *ops)
{
    ops->split_qkv_tp_rmsnorm_rope = split_by_heads;
}

static const pitfall list[] = {
    {"weights not renormalised", "qwen3moe-f32", .config = moe_not_renormalised},
    {"sigmoid for softmax", "qwen3moe-f32", .config = moe_scoring_mistaken},
    {"one expert fewer", "qwen3moe-f32", .config = moe_one_fewer},
    {"gate and up of experts swapped", "qwen3moe-f32", .decoder = moe_gate_up_swapped},
    {"experts one off", "qwen3moe-f32", .ops = with_ids_one_off},
    {"weights ignored", "qwen3moe-f32", .ops = with_weights_ignored},
    {"choice bias ignored", "minimax-f32", .decoder = moe_bias_ignored},
    {"choice bias in the weights too", "minimax-f32", .ops = with_bias_in_weights},
    {"softmax for sigmoid", "minimax-f32", .config = moe_scoring_mistaken},
    {"weights not renormalised", "minimax-f32", .config = moe_not_renormalised},
    {"the whole head rotated", "minimax-f32", .config = rope_whole_head},
    {"q and k normalised by heads", "minimax-f32", .ops = with_split_by_heads},
    {"scales of the next expert", "minimax-fp8", .binder = scales_one_off},
};

const pitfall *pitfall_list_moe(int32_t *n)
{
    *n = (int32_t)(sizeof list / sizeof list[0]);
    return list;
}

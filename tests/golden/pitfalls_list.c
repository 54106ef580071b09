/* SPDX-License-Identifier: Apache-2.0 */
/* The mistakes. Ops with a mistake run on the CPU backend, whose device memory the host may use:
 * they take scratch arrays of their own. */
#include "golden/pitfalls.h"

#include <math.h>

enum { MAX_ROWS = 256, MAX_HEADS = 16, MAX_WIDTH = 1024 };

/* --- configuration ---------------------------------------------------------------------------- */

static void theta_default(whim_config *c)
{
    c->rope.theta = 10000.0;
}

static void theta_tenth_off(whim_config *c)
{
    c->rope.theta *= 1.1;
}

static void rope_none(whim_config *c)
{
    c->rope.kind = WHIM_ROPE_LINEAR;
    c->rope.factor = 1e30;
}

static void rope_unscaled(whim_config *c)
{
    c->rope.kind = WHIM_ROPE_DEFAULT;
}

static void rope_scaled_linearly(whim_config *c)
{
    c->rope.kind = WHIM_ROPE_LINEAR;
}

static void llama3_no_middle(whim_config *c)
{
    c->rope.high_freq = c->rope.low_freq * (1 + 1e-9);
}

static void llama3_bands_swapped(whim_config *c)
{
    double low = c->rope.low_freq;
    c->rope.low_freq = c->rope.high_freq;
    c->rope.high_freq = low;
}

static void yarn_factor_one(whim_config *c)
{
    c->rope.attn_factor = 1.0;
}

static void yarn_betas_swapped(whim_config *c)
{
    double fast = c->rope.beta_fast;
    c->rope.beta_fast = c->rope.beta_slow;
    c->rope.beta_slow = fast;
}

static void orig_ctx_from_max(whim_config *c)
{
    c->rope.orig_ctx = (double)c->max_ctx;
}

static void divisors_ignored(whim_config *c)
{
    c->rope.divisors = NULL;
}

static void pairing_flipped(whim_config *c)
{
    c->qk_paired = !c->qk_paired;
}

static void window_none(whim_config *c)
{
    c->window = 0;
}

static void window_one_more(whim_config *c)
{
    c->window++;
}

static void window_everywhere(whim_config *c)
{
    whim_config_set_windowed(c, 0);
}

static void eps_none(whim_config *c)
{
    c->rms_eps = 1e-30f;
}

/* --- bound weights ---------------------------------------------------------------------------- */

static void head_is_embedding(whim_decoder *dec)
{
    dec->head.head = dec->head.embed;
}

static void qk_norm_none(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        dec->layers[l].attn.q_norm = dec->layers[l].attn.k_norm = NULL;
    }
}

static void swap_vectors(const float **a, const float **b)
{
    const float *old = *a;
    *a = *b;
    *b = old;
}

static void qk_norm_swapped(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        swap_vectors(&dec->layers[l].attn.q_norm, &dec->layers[l].attn.k_norm);
    }
}

static void norms_swapped(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        swap_vectors(&dec->layers[l].mixer_norm, &dec->layers[l].mlp_norm);
    }
}

static void layers_swapped(whim_decoder *dec)
{
    whim_decoder_layer first = dec->layers[0];
    dec->layers[0] = dec->layers[1];
    dec->layers[1] = first;
}

static void gate_up_swapped(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        whim_projection gate = dec->layers[l].mlp.gate;
        dec->layers[l].mlp.gate = dec->layers[l].mlp.up;
        dec->layers[l].mlp.up = gate;
    }
}

static void k_v_swapped(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        whim_projection k = dec->layers[l].attn.k;
        dec->layers[l].attn.k = dec->layers[l].attn.v;
        dec->layers[l].attn.v = k;
    }
}

static void attention_bias_none(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        dec->layers[l].attn.q.bias = dec->layers[l].attn.k.bias = dec->layers[l].attn.v.bias = NULL;
    }
}

static void o_bias_none(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        dec->layers[l].attn.o.bias = NULL;
    }
}

static void mlp_bias_none(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        dec->layers[l].mlp.gate.bias = dec->layers[l].mlp.up.bias = NULL;
    }
}

static void down_bias_none(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        dec->layers[l].mlp.down.bias = NULL;
    }
}

static float to_one(float value)
{
    (void)value;
    return 1.0f;
}

static float plus_one(float value)
{
    return 1.0f + value;
}

/* --- ops -------------------------------------------------------------------------------------- */

static whim_err attn_unscaled(whim_stream *s, const whim_attn_paged_args *args)
{
    whim_attn_paged_args a = *args;
    a.scale = 1.0f;
    return pitfall_own_ops()->attn_paged(s, &a);
}

static whim_err attn_scale_of_width(whim_stream *s, const whim_attn_paged_args *args)
{
    const whim_config *c = &pitfall_decoder()->config;
    whim_attn_paged_args a = *args;
    a.scale = 1.0f / sqrtf((float)c->d_model / (float)c->n_head);
    return pitfall_own_ops()->attn_paged(s, &a);
}

static whim_err attn_sees_future(whim_stream *s, const whim_attn_paged_args *args)
{
    whim_attn_paged_args a = *args;
    a.causal = false;
    return pitfall_own_ops()->attn_paged(s, &a);
}

/* A row sees what comes before it, but not itself; the first has nothing else. */
static whim_err attn_not_itself(whim_stream *s, const whim_attn_paged_args *args)
{
    static int32_t positions[MAX_ROWS];
    WHIM_TRY(whim_stream_sync(s));
    for (int64_t i = 0; i < args->n_row; i++) {
        positions[i] = args->positions[i] > 0 ? args->positions[i] - 1 : 0;
    }
    whim_attn_paged_args a = *args;
    a.positions = positions;
    return pitfall_own_ops()->attn_paged(s, &a);
}

/* Query head j reads KV head j % n_kv: the heads go to where that head's queries are, and back. */
static whim_err attn_heads_interleaved(whim_stream *s, const whim_attn_paged_args *args)
{
    static int32_t there[MAX_ROWS * MAX_HEADS], back[MAX_ROWS * MAX_HEADS];
    static float q[MAX_ROWS * MAX_WIDTH], out[MAX_ROWS * MAX_WIDTH];
    int64_t n = args->n_row * args->n_head, d = args->kv.d_head, n_kv = args->kv.n_kv;
    int64_t group = args->n_head / n_kv;
    for (int64_t i = 0; i < n; i++) {
        int64_t head = i % args->n_head, row = i - head;
        int64_t place = head % n_kv * group + head / n_kv;
        there[row + place] = (int32_t)i;
        back[i] = (int32_t)(row + place);
    }
    whim_gather_rows_args move = {.x = args->q,
                                  .x_stride = d,
                                  .rows = there,
                                  .y = q,
                                  .y_stride = d,
                                  .n_src = n,
                                  .n_row = n,
                                  .n_col = d};
    WHIM_TRY(whim_op_gather_rows(s, &move));
    whim_attn_paged_args a = *args;
    a.q = q;
    a.out = out;
    WHIM_TRY(pitfall_own_ops()->attn_paged(s, &a));
    move = (whim_gather_rows_args){.x = out,
                                   .x_stride = d,
                                   .rows = back,
                                   .y = args->out,
                                   .y_stride = d,
                                   .n_src = n,
                                   .n_row = n,
                                   .n_col = d};
    return whim_op_gather_rows(s, &move);
}

static whim_err split_norm_after_rope(whim_stream *s, const whim_split_qkv_rmsnorm_rope_args *args)
{
    whim_split_qkv_rmsnorm_rope_args a = *args;
    a.q_norm = a.k_norm = NULL;
    WHIM_TRY(pitfall_own_ops()->split_qkv_rmsnorm_rope(s, &a));
    whim_rmsnorm_args norm = {.x = a.q,
                              .x_stride = a.d_head,
                              .w = args->q_norm,
                              .eps = a.eps,
                              .y = a.q,
                              .y_stride = a.d_head,
                              .n_row = a.n_row * a.n_head,
                              .n_col = a.d_head};
    WHIM_TRY(pitfall_own_ops()->rmsnorm(s, &norm));
    norm.x = norm.y = a.k;
    norm.w = args->k_norm;
    norm.n_row = a.n_row * a.n_kv;
    return pitfall_own_ops()->rmsnorm(s, &norm);
}

static whim_err split_half_rotated(whim_stream *s, const whim_split_qkv_rmsnorm_rope_args *args)
{
    whim_split_qkv_rmsnorm_rope_args a = *args;
    a.n_freq /= 2; /* reads the first half of the table as if it were all of it */
    return pitfall_own_ops()->split_qkv_rmsnorm_rope(s, &a);
}

static whim_err rope_positions_halved(whim_stream *s, const whim_rope_table_args *args)
{
    static int32_t positions[MAX_ROWS];
    WHIM_TRY(whim_stream_sync(s));
    for (int64_t i = 0; i < args->n_row; i++) {
        positions[i] = args->positions[i] / 2; /* two tokens share a position */
    }
    whim_rope_table_args a = *args;
    a.positions = positions;
    return pitfall_own_ops()->rope_table(s, &a);
}

/* The head of a tied model is another matrix. */
static whim_err linear_other_head(whim_stream *s, const whim_linear_args *args)
{
    const whim_decoder *dec = pitfall_decoder();
    whim_linear_args a = *args;
    if (a.w.data == dec->head.embed.data) {
        a.w = dec->layers[0].mlp.gate.w;
        a.w.n = dec->config.n_vocab; /* it has more rows than that */
    }
    return pitfall_own_ops()->linear(s, &a);
}

static whim_err norm_not_the_last(whim_stream *s, const whim_rmsnorm_args *args)
{
    if (args->w == pitfall_decoder()->head.norm) {
        return WHIM_ERR_OK; /* in place: the rows stay as they are */
    }
    return pitfall_own_ops()->rmsnorm(s, args);
}

/* The attention's residual is dropped: x = delta where the MLP's norm follows. */
static whim_err add_drops_residual(whim_stream *s, const whim_add_rmsnorm_args *args)
{
    const whim_decoder *dec = pitfall_decoder();
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        if (args->w == dec->layers[l].mlp_norm) {
            whim_gather_rows_args copy = {.x = args->delta,
                                          .x_stride = args->delta_stride,
                                          .y = args->x,
                                          .y_stride = args->x_stride,
                                          .n_src = args->n_row,
                                          .n_row = args->n_row,
                                          .n_col = args->n_col};
            WHIM_TRY(pitfall_own_ops()->gather_rows(s, &copy));
            whim_rmsnorm_args norm = {.x = args->x,
                                      .x_stride = args->x_stride,
                                      .w = args->w,
                                      .eps = args->eps,
                                      .y = args->y,
                                      .y_stride = args->y_stride,
                                      .n_row = args->n_row,
                                      .n_col = args->n_col};
            return pitfall_own_ops()->rmsnorm(s, &norm);
        }
    }
    return pitfall_own_ops()->add_rmsnorm(s, args);
}

#define OPS_WITH(slot, fn)               \
    static void with_##fn(whim_ops *ops) \
    {                                    \
        ops->slot = fn;                  \
    }
OPS_WITH(attn_paged, attn_unscaled)
OPS_WITH(attn_paged, attn_scale_of_width)
OPS_WITH(attn_paged, attn_sees_future)
OPS_WITH(attn_paged, attn_not_itself)
OPS_WITH(attn_paged, attn_heads_interleaved)
OPS_WITH(split_qkv_rmsnorm_rope, split_norm_after_rope)
OPS_WITH(split_qkv_rmsnorm_rope, split_half_rotated)
OPS_WITH(rope_table, rope_positions_halved)
OPS_WITH(linear, linear_other_head)
OPS_WITH(rmsnorm, norm_not_the_last)
OPS_WITH(add_rmsnorm, add_drops_residual)

/* --- the list --------------------------------------------------------------------------------- */

static const pitfall list[] = {
    {"adjacent pairs rotated, not halves", "llama-f32", .config = pairing_flipped},
    {"adjacent pairs rotated, not halves", "qwen3-f32", .config = pairing_flipped},
    {"no rotation", "llama-f32", .config = rope_none},
    {"no rotation", "qwen3-f32", .config = rope_none},
    {"theta 1e4 whatever the file says", "qwen3-f32", .config = theta_default},
    {"theta 1e4 whatever the file says", "llama-rope3", .config = theta_default},
    {"theta a tenth off", "llama-f32", .config = theta_tenth_off},
    {"linear scaling ignored", "llama-linear", .config = rope_unscaled},
    {"llama3 scaling ignored", "llama-rope3", .config = rope_unscaled},
    {"llama3 taken for linear", "llama-rope3", .config = rope_scaled_linearly},
    {"llama3 without the middle band", "llama-rope3", .config = llama3_no_middle},
    {"llama3 bands swapped", "llama-rope3", .config = llama3_bands_swapped},
    {"llama3 original context from the new one", "llama-rope3", .config = orig_ctx_from_max},
    {"yarn scaling ignored", "qwen3-yarn", .config = rope_unscaled},
    {"yarn taken for linear", "qwen3-yarn", .config = rope_scaled_linearly},
    {"window ignored", "qwen3-window", .config = window_none},
    {"window one wider", "qwen3-window", .config = window_one_more},
    {"window in every layer", "qwen3-window", .config = window_everywhere},
    {"yarn attention factor ignored", "qwen3-yarn", .config = yarn_factor_one},
    {"yarn ramp's ends swapped", "qwen3-yarn", .config = yarn_betas_swapped},
    {"yarn original context from the new one", "qwen3-yarn", .config = orig_ctx_from_max},
    {"half of a head rotated", "llama-f32", .ops = with_split_half_rotated},
    {"positions wrong", "llama-f32", .ops = with_rope_positions_halved},
    {"norm epsilon ignored", "llama-bias", .config = eps_none},
    {"norm epsilon ignored", "qwen3-f32", .config = eps_none},
    {"norm weights ignored", "llama-f32", .vector = "layernorm", .edit = to_one},
    {"norm weight used as 1 + w", "llama-f32", .vector = "norm.weight", .edit = plus_one},
    {"norm weight used as 1 + w", "qwen3-f32", .vector = "norm.weight", .edit = plus_one},
    {"the two norms of a layer swapped", "llama-f32", .decoder = norms_swapped},
    {"last norm skipped", "llama-f32", .ops = with_norm_not_the_last},
    {"layers out of order", "llama-f32", .decoder = layers_swapped},
    {"no norm of q and k", "qwen3-f32", .decoder = qk_norm_none},
    {"q and k norm weights swapped", "qwen3-f32", .decoder = qk_norm_swapped},
    {"q and k norm weights ignored", "qwen3-f32", .vector = "q_norm", .edit = to_one},
    {"q and k norm after the rotation", "qwen3-f32", .ops = with_split_norm_after_rope},
    {"scores without a scale", "llama-f32", .ops = with_attn_unscaled},
    {"scale from d_model / n_head", "qwen3-f32", .ops = with_attn_scale_of_width},
    {"scale from d_model / n_head", "llama-linear", .ops = with_attn_scale_of_width},
    {"KV head j % n_kv", "llama-f32", .ops = with_attn_heads_interleaved},
    {"KV head j % n_kv", "qwen3-f32", .ops = with_attn_heads_interleaved},
    {"a row sees the future", "llama-f32", .ops = with_attn_sees_future},
    {"a row does not see itself", "llama-f32", .ops = with_attn_not_itself},
    {"k and v swapped", "llama-f32", .decoder = k_v_swapped},
    {"attention's residual dropped", "llama-f32", .ops = with_add_drops_residual},
    {"gate and up swapped", "llama-f32", .decoder = gate_up_swapped},
    {"biases of q, k, v ignored", "llama-bias", .decoder = attention_bias_none},
    {"biases of q, k, v ignored", "qwen2-f32", .decoder = attention_bias_none},
    {"bias of o ignored", "llama-bias", .decoder = o_bias_none},
    {"biases of gate and up ignored", "llama-bias", .decoder = mlp_bias_none},
    {"bias of down ignored", "llama-bias", .decoder = down_bias_none},
    {"embedding used in place of the head", "llama-f32", .decoder = head_is_embedding},
    {"tied head not the embedding", "llama-bf16", .ops = with_linear_other_head, .enough = 3},
    {"GGUF row pairs left as they are", "llama-mixed-gguf", .config = pairing_flipped, .enough = 3},
    {"GGUF row pairs undone where there are none", "qwen3-mixed-gguf", .config = pairing_flipped,
     .enough = 3},
    {"GGUF rope_freqs.weight ignored", "llama-mixed-gguf", .config = divisors_ignored, .enough = 3},
    {"theta 1e4 whatever the file says", "llama-mixed-gguf", .config = theta_default, .enough = 3},
};

const pitfall *pitfall_list(int32_t *n)
{
    *n = (int32_t)(sizeof list / sizeof list[0]);
    return list;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The mistakes of hybrid models. As in pitfalls_list.c ops with a mistake run on the CPU backend,
 * whose device memory the host may use. */
#include "golden/pitfalls.h"

enum { MAX_ROWS = 256, MAX_WIDTH = 512 };

static const float zeros[MAX_WIDTH];

/* --- configuration and bound weights ---------------------------------------------------------- */

static void all_rotated(whim_config *c)
{
    c->rope.rotary_dim = c->d_head;
}

static void norms_as_stored(whim_config *c)
{
    c->gdn.folded = true; /* w for 1 + w, A_log for -exp(A_log) */
}

static void folded_twice(whim_config *c)
{
    c->gdn.folded = false;
}

static void tiling_flipped(whim_config *c)
{
    c->gdn.tiled = !c->gdn.tiled;
}

static void not_renormalised(whim_config *c)
{
    c->moe.renormalize = false;
}

static float plus_one(float value)
{
    return value + 1.0f;
}

static void qk_norm_none(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        dec->layers[l].attn.q_norm = dec->layers[l].attn.k_norm = NULL;
    }
}

static void b_a_swapped(whim_decoder *dec)
{
    for (int32_t l = 0; l < dec->config.n_layer; l++) {
        whim_gated_delta *delta = dec->layers[l].delta;
        if (delta != NULL) {
            whim_weight b = delta->b;
            delta->b = delta->a;
            delta->a = b;
        }
    }
}

/* --- ops -------------------------------------------------------------------------------------- */

static whim_err copy(whim_stream *s, const float *x, int64_t x_stride, float *y, int64_t y_stride,
                     int64_t n_row, int64_t n_col)
{
    return pitfall_own_ops()->gather_rows(s, &(whim_gather_rows_args){.x = x,
                                                                      .x_stride = x_stride,
                                                                      .y = y,
                                                                      .y_stride = y_stride,
                                                                      .n_src = n_row,
                                                                      .n_row = n_row,
                                                                      .n_col = n_col});
}

static whim_err conv_none(whim_stream *s, const whim_gdn_conv_args *a)
{
    return copy(s, a->x, a->x_stride, a->y, a->y_stride, a->n_row, a->n_chan);
}

static whim_err conv_not_of_values(whim_stream *s, const whim_gdn_conv_args *a)
{
    const whim_gdn_config *c = &pitfall_decoder()->config.gdn;
    int64_t keys = 2 * (int64_t)c->n_key * c->d_key;
    WHIM_TRY(pitfall_own_ops()->gdn_conv(s, a));
    return copy(s, a->x + keys, a->x_stride, a->y + keys, a->y_stride, a->n_row, a->n_chan - keys);
}

static whim_err scan_without_decay(whim_stream *s, const whim_gdn_scan_args *args)
{
    whim_gdn_scan_args a = *args;
    a.rate = zeros;
    return pitfall_own_ops()->gdn_scan(s, &a);
}

static whim_err scan_without_bias(whim_stream *s, const whim_gdn_scan_args *args)
{
    whim_gdn_scan_args a = *args;
    a.dt_bias = zeros;
    return pitfall_own_ops()->gdn_scan(s, &a);
}

static whim_err scan_q_k_swapped(whim_stream *s, const whim_gdn_scan_args *args)
{
    static float qkv[MAX_ROWS * MAX_WIDTH];
    int64_t keys = (int64_t)args->n_key * args->d_key, n = args->n_row, from = args->qkv_stride;
    int64_t values = (int64_t)args->n_value * args->d_value;
    WHIM_TRY(copy(s, args->qkv, from, qkv + keys, MAX_WIDTH, n, keys));
    WHIM_TRY(copy(s, args->qkv + keys, from, qkv, MAX_WIDTH, n, keys));
    WHIM_TRY(copy(s, args->qkv + 2 * keys, from, qkv + 2 * keys, MAX_WIDTH, n, values));
    whim_gdn_scan_args a = *args;
    a.qkv = qkv;
    a.qkv_stride = MAX_WIDTH;
    return pitfall_own_ops()->gdn_scan(s, &a);
}

/* Value head h with key head h % n_key: the values go to where that head is, and the results
 * back. */
static whim_err scan_heads_tiled(whim_stream *s, const whim_gdn_scan_args *args)
{
    static float qkv[MAX_ROWS * MAX_WIDTH], out[MAX_ROWS * MAX_WIDTH];
    int64_t keys = 2 * (int64_t)args->n_key * args->d_key, d = args->d_value, n = args->n_row;
    int64_t ratio = args->n_value / args->n_key, width = args->n_value * d;
    whim_gdn_scan_args a = *args;
    a.qkv = qkv;
    a.qkv_stride = MAX_WIDTH;
    a.out = out;
    WHIM_TRY(copy(s, args->qkv, args->qkv_stride, qkv, MAX_WIDTH, n, keys));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t h = 0; h < args->n_value; h++) {
            int64_t place = h % args->n_key * ratio + h / args->n_key;
            WHIM_TRY(pass == 0 ? copy(s, args->qkv + keys + h * d, args->qkv_stride,
                                      qkv + keys + place * d, MAX_WIDTH, n, d)
                               : copy(s, out + place * d, width, args->out + h * d, width, n, d));
        }
        if (pass == 0) {
            WHIM_TRY(pitfall_own_ops()->gdn_scan(s, &a));
        }
    }
    return WHIM_ERR_OK;
}

static whim_err gated_norm_without_gate(whim_stream *s, const whim_rmsnorm_gated_args *a)
{
    return pitfall_own_ops()->rmsnorm(s, &(whim_rmsnorm_args){.x = a->x,
                                                              .x_stride = a->x_stride,
                                                              .w = a->w,
                                                              .eps = a->eps,
                                                              .y = a->y,
                                                              .y_stride = a->y_stride,
                                                              .n_row = a->n_row,
                                                              .n_col = a->n_col});
}

static whim_err attention_without_gate(whim_stream *s, const whim_sigmoid_gate_args *a)
{
    (void)s, (void)a;
    return WHIM_ERR_OK;
}

/* All heads of q first, then all gates. */
static whim_err gates_in_halves(whim_stream *s, const whim_split_qkv_rmsnorm_rope_args *args)
{
    static float qkv[MAX_ROWS * MAX_WIDTH];
    int64_t d = args->d_head, width = args->n_head * d, n = args->n_row, from = args->qkv_stride;
    for (int64_t h = 0; h < args->n_head; h++) {
        WHIM_TRY(copy(s, args->qkv + h * d, from, qkv + 2 * h * d, MAX_WIDTH, n, d));
        WHIM_TRY(copy(s, args->qkv + width + h * d, from, qkv + (2 * h + 1) * d, MAX_WIDTH, n, d));
    }
    WHIM_TRY(
        copy(s, args->qkv + 2 * width, from, qkv + 2 * width, MAX_WIDTH, n, 2 * args->n_kv * d));
    whim_split_qkv_rmsnorm_rope_args a = *args;
    a.qkv = qkv;
    a.qkv_stride = MAX_WIDTH;
    return pitfall_own_ops()->split_qkv_rmsnorm_rope(s, &a);
}

static whim_err split_not_grouped(whim_stream *s, const whim_gdn_split_qkvzba_args *args)
{
    whim_gdn_split_qkvzba_args a = *args;
    a.grouped = false;
    return pitfall_own_ops()->gdn_split_qkvzba(s, &a);
}

static whim_err shared_ignored(whim_stream *s, const whim_gated_add_args *a)
{
    (void)s, (void)a;
    return WHIM_ERR_OK;
}

static whim_err shared_without_gate(whim_stream *s, const whim_gated_add_args *args)
{
    static float open[MAX_ROWS];
    whim_gated_add_args a = *args;
    for (int i = 0; i < MAX_ROWS; i++) {
        open[i] = 100.0f; /* its sigmoid is 1 */
    }
    a.gate = open;
    return pitfall_own_ops()->gated_add(s, &a);
}

static whim_err attention_with_silu(whim_stream *s, const whim_sigmoid_gate_args *a)
{
    return pitfall_own_ops()->swiglu(s, &(whim_swiglu_args){.gate = a->gate,
                                                            .gate_stride = a->gate_stride,
                                                            .up = a->x,
                                                            .up_stride = a->x_stride,
                                                            .y = a->x,
                                                            .y_stride = a->x_stride,
                                                            .n_row = a->n_row,
                                                            .n_col = a->n_col});
}

#define OPS_WITH(slot, fn)               \
    static void with_##fn(whim_ops *ops) \
    {                                    \
        ops->slot = fn;                  \
    }
OPS_WITH(gdn_conv, conv_none)
OPS_WITH(gdn_conv, conv_not_of_values)
OPS_WITH(gdn_scan, scan_without_decay)
OPS_WITH(gdn_scan, scan_without_bias)
OPS_WITH(gdn_scan, scan_q_k_swapped)
OPS_WITH(gdn_scan, scan_heads_tiled)
OPS_WITH(rmsnorm_gated, gated_norm_without_gate)
OPS_WITH(sigmoid_gate, attention_without_gate)
OPS_WITH(sigmoid_gate, attention_with_silu)
OPS_WITH(split_qkv_rmsnorm_rope, gates_in_halves)
OPS_WITH(gdn_split_qkvzba, split_not_grouped)
OPS_WITH(gated_add, shared_ignored)
OPS_WITH(gated_add, shared_without_gate)

static const pitfall list[] = {
    {"all of a head rotated", "qwen35-f32", .config = all_rotated},
    {"norm weights as they are stored", "qwen35-f32", .config = norms_as_stored},
    {"norm weights as they are stored", "qwen35-r1", .config = norms_as_stored},
    {"no norm of q and k", "qwen35-f32", .decoder = qk_norm_none},
    {"b and a swapped", "qwen35-f32", .decoder = b_a_swapped},
    {"no convolution", "qwen35-r1", .ops = with_conv_none},
    {"no convolution of the values", "qwen35-f32", .ops = with_conv_not_of_values},
    {"no decay", "qwen35-f32", .ops = with_scan_without_decay},
    {"dt_bias ignored", "qwen35-f32", .ops = with_scan_without_bias},
    {"q and k of the delta rule swapped", "qwen35-f32", .ops = with_scan_q_k_swapped},
    {"value heads tiled, not repeated", "qwen35-f32", .ops = with_scan_heads_tiled},
    {"gate of the delta net ignored", "qwen35-f32", .ops = with_gated_norm_without_gate},
    {"gate of attention ignored", "qwen35-f32", .ops = with_attention_without_gate},
    {"gate of attention silu, not sigmoid", "qwen35-f32", .ops = with_attention_with_silu},
    {"gates after all heads of q", "qwen35-f32", .ops = with_gates_in_halves},
    {"inner norm's weight used as 1 + w", "qwen35-f32", .vector = "attn.norm", .edit = plus_one},
    {"value heads tiled, not repeated", "qwen35-moe", .ops = with_scan_heads_tiled},
    {"shared expert ignored", "qwen35-moe", .ops = with_shared_ignored},
    {"shared expert without its gate", "qwen35-moe", .ops = with_shared_without_gate},
    {"weights not renormalised", "qwen35-moe", .config = not_renormalised},
    {"weights not renormalised", "qwen3next-f32", .config = not_renormalised},
    {"projections not by key head", "qwen3next-f32", .ops = with_split_not_grouped},
    {"one added to norms that have it", "qwen35-f32", .twin = true, .config = folded_twice},
    {"one added to norms that have it", "qwen3next-f32", .twin = true, .config = folded_twice},
    {"heads left tiled", "qwen35-f32", .twin = true, .config = tiling_flipped},
    {"heads left tiled", "qwen35-moe", .twin = true, .config = tiling_flipped},
    {"heads taken for tiled", "qwen3next-f32", .twin = true, .config = tiling_flipped},
};

const pitfall *pitfall_hybrid_list(int32_t *n)
{
    *n = (int32_t)(sizeof list / sizeof list[0]);
    return list;
}

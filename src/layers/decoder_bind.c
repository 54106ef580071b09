/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a decoder, layer by layer, as its table says. */
#include "layers/decoder.h"
#include "layers/ranks/cut_rows.h"
#include "layers/rope.h"

/* Room for the layers, and for those parts that only some have. */
static bool layers_take(whim_decoder *dec, whim_arena *arena)
{
    const whim_layer_table *table = &dec->table;
    dec->layers = whim_arena_alloc_array(arena, table->n_layer, sizeof *dec->layers);
    bool ok = dec->layers != NULL;
    for (int32_t l = 0; l < table->n_layer && ok; l++) {
        whim_decoder_layer *layer = &dec->layers[l];
        if (table->rows[l].mixer == WHIM_MIXER_GATED_DELTA) {
            layer->delta = whim_arena_alloc(arena, sizeof *layer->delta);
            ok = layer->delta != NULL;
        }
        if (ok && table->rows[l].mlp == WHIM_MLP_EXPERTS) {
            layer->moe = whim_arena_alloc(arena, sizeof *layer->moe);
            ok = layer->moe != NULL;
        }
    }
    return ok;
}

static bool rotary_bind(whim_decoder *dec, whim_arena *arena, whim_binder *binder)
{
    for (int32_t i = 0; i < dec->table.n_rope; i++) {
        const whim_rope_config *rope = &dec->table.ropes[i];
        whim_rotary *rotary = &dec->rotary[i];
        rotary->n_freq = rope->rotary_dim / 2;
        rotary->scale = whim_rope_scale(rope);
        double *freqs = whim_arena_alloc_array(arena, rotary->n_freq, sizeof *freqs);
        if (freqs == NULL) {
            return false;
        }
        whim_rope_freqs(rope, freqs);
        whim_bind_constant(binder, &rotary->freqs, freqs, rotary->n_freq * (int64_t)sizeof *freqs);
    }
    return true;
}

static void layer_bind(const whim_decoder *dec, const whim_config *c, bool at_zero, int32_t l,
                       whim_binder *binder)
{
    const whim_layer_row *row = &dec->table.rows[l];
    whim_decoder_layer *layer = &dec->layers[l];
    if (row->mixer == WHIM_MIXER_GATED_DELTA) {
        whim_gated_delta_bind(layer->delta, c, dec->gdn_grouped, l, binder);
    } else {
        whim_attention_bind(&layer->attn, row, c, at_zero, l, binder);
    }
    if (row->mlp == WHIM_MLP_EXPERTS) {
        whim_moe_bind(layer->moe, c, dec->deal, l, binder);
    } else {
        whim_mlp_bind(&layer->mlp, row, c, l, binder);
    }
    if (row->conv_tap > 0) {
        whim_block_conv_bind(&layer->mixer_conv, row, c->d_model, "attention_conv", l, binder);
        whim_block_conv_bind(&layer->mlp_conv, row, c->d_model, "mlp_conv", l, binder);
    }
    whim_norm_bind(&layer->mixer_norm, c->d_model, at_zero, "input_layernorm", l, binder);
    whim_norm_bind(&layer->mlp_norm, c->d_model, at_zero, "post_attention_layernorm", l, binder);
}

/* What a draft multiplies the embeddings of its model by. */
static bool embed_scale_bind(whim_decoder *dec, whim_arena *arena, whim_binder *binder)
{
    int64_t d = dec->config.d_model;
    float by = dec->config.draft.embed_scale, *scale;
    dec->scaled = by != 0.0f && by != 1.0f;
    if (!dec->scaled) {
        return true;
    }
    scale = whim_arena_alloc_array(arena, d, sizeof *scale);
    for (int64_t i = 0; scale != NULL && i < d; i++) {
        scale[i] = by;
    }
    if (scale != NULL) {
        whim_bind_constant(binder, &dec->embed_scale, scale, d * (int64_t)sizeof *scale);
    }
    return scale != NULL;
}

whim_param whim_decoder_own_head(whim_decoder *dec, int64_t n, whim_binder *binder)
{
    const whim_vocab_part *part = whim_vocab_part_make(n, binder);
    dec->owns_head = true;
    dec->head.head_part = part;
    return (whim_param){.weight = &dec->head.head,
                        .n = n,
                        .k = dec->config.d_model,
                        .row_runs = part != NULL ? &part->own : NULL,
                        .n_row_run = part != NULL};
}

/* A norm over all heads is a sum over ranks: where none may be split, each has all of them. */
static void heads_settle(const whim_layer_table *table, whim_binder *binder)
{
    for (int32_t l = 0; l < table->n_layer; l++) {
        if (binder->whole_sums && table->rows[l].qk_norm == WHIM_QK_NORM_WHOLE) {
            binder->whole_sums = false;
            binder->n_rank = 1;
            binder->rank = 0;
        }
    }
}

whim_err whim_decoder_bind(const whim_config *config, const whim_layer_traits *traits,
                           const whim_layer_table *table, const whim_head *lent, whim_arena *arena,
                           whim_binder *binder, whim_decoder **out, whim_diag *diag)
{
    bool at_zero = traits->norm_at_zero && !config->gdn.folded; /* GGUF has the sum */
    heads_settle(table, binder);
    whim_decoder *dec = whim_arena_alloc(arena, sizeof *dec);
    if (dec != NULL) {
        dec->config = *config;
        dec->table = *table;
        dec->lent = lent;
        dec->gdn_grouped = traits->gdn_grouped && !config->gdn.apart;
    }
    if (dec == NULL || whim_layer_table_cut(&dec->table, config, binder) != WHIM_ERR_OK ||
        !layers_take(dec, arena)) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a model of %d layers",
                         config->n_layer);
    }
    dec->config.gdn = dec->table.gdn;
    dec->x_cols = whim_cut_cols(config->d_model, binder);
    dec->meet = whim_meet_make(config->d_model, binder);
    dec->deal = config->moe.n_expert > 0 ? whim_deal_make(config, binder) : NULL;
    if (lent == NULL) {
        whim_head_bind_embed(&dec->head, config, binder);
    }
    for (int32_t l = 0; l < table->n_layer; l++) {
        layer_bind(dec, config, at_zero, l, binder);
    }
    if (lent == NULL) {
        whim_head_bind_rest(&dec->head, config, at_zero, binder);
    } else {
        whim_norm_bind(&dec->head.norm, config->d_model, at_zero, "norm", -1, binder);
    }
    if (!rotary_bind(dec, arena, binder) || !embed_scale_bind(dec, arena, binder)) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for rotary frequencies");
    }
    *out = dec;
    return WHIM_ERR_OK;
}

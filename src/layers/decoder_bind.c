/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a decoder, by name. */
#include "layers/decoder.h"
#include "layers/rope.h"

/* One projection of layer `l`: its weight and, when the model has them, its bias. */
typedef struct projection_spec {
    whim_projection *out;
    int64_t n, k;
    int64_t unpair;
    bool bias;
    const char *name; /* "self_attn.q_proj" */
} projection_spec;

static void bind_projection(whim_binder *binder, int32_t l, const projection_spec *p)
{
    whim_bind_matrix(binder,
                     &(whim_bind_matrix_spec){
                         .out = &p->out->w,
                         .n = p->n,
                         .k = p->k,
                         .unpair = p->unpair,
                     },
                     "layers.%d.%s.weight", l, p->name);
    if (p->bias) {
        whim_bind_vector(binder, &p->out->bias, p->n, p->unpair, "layers.%d.%s.bias", l, p->name);
    }
}

static void bind_layer(const whim_config *c, const whim_decoder_traits *traits, int32_t l,
                       whim_decoder_layer *layer, whim_binder *binder)
{
    int64_t d = c->d_model, ff = c->d_ff;
    int64_t q_rows = (int64_t)c->n_head * c->d_head, kv_rows = (int64_t)c->n_kv * c->d_head;
    int64_t unpair = c->qk_paired ? c->d_head : 0;
    bool attn = c->attention_bias, mlp = c->mlp_bias;
    const projection_spec projections[] = {
        {&layer->q, q_rows, d, unpair, attn, "self_attn.q_proj"},
        {&layer->k, kv_rows, d, unpair, attn, "self_attn.k_proj"},
        {&layer->v, kv_rows, d, 0, attn, "self_attn.v_proj"},
        {&layer->o, d, q_rows, 0, attn, "self_attn.o_proj"},
        {&layer->gate, ff, d, 0, mlp, "mlp.gate_proj"},
        {&layer->up, ff, d, 0, mlp, "mlp.up_proj"},
        {&layer->down, d, ff, 0, mlp, "mlp.down_proj"},
    };
    enum { N_PROJECTION = sizeof projections / sizeof projections[0], N_MLP = 3 };
    for (int i = 0; i < (layer->moe != NULL ? N_PROJECTION - N_MLP : N_PROJECTION); i++) {
        bind_projection(binder, l, &projections[i]);
    }
    if (layer->moe != NULL) {
        whim_moe_bind(layer->moe, c, l, binder);
    }
    whim_bind_vector(binder, &layer->attn_norm, d, 0, "layers.%d.input_layernorm.weight", l);
    whim_bind_vector(binder, &layer->mlp_norm, d, 0, "layers.%d.post_attention_layernorm.weight",
                     l);
    if (traits->qk_norm != WHIM_QK_NORM_NONE) {
        bool whole = traits->qk_norm == WHIM_QK_NORM_WHOLE;
        whim_bind_vector(binder, &layer->q_norm, whole ? q_rows : c->d_head, 0,
                         "layers.%d.self_attn.q_norm.weight", l);
        whim_bind_vector(binder, &layer->k_norm, whole ? kv_rows : c->d_head, 0,
                         "layers.%d.self_attn.k_norm.weight", l);
    }
}

static whim_err bind_rope(whim_decoder *dec, whim_arena *arena, whim_binder *binder)
{
    int64_t n = dec->config.rope.rotary_dim / 2;
    double *freqs = whim_arena_alloc_array(arena, n, sizeof *freqs);
    if (freqs == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    whim_rope_freqs(&dec->config.rope, freqs);
    dec->rope_scale = whim_rope_scale(&dec->config.rope);
    whim_bind_constant(binder, &dec->rope_freqs, freqs, n * (int64_t)sizeof *freqs);
    return WHIM_ERR_OK;
}

/* Experts of the layers that have them. */
static bool take_experts(whim_decoder *dec, const whim_config *config, whim_arena *arena)
{
    for (int32_t l = 0; l < config->n_layer; l++) {
        if (!whim_config_has_experts(config, l)) {
            dec->has_mlp = true;
            continue;
        }
        dec->layers[l].moe = whim_arena_alloc(arena, sizeof *dec->layers[l].moe);
        if (dec->layers[l].moe == NULL) {
            return false;
        }
    }
    return true;
}

whim_err whim_decoder_bind(const whim_config *config, const whim_decoder_traits *traits,
                           whim_arena *arena, whim_binder *binder, whim_decoder **out,
                           whim_diag *diag)
{
    whim_decoder *dec = whim_arena_alloc(arena, sizeof *dec);
    if (dec != NULL) {
        dec->layers = whim_arena_alloc_array(arena, config->n_layer, sizeof *dec->layers);
    }
    bool ok = dec != NULL && dec->layers != NULL && take_experts(dec, config, arena);
    if (!ok) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a model of %d layers",
                         config->n_layer);
    }
    dec->config = *config;
    dec->traits = *traits;
    int64_t v = config->n_vocab, d = config->d_model;
    whim_bind_matrix(binder, &(whim_bind_matrix_spec){.out = &dec->embed, .n = v, .k = d},
                     "embed_tokens.weight");
    for (int32_t l = 0; l < config->n_layer; l++) {
        bind_layer(config, traits, l, &dec->layers[l], binder);
    }
    whim_bind_vector(binder, &dec->final_norm, d, 0, "norm.weight");
    if (!config->tied_head) {
        whim_bind_matrix(binder, &(whim_bind_matrix_spec){.out = &dec->head, .n = v, .k = d},
                         "lm_head.weight");
    }
    WHIM_TRY(bind_rope(dec, arena, binder));
    *out = dec;
    return WHIM_ERR_OK;
}

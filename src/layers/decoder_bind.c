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

/* A norm's weights: as they are used in GGUF, less one in the files of some models. */
static void bind_norm(const whim_decoder *dec, whim_binder *binder, const float **out, int64_t n,
                      const char *name, int32_t l)
{
    bool plus = dec->traits.norm_at_zero && !dec->config.gdn.folded;
    whim_bind_vector_spec spec = {
        .out = out, .n = n, .form = plus ? WHIM_VECTOR_PLUS_ONE : WHIM_VECTOR_PLAIN};
    if (l < 0) {
        whim_bind_values(binder, &spec, "%s.weight", name);
    } else {
        whim_bind_values(binder, &spec, "layers.%d.%s.weight", l, name);
    }
}

static void bind_attention(const whim_decoder *dec, int32_t l, whim_decoder_layer *layer,
                           whim_binder *binder)
{
    const whim_config *c = &dec->config;
    int64_t d = c->d_model, unpair = c->qk_paired ? c->d_head : 0;
    int64_t o_cols = (int64_t)c->n_head * c->d_head, kv_rows = (int64_t)c->n_kv * c->d_head;
    int64_t q_rows = dec->traits.gated ? 2 * o_cols : o_cols;
    bool bias = c->attention_bias;
    const projection_spec projections[] = {
        {&layer->q, q_rows, d, unpair, bias, "self_attn.q_proj"},
        {&layer->k, kv_rows, d, unpair, bias, "self_attn.k_proj"},
        {&layer->v, kv_rows, d, 0, bias, "self_attn.v_proj"},
        {&layer->o, d, o_cols, 0, bias, "self_attn.o_proj"},
    };
    for (size_t i = 0; i < sizeof projections / sizeof projections[0]; i++) {
        bind_projection(binder, l, &projections[i]);
    }
    if (dec->traits.qk_norm != WHIM_QK_NORM_NONE) {
        bool whole = dec->traits.qk_norm == WHIM_QK_NORM_WHOLE;
        bind_norm(dec, binder, &layer->q_norm, whole ? o_cols : c->d_head, "self_attn.q_norm", l);
        bind_norm(dec, binder, &layer->k_norm, whole ? kv_rows : c->d_head, "self_attn.k_norm", l);
    }
}

static void bind_layer(const whim_decoder *dec, int32_t l, whim_decoder_layer *layer,
                       whim_binder *binder)
{
    const whim_config *c = &dec->config;
    int64_t d = c->d_model, ff = c->d_ff;
    const projection_spec projections[] = {
        {&layer->gate, ff, d, 0, c->mlp_bias, "mlp.gate_proj"},
        {&layer->up, ff, d, 0, c->mlp_bias, "mlp.up_proj"},
        {&layer->down, d, ff, 0, c->mlp_bias, "mlp.down_proj"},
    };
    if (layer->delta != NULL) {
        whim_gated_delta_bind(layer->delta, c, dec->traits.gdn_grouped, l, binder);
    } else {
        bind_attention(dec, l, layer, binder);
    }
    if (layer->moe != NULL) {
        whim_moe_bind(layer->moe, c, l, binder);
    }
    for (size_t i = 0; layer->moe == NULL && i < sizeof projections / sizeof projections[0]; i++) {
        bind_projection(binder, l, &projections[i]);
    }
    bind_norm(dec, binder, &layer->attn_norm, d, "input_layernorm", l);
    bind_norm(dec, binder, &layer->mlp_norm, d, "post_attention_layernorm", l);
}

/* Which layers are what, and room for the gated delta nets. */
static whim_err layers_make(whim_decoder *dec, whim_arena *arena)
{
    const whim_config *c = &dec->config;
    int32_t n_attn = 0, n_delta = 0;
    dec->layers = whim_arena_alloc_array(arena, c->n_layer, sizeof *dec->layers);
    whim_gated_delta *delta = whim_arena_alloc_array(arena, whim_config_n_gdn(c), sizeof *delta);
    if (dec->layers == NULL || delta == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t l = 0; l < c->n_layer; l++) {
        bool is_delta = whim_config_is_gdn(c, l);
        dec->layers[l].index = is_delta ? n_delta : n_attn;
        dec->layers[l].delta = is_delta ? &delta[n_delta] : NULL;
        n_delta += is_delta;
        n_attn += !is_delta;
    }
    return WHIM_ERR_OK;
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
    whim_err err = WHIM_ERR_NO_MEMORY;
    if (dec != NULL) {
        dec->config = *config;
        dec->traits = *traits;
        dec->traits.gdn_grouped = traits->gdn_grouped && !config->gdn.apart;
        err = layers_make(dec, arena);
    }
    if (err == WHIM_ERR_OK && !take_experts(dec, config, arena)) {
        err = WHIM_ERR_NO_MEMORY;
    }
    if (err != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a model of %d layers",
                         config->n_layer);
    }
    int64_t v = config->n_vocab, d = config->d_model;
    whim_bind_matrix(binder, &(whim_bind_matrix_spec){.out = &dec->embed, .n = v, .k = d},
                     "embed_tokens.weight");
    for (int32_t l = 0; l < config->n_layer; l++) {
        bind_layer(dec, l, &dec->layers[l], binder);
    }
    bind_norm(dec, binder, &dec->final_norm, d, "norm", -1);
    if (!config->tied_head) {
        whim_bind_matrix(binder, &(whim_bind_matrix_spec){.out = &dec->head, .n = v, .k = d},
                         "lm_head.weight");
    }
    WHIM_TRY(bind_rope(dec, arena, binder));
    *out = dec;
    return WHIM_ERR_OK;
}

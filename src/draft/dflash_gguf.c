/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts of the DFlash family in GGUF files: what their keys and tensors say. */
#include "draft/dflash.h"

#include "ops/args/draft_args.h"
#include "ops/args/row_args.h"
#include "weights/gguf/read.h"

const whim_gguf_arch whim_dflash_gguf[] = {{.name = "dflash", .windows = true}, {0}};

const whim_spelling whim_dflash_gguf_names[] = {
    {"attn_conv_proj", "attention_conv.kernel_projection"},
    {"ffn_conv_proj", "mlp_conv.kernel_projection"},
    {0}};

const whim_spelling whim_dflash_gguf_whole[] = {
    {"fc.weight", "fc.weight"},
    {"enc.output_norm.weight", "hidden_norm.weight"},
    {"attn_conv_base", "attention_conv.base_kernel"},
    {"ffn_conv_base", "mlp_conv.base_kernel"},
    {"selector_predecessor.weight", "candidate_selector.predecessor_codebook"},
    {"selector_successor.weight", "candidate_selector.successor_codebook"},
    {"selector_hidden.weight", "candidate_selector.hidden_projection.weight"},
    {"markov_w1.weight", "markov_head.markov_w1.weight"},
    {"markov_w2.weight", "markov_head.markov_w2.weight"},
    {"conf_proj.weight", "confidence_head.proj.weight"},
    {"conf_proj.bias", "confidence_head.proj.bias"},
    {0}};

/* An array of integers or of truths; *key is NULL where there is none. */
static whim_err array_find(const whim_gguf_source *s, const char *suffix, int64_t min, int64_t max,
                           const whim_gguf_key **key)
{
    char name[WHIM_GGUF_KEY_MAX];
    *key = whim_gguf_find_key(s->gguf, whim_gguf_source_name(s, suffix, name));
    if (*key == NULL) {
        return WHIM_ERR_OK;
    }
    bool is_int = whim_gguf_type_is_int((*key)->type) || (*key)->type == WHIM_GGUF_BOOL;
    if (!(*key)->is_array || !is_int || (*key)->count < min || (*key)->count > max) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s\" is not an array of %lld to %lld integers or truths",
                         s->gguf->path, name, (long long)min, (long long)max);
    }
    return WHIM_ERR_OK;
}

/* Boundaries of the model's layers: one more than the layer whose output it is. */
static whim_err features_read(const whim_gguf_source *s, whim_draft_config *d)
{
    const whim_gguf_key *key;
    WHIM_TRY(whim_gguf_source_require(s, "target_layers"));
    WHIM_TRY(array_find(s, "target_layers", 1, WHIM_DRAFT_MAX_FEATURE, &key));
    whim_gguf_iter iter = whim_gguf_iter_begin(s->gguf, key);
    int64_t value, last = -1;
    while (whim_gguf_next_int(&iter, &value)) {
        if (value <= last || value > WHIM_CONFIG_MAX_LAYER) {
            return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                             "%s: key \"%s.target_layers\" has %lld after %lld", s->gguf->path,
                             s->arch, (long long)value, (long long)last);
        }
        d->features[d->n_feature++] = (int32_t)value - 1;
        last = value;
    }
    return WHIM_ERR_OK;
}

static whim_err windows_read(const whim_gguf_source *s, whim_config *c)
{
    char name[WHIM_GGUF_KEY_MAX];
    const whim_gguf_key *key;
    bool *causal = &c->draft.causal;
    WHIM_TRY(whim_gguf_source_i32(s, "attention.sliding_window", 0, INT32_MAX, &c->window));
    WHIM_TRY(array_find(s, "attention.sliding_window_pattern", c->n_layer, c->n_layer, &key));
    for (int32_t l = 0; l < c->n_layer && c->window > 0; l++) {
        c->windowed[l / 8] |= (uint8_t)(key == NULL ? 1 << l % 8 : 0);
    }
    if (key != NULL) {
        whim_gguf_iter iter = whim_gguf_iter_begin(s->gguf, key);
        int64_t value;
        for (int32_t l = 0; whim_gguf_next_int(&iter, &value); l++) {
            c->windowed[l / 8] |= (uint8_t)(value != 0 && c->window > 0 ? 1 << l % 8 : 0);
        }
    }
    c->draft.causal_given = whim_gguf_source_has(s, "attention.causal");
    return whim_gguf_get_bool(s->gguf, whim_gguf_source_name(s, "attention.causal", name), causal,
                              s->diag);
}

static whim_err real_read(const whim_gguf_source *s, const char *suffix, double min, float *out)
{
    double value = (double)*out;
    WHIM_TRY(whim_gguf_source_real(s, suffix, min, 1e9, &value));
    *out = (float)value;
    return WHIM_ERR_OK;
}

/* The Markov head's tensors say what no key does. */
static void markov_read(const whim_ckpt *ckpt, whim_config *c)
{
    whim_chain_config *chain = &c->draft.chain;
    const whim_ckpt_tensor *w1 = whim_ckpt_find(ckpt, "markov_head.markov_w1.weight");
    const whim_ckpt_tensor *sure = whim_ckpt_find(ckpt, "confidence_head.proj.weight");
    if (w1 != NULL && w1->n_dim == 2 && w1->shape[1] <= INT32_MAX) {
        chain->rank = (int32_t)w1->shape[1];
        chain->n_top = WHIM_CHAIN_MARKOV_TOP;
        c->draft.anchor_first = true;
    }
    chain->sure = sure != NULL;
    chain->sure_of_pairs = chain->sure && sure->shape[sure->n_dim - 1] > c->d_model;
}

whim_err whim_dflash_gguf_finish(whim_ckpt *ckpt, whim_diag *diag)
{
    whim_config *c = &ckpt->config;
    whim_draft_config *d = &c->draft;
    whim_chain_config *chain = &d->chain;
    whim_gguf_source s = {
        .gguf = ckpt->gguf, .arch = "dflash", .facts = whim_dflash_gguf, .diag = diag};
    int64_t mask = -1;
    whim_dflash_defaults(c);
    WHIM_TRY(whim_gguf_source_i32(&s, "block_size", 2, 64, &d->block));
    WHIM_TRY(
        whim_gguf_get_int(s.gguf, "tokenizer.ggml.mask_token_id", 0, c->n_vocab - 1, &mask, diag));
    if (mask < 0) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "%s: key \"tokenizer.ggml.mask_token_id\" is missing", s.gguf->path);
    }
    d->mask = (int32_t)mask;
    WHIM_TRY(features_read(&s, d));
    WHIM_TRY(windows_read(&s, c));
    WHIM_TRY(
        whim_gguf_source_i32(&s, "conv_kernel_size", 0, WHIM_BLOCK_CONV_MAX_TAP, &d->conv_tap));
    WHIM_TRY(whim_gguf_source_i32(&s, "conv_group_size", 1, c->d_model, &d->conv_group));
    WHIM_TRY(whim_gguf_source_i32(&s, "selector_rank", 0, 1 << 16, &chain->rank));
    WHIM_TRY(whim_gguf_source_i32(&s, "selector_top_k", 1, WHIM_TOPK_MAX, &chain->n_top));
    WHIM_TRY(real_read(&s, "embedding_scale", 1e-9, &d->embed_scale));
    WHIM_TRY(real_read(&s, "logit_scale", 1e-9, &chain->scale));
    WHIM_TRY(real_read(&s, "final_logit_softcapping", 0, &chain->cap));
    chain->by_hidden = chain->rank > 0;
    markov_read(ckpt, c);
    if (d->conv_tap > 0 && c->d_model % d->conv_group != 0) {
        return whim_fail(
            diag, WHIM_ERR_CORRUPT,
            "%s: key \"dflash.conv_group_size\" is %d, which does not divide the width "
            "%d",
            s.gguf->path, d->conv_group, c->d_model);
    }
    return WHIM_ERR_OK;
}

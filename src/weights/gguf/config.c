/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration in GGUF metadata, for all architectures. */
#include "weights/gguf/read.h"

#include <stdio.h>
#include <string.h>

static const whim_gguf_arch no_arch[1];

static const whim_gguf_arch *gguf_archs(const whim_arch *arch)
{
    return arch != NULL && arch->gguf != NULL ? arch->gguf : no_arch;
}

const whim_gguf_arch *whim_gguf_arch_of(const whim_config *config)
{
    const whim_gguf_arch *facts = gguf_archs(config->arch);
    while (facts->name != NULL && facts->experts != (config->moe.n_expert > 0)) {
        facts++;
    }
    return facts->name != NULL ? facts : NULL;
}

/* Keys that would change the result if they were ignored; absent or zero is fine. */
static whim_err check_features(const whim_gguf_source *s)
{
    static const char *const ints[] = {"attention.sliding_window", "expert_group_count",
                                       "expert_shared_count", "expert_count"};
    static const char *const reals[] = {"rope.scaling.yarn_log_multiplier", "rope.scaling.alpha"};
    enum { N_INT = sizeof ints / sizeof ints[0] };
    char name[WHIM_GGUF_KEY_MAX];
    for (int i = s->facts->windows; i < (s->facts->experts ? N_INT - 1 : N_INT); i++) {
        int32_t value = 0;
        WHIM_TRY(whim_gguf_source_i32(s, ints[i], 0, INT32_MAX, &value));
        if (value != 0) {
            return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: key \"%s\" is %d, which is not supported", s->gguf->path,
                             whim_gguf_source_name(s, ints[i], name), value);
        }
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value = 0.0;
        WHIM_TRY(whim_gguf_source_real(s, reals[i], -1e30, 1e30, &value));
        if (value != 0.0) {
            return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: key \"%s\" is %g, which is not supported", s->gguf->path,
                             whim_gguf_source_name(s, reals[i], name), value);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err read_vocab(const whim_gguf_source *s, whim_config *c)
{
    if (whim_gguf_source_has(s, "vocab_size")) {
        return whim_gguf_source_i32(s, "vocab_size", 1, WHIM_CONFIG_MAX_VOCAB, &c->n_vocab);
    }
    const whim_gguf_key *tokens = whim_gguf_find_key(s->gguf, "tokenizer.ggml.tokens");
    if (tokens == NULL || !tokens->is_array || tokens->count < 1 ||
        tokens->count > WHIM_CONFIG_MAX_VOCAB) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: neither \"%s.vocab_size\" nor an array \"tokenizer.ggml.tokens\" "
                         "gives the size of the vocabulary",
                         s->gguf->path, s->arch);
    }
    c->n_vocab = (int32_t)tokens->count;
    return WHIM_ERR_OK;
}

/* The blocks are the layers and, after them, those of MTP. */
static whim_err read_layers(const whim_gguf_source *s, whim_config *c)
{
    WHIM_TRY(whim_gguf_source_i32(s, "block_count", 1, WHIM_CONFIG_MAX_LAYER, &c->n_layer));
    WHIM_TRY(whim_gguf_source_i32(s, "nextn_predict_layers", 0, c->n_layer - 1, &c->n_draft_layer));
    c->n_layer -= c->n_draft_layer;
    return WHIM_ERR_OK;
}

static whim_err read_heads(const whim_gguf_source *s, whim_config *c)
{
    int32_t n_block = c->n_layer + c->n_draft_layer;
    char name[WHIM_GGUF_KEY_MAX];
    WHIM_TRY(whim_gguf_source_layer_i32(s, "attention.head_count", n_block, WHIM_CONFIG_MAX_HEAD,
                                        &c->n_head));
    c->n_kv = c->n_head;
    WHIM_TRY(whim_gguf_source_layer_i32(s, "attention.head_count_kv", n_block, WHIM_CONFIG_MAX_HEAD,
                                        &c->n_kv));
    if (!whim_gguf_source_has(s, "attention.key_length") && c->d_model % c->n_head != 0) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s.embedding_length\" is %d, expected a multiple of "
                         "attention.head_count = %d, or attention.key_length",
                         s->gguf->path, s->arch, c->d_model, c->n_head);
    }
    c->d_head = c->d_model / c->n_head;
    WHIM_TRY(
        whim_gguf_source_i32(s, "attention.key_length", 1, WHIM_CONFIG_MAX_HEAD_DIM, &c->d_head));
    int32_t value_length = c->d_head;
    WHIM_TRY(whim_gguf_source_i32(s, "attention.value_length", 1, WHIM_CONFIG_MAX_HEAD_DIM,
                                  &value_length));
    if (value_length != c->d_head) {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: key \"%s\" is %d, expected the %d of the keys", s->gguf->path,
                         whim_gguf_source_name(s, "attention.value_length", name), value_length,
                         c->d_head);
    }
    return WHIM_ERR_OK;
}

static whim_err read_scaling_kind(const whim_gguf_source *s, whim_rope_config *rope)
{
    char name[WHIM_GGUF_KEY_MAX];
    const char *type = "linear";
    int64_t n = (int64_t)strlen(type);
    WHIM_TRY(whim_gguf_get_string(s->gguf, whim_gguf_source_name(s, "rope.scaling.type", name),
                                  &type, &n, s->diag));
    if (n == 4 && memcmp(type, "none", 4) == 0) {
        rope->kind = WHIM_ROPE_DEFAULT;
    } else if (n == 6 && memcmp(type, "linear", 6) == 0) {
        rope->kind = rope->factor == 1.0 ? WHIM_ROPE_DEFAULT : WHIM_ROPE_LINEAR;
    } else if (n == 4 && memcmp(type, "yarn", 4) == 0) {
        rope->kind = WHIM_ROPE_YARN;
    } else {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: key \"%s\" is \"%.*s\", expected none, linear or yarn", s->gguf->path,
                         name, (int)(n > 64 ? 64 : n), type);
    }
    return WHIM_ERR_OK;
}

static whim_err read_rope(const whim_gguf_source *s, whim_config *c)
{
    whim_rope_config *rope = &c->rope;
    *rope = (whim_rope_config){.rotary_dim = c->d_head,
                               .theta = 10000.0,
                               .orig_ctx = (double)c->max_ctx,
                               .beta_fast = 32.0,
                               .beta_slow = 1.0,
                               .attn_factor = 1.0,
                               .truncate = true};
    WHIM_TRY(whim_gguf_source_i32(s, "rope.dimension_count", 2, c->d_head, &rope->rotary_dim));
    WHIM_TRY(whim_gguf_source_real(s, "rope.freq_base", 0.0, 1e15, &rope->theta));
    /* Zero and absence both mean no scaling; "scale_linear" is the older name. */
    WHIM_TRY(whim_gguf_source_real(s, "rope.scale_linear", 0.0, 1e6, &rope->factor));
    WHIM_TRY(whim_gguf_source_real(s, "rope.scaling.factor", 0.0, 1e6, &rope->factor));
    rope->factor = rope->factor == 0.0 ? 1.0 : rope->factor;
    WHIM_TRY(read_scaling_kind(s, rope));
    if (rope->kind != WHIM_ROPE_YARN) {
        return WHIM_ERR_OK;
    }
    int32_t orig_ctx = (int32_t)c->max_ctx;
    double ext = 1.0;
    double extra = 1.0;
    char name[WHIM_GGUF_KEY_MAX];
    WHIM_TRY(
        whim_gguf_source_i32(s, "rope.scaling.original_context_length", 1, INT32_MAX, &orig_ctx));
    rope->orig_ctx = orig_ctx;
    WHIM_TRY(whim_gguf_source_real(s, "rope.scaling.yarn_beta_fast", 0.0, 1e6, &rope->beta_fast));
    WHIM_TRY(whim_gguf_source_real(s, "rope.scaling.yarn_beta_slow", 0.0, 1e6, &rope->beta_slow));
    WHIM_TRY(whim_gguf_source_real(s, "rope.scaling.yarn_ext_factor", -1e6, 1e6, &ext));
    if (ext != 1.0) {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED, "%s: key \"%s\" is %g, only 1 is supported",
                         s->gguf->path,
                         whim_gguf_source_name(s, "rope.scaling.yarn_ext_factor", name), ext);
    }
    /* The converter stores the source's own attention factor under the yarn key. */
    rope->attn_factor = whim_rope_yarn_scale(rope->factor, 1.0);
    WHIM_TRY(
        whim_gguf_source_real(s, "rope.scaling.yarn_attn_factor", 0.0, 1e6, &rope->attn_factor));
    WHIM_TRY(whim_gguf_source_real(s, "rope.scaling.attn_factor", 0.0, 1e6, &extra));
    rope->attn_factor *= extra;
    return WHIM_ERR_OK;
}

static whim_err read_eos(const whim_gguf_source *s, whim_config *c)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id = -1;
        WHIM_TRY(whim_gguf_get_int(s->gguf, keys[i], 0, c->n_vocab - 1, &id, s->diag));
        if (id >= 0) {
            whim_config_add_eos(c, (int32_t)id); /* three ids always fit */
        }
    }
    return WHIM_ERR_OK;
}

/* Sets config->arch and *out to what the file is called. */
static whim_err find_arch(whim_config *config, const whim_arch_list *archs, const whim_gguf *gguf,
                          const whim_gguf_arch **out, whim_diag *diag)
{
    const char *text = NULL;
    int64_t n = 0;
    WHIM_TRY(whim_gguf_get_string(gguf, "general.architecture", &text, &n, diag));
    if (text == NULL) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: key \"general.architecture\" is missing",
                         gguf->path);
    }
    char known[256] = "";
    for (int32_t i = 0; i < archs->n; i++) {
        for (const whim_gguf_arch *a = gguf_archs(archs->v[i]); a->name != NULL; a++) {
            if ((int64_t)strlen(a->name) == n && memcmp(a->name, text, (size_t)n) == 0) {
                config->arch = archs->v[i];
                *out = a;
                return WHIM_ERR_OK;
            }
            size_t at = strlen(known);
            snprintf(known + at, sizeof known - at, "%s%s", at > 0 ? ", " : "", a->name);
        }
    }
    return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                     "%s: key \"general.architecture\" is \"%.*s\", which is not supported; "
                     "supported are %s",
                     gguf->path, (int)(n > 64 ? 64 : n), text, known);
}

whim_err whim_gguf_config(whim_config *config, const whim_arch_list *archs, const whim_gguf *gguf,
                          whim_diag *diag)
{
    static const char *const required[] = {
        "block_count",          "embedding_length",
        "context_length",       "attention.layer_norm_rms_epsilon",
        "attention.head_count", "feed_forward_length",
    };
    enum { N_REQUIRED = sizeof required / sizeof required[0] };
    whim_config *c = config;
    *c = (whim_config){0};
    const whim_gguf_arch *facts = NULL;
    WHIM_TRY(find_arch(c, archs, gguf, &facts, diag));
    c->qk_paired = facts->qk_paired;
    whim_gguf_source s = {.gguf = gguf, .arch = facts->name, .facts = facts, .diag = diag};
    /* Where every layer has experts there may be no width of an MLP. */
    for (int i = 0; i < N_REQUIRED - facts->experts; i++) {
        WHIM_TRY(whim_gguf_source_require(&s, required[i]));
    }
    WHIM_TRY(check_features(&s));
    int32_t max_ctx = 0;
    double eps = 0.0;
    WHIM_TRY(read_layers(&s, c));
    WHIM_TRY(whim_gguf_source_i32(&s, "embedding_length", 1, WHIM_CONFIG_MAX_WIDTH, &c->d_model));
    if (facts->experts) {
        WHIM_TRY(whim_gguf_config_experts(&s, c));
        c->d_ff = c->moe.d_expert;
    }
    WHIM_TRY(whim_gguf_source_layer_i32(&s, "feed_forward_length", c->n_layer + c->n_draft_layer,
                                        WHIM_CONFIG_MAX_WIDTH, &c->d_ff));
    WHIM_TRY(whim_gguf_source_i32(&s, "context_length", 1, INT32_MAX, &max_ctx));
    c->max_ctx = max_ctx;
    WHIM_TRY(whim_gguf_source_real(&s, "attention.layer_norm_rms_epsilon", 0.0, 1.0, &eps));
    c->rms_eps = (float)eps;
    WHIM_TRY(read_vocab(&s, c));
    WHIM_TRY(read_heads(&s, c));
    WHIM_TRY(read_rope(&s, c));
    if (facts->hybrid) {
        WHIM_TRY(whim_gguf_config_gdn(&s, c));
    }
    WHIM_TRY(read_eos(&s, c));
    return whim_config_check(c, gguf->path, diag);
}

/* Whether some gated delta net has it. */
static bool has_tensor(const whim_ckpt *ckpt, const char *leaf)
{
    bool found = false;
    for (int32_t l = 0; l < ckpt->config.n_layer && !found; l++) {
        char name[64];
        snprintf(name, sizeof name, "layers.%d.linear_attn.%s.weight", l, leaf);
        found = whim_ckpt_find(ckpt, name) != NULL;
    }
    return found;
}

whim_err whim_gguf_config_finish(whim_ckpt *ckpt, whim_diag *diag)
{
    whim_config *c = &ckpt->config;
    c->tied_head = whim_ckpt_find(ckpt, "lm_head.weight") == NULL;
    c->qkv_bias =
        c->arch->qkv_bias || whim_ckpt_find(ckpt, "layers.0.self_attn.q_proj.bias") != NULL;
    c->o_bias = whim_ckpt_find(ckpt, "layers.0.self_attn.o_proj.bias") != NULL;
    c->mlp_bias = whim_ckpt_find(ckpt, "layers.0.mlp.gate_proj.bias") != NULL;
    for (int32_t l = 0; l < c->n_layer && c->moe.n_expert > 0; l++) {
        char name[64];
        snprintf(name, sizeof name, "layers.%d.mlp.gate_proj.weight", l);
        if (whim_ckpt_find(ckpt, name) != NULL) {
            whim_config_set_dense(c, l); /* no key says so */
        }
    }
    c->gdn.apart = whim_gguf_arch_of(c)->grouped && !has_tensor(ckpt, "in_proj_qkvz");
    c->dtype = WHIM_DTYPE_F32;
    c->dtype_given = true;
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        if (ckpt->tensors[i].dtype != WHIM_DTYPE_F32) {
            c->dtype = WHIM_DTYPE_BF16;
        }
    }
    if (c->arch->gguf_finish != NULL) {
        WHIM_TRY(c->arch->gguf_finish(ckpt, diag));
    }
    return whim_config_check(c, ckpt->gguf->path, diag);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration in GGUF metadata, for all architectures. */
#include "weights/gguf_read.h"

#include <stdio.h>
#include <string.h>

enum { KEY_MAX = 160 };

/* What GGUF has no key for. */
typedef struct arch_facts {
    const char *gguf, *arch; /* general.architecture, and our name */
    bool qk_paired;
    bool experts;
    bool sigmoid, choice_bias; /* of the experts, unless a key says so */
} arch_facts;

static const arch_facts archs[] = {
    {.gguf = "llama", .arch = "llama", .qk_paired = true},
    {.gguf = "qwen3", .arch = "qwen3"},
    {.gguf = "qwen3moe", .arch = "qwen3_moe", .experts = true},
    {.gguf = "minimax-m2",
     .arch = "minimax_m2",
     .experts = true,
     .sigmoid = true,
     .choice_bias = true},
};
enum { N_ARCH = sizeof archs / sizeof archs[0] };

const char *whim_gguf_arch_name(const char *arch)
{
    for (int i = 0; i < N_ARCH; i++) {
        if (strcmp(archs[i].arch, arch) == 0) {
            return archs[i].gguf;
        }
    }
    return NULL;
}

typedef struct source {
    const whim_gguf *gguf;
    const char *arch; /* as the file spells it */
    const arch_facts *facts;
    whim_diag *diag;
} source;

/* "<arch>.<suffix>" */
static const char *key_name(const source *s, const char *suffix, char out[KEY_MAX])
{
    snprintf(out, KEY_MAX, "%s.%s", s->arch, suffix);
    return out;
}

static bool has_key(const source *s, const char *suffix)
{
    char name[KEY_MAX];
    return whim_gguf_find_key(s->gguf, key_name(s, suffix, name)) != NULL;
}

static whim_err require(const source *s, const char *suffix)
{
    char name[KEY_MAX];
    if (has_key(s, suffix)) {
        return WHIM_ERR_OK;
    }
    return whim_fail(s->diag, WHIM_ERR_CORRUPT, "%s: key \"%s\" is missing", s->gguf->path,
                     key_name(s, suffix, name));
}

static whim_err get_real(const source *s, const char *suffix, double min, double max, double *out)
{
    char name[KEY_MAX];
    return whim_gguf_get_real(s->gguf, key_name(s, suffix, name), min, max, out, s->diag);
}

static whim_err get_i32(const source *s, const char *suffix, int32_t min, int32_t max, int32_t *out)
{
    char name[KEY_MAX];
    int64_t value = *out;
    WHIM_TRY(whim_gguf_get_int(s->gguf, key_name(s, suffix, name), min, max, &value, s->diag));
    *out = (int32_t)value;
    return WHIM_ERR_OK;
}

/* A number that a file may also give per layer; the layers must agree. */
static whim_err get_layer_i32(const source *s, const char *suffix, int32_t n_layer, int32_t max,
                              int32_t *out)
{
    char name[KEY_MAX];
    const whim_gguf_key *key = whim_gguf_find_key(s->gguf, key_name(s, suffix, name));
    if (key == NULL || !key->is_array || !whim_gguf_type_is_int(key->type)) {
        return get_i32(s, suffix, 1, max, out);
    }
    if (key->count != n_layer) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s\" has %lld elements, expected one for each of %d layers",
                         s->gguf->path, name, (long long)key->count, n_layer);
    }
    whim_gguf_iter iter = whim_gguf_iter_begin(s->gguf, key);
    int64_t first = 0;
    int64_t value = 0;
    for (int64_t i = 0; whim_gguf_next_int(&iter, &value); i++) {
        first = i == 0 ? value : first;
        if (value != first) {
            return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: key \"%s\" is %lld in layer 0 and %lld in layer %lld; layers of "
                             "different shapes are not supported",
                             s->gguf->path, name, (long long)first, (long long)value, (long long)i);
        }
    }
    if (first < 1 || first > max) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s\" holds %lld, expected an integer between 1 and %d",
                         s->gguf->path, name, (long long)first, max);
    }
    *out = (int32_t)first;
    return WHIM_ERR_OK;
}

/* Keys that would change the result if they were ignored; absent or zero is fine. */
static whim_err check_features(const source *s)
{
    static const char *const ints[] = {"attention.sliding_window", "expert_group_count",
                                       "expert_shared_count", "expert_count"};
    static const char *const reals[] = {"rope.scaling.yarn_log_multiplier", "rope.scaling.alpha"};
    enum { N_INT = sizeof ints / sizeof ints[0] };
    char name[KEY_MAX];
    for (int i = 0; i < (s->facts->experts ? N_INT - 1 : N_INT); i++) {
        int32_t value = 0;
        WHIM_TRY(get_i32(s, ints[i], 0, INT32_MAX, &value));
        if (value != 0) {
            return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: key \"%s\" is %d, which is not supported", s->gguf->path,
                             key_name(s, ints[i], name), value);
        }
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value = 0.0;
        WHIM_TRY(get_real(s, reals[i], -1e30, 1e30, &value));
        if (value != 0.0) {
            return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: key \"%s\" is %g, which is not supported", s->gguf->path,
                             key_name(s, reals[i], name), value);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err read_vocab(const source *s, whim_config *c)
{
    if (has_key(s, "vocab_size")) {
        return get_i32(s, "vocab_size", 1, WHIM_CONFIG_MAX_VOCAB, &c->n_vocab);
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

static whim_err read_heads(const source *s, whim_config *c)
{
    char name[KEY_MAX];
    WHIM_TRY(
        get_layer_i32(s, "attention.head_count", c->n_layer, WHIM_CONFIG_MAX_HEAD, &c->n_head));
    c->n_kv = c->n_head;
    WHIM_TRY(
        get_layer_i32(s, "attention.head_count_kv", c->n_layer, WHIM_CONFIG_MAX_HEAD, &c->n_kv));
    if (!has_key(s, "attention.key_length") && c->d_model % c->n_head != 0) {
        return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                         "%s: key \"%s.embedding_length\" is %d, expected a multiple of "
                         "attention.head_count = %d, or attention.key_length",
                         s->gguf->path, s->arch, c->d_model, c->n_head);
    }
    c->d_head = c->d_model / c->n_head;
    WHIM_TRY(get_i32(s, "attention.key_length", 1, WHIM_CONFIG_MAX_HEAD_DIM, &c->d_head));
    int32_t value_length = c->d_head;
    WHIM_TRY(get_i32(s, "attention.value_length", 1, WHIM_CONFIG_MAX_HEAD_DIM, &value_length));
    if (value_length != c->d_head) {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: key \"%s\" is %d, expected the %d of the keys", s->gguf->path,
                         key_name(s, "attention.value_length", name), value_length, c->d_head);
    }
    return WHIM_ERR_OK;
}

static whim_err read_scaling_kind(const source *s, whim_rope_config *rope)
{
    char name[KEY_MAX];
    const char *type = "linear";
    int64_t n = (int64_t)strlen(type);
    WHIM_TRY(
        whim_gguf_get_string(s->gguf, key_name(s, "rope.scaling.type", name), &type, &n, s->diag));
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

static whim_err read_rope(const source *s, whim_config *c)
{
    whim_rope_config *rope = &c->rope;
    *rope = (whim_rope_config){.rotary_dim = c->d_head,
                               .theta = 10000.0,
                               .orig_ctx = (double)c->max_ctx,
                               .beta_fast = 32.0,
                               .beta_slow = 1.0,
                               .attn_factor = 1.0,
                               .truncate = true};
    WHIM_TRY(get_i32(s, "rope.dimension_count", 2, c->d_head, &rope->rotary_dim));
    WHIM_TRY(get_real(s, "rope.freq_base", 0.0, 1e15, &rope->theta));
    /* Zero and absence both mean no scaling; "scale_linear" is the older name. */
    WHIM_TRY(get_real(s, "rope.scale_linear", 0.0, 1e6, &rope->factor));
    WHIM_TRY(get_real(s, "rope.scaling.factor", 0.0, 1e6, &rope->factor));
    rope->factor = rope->factor == 0.0 ? 1.0 : rope->factor;
    WHIM_TRY(read_scaling_kind(s, rope));
    if (rope->kind != WHIM_ROPE_YARN) {
        return WHIM_ERR_OK;
    }
    int32_t orig_ctx = (int32_t)c->max_ctx;
    double ext = 1.0;
    double extra = 1.0;
    char name[KEY_MAX];
    WHIM_TRY(get_i32(s, "rope.scaling.original_context_length", 1, INT32_MAX, &orig_ctx));
    rope->orig_ctx = orig_ctx;
    WHIM_TRY(get_real(s, "rope.scaling.yarn_beta_fast", 0.0, 1e6, &rope->beta_fast));
    WHIM_TRY(get_real(s, "rope.scaling.yarn_beta_slow", 0.0, 1e6, &rope->beta_slow));
    WHIM_TRY(get_real(s, "rope.scaling.yarn_ext_factor", -1e6, 1e6, &ext));
    if (ext != 1.0) {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED, "%s: key \"%s\" is %g, only 1 is supported",
                         s->gguf->path, key_name(s, "rope.scaling.yarn_ext_factor", name), ext);
    }
    /* The converter stores the source's own attention factor under the yarn key. */
    rope->attn_factor = whim_rope_yarn_scale(rope->factor, 1.0);
    WHIM_TRY(get_real(s, "rope.scaling.yarn_attn_factor", 0.0, 1e6, &rope->attn_factor));
    WHIM_TRY(get_real(s, "rope.scaling.attn_factor", 0.0, 1e6, &extra));
    rope->attn_factor *= extra;
    return WHIM_ERR_OK;
}

static whim_err read_eos(const source *s, whim_config *c)
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

/* Experts: all files normalise the weights of the chosen ones. */
static whim_err read_experts(const source *s, whim_config *c)
{
    static const char *const required[] = {"expert_count", "expert_used_count",
                                           "expert_feed_forward_length"};
    enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2 };
    whim_moe_config *moe = &c->moe;
    int32_t gating = s->facts->sigmoid ? GATING_SIGMOID : GATING_SOFTMAX;
    double scale = 1.0;
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        WHIM_TRY(require(s, required[i]));
    }
    WHIM_TRY(get_i32(s, "expert_count", 1, WHIM_CONFIG_MAX_EXPERT, &moe->n_expert));
    WHIM_TRY(get_i32(s, "expert_used_count", 1, WHIM_CONFIG_MAX_TOP_K, &moe->top_k));
    WHIM_TRY(get_i32(s, "expert_feed_forward_length", 1, WHIM_CONFIG_MAX_WIDTH, &moe->d_expert));
    WHIM_TRY(get_i32(s, "expert_gating_func", GATING_SOFTMAX, GATING_SIGMOID, &gating));
    WHIM_TRY(get_real(s, "expert_weights_scale", 0.0, 1e6, &scale));
    moe->sigmoid = gating == GATING_SIGMOID;
    moe->choice_bias = s->facts->choice_bias;
    moe->renormalize = true;
    moe->scale = scale == 0.0 ? 1.0f : (float)scale;
    return WHIM_ERR_OK;
}

static whim_err find_arch(const whim_gguf *gguf, const arch_facts **out, whim_diag *diag)
{
    const char *text = NULL;
    int64_t n = 0;
    WHIM_TRY(whim_gguf_get_string(gguf, "general.architecture", &text, &n, diag));
    if (text == NULL) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s: key \"general.architecture\" is missing",
                         gguf->path);
    }
    char known[256] = "";
    for (int i = 0; i < N_ARCH; i++) {
        size_t at = strlen(known);
        if ((int64_t)strlen(archs[i].gguf) == n && memcmp(archs[i].gguf, text, (size_t)n) == 0) {
            *out = &archs[i];
            return WHIM_ERR_OK;
        }
        snprintf(known + at, sizeof known - at, "%s%s",
                 i == 0            ? ""
                 : i == N_ARCH - 1 ? " and "
                                   : ", ",
                 archs[i].gguf);
    }
    return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                     "%s: key \"general.architecture\" is \"%.*s\", which is not supported; "
                     "supported are %s",
                     gguf->path, (int)(n > 64 ? 64 : n), text, known);
}

whim_err whim_gguf_config(whim_config *config, const whim_gguf *gguf, whim_diag *diag)
{
    static const char *const required[] = {
        "block_count",    "embedding_length",     "feed_forward_length",
        "context_length", "attention.head_count", "attention.layer_norm_rms_epsilon",
    };
    whim_config *c = config;
    *c = (whim_config){0};
    const arch_facts *facts = NULL;
    WHIM_TRY(find_arch(gguf, &facts, diag));
    snprintf(c->arch, sizeof c->arch, "%s", facts->arch);
    c->qk_paired = facts->qk_paired;
    source s = {.gguf = gguf, .arch = facts->gguf, .facts = facts, .diag = diag};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        WHIM_TRY(require(&s, required[i]));
    }
    WHIM_TRY(check_features(&s));
    int32_t max_ctx = 0;
    double eps = 0.0;
    WHIM_TRY(get_i32(&s, "block_count", 1, WHIM_CONFIG_MAX_LAYER, &c->n_layer));
    WHIM_TRY(get_i32(&s, "embedding_length", 1, WHIM_CONFIG_MAX_WIDTH, &c->d_model));
    WHIM_TRY(get_layer_i32(&s, "feed_forward_length", c->n_layer, WHIM_CONFIG_MAX_WIDTH, &c->d_ff));
    WHIM_TRY(get_i32(&s, "context_length", 1, INT32_MAX, &max_ctx));
    c->max_ctx = max_ctx;
    WHIM_TRY(get_real(&s, "attention.layer_norm_rms_epsilon", 0.0, 1.0, &eps));
    c->rms_eps = (float)eps;
    WHIM_TRY(read_vocab(&s, c));
    WHIM_TRY(read_heads(&s, c));
    WHIM_TRY(read_rope(&s, c));
    if (facts->experts) {
        WHIM_TRY(read_experts(&s, c));
    }
    WHIM_TRY(read_eos(&s, c));
    return whim_config_check(c, gguf->path, diag);
}

whim_err whim_gguf_config_finish(whim_ckpt *ckpt, whim_diag *diag)
{
    whim_config *c = &ckpt->config;
    c->tied_head = whim_ckpt_find(ckpt, "lm_head.weight") == NULL;
    c->attention_bias = whim_ckpt_find(ckpt, "layers.0.self_attn.q_proj.bias") != NULL;
    c->mlp_bias = whim_ckpt_find(ckpt, "layers.0.mlp.gate_proj.bias") != NULL;
    for (int32_t l = 0; l < c->n_layer && c->moe.n_expert > 0; l++) {
        char name[64];
        snprintf(name, sizeof name, "layers.%d.mlp.gate_proj.weight", l);
        if (whim_ckpt_find(ckpt, name) != NULL) {
            whim_config_set_dense(c, l); /* no key says so */
        }
    }
    c->dtype = WHIM_DTYPE_F32;
    c->dtype_given = true;
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        if (ckpt->tensors[i].dtype != WHIM_DTYPE_F32) {
            c->dtype = WHIM_DTYPE_BF16;
        }
    }
    return whim_config_check(c, ckpt->gguf->path, diag);
}

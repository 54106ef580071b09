/* SPDX-License-Identifier: Apache-2.0 */
/* config.json and generation_config.json of Hugging Face directories. A field that the file leaves
 * out gets the default of the reference implementation (transformers' class of that architecture),
 * because its writers omit fields that equal it. */
#include "weights/config.h"

#include "base/json.h"
#include "weights/config_json.h"

#include <stdio.h>
#include <string.h>

static const whim_json_limits config_limits = {.max_bytes = 16 << 20, .max_depth = 32};

/* What the reference assumes about an architecture. */
typedef struct arch_defaults {
    const char *arch; /* our name */
    int32_t n_vocab;
    int32_t d_model;
    int32_t d_ff;
    int32_t n_layer;
    int32_t n_head;
    int32_t n_kv;   /* 0: as many as n_head */
    int32_t d_head; /* 0: d_model / n_head */
    int32_t max_ctx;
    int32_t eos; /* -1: none */
    bool has_mlp_bias;
    bool has_windows; /* some layers may attend to a window only */
    bool has_gdn; /* some layers are gated delta nets; the text's part may lie in "text_config" */
    double theta;
    const whim_moe_keys *moe; /* NULL: no experts */
} arch_defaults;

static const arch_defaults llama = {.arch = "llama",
                                    .n_vocab = 32000,
                                    .d_model = 4096,
                                    .d_ff = 11008,
                                    .n_layer = 32,
                                    .n_head = 32,
                                    .max_ctx = 2048,
                                    .eos = 2,
                                    .has_mlp_bias = true,
                                    .theta = 1e4};
static const arch_defaults qwen3 = {.arch = "qwen3",
                                    .n_vocab = 151936,
                                    .d_model = 4096,
                                    .d_ff = 22016,
                                    .n_layer = 32,
                                    .n_head = 32,
                                    .n_kv = 32,
                                    .d_head = 128,
                                    .max_ctx = 32768,
                                    .eos = -1,
                                    .has_windows = true,
                                    .theta = 1e4};
static const arch_defaults qwen3_moe = {.arch = "qwen3_moe",
                                        .n_vocab = 151936,
                                        .d_model = 2048,
                                        .d_ff = 6144,
                                        .n_layer = 24,
                                        .n_head = 32,
                                        .n_kv = 4,
                                        .max_ctx = 32768,
                                        .eos = -1,
                                        .theta = 1e4,
                                        .moe = &whim_moe_keys_qwen3};
static const arch_defaults minimax_m2 = {.arch = "minimax_m2",
                                         .n_vocab = 200064,
                                         .d_model = 3072,
                                         .d_ff = 1536,
                                         .n_layer = 62,
                                         .n_head = 48,
                                         .n_kv = 8,
                                         .d_head = 128,
                                         .max_ctx = 196608,
                                         .eos = 200020,
                                         .theta = 5e6,
                                         .moe = &whim_moe_keys_minimax};
/* What the reference assumes of every hybrid. */
#define HYBRID \
    .n_head = 16, .d_head = 256, .max_ctx = 32768, .eos = -1, .theta = 1e4, .has_gdn = true
static const arch_defaults qwen3_5 = {HYBRID,          .arch = "qwen3_5", .n_vocab = 248320,
                                      .d_model = 4096, .d_ff = 12288,     .n_layer = 32,
                                      .n_kv = 4};
static const arch_defaults qwen3_5_moe = {
    HYBRID,       .arch = "qwen3_5", .n_vocab = 248320, .d_model = 2048,
    .d_ff = 5632, .n_layer = 40,     .n_kv = 2,         .moe = &whim_moe_keys_qwen3_5};
static const arch_defaults qwen3_next = {
    HYBRID,       .arch = "qwen3_next", .n_vocab = 151936, .d_model = 2048,
    .d_ff = 5632, .n_layer = 48,        .n_kv = 2,         .moe = &whim_moe_keys_qwen3_next};

/* How files name them: the entry of "architectures", and "model_type". */
typedef struct arch_name {
    const char *class, *type;
    const arch_defaults *defaults;
    const char *old_type; /* what early files say beside the class, or NULL */
} arch_name;

static const arch_name arch_table[] = {
    {"LlamaForCausalLM", "llama", &llama},
    {"Qwen3ForCausalLM", "qwen3", &qwen3},
    {"Qwen3MoeForCausalLM", "qwen3_moe", &qwen3_moe},
    {"MiniMaxM2ForCausalLM", "minimax_m2", &minimax_m2, "minimax"},
    {"Qwen3_5ForConditionalGeneration", "qwen3_5", &qwen3_5},
    {"Qwen3_5ForCausalLM", "qwen3_5_text", &qwen3_5},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", &qwen3_5_moe},
    {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", &qwen3_5_moe},
    {"Qwen3NextForCausalLM", "qwen3_next", &qwen3_next},
};

enum { N_ARCH = sizeof arch_table / sizeof arch_table[0] };

static whim_err arch_refuse(const whim_json_scope *top, const char *field, const char *value)
{
    char known[1024] = "";
    for (int i = 0; i < N_ARCH; i++) {
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s (%s)",
                 i == 0            ? ""
                 : i == N_ARCH - 1 ? " and "
                                   : ", ",
                 arch_table[i].class, arch_table[i].type);
    }
    return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"%s\" is \"%.64s\", which is not supported; supported are %s", top->path,
                     field, value, known);
}

/* "architectures" says what the weights are for; "model_type" must not contradict it. */
static whim_err find_arch(const whim_json_scope *top, const arch_defaults **out)
{
    const whim_json *classes = NULL;
    const char *class_name = NULL;
    const char *type = NULL;
    WHIM_TRY(whim_json_get_array(top, "architectures", &classes));
    WHIM_TRY(whim_json_get_string(top, "model_type", &type));
    if (classes != NULL && whim_json_size(classes) > 0 &&
        !whim_json_as_string(whim_json_at(classes, 0), &class_name)) {
        return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                         "%s: \"architectures[0]\" is %s, expected a string", top->path,
                         whim_json_kind(whim_json_at(classes, 0)));
    }
    if (class_name == NULL && type == NULL) {
        return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                         "%s: both \"architectures\" and \"model_type\" are missing", top->path);
    }
    for (int i = 0; i < N_ARCH; i++) {
        const arch_name *arch = &arch_table[i];
        if (class_name != NULL ? strcmp(class_name, arch->class) == 0
                               : strcmp(type, arch->type) == 0) {
            if (type != NULL && strcmp(type, arch->type) != 0 &&
                (arch->old_type == NULL || strcmp(type, arch->old_type) != 0)) {
                return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                                 "%s: \"model_type\" is \"%.64s\", expected \"%s\" beside %s",
                                 top->path, type, arch->type, arch->class);
            }
            *out = arch->defaults;
            return WHIM_ERR_OK;
        }
    }
    return class_name != NULL ? arch_refuse(top, "architectures", class_name)
                              : arch_refuse(top, "model_type", type);
}

/* Features that would change the result if they were ignored. */
static whim_err check_features(const arch_defaults *arch, const whim_json_scope *top)
{
    const char *act = "silu";
    bool slides = false;
    WHIM_TRY(whim_json_get_string(top, "hidden_act", &act));
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"hidden_act\" is \"%.64s\"; only \"silu\" is supported", top->path,
                         act);
    }
    WHIM_TRY(whim_json_get_bool(top, "use_sliding_window", &slides));
    if (slides && !arch->has_windows) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"use_sliding_window\" is true; sliding-window attention is not "
                         "supported in %s models",
                         top->path, arch->arch);
    }
    if (whim_json_has(top, "per_layer_config")) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"per_layer_config\" is set; layers of different shapes are not "
                         "supported",
                         top->path);
    }
    return WHIM_ERR_OK;
}

static whim_err parse_shape(whim_config *c, const arch_defaults *arch, const whim_json_scope *top)
{
    c->n_vocab = arch->n_vocab;
    c->d_model = arch->d_model;
    c->d_ff = arch->d_ff;
    c->n_layer = arch->n_layer;
    c->n_head = arch->n_head;
    c->max_ctx = arch->max_ctx;
    WHIM_TRY(whim_json_get_int32(top, "vocab_size", 1, WHIM_CONFIG_MAX_VOCAB, &c->n_vocab));
    WHIM_TRY(whim_json_get_int32(top, "hidden_size", 1, WHIM_CONFIG_MAX_WIDTH, &c->d_model));
    WHIM_TRY(whim_json_get_int32(top, "intermediate_size", 1, WHIM_CONFIG_MAX_WIDTH, &c->d_ff));
    WHIM_TRY(whim_json_get_int32(top, "num_hidden_layers", 1, WHIM_CONFIG_MAX_LAYER, &c->n_layer));
    WHIM_TRY(whim_json_get_int32(top, "num_attention_heads", 1, WHIM_CONFIG_MAX_HEAD, &c->n_head));
    WHIM_TRY(whim_json_get_int(top, "max_position_embeddings", 1, INT32_MAX, &c->max_ctx));

    /* Null means "derive it" even where absence has a default of its own. */
    bool kv_null = whim_json_is_null(top, "num_key_value_heads");
    bool dim_null = whim_json_is_null(top, "head_dim");
    c->n_kv = arch->n_kv == 0 || kv_null ? c->n_head : arch->n_kv;
    WHIM_TRY(whim_json_get_int32(top, "num_key_value_heads", 1, WHIM_CONFIG_MAX_HEAD, &c->n_kv));
    c->d_head = arch->d_head == 0 || dim_null ? c->d_model / c->n_head : arch->d_head;
    if (!whim_json_has(top, "head_dim") && (arch->d_head == 0 || dim_null) &&
        c->d_model % c->n_head != 0) {
        return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                         "%s: \"hidden_size\" is %d, expected a multiple of "
                         "\"num_attention_heads\" = %d, or \"head_dim\"",
                         top->path, c->d_model, c->n_head);
    }
    return whim_json_get_int32(top, "head_dim", 1, WHIM_CONFIG_MAX_HEAD_DIM, &c->d_head);
}

bool whim_config_add_eos(whim_config *config, int32_t id)
{
    for (int32_t i = 0; i < config->n_eos; i++) {
        if (config->eos[i] == id) {
            return true;
        }
    }
    if (config->n_eos == WHIM_CONFIG_MAX_EOS) {
        return false;
    }
    config->eos[config->n_eos++] = id;
    return true;
}

/* "eos_token_id" is one id or a list of them. */
static whim_err parse_eos(whim_config *config, const whim_json_scope *top)
{
    static const char key[] = "eos_token_id";
    const whim_json *value = whim_json_get(top, key);
    if (value == NULL) {
        return WHIM_ERR_OK;
    }
    bool is_list = whim_json_is_array(value);
    int64_t id = 0;
    int64_t n = is_list ? whim_json_size(value) : 1;
    if (!is_list) {
        WHIM_TRY(whim_json_get_int(top, key, 0, config->n_vocab - 1, &id));
    }
    for (int64_t i = 0; i < n; i++) {
        if (is_list && !whim_json_as_int(whim_json_at(value, i), &id)) {
            return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%s[%lld]\" is %s, expected an integer", top->path, key,
                             (long long)i, whim_json_kind(whim_json_at(value, i)));
        }
        if (id < 0 || id >= config->n_vocab) {
            return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%s[%lld]\" is %lld, expected a token id between 0 and %d",
                             top->path, key, (long long)i, (long long)id, config->n_vocab - 1);
        }
        if (!whim_config_add_eos(config, (int32_t)id)) {
            return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: \"%s\" makes more than %d end-of-sequence ids", top->path, key,
                             WHIM_CONFIG_MAX_EOS);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err parse_dtype(whim_config *config, const whim_json_scope *top)
{
    static const struct {
        const char *name;
        whim_dtype dtype;
    } names[] = {
        {"bfloat16", WHIM_DTYPE_BF16},
        {"float16", WHIM_DTYPE_F16},
        {"float32", WHIM_DTYPE_F32},
    };
    const char *name = NULL;
    const char *key = whim_json_has(top, "dtype") ? "dtype" : "torch_dtype";
    WHIM_TRY(whim_json_get_string(top, key, &name));
    config->dtype = WHIM_DTYPE_BF16;
    config->dtype_given = name != NULL;
    if (name == NULL) {
        return WHIM_ERR_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i].name) == 0) {
            config->dtype = names[i].dtype;
            return WHIM_ERR_OK;
        }
    }
    return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"%s\" is \"%.64s\", expected bfloat16, float16 or float32", top->path,
                     key, name);
}

static whim_err parse_text(whim_config *config, const arch_defaults *arch,
                           const whim_json_scope *top)
{
    WHIM_TRY(check_features(arch, top));
    WHIM_TRY(parse_shape(config, arch, top));
    const whim_layer_kinds kinds = {.windows = arch->has_windows, .deltas = arch->has_gdn};
    WHIM_TRY(whim_config_parse_layers(config, &kinds, top));
    if (arch->has_gdn) {
        WHIM_TRY(whim_config_parse_gdn(config, top));
    }
    double eps = 1e-6;
    WHIM_TRY(whim_json_get_real(top, "rms_norm_eps", 0.0, 1.0, &eps));
    config->rms_eps = (float)eps;
    config->rope.theta = arch->theta;
    config->rope.rotary_dim = arch->has_gdn ? config->d_head / 4 : config->d_head;
    if (arch->moe != NULL && arch->moe->minimax) {
        WHIM_TRY(
            whim_json_get_int32(top, "rotary_dim", 1, config->d_head, &config->rope.rotary_dim));
    }
    WHIM_TRY(whim_config_parse_rope(config, top));
    if (arch->moe != NULL) {
        WHIM_TRY(whim_config_parse_moe(config, arch->moe, top));
    }
    WHIM_TRY(whim_json_get_bool(top, "tie_word_embeddings", &config->tied_head));
    WHIM_TRY(whim_json_get_bool(top, "attention_bias", &config->attention_bias));
    if (arch->has_mlp_bias) {
        WHIM_TRY(whim_json_get_bool(top, "mlp_bias", &config->mlp_bias));
    }
    if (arch->eos >= 0 && !whim_json_has(top, "eos_token_id") &&
        !whim_json_is_null(top, "eos_token_id")) {
        whim_config_add_eos(config, arch->eos);
    }
    WHIM_TRY(parse_eos(config, top));
    WHIM_TRY(parse_dtype(config, top));
    return whim_config_check(config, top->path, top->diag);
}

/* A multimodal checkpoint keeps what is of the text in an object of its own; some fields may also stand above. */
static whim_err parse_top(whim_config *config, const whim_json_scope *top)
{
    const arch_defaults *arch = NULL;
    const whim_json *nested = NULL;
    WHIM_TRY(find_arch(top, &arch));
    snprintf(config->arch, sizeof config->arch, "%s", arch->arch);
    if (arch->has_gdn) {
        WHIM_TRY(whim_json_get_object(top, "text_config", &nested));
    }
    if (nested == NULL) {
        return parse_text(config, arch, top);
    }
    whim_json_scope text = *top;
    text.obj = nested;
    text.prefix = "text_config.";
    WHIM_TRY(check_features(arch, top));
    WHIM_TRY(parse_text(config, arch, &text));
    if (!config->dtype_given) {
        WHIM_TRY(parse_dtype(config, top));
    }
    return whim_json_get_bool(top, "tie_word_embeddings", &config->tied_head);
}

whim_err whim_config_parse(whim_config *config, const char *text, int64_t n, const char *path,
                           whim_diag *diag)
{
    *config = (whim_config){0};
    whim_json *json = NULL;
    WHIM_TRY(whim_json_parse(&json, text, n, config_limits, path, diag));
    whim_json_scope top = {.obj = json, .path = path, .prefix = "", .diag = diag};
    whim_err err = parse_top(config, &top);
    whim_json_free(json);
    return err;
}

whim_err whim_config_parse_generation(whim_config *config, const char *text, int64_t n,
                                      const char *path, whim_diag *diag)
{
    whim_json *json = NULL;
    WHIM_TRY(whim_json_parse(&json, text, n, config_limits, path, diag));
    whim_json_scope top = {.obj = json, .path = path, .prefix = "", .diag = diag};
    whim_err err = parse_eos(config, &top);
    whim_json_free(json);
    return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of Hugging Face directories. A field that the file leaves
 * out gets the default of the reference implementation (transformers' class of that architecture),
 * because its writers omit fields that equal it. */
#include "base/json.h"
#include "weights/config_json.h"

#include <stdio.h>
#include <string.h>

static const whim_json_limits config_limits = {.max_bytes = 16 << 20, .max_depth = 32};

/* What a file is: an architecture and how it is called there. */
typedef struct found_arch {
    const whim_arch *arch;
    const whim_arch_class *as;
} found_arch;

static whim_err arch_refuse(const whim_json_scope *top, const whim_arch_list *archs,
                            const char *field, const char *value)
{
    char known[1024] = "";
    for (int32_t i = 0; i < archs->n; i++) {
        const whim_arch_class *as = archs->v[i]->classes;
        for (; as != NULL && as->name != NULL; as++) {
            size_t at = strlen(known);
            snprintf(known + at, sizeof known - at, "%s%s (%s)", at > 0 ? ", " : "", as->name,
                     as->type);
        }
    }
    return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"%s\" is \"%.64s\", which is not supported; supported are %s", top->path,
                     field, value, known);
}

/* By the class where the file has one, else by the type. */
static bool arch_look_up(const whim_arch_list *archs, const char *class_name, const char *type,
                         found_arch *out)
{
    for (int32_t i = 0; i < archs->n; i++) {
        const whim_arch_class *as = archs->v[i]->classes;
        for (; as != NULL && as->name != NULL; as++) {
            if (class_name != NULL ? strcmp(class_name, as->name) == 0
                                   : strcmp(type, as->type) == 0) {
                *out = (found_arch){.arch = archs->v[i], .as = as};
                return true;
            }
        }
    }
    return false;
}

/* The first class of the list that is known, else the first; NULL without any. */
static whim_err find_class(const whim_json_scope *top, const whim_arch_list *archs,
                           const whim_json *classes, const char **out)
{
    int64_t n = classes != NULL ? whim_json_size(classes) : 0;
    for (int64_t i = 0; i < n; i++) {
        const char *name;
        found_arch found;
        if (!whim_json_as_string(whim_json_at(classes, i), &name)) {
            return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                             "%s: \"architectures[%lld]\" is %s, expected a string", top->path,
                             (long long)i, whim_json_kind(whim_json_at(classes, i)));
        }
        bool known = arch_look_up(archs, name, NULL, &found);
        *out = i == 0 || known ? name : *out;
        if (known) {
            return WHIM_ERR_OK;
        }
    }
    return WHIM_ERR_OK;
}

/* Whether a model type goes with the class: its own, an older one, or that of a class which is read
 * in the same way. Tools that save a multimodal model's text alone mix the two. */
static bool goes_with(const found_arch *found, const char *type)
{
    const whim_arch_class *as = found->as;
    bool same = as->old_type != NULL && strcmp(type, as->old_type) == 0;
    for (const whim_arch_class *c = found->arch->classes; c->name != NULL && !same; c++) {
        same = c->defaults == as->defaults && strcmp(type, c->type) == 0;
    }
    return same;
}

/* "architectures" says what the weights are for; "model_type" must not contradict it. */
static whim_err find_arch(const whim_json_scope *top, const whim_arch_list *archs, found_arch *out)
{
    const whim_json *classes = NULL;
    const char *class_name = NULL;
    const char *type = NULL;
    WHIM_TRY(whim_json_get_array(top, "architectures", &classes));
    WHIM_TRY(whim_json_get_string(top, "model_type", &type));
    WHIM_TRY(find_class(top, archs, classes, &class_name));
    if (class_name == NULL && type == NULL) {
        return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                         "%s: both \"architectures\" and \"model_type\" are missing", top->path);
    }
    if (!arch_look_up(archs, class_name, type, out)) {
        return class_name != NULL ? arch_refuse(top, archs, "architectures", class_name)
                                  : arch_refuse(top, archs, "model_type", type);
    }
    const whim_arch_class *as = out->as;
    if (type != NULL && !out->arch->draft && !goes_with(out, type)) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"model_type\" is \"%.64s\", expected \"%s\" beside %s", top->path,
                         type, as->type, as->name);
    }
    return WHIM_ERR_OK;
}

/* Features that would change the result if they were ignored. */
static whim_err check_features(const found_arch *found, const whim_json_scope *top)
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
    if (slides && !found->as->defaults->has_windows) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"use_sliding_window\" is true; sliding-window attention is not "
                         "supported in %s models",
                         top->path, found->arch->name);
    }
    if (whim_json_has(top, "per_layer_config")) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"per_layer_config\" is set; layers of different shapes are not "
                         "supported",
                         top->path);
    }
    return WHIM_ERR_OK;
}

static whim_err parse_shape(whim_config *c, const whim_arch_defaults *arch,
                            const whim_json_scope *top)
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

whim_err whim_config_parse_eos(whim_config *config, const whim_json_scope *top)
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
        WHIM_TRY(whim_json_get_int(top, key, INT64_MIN, INT64_MAX, &id));
    }
    for (int64_t i = 0; i < n; i++) {
        const whim_json *item = is_list ? whim_json_at(value, i) : NULL;
        if (is_list && !whim_json_as_int(item, &id)) {
            return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%s[%lld]\" is %s, expected an integer", top->path, key,
                             (long long)i, whim_json_kind(item));
        }
        /* Published files say -1 for none, or name a token that the model has not. */
        bool can_come = id >= 0 && id < config->n_vocab;
        if (can_come && !whim_config_add_eos(config, (int32_t)id)) {
            return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: \"%s\" makes more than %d end-of-sequence ids", top->path, key,
                             WHIM_CONFIG_MAX_EOS);
        }
    }
    return WHIM_ERR_OK;
}

/* What the file declares; weights have types of their own, so "auto", or the type of a quantised
 * model, declares nothing. */
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
    if (name == NULL) {
        return WHIM_ERR_OK;
    }
    name += strncmp(name, "torch.", 6) == 0 ? 6 : 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i].name) == 0) {
            config->dtype = names[i].dtype;
            config->dtype_given = true;
        }
    }
    return WHIM_ERR_OK;
}

/* Biases: those that files tell of. */
static whim_err parse_biases(whim_config *config, const found_arch *found,
                             const whim_json_scope *top)
{
    config->qkv_bias = found->arch->qkv_bias;
    if (!found->arch->qkv_bias) {
        WHIM_TRY(whim_json_get_bool(top, "attention_bias", &config->qkv_bias));
        config->o_bias = config->qkv_bias;
    }
    return found->as->defaults->has_mlp_bias
               ? whim_json_get_bool(top, "mlp_bias", &config->mlp_bias)
               : WHIM_ERR_OK;
}

static whim_err parse_rotation(whim_config *config, const whim_arch_defaults *defaults,
                               const whim_json_scope *top)
{
    whim_rope_config *rope = &config->rope;
    rope->theta = defaults->theta;
    rope->rotary_dim = defaults->quarter_rotated ? config->d_head / 4 : config->d_head;
    if (defaults->rotary_key != NULL) {
        WHIM_TRY(
            whim_json_get_int32(top, defaults->rotary_key, 1, config->d_head, &rope->rotary_dim));
    }
    return whim_config_parse_rope(config, top);
}

static whim_err parse_text(whim_config *config, const found_arch *found, const whim_json_scope *top)
{
    const whim_arch_defaults *defaults = found->as->defaults;
    const whim_layer_kinds kinds = {.windows = defaults->has_windows,
                                    .by_type = defaults->windows_by_type,
                                    .all = defaults->windows_all,
                                    .deltas = defaults->has_gdn};
    double eps = 1e-6;
    WHIM_TRY(check_features(found, top));
    WHIM_TRY(parse_shape(config, defaults, top));
    WHIM_TRY(whim_config_parse_layers(config, &kinds, top));
    if (defaults->has_gdn) {
        WHIM_TRY(whim_config_parse_gdn(config, top));
    }
    WHIM_TRY(whim_json_get_real(top, "rms_norm_eps", 0.0, 1.0, &eps));
    config->rms_eps = (float)eps;
    WHIM_TRY(parse_rotation(config, defaults, top));
    if (defaults->moe != NULL) {
        WHIM_TRY(whim_config_parse_moe(config, defaults->moe, top));
    }
    WHIM_TRY(whim_json_get_bool(top, "tie_word_embeddings", &config->tied_head));
    WHIM_TRY(parse_biases(config, found, top));
    if (defaults->eos >= 0 && !whim_json_has(top, "eos_token_id") &&
        !whim_json_is_null(top, "eos_token_id")) {
        whim_config_add_eos(config, defaults->eos);
    }
    if (!found->arch->draft) {
        WHIM_TRY(whim_config_parse_eos(config, top));
    }
    WHIM_TRY(parse_dtype(config, top));
    if (found->arch->parse != NULL) {
        WHIM_TRY(found->arch->parse(config, top));
    }
    return whim_config_check(config, top->path, top->diag);
}

/* A multimodal checkpoint keeps what is of the text in an object of its own; some fields may also
 * stand above. */
static whim_err parse_top(whim_config *config, const whim_arch_list *archs,
                          const whim_json_scope *top)
{
    found_arch found = {0};
    const whim_json *nested = NULL;
    WHIM_TRY(find_arch(top, archs, &found));
    config->arch = found.arch;
    if (found.as->defaults->has_gdn) {
        WHIM_TRY(whim_json_get_object(top, "text_config", &nested));
    }
    if (nested == NULL) {
        return parse_text(config, &found, top);
    }
    whim_json_scope text = *top;
    text.obj = nested;
    text.prefix = "text_config.";
    WHIM_TRY(check_features(&found, top));
    WHIM_TRY(parse_text(config, &found, &text));
    if (!config->dtype_given) {
        WHIM_TRY(parse_dtype(config, top));
    }
    return whim_json_get_bool(top, "tie_word_embeddings", &config->tied_head);
}

whim_err whim_config_parse(whim_config *config, const whim_arch_list *archs, const char *text,
                           int64_t n, const char *path, whim_diag *diag)
{
    *config = (whim_config){0};
    whim_json *json = NULL;
    WHIM_TRY(whim_json_parse(&json, text, n, config_limits, path, diag));
    whim_json_scope top = {.obj = json, .path = path, .prefix = "", .diag = diag};
    whim_err err = parse_top(config, archs, &top);
    whim_json_free(json);
    return err;
}

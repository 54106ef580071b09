/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary parameters of config.json: the new "rope_parameters" object, or the legacy "rope_theta"
 * and "rope_scaling". Precedence and defaults are those of the reference implementation: a
 * non-empty "rope_scaling" wins over "rope_parameters"; what the object lacks comes from the top
 * level. */
#include "base/math/fmath.h"
#include "weights/config_json.h"

#include <string.h>

double whim_rope_yarn_scale(double factor, double mscale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * whim_ln(factor) + 1.0;
}

static bool is_non_empty(const whim_json *obj)
{
    whim_json_iter iter = {.obj = obj};
    return obj != NULL && whim_json_next(&iter);
}

/* The object that holds the parameters, or the top level itself when the file has none. */
static whim_err find_scope(const whim_config *config, const whim_json_scope *top,
                           whim_json_scope *out)
{
    const whim_json *obj = NULL;
    *out = *top;
    WHIM_TRY(whim_json_get_object(top, "rope_scaling", &obj));
    if (is_non_empty(obj)) {
        out->obj = obj;
        out->prefix = "rope_scaling.";
        return WHIM_ERR_OK;
    }
    obj = NULL;
    WHIM_TRY(whim_json_get_object(top, "rope_parameters", &obj));
    if (!is_non_empty(obj)) {
        return WHIM_ERR_OK;
    }
    out->obj = obj;
    out->prefix = "rope_parameters.";
    /* Newer files may nest one object per kind of layer. */
    const whim_json *nested = NULL;
    WHIM_TRY(whim_json_get_object(out, "full_attention", &nested));
    if (nested != NULL && config->window > 0 && whim_json_has(out, "sliding_attention")) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"rope_parameters.sliding_attention\" is set; rotary parameters of "
                         "their own for layers with a window are not supported in %s models",
                         top->path, config->arch->name);
    }
    if (nested != NULL) {
        out->obj = nested;
        out->prefix = "rope_parameters.full_attention.";
    }
    return WHIM_ERR_OK;
}

static whim_err parse_kind(whim_rope_config *rope, const whim_json_scope *scope,
                           const whim_json_scope *top)
{
    static const struct {
        const char *name;
        whim_rope_kind kind;
    } kinds[] = {
        {"default", WHIM_ROPE_DEFAULT},
        {"linear", WHIM_ROPE_LINEAR},
        {"llama3", WHIM_ROPE_LLAMA3},
        {"yarn", WHIM_ROPE_YARN},
    };
    rope->kind = WHIM_ROPE_DEFAULT;
    if (scope->obj == top->obj) {
        return WHIM_ERR_OK;
    }
    const char *name = "default";
    const char *key = whim_json_has(scope, "rope_type") ? "rope_type" : "type";
    WHIM_TRY(whim_json_get_string(scope, key, &name));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            rope->kind = kinds[i].kind;
            return WHIM_ERR_OK;
        }
    }
    return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"%s%s\" is \"%.64s\", expected default, linear, llama3 or yarn",
                     scope->path, scope->prefix, key, name);
}

/* A top-level original_max_position_embeddings wins; without any it is the context length. */
static whim_err parse_orig_ctx(whim_config *config, const whim_json_scope *scope,
                               const whim_json_scope *top)
{
    static const char key[] = "original_max_position_embeddings";
    config->rope.orig_ctx = (double)config->max_ctx;
    WHIM_TRY(whim_json_get_real(scope, key, 1.0, INT32_MAX, &config->rope.orig_ctx));
    return whim_json_get_real(top, key, 1.0, INT32_MAX, &config->rope.orig_ctx);
}

static whim_err parse_llama3(whim_config *config, const whim_json_scope *scope,
                             const whim_json_scope *top)
{
    whim_rope_config *rope = &config->rope;
    WHIM_TRY(whim_json_require(scope, "factor"));
    WHIM_TRY(whim_json_require(scope, "low_freq_factor"));
    WHIM_TRY(whim_json_require(scope, "high_freq_factor"));
    WHIM_TRY(whim_json_get_real(scope, "low_freq_factor", 1e-6, 1e6, &rope->low_freq));
    WHIM_TRY(whim_json_get_real(scope, "high_freq_factor", 1e-6, 1e6, &rope->high_freq));
    return parse_orig_ctx(config, scope, top);
}

static whim_err parse_yarn(whim_config *config, const whim_json_scope *scope,
                           const whim_json_scope *top)
{
    whim_rope_config *rope = &config->rope;
    double mscale = 0.0;
    double mscale_all = 0.0;
    WHIM_TRY(parse_orig_ctx(config, scope, top));
    if (!whim_json_has(scope, "factor")) {
        rope->factor = (double)config->max_ctx / rope->orig_ctx;
    }
    WHIM_TRY(whim_json_get_real(scope, "beta_fast", 0.0, 1e6, &rope->beta_fast));
    WHIM_TRY(whim_json_get_real(scope, "beta_slow", 0.0, 1e6, &rope->beta_slow));
    WHIM_TRY(whim_json_get_bool(scope, "truncate", &rope->truncate));
    WHIM_TRY(whim_json_get_real(scope, "mscale", 0.0, 1e6, &mscale));
    WHIM_TRY(whim_json_get_real(scope, "mscale_all_dim", 0.0, 1e6, &mscale_all));
    /* Zero means "not set" for the betas and the mscales. */
    rope->beta_fast = rope->beta_fast == 0.0 ? 32.0 : rope->beta_fast;
    rope->beta_slow = rope->beta_slow == 0.0 ? 1.0 : rope->beta_slow;
    rope->attn_factor = mscale != 0.0 && mscale_all != 0.0
                            ? whim_rope_yarn_scale(rope->factor, mscale) /
                                  whim_rope_yarn_scale(rope->factor, mscale_all)
                            : whim_rope_yarn_scale(rope->factor, 1.0);
    return whim_json_get_real(scope, "attention_factor", 0.0, 1e6, &rope->attn_factor);
}

whim_err whim_config_parse_rope(whim_config *config, const whim_json_scope *top)
{
    whim_rope_config *rope = &config->rope;
    whim_json_scope scope;
    double partial = (double)rope->rotary_dim / config->d_head;
    *rope = (whim_rope_config){.theta = rope->theta,
                               .factor = 1.0,
                               .beta_fast = 32.0,
                               .beta_slow = 1.0,
                               .attn_factor = 1.0,
                               .truncate = true};
    WHIM_TRY(find_scope(config, top, &scope));
    WHIM_TRY(parse_kind(rope, &scope, top));
    WHIM_TRY(whim_json_get_real(top, "rope_theta", 0.0, 1e15, &rope->theta));
    WHIM_TRY(whim_json_get_real(&scope, "rope_theta", 0.0, 1e15, &rope->theta));
    WHIM_TRY(whim_json_get_real(top, "partial_rotary_factor", 0.0, 1.0, &partial));
    WHIM_TRY(whim_json_get_real(&scope, "partial_rotary_factor", 0.0, 1.0, &partial));
    rope->rotary_dim =
        (int32_t)(config->d_head * partial + 1e-6); /* a product that is just below */
    if (rope->kind == WHIM_ROPE_DEFAULT) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_json_get_real(&scope, "factor", 1e-3, 1e6, &rope->factor));
    switch (rope->kind) {
    case WHIM_ROPE_LINEAR:
        return whim_json_require(&scope, "factor");
    case WHIM_ROPE_LLAMA3:
        return parse_llama3(config, &scope, top);
    default:
        return parse_yarn(config, &scope, top);
    }
}

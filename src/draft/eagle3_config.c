/* SPDX-License-Identifier: Apache-2.0 */
/* What an EAGLE3 draft's config.json says beside the usual of its layer. */
#include "draft/eagle3.h"
#include "draft/serial.h"

enum { USUAL_FEATURES = 3 };

static const whim_arch_defaults defaults = {.n_vocab = 32000,
                                            .d_model = 4096,
                                            .d_ff = 11008,
                                            .n_layer = 1,
                                            .n_head = 32,
                                            .max_ctx = 2048,
                                            .eos = -1,
                                            .theta = 1e4};
static const whim_arch_class classes[] = {{"LlamaForCausalLMEagle3", "llama", &defaults},
                                          {"Eagle3LlamaForCausalLM", "llama", &defaults},
                                          {0}};
static const whim_spelling names[] = {{"midlayer.", "layers.0."},
                                      {"aux_norm_low.", "fc_norm.0."},
                                      {"aux_norm_mid.", "fc_norm.1."},
                                      {"aux_norm_high.", "fc_norm.2."},
                                      {0}};

/* A key that stands in "eagle_config" or at the top: the inner one wins. */
static const whim_json_scope *where(const whim_json_scope *inner, const whim_json_scope *top,
                                    const char *key)
{
    return inner->obj != NULL && whim_json_has(inner, key) ? inner : top;
}

static whim_err flag(const whim_json_scope *inner, const whim_json_scope *top, const char *key,
                     bool *out)
{
    return whim_json_get_bool(where(inner, top, key), key, out);
}

/* Layers whose outputs it reads; where it does not say, the model's layers do. */
static whim_err features_parse(whim_draft_config *d, const whim_json_scope *inner,
                               const whim_json_scope *top)
{
    static const char key[] = "eagle_aux_hidden_state_layer_ids";
    const whim_json_scope *at = where(inner, top, key);
    const whim_json *ids = NULL;
    int64_t last = -1;
    d->n_feature = USUAL_FEATURES;
    WHIM_TRY(whim_json_get_array(at, key, &ids));
    if (ids == NULL) {
        return WHIM_ERR_OK;
    }
    int64_t n = whim_json_size(ids);
    if (n < 1 || n > WHIM_DRAFT_MAX_FEATURE) {
        return whim_fail(at->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%s%s\" has %lld entries, expected 1 to %d", at->path, at->prefix,
                         key, (long long)n, WHIM_DRAFT_MAX_FEATURE);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t id = -1;
        if (!whim_json_as_int(whim_json_at(ids, i), &id) || id <= last ||
            id >= WHIM_CONFIG_MAX_LAYER) {
            return whim_fail(at->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%s%s[%lld]\" is not a layer above the one before it", at->path,
                             at->prefix, key, (long long)i);
        }
        d->features[i] = (int32_t)(last = id);
    }
    d->n_feature = (int32_t)n;
    d->features_given = true;
    return WHIM_ERR_OK;
}

/* Keys that would change what is computed, by what they must not be. */
static whim_err changes_refuse(const whim_config *c, const whim_json_scope *inner,
                               const whim_json_scope *top)
{
    const struct {
        const char *key;
        bool usual;
    } flags[] = {{"norm_before_residual", false}, {"bias", false}, {"use_aux_hidden_state", true}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool value = flags[i].usual;
        WHIM_TRY(flag(inner, top, flags[i].key, &value));
        if (value != flags[i].usual) {
            return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: \"%s\" is %s, which is not supported in an EAGLE3 draft",
                             top->path, flags[i].key, value ? "true" : "false");
        }
    }
    if (c->n_layer != 1) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"num_hidden_layers\" is %d; EAGLE3 drafts of 1 layer are supported",
                         top->path, c->n_layer);
    }
    if (c->d_model % 2 != 0) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"hidden_size\" is %d; drafts of an even one are supported",
                         top->path, c->d_model);
    }
    return WHIM_ERR_OK;
}

static whim_err parse(whim_config *c, const whim_json_scope *top)
{
    whim_draft_config *d = &c->draft;
    whim_json_scope inner = *top;
    inner.obj = NULL;
    inner.prefix = "eagle_config.";
    WHIM_TRY(whim_json_get_object(top, "eagle_config", &inner.obj));
    WHIM_TRY(changes_refuse(c, &inner, top));
    WHIM_TRY(features_parse(d, &inner, top));
    d->serial = true;
    d->block = WHIM_SERIAL_MOST;
    d->anchor_first = true;
    d->d_target = c->d_model;
    WHIM_TRY(
        whim_json_get_int32(top, "target_hidden_size", 1, WHIM_CONFIG_MAX_WIDTH, &d->d_target));
    WHIM_TRY(whim_json_get_int32(top, "draft_vocab_size", 1, c->n_vocab, &d->n_token));
    WHIM_TRY(flag(&inner, top, "norm_before_fc", &d->norm_before_fc));
    WHIM_TRY(flag(&inner, top, "use_aux_norm", &d->norm_parts));
    WHIM_TRY(flag(&inner, top, "fc_norm", &d->norm_parts));
    return flag(&inner, top, "norm_output", &d->norm_output);
}

const whim_arch whim_eagle3_arch = {.name = "eagle3",
                                    .classes = classes,
                                    .safetensors_names = names,
                                    .draft = true,
                                    .parse = parse};

void whim_eagle3_boundaries(const whim_config *draft, int32_t n_layer, int32_t *out)
{
    const whim_draft_config *d = &draft->draft;
    const int32_t usual[USUAL_FEATURES] = {2, n_layer / 2, n_layer - 3};
    for (int32_t i = 0; i < d->n_feature; i++) {
        out[i] = d->features_given ? d->features[i] + 1 : usual[i];
    }
}

whim_err whim_eagle3_check(const whim_config *draft, const whim_config *target, const char *path,
                           whim_diag *diag)
{
    const whim_draft_config *d = &draft->draft;
    int32_t boundaries[WHIM_DRAFT_MAX_FEATURE];
    if (d->d_target != target->d_model) {
        return whim_draft_differs(
            path, d->d_target == draft->d_model ? "hidden_size" : "target_hidden_size", d->d_target,
            target->d_model, diag);
    }
    if (draft->d_model != target->d_model && d->n_token == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%s: the draft has no head (\"draft_vocab_size\"), and the model's does "
                         "not fit: its \"hidden_size\" is %d, the model's is %d",
                         path, draft->d_model, target->d_model);
    }
    whim_eagle3_boundaries(draft, target->n_layer, boundaries);
    for (int32_t i = 1; i < d->n_feature; i++) {
        if (boundaries[i] <= boundaries[i - 1]) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "%s: there is no \"eagle_aux_hidden_state_layer_ids\", and a model of "
                             "%d layers has no usual ones",
                             path, target->n_layer);
        }
    }
    return whim_draft_check(draft, target, path, diag);
}

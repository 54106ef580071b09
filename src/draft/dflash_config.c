/* SPDX-License-Identifier: Apache-2.0 */
/* What a DFlash draft's config.json says beside the usual of its layers. */
#include "draft/dflash.h"

static const whim_arch_defaults defaults = {.n_vocab = 151936,
                                            .d_model = 4096,
                                            .d_ff = 22016,
                                            .n_layer = 32,
                                            .n_head = 32,
                                            .n_kv = 32,
                                            .d_head = 128,
                                            .max_ctx = 32768,
                                            .eos = -1,
                                            .has_windows = true,
                                            .windows_by_type = true,
                                            .theta = 1e4};
static const whim_arch_class classes[] = {{"DFlashDraftModel", "qwen3", &defaults}, {0}};
static const whim_spelling names[] = {
    {"encoder.fc.", "fc."}, {"encoder.output_norm_enc.", "hidden_norm."}, {0}};

/* The scope in which a key stands: the inner one wins. */
static const whim_json_scope *where(const whim_json_scope *inner, const whim_json_scope *top,
                                    const char *key)
{
    return inner->obj != NULL && whim_json_has(inner, key) ? inner : top;
}

/* Which layers' outputs it reads, where nothing says so: spread over the model, ends left out. */
static whim_err features_usual(whim_draft_config *d, int32_t n, const whim_json_scope *top)
{
    if (d->n_target_layer < 4 || n > WHIM_DRAFT_MAX_FEATURE) {
        return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                         "%s: there is no \"target_layer_ids\", and \"num_target_layers\" and "
                         "\"num_hidden_layers\" give no usual ones",
                         top->path);
    }
    d->n_feature = n;
    for (int32_t i = 0; i < n; i++) {
        /* 1 + i (L - 4) / (n - 1), halves to the even number */
        int32_t over = n > 1 ? i * (d->n_target_layer - 4) : 0, by = n > 1 ? n - 1 : 1;
        int32_t whole = over / by, twice = 2 * (over % by);
        whole += twice > by || (twice == by && whole % 2 == 0); /* 1 + whole is then even */
        d->features[i] = n > 1 ? 1 + whole : d->n_target_layer / 2;
    }
    return WHIM_ERR_OK;
}

static whim_err features_parse(whim_draft_config *d, int32_t n_layer, const whim_json_scope *at)
{
    const whim_json *ids = NULL;
    WHIM_TRY(whim_json_get_array(at, "target_layer_ids", &ids));
    if (ids == NULL) {
        return features_usual(d, n_layer, at);
    }
    int64_t n = whim_json_size(ids), last = -1;
    if (n < 1 || n > WHIM_DRAFT_MAX_FEATURE) {
        return whim_fail(at->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%starget_layer_ids\" has %lld entries, expected 1 to %d", at->path,
                         at->prefix, (long long)n, WHIM_DRAFT_MAX_FEATURE);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t id = -1;
        if (!whim_json_as_int(whim_json_at(ids, i), &id) || id <= last ||
            id >= WHIM_CONFIG_MAX_LAYER) {
            return whim_fail(at->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%starget_layer_ids[%lld]\" is no layer above the one before it",
                             at->path, at->prefix, (long long)i);
        }
        last = id;
        d->features[i] = (int32_t)id;
    }
    d->n_feature = (int32_t)n;
    return WHIM_ERR_OK;
}

/* Keys that would change what is computed. */
static whim_err changes_refuse(const whim_json_scope *inner, const whim_json_scope *top)
{
    double scale = 1;
    bool neox = true;
    const whim_json_scope *at = where(inner, top, "input_embedding_scale");
    WHIM_TRY(whim_json_get_real(at, "input_embedding_scale", -1e9, 1e9, &scale));
    WHIM_TRY(whim_json_get_bool(top, "rope_is_neox_style", &neox));
    if (scale != 1 || !neox) {
        return whim_fail(
            top->diag, WHIM_ERR_UNSUPPORTED, "%s: \"%s\" is not supported in a draft: only %s is",
            top->path, neox ? "input_embedding_scale" : "rope_is_neox_style", neox ? "1" : "true");
    }
    return WHIM_ERR_OK;
}

/* Parts that other kinds of drafts have. */
static whim_err others_refuse(const whim_json_scope *inner, const whim_json_scope *top)
{
    static const char *const keys[] = {"selector_rank", "conv_kernel_size", "markov_rank"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t value = 0;
        const whim_json_scope *at = where(inner, top, keys[i]);
        WHIM_TRY(whim_json_get_int(at, keys[i], INT64_MIN, INT64_MAX, &value));
        if (value > 0) {
            return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: \"%s%s\" is %lld: this is a draft of a kind (DFlash2, DSpark) "
                             "that is not supported yet",
                             at->path, at->prefix, keys[i], (long long)value);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err parse(whim_config *c, const whim_json_scope *top)
{
    whim_draft_config *d = &c->draft;
    whim_json_scope inner = *top;
    inner.obj = NULL;
    inner.prefix = "dflash_config.";
    WHIM_TRY(whim_json_get_object(top, "dflash_config", &inner.obj));
    WHIM_TRY(others_refuse(&inner, top));
    WHIM_TRY(changes_refuse(&inner, top));
    d->block = 16;
    WHIM_TRY(whim_json_get_int32(where(&inner, top, "block_size"), "block_size", 2, 64, &d->block));
    const whim_json_scope *mask = where(&inner, top, "mask_token_id");
    WHIM_TRY(whim_json_require(mask, "mask_token_id"));
    WHIM_TRY(whim_json_get_int32(mask, "mask_token_id", 0, c->n_vocab - 1, &d->mask));
    WHIM_TRY(whim_json_get_int32(top, "num_target_layers", 1, WHIM_CONFIG_MAX_LAYER,
                                 &d->n_target_layer));
    WHIM_TRY(features_parse(d, c->n_layer, where(&inner, top, "target_layer_ids")));
    const whim_json_scope *causal = where(&inner, top, "is_causal");
    d->causal_given = whim_json_has(causal, "is_causal");
    WHIM_TRY(whim_json_get_bool(causal, "is_causal", &d->causal));
    return whim_json_get_int32(where(&inner, top, "draft_tokens"), "draft_tokens", 1, c->n_vocab,
                               &d->n_token);
}

const whim_arch whim_dflash_arch = {
    .name = "dflash", .classes = classes, .safetensors_names = names, .parse = parse};

whim_err whim_dflash_check(const whim_config *draft, const whim_config *target, const char *path,
                           whim_diag *diag)
{
    if (draft->d_model != target->d_model) {
        return whim_draft_differs(path, "hidden_size", draft->d_model, target->d_model, diag);
    }
    return whim_draft_check(draft, target, path, diag);
}

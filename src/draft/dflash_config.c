/* SPDX-License-Identifier: Apache-2.0 */
/* What the config.json of a draft of the DFlash family says beside the usual of its layers. */
#include "draft/dflash.h"

#include "ops/args/draft_args.h"
#include "ops/args/row_args.h"

#include <string.h>

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
static const whim_arch_class classes[] = {{"DFlashDraftModel", "qwen3", &defaults},
                                          {"DFlash2DraftModel", "qwen3", &defaults},
                                          {"Qwen3DSparkModel", "qwen3", &defaults},
                                          {"DSparkDraftModel", "qwen3", &defaults},
                                          {0}};
static const whim_spelling names[] = {
    {"encoder.fc.", "fc."}, {"encoder.output_norm_enc.", "hidden_norm."}, {0}};

/* Where keys may stand: an inner scope wins over the file's own. */
typedef struct places {
    whim_json_scope top, inner[2];
} places;

static whim_err places_find(places *p, const whim_json_scope *top)
{
    static const char *const inner[] = {"dflash_config", "dspark_config"};
    static const char *const prefixes[] = {"dflash_config.", "dspark_config."};
    p->top = *top;
    for (int i = 0; i < 2; i++) {
        p->inner[i] = *top;
        p->inner[i].obj = NULL;
        p->inner[i].prefix = prefixes[i];
        WHIM_TRY(whim_json_get_object(top, inner[i], &p->inner[i].obj));
    }
    return WHIM_ERR_OK;
}

static const whim_json_scope *where(const places *p, const char *key)
{
    for (int i = 0; i < 2; i++) {
        if (p->inner[i].obj != NULL && whim_json_has(&p->inner[i], key)) {
            return &p->inner[i];
        }
    }
    return &p->top;
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
    int64_t n = whim_json_size(ids), last = -2; /* -1 is the embedding's output */
    if (n < 1 || n > WHIM_DRAFT_MAX_FEATURE) {
        return whim_fail(at->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%starget_layer_ids\" has %lld entries, expected 1 to %d", at->path,
                         at->prefix, (long long)n, WHIM_DRAFT_MAX_FEATURE);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t id = last;
        if (!whim_json_as_int(whim_json_at(ids, i), &id) || id <= last ||
            id >= WHIM_CONFIG_MAX_LAYER) {
            return whim_fail(
                at->diag, WHIM_ERR_CORRUPT,
                "%s: \"%starget_layer_ids[%lld]\" is not a layer above the one before it", at->path,
                at->prefix, (long long)i);
        }
        last = id;
        d->features[i] = (int32_t)id;
    }
    d->n_feature = (int32_t)n;
    return WHIM_ERR_OK;
}

/* Keys that would change what is computed. */
static whim_err changes_refuse(const whim_json_scope *top)
{
    bool neox = true;
    WHIM_TRY(whim_json_get_bool(top, "rope_is_neox_style", &neox));
    return neox ? WHIM_ERR_OK
                : whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                            "%s: \"rope_is_neox_style\" is not supported in a draft: only true is",
                            top->path);
}

static whim_err scale_parse(const places *p, const char *key, float *out)
{
    double value = (double)*out;
    WHIM_TRY(whim_json_get_real(where(p, key), key, 1e-9, 1e9, &value));
    *out = (float)value;
    return WHIM_ERR_OK;
}

/* DFlash2: convolutions, and a selector. */
static whim_err flash2_parse(whim_config *c, const places *p)
{
    whim_draft_config *d = &c->draft;
    whim_chain_config *chain = &d->chain;
    double cap = 0;
    const whim_json_scope *at = where(p, "conv_group_size");
    WHIM_TRY(whim_json_get_int32(where(p, "conv_kernel_size"), "conv_kernel_size", 0,
                                 WHIM_BLOCK_CONV_MAX_TAP, &d->conv_tap));
    WHIM_TRY(whim_json_get_int32(at, "conv_group_size", 1, c->d_model, &d->conv_group));
    if (d->conv_tap > 0 && c->d_model % d->conv_group != 0) {
        return whim_fail(at->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%sconv_group_size\" is %d, which does not divide the width %d",
                         at->path, at->prefix, d->conv_group, c->d_model);
    }
    at = where(p, "selector_rank");
    WHIM_TRY(whim_json_get_int32(at, "selector_rank", 0, 1 << 16, &chain->rank));
    WHIM_TRY(whim_json_get_int32(where(p, "selector_top_k"), "selector_top_k", 1, WHIM_TOPK_MAX,
                                 &chain->n_top));
    WHIM_TRY(scale_parse(p, "input_embedding_scale", &d->embed_scale));
    WHIM_TRY(scale_parse(p, "output_multiplier", &chain->scale));
    WHIM_TRY(whim_json_get_real(where(p, "final_logit_softcapping"), "final_logit_softcapping", 0,
                                1e9, &cap));
    chain->cap = (float)cap;
    chain->by_hidden = chain->rank > 0;
    return WHIM_ERR_OK;
}

/* Whether the class in "architectures" is DSpark's, also where it has no Markov head. */
static bool is_dspark(const places *p)
{
    const whim_json *list = NULL;
    const char *name = "";
    if (whim_json_get_array(&p->top, "architectures", &list) != WHIM_ERR_OK || list == NULL ||
        whim_json_size(list) == 0 || !whim_json_as_string(whim_json_at(list, 0), &name)) {
        return false;
    }
    return strstr(name, "DSpark") != NULL;
}

/* DSpark: how its tokens are chosen, and by which rows. */
static whim_err markov_parse(whim_config *c, const places *p)
{
    whim_chain_config *chain = &c->draft.chain;
    const char *kind = "vanilla";
    const whim_json_scope *at = where(p, "markov_head_type");
    int32_t rank = 0;
    WHIM_TRY(whim_json_get_int32(where(p, "markov_rank"), "markov_rank", 0, 1 << 16, &rank));
    WHIM_TRY(whim_json_get_string(at, "markov_head_type", &kind));
    if (rank > 0 && chain->by_hidden) {
        return whim_fail(at->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"selector_rank\" is %d and \"markov_rank\" %d: a draft with both "
                         "is of no kind that is supported",
                         at->path, chain->rank, rank);
    }
    if (rank > 0) {
        chain->rank = rank;
        chain->n_top = WHIM_CHAIN_MARKOV_TOP;
    }
    if (rank > 0 && strcmp(kind, "vanilla") != 0) {
        return whim_fail(at->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%smarkov_head_type\" is \"%.64s\"; only \"vanilla\" is supported",
                         at->path, at->prefix, kind);
    }
    at = where(p, "enable_confidence_head");
    WHIM_TRY(whim_json_get_bool(at, "enable_confidence_head", &chain->sure));
    at = where(p, "confidence_head_with_markov");
    chain->sure_of_pairs = chain->sure && rank > 0;
    WHIM_TRY(whim_json_get_bool(at, "confidence_head_with_markov", &chain->sure_of_pairs));
    if (chain->sure_of_pairs && chain->sure && chain->rank == 0) {
        return whim_fail(at->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%sconfidence_head_with_markov\" is true, and \"markov_rank\" is 0",
                         at->path, at->prefix);
    }
    chain->sure_of_pairs = chain->sure_of_pairs && chain->sure;
    const whim_json_scope *anchors = where(p, "num_anchors");
    c->draft.anchor_first = rank > 0 || whim_json_has(anchors, "num_anchors") || is_dspark(p);
    at = where(p, "sample_from_anchor");
    return whim_json_get_bool(at, "sample_from_anchor", &c->draft.anchor_first);
}

static whim_err tokens_parse(whim_config *c, const places *p)
{
    whim_draft_config *d = &c->draft;
    const whim_json_scope *at = where(p, "draft_tokens");
    WHIM_TRY(whim_json_get_int32(at, "draft_tokens", 1, c->n_vocab, &d->n_token));
    if (d->n_token > 0 && d->chain.rank > 0) {
        return whim_fail(at->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%sdraft_tokens\" is %d: a draft that scores pairs of tokens is "
                         "supported only with all of them",
                         at->path, at->prefix, d->n_token);
    }
    return WHIM_ERR_OK;
}

void whim_dflash_defaults(whim_config *c)
{
    c->draft.block = c->draft.conv_group = c->draft.chain.n_top = 16;
    c->draft.embed_scale = c->draft.chain.scale = 1.0f;
}

static whim_err parse(whim_config *c, const whim_json_scope *top)
{
    whim_draft_config *d = &c->draft;
    places p;
    WHIM_TRY(places_find(&p, top));
    WHIM_TRY(changes_refuse(top));
    whim_dflash_defaults(c);
    WHIM_TRY(flash2_parse(c, &p));
    WHIM_TRY(markov_parse(c, &p));
    WHIM_TRY(whim_json_get_int32(where(&p, "block_size"), "block_size", 2 - d->anchor_first, 64,
                                 &d->block));
    const whim_json_scope *mask = where(&p, "mask_token_id");
    WHIM_TRY(whim_json_require(mask, "mask_token_id"));
    WHIM_TRY(whim_json_get_int32(mask, "mask_token_id", 0, c->n_vocab - 1, &d->mask));
    WHIM_TRY(whim_json_get_int32(top, "num_target_layers", 1, WHIM_CONFIG_MAX_LAYER,
                                 &d->n_target_layer));
    WHIM_TRY(features_parse(d, c->n_layer, where(&p, "target_layer_ids")));
    const whim_json_scope *causal = where(&p, "is_causal");
    d->causal_given = whim_json_has(causal, "is_causal");
    WHIM_TRY(whim_json_get_bool(causal, "is_causal", &d->causal));
    return tokens_parse(c, &p);
}

const whim_arch whim_dflash_arch = {.name = "dflash",
                                    .classes = classes,
                                    .gguf = whim_dflash_gguf,
                                    .safetensors_names = names,
                                    .gguf_names = whim_dflash_gguf_names,
                                    .gguf_whole = whim_dflash_gguf_whole,
                                    .draft = true,
                                    .parse = parse,
                                    .gguf_finish = whim_dflash_gguf_finish};

whim_err whim_dflash_check(const whim_config *draft, const whim_config *target, const char *path,
                           whim_diag *diag)
{
    if (draft->d_model != target->d_model) {
        return whim_draft_differs(path, "hidden_size", draft->d_model, target->d_model, diag);
    }
    return whim_draft_check(draft, target, path, diag);
}

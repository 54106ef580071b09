/* SPDX-License-Identifier: Apache-2.0 */
/* What config.json says about the kind of each layer: full attention, a window, or a gated delta
 * net. */
#include "weights/config_json.h"

#include <string.h>

static whim_err refuse_type(const whim_json_scope *top, int64_t l, const char *type,
                            const whim_layer_kinds *kinds)
{
    return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                     "%s: \"%slayer_types[%lld]\" is \"%.64s\", expected full_attention%s%s",
                     top->path, top->prefix, (long long)l, type,
                     kinds->windows ? " or sliding_attention" : "",
                     kinds->deltas ? " or linear_attention" : "");
}

/* "layer_types" names the kind of every layer. */
static whim_err parse_layer_types(whim_config *config, const whim_layer_kinds *kinds,
                                  const whim_json_scope *top, const whim_json *types)
{
    int64_t n = whim_json_size(types);
    for (int64_t l = 0; l < n; l++) {
        const char *type = NULL;
        if (!whim_json_as_string(whim_json_at(types, l), &type)) {
            return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%slayer_types[%lld]\" is %s, expected a string", top->path,
                             top->prefix, (long long)l, whim_json_kind(whim_json_at(types, l)));
        }
        bool full = strcmp(type, "full_attention") == 0;
        bool delta = kinds->deltas && strcmp(type, "linear_attention") == 0;
        bool slides = kinds->windows && strcmp(type, "sliding_attention") == 0;
        if (!full && !delta && !slides) {
            return refuse_type(top, l, type, kinds);
        }
        if (slides && config->window == 0) {
            return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%slayer_types[%lld]\" is \"sliding_attention\", expected "
                             "\"use_sliding_window\" true and a number in \"sliding_window\" "
                             "beside it",
                             top->path, top->prefix, (long long)l);
        }
        if (delta && l < config->n_layer) {
            whim_config_set_gdn(config, (int32_t)l);
        }
        if (slides && l < config->n_layer) {
            whim_config_set_windowed(config, (int32_t)l);
        }
    }
    if (n != config->n_layer && (kinds->windows || kinds->deltas)) {
        return whim_fail(top->diag, WHIM_ERR_CORRUPT,
                         "%s: \"%slayer_types\" has %lld entries, expected one for each of the %d "
                         "layers",
                         top->path, top->prefix, (long long)n, config->n_layer);
    }
    return WHIM_ERR_OK;
}

/* The size of windows; null means none, silence the reference's 4096. */
static whim_err parse_window(whim_config *config, const whim_layer_kinds *kinds,
                             const whim_json_scope *top)
{
    bool is_null = whim_json_is_null(top, "sliding_window");
    bool uses = kinds->all ? !is_null : kinds->by_type && whim_json_has(top, "layer_types");
    int32_t window = is_null ? 0 : 4096;
    if (!kinds->all) {
        WHIM_TRY(whim_json_get_bool(top, "use_sliding_window", &uses));
    }
    if (uses) {
        WHIM_TRY(whim_json_get_int32(top, "sliding_window", 1, INT32_MAX, &window));
        config->window = window;
    }
    return WHIM_ERR_OK;
}

whim_err whim_config_parse_layers(whim_config *config, const whim_layer_kinds *kinds,
                                  const whim_json_scope *top)
{
    const whim_json *types = NULL;
    int64_t first = 28, interval = 4;
    if (kinds->windows) {
        WHIM_TRY(parse_window(config, kinds, top));
    }
    WHIM_TRY(whim_json_get_array(top, "layer_types", &types));
    if (types != NULL) {
        return parse_layer_types(config, kinds, top, types);
    }
    if (config->window > 0) {
        WHIM_TRY(whim_json_get_int(top, "max_window_layers", 0, INT32_MAX, &first));
        for (int64_t l = kinds->all ? 0 : first; l < config->n_layer; l++) {
            whim_config_set_windowed(config, (int32_t)l);
        }
    }
    if (kinds->deltas) {
        WHIM_TRY(
            whim_json_get_int(top, "full_attention_interval", 1, WHIM_CONFIG_MAX_LAYER, &interval));
        whim_config_set_gdn_interval(config, interval);
    }
    return WHIM_ERR_OK;
}

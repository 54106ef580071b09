/* SPDX-License-Identifier: Apache-2.0 */
/* The makers' wishes for sampling. */
#include "weights/generation.h"

#include "weights/config_json.h"
#include "weights/gguf/gguf.h"

#include <stddef.h>

enum { MAX_TOP_K = 1 << 24 };

static const double MAX_TEMPERATURE = 100, MAX_PENALTY = 100, MIN_PENALTY = 0.01;

const whim_generation whim_generation_ours = {
    .temperature = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05, .repetition_penalty = 1};

/* Everything off: what a file starts from that says something. */
static whim_generation plain(whim_generation_source source)
{
    return (whim_generation){
        .source = source, .temperature = 1, .top_p = 1, .repetition_penalty = 1};
}

static whim_err fields_read(whim_generation *out, const whim_json_scope *top)
{
    static const char *const keys[] = {"do_sample", "temperature", "top_k",
                                       "top_p",     "min_p",       "repetition_penalty"};
    bool any = false, sample = true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        any = any || whim_json_has(top, keys[i]);
    }
    if (!any) {
        return WHIM_ERR_OK;
    }
    whim_generation read = plain(WHIM_GENERATION_CONFIG);
    WHIM_TRY(whim_json_get_bool(top, "do_sample", &sample));
    WHIM_TRY(whim_json_get_real(top, "temperature", 0, MAX_TEMPERATURE, &read.temperature));
    WHIM_TRY(whim_json_get_int(top, "top_k", -1, INT64_MAX, &read.top_k)); /* -1: off */
    read.top_k = read.top_k < 0 ? 0 : read.top_k < MAX_TOP_K ? read.top_k : MAX_TOP_K;
    WHIM_TRY(whim_json_get_real(top, "top_p", 0, 1, &read.top_p));
    WHIM_TRY(whim_json_get_real(top, "min_p", 0, 1, &read.min_p));
    WHIM_TRY(whim_json_get_real(top, "repetition_penalty", MIN_PENALTY, MAX_PENALTY,
                                &read.repetition_penalty));
    if (!sample) {
        read.temperature = 0;
    }
    *out = read;
    return WHIM_ERR_OK;
}

whim_err whim_generation_parse(whim_generation *out, whim_config *config, const char *text,
                               int64_t n, const char *path, whim_diag *diag)
{
    static const whim_json_limits limits = {.max_bytes = 16 << 20, .max_depth = 32};
    whim_json *json = NULL;
    WHIM_TRY(whim_json_parse(&json, text, n, limits, path, diag));
    whim_json_scope top = {.obj = json, .path = path, .prefix = "", .diag = diag};
    whim_err err = config != NULL ? whim_config_parse_eos(config, &top) : WHIM_ERR_OK;
    if (err == WHIM_ERR_OK) {
        err = fields_read(out, &top);
        out->refused = err == WHIM_ERR_OK ? NULL : "";
    }
    whim_json_free(json);
    return err;
}

static whim_err keys_read(whim_generation *out, const whim_gguf *gguf, whim_diag *diag)
{
    static const char *const keys[] = {"general.sampling.temp", "general.sampling.top_k",
                                       "general.sampling.top_p", "general.sampling.min_p",
                                       "general.sampling.penalty_repeat"};
    bool any = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        any = any || whim_gguf_find_key(gguf, keys[i]) != NULL;
    }
    if (!any) {
        return WHIM_ERR_OK;
    }
    whim_generation read = plain(WHIM_GENERATION_GGUF);
    WHIM_TRY(whim_gguf_get_real(gguf, keys[0], 0, MAX_TEMPERATURE, &read.temperature, diag));
    WHIM_TRY(whim_gguf_get_int(gguf, keys[1], -1, MAX_TOP_K, &read.top_k, diag));
    read.top_k = read.top_k < 0 ? 0 : read.top_k;
    WHIM_TRY(whim_gguf_get_real(gguf, keys[2], 0, 1, &read.top_p, diag));
    WHIM_TRY(whim_gguf_get_real(gguf, keys[3], 0, 1, &read.min_p, diag));
    WHIM_TRY(whim_gguf_get_real(gguf, keys[4], MIN_PENALTY, MAX_PENALTY, &read.repetition_penalty,
                                diag));
    *out = read;
    return WHIM_ERR_OK;
}

whim_err whim_generation_read_gguf(whim_generation *out, const whim_gguf *gguf, whim_diag *diag)
{
    whim_err err = keys_read(out, gguf, diag);
    out->refused = err == WHIM_ERR_OK ? NULL : "";
    return err;
}

const char *whim_generation_source_name(whim_generation_source source)
{
    static const char *const names[] = {"whimbrel", "generation_config.json", "the GGUF file"};
    return names[source];
}

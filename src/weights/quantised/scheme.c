/* SPDX-License-Identifier: Apache-2.0 */
/* Reading "quantization_config". */
#include "weights/quantised/scheme.h"

#include "base/json.h"
#include "weights/ckpt_build.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const whim_json_limits limits = {.max_bytes = 16 << 20, .max_depth = 64};
static const char supported[] =
    "supported are \"fp8\", \"compressed-tensors\" (8-bit integers and floats, packed 4- and 8-bit "
    "integers), \"gptq\" and "
    "\"awq\"; use such a checkpoint, the unquantised model or a GGUF file";

static whim_err refuse(const whim_json_scope *s, const char *key, const char *value)
{
    return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED, "%s: \"%s%s\" is \"%.64s\"; %s", s->path,
                     s->prefix, key, value, supported);
}

static bool is_one_of(const char *value, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strcasecmp(value, *list) == 0) {
            return true;
        }
    }
    return false;
}

/* A string field that must be one of a few, or absent. */
static whim_err check_word(const whim_json_scope *s, const char *key, const char *const *allowed)
{
    const char *value = NULL;
    WHIM_TRY(whim_json_get_string(s, key, &value));
    return value == NULL || is_one_of(value, allowed) ? WHIM_ERR_OK : refuse(s, key, value);
}

static void *take_of_arena(size_t bytes, void *arena)
{
    return whim_arena_alloc(arena, (int64_t)bytes);
}

static void keep(void *ptr, void *arena)
{
    (void)ptr;
    (void)arena;
}

/* For Python's re.match: from the beginning, not to the end. All memory is of the arena and goes
 * with it. */
static whim_err compile(const char *pattern, whim_arena *arena, const whim_json_scope *s,
                        const char *key, void **out)
{
    int code = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE at = 0;
    pcre2_general_context *general = pcre2_general_context_create(take_of_arena, keep, arena);
    pcre2_compile_context *context = general != NULL ? pcre2_compile_context_create(general) : NULL;
    if (context != NULL) {
        *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED, &code, &at,
                             context);
    }
    if (*out == NULL && (context == NULL || code == PCRE2_ERROR_HEAP_FAILED)) {
        return whim_fail(s->diag, WHIM_ERR_NO_MEMORY, "%s: no memory", s->path);
    }
    if (*out == NULL) {
        char text[160];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return whim_fail(
            s->diag, WHIM_ERR_CORRUPT,
            "%s: \"%s%s\" holds \"re:%.64s\", which is not a regular expression: %s at "
            "byte %lld",
            s->path, s->prefix, key, pattern, text, (long long)at);
    }
    return WHIM_ERR_OK;
}

static whim_err read_ignore(whim_scheme *out, whim_arena *arena, const whim_json_scope *s,
                            const char *key)
{
    const whim_json *list = NULL;
    WHIM_TRY(whim_json_get_array(s, key, &list));
    if (list == NULL || out->n_ignore > 0) {
        return WHIM_ERR_OK;
    }
    int64_t n = whim_json_size(list);
    out->ignore = whim_arena_alloc_array(arena, n, sizeof *out->ignore);
    for (int64_t i = 0; i < n && out->ignore != NULL; i++) {
        const char *entry = NULL;
        if (!whim_json_as_string(whim_json_at(list, i), &entry)) {
            return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%s%s[%lld]\" is %s, expected a string", s->path, s->prefix, key,
                             (long long)i, whim_json_kind(whim_json_at(list, i)));
        }
        whim_scheme_module *module = &out->ignore[out->n_ignore];
        if (strncmp(entry, "re:", 3) == 0) {
            WHIM_TRY(compile(entry + 3, arena, s, key, &module->regex));
        }
        module->name = whim_arena_strndup(arena, entry, (int64_t)strlen(entry));
        out->n_ignore += module->name != NULL;
    }
    return out->n_ignore == n ? WHIM_ERR_OK
                              : whim_fail(s->diag, WHIM_ERR_NO_MEMORY, "%s: no memory", s->path);
}

/* Rows and columns that share a scale, the same for all modules. */
static whim_err read_tile(whim_scheme *out, const whim_json_scope *s, const char *key)
{
    const whim_json *tile = NULL;
    WHIM_TRY(whim_json_get_array(s, key, &tile));
    for (int i = 0; tile != NULL && i < 2; i++) {
        int64_t size = 0;
        if (whim_json_size(tile) != 2 || !whim_json_as_int(whim_json_at(tile, i), &size) ||
            size < 1 || size > 1 << 20) {
            return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%s%s\" is not a pair of sizes, e.g. [128, 128]", s->path,
                             s->prefix, key);
        }
        if (out->tile[i] > 0 && out->tile[i] != size) {
            return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                             "%s: \"%s%s\" differs from that of another group; only one size is "
                             "supported",
                             s->path, s->prefix, key);
        }
        out->tile[i] = size;
    }
    return WHIM_ERR_OK;
}

static whim_err read_fp8(whim_scheme *out, const whim_json_scope *s)
{
    static const char *const formats[] = {"e4m3", "float8_e4m3fn", NULL};
    WHIM_TRY(check_word(s, "fmt", formats));
    return read_tile(out, s, "weight_block_size");
}

/* Add `fallback` or what "group_size" says to the sizes of groups, 0: nothing. */
static whim_err read_group_size(whim_scheme *out, const whim_json_scope *s, int64_t fallback)
{
    int64_t size = fallback;
    WHIM_TRY(whim_json_get_int(s, "group_size", -1, 1 << 24, &size));
    for (int32_t i = 0; i < out->n_group; i++) {
        size = out->groups[i] == size ? 0 : size;
    }
    if (size == 0) {
        return WHIM_ERR_OK;
    }
    if (out->n_group == WHIM_SCHEME_MAX_GROUP) {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%sgroup_size\" takes more than %d values in different modules",
                         s->path, s->prefix, WHIM_SCHEME_MAX_GROUP);
    }
    out->groups[out->n_group++] = size;
    return WHIM_ERR_OK;
}

static whim_err check_group(whim_scheme *out, const whim_json_scope *s, const char *name,
                            const whim_json *group)
{
    static const char *const formats[] = {"int-quantized",   "float-quantized", "pack-quantized",
                                          "naive-quantized", "dense",           NULL};
    static const char *const strategies[] = {"tensor", "channel", "group", "block", NULL};
    char prefix[128], weights_prefix[144];
    snprintf(prefix, sizeof prefix, "quantization_config.config_groups.%.40s.", name);
    whim_json_scope g = {.obj = group, .path = s->path, .prefix = prefix, .diag = s->diag};
    const whim_json *weights = NULL;
    const char *type = "int";
    int64_t bits = 8;
    WHIM_TRY(check_word(&g, "format", formats));
    WHIM_TRY(whim_json_get_object(&g, "weights", &weights));
    if (weights == NULL) {
        return WHIM_ERR_OK;
    }
    snprintf(weights_prefix, sizeof weights_prefix, "%sweights.", prefix);
    whim_json_scope w = {
        .obj = weights, .path = s->path, .prefix = weights_prefix, .diag = s->diag};
    WHIM_TRY(whim_json_get_string(&w, "type", &type));
    WHIM_TRY(whim_json_get_int(&w, "num_bits", 1, 64, &bits));
    bool is_int = strcmp(type, "int") == 0;
    if ((!is_int && strcmp(type, "float") != 0) || (bits != 8 && !(is_int && bits == 4))) {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%sweights\" are %.16s of %lld bits; %s", s->path, prefix, type,
                         (long long)bits, supported);
    }
    const char *strategy = "";
    WHIM_TRY(check_word(&w, "strategy", strategies));
    WHIM_TRY(whim_json_get_string(&w, "strategy", &strategy));
    if (strcmp(strategy, "block") == 0) {
        WHIM_TRY(whim_json_require(&w, "block_structure"));
        return read_tile(out, &w, "block_structure");
    }
    return read_group_size(out, &w, strcmp(strategy, "channel") == 0 ? -1 : 0);
}

static whim_err read_compressed(whim_scheme *out, const whim_json_scope *s)
{
    static const char *const formats[] = {"int-quantized",
                                          "float-quantized",
                                          "pack-quantized",
                                          "naive-quantized",
                                          "mixed-precision",
                                          "dense",
                                          NULL};
    static const char *const sparsity[] = {"dense", NULL};
    const whim_json *groups = NULL, *sparse = NULL;
    WHIM_TRY(check_word(s, "format", formats));
    WHIM_TRY(whim_json_get_object(s, "sparsity_config", &sparse));
    if (sparse != NULL) {
        whim_json_scope inner = {.obj = sparse,
                                 .path = s->path,
                                 .prefix = "quantization_config.sparsity_config.",
                                 .diag = s->diag};
        WHIM_TRY(check_word(&inner, "format", sparsity));
    }
    WHIM_TRY(whim_json_get_object(s, "config_groups", &groups));
    whim_json_iter iter = {.obj = groups};
    while (groups != NULL && whim_json_next(&iter)) {
        if (!whim_json_is_object(iter.value)) {
            return whim_fail(s->diag, WHIM_ERR_CORRUPT,
                             "%s: \"%sconfig_groups.%.64s\" is %s, expected an object", s->path,
                             s->prefix, iter.key, whim_json_kind(iter.value));
        }
        WHIM_TRY(check_group(out, s, iter.key, iter.value));
    }
    return WHIM_ERR_OK;
}

static whim_err read_bits(whim_scheme *out, const whim_json_scope *s, bool also8)
{
    int64_t bits = 4;
    WHIM_TRY(whim_json_get_int(s, "bits", 1, 64, &bits));
    if (bits != 4 && !(also8 && bits == 8)) {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED, "%s: \"%sbits\" is %lld, expected 4%s",
                         s->path, s->prefix, (long long)bits, also8 ? " or 8" : "");
    }
    out->bits = (int32_t)bits;
    return WHIM_ERR_OK;
}

static whim_err read_gptq(whim_scheme *out, const whim_json_scope *s)
{
    static const char *const formats[] = {"gptq", "gptq_v2", NULL};
    const char *format = "gptq";
    WHIM_TRY(check_word(s, "checkpoint_format", formats));
    WHIM_TRY(whim_json_get_string(s, "checkpoint_format", &format));
    out->zero_offset = strcasecmp(format, "gptq") == 0;
    const whim_json *modules = NULL; /* those that differ */
    WHIM_TRY(whim_json_get_object(s, "dynamic", &modules));
    whim_json_iter iter = {.obj = modules};
    while (modules != NULL && whim_json_next(&iter)) {
        whim_json_scope one = {.obj = iter.value,
                               .path = s->path,
                               .prefix = "quantization_config.dynamic.",
                               .diag = s->diag};
        if (whim_json_is_object(iter.value)) {
            WHIM_TRY(read_group_size(out, &one, 0));
        }
    }
    WHIM_TRY(read_group_size(out, s, 0));
    return read_bits(out, s, true);
}

static whim_err read_awq(whim_scheme *out, const whim_json_scope *s)
{
    static const char *const versions[] = {"gemm", NULL};
    WHIM_TRY(check_word(s, "version", versions));
    WHIM_TRY(read_group_size(out, s, 0));
    return read_bits(out, s, false);
}

static whim_err read_scheme(whim_scheme *out, whim_arena *arena, const whim_json_scope *s)
{
    const char *method = NULL;
    if (!whim_json_has(s, "quant_method") && whim_json_has(s, "bits")) {
        return whim_fail(s->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"%squant_method\" is missing beside \"%sbits\": that is a quantised "
                         "MLX model, which cannot be read; use the unquantised model or a GGUF "
                         "file",
                         s->path, s->prefix, s->prefix);
    }
    WHIM_TRY(whim_json_require(s, "quant_method"));
    WHIM_TRY(whim_json_get_string(s, "quant_method", &method));
    if (strcmp(method, "fp8") == 0) {
        out->method = WHIM_SCHEME_FP8;
        WHIM_TRY(read_fp8(out, s));
    } else if (strcmp(method, "compressed-tensors") == 0) {
        out->method = WHIM_SCHEME_COMPRESSED;
        WHIM_TRY(read_compressed(out, s));
    } else if (strcmp(method, "gptq") == 0) {
        out->method = WHIM_SCHEME_GPTQ;
        WHIM_TRY(read_gptq(out, s));
    } else if (strcmp(method, "awq") == 0) {
        out->method = WHIM_SCHEME_AWQ;
        WHIM_TRY(read_awq(out, s));
    } else {
        return refuse(s, "quant_method", method);
    }
    WHIM_TRY(read_ignore(out, arena, s, "modules_to_not_convert"));
    WHIM_TRY(read_ignore(out, arena, s, "ignored_layers"));
    return read_ignore(out, arena, s, "ignore");
}

whim_err whim_scheme_parse(whim_scheme *scheme, whim_arena *arena, const char *text, int64_t n,
                           const char *path, whim_diag *diag)
{
    static const char *const keys[] = {"quantization_config", "compression_config"};
    whim_json *json = NULL;
    *scheme = (whim_scheme){0};
    WHIM_TRY(whim_json_parse(&json, text, n, limits, path, diag));
    whim_json_scope top = {.obj = json, .path = path, .prefix = "", .diag = diag};
    const whim_json *inner = NULL, *found = NULL;
    whim_err err;
    WHIM_TRY_OUT(whim_json_get_object(&top, "text_config", &inner));
    whim_json_scope nested = {.obj = inner, .path = path, .prefix = "text_config.", .diag = diag};
    for (int i = 0; i < 2 && found == NULL; i++) {
        WHIM_TRY_OUT(whim_json_get_object(&top, keys[i], &found));
        if (found == NULL && inner != NULL) {
            WHIM_TRY_OUT(whim_json_get_object(&nested, keys[i], &found));
        }
    }
    if (found != NULL) {
        whim_json_scope s = {
            .obj = found, .path = path, .prefix = "quantization_config.", .diag = diag};
        err = read_scheme(scheme, arena, &s);
    }
out:
    whim_json_free(json);
    return err;
}

/* --- the list of modules ---------------------------------------------------------------------- */

static bool regex_fits(const pcre2_code *re, const char *name)
{
    pcre2_match_context *limit = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    bool fits = false;
    if (data != NULL && limit != NULL) {
        pcre2_set_match_limit(limit, 100000);
        fits = pcre2_match(re, (PCRE2_SPTR)name, PCRE2_ZERO_TERMINATED, 0, 0, data, limit) >= 0;
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(limit);
    return fits;
}

/* Whether `part` is a run of whole components of `name`. */
static bool is_run(const char *part, const char *name)
{
    size_t n = strlen(part);
    for (const char *at = strstr(name, part); n > 0 && at != NULL; at = strstr(at + 1, part)) {
        if ((at == name || at[-1] == '.') && (at[n] == '\0' || at[n] == '.')) {
            return true;
        }
    }
    return false;
}

bool whim_scheme_ignores(const whim_scheme *scheme, const char *module)
{
    for (int64_t i = 0; i < scheme->n_ignore; i++) {
        const whim_scheme_module *entry = &scheme->ignore[i];
        if (entry->regex != NULL ? regex_fits(entry->regex, module)
                                 : is_run(whim_ckpt_strip_prefix(entry->name), module)) {
            return true;
        }
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of each tensor of a model that is quantised, and what config.json says of it. */
#include "weights/quantised/quantize_impl.h"

#include "base/file.h"
#include "base/json.h"
#include "tensor/fp8.h"
#include "tensor/quant.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLAB_ELEMS = 1 << 20, COPY_BYTES = 4 << 20, ENTRIES = 3 };

static const whim_quantize_format formats[] = {
    [WHIM_QUANTIZE_Q8] = {.bits = 8, .group = WHIM_GROUP, .tile = 1},
    [WHIM_QUANTIZE_Q4] = {.bits = 4, .group = WHIM_GROUP, .tile = 1},
    [WHIM_QUANTIZE_FP8] = {.group = WHIM_FP8_BLOCK, .tile = 128},
};

const whim_quantize_format *whim_quantize_format_get(whim_quantize_kind kind)
{
    return &formats[kind];
}

static whim_err got(bool got_it, whim_diag *diag)
{
    return whim_got(got_it, diag, "no memory for the list of tensors");
}

/* --- which matrices --------------------------------------------------------------------------- */

/* Few rows that decide much: gates and decays. Publishers leave them alone too. */
static bool is_gate(const char *name)
{
    static const char *const leaves[] = {".shared_expert_gate.weight", ".in_proj_a.weight",
                                         ".in_proj_b.weight", ".in_proj_ba.weight"};
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
        if (whim_path_has_suffix(name, leaves[i])) {
            return true;
        }
    }
    return false;
}

static bool is_layer_matrix(const whim_param *p)
{
    return p->constant == NULL && !p->vector && !p->widen && strncmp(p->name, "layers.", 7) == 0 &&
           !is_gate(p->name) &&
           whim_dtype_get(p->parts[0].tensor->dtype)->kind == WHIM_DTYPE_KIND_FLOAT;
}

/* Whole groups and whole tiles: other programs read no others, or join such matrices before they
 * look. Experts are quantised all or none: what are rows of the one are columns of the other, so
 * both must fit. */
static bool has_fitting_shape(const whim_param *p, const whim_quantize_format *f)
{
    return p->k % f->group == 0 && p->n % f->tile == 0 &&
           (p->n_expert == 0 || p->n % f->group == 0);
}

/* The module of a part: the tensor's own, or that which an expert of a stack would have. */
static const char *module_of(whim_arena *arena, const whim_param *p, int64_t part)
{
    const whim_ckpt_tensor *t = p->parts[part].tensor;
    static const char stack[] = ".experts";
    const char *at = t->n_dim == 3 ? strstr(t->file_name, stack) : NULL;
    char name[1024];
    if (at == NULL) {
        int64_t n = (int64_t)(strlen(t->file_name) - strlen(".weight"));
        return whim_arena_strndup(arena, t->file_name, n);
    }
    int n = snprintf(name, sizeof name, "%.*s.%lld.%s",
                     (int)(at - t->file_name + (int)sizeof stack - 1), t->file_name,
                     (long long)part, p->experts.leaf);
    return whim_arena_strndup(arena, name, n < (int)sizeof name ? n : 0);
}

/* --- units and their entries ------------------------------------------------------------------ */

static int by_place(const void *a, const void *b)
{
    const whim_quantize_unit *x = a, *y = b;
    const int64_t places[3][2] = {{x->tensor->file, y->tensor->file},
                                  {x->tensor->offset, y->tensor->offset},
                                  {x->row0, y->row0}};
    for (int i = 0; i < 3; i++) {
        if (places[i][0] != places[i][1]) {
            return places[i][0] < places[i][1] ? -1 : 1;
        }
    }
    return 0;
}

static whim_err add_matrices(whim_quantize_plan *plan, const whim_ckpt *ckpt,
                             const whim_binder *binder, uint8_t *taken, whim_diag *diag)
{
    for (int64_t i = 0; i < binder->n_param; i++) {
        const whim_param *p = &binder->params[i];
        if (p->constant != NULL || !is_layer_matrix(p)) {
            continue;
        }
        bool fits = has_fitting_shape(p, plan->format);
        plan->result.n_odd += fits ? 0 : p->n_part;
        for (int64_t e = 0; e < p->n_part && fits; e++) {
            const whim_ckpt_tensor *t = p->parts[e].tensor;
            const char *module = module_of(&plan->arena, p, e);
            WHIM_TRY(got(module != NULL, diag));
            taken[t - ckpt->tensors] = 1;
            plan->units[plan->n_unit++] = (whim_quantize_unit){
                .tensor = t, .row0 = p->parts[e].row0, .n = p->n, .k = p->k, .module = module};
        }
    }
    plan->result.n_matrix = plan->n_unit;
    return WHIM_ERR_OK;
}

static whim_err add_copies(whim_quantize_plan *plan, const whim_ckpt *ckpt, const uint8_t *taken,
                           whim_diag *diag)
{
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        const whim_ckpt_tensor *t = &ckpt->tensors[i];
        if (taken[i]) {
            continue;
        }
        if (t->raw.type[0] == '\0') {
            return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                             "%s: tensor \"%.200s\" %s, and so cannot be copied either",
                             ckpt->files[t->file].path, t->file_name,
                             t->unsupported != NULL ? t->unsupported : "is of an unknown type");
        }
        plan->units[plan->n_unit++] = (whim_quantize_unit){.tensor = t};
    }
    return WHIM_ERR_OK;
}

/* An entry of a matrix, "model.layers.0.mlp.up_proj" and a suffix. */
static bool add_entry(whim_quantize_plan *plan, const char *module, const char *suffix,
                      const char *type, int64_t rows, int64_t cols, int64_t bytes)
{
    whim_safetensors_entry *e = &plan->entries[plan->n_entry++];
    size_t size = strlen(module) + strlen(suffix) + 1;
    char *name = whim_arena_alloc(&plan->arena, (int64_t)size);
    if (name == NULL) {
        return false;
    }
    snprintf(name, size, "%s%s", module, suffix);
    *e = (whim_safetensors_entry){
        .name = name,
        .as = {.n_dim = cols > 0 ? 2 : 1, .shape = {rows, cols}, .bytes = bytes},
    };
    snprintf(e->as.type, sizeof e->as.type, "%s", type);
    plan->result.bytes_out += bytes;
    plan->result.matrix_out += bytes;
    return true;
}

static bool add_matrix_entries(whim_quantize_plan *plan, const whim_quantize_unit *u)
{
    const whim_quantize_format *f = plan->format;
    const whim_dtype_info *scale = whim_dtype_get(u->tensor->dtype);
    int64_t lines = u->n / f->tile, groups = u->k / f->group;
    if (f->bits == 0) {
        return add_entry(plan, u->module, ".weight", "F8_E4M3", u->n, u->k, u->n * u->k) &&
               add_entry(plan, u->module, ".weight_scale_inv", "F32", lines, groups,
                         4 * lines * groups);
    }
    int64_t words = u->k * f->bits / 32;
    return add_entry(plan, u->module, ".weight_packed", "I32", u->n, words, 4 * u->n * words) &&
           add_entry(plan, u->module, ".weight_scale", scale->name, lines, groups,
                     scale->block_bytes * lines * groups) &&
           add_entry(plan, u->module, ".weight_shape", "I64", 2, 0, 16);
}

/* Entries, and slabs: rows that one worker takes at once, whole tiles of them. */
static bool cut(whim_quantize_plan *plan)
{
    for (int64_t i = 0; i < plan->n_unit; i++) {
        whim_quantize_unit *u = &plan->units[i];
        int64_t tile = plan->format->tile, size = u->n;
        u->entry = plan->n_entry;
        u->first = plan->n_slab;
        if (u->n > 0) {
            int64_t bytes = u->n * whim_dtype_row_bytes(u->tensor->dtype, u->k);
            u->step = SLAB_ELEMS / u->k / tile * tile;
            u->step = u->step < tile ? tile : u->step;
            int64_t elems = u->step * u->k;
            plan->slab_elems = elems > plan->slab_elems ? elems : plan->slab_elems;
            plan->result.bytes_in += bytes;
            plan->result.matrix_in += bytes;
            if (!add_matrix_entries(plan, u)) {
                return false;
            }
        } else {
            size = u->tensor->raw.bytes;
            u->step = COPY_BYTES;
            plan->entries[plan->n_entry++] =
                (whim_safetensors_entry){.name = u->tensor->file_name, .as = u->tensor->raw};
            plan->result.bytes_in += size;
            plan->result.bytes_out += size;
        }
        u->n_slab = (size + u->step - 1) / u->step;
        plan->n_slab += u->n_slab;
    }
    int64_t copy_elems = COPY_BYTES / (int64_t)sizeof(float);
    plan->slab_elems = plan->slab_elems > copy_elems ? plan->slab_elems : copy_elems;
    return true;
}

whim_err whim_quantize_plan_make(whim_quantize_plan *plan, const whim_ckpt *ckpt,
                                 const whim_binder *binder, whim_quantize_kind kind,
                                 whim_diag *diag)
{
    *plan = (whim_quantize_plan){.format = &formats[kind]};
    plan->result.unit = plan->format->bits == 0 ? "tiles of 128 x 128" : "groups of 32";
    whim_arena_init(&plan->arena);
    int64_t most = ckpt->n_tensor;
    for (int64_t i = 0; i < binder->n_param; i++) {
        most += binder->params[i].n_part;
    }
    uint8_t *taken = whim_arena_alloc_array(&plan->arena, ckpt->n_tensor, 1);
    plan->units = whim_arena_alloc_array(&plan->arena, most, sizeof *plan->units);
    WHIM_TRY(got(taken != NULL && plan->units != NULL, diag));
    WHIM_TRY(add_matrices(plan, ckpt, binder, taken, diag));
    if (plan->n_unit == 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "there is nothing to quantise: none of its %lld matrices divides into "
                         "%s%s",
                         (long long)plan->result.n_odd, plan->result.unit,
                         plan->format->bits == 0 ? "; --to q8 takes rows of 32" : "");
    }
    WHIM_TRY(add_copies(plan, ckpt, taken, diag));
    qsort(plan->units, (size_t)plan->n_unit, sizeof *plan->units, by_place);
    plan->entries =
        whim_arena_alloc_array(&plan->arena, ENTRIES * plan->n_unit, sizeof *plan->entries);
    return got(plan->entries != NULL && cut(plan), diag);
}

void whim_quantize_plan_free(whim_quantize_plan *plan)
{
    whim_arena_reset(&plan->arena);
}

/* --- config.json ------------------------------------------------------------------------------ */

/* Add a name, and what it is called where the text model of a multimodal folder is opened alone. */
static void add_kept(json_t *list, const char *name, int n)
{
    static const char nested[] = "model.language_model.";
    json_array_append_new(list, json_stringn(name, (size_t)n));
    if (strncmp(name, nested, sizeof nested - 1) == 0) {
        int skip = (int)sizeof nested - 1;
        json_array_append_new(list, json_sprintf("model.%.*s", n - skip, name + skip));
    }
}

/* Modules that others might take for quantised ones: the head, and what has matrices as a weight.
 * Stacks of experts are one module. */
static json_t *kept_modules(const whim_quantize_plan *plan)
{
    json_t *list = json_array();
    add_kept(list, "lm_head", 7);
    for (int64_t i = 0; i < plan->n_unit; i++) {
        const whim_ckpt_tensor *t = plan->units[i].tensor;
        const char *stack = strstr(t->file_name, ".experts.");
        if (plan->units[i].n > 0 || whim_path_has_suffix(t->file_name, "embed_tokens.weight") ||
            strcmp(t->file_name, "lm_head.weight") == 0) {
            continue;
        }
        if (t->raw.n_dim == 3 && stack != NULL) {
            add_kept(list, t->file_name, (int)(stack - t->file_name) + 8);
        } else if (t->raw.n_dim == 2 && whim_path_has_suffix(t->file_name, ".weight")) {
            add_kept(list, t->file_name, (int)(strlen(t->file_name) - strlen(".weight")));
        }
    }
    return list;
}

static json_t *describe(const whim_quantize_plan *plan)
{
    const whim_quantize_format *f = plan->format;
    if (f->bits == 0) {
        return json_pack("{s:s, s:s, s:s, s:[I, I], s:o}", "quant_method", "fp8", "fmt", "e4m3",
                         "activation_scheme", "dynamic", "weight_block_size", (json_int_t)f->tile,
                         (json_int_t)f->group, "modules_to_not_convert", kept_modules(plan));
    }
    json_t *weights =
        json_pack("{s:i, s:s, s:b, s:s, s:I, s:b}", "num_bits", f->bits, "type", "int", "symmetric",
                  1, "strategy", "group", "group_size", (json_int_t)f->group, "dynamic", 0);
    return json_pack("{s:s, s:s, s:s, s:{s:{s:[s], s:o, s:n, s:n}}, s:o}", "quant_method",
                     "compressed-tensors", "format", "pack-quantized", "quantization_status",
                     "compressed", "config_groups", "group_0", "targets", "Linear", "weights",
                     weights, "input_activations", "output_activations", "ignore",
                     kept_modules(plan));
}

/* The text stays as it is, with one field more: numbers that no double holds, or NaN, would not
 * come through a document. A field of that name can only be null here, and of a key that stands
 * twice the last value counts. */
whim_err whim_quantize_config(const whim_quantize_plan *plan, const char *text, int64_t n,
                              const char *path, char **out, whim_diag *diag)
{
    static const whim_json_limits limits = {.max_bytes = INT64_MAX, .max_depth = WHIM_JSON_DEPTH};
    whim_json *config;
    *out = NULL;
    WHIM_TRY(whim_json_parse(&config, text, n, limits, path, diag));
    const char *comma = whim_json_next(&(whim_json_iter){.obj = config}) ? "," : "";
    whim_json_free(config);
    while (text[--n] != '}') {
    }
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL) {
        n--;
    }
    json_t *made = describe(plan);
    WHIM_TRY(got(made != NULL, diag));
    whim_str all = {0};
    whim_str_append_n(&all, text, n);
    whim_str_printf(&all, "%s\n  \"quantization_config\": ", comma);
    whim_json_write(&all, made);
    whim_str_append(&all, "\n}\n");
    json_decref(made);
    *out = whim_str_take(&all);
    return got(*out != NULL, diag);
}

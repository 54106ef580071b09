/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the parts of each quantised weight, and the type that its rows get. */
#include "base/file.h"
#include "weights/ckpt_build.h"
#include "weights/quantised/recipe.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* A weight that is being put together. */
typedef struct work {
    whim_ckpt *ckpt;
    whim_diag *diag;
    const char *module;    /* "layers.0.mlp.up_proj" */
    const char *published; /* the same as its file spells it, without prefix */
    int64_t codes;         /* index of the tensor with the codes */
    whim_recipe recipe;
    whim_dtype dtype;
} work;

/* `name` without a suffix, in the arena; NULL where it does not end so, or without memory. */
static char *without(whim_arena *arena, const char *name, const char *suffix)
{
    return whim_path_has_suffix(name, suffix)
               ? whim_arena_strndup(arena, name, (int64_t)(strlen(name) - strlen(suffix)))
               : NULL;
}

/* A part by its suffix; it is no weight by itself from now on. NULL: not there. */
static whim_ckpt_tensor *find_part(const work *w, const char *suffix)
{
    char name[512];
    snprintf(name, sizeof name, "%.400s%s", w->module, suffix);
    const whim_ckpt_tensor *found = whim_ckpt_find(w->ckpt, name);
    if (found == NULL) {
        return NULL;
    }
    whim_ckpt_tensor *part = &w->ckpt->tensors[found - w->ckpt->tensors];
    part->is_part = true;
    return part;
}

/* What is stored: the shape and bytes of a tensor, also of one whose type is not ours. */
static whim_ckpt_tensor stored(const whim_ckpt_tensor *t)
{
    whim_ckpt_tensor out = *t;
    if (t->unsupported != NULL && t->raw.type[0] != '\0') {
        out.n_dim = t->raw.n_dim > 4 ? 4 : t->raw.n_dim;
        memcpy(out.shape, t->raw.shape, sizeof out.shape);
        out.bytes = t->raw.bytes;
    }
    return out;
}

static whim_err refuse(const work *w, const whim_ckpt_tensor *t, const char *what)
{
    return whim_fail(w->diag, WHIM_ERR_CORRUPT, "%s: tensor \"%.200s\" %s",
                     w->ckpt->files[t->file].path, t->file_name, what);
}

/* cols 0: a list was expected. */
static whim_err refuse_shape(const work *w, const whim_ckpt_tensor *t, int64_t rows, int64_t cols)
{
    char what[240] = "has shape [";
    whim_ckpt_tensor as = stored(t);
    for (int32_t i = 0; i < as.n_dim; i++) {
        size_t at = strlen(what);
        snprintf(what + at, sizeof what - at, "%s%lld", i > 0 ? ", " : "", (long long)as.shape[i]);
    }
    size_t at = strlen(what);
    snprintf(what + at, sizeof what - at,
             cols > 0 ? "], expected [%lld, %lld]" : "], expected [%lld]", (long long)rows,
             (long long)cols);
    return refuse(w, t, what);
}

static bool is_matrix(const whim_ckpt_tensor *t, int64_t rows, int64_t cols)
{
    return t->n_dim == 2 && t->shape[0] == rows && t->shape[1] == cols;
}

static whim_err need_part(const work *w, const char *suffix, whim_ckpt_tensor *out)
{
    const whim_ckpt_tensor *part = find_part(w, suffix);
    if (part == NULL) {
        const whim_ckpt_tensor *codes = &w->ckpt->tensors[w->codes];
        int stem = (int)(strrchr(codes->file_name, '.') - codes->file_name);
        char what[256];
        snprintf(what, sizeof what, "is quantised, and \"%.*s%s\" is missing",
                 stem < 160 ? stem : 160, codes->file_name, suffix);
        return refuse(w, codes, what);
    }
    *out = stored(part);
    return WHIM_ERR_OK;
}

static void optional_part(const work *w, const char *suffix, whim_ckpt_tensor *out)
{
    const whim_ckpt_tensor *part = find_part(w, suffix);
    *out = part != NULL ? stored(part) : (whim_ckpt_tensor){.file = -1};
}

/* Scales must be floats; zeros and groups words. */
static whim_err check_types(const work *w)
{
    const whim_recipe *r = &w->recipe;
    if (r->scales.unsupported != NULL ||
        whim_dtype_get(r->scales.dtype)->kind != WHIM_DTYPE_KIND_FLOAT) {
        return refuse(w, &r->scales, "is no F32, F16 or BF16, as scales must be");
    }
    const whim_ckpt_tensor *words[] = {&r->zeros, &r->g_idx};
    for (int i = 0; i < 2; i++) {
        if (words[i]->file >= 0 &&
            (words[i]->unsupported != NULL || words[i]->dtype != WHIM_DTYPE_I32)) {
            return refuse(w, words[i], "is no I32");
        }
    }
    return WHIM_ERR_OK;
}

/* The scales must be those of groups that config.json speaks of. */
static whim_err check_groups(const work *w)
{
    const whim_scheme *s = &w->ckpt->scheme;
    const whim_recipe *r = &w->recipe;
    char said[96] = "";
    for (int32_t i = 0; i < s->n_group; i++) {
        int64_t size = s->groups[i] < 0 ? r->k : s->groups[i];
        if (r->n_group == (r->k + size - 1) / size) {
            return WHIM_ERR_OK;
        }
        size_t at = strlen(said);
        snprintf(said + at, sizeof said - at, "%s%lld", i > 0 ? ", " : "", (long long)s->groups[i]);
    }
    if (s->n_group == 0) {
        return WHIM_ERR_OK;
    }
    char what[240];
    snprintf(
        what, sizeof what,
        "has scales for %lld groups of %lld columns, which are not groups of the \"group_size\" "
        "in config.json: %s",
        (long long)r->n_group, (long long)r->k, said);
    return refuse(w, &r->scales, what);
}

/* --- the layouts ------------------------------------------------------------------------------ */

/* X.weight as bytes, with X.weight_scale_inv for the tiles of "fp8" or X.weight_scale for all
 * else. */
static whim_err read_bytes(work *w)
{
    whim_recipe *r = &w->recipe;
    const int64_t *tile = w->ckpt->scheme.tile;
    r->layout = WHIM_RECIPE_BYTES;
    r->bits = 8;
    r->is_float = strcmp(w->ckpt->tensors[w->codes].raw.type, "F8_E4M3") == 0;
    if (r->codes.n_dim != 2) {
        return refuse(w, &r->codes, "is quantised and no matrix");
    }
    r->n = r->codes.shape[0];
    r->k = r->codes.shape[1];
    optional_part(w, ".weight_scale_inv", &r->scales);
    if (r->scales.file < 0) {
        bool is_inv = tile[0] > 0 && w->ckpt->scheme.method == WHIM_SCHEME_FP8;
        WHIM_TRY(need_part(w, is_inv ? ".weight_scale_inv" : ".weight_scale", &r->scales));
    }
    bool is_tiled = tile[0] > 0;
    int64_t n_line = is_tiled ? (r->n + tile[0] - 1) / tile[0] : r->n;
    r->n_group = is_tiled ? (r->k + tile[1] - 1) / tile[1] : 1;
    r->group_n = is_tiled ? tile[0] : 1;
    r->group_k = is_tiled ? tile[1] : r->k;
    bool is_channel = r->scales.n_dim == 1 && r->scales.shape[0] == r->n && !is_tiled;
    bool is_single = r->scales.n_dim <= 2 && r->scales.shape[0] == 1 &&
                     (r->scales.n_dim == 1 || r->scales.shape[1] == 1) && !is_tiled;
    if (is_single) {
        r->group_n = r->n;
    } else if (!is_channel && !is_matrix(&r->scales, n_line, r->n_group)) {
        return refuse_shape(w, &r->scales, n_line, r->n_group);
    }
    return WHIM_ERR_OK;
}

/* X.weight_packed of compressed-tensors; the true shape is in X.weight_shape. */
static whim_err read_packed(work *w)
{
    whim_recipe *r = &w->recipe;
    whim_ckpt_tensor shape;
    int64_t size[2] = {0};
    r->layout = WHIM_RECIPE_PACKED;
    WHIM_TRY(need_part(w, ".weight_scale", &r->scales));
    WHIM_TRY(need_part(w, ".weight_shape", &shape));
    optional_part(w, ".weight_zero_point", &r->zeros);
    optional_part(w, ".weight_g_idx", &r->g_idx);
    if (shape.bytes != (int64_t)sizeof size) {
        return refuse(w, &shape, "is no pair of I64");
    }
    shape.recipe = NULL;
    WHIM_TRY(whim_ckpt_read(w->ckpt, &shape, 0, sizeof size, size, w->diag));
    r->n = size[0];
    r->k = size[1];
    if (r->codes.n_dim != 2 || r->n < 1 || r->k < 1 || r->k > INT32_MAX ||
        r->codes.shape[0] != r->n || r->codes.shape[1] < 1) {
        return refuse_shape(w, &r->codes, r->n, r->k / 8);
    }
    r->bits = r->codes.shape[1] == (r->k + 7) / 8 ? 4 : 8;
    if (r->codes.shape[1] != (r->k * r->bits + 31) / 32) {
        return refuse_shape(w, &r->codes, r->n, (r->k + 7) / 8);
    }
    r->n_group = r->scales.n_dim == 2 ? r->scales.shape[1] : 1;
    r->group_n = 1;
    r->group_k = r->n_group > 0 ? r->k / r->n_group : 0;
    if (r->scales.n_dim < 1 || r->scales.n_dim > 2 || r->group_k < 1 ||
        r->group_k * r->n_group != r->k || r->scales.shape[0] != r->n) {
        return refuse_shape(w, &r->scales, r->n, r->n_group);
    }
    if (r->g_idx.file >= 0 && (r->g_idx.n_dim != 1 || r->g_idx.shape[0] != r->k)) {
        return refuse_shape(w, &r->g_idx, r->k, 0);
    }
    r->zero = 1 << (r->bits - 1);
    int64_t lines = (r->n * r->bits + 31) / 32;
    return r->zeros.file < 0 || is_matrix(&r->zeros, lines, r->n_group)
               ? WHIM_ERR_OK
               : refuse_shape(w, &r->zeros, lines, r->n_group);
}

/* X.qweight, X.qzeros, X.scales of GPTQ and AWQ, stored [in, out]. */
static whim_err read_transposed(work *w)
{
    whim_recipe *r = &w->recipe;
    bool is_awq = w->ckpt->scheme.method == WHIM_SCHEME_AWQ;
    r->layout = is_awq ? WHIM_RECIPE_AWQ : WHIM_RECIPE_GPTQ;
    r->zero_offset = w->ckpt->scheme.zero_offset;
    WHIM_TRY(need_part(w, ".scales", &r->scales));
    WHIM_TRY(need_part(w, ".qzeros", &r->zeros));
    if (!is_awq) {
        optional_part(w, ".g_idx", &r->g_idx);
    }
    if (r->codes.n_dim != 2 || r->scales.n_dim != 2 || r->scales.shape[0] < 1) {
        return refuse(w, &r->codes, "or its scales are not a matrix");
    }
    if (r->g_idx.file >= 0 && (r->g_idx.n_dim != 1 || r->g_idx.shape[0] > INT32_MAX)) {
        return refuse(w, &r->g_idx, "is no list of groups");
    }
    r->n = r->scales.shape[1];
    r->n_group = r->scales.shape[0];
    r->bits = w->ckpt->scheme.bits;
    int64_t lines = r->codes.shape[0];
    r->k = is_awq ? lines : r->g_idx.file >= 0 ? r->g_idx.shape[0] : lines * 32 / r->bits;
    if (!is_awq && r->k > 0 && lines * 32 == r->k * 8) {
        r->bits = 8; /* a module of its own width; its neighbours may have another */
    }
    int64_t per = 32 / r->bits;
    if (r->k < 1 || r->n < 1 || r->n % per != 0 || r->k % per != 0 ||
        !is_matrix(&r->codes, is_awq ? r->k : r->k / per, is_awq ? r->n / per : r->n)) {
        return refuse_shape(w, &r->codes, is_awq ? r->k : r->k / per, is_awq ? r->n / per : r->n);
    }
    r->group_n = 1;
    r->group_k = r->k / r->n_group;
    if (r->group_k < 1 || (r->g_idx.file < 0 && r->group_k * r->n_group != r->k)) {
        return refuse_shape(w, &r->scales, r->n_group, r->n);
    }
    return is_matrix(&r->zeros, r->n_group, r->n / per)
               ? WHIM_ERR_OK
               : refuse_shape(w, &r->zeros, r->n_group, r->n / per);
}

/* --- one weight ------------------------------------------------------------------------------- */

/* The type of its rows: the closest to what is stored that its groups allow. */
static void choose_type(work *w, const whim_recipe_facts *facts)
{
    const whim_recipe *r = &w->recipe;
    int64_t block = r->layout == WHIM_RECIPE_BYTES ? 128 : 32;
    bool fits =
        facts->in_order && r->k % block == 0 && (r->n_group == 1 || r->group_k % block == 0);
    if (r->layout == WHIM_RECIPE_BYTES) {
        w->dtype = !fits ? WHIM_DTYPE_F32 : r->is_float ? WHIM_DTYPE_FP8 : WHIM_DTYPE_INT8;
    } else if (!fits || (r->bits == 8 && !facts->zeros_usual)) {
        w->dtype = WHIM_DTYPE_F16;
    } else if (r->bits == 8) {
        w->dtype = WHIM_DTYPE_Q8_0;
    } else {
        w->dtype = facts->zeros_usual ? WHIM_DTYPE_Q4_0 : WHIM_DTYPE_Q4_1;
    }
}

static whim_err add_weight(work *w)
{
    whim_ckpt *ckpt = w->ckpt;
    whim_recipe *kept = whim_arena_alloc(&ckpt->arena, sizeof *kept);
    size_t size = strlen(w->module) + sizeof ".weight";
    char *name = whim_arena_alloc(&ckpt->arena, (int64_t)size);
    WHIM_TRY(whim_got(kept != NULL && name != NULL, w->diag, "no memory for the list of tensors"));
    snprintf(name, size, "%s.weight", w->module);
    *kept = w->recipe;
    const whim_ckpt_tensor *codes = &ckpt->tensors[w->codes];
    whim_ckpt_tensor made = {
        .name = name,
        .file_name = codes->file_name,
        .dtype = w->dtype,
        .n_dim = 2,
        .shape = {kept->n, kept->k},
        .file = codes->file,
        .offset = codes->offset,
        .recipe = kept,
    };
    if (__builtin_mul_overflow(kept->n, whim_dtype_row_bytes(w->dtype, kept->k), &made.bytes)) {
        return refuse(w, codes, "is too large");
    }
    if (kept->layout == WHIM_RECIPE_BYTES) {
        ckpt->tensors[w->codes] = made; /* it has the name already */
        return WHIM_ERR_OK;
    }
    ckpt->tensors[w->codes].is_part = true;
    return whim_ckpt_add_tensor(ckpt, &made, w->diag);
}

static whim_err assemble_one(work *w, whim_err (*read)(work *))
{
    const whim_ckpt_tensor *codes = &w->ckpt->tensors[w->codes];
    if (whim_scheme_ignores(&w->ckpt->scheme, w->published)) {
        return refuse(w, codes,
                      "is stored quantised, and config.json lists its module as not quantised");
    }
    if (stored(codes).bytes < 1) { /* sizes of an empty one are only claimed */
        return refuse(w, codes, "is quantised and empty");
    }
    w->recipe = (whim_recipe){.codes = stored(codes), .zeros = {.file = -1}, .g_idx = {.file = -1}};
    WHIM_TRY(read(w));
    WHIM_TRY(check_types(w));
    if (w->recipe.layout != WHIM_RECIPE_BYTES) {
        WHIM_TRY(check_groups(w));
    }
    whim_recipe_facts facts;
    int32_t usual = 1 << (w->recipe.bits - 1);
    float max = w->recipe.layout == WHIM_RECIPE_BYTES ? FLT_MAX / 448 : 65504.0f / 255;
    WHIM_TRY(whim_recipe_check(w->ckpt, &w->recipe, max, usual, &facts, w->diag));
    choose_type(w, &facts);
    return add_weight(w);
}

/* Which tensors hold codes, by scheme. */
static const struct {
    whim_scheme_method method;
    const char *suffix;
    whim_err (*read)(work *);
} kinds[] = {
    {WHIM_SCHEME_FP8, ".weight", read_bytes},
    {WHIM_SCHEME_COMPRESSED, ".weight", read_bytes},
    {WHIM_SCHEME_COMPRESSED, ".weight_packed", read_packed},
    {WHIM_SCHEME_GPTQ, ".qweight", read_transposed},
    {WHIM_SCHEME_AWQ, ".qweight", read_transposed},
};

static bool holds_codes(const whim_ckpt_tensor *t, whim_err (*read)(work *))
{
    return read != read_bytes ? t->unsupported == NULL && t->dtype == WHIM_DTYPE_I32
                              : t->unsupported != NULL && (strcmp(t->raw.type, "F8_E4M3") == 0 ||
                                                           strcmp(t->raw.type, "I8") == 0);
}

/* Scales of activations and of the cache: activations are narrowed by our own rule (DESIGN.md), the
 * cache by --kv-dtype. */
static bool is_about_activations(const char *name)
{
    static const char *const suffixes[] = {".input_scale", ".input_zero_point", ".k_scale",
                                           ".v_scale", ".output_scale"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (whim_path_has_suffix(name, suffixes[i])) {
            return true;
        }
    }
    return false;
}

/* Types that hold the same weights, each what the ones before it hold. */
static const whim_dtype levels[] = {WHIM_DTYPE_Q4_0, WHIM_DTYPE_Q4_1, WHIM_DTYPE_Q8_0,
                                    WHIM_DTYPE_F16};

static int level_of(const whim_ckpt_tensor *t)
{
    int level = (int)(sizeof levels / sizeof levels[0]) - 1;
    while (level >= 0 && (t->recipe == NULL || t->dtype != levels[level])) {
        level--;
    }
    return level;
}

/* Expert e of those whose first is "layers.3.mlp.experts.0.up_proj.weight". NULL: no more. */
static whim_ckpt_tensor *expert_of(const whim_ckpt *ckpt, const char *first, int64_t e)
{
    static const char zero[] = ".experts.0.";
    const char *at = strstr(first, zero);
    char name[WHIM_CKPT_NAME_MAX];
    int n = snprintf(name, sizeof name, "%.*s.experts.%lld.%s", (int)(at - first), first,
                     (long long)e, at + sizeof zero - 1);
    const whim_ckpt_tensor *found = n < (int)sizeof name ? whim_ckpt_find(ckpt, name) : NULL;
    return found != NULL ? &ckpt->tensors[found - ckpt->tensors] : NULL;
}

/* The experts of one matrix of a layer lie in one stack of one type: the least that holds all of
 * them. */
static void level_experts(const whim_ckpt *ckpt)
{
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        const char *first = ckpt->tensors[i].name;
        if (strstr(first, ".experts.0.") == NULL) {
            continue;
        }
        int most = -1;
        whim_ckpt_tensor *t;
        for (int64_t e = 0; (t = expert_of(ckpt, first, e)) != NULL; e++) {
            most = level_of(t) > most ? level_of(t) : most;
        }
        for (int64_t e = 0; most >= 0 && (t = expert_of(ckpt, first, e)) != NULL; e++) {
            if (level_of(t) >= 0) {
                t->dtype = levels[most];
                t->bytes = t->shape[0] * whim_dtype_row_bytes(t->dtype, t->shape[1]);
            }
        }
    }
}

whim_err whim_assemble(whim_ckpt *ckpt, whim_diag *diag)
{
    if (ckpt->scheme.method == WHIM_SCHEME_NONE) {
        return WHIM_ERR_OK;
    }
    int64_t n = ckpt->n_tensor; /* without those that are added below */
    for (int64_t i = 0; i < n; i++) {
        const char *name = ckpt->tensors[i].name;
        if (strncmp(name, "visual.", 7) == 0 || strncmp(name, "mtp.", 4) == 0) {
            continue; /* binding leaves them alone */
        }
        if (is_about_activations(name)) {
            ckpt->tensors[i].is_part = true;
        }
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            if (kinds[k].method != ckpt->scheme.method ||
                !holds_codes(&ckpt->tensors[i], kinds[k].read)) {
                continue;
            }
            const char *module = without(&ckpt->arena, name, kinds[k].suffix);
            const char *file_name = whim_ckpt_strip_prefix(ckpt->tensors[i].file_name);
            const char *published = without(&ckpt->arena, file_name, kinds[k].suffix);
            if (module != NULL && published != NULL) {
                work w = {.ckpt = ckpt,
                          .diag = diag,
                          .module = module,
                          .published = published,
                          .codes = i};
                WHIM_TRY(assemble_one(&w, kinds[k].read));
                break;
            }
        }
    }
    WHIM_TRY(whim_ckpt_finish(ckpt, diag));
    level_experts(ckpt);
    return WHIM_ERR_OK;
}

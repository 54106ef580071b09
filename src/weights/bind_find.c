/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the tensors of parameters and saying all that is wrong with them: step 2 of bind.h.
 * Nothing is read. */
#include "base/alloc.h"
#include "base/check.h"
#include "ops/args/moe_args.h"
#include "tensor/fp8.h"
#include "tensor/quant.h"
#include "weights/bind.h"
#include "weights/ckpt_build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REPORT_MAX = 12 };

typedef struct finder {
    whim_binder *binder;
    const whim_ckpt *ckpt;
    whim_device *device;
    whim_bind_report *rep;
} finder;

static bool report(finder *f, const char *what, const char *name)
{
    if (f->rep->n_problem++ >= REPORT_MAX) {
        return false;
    }
    whim_str_printf(&f->rep->text, "\n  %s %s", what, name);
    return true;
}

static void report_missing(finder *f, const char *name)
{
    if (f->rep->n_problem >= REPORT_MAX) { /* how a file would spell it takes a look at all names */
        f->rep->n_problem++;
        return;
    }
    char published[WHIM_CKPT_NAME_MAX];
    report(f, "missing", whim_ckpt_published_name(f->ckpt, name, published));
}

static void print_shape(whim_str *out, int32_t n_dim, const int64_t *shape)
{
    whim_str_printf(out, "[");
    for (int32_t i = 0; i < n_dim; i++) {
        whim_str_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)shape[i]);
    }
    whim_str_printf(out, "]");
}

/* Report a tensor of another shape than expected. */
static bool check_shape(finder *f, const whim_ckpt_tensor *tensor, int32_t n_dim,
                        const int64_t *shape)
{
    bool same = tensor->n_dim == n_dim;
    for (int32_t i = 0; i < n_dim && same; i++) {
        same = tensor->shape[i] == shape[i];
    }
    if (!same && report(f, "wrong shape", tensor->file_name)) {
        whim_str_printf(&f->rep->text, ": ");
        print_shape(&f->rep->text, tensor->n_dim, tensor->shape);
        whim_str_printf(&f->rep->text, ", expected ");
        print_shape(&f->rep->text, n_dim, shape);
    }
    return same;
}

static bool check_supported(finder *f, const whim_ckpt_tensor *tensor)
{
    if (tensor->unsupported != NULL) {
        report(f, tensor->file_name, tensor->unsupported);
    }
    return tensor->unsupported == NULL;
}

/* The type of a dummy checkpoint's tensor: the one asked for, where it can have it. */
static whim_dtype dummy_type(const whim_ckpt *ckpt, const whim_param *param, const char *name)
{
    bool is_wide = param->values != NULL || param->widen;
    whim_dtype dtype = is_wide ? WHIM_DTYPE_F32 : ckpt->config.dtype;
    if (dtype == WHIM_DTYPE_FP8 &&
        (strcmp(name, "embed_tokens.weight") == 0 || strcmp(name, "lm_head.weight") == 0)) {
        dtype = WHIM_DTYPE_BF16; /* as publishers of such weights leave them */
    }
    if (param->values == NULL && param->k % whim_dtype_get(dtype)->block_elems != 0) {
        dtype = WHIM_DTYPE_Q8_0; /* as quantisers do when a row is no multiple of the large block */
    }
    return dtype;
}

/* The tensor of a dummy checkpoint: what the model declared, in the type asked for. */
static const whim_ckpt_tensor *dummy_tensor(finder *f, const whim_param *param)
{
    whim_ckpt_tensor *tensor = whim_arena_alloc(&f->binder->arena, sizeof *tensor);
    if (tensor == NULL) {
        f->binder->failed = true;
        return NULL;
    }
    whim_dtype dtype = dummy_type(f->ckpt, param, param->name);
    bool stack = param->n_expert > 0;
    int64_t rows = stack ? param->n_expert * param->n : param->n;
    *tensor = (whim_ckpt_tensor){
        .name = param->name,
        .file_name = param->name,
        .dtype = dtype,
        .n_dim = param->vector && param->k == 1 ? 1
                 : stack                        ? 3
                                                : 2,
        .shape = {param->n, param->k},
        .file = -1,
        .bytes = rows * whim_dtype_row_bytes(dtype, param->k),
    };
    if (stack) {
        memcpy(tensor->shape, (int64_t[]){param->n_expert, param->n, param->k},
               3 * sizeof tensor->shape[0]);
    }
    return tensor;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Experts that are rows of one tensor. */
static bool parts_of_stack(finder *f, whim_param *param, const whim_ckpt_tensor *tensor,
                           int64_t row, int64_t rows)
{
    const int64_t shape[3] = {param->n_expert, rows, param->k};
    for (int64_t e = 0; e < param->n_expert; e++) {
        param->parts[e] = (whim_param_part){.tensor = tensor, .row0 = e * rows + row};
    }
    return check_supported(f, tensor) && check_shape(f, tensor, 3, shape);
}

/* Bytes of "layers.3.mlp.experts" in the name of one tensor with all: that, leaf and ".weight". */
static int stem_of(const whim_param *param, const char *name)
{
    return (int)(strlen(name) - strlen(param->experts.leaf) - strlen("..weight"));
}

/* The tensor of expert e alone, and that of all with other matrices in it. */
static const whim_ckpt_tensor *find_expert(const whim_ckpt *ckpt, const whim_param *param,
                                           const char *all, int64_t e, char *name)
{
    snprintf(name, WHIM_CKPT_NAME_MAX, "%.*s.%d.%s.weight", stem_of(param, all), all, (int)e,
             param->experts.leaf);
    return whim_ckpt_find(ckpt, name);
}

static const whim_ckpt_tensor *find_fused(const whim_ckpt *ckpt, const whim_param *param,
                                          const char *all)
{
    char name[WHIM_CKPT_NAME_MAX];
    snprintf(name, sizeof name, "%.*s.%s", stem_of(param, all), all, param->experts.fused);
    return whim_ckpt_find(ckpt, name);
}

bool whim_bind_find_type(const whim_ckpt *ckpt, const whim_param *param, const char *name,
                         whim_dtype *out)
{
    if (ckpt->format == WHIM_CKPT_DUMMY) {
        *out = dummy_type(ckpt, param, name);
        return true;
    }
    const whim_ckpt_tensor *tensor = whim_ckpt_find(ckpt, name);
    if (tensor == NULL && param->n_expert > 0) {
        char each[WHIM_CKPT_NAME_MAX];
        tensor = find_fused(ckpt, param, name);
        tensor = tensor != NULL ? tensor : find_expert(ckpt, param, name, 0, each);
    }
    *out = tensor != NULL ? tensor->dtype : WHIM_DTYPE_F32;
    return tensor != NULL;
}

/* Experts that have tensors of their own; all that are missing are named. */
static bool parts_of_each(finder *f, whim_param *param)
{
    const int64_t shape[2] = {param->n, param->k};
    bool ok = true;
    for (int64_t e = 0; e < param->n_expert; e++) {
        char name[WHIM_CKPT_NAME_MAX];
        const whim_ckpt_tensor *tensor = find_expert(f->ckpt, param, param->name, e, name);
        param->parts[e].tensor = tensor;
        if (tensor == NULL) {
            report_missing(f, name);
            ok = false;
        } else {
            ok = check_supported(f, tensor) && check_shape(f, tensor, 2, shape) && ok;
        }
    }
    return ok;
}

static bool parts_of_experts(finder *f, whim_param *param)
{
    if (f->ckpt->format == WHIM_CKPT_DUMMY) {
        const whim_ckpt_tensor *tensor = dummy_tensor(f, param);
        return tensor != NULL && parts_of_stack(f, param, tensor, 0, param->n);
    }
    const whim_ckpt_tensor *tensor = whim_ckpt_find(f->ckpt, param->name);
    if (tensor != NULL) {
        return parts_of_stack(f, param, tensor, 0, param->n);
    }
    tensor = find_fused(f->ckpt, param, param->name);
    if (tensor != NULL) {
        return parts_of_stack(f, param, tensor, param->experts.fused_row,
                              param->experts.fused_rows);
    }
    if (f->ckpt->format == WHIM_CKPT_GGUF) { /* always in one */
        report_missing(f, param->name);
        return false;
    }
    return parts_of_each(f, param);
}

static bool parts_of_one(finder *f, whim_param *param)
{
    const whim_ckpt_tensor *tensor = f->ckpt->format == WHIM_CKPT_DUMMY
                                         ? dummy_tensor(f, param)
                                         : whim_ckpt_find(f->ckpt, param->name);
    param->parts[0].tensor = tensor;
    if (tensor == NULL) {
        report_missing(f, param->name);
        return false;
    }
    if (!check_supported(f, tensor)) {
        return false;
    }
    int64_t n = param->rows.n_file > 0 ? param->rows.n_file : param->n;
    const int64_t shape[2] = {n, param->k};
    if (param->vector && param->k == 1) {
        return check_shape(f, tensor, 1, shape);
    }
    if (param->vector && tensor->n_dim == 3) { /* a convolution's */
        int64_t n_outer = param->n_outer > 0 ? param->n_outer : n;
        return check_shape(f, tensor, 3, (const int64_t[]){n_outer, n / n_outer, param->k});
    }
    bool flat = param->n == 1 && tensor->n_dim == 1; /* one row may be stored as a vector */
    return flat ? check_shape(f, tensor, 1, &param->k) : check_shape(f, tensor, 2, shape);
}

/* --- types ------------------------------------------------------------------------------------ */

/* Columns that stay together, in the file and on the device. */
static int64_t block_of(const whim_param *param)
{
    int64_t from = whim_dtype_get(param->parts[0].tensor->dtype)->block_elems;
    int64_t to = whim_dtype_get(param->dtype)->block_elems;
    return from > to ? from : to;
}

/* Who cut columns has asked whim_bind_block. */
static void check_cuts(const whim_param *param)
{
    int64_t unit = block_of(param);
    for (int32_t i = 0; i < param->n_col_run; i++) {
        const whim_part *run = &param->col_runs[i];
        whim_check(run->n == 0 || (run->at % unit == 0 && run->n % unit == 0));
    }
}

static void check_types(finder *f, whim_param *param)
{
    const whim_ckpt_tensor *first = param->parts[0].tensor;
    const whim_dtype_info *type = whim_dtype_get(first->dtype);
    char what[128];
    for (int64_t i = 0; i < param->n_part; i++) {
        whim_param_part *part = &param->parts[i];
        if (part->tensor->dtype != first->dtype) {
            snprintf(what, sizeof what,
                     "type %s, but expert 0 has %s:", whim_dtype_get(part->tensor->dtype)->name,
                     type->name);
            report(f, what, part->tensor->file_name);
        }
    }
    param->dtype = param->vector || param->widen ? WHIM_DTYPE_F32 : first->dtype;
    if (f->binder->narrow != WHIM_DTYPE_F32 && !param->vector && !param->widen &&
        type->kind == WHIM_DTYPE_KIND_FLOAT && param->k % WHIM_GROUP == 0) {
        param->dtype = f->binder->narrow;
    }
    if (param->vector) {
        param->bytes = param->n_here * param->k * (int64_t)sizeof(float);
        if (type->kind != WHIM_DTYPE_KIND_FLOAT) {
            snprintf(what, sizeof what, "type %s, expected F32, F16 or BF16:", type->name);
            report(f, what, first->file_name);
        }
        return;
    }
    if (param->cols.size % block_of(param) != 0) { /* a block holds columns of two heads */
        param->cols = (whim_head_order){0};
    }
    if (param->cols_kept != NULL) {
        *param->cols_kept = param->cols.size == 0;
    }
    check_cuts(param);
    param->bytes = type->kind != WHIM_DTYPE_KIND_INT
                       ? whim_device_weight_bytes(f->device, param->dtype, whim_param_rows(param),
                                                  param->k_here)
                       : -1;
    if (param->bytes < 0) {
        snprintf(what, sizeof what, "type %s, for which the device has no kernel:", type->name);
        report(f, what, first->file_name);
    }
}

static void find_param(finder *f, whim_param *param)
{
    param->n_part = param->n_expert > 0 ? param->n_expert : 1;
    param->parts = whim_arena_alloc_array(&f->binder->arena, param->n_part, sizeof *param->parts);
    if (param->parts == NULL) {
        f->binder->failed = true;
        param->n_part = 0;
        return;
    }
    if (param->n_expert > 0 ? parts_of_experts(f, param) : parts_of_one(f, param)) {
        check_types(f, param);
    }
}

/* --- what is left ----------------------------------------------------------------------------- */

/* Of the layers after the last one. */
static bool is_draft(const whim_ckpt *ckpt, const char *name)
{
    int layer = -1, used = 0, first = ckpt->config.n_layer;
    bool in_layer = sscanf(name, "layers.%9d.%n", &layer, &used) == 1 && used > 0;
    return in_layer && layer >= first && layer < first + ckpt->config.n_draft_layer;
}

/* Tensors that a file may hold though no model needs them. */
static bool is_ignored(const whim_ckpt *ckpt, const char *name)
{
    size_t n = strlen(name);
    static const char inv_freq[] = "rotary_emb.inv_freq";
    bool is_draft = ckpt->config.draft.block > 0; /* its ends are the model's */
    return strcmp(name, WHIM_ROPE_DIVISORS_NAME) == 0 ||
           (is_draft && (strcmp(name, "embed_tokens.weight") == 0 ||
                         strcmp(name, "lm_head.weight") == 0 || strcmp(name, "draft_tokens") == 0 ||
                         strcmp(name, "d2t") == 0 || strcmp(name, "t2d") == 0)) ||
           (ckpt->config.tied_head && strcmp(name, "lm_head.weight") == 0) ||
           (n >= sizeof inv_freq - 1 && strcmp(name + n - (sizeof inv_freq - 1), inv_freq) == 0);
}

/* Layers that draft, of any family, and parts of multimodal checkpoints that generating text does
 * not need: counted, for one line to the user. */
static bool is_skipped(finder *f, const whim_ckpt_tensor *tensor)
{
    static const char *const parts[] = {"visual.", "mtp."};
    bool is_hybrid = f->ckpt->config.gdn.n_key > 0;
    for (int i = 0; i < 2; i++) {
        if ((is_hybrid && strncmp(tensor->name, parts[i], strlen(parts[i])) == 0) ||
            (i == 1 && is_draft(f->ckpt, tensor->name))) {
            f->binder->n_skipped[i]++;
            f->binder->skipped_bytes[i] += tensor->bytes;
            return true;
        }
    }
    return false;
}

static void report_extra(finder *f)
{
    const whim_ckpt *ckpt = f->ckpt;
    uint8_t *used = whim_alloc_array(ckpt->n_tensor, 1);
    if (used == NULL) {
        f->binder->failed = true;
        return;
    }
    for (int64_t i = 0; i < f->binder->n_param && ckpt->format != WHIM_CKPT_DUMMY; i++) {
        const whim_param *param = &f->binder->params[i];
        for (int64_t p = 0; p < param->n_part; p++) {
            if (param->parts[p].tensor != NULL) {
                used[param->parts[p].tensor - ckpt->tensors] = 1;
            }
        }
    }
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        if (!used[i] && !ckpt->tensors[i].is_part && !is_skipped(f, &ckpt->tensors[i]) &&
            !is_ignored(ckpt, ckpt->tensors[i].name)) {
            report(f, "extra", ckpt->tensors[i].file_name);
        }
    }
    whim_free(used);
}

/* All experts were looked for, so that every rank reports the same; a rank has its own. */
static void keep_own_experts(whim_param *param)
{
    const whim_part *own = param->own_experts;
    if (own != NULL && param->parts != NULL) {
        param->parts += own->n > 0 ? own->at : 0; /* the first one tells the type in any case */
        param->n_part = own->n;
    }
}

void whim_bind_find(whim_binder *binder, const whim_ckpt *ckpt, whim_device *device,
                    whim_bind_report *rep)
{
    finder f = {.binder = binder, .ckpt = ckpt, .device = device, .rep = rep};
    whim_check(WHIM_MOE_ROW_GRANULE % device->caps.pack_row_granule == 0);
    for (int64_t i = 0; i < binder->n_param; i++) {
        if (binder->params[i].constant == NULL) {
            find_param(&f, &binder->params[i]);
        }
    }
    report_extra(&f);
    for (int64_t i = 0; i < binder->n_param; i++) {
        keep_own_experts(&binder->params[i]);
    }
    if (rep->n_problem > REPORT_MAX) {
        whim_str_printf(&rep->text, "\n  and %lld more", (long long)(rep->n_problem - REPORT_MAX));
    }
}

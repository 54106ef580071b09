/* SPDX-License-Identifier: Apache-2.0 */
/* Declaring and matching: steps 1 and 2 of bind.h. */
#include "weights/bind.h"

#include "base/alloc.h"
#include "base/str.h"
#include "weights/rope_divisors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void whim_binder_init(whim_binder *binder)
{
    *binder = (whim_binder){0};
    whim_arena_init(&binder->arena);
}

void whim_binder_deinit(whim_binder *binder)
{
    if (binder->device != NULL) {
        whim_device_free(binder->device, binder->buffer, binder->bytes);
    }
    whim_free(binder->params);
    whim_arena_reset(&binder->arena);
    *binder = (whim_binder){0};
}

/* A new parameter at the end of the list; after a failed allocation a dummy that match reports. */
static whim_param *param_new(whim_binder *binder)
{
    if (binder->n_param == binder->cap_param) {
        int64_t cap = binder->cap_param > 0 ? binder->cap_param * 2 : 64;
        int64_t size = (int64_t)sizeof *binder->params;
        whim_param *grown = whim_realloc(binder->params, binder->n_param * size, cap * size);
        if (grown == NULL) {
            binder->failed = true;
            return NULL;
        }
        binder->params = grown;
        binder->cap_param = cap;
    }
    return &binder->params[binder->n_param];
}

static void param_add(whim_binder *binder, const whim_param *param, const char *fmt, va_list ap)
{
    char name[256];
    vsnprintf(name, sizeof name, fmt, ap);
    whim_param *slot = param_new(binder);
    char *copy = whim_arena_strndup(&binder->arena, name, (int64_t)strlen(name));
    if (slot == NULL || copy == NULL) {
        binder->failed = true;
        return;
    }
    *slot = *param;
    slot->name = copy;
    binder->n_param++;
}

void whim_bind_matrix(whim_binder *binder, const whim_bind_matrix_spec *spec, const char *fmt, ...)
{
    whim_param param = {.n = spec->n, .k = spec->k, .unpair = spec->unpair, .weight = spec->out};
    va_list ap;
    va_start(ap, fmt);
    param_add(binder, &param, fmt, ap);
    va_end(ap);
}

void whim_bind_vector(whim_binder *binder, const float **out, int64_t n, int64_t unpair,
                      const char *fmt, ...)
{
    whim_param param = {.n = n, .k = 1, .vector = true, .unpair = unpair, .values = out};
    va_list ap;
    va_start(ap, fmt);
    param_add(binder, &param, fmt, ap);
    va_end(ap);
}

void whim_bind_constant(whim_binder *binder, const void **out, const void *data, int64_t bytes)
{
    whim_param *slot = param_new(binder);
    void *copy = whim_arena_alloc(&binder->arena, bytes);
    if (slot == NULL || copy == NULL) {
        binder->failed = true;
        return;
    }
    memcpy(copy, data, (size_t)bytes);
    *slot =
        (whim_param){.name = "(constant)", .constant = copy, .constant_out = out, .bytes = bytes};
    binder->n_param++;
}

static bool shape_fits(const whim_param *param, const whim_ckpt_tensor *tensor)
{
    if (param->vector) {
        return tensor->n_dim == 1 && tensor->shape[0] == param->n;
    }
    return tensor->n_dim == 2 && tensor->shape[0] == param->n && tensor->shape[1] == param->k;
}

static void shape_print(whim_str *out, int32_t n_dim, const int64_t *shape)
{
    whim_str_printf(out, "[");
    for (int32_t i = 0; i < n_dim; i++) {
        whim_str_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)shape[i]);
    }
    whim_str_printf(out, "]");
}

/* The tensor of a dummy checkpoint: what the model declared, in the type asked for. */
static const whim_ckpt_tensor *dummy_tensor(whim_binder *binder, const whim_ckpt *ckpt,
                                            const whim_param *param)
{
    whim_ckpt_tensor *tensor = whim_arena_alloc(&binder->arena, sizeof *tensor);
    if (tensor == NULL) {
        binder->failed = true;
        return NULL;
    }
    whim_dtype dtype = param->vector ? WHIM_DTYPE_F32 : ckpt->config.dtype;
    if (!param->vector && param->k % whim_dtype_get(dtype)->block_elems != 0) {
        dtype = WHIM_DTYPE_Q8_0; /* as quantisers do when a row is no multiple of the large block */
    }
    *tensor = (whim_ckpt_tensor){
        .name = param->name,
        .file_name = param->name,
        .dtype = dtype,
        .n_dim = param->vector ? 1 : 2,
        .shape = {param->n, param->k},
        .file = -1,
        .bytes = param->n * whim_dtype_row_bytes(dtype, param->k),
    };
    return tensor;
}

enum { REPORT_MAX = 12 };

typedef struct report {
    whim_str text;
    int64_t n_problem;
} report;

static void report_tensor(report *rep, const char *what, const char *name)
{
    if (rep->n_problem++ < REPORT_MAX) {
        whim_str_printf(&rep->text, "\n  %s %s", what, name);
    }
}

/* Find one parameter's tensor and say what is wrong with it. */
static void match_param(whim_binder *binder, const whim_ckpt *ckpt, whim_device *device,
                        whim_param *param, report *rep)
{
    param->tensor = ckpt->format == WHIM_CKPT_DUMMY ? dummy_tensor(binder, ckpt, param)
                                                    : whim_ckpt_find(ckpt, param->name);
    const whim_ckpt_tensor *tensor = param->tensor;
    if (tensor == NULL) {
        report_tensor(rep, "missing", param->name);
        return;
    }
    if (tensor->unsupported != NULL) {
        report_tensor(rep, tensor->file_name, tensor->unsupported);
        return;
    }
    if (!shape_fits(param, tensor)) {
        report_tensor(rep, "wrong shape", tensor->file_name);
        if (rep->n_problem <= REPORT_MAX) {
            int64_t expected[2] = {param->n, param->k};
            whim_str_printf(&rep->text, ": ");
            shape_print(&rep->text, tensor->n_dim, tensor->shape);
            whim_str_printf(&rep->text, ", expected ");
            shape_print(&rep->text, param->vector ? 1 : 2, expected);
        }
        return;
    }
    const whim_dtype_info *type = whim_dtype_get(tensor->dtype);
    char what[96];
    if (param->vector) {
        param->bytes = param->n * (int64_t)sizeof(float);
        if (type->kind != WHIM_DTYPE_KIND_FLOAT) {
            snprintf(what, sizeof what, "type %s, expected F32, F16 or BF16:", type->name);
            report_tensor(rep, what, tensor->file_name);
        }
        return;
    }
    param->bytes = whim_device_weight_bytes(device, tensor->dtype, param->n, param->k);
    if (param->bytes < 0) {
        snprintf(what, sizeof what, "type %s, for which the device has no kernel:", type->name);
        report_tensor(rep, what, tensor->file_name);
    }
}

/* Tensors that a file may hold though no model needs them. */
static bool tensor_is_ignored(const whim_ckpt *ckpt, const char *name)
{
    size_t n = strlen(name);
    static const char inv_freq[] = "rotary_emb.inv_freq";
    return strcmp(name, WHIM_ROPE_DIVISORS_NAME) == 0 ||
           (ckpt->config.tied_head && strcmp(name, "lm_head.weight") == 0) ||
           (n >= sizeof inv_freq - 1 && strcmp(name + n - (sizeof inv_freq - 1), inv_freq) == 0);
}

static void report_extra(whim_binder *binder, const whim_ckpt *ckpt, report *rep)
{
    uint8_t *used = whim_alloc_array(ckpt->n_tensor, 1);
    if (used == NULL) {
        binder->failed = true;
        return;
    }
    for (int64_t i = 0; i < binder->n_param; i++) {
        if (binder->params[i].tensor != NULL && ckpt->format != WHIM_CKPT_DUMMY) {
            used[binder->params[i].tensor - ckpt->tensors] = 1;
        }
    }
    for (int64_t i = 0; i < ckpt->n_tensor; i++) {
        if (!used[i] && !ckpt->tensors[i].is_part &&
            !tensor_is_ignored(ckpt, ckpt->tensors[i].name)) {
            report_tensor(rep, "extra", ckpt->tensors[i].file_name);
        }
    }
    whim_free(used);
}

/* Places in the weights buffer, and provisional addresses that are offsets from 64 (never NULL). */
static void params_place(whim_binder *binder)
{
    int64_t at = 0;
    for (int64_t i = 0; i < binder->n_param; i++) {
        whim_param *param = &binder->params[i];
        param->offset = at;
        at += (param->bytes + 63) / 64 * 64;
    }
    binder->bytes = at;
    whim_bind_point(binder, (char *)64);
}

void whim_bind_point(whim_binder *binder, char *base)
{
    for (int64_t i = 0; i < binder->n_param; i++) {
        whim_param *param = &binder->params[i];
        if (param->weight != NULL) {
            *param->weight = (whim_weight){
                .dtype = param->tensor->dtype,
                .n = param->n,
                .k = param->k,
                .data = base + param->offset,
            };
        } else if (param->values != NULL) {
            *param->values = (const float *)(base + param->offset);
        } else {
            *param->constant_out = base + param->offset;
        }
    }
}

whim_err whim_bind_match(whim_binder *binder, const whim_ckpt *ckpt, whim_device *device,
                         whim_diag *diag)
{
    report rep = {0};
    for (int64_t i = 0; i < binder->n_param; i++) {
        if (binder->params[i].constant == NULL) {
            match_param(binder, ckpt, device, &binder->params[i], &rep);
        }
    }
    report_extra(binder, ckpt, &rep);
    whim_err err = WHIM_ERR_OK;
    if (binder->failed) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory while binding tensors");
    } else if (rep.n_problem > 0) {
        if (rep.n_problem > REPORT_MAX) {
            whim_str_printf(&rep.text, "\n  and %lld more",
                            (long long)(rep.n_problem - REPORT_MAX));
        }
        err = whim_fail(diag, WHIM_ERR_CORRUPT, "the tensors do not fit a %s model of %d layers:%s",
                        ckpt->config.arch, ckpt->config.n_layer, whim_str_text(&rep.text));
    } else {
        params_place(binder);
    }
    whim_str_deinit(&rep.text);
    return err;
}

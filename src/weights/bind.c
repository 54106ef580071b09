/* SPDX-License-Identifier: Apache-2.0 */
/* Declaring, and placing what was found (bind_find.c): steps 1 and 2 of bind.h. */
#include "weights/bind.h"

#include "base/alloc.h"
#include "base/check.h"
#include "ops/args/moe_args.h"
#include "tensor/quant.h"

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

/* A new parameter at the end of the list; NULL: match reports that memory ran out. */
static whim_param *param_new(whim_binder *binder)
{
    bool ok =
        whim_grow(&binder->params, binder->n_param + 1, &binder->cap_param, sizeof *binder->params);
    binder->failed |= !ok;
    return ok ? &binder->params[binder->n_param] : NULL;
}

enum { NAME_MAX_BYTES = 256 };

/* The name of a tensor, or of one with all experts. */
static void name_print(char *name, const whim_param *param, const char *fmt, va_list ap)
{
    int n = vsnprintf(name, NAME_MAX_BYTES, fmt, ap);
    if (param->n_expert > 0 && n >= 0 && n < NAME_MAX_BYTES) {
        snprintf(name + n, (size_t)(NAME_MAX_BYTES - n), ".%s.weight", param->experts.leaf);
    }
}

int64_t whim_bind_block(const whim_binder *binder, const whim_param *param, int64_t *group,
                        const char *fmt, ...)
{
    char name[NAME_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    name_print(name, param, fmt, ap);
    va_end(ap);
    whim_dtype dtype;
    bool known = binder->ckpt != NULL && whim_bind_find_type(binder->ckpt, param, name, &dtype);
    if (group != NULL) {
        *group = known && whim_dtype_get(dtype)->kind == WHIM_DTYPE_KIND_QUANT ? WHIM_GROUP : 1;
    }
    return known ? whim_dtype_get(dtype)->block_elems : 1;
}

/* A copy of runs, and how much they are of `all`. */
static const whim_part *runs_copy(whim_binder *binder, const whim_part *runs, int32_t n,
                                  int64_t all, int64_t *total)
{
    *total = all;
    if (runs == NULL) {
        return NULL;
    }
    whim_part *copy = whim_arena_alloc_array(&binder->arena, n, sizeof *copy);
    *total = 0;
    for (int32_t i = 0; i < n && copy != NULL; i++) {
        copy[i] = runs[i];
        *total += runs[i].n;
        whim_check(runs[i].at >= 0 && runs[i].n >= 0 && runs[i].at + runs[i].n <= all);
    }
    binder->failed |= copy == NULL;
    return copy;
}

void whim_bind(whim_binder *binder, const whim_param *param, const char *fmt, ...)
{
    char name[NAME_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    name_print(name, param, fmt, ap);
    va_end(ap);
    whim_param *slot = param_new(binder);
    char *copy = whim_arena_strndup(&binder->arena, name, (int64_t)strlen(name));
    if (slot == NULL || copy == NULL) {
        binder->failed = true;
        return;
    }
    *slot = *param;
    slot->vector = param->values != NULL;
    slot->k = slot->vector && param->k == 0 ? 1 : param->k;
    slot->row_runs = runs_copy(binder, param->row_runs, param->n_row_run, slot->n, &slot->n_here);
    slot->col_runs = runs_copy(binder, param->col_runs, param->n_col_run, slot->k, &slot->k_here);
    int64_t n_own;
    slot->own_experts = runs_copy(binder, param->own_experts, 1, param->n_expert, &n_own);
    slot->name = copy;
    binder->n_param++;
}

int64_t whim_param_pitch(const whim_param *param)
{
    return param->n_expert > 0 ? whim_moe_pitch(param->n_here) : param->n_here;
}

int64_t whim_param_experts(const whim_param *param)
{
    return param->own_experts != NULL ? param->own_experts->n : param->n_expert;
}

int64_t whim_param_rows(const whim_param *param)
{
    return param->n_expert > 0 ? whim_param_experts(param) * whim_param_pitch(param)
                               : param->n_here;
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

/* Places in the weights buffer, and provisional addresses that are offsets from 64 (never NULL). */
static void params_place(whim_binder *binder)
{
    int64_t at = 0;
    for (int64_t i = 0; i < binder->n_param; i++) {
        whim_param *param = &binder->params[i];
        param->offset = at;
        at += whim_aligned(param->bytes);
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
                .dtype = param->dtype,
                .n = whim_param_rows(param),
                .k = param->k_here,
                .data = base + param->offset,
            };
        } else if (param->values != NULL) {
            bool any = param->n_here > 0; /* of none of a bias there is nothing to add */
            *param->values = any ? (const float *)(base + param->offset) : NULL;
        } else {
            *param->constant_out = base + param->offset;
        }
    }
}

whim_err whim_bind_match(whim_binder *binder, const whim_ckpt *ckpt, whim_device *device,
                         whim_diag *diag)
{
    whim_bind_report rep = {0};
    whim_bind_find(binder, ckpt, device, &rep);
    whim_err err = WHIM_ERR_OK;
    if (binder->failed) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory while binding tensors");
    } else if (rep.n_problem > 0) {
        err = whim_fail(diag, WHIM_ERR_CORRUPT, "the tensors do not fit a %s model of %d layers:%s",
                        ckpt->config.arch->name, ckpt->config.n_layer, whim_str_text(&rep.text));
    } else {
        params_place(binder);
    }
    whim_str_deinit(&rep.text);
    return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* As which rows go to experts of other ranks, where somebody says so. */
#include "engine/engine_inner.h"
#include "ops/ops.h"

#include <stdio.h>

typedef struct row_type {
    const char *name;
    whim_act act;
    const char *step; /* how far a value may be from what it was */
} row_type;

static const row_type row_types[] = {
    {"f32", WHIM_ACT_F32, "nothing"},
    {"bf16", WHIM_ACT_BF16, "up to 1/256 of itself"},
    {"int8", WHIM_ACT_Q8, "up to 1/254 of the largest of its 32"},
    {"fp8", WHIM_ACT_FP8, "up to 1/16 of itself"},
};

static const row_type *row_type_of(const char *name)
{
    for (size_t i = 0; i < sizeof row_types / sizeof row_types[0]; i++) {
        if (strcmp(row_types[i].name, name) == 0) {
            return &row_types[i];
        }
    }
    return NULL;
}

/* Rows as somebody wants them; NULL: nobody does. */
static const char *wanted(const whim_engine *e)
{
    const char *name = e->cfg.deal_rows;
    return name == NULL || strcmp(name, "auto") == 0 ? NULL : name;
}

/* Whether the device stores rows so, and its experts take them. */
static bool takes(whim_device *dev, whim_act act, int64_t d_model)
{
    const whim_narrow_args narrow = {.y_type = act, .n_col = d_model};
    const whim_moe_experts_args experts = {.x_type = act};
    return act == WHIM_ACT_F32 || (dev->vt->op_accepts(dev, WHIM_OP_narrow, &narrow) &&
                                   dev->vt->op_accepts(dev, WHIM_OP_moe_experts, &experts));
}

whim_err whim_engine_choose_dispatch(whim_engine *e, whim_diag *diag)
{
    const char *name = wanted(e);
    if (name == NULL) {
        return WHIM_ERR_OK;
    }
    whim_engine_blame(e, "deal_rows");
    const row_type *type = row_type_of(name);
    int64_t d = e->ckpt.config.d_model;
    if (type == NULL) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "rows cannot travel as '%.32s'; they do as auto, f32, bf16 or int8", name);
    }
    if (e->cfg.n_deal <= 1 || (e->cfg.n_group <= 1 && e->cfg.n_share <= 1)) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "no row travels to an expert: that is so where experts are dealt (--ep) "
                         "and ranks have rows of their own (--dp or --cp)");
    }
    int64_t block = whim_act_block(type->act);
    if (d % block != 0 || whim_act_bytes(type->act, d) % (int64_t)sizeof(float) != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "rows of %lld values cannot travel as %s, in blocks of %lld; take f32",
                         (long long)d, name, (long long)(block > 1 ? block : 2));
    }
    if (!takes(e->device, type->act, d)) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "products with experts take no rows of %s on %s; take auto or f32", name,
                         e->backend->name);
    }
    e->binder.deal_rows = type->act;
    e->binder.deal_rows_fixed = true;
    return WHIM_ERR_OK;
}

bool whim_engine_dispatch_rounds(const whim_engine *e, char *out, size_t size)
{
    const char *name = wanted(e);
    const row_type *type = name != NULL ? row_type_of(name) : NULL;
    int64_t n_round = 0, d = e->ckpt.config.d_model;
    for (int64_t i = 0; i < e->binder.n_param && type != NULL && type->act != WHIM_ACT_F32; i++) {
        const whim_param *p = &e->binder.params[i];
        bool takes_rows = p->n_expert > 0 && p->k == d; /* gate and up; down takes their results */
        n_round += takes_rows && e->device->caps.acts[p->dtype] != type->act;
    }
    if (n_round > 0) {
        snprintf(out, size,
                 "rows travel to experts as %s and are rounded by that: a value by %s; with auto "
                 "nothing is",
                 name, type->step);
    }
    return n_round > 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How experts are dealt to ranks and rows go to them, where somebody says so. */
#include "engine/engine_inner.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>

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

/* Rows travel where ranks with experts have rows of their own. */
static bool rows_travel(const whim_engine *e)
{
    return e->cfg.n_deal > 1 && e->binder.deal_span == 0 &&
           (e->cfg.n_group > 1 || e->cfg.n_share > 1);
}

static whim_err stays(whim_diag *diag)
{
    return whim_fail(
        diag, WHIM_ERR_INVALID,
        "no rows are sent to experts: that needs experts on several ranks (--ep), ranks "
        "with rows of their own (--dp or --cp), and everything else whole (no --tp above "
        "these)");
}

static whim_err rows_choose(whim_engine *e, whim_diag *diag)
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
                         "rows cannot be sent as '%.32s'; expected auto, f32, bf16, int8 or fp8",
                         name);
    }
    if (!rows_travel(e)) {
        return stays(diag);
    }
    int64_t block = whim_act_block(type->act);
    if (d % block != 0 || whim_act_bytes(type->act, d) % (int64_t)sizeof(float) != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "rows of %lld values cannot be sent as %s, in blocks of %lld; use f32",
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

/* A step in which every sequence makes a token must find room. */
static whim_err slots_choose(whim_engine *e, whim_diag *diag)
{
    int64_t n = e->cfg.deal_slots, n_seq = e->runner_cfg.max_seqs;
    if (n == 0) {
        return WHIM_ERR_OK;
    }
    whim_engine_blame(e, "deal_slots");
    if (!rows_travel(e)) {
        return stays(diag);
    }
    if (n < n_seq) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%lld slots for rows are fewer than the %lld sequences of a step; take as "
                         "many at least, or fewer sequences (--max-seqs)",
                         (long long)n, (long long)n_seq);
    }
    e->binder.deal_slots = (int32_t)n;
    return WHIM_ERR_OK;
}

/* The next number of a list, 0 where there is none. */
static int64_t number_next(const char **text)
{
    char *end = NULL;
    bool is_number = **text >= '1' && **text <= '9';
    long n = is_number ? strtol(*text, &end, 10) : 0;
    if (n <= 0 || n > WHIM_MOE_MAX_EXPERT || (*end != ',' && *end != '\0') ||
        (*end == ',' && end[1] == '\0')) {
        return 0;
    }
    *text = *end == ',' ? end + 1 : end;
    return n;
}

static whim_err counts_choose(whim_engine *e, whim_diag *diag)
{
    const char *text = e->cfg.deal_counts;
    int32_t n = e->cfg.n_deal, n_expert = e->ckpt.config.moe.n_expert;
    if (text == NULL) {
        return WHIM_ERR_OK;
    }
    whim_engine_blame(e, "deal_counts");
    int32_t *counts = whim_arena_alloc_array(&e->binder.arena, n > 0 ? n : 1, sizeof *counts);
    WHIM_TRY(whim_got(counts != NULL, diag, "no memory for counts of experts"));
    int64_t sum = 0;
    for (int32_t r = 0; r < n; r++) {
        counts[r] = (int32_t)number_next(&text);
        sum = counts[r] == 0 ? -1 : sum + counts[r];
        if (sum < 0) {
            break;
        }
    }
    if (n <= 1 || sum != n_expert || *text != '\0') {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "'%.64s' does not distribute %d experts over %d ranks: expected a number "
                         "of at least 1 for each rank, with commas; their sum is the number of "
                         "experts",
                         e->cfg.deal_counts, n_expert, n > 1 ? n : 1);
    }
    e->binder.deal_counts = counts;
    return WHIM_ERR_OK;
}

whim_err whim_engine_choose_dispatch(whim_engine *e, whim_diag *diag)
{
    WHIM_TRY(rows_choose(e, diag));
    WHIM_TRY(slots_choose(e, diag));
    return counts_choose(e, diag);
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
                 "rows are sent to experts as %s, which rounds a value by %s; auto rounds "
                 "nothing",
                 name, type->step);
    }
    return n_round > 0;
}

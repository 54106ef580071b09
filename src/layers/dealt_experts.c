/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/dealt_experts.h"

#include "ops/ops.h"

/* Columns of F32 as which rows of each storage type are gathered. */
static void stored_cols_make(whim_deal *deal, int64_t d_model, int64_t *cols)
{
    for (int32_t act = 0; act < WHIM_ACT_COUNT; act++, cols += deal->n_rank) {
        int64_t bytes = whim_act_bytes((whim_act)act, d_model);
        bool whole = d_model % whim_act_block((whim_act)act) == 0 && bytes % 4 == 0;
        deal->stored_cols[act] = whole ? cols : NULL;
        for (int32_t r = 0; r < deal->n_rank; r++) {
            cols[r] = bytes / 4;
        }
    }
}

const whim_deal *whim_deal_make(const whim_config *c, whim_binder *binder)
{
    int32_t n = binder->n_deal;
    if (n <= 1) {
        return NULL;
    }
    whim_deal *deal = whim_arena_alloc(&binder->arena, sizeof *deal);
    int32_t *firsts = whim_arena_alloc_array(&binder->arena, n + 1, sizeof *firsts);
    int64_t *cols = whim_arena_alloc_array(&binder->arena, 2 * (int64_t)n, sizeof *cols);
    int64_t *stored =
        whim_arena_alloc_array(&binder->arena, WHIM_ACT_COUNT * (int64_t)n, sizeof *stored);
    if (deal == NULL || firsts == NULL || cols == NULL || stored == NULL) {
        binder->failed = true;
        return NULL;
    }
    for (int32_t r = 0; r < n; r++) {
        firsts[r] = (int32_t)whim_part_of(c->moe.n_expert, n, r).at;
        cols[r] = c->d_model;
        cols[n + r] = c->moe.top_k;
    }
    firsts[n] = c->moe.n_expert;
    *deal = (whim_deal){.n_rank = n,
                        .rank = binder->deal_rank,
                        .firsts = firsts,
                        .row_cols = cols,
                        .id_cols = cols + n,
                        .rows = binder->deal_rows,
                        .rows_fixed = binder->deal_rows_fixed};
    stored_cols_make(deal, c->d_model, stored);
    return deal;
}

/* Whether a device stores rows as `act`, and takes them so. */
static bool takes_rows(whim_device *dev, const whim_moe_experts_args *experts, whim_act act)
{
    whim_moe_experts_args apart = *experts;
    apart.weights = NULL;
    apart.x_type = act;
    const whim_narrow_args narrow = {.y_type = act, .n_col = experts->gate.k};
    return dev->vt->op_accepts(dev, WHIM_OP_moe_experts, &apart) &&
           dev->vt->op_accepts(dev, WHIM_OP_narrow, &narrow);
}

whim_act whim_deal_payload(const whim_deal *deal, whim_device *dev,
                           const whim_moe_experts_args *experts)
{
    if (deal->rows_fixed || dev == NULL) {
        return deal->rows_fixed ? deal->rows : WHIM_ACT_F32;
    }
    whim_act act = dev->caps.acts[experts->gate.dtype];
    bool fits = act == dev->caps.acts[experts->up.dtype] && deal->stored_cols[act] != NULL;
    return fits && takes_rows(dev, experts, act) ? act : WHIM_ACT_F32;
}

whim_part whim_deal_own(const whim_deal *deal)
{
    const int32_t *first = &deal->firsts[deal->rank];
    return (whim_part){first[0], first[1] - first[0]};
}

/* Rows that a rank sums of those that all have, at most. */
static int64_t share_of(const whim_deal *deal, int64_t n_row)
{
    return (n_row + deal->n_rank - 1) / deal->n_rank;
}

int64_t whim_deal_rows(const whim_deal *deal, int64_t n_row)
{
    return deal != NULL ? share_of(deal, n_row) * deal->n_rank : n_row;
}

whim_deal_space whim_deal_space_take(whim_bump *bump, const whim_deal *deal, const whim_config *c,
                                     int64_t n_row, int64_t n_each)
{
    int64_t k = c->moe.top_k, n_all = n_each > 0 ? n_each * deal->n_rank : n_row;
    int64_t choice = k * (int64_t)sizeof(int32_t);
    whim_deal_space s = {0};
    s.own_ids = whim_bump_take(bump, n_all * choice);
    s.results = whim_bump_rows(bump, n_all, k * c->d_model);
    if (n_each > 0) {
        s.padded = whim_bump_rows(bump, n_each, c->d_model);
        s.chosen = whim_bump_take(bump, n_each * choice);
        s.rows = whim_bump_rows(bump, n_all, c->d_model);
        s.all_chosen = whim_bump_take(bump, n_all * choice);
    } else {
        s.sums = whim_bump_rows(bump, share_of(deal, n_row), c->d_model);
    }
    return s;
}

/* y = the rows of all ranks, of which each has n_row. */
static whim_err gather(const whim_deal *deal, whim_stream *s, const void *x, const int64_t *cols,
                       int64_t n_row, void *y, const char *site)
{
    return whim_op_all_gather_v(s, &(whim_all_gather_v_args){.x = x,
                                                             .cols = cols,
                                                             .y = y,
                                                             .n_row = n_row,
                                                             .n_rank = deal->n_rank,
                                                             .rank = deal->rank,
                                                             .site = site});
}

/* The results of this rank's experts, and then of those that it needs of others. */
static whim_err results_make(const whim_deal *deal, whim_stream *s,
                             const whim_moe_experts_args *all, bool everywhere,
                             const whim_deal_space *space)
{
    whim_part own = whim_deal_own(deal);
    whim_moe_experts_args apart = *all;
    apart.ids = space->own_ids;
    apart.weights = NULL;
    apart.y = space->results;
    apart.y_stride = all->k_top * all->gate.k;
    apart.n_expert = own.n;
    WHIM_TRY(whim_op_shift_ids(s, &(whim_shift_ids_args){.x = all->ids,
                                                         .y = space->own_ids,
                                                         .n_row = all->n_row * all->k_top,
                                                         .by = (int32_t)-own.at}));
    WHIM_TRY(whim_op_moe_experts(s, &apart));
    return whim_op_moe_exchange(s, &(whim_moe_exchange_args){.x = space->results,
                                                             .ids = all->ids,
                                                             .firsts = deal->firsts,
                                                             .n_row = all->n_row,
                                                             .n_col = all->gate.k,
                                                             .k_top = (int32_t)all->k_top,
                                                             .n_rank = deal->n_rank,
                                                             .rank = deal->rank,
                                                             .all = everywhere,
                                                             .site = "experts"});
}

/* y = sums of n_row rows of results, from row `first` on each `step`th. Choices are those of
 * `chosen`, from its row `choice` on in the same steps where it has all rows. */
typedef struct sum_of {
    int64_t first, step;         /* among results */
    int64_t choice, choice_step; /* among choices */
    int64_t n_row;
} sum_of;

static whim_err sums_make(const whim_moe_experts_args *chosen, whim_stream *s, const float *results,
                          const sum_of *of, float *y)
{
    int64_t k = chosen->k_top, d = chosen->gate.k;
    return whim_op_moe_sum(s, &(whim_moe_sum_args){.x = results + of->first * k * d,
                                                   .x_stride = of->step * k * d,
                                                   .ids = chosen->ids + of->choice * k,
                                                   .weights = chosen->weights + of->choice * k,
                                                   .choice_stride = of->choice_step * k,
                                                   .y = y,
                                                   .y_stride = d,
                                                   .n_row = of->n_row,
                                                   .n_col = d,
                                                   .n_expert = chosen->n_expert,
                                                   .k_top = k});
}

/* This rank's rows as they travel. */
static whim_err rows_store(whim_stream *s, const whim_moe_experts_args *own, whim_act act, void *y)
{
    int64_t d = own->gate.k;
    if (act != WHIM_ACT_F32) {
        return whim_op_narrow(s, &(whim_narrow_args){.x = own->x,
                                                     .x_stride = d,
                                                     .y_type = act,
                                                     .y = y,
                                                     .y_stride = d,
                                                     .n_row = own->n_row,
                                                     .n_col = d});
    }
    return whim_op_gather_rows(s, &(whim_gather_rows_args){.x = own->x,
                                                           .x_stride = d,
                                                           .y = y,
                                                           .y_stride = d,
                                                           .n_src = own->n_row,
                                                           .n_row = own->n_row,
                                                           .n_col = d});
}

/* Padding goes to no expert, and its place among the rows of all ranks is never read. */
static whim_err rows_pad(whim_stream *s, const whim_moe_experts_args *own,
                         const whim_deal_apart *apart, whim_act act, const whim_deal_space *space)
{
    WHIM_TRY(whim_op_mask_ids(s, &(whim_mask_ids_args){.x = own->ids,
                                                       .marks = apart->marks,
                                                       .y = space->chosen,
                                                       .n_src = own->n_row,
                                                       .n_row = apart->n_each,
                                                       .n_col = own->k_top}));
    return rows_store(s, own, act, space->padded);
}

/* Ranks have rows of their own: number i * n_rank + r of all is row i of rank r. */
static whim_err experts_of_own_rows(const whim_deal *deal, whim_stream *s,
                                    const whim_moe_experts_args *own, const whim_deal_apart *apart,
                                    const whim_deal_space *space)
{
    int64_t n = apart->n_each;
    whim_act act = whim_deal_payload(deal, s->device, own);
    const int64_t *cols = deal->stored_cols[act];
    whim_moe_experts_args all = *own, chosen = *own;
    all.x = space->rows;
    all.x_type = act;
    all.ids = space->all_chosen;
    all.n_row = n * deal->n_rank;
    chosen.ids = space->chosen;
    WHIM_TRY(rows_pad(s, own, apart, act, space));
    WHIM_TRY(gather(deal, s, space->padded, cols, n, space->rows, "rows for experts"));
    WHIM_TRY(gather(deal, s, space->chosen, deal->id_cols, n, space->all_chosen, "choices"));
    WHIM_TRY(results_make(deal, s, &all, false, space));
    const sum_of of = {deal->rank, deal->n_rank, 0, 1, own->n_row};
    return sums_make(&chosen, s, space->results, &of, own->y);
}

whim_err whim_dealt_experts(const whim_deal *deal, whim_stream *s, const whim_moe_experts_args *a,
                            const whim_deal_apart *apart, const whim_deal_space *space)
{
    bool everywhere = a->n_row <= WHIM_DEAL_FEW_ROWS;
    if (apart->n_each > 0) {
        return experts_of_own_rows(deal, s, a, apart, space);
    }
    WHIM_TRY(results_make(deal, s, a, everywhere, space));
    if (everywhere) {
        return sums_make(a, s, space->results, &(sum_of){0, 1, 0, 1, a->n_row}, a->y);
    }
    int64_t n = deal->n_rank, mine = (a->n_row - deal->rank + n - 1) / n;
    WHIM_TRY(sums_make(a, s, space->results, &(sum_of){deal->rank, n, deal->rank, n, mine},
                       space->sums));
    return gather(deal, s, space->sums, deal->row_cols, share_of(deal, a->n_row), a->y,
                  "sums of experts");
}

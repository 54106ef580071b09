/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/ranks/dealt_experts.h"

#include "layers/ranks/dealt_rows.h"
#include "ops/ops.h"

/* The first expert of a rank: behind as many as were said of those before it, else evenly. */
static int32_t first_of(const whim_config *c, const whim_binder *binder, int32_t rank)
{
    int32_t first = 0;
    for (int32_t r = 0; r < rank && binder->deal_counts != NULL; r++) {
        first += binder->deal_counts[r];
    }
    return binder->deal_counts != NULL
               ? first
               : (int32_t)whim_part_of(c->moe.n_expert, binder->n_deal, rank).at;
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
    if (deal == NULL || firsts == NULL || cols == NULL) {
        binder->failed = true;
        return NULL;
    }
    for (int32_t r = 0; r < n; r++) {
        firsts[r] = first_of(c, binder, r);
        cols[r] = c->d_model;
        cols[n + r] = c->moe.top_k;
    }
    firsts[n] = c->moe.n_expert;
    *deal = (whim_deal){.n_rank = n,
                        .rank = binder->deal_rank,
                        .cut = binder->deal_span > 0,
                        .firsts = firsts,
                        .row_cols = cols,
                        .id_cols = cols + n,
                        .n_slot = binder->deal_slots > 0 ? binder->deal_slots : WHIM_DEAL_SLOTS,
                        .rows = binder->deal_rows,
                        .rows_fixed = binder->deal_rows_fixed};
    binder->failed = binder->failed || !whim_deal_forms_make(deal, c, &binder->arena);
    return deal;
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
    return deal != NULL && !deal->cut ? share_of(deal, n_row) * deal->n_rank : n_row;
}

whim_deal_space whim_deal_space_take(whim_bump *bump, const whim_deal *deal, const whim_config *c,
                                     int64_t n_row, int64_t n_each)
{
    bool apart = n_each > 0 && !deal->cut;
    int64_t k = c->moe.top_k, n_all = apart ? n_each * deal->n_rank : n_row;
    int64_t choice = k * (int64_t)sizeof(int32_t);
    whim_deal_space s = {0};
    s.own_ids = whim_bump_take(bump, n_all * choice);
    if (deal->cut) {
        return s;
    }
    s.results = whim_bump_rows(bump, n_all, k * c->d_model);
    if (apart) {
        s.padded =
            whim_bump_rows(bump, n_each < deal->n_slot ? n_each : deal->n_slot, c->d_model + k);
        s.chosen = whim_bump_take(bump, n_each * choice);
        s.rows = whim_bump_rows(bump, n_all, c->d_model + k);
        s.all_chosen = whim_bump_take(bump, n_all * choice);
    } else {
        s.chosen = whim_bump_take(bump, n_row * choice);
        s.sums = whim_bump_rows(bump, share_of(deal, n_row), c->d_model);
    }
    return s;
}

/* `all` of this rank's experts alone: choices of others add nothing. */
static whim_err own_make(const whim_deal *deal, whim_stream *s, const whim_moe_experts_args *all,
                         const whim_deal_space *space, whim_moe_experts_args *own)
{
    whim_part experts = whim_deal_own(deal);
    *own = *all;
    own->ids = space->own_ids;
    own->n_expert = experts.n;
    return whim_op_shift_ids(s, &(whim_shift_ids_args){.x = all->ids,
                                                       .y = space->own_ids,
                                                       .n_row = all->n_row * all->k_top,
                                                       .by = (int32_t)-experts.at});
}

/* The results of this rank's experts, and then of those that it needs of others. */
static whim_err results_make(const whim_deal *deal, whim_stream *s,
                             const whim_moe_experts_args *all, bool everywhere,
                             const whim_deal_space *space)
{
    whim_moe_experts_args apart;
    WHIM_TRY(own_make(deal, s, all, space, &apart));
    apart.weights = NULL;
    apart.y = space->results;
    apart.y_stride = all->k_top * all->gate.k;
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

static whim_err experts_of_own_rows(const whim_deal *deal, whim_stream *s,
                                    const whim_moe_experts_args *own, const whim_deal_apart *apart,
                                    const whim_deal_space *space)
{
    whim_moe_experts_args all, chosen = *own;
    chosen.ids = space->chosen;
    WHIM_TRY(whim_deal_dispatch(deal, s, own, apart, space, &all));
    WHIM_TRY(results_make(deal, s, &all, false, space));
    const sum_of of = {deal->rank, deal->n_rank, 0, 1, own->n_row};
    return sums_make(&chosen, s, space->results, &of, own->y);
}

/* All ranks have the same rows. */
static whim_err experts_of_all_rows(const whim_deal *deal, whim_stream *s,
                                    const whim_moe_experts_args *a, const whim_deal_space *space)
{
    bool everywhere = a->n_row <= WHIM_DEAL_FEW_ROWS;
    WHIM_TRY(results_make(deal, s, a, everywhere, space));
    if (everywhere) {
        return sums_make(a, s, space->results, &(sum_of){0, 1, 0, 1, a->n_row}, a->y);
    }
    int64_t n = deal->n_rank, mine = (a->n_row - deal->rank + n - 1) / n;
    WHIM_TRY(sums_make(a, s, space->results, &(sum_of){deal->rank, n, deal->rank, n, mine},
                       space->sums));
    return whim_deal_gather(deal, s, space->sums, deal->row_cols, share_of(deal, a->n_row), a->y,
                            "sums of experts");
}

whim_err whim_dealt_experts(const whim_deal *deal, whim_stream *s, const whim_moe_experts_args *a,
                            const whim_deal_apart *apart, const whim_deal_space *space)
{
    whim_moe_experts_args chosen = *a;
    if (deal->cut) {
        WHIM_TRY(own_make(deal, s, a, space, &chosen));
        return whim_op_moe_experts(s, &chosen);
    }
    if (apart->n_each > 0) {
        return experts_of_own_rows(deal, s, a, apart, space);
    }
    if (apart->marks != NULL) {
        chosen.ids = space->chosen;
        WHIM_TRY(whim_deal_leave_padding(s, a, apart, a->n_row, space));
    }
    return experts_of_all_rows(deal, s, &chosen, space);
}

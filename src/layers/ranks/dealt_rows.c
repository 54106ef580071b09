/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/ranks/dealt_rows.h"

#include "ops/ops.h"

enum { WORD = sizeof(float) }; /* messages are made of them */

static int64_t blocks_for(int64_t bytes, int64_t block_bytes)
{
    return (bytes + block_bytes - 1) / block_bytes;
}

bool whim_deal_forms_make(whim_deal *deal, const whim_config *config, whim_arena *arena)
{
    int64_t n = deal->n_rank, d = config->d_model, ids = config->moe.top_k * (int64_t)WORD;
    int64_t *cols = whim_arena_alloc_array(arena, WHIM_ACT_COUNT * n, sizeof *cols);
    for (int32_t i = 0; i < WHIM_ACT_COUNT && cols != NULL; i++, cols += n) {
        whim_act act = (whim_act)i;
        int64_t block = whim_act_block(act);
        int64_t stride = d + blocks_for(ids, whim_act_bytes(act, block)) * block;
        bool whole = d % block == 0 && whim_act_bytes(act, d) % WORD == 0 &&
                     whim_act_bytes(act, stride) % WORD == 0;
        deal->forms[i] = (whim_deal_form){whole ? whim_act_bytes(act, d) / WORD : 0, cols, stride};
        for (int64_t r = 0; r < n; r++) {
            cols[r] = whim_act_bytes(act, stride) / WORD;
        }
    }
    return cols != NULL;
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
    bool fits = act == dev->caps.acts[experts->up.dtype] && deal->forms[act].words > 0;
    return fits && takes_rows(dev, experts, act) ? act : WHIM_ACT_F32;
}

whim_err whim_deal_gather(const whim_deal *deal, whim_stream *s, const void *x, const int64_t *cols,
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

/* Words of rows that lie `x_stride` words apart to where they lie `y_stride` apart: a copy of bits,
 * whatever they stand for. */
static whim_err words_move(whim_stream *s, const void *x, int64_t x_stride, void *y,
                           int64_t y_stride, int64_t n_row, int64_t n_word)
{
    return whim_op_gather_rows(s, &(whim_gather_rows_args){.x = x,
                                                           .x_stride = x_stride,
                                                           .y = y,
                                                           .y_stride = y_stride,
                                                           .n_src = n_row,
                                                           .n_row = n_row,
                                                           .n_col = n_word});
}

/* This rank's rows as they travel, `stride` elements apart. */
static whim_err rows_store(whim_stream *s, const whim_moe_experts_args *own, whim_act act,
                           int64_t stride, void *y)
{
    int64_t d = own->gate.k;
    if (act == WHIM_ACT_F32) {
        return words_move(s, own->x, d, y, stride, own->n_row, d);
    }
    return whim_op_narrow(s, &(whim_narrow_args){.x = own->x,
                                                 .x_stride = d,
                                                 .y_type = act,
                                                 .y = y,
                                                 .y_stride = stride,
                                                 .n_row = own->n_row,
                                                 .n_col = d});
}

/* Each row with its choices behind it, as one message. */
static whim_err send_as_one(const whim_deal *deal, whim_stream *s, const whim_moe_experts_args *own,
                            int64_t n_each, const whim_deal_space *space,
                            whim_moe_experts_args *all)
{
    const whim_deal_form *form = &deal->forms[all->x_type];
    int64_t k = own->k_top, row = form->words, line = form->cols_with[0];
    float *mine = space->padded, *rows = space->rows;
    all->x_stride = form->stride;
    WHIM_TRY(rows_store(s, own, all->x_type, form->stride, mine));
    WHIM_TRY(words_move(s, space->chosen, k, mine + row, line, n_each, k));
    WHIM_TRY(whim_deal_gather(deal, s, mine, form->cols_with, n_each, rows, "rows for experts"));
    return words_move(s, rows + row, line, space->all_chosen, k, n_each * deal->n_rank, k);
}

/* Choices first: from them all ranks know which rows go where. */
static whim_err send_apart(const whim_deal *deal, whim_stream *s, const whim_moe_experts_args *own,
                           int64_t n_each, const whim_deal_space *space,
                           const whim_moe_experts_args *all)
{
    int64_t words = deal->forms[all->x_type].words;
    float *rows = space->rows;
    WHIM_TRY(whim_deal_gather(deal, s, space->chosen, deal->id_cols, n_each, space->all_chosen,
                              "choices"));
    WHIM_TRY(
        rows_store(s, own, all->x_type, deal->n_rank * own->gate.k, rows + deal->rank * words));
    return whim_op_moe_dispatch(s, &(whim_moe_dispatch_args){.x = rows,
                                                             .ids = space->all_chosen,
                                                             .firsts = deal->firsts,
                                                             .n_row = n_each * deal->n_rank,
                                                             .n_col = words,
                                                             .k_top = (int32_t)own->k_top,
                                                             .n_rank = deal->n_rank,
                                                             .rank = deal->rank,
                                                             .site = "rows for experts"});
}

whim_err whim_deal_leave_padding(whim_stream *s, const whim_moe_experts_args *own,
                                 const whim_deal_apart *apart, int64_t n_row,
                                 const whim_deal_space *space)
{
    return whim_op_mask_ids(s, &(whim_mask_ids_args){.x = own->ids,
                                                     .marks = apart->marks,
                                                     .y = space->chosen,
                                                     .n_src = own->n_row,
                                                     .n_row = n_row,
                                                     .n_col = own->k_top});
}

whim_err whim_deal_dispatch(const whim_deal *deal, whim_stream *s, const whim_moe_experts_args *own,
                            const whim_deal_apart *apart, const whim_deal_space *space,
                            whim_moe_experts_args *all)
{
    int64_t n = apart->n_each;
    *all = *own;
    all->x = space->rows;
    all->x_type = whim_deal_payload(deal, s->device, own);
    all->ids = space->all_chosen;
    all->n_row = n * deal->n_rank;
    WHIM_TRY(whim_deal_leave_padding(s, own, apart, n, space));
    return n <= deal->n_slot ? send_as_one(deal, s, own, n, space, all)
                             : send_apart(deal, s, own, n, space, all);
}

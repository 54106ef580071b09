/* SPDX-License-Identifier: Apache-2.0 */
/* Argument checks of all ops, made from operands.def: shapes, strides and types that the host can
 * see. Pointers may be NULL only where nothing would be read or written, or where there may be
 * none. */
#include "comm/comm.h"
#include "ops/operands.h"

/* A [n_row, n_col] matrix of rows `stride` apart. */
static inline bool matrix_ok(uint32_t use, const void *data, int64_t n_row, int64_t n_col,
                             int64_t stride)
{
    int64_t extent;
    if (n_row < 0 || n_col < 0 || __builtin_mul_overflow(n_row, stride, &extent) ||
        extent > INT64_MAX / 8) {
        return false;
    }
    bool wide = stride >= n_col || ((use & WHIM_USE_ONE_ROW) != 0 && stride == 0);
    bool there = data != NULL || (use & WHIM_USE_OPTIONAL) != 0;
    return n_row == 0 || n_col == 0 || (there && wide);
}

/* The same of a storage type: whole blocks. */
static bool acts_ok(uint32_t use, const void *data, whim_act type, int64_t n_row, int64_t n_col,
                    int64_t stride)
{
    return type >= 0 && type < WHIM_ACT_COUNT && n_col % whim_act_block(type) == 0 &&
           stride % whim_act_block(type) == 0 && matrix_ok(use, data, n_row, n_col, stride);
}

/* Head counts and dimensions small enough that no product of them overflows. */
static bool dims_ok(int64_t n_head, int64_t d_head)
{
    return n_head >= 0 && d_head >= 0 && n_head <= INT32_MAX && d_head <= INT32_MAX &&
           n_head * d_head <= INT32_MAX;
}

static bool weight_ok(const whim_weight *w)
{
    if (w->dtype < 0 || w->dtype >= WHIM_DTYPE_COUNT || w->n < 0 || w->k < 0) {
        return false;
    }
    const whim_dtype_info *info = whim_dtype_get(w->dtype);
    return info->kind != WHIM_DTYPE_KIND_INT && w->k % info->block_elems == 0 &&
           (w->data != NULL || w->n == 0 || w->k == 0);
}

static bool kv_ok(const whim_kv_view *kv)
{
    bool type_ok = kv->type >= 0 && kv->type < WHIM_KV_TYPE_COUNT;
    bool page_ok = kv->page_len >= 2 && kv->page_len <= WHIM_PAGE_LEN_MAX && kv->page_len % 2 == 0;
    return type_ok && page_ok && kv->d_head > 0 && dims_ok(kv->n_kv, kv->d_head) &&
           kv->layer_offset >= 0 &&
           kv->page_stride - kv->layer_offset >=
               whim_kv_layer_bytes(kv->n_kv, kv->d_head, kv->type, kv->page_len);
}

/* The k_top largest of n_col columns. */
static bool topk_ok(int64_t n_col, int64_t k_top)
{
    return n_col <= INT32_MAX && k_top >= 1 && k_top <= WHIM_TOPK_MAX;
}

static bool experts_ok(int64_t n_expert)
{
    return n_expert >= 1 && n_expert <= WHIM_MOE_MAX_EXPERT;
}

/* Heads of an attention and the part of each that is rotated. A rank may have none. */
static bool heads_ok(int64_t n_head, int64_t n_kv, int64_t d_head, int64_t n_freq)
{
    return d_head > 0 && dims_ok(n_head, d_head) && dims_ok(n_kv, d_head) && n_freq >= 0 &&
           n_freq <= d_head / 2;
}

/* Heads in groups of one size, one for each of n_group: none without groups. */
static bool groups_ok(int64_t n_head, int64_t n_group)
{
    return n_group > 0 ? n_head % n_group == 0 : n_head == 0;
}

/* Heads of a gated delta net, if the rank has any. */
static bool gdn_heads_ok(int64_t n_key, int64_t n_value, int64_t d_key, int64_t d_value)
{
    return d_key > 0 && d_value > 0 && d_key <= WHIM_GDN_MAX_DIM && d_value <= WHIM_GDN_MAX_DIM &&
           dims_ok(n_key, d_key) && dims_ok(n_value, d_value) && groups_ok(n_value, n_key);
}

/* Slots that hold `elems` floats for this layer. */
static bool states_ok(const whim_state_view *view, int64_t elems)
{
    int64_t bytes = elems * (int64_t)sizeof(float), extent;
    return view->offset >= 0 && view->offset % 4 == 0 && view->slot_stride % 4 == 0 &&
           view->n_slot >= 0 && view->slot_stride - view->offset >= bytes &&
           !__builtin_mul_overflow(view->n_slot, view->slot_stride, &extent) &&
           (view->slots != NULL || view->n_slot == 0);
}

static bool rank_ok(int32_t n_rank, int32_t rank)
{
    return n_rank >= 1 && n_rank <= WHIM_COMM_MAX_RANK && rank >= 0 && rank < n_rank;
}

/* Counts of ranks, none of which is too large. */
static bool ranks_ok(const int64_t *list, int32_t n_rank)
{
    for (int32_t r = 0; list != NULL && r < n_rank; r++) {
        if (list[r] < 0 || list[r] > INT64_MAX / 8 / WHIM_COMM_MAX_RANK) {
            return false;
        }
    }
    return list != NULL;
}

/* Where each rank's numbers begin, and the end of the last. */
static bool firsts_ok(const int32_t *firsts, int32_t n_rank)
{
    for (int32_t r = 0; firsts != NULL && r < n_rank; r++) {
        if (firsts[r] < 0 || firsts[r] > firsts[r + 1]) {
            return false;
        }
    }
    return firsts != NULL;
}

#define WHIM_OPERANDS(op)                                 \
    whim_err whim_##op##_check(const whim_##op##_args *a) \
    {                                                     \
        (void)a;
#define WHIM_RULE(condition)     \
    if (!(condition)) {          \
        return WHIM_ERR_INVALID; \
    }
#define WHIM_LET(name, value) int64_t name = value;
#define WHIM_MATRIX(use, field, elem, by_row, rows, cols, stride) \
    WHIM_RULE(matrix_ok(WHIM_USE_##use, a->field, rows, cols, stride))
#define WHIM_ACTS(use, field, type, cols, stride) \
    WHIM_RULE(acts_ok(WHIM_USE_##use, a->field, type, a->n_row, cols, stride))
#define WHIM_WEIGHT(field) WHIM_RULE(weight_ok(&a->field))
#define WHIM_PAGES(use, field, lead, bytes, stride) WHIM_RULE(a->field != NULL || (bytes) == 0)
#define WHIM_SLOTS(elems)
#define WHIM_SPACE(bytes)
#define WHIM_END(op)    \
    return WHIM_ERR_OK; \
    }
#include "ops/operands.def"

/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of what only drafts do. Rows of a block depend on those before them, so they cannot be run
 * alone. */
#include "checkop/harness.h"

#include "ops/args/row_args.h"

/* Blocks of up to `rows` rows each, and sometimes rows after the last one. Returns all rows. */
static int64_t blocks_make(checkop_case *c, int64_t n_seq, int64_t rows, int32_t *buf)
{
    int32_t *start;
    *buf = checkop_given(c, "q_start", n_seq + 1, &start);
    start[0] = 0;
    for (int64_t i = 0; i < n_seq; i++) {
        int64_t n = i == 0 ? rows : checkop_range(&c->rng, i % 4 == 3 ? 0 : 1, rows);
        start[i + 1] = (int32_t)(start[i] + n);
    }
    return start[n_seq] + (n_seq > 1 && checkop_chance(&c->rng, 3) ? 2 : 0);
}

/* --- pick_chain ------------------------------------------------------------------------------- */

typedef struct chain_shape {
    int64_t n_seq, rows, k_top, rank, n_hidden; /* n_hidden 0: nobody asks how sure it is */
    int64_t stride;
    bool gated, of_pairs;
    float scale, cap;
    checkop_fill fill;
} chain_shape;

static const chain_shape chains[] = {
    {0, 0, 1, 8, 0, 1, false, false, 1, 0, CHECKOP_SANE},
    {1, 1, 1, 1, 0, 1, false, false, 1, 0, CHECKOP_SANE},
    {1, 7, 16, 256, 576, 1, false, true, 1, 0, CHECKOP_SANE},
    {1, 8, 16, 256, 0, 1, true, false, 0.2f, 20, CHECKOP_SANE},
    {3, 5, 64, 17, 33, 3, true, true, 1, 0.5f, CHECKOP_WILD},
    {4, 3, 5, 0, 40, 64, false, false, 1, 0, CHECKOP_SANE},
    {5, 4, 6, 31, 15, 1, true, false, -2, 3, CHECKOP_ANY},
    {2, 9, 3, 16, 1, 2, false, true, 1, 0, CHECKOP_ANY},
    {1, CHECKOP_MANY, 1, 1, 0, 1, false, false, 1, 0, CHECKOP_SANE},
};
enum { N_CHAIN = sizeof chains / sizeof chains[0], N_RANDOM = 60, N_QUICK = 8 };

static chain_shape chain_shape_make(checkop_case *c, int32_t index)
{
    checkop_rng *rng = &c->rng;
    if (index < N_CHAIN) {
        return chains[index];
    }
    return (chain_shape){
        .n_seq = checkop_range(rng, 1, 6),
        .rows = checkop_range(rng, 1, 16),
        .k_top = checkop_pick(rng, 1, 16, WHIM_TOPK_MAX, checkop_range(rng, 1, WHIM_TOPK_MAX)),
        .rank = checkop_pick(rng, 16, 256, checkop_range(rng, 1, 70)),
        .n_hidden = checkop_pick(rng, 0, 64, checkop_range(rng, 1, 300)),
        .stride = checkop_pick(rng, 1, 1, checkop_range(rng, 1, 9)),
        .gated = checkop_chance(rng, 2),
        .of_pairs = checkop_chance(rng, 2),
        .scale = checkop_chance(rng, 2) ? 1.0f : 0.7f,
        .cap = checkop_chance(rng, 2) ? 0.0f : 2.5f,
        .fill = checkop_chance(rng, 3) ? CHECKOP_WILD : CHECKOP_SANE,
    };
}

/* Outputs: of a block all its rows, or all but the first; now and then one that is padding. */
static int64_t outputs_make(checkop_case *c, const int32_t *start, int64_t n_seq, int32_t *buf)
{
    int32_t *rows, skip = checkop_chance(&c->rng, 2);
    int64_t n = 0;
    *buf = checkop_given(c, "rows", start[n_seq] + 1, &rows);
    for (int64_t q = 0; q < n_seq; q++) {
        for (int32_t r = start[q] + skip; r < start[q + 1]; r++) {
            rows[n++] = r;
        }
    }
    while (n < start[n_seq] + 1) {
        rows[n++] = checkop_chance(&c->rng, 2) ? -1 : start[n_seq] + 1;
    }
    return n;
}

static void chain_build(checkop_case *c, const chain_shape *s)
{
    int32_t q_start, rows;
    checkop_call *call = checkop_call_add(c, WHIM_OP_pick_chain);
    whim_pick_chain_args *a = (void *)call->args.bytes;
    a->n_src = blocks_make(c, s->n_seq, s->rows, &q_start);
    a->n_row = outputs_make(c, checkop_i32(c, q_start), s->n_seq, &rows);
    a->n_seq = s->n_seq;
    a->k_top = s->k_top;
    a->rank = s->rank;
    a->n_hidden = s->n_hidden;
    a->out_stride = s->stride;
    a->scale = s->scale;
    a->cap = s->cap;
    a->sure_of_pairs = s->of_pairs;
    a->gate = s->gated ? checkop_somewhere : NULL;
    if (s->n_hidden > 0) {
        a->z = checkop_somewhere + 1;
        a->sure_w = checkop_somewhere + 2;
        a->sure_bias = checkop_somewhere + 3;
    }
    CHECKOP_BIND(c, call, pick_chain, q_start, q_start, 0);
    CHECKOP_BIND(c, call, pick_chain, rows, rows, 0);
    int32_t ids = checkop_ids(c, "ids", a->n_row * s->k_top, -1, 30);
    CHECKOP_BIND(c, call, pick_chain, ids, ids, 0);
    checkop_operands(c, call, s->fill, 1);
    CHECKOP_SUBJECT(c, call, pick_chain, 0);
    c->flops = 2.0 * (double)(a->n_row * s->k_top * s->rank);
    c->traffic = 4.0 * (double)(a->n_row * s->k_top * s->rank);
    checkop_say(c,
                "n_seq=%lld n_row=%lld k_top=%lld rank=%lld n_hidden=%lld stride=%lld gated=%d "
                "of_pairs=%d scale=%g cap=%g fill=%d",
                (long long)s->n_seq, (long long)a->n_row, (long long)s->k_top, (long long)s->rank,
                (long long)s->n_hidden, (long long)s->stride, s->gated, s->of_pairs,
                (double)s->scale, (double)s->cap, (int)s->fill);
}

static void chain_make(checkop_case *c, int32_t index)
{
    chain_shape s = chain_shape_make(c, index);
    chain_build(c, &s);
}

static bool chain_bench(checkop_case *c, int32_t i)
{
    static const chain_shape s = {1, 7, 16, 256, 4096, 1, false, true, 1, 0, CHECKOP_SANE};
    return i < 1 && (chain_build(c, &s), true);
}

static const char *chain_arguments(int32_t i, void *args)
{
    whim_pick_chain_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_pick_chain_args){.values = p,
                                .ids = p,
                                .before = p,
                                .after = p,
                                .z = p,
                                .sure_w = p,
                                .sure_bias = p,
                                .rows = p,
                                .q_start = p,
                                .tokens = p,
                                .told = p,
                                .out_stride = 1,
                                .n_row = 1,
                                .n_src = 1,
                                .k_top = 1,
                                .rank = 1,
                                .n_hidden = 1,
                                .scale = 1};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->k_top = 0, "k_top = 0";
    case 3:
        return a->k_top = WHIM_TOPK_MAX + 1, "k_top too large";
    case 4:
        return a->rank = -1, "rank < 0";
    case 5:
        return a->cap = -1, "cap < 0";
    case 6:
        return a->z = NULL, "sure_w without z";
    case 7:
        return a->sure_bias = NULL, "sure_w without a bias";
    case 8:
        return a->before = NULL, "before = NULL";
    case 9:
        return a->after = NULL, "after = NULL";
    case 10:
        return a->rows = NULL, "rows = NULL";
    case 11:
        return a->q_start = NULL, "q_start = NULL";
    case 12:
        return a->n_row = 2, a->out_stride = 0, "out_stride = 0";
    case 13:
        return a->n_seq = -1, "n_seq < 0";
    case 14:
        return a->n_src = INT64_MAX, "n_src too large";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_pick_chain = {N_CHAIN,    N_RANDOM,        N_QUICK,
                                                chain_make, chain_arguments, chain_bench};

/* --- block_conv ------------------------------------------------------------------------------- */

typedef struct conv_shape {
    int64_t n_seq, rows, n_group, group, n_tap, pad;
    bool bare; /* without delta */
    checkop_fill fill;
} conv_shape;

static const conv_shape convs[] = {
    {0, 0, 2, 4, 2, 0, false, CHECKOP_SANE},
    {1, 1, 1, 1, 1, 0, false, CHECKOP_SANE},
    {1, 8, 36, 16, 2, 0, false, CHECKOP_SANE},
    {3, 5, 7, 3, 4, 5, false, CHECKOP_WILD},
    {5, 3, 2, 17, 16, 1, true, CHECKOP_ANY},
    {4, 9, 1, 40, 3, 0, false, CHECKOP_ANY},
    {1, CHECKOP_MANY, 1, 2, 2, 1, false, CHECKOP_SANE},
};
enum { N_CONV = sizeof convs / sizeof convs[0] };

static void conv_build(checkop_case *c, const conv_shape *s)
{
    int32_t q_start;
    int64_t n_col = s->n_group * s->group;
    checkop_call *call = checkop_call_add(c, WHIM_OP_block_conv);
    whim_block_conv_args *a = (void *)call->args.bytes;
    a->n_row = blocks_make(c, s->n_seq, s->rows, &q_start);
    a->n_seq = s->n_seq;
    a->n_col = n_col;
    a->n_tap = s->n_tap;
    a->group = s->group;
    a->x_stride = a->y_stride = n_col + s->pad;
    a->delta_stride = s->bare ? 0 : 2 * s->n_tap * s->n_group;
    a->delta = s->bare ? NULL : checkop_somewhere;
    CHECKOP_BIND(c, call, block_conv, q_start, q_start, 0);
    checkop_operands(c, call, s->fill, s->pad);
    CHECKOP_SUBJECT(c, call, block_conv, 0);
    c->flops = 3.0 * (double)(a->n_row * n_col * s->n_tap);
    c->traffic = 8.0 * (double)(a->n_row * n_col);
    checkop_say(c, "n_seq=%lld n_row=%lld n_group=%lld group=%lld n_tap=%lld pad=%lld bare=%d",
                (long long)s->n_seq, (long long)a->n_row, (long long)s->n_group,
                (long long)s->group, (long long)s->n_tap, (long long)s->pad, s->bare);
}

static void conv_make(checkop_case *c, int32_t index)
{
    checkop_rng *rng = &c->rng;
    conv_shape s = {.n_seq = checkop_range(rng, 1, 6),
                    .rows = checkop_range(rng, 1, 16),
                    .n_group = checkop_range(rng, 1, 40),
                    .group = checkop_pick(rng, 1, 16, checkop_range(rng, 1, 20)),
                    .n_tap = checkop_pick(rng, 2, 2, checkop_range(rng, 1, 6)),
                    .pad = checkop_chance(rng, 2) ? 0 : checkop_range(rng, 1, 9),
                    .bare = checkop_chance(rng, 4),
                    .fill = checkop_chance(rng, 3) ? CHECKOP_WILD : CHECKOP_SANE};
    conv_build(c, index < N_CONV ? &convs[index] : &s);
}

static bool conv_bench(checkop_case *c, int32_t i)
{
    static const conv_shape s = {1, 8, 320, 16, 2, 0, false, CHECKOP_SANE};
    return i < 1 && (conv_build(c, &s), true);
}

static const char *conv_arguments(int32_t i, void *args)
{
    whim_block_conv_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_block_conv_args){.x = p,
                                .x_stride = 4,
                                .base = p,
                                .delta = p,
                                .delta_stride = 4,
                                .q_start = p,
                                .y = p,
                                .y_stride = 4,
                                .n_row = 2,
                                .n_col = 4,
                                .n_tap = 2,
                                .group = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_tap = 0, "n_tap = 0";
    case 3:
        return a->n_tap = WHIM_BLOCK_CONV_MAX_TAP + 1, "too many taps";
    case 4:
        return a->group = 0, "group = 0";
    case 5:
        return a->group = 3, "a group that does not divide n_col";
    case 6:
        return a->x_stride = 3, "x_stride < n_col";
    case 7:
        return a->delta_stride = 3, "delta_stride < its columns";
    case 8:
        return a->base = NULL, "base = NULL";
    case 9:
        return a->q_start = NULL, "q_start = NULL";
    case 10:
        return a->y = NULL, "y = NULL";
    case 11:
        return a->n_seq = -1, "n_seq < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_block_conv = {N_CONV,    N_RANDOM,       N_QUICK,
                                                conv_make, conv_arguments, conv_bench};

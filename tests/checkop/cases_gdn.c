/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the gated delta net. Convolution and recurrence continue what a slot holds, so their
 * rows cannot be run alone; slots of random contents in every call, some sequences fresh, some
 * padding, are what stands for it. */
#include "checkop/harness.h"

#include <string.h>

typedef struct gdn_shape {
    int64_t n_seq, rows; /* rows: at most, for each sequence */
    int64_t n_key, ratio, d_key, d_value, n_tap;
    int64_t pad;
    checkop_fill fill;
} gdn_shape;

static const gdn_shape hostile[] = {
    {0, 0, 1, 1, 4, 4, 4, 0, CHECKOP_SANE},
    {1, 1, 1, 1, 1, 1, 1, 0, CHECKOP_SANE},
    {1, 1, 2, 2, 128, 128, 4, 0, CHECKOP_SANE},
    {3, 5, 2, 3, 16, 33, 4, 7, CHECKOP_SANE},
    {2, 40, 1, 3, 20, 16, 2, 1, CHECKOP_WILD},
    {4, 7, 3, 1, 5, 70, 5, 0, CHECKOP_SANE},
    {1, 33, 1, 2, 64, 130, 4, 3, CHECKOP_SANE},
    {2, 9, 1, 4, 130, 12, 16, 0, CHECKOP_WILD},
    {5, 3, 2, 2, 8, 8, 4, 0, CHECKOP_ANY},
    {1, CHECKOP_MANY, 1, 1, 2, 3, 4, 0, CHECKOP_SANE},
    {22000, 1, 1, 3, 2, 2, 3, 0, CHECKOP_SANE}, /* sequences times heads: more than 16 bits */
    {1, 2, 1, 1, 1024, 1024, 4, 0, CHECKOP_SANE},
    {3, 5, 0, 2, 16, 32, 4, 1, CHECKOP_SANE}, /* a rank without heads, in both layouts */
    {1, 1, 0, 1, 128, 128, 4, 0, CHECKOP_SANE},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], N_RANDOM = 60, N_QUICK = 8 };

static gdn_shape shape_make(checkop_case *c, int32_t index)
{
    gdn_shape s;
    if (index < N_HOSTILE) {
        s = hostile[index];
    } else {
        checkop_rng *rng = &c->rng;
        s.n_seq = checkop_range(rng, 1, 5);
        s.rows = checkop_pick(rng, 1, 2, 17, checkop_range(rng, 1, 40));
        s.n_key = checkop_range(rng, 1, 4);
        s.ratio = checkop_range(rng, 1, 4);
        s.d_key = checkop_pick(rng, 16, 64, checkop_range(rng, 1, 70));
        s.d_value = checkop_pick(rng, 16, 64, 128, checkop_range(rng, 1, 150));
        s.n_tap = checkop_pick(rng, 4, 4, checkop_range(rng, 1, 9));
        s.pad = checkop_chance(rng, 2) ? 0 : checkop_range(rng, 1, 20);
        s.fill = checkop_chance(rng, 4) ? CHECKOP_WILD : CHECKOP_SANE;
    }
    checkop_say(c,
                "n_seq=%lld rows=%lld n_key=%lld ratio=%lld d_key=%lld d_value=%lld n_tap=%lld "
                "pad=%lld fill=%d",
                (long long)s.n_seq, (long long)s.rows, (long long)s.n_key, (long long)s.ratio,
                (long long)s.d_key, (long long)s.d_value, (long long)s.n_tap, (long long)s.pad,
                (int)s.fill);
    return s;
}

static bool bench_shape(checkop_case *c, int32_t i, gdn_shape *s)
{
    static const gdn_shape shapes[] = {{1, 1, 16, 2, 128, 128, 4, 0, CHECKOP_SANE},
                                       {8, 1, 16, 2, 128, 128, 4, 0, CHECKOP_SANE},
                                       {1, 128, 16, 2, 128, 128, 4, 0, CHECKOP_SANE}};
    if (i >= 3) {
        return false;
    }
    *s = shapes[i];
    checkop_say(c, "%lld x %lld rows, 16+16+32 heads of 128", (long long)s->n_seq,
                (long long)s->rows);
    return true;
}

/* --- whose rows are where --------------------------------------------------------------------- */

enum { P_START, P_SLOTS, P_OUT_SLOTS, P_POSITIONS, P_N_SEQ, P_N_SLOT, P_N_ROW };

/* New slots and positions: three in four sequences go on at some position, the others are fresh;
 * now and then one is padding. */
static void tables_fill(checkop_case *c)
{
    const int32_t *start = checkop_i32(c, (int32_t)c->param[P_START]);
    int32_t *slots = checkop_i32(c, (int32_t)c->param[P_SLOTS]);
    int32_t *out_slots = checkop_i32(c, (int32_t)c->param[P_OUT_SLOTS]);
    int32_t *positions = checkop_i32(c, (int32_t)c->param[P_POSITIONS]);
    int64_t n_seq = c->param[P_N_SEQ];
    for (int64_t r = 0; r < c->param[P_N_ROW]; r++) {
        positions[r] = 0;
    }
    for (int64_t s = 0; s < n_seq; s++) {
        int32_t at = checkop_chance(&c->rng, 4) ? 0 : (int32_t)checkop_range(&c->rng, 1, 70000);
        for (int32_t r = start[s]; r < start[s + 1]; r++) {
            positions[r] = at + r - start[s];
        }
        slots[s] = (int32_t)s;
    }
    checkop_shuffle(&c->rng, slots, n_seq);
    for (int64_t s = 0; n_seq > 1 && s < n_seq; s++) {
        if (checkop_chance(&c->rng, 8)) {
            slots[s] = checkop_chance(&c->rng, 2) ? -1 : (int32_t)c->param[P_N_SLOT];
        }
    }
    /* Most states go back; some go nowhere, some to a slot that nobody reads. */
    for (int64_t s = 0; s < n_seq; s++) {
        out_slots[s] = checkop_chance(&c->rng, 3) ? -1 : slots[s];
        if (s < 2 && checkop_chance(&c->rng, 4)) {
            out_slots[s] = (int32_t)(n_seq + s);
        }
    }
}

typedef struct gdn_tables {
    int32_t start, slots, out_slots, positions;
    int64_t n_row, n_slot;
} gdn_tables;

/* Up to `rows` rows for each sequence, and sometimes rows after the last. */
static gdn_tables tables_make(checkop_case *c, const gdn_shape *s)
{
    gdn_tables t = {.n_slot = s->n_seq + 2};
    int32_t *start;
    t.start = checkop_given(c, "q_start", s->n_seq + 1, &start);
    start[0] = 0;
    for (int64_t i = 0; i < s->n_seq; i++) {
        int64_t n = i == 0 ? s->rows : checkop_range(&c->rng, i % 4 == 3 ? 0 : 1, s->rows);
        start[i + 1] = (int32_t)(start[i] + n);
    }
    t.n_row = start[s->n_seq] + (s->n_seq > 1 && checkop_chance(&c->rng, 3) ? 2 : 0);
    int32_t *unused;
    t.slots = checkop_given(c, "state_slots", s->n_seq, &unused);
    t.out_slots = checkop_given(c, "out_slots", s->n_seq, &unused);
    t.positions = checkop_given(c, "positions", t.n_row, &unused);
    c->param[P_START] = t.start;
    c->param[P_SLOTS] = t.slots;
    c->param[P_OUT_SLOTS] = t.out_slots;
    c->param[P_POSITIONS] = t.positions;
    c->param[P_N_SEQ] = s->n_seq;
    c->param[P_N_SLOT] = t.n_slot;
    c->param[P_N_ROW] = t.n_row;
    c->refill = tables_fill;
    tables_fill(c);
    return t;
}

/* Slots whose part of a layer lies some bytes after their start. */
static whim_state_view states_view(const gdn_tables *t, int64_t elems, int64_t pad)
{
    enum { LEAD = 64 };
    return (whim_state_view){.slot_stride = 4 * (elems + pad),
                             .offset = pad >= LEAD / 4 ? LEAD : 0,
                             .n_slot = t->n_slot};
}

/* --- gdn_conv --------------------------------------------------------------------------------- */

static void conv_build(checkop_case *c, const gdn_shape *s)
{
    int64_t n_chan = s->n_key * s->d_key * 2 + s->n_key * s->ratio * s->d_value;
    gdn_tables t = tables_make(c, s);
    checkop_call *call = checkop_call_add(c, WHIM_OP_gdn_conv);
    whim_gdn_conv_args *a = (void *)call->args.bytes;
    a->x_stride = n_chan + s->pad;
    a->y_stride = n_chan + 2 * s->pad;
    a->state = states_view(&t, (s->n_tap - 1) * n_chan, s->pad);
    a->n_row = t.n_row;
    a->n_seq = s->n_seq;
    a->n_chan = n_chan;
    a->n_tap = s->n_tap;
    CHECKOP_BIND(c, call, gdn_conv, q_start, t.start, 0);
    CHECKOP_BIND(c, call, gdn_conv, state_slots, t.slots, 0);
    if (s->n_seq % 2 == 1) { /* else they go back to where they were */
        a->out_slots = checkop_some_ids;
        CHECKOP_BIND(c, call, gdn_conv, out_slots, t.out_slots, 0);
    }
    CHECKOP_BIND(c, call, gdn_conv, positions, t.positions, 0);
    checkop_operands(c, call, s->fill, 1);
    CHECKOP_BUF(c, call, gdn_conv, state.slots)->fill = CHECKOP_SANE;
    CHECKOP_SUBJECT(c, call, gdn_conv, 0);
    c->flops = 2.0 * (double)(t.n_row * n_chan * s->n_tap);
    c->traffic = 8.0 * (double)(t.n_row * n_chan + s->n_seq * (s->n_tap - 1) * n_chan);
}

static void conv_make(checkop_case *c, int32_t index)
{
    gdn_shape s = shape_make(c, index);
    conv_build(c, &s);
}

static bool conv_bench(checkop_case *c, int32_t i)
{
    gdn_shape s;
    return bench_shape(c, i, &s) && (conv_build(c, &s), true);
}

static const char *conv_arguments(int32_t i, void *args)
{
    whim_gdn_conv_args *a = args;
    float *p = checkop_somewhere;
    const int32_t *ids = (const void *)checkop_somewhere;
    *a = (whim_gdn_conv_args){.x = p,
                              .x_stride = 2,
                              .w = p,
                              .state = {.slots = p, .slot_stride = 32, .offset = 8, .n_slot = 1},
                              .q_start = ids,
                              .positions = ids,
                              .state_slots = ids,
                              .y = p,
                              .y_stride = 2,
                              .n_row = 1,
                              .n_seq = 0,
                              .n_chan = 2,
                              .n_tap = 4};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_tap = 0, "n_tap = 0";
    case 3:
        return a->n_tap = WHIM_GDN_MAX_TAP + 1, "too many taps";
    case 4:
        return a->x_stride = 1, "x_stride < n_chan";
    case 5:
        return a->state.slot_stride = 28, "a slot too small";
    case 6:
        return a->state.slots = NULL, "slots = NULL";
    case 7:
        return a->n_seq = 1, a->state_slots = NULL, "state_slots = NULL";
    case 8:
        return a->positions = NULL, "positions = NULL";
    case 9:
        return a->y = NULL, "y = NULL";
    case 10:
        return a->state.offset = 3, "an offset that is no multiple of 4";
    case 11:
        return a->w = NULL, "w = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_gdn_conv = {N_HOSTILE, N_RANDOM,       N_QUICK,
                                              conv_make, conv_arguments, conv_bench};

/* --- gdn_scan --------------------------------------------------------------------------------- */

static void scan_build(checkop_case *c, const gdn_shape *s)
{
    int64_t n_value = s->n_key * s->ratio, width = n_value * s->d_value;
    int64_t cols = 2 * s->n_key * s->d_key + width, elems = width * s->d_key;
    gdn_tables t = tables_make(c, s);
    checkop_call *call = checkop_call_add(c, WHIM_OP_gdn_scan);
    whim_gdn_scan_args *a = (void *)call->args.bytes;
    a->qkv_stride = cols + s->pad;
    a->b_stride = n_value + s->pad;
    a->a_stride = n_value;
    a->state = states_view(&t, elems, s->pad);
    a->n_row = t.n_row;
    a->n_seq = s->n_seq;
    a->n_key = (int32_t)s->n_key;
    a->n_value = (int32_t)n_value;
    a->d_key = (int32_t)s->d_key;
    a->d_value = (int32_t)s->d_value;
    CHECKOP_BIND(c, call, gdn_scan, q_start, t.start, 0);
    CHECKOP_BIND(c, call, gdn_scan, state_slots, t.slots, 0);
    if (s->n_seq % 2 == 1) {
        a->out_slots = checkop_some_ids;
        CHECKOP_BIND(c, call, gdn_scan, out_slots, t.out_slots, 0);
    }
    CHECKOP_BIND(c, call, gdn_scan, positions, t.positions, 0);
    checkop_operands(c, call, s->fill, 1);
    CHECKOP_BUF(c, call, gdn_scan, state.slots)->fill = CHECKOP_SANE;
    CHECKOP_SUBJECT(c, call, gdn_scan, 0);
    c->flops = 8.0 * (double)(t.n_row * elems);
    c->traffic = 8.0 * (double)(s->n_seq * elems + t.n_row * (cols + width));
}

static void scan_make(checkop_case *c, int32_t index)
{
    gdn_shape s = shape_make(c, index);
    scan_build(c, &s);
}

static bool scan_bench(checkop_case *c, int32_t i)
{
    gdn_shape s;
    return bench_shape(c, i, &s) && (scan_build(c, &s), true);
}

static const char *scan_arguments(int32_t i, void *args)
{
    whim_gdn_scan_args *a = args;
    float *p = checkop_somewhere;
    const int32_t *ids = (const void *)checkop_somewhere;
    *a = (whim_gdn_scan_args){.qkv = p,
                              .qkv_stride = 8,
                              .b = p,
                              .b_stride = 2,
                              .a = p,
                              .a_stride = 2,
                              .rate = p,
                              .dt_bias = p,
                              .state = {.slots = p, .slot_stride = 32, .offset = 0, .n_slot = 1},
                              .q_start = ids,
                              .positions = ids,
                              .state_slots = ids,
                              .out = p,
                              .n_row = 1,
                              .n_seq = 0,
                              .n_key = 1,
                              .n_value = 2,
                              .d_key = 2,
                              .d_value = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_key = 0, "value heads without a key head";
    case 3:
        return a->n_value = 3, a->n_key = 2, "n_value is no multiple of n_key";
    case 4:
        return a->qkv_stride = 7, "qkv_stride < columns";
    case 5:
        return a->state.slot_stride = 28, "a slot too small";
    case 6:
        return a->d_key = WHIM_GDN_MAX_DIM + 1, "a head too large";
    case 7:
        return a->rate = NULL, "rate = NULL";
    case 8:
        return a->n_seq = -1, "n_seq < 0";
    case 9:
        return a->out = NULL, "out = NULL";
    case 10:
        return a->b_stride = 1, "b_stride < n_value";
    case 11:
        return a->a = NULL, "a = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_gdn_scan = {N_HOSTILE, N_RANDOM,       N_QUICK,
                                              scan_make, scan_arguments, scan_bench};

/* --- gdn_split_qkvzba ------------------------------------------------------------------------- */

static void split_build(checkop_case *c, const gdn_shape *s, bool grouped)
{
    int64_t rows = s->n_seq * s->rows, n_value = s->n_key * s->ratio;
    int64_t cols = 2 * s->n_key * s->d_key + 2 * n_value * s->d_value;
    checkop_call *call = checkop_call_add(c, WHIM_OP_gdn_split_qkvzba);
    whim_gdn_split_qkvzba_args *a = (void *)call->args.bytes;
    a->qkvz_stride = cols + s->pad;
    a->ba_stride = 2 * n_value + s->pad;
    a->grouped = grouped;
    a->n_row = rows;
    a->n_key = s->n_key;
    a->n_value = n_value;
    a->d_key = s->d_key;
    a->d_value = s->d_value;
    checkop_operands(c, call, s->fill, 1);
    CHECKOP_SUBJECT(c, call, gdn_split_qkvzba, rows);
    c->traffic = 8.0 * (double)(rows * (cols + 2 * n_value));
}

static void split_make(checkop_case *c, int32_t index)
{
    gdn_shape s = shape_make(c, index);
    bool grouped = index % 2 == 1;
    checkop_say(c, grouped ? " grouped" : "");
    split_build(c, &s, grouped);
}

static bool split_bench(checkop_case *c, int32_t i)
{
    gdn_shape s;
    return bench_shape(c, i, &s) && (split_build(c, &s, true), true);
}

static const char *split_arguments(int32_t i, void *args)
{
    whim_gdn_split_qkvzba_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_gdn_split_qkvzba_args){.qkvz = p,
                                      .qkvz_stride = 12,
                                      .ba = p,
                                      .ba_stride = 4,
                                      .qkv = p,
                                      .z = p,
                                      .b = p,
                                      .a = p,
                                      .n_row = 1,
                                      .n_key = 1,
                                      .n_value = 2,
                                      .d_key = 2,
                                      .d_value = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->qkvz_stride = 11, "qkvz_stride < columns";
    case 3:
        return a->ba_stride = 3, "ba_stride < columns";
    case 4:
        return a->n_key = 0, "value heads without a key head";
    case 5:
        return a->n_key = 3, "n_value is no multiple of n_key";
    case 6:
        return a->z = NULL, "z = NULL";
    case 7:
        return a->d_value = -2, "d_value < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_gdn_split_qkvzba = {N_HOSTILE,  N_RANDOM,        N_QUICK,
                                                      split_make, split_arguments, split_bench};

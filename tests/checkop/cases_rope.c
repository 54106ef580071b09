/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the rotary-position ops. */
#include "checkop/harness.h"

typedef struct rope_shape {
    int64_t rows, n_head, n_kv, d_head, n_freq, pad, offset;
    checkop_fill fill;
} rope_shape;

static const rope_shape hostile[] = {
    {0, 2, 1, 64, 32, 0, 0, CHECKOP_SANE},    {1, 9, 3, 64, 32, 0, 0, CHECKOP_SANE},
    {3, 1, 1, 16, 8, 7, 1, CHECKOP_SANE},     {5, 3, 3, 20, 10, 1, 1, CHECKOP_WILD},
    {17, 8, 1, 80, 40, 0, 3, CHECKOP_SANE},   {2, 4, 2, 256, 32, 5, 0, CHECKOP_WILD},
    {7, 2, 2, 33, 16, 3, 1, CHECKOP_SANE},    {4, 2, 1, 96, 0, 0, 1, CHECKOP_SANE},
    {3, 4, 4, 128, 63, 1, 0, CHECKOP_ANY},    {CHECKOP_MANY, 1, 1, 4, 2, 1, 1, CHECKOP_SANE},
    {33, 5, 5, 17, 1, 0, 0, CHECKOP_SANE},    {4, 0, 0, 32, 16, 0, 1, CHECKOP_SANE},
    {3, 0, 2, 16, 8, 1, 0, CHECKOP_SANE}, /* ranks without heads */
    {140, 2, 1, 128, 64, 1, 0, CHECKOP_SANE},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0], N_RANDOM = 150, N_QUICK = 12 };

static rope_shape shape_make(checkop_case *c, int32_t index)
{
    rope_shape s;
    if (index < N_HOSTILE) {
        s = hostile[index];
    } else {
        s.rows = checkop_pick(&c->rng, 1, 2, 5, checkop_range(&c->rng, 1, 50));
        s.n_kv = checkop_range(&c->rng, 1, 4);
        s.n_head = s.n_kv * checkop_range(&c->rng, 1, 8);
        s.d_head =
            checkop_pick(&c->rng, 16, 20, 32, 64, 80, 96, 128, 256, checkop_range(&c->rng, 2, 70));
        s.n_freq =
            checkop_chance(&c->rng, 2) ? s.d_head / 2 : checkop_range(&c->rng, 0, s.d_head / 2);
        s.pad = checkop_chance(&c->rng, 2) ? 0 : checkop_range(&c->rng, 1, 20);
        s.offset = checkop_range(&c->rng, 0, 5);
        s.fill = checkop_chance(&c->rng, 4) ? CHECKOP_WILD : CHECKOP_SANE;
    }
    checkop_say(c,
                "rows=%lld n_head=%lld n_kv=%lld d_head=%lld n_freq=%lld pad=%lld offset=%lld "
                "fill=%d",
                (long long)s.rows, (long long)s.n_head, (long long)s.n_kv, (long long)s.d_head,
                (long long)s.n_freq, (long long)s.pad, (long long)s.offset, (int)s.fill);
    return s;
}

static bool bench_shape(checkop_case *c, int32_t i, rope_shape *s)
{
    if (i >= 3) {
        return false;
    }
    *s = (rope_shape){.rows = i == 0   ? 1
                              : i == 1 ? 64
                                       : 256,
                      .n_head = 9,
                      .n_kv = 3,
                      .d_head = 64,
                      .n_freq = 32,
                      .fill = CHECKOP_SANE};
    checkop_say(c, "%lld rows, 9+3+3 heads of 64", (long long)s->rows);
    return true;
}

/* --- rope_table ------------------------------------------------------------------------------- */

static void rope_table_build(checkop_case *c, const rope_shape *s, double scale)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_rope_table);
    whim_rope_table_args *a = (void *)call->args.bytes;
    a->scale = scale;
    a->n_row = s->rows;
    a->n_freq = s->n_freq;
    CHECKOP_BIND(c, call, rope_table, positions, checkop_ids(c, "positions", s->rows, -3, 1 << 20),
                 4);
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, rope_table, s->rows);
    c->flops = 60.0 * (double)(s->rows * s->n_freq);
    c->traffic = 8.0 * (double)(s->rows * s->n_freq);
}

static void rope_table_make(checkop_case *c, int32_t index)
{
    rope_shape s = shape_make(c, index);
    rope_table_build(c, &s, index % 2 == 0 ? 1.0 : 1.2079441541679836);
}

static bool rope_table_bench(checkop_case *c, int32_t i)
{
    rope_shape s;
    return bench_shape(c, i, &s) && (rope_table_build(c, &s, 1.0), true);
}

static const char *rope_table_arguments(int32_t i, void *args)
{
    whim_rope_table_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_rope_table_args){
        .positions = p, .freqs = p, .scale = 1.0, .cos_sin = p, .n_row = 1, .n_freq = 4};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_freq = -1, "n_freq < 0";
    case 3:
        return a->freqs = NULL, "freqs = NULL";
    case 4:
        return a->cos_sin = NULL, "cos_sin = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_rope_table = {
    N_HOSTILE, N_RANDOM, N_QUICK, rope_table_make, rope_table_arguments, rope_table_bench};

/* --- rope ------------------------------------------------------------------------------------- */

static void rope_build(checkop_case *c, const rope_shape *s)
{
    int64_t cols = s->n_head * s->d_head;
    checkop_call *call = checkop_call_add(c, WHIM_OP_rope);
    whim_rope_args *a = (void *)call->args.bytes;
    a->x_stride = cols + s->pad;
    a->n_row = s->rows;
    a->n_head = s->n_head;
    a->d_head = s->d_head;
    a->n_freq = s->n_freq;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_BUF(c, call, rope, cos_sin)->fill = CHECKOP_SANE;
    CHECKOP_SUBJECT(c, call, rope, s->rows);
    c->flops = 6.0 * (double)(s->rows * s->n_head * s->n_freq);
    c->traffic = 8.0 * (double)(s->rows * cols);
}

static void rope_make(checkop_case *c, int32_t index)
{
    rope_shape s = shape_make(c, index);
    rope_build(c, &s);
}

static bool rope_bench(checkop_case *c, int32_t i)
{
    rope_shape s;
    return bench_shape(c, i, &s) && (rope_build(c, &s), true);
}

static const char *rope_arguments(int32_t i, void *args)
{
    whim_rope_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_rope_args){
        .x = p, .x_stride = 8, .cos_sin = p, .n_row = 1, .n_head = 2, .d_head = 4, .n_freq = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_head = -1, "n_head < 0";
    case 3:
        return a->n_freq = 3, "n_freq > d_head / 2";
    case 4:
        return a->x_stride = 7, "x_stride < n_head * d_head";
    case 5:
        return a->cos_sin = NULL, "cos_sin = NULL";
    case 6:
        return a->n_freq = -1, "n_freq < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_rope = {N_HOSTILE, N_RANDOM,       N_QUICK,
                                          rope_make, rope_arguments, rope_bench};

/* --- split_qkv_rmsnorm_rope ------------------------------------------------------------------- */

static void split_build(checkop_case *c, const rope_shape *s, bool bias, bool norm, bool gate)
{
    int64_t cols = ((gate ? 2 : 1) * s->n_head + 2 * s->n_kv) * s->d_head;
    float *p = checkop_somewhere;
    checkop_call *call = checkop_call_add(c, WHIM_OP_split_qkv_rmsnorm_rope);
    whim_split_qkv_rmsnorm_rope_args *a = (void *)call->args.bytes;
    a->qkv_stride = cols + s->pad;
    a->bias = bias ? p : NULL;
    a->q_norm = norm ? p + 1 : NULL;
    a->k_norm = norm ? p + 2 : NULL;
    a->eps = 1e-6f;
    a->gate = gate ? p + 3 : NULL;
    a->n_row = s->rows;
    a->n_head = s->n_head;
    a->n_kv = s->n_kv;
    a->d_head = s->d_head;
    a->n_freq = s->n_freq;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_BUF(c, call, split_qkv_rmsnorm_rope, cos_sin)->fill = CHECKOP_SANE;
    CHECKOP_SUBJECT(c, call, split_qkv_rmsnorm_rope, s->rows);
    c->flops = 10.0 * (double)(s->rows * cols);
    c->traffic = 8.0 * (double)(s->rows * cols);
}

static void split_make(checkop_case *c, int32_t index)
{
    rope_shape s = shape_make(c, index);
    bool bias = index % 2 == 1, norm = index / 2 % 2 == 1, gate = index % 3 == 1;
    bool keys = index % 5 == 4; /* and values, nothing else */
    s.n_head = keys ? 0 : s.n_head;
    checkop_say(c, "%s%s%s%s", bias ? " bias" : "", norm ? " norm" : "", gate ? " gate" : "",
                keys ? " without q" : "");
    split_build(c, &s, bias, norm, gate);
}

static bool split_bench(checkop_case *c, int32_t i)
{
    rope_shape s;
    return bench_shape(c, i, &s) && (split_build(c, &s, false, true, false), true);
}

static const char *split_arguments(int32_t i, void *args)
{
    whim_split_qkv_rmsnorm_rope_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_split_qkv_rmsnorm_rope_args){.qkv = p,
                                            .qkv_stride = 16,
                                            .q_norm = p,
                                            .k_norm = p,
                                            .cos_sin = p,
                                            .q = p,
                                            .k = p,
                                            .v = p,
                                            .n_row = 1,
                                            .n_head = 2,
                                            .n_kv = 1,
                                            .d_head = 4,
                                            .n_freq = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_head = -1, "n_head < 0";
    case 3:
        return a->n_kv = -1, "n_kv < 0";
    case 4:
        return a->qkv_stride = 15, "qkv_stride < columns";
    case 5:
        return a->k_norm = NULL, "q_norm without k_norm";
    case 6:
        return a->n_freq = 3, "n_freq > d_head / 2";
    case 7:
        return a->v = NULL, "v = NULL";
    case 8:
        return a->eps = -1.0f, "eps < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_split_qkv_rmsnorm_rope = {
    N_HOSTILE, N_RANDOM, N_QUICK, split_make, split_arguments, split_bench};

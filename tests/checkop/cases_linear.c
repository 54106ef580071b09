/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the ops on weight matrices, for every weight type, and of the quantisation of
 * activations. */
#include "checkop/harness.h"

typedef struct linear_shape {
    whim_dtype dtype;
    int64_t rows, n, k, pad, offset;
    bool bias;
    checkop_fill fill;
} linear_shape;

/* The types that a weight may have. */
static const whim_dtype weight_types[] = {
#define WHIM_DTYPE(name, elems, bytes, gguf_id, kind) CHECKOP_WEIGHT_##kind(WHIM_DTYPE_##name)
#define CHECKOP_WEIGHT_FLOAT(dtype) dtype,
#define CHECKOP_WEIGHT_SCALED(dtype) dtype,
#define CHECKOP_WEIGHT_QUANT(dtype) dtype,
#define CHECKOP_WEIGHT_INT(dtype)
#include "tensor/dtype.def"
#undef WHIM_DTYPE
};
enum { N_TYPE = sizeof weight_types / sizeof weight_types[0] };

/* For every type; k is the nearest multiple of the block that is not less. */
static const linear_shape hostile[] = {
    {0, 0, 17, 32, 0, 0, false, CHECKOP_SANE},  {0, 1, 33, 64, 0, 0, false, CHECKOP_SANE},
    {0, 5, 67, 129, 5, 1, true, CHECKOP_SANE},  {0, 17, 1, 1, 1, 1, true, CHECKOP_SANE},
    {0, 3, 35, 96, 3, 1, false, CHECKOP_WILD},  {0, 2, 19, 33, 0, 1, true, CHECKOP_ANY},
    {0, 33, 37, 290, 2, 0, true, CHECKOP_SANE}, {0, 8, 16, 512, 0, 0, false, CHECKOP_SANE},
};
/* For the types that they name. */
static const linear_shape single[] = {
    {WHIM_DTYPE_F32, CHECKOP_MANY, 3, 7, 1, 1, false, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, CHECKOP_MANY, 2, 16, 0, 0, true, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 9, 300, 700, 1, 1, true,
     CHECKOP_SANE}, /* rows where kernels of GPUs change */
    {WHIM_DTYPE_BF16, 16, 130, 1100, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 32, 127, 257, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 64, 257, 300, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 65, 8448, 290, 0, 0, true, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 257, 8448, 70, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 9, 8448, 1024, 0, 0, true, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 33, 17000, 80, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 257, 8448, 192, 0, 0, true, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 130, 17000, 64, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 41, 6200, 320, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 64, 4100, 512, 3, 1, true, CHECKOP_SANE},
    {WHIM_DTYPE_BF16, 1537, 2100, 128, 3, 1, true, CHECKOP_SANE}, /* more items than blocks */
    {WHIM_DTYPE_FP8, 8, 4300, 1152, 1, 1, true, CHECKOP_SANE},
    {WHIM_DTYPE_FP8, 9, 300, 1152, 1, 1, true, CHECKOP_SANE},
    {WHIM_DTYPE_FP8, 41, 6200, 640, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_FP8, 64, 17000, 384, 3, 1, true, CHECKOP_SANE},
    {WHIM_DTYPE_FP8, 129, 8448, 256, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_FP8, 1100, 2100, 1280, 3, 1, true, CHECKOP_SANE}, /* more items than blocks */
    {WHIM_DTYPE_Q4_0, 9, 300, 1152, 1, 1, true, CHECKOP_SANE},
    {WHIM_DTYPE_Q8_0, 41, 6200, 384, 3, 1, true, CHECKOP_SANE},
    {WHIM_DTYPE_Q4_1, 64, 17000, 256, 0, 0, false, CHECKOP_WILD},
    {WHIM_DTYPE_Q4_1, 129, 4300, 640, 1, 1, true, CHECKOP_SANE},
    {WHIM_DTYPE_Q8_0, 130, 17000, 128, 0, 0, false, CHECKOP_WILD},
    {WHIM_DTYPE_Q4_0, 1100, 4300, 1280, 3, 1, true, CHECKOP_SANE}, /* more items than blocks */
    {WHIM_DTYPE_Q8_0, CHECKOP_MANY, 3, 32, 0, 1, true, CHECKOP_SANE},
    {WHIM_DTYPE_Q4_0, CHECKOP_MANY, 1, 32, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_F16, 1, CHECKOP_MANY, 16, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_Q4_1, 1, CHECKOP_MANY, 32, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_F32, 3, 5, 0, 0, 0, true, CHECKOP_SANE},
    {WHIM_DTYPE_Q8_0, 3, 5, 0, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_F32, 3, 0, 8, 0, 0, false, CHECKOP_SANE},
    {WHIM_DTYPE_Q6_K, 3, 0, 256, 0, 0, false, CHECKOP_SANE},
};
enum {
    N_HOSTILE = sizeof hostile / sizeof hostile[0] * N_TYPE,
    N_SINGLE = sizeof single / sizeof single[0],
    N_FIXED = N_HOSTILE + N_SINGLE,
};

static int64_t whole_blocks(whim_dtype dtype, int64_t k)
{
    int64_t block = whim_dtype_get(dtype)->block_elems;
    return (k + block - 1) / block * block;
}

static linear_shape shape_make(checkop_case *c, int32_t index)
{
    linear_shape s;
    checkop_rng *rng = &c->rng;
    if (index < N_HOSTILE) {
        s = hostile[index / N_TYPE];
        s.dtype = weight_types[index % N_TYPE];
    } else if (index < N_FIXED) {
        s = single[index - N_HOSTILE];
        if (!c->has_grids && s.rows > 8 && s.n > 1000) {
            s.n /= 64; /* it would be all that an emulator does */
        }
    } else {
        s.dtype = weight_types[index % N_TYPE];
        s.rows = checkop_pick(rng, 1, 2, 4, 5, 16, checkop_range(rng, 1, 70));
        s.n = checkop_pick(rng, 16, 64, checkop_range(rng, 1, 40), checkop_range(rng, 1, 150));
        s.k = checkop_pick(rng, 32, 256, checkop_range(rng, 1, 100), checkop_range(rng, 1, 600));
        s.pad = checkop_chance(rng, 2) ? 0 : checkop_range(rng, 1, 9);
        s.offset = checkop_chance(rng, 2) ? 0 : checkop_range(rng, 1, 15);
        s.bias = checkop_chance(rng, 2);
        s.fill = checkop_chance(rng, 5) ? CHECKOP_WILD : CHECKOP_SANE;
    }
    s.k = whole_blocks(s.dtype, s.k);
    c->dtype = s.dtype;
    checkop_say(c, "w=%s[%lld,%lld] rows=%lld pad=%lld offset=%lld%s fill=%d",
                whim_dtype_get(s.dtype)->name, (long long)s.n, (long long)s.k, (long long)s.rows,
                (long long)s.pad, (long long)s.offset, s.bias ? " bias" : "", (int)s.fill);
    return s;
}

static double weight_bytes(const linear_shape *s)
{
    return (double)(s->n * whim_dtype_row_bytes(s->dtype, s->k));
}

static int64_t y_stride(const linear_shape *s)
{
    return s->n + (s->pad > 0 ? s->pad + 1 : 0);
}

/* --- linear ----------------------------------------------------------------------------------- */

static void linear_build(checkop_case *c, const linear_shape *s)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_linear);
    whim_linear_args *a = (void *)call->args.bytes;
    a->w = (whim_weight){.dtype = s->dtype, .n = s->n, .k = s->k};
    a->x_stride = s->k + s->pad;
    a->bias = s->bias ? checkop_somewhere : NULL;
    a->y_stride = y_stride(s);
    a->n_row = s->rows;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, linear, s->rows);
    c->flops = 2.0 * (double)(s->rows * s->n) * (double)s->k;
    c->traffic = weight_bytes(s) + 4.0 * (double)(s->rows * (s->n + s->k));
}

/* Rows that a first call stores as `act`. */
static void linear_acts_build(checkop_case *c, const linear_shape *s, whim_act act)
{
    int64_t stride = s->k + (s->pad > 0 ? whim_act_block(act) : 0);
    checkop_call *store = checkop_call_add(c, WHIM_OP_narrow);
    whim_narrow_args *n = (void *)store->args.bytes;
    *n = (whim_narrow_args){.x_stride = s->k + s->pad,
                            .y_type = act,
                            .y_stride = stride,
                            .n_row = s->rows,
                            .n_col = s->k};
    checkop_operands(c, store, s->fill, s->offset);
    int32_t rows = checkop_bound(store, offsetof(whim_narrow_args, y));
    checkop_call *call = checkop_call_add(c, WHIM_OP_linear);
    whim_linear_args *a = (void *)call->args.bytes;
    a->w = (whim_weight){.dtype = s->dtype, .n = s->n, .k = s->k};
    a->x_type = act;
    a->x_stride = stride;
    a->bias = s->bias ? checkop_somewhere : NULL;
    a->y_stride = y_stride(s);
    a->n_row = s->rows;
    CHECKOP_BIND(c, call, linear, x, rows, c->buf[rows].stride_bytes);
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, linear, s->rows);
    c->buf[rows].by_row = false; /* the first call writes all of them */
}

/* After the fixed shapes of F32 rows some of every pair of types. */
enum { N_ACTS = (WHIM_ACT_COUNT - 1) * N_TYPE };

static void linear_make(checkop_case *c, int32_t index)
{
    int32_t pair = index - N_FIXED;
    bool stored = pair >= 0 && pair < N_ACTS;
    linear_shape s = shape_make(c, stored ? N_FIXED + pair % N_TYPE : index);
    if (stored) {
        whim_act act = (whim_act)(1 + pair / N_TYPE);
        s.k = (s.k + 255) / 256 * 256; /* whole blocks of every type */
        s.dtype = c->dtype = weight_types[pair % N_TYPE];
        checkop_say(c, " k=%lld of %s", (long long)s.k, whim_act_name(act));
        linear_acts_build(c, &s, act);
        return;
    }
    linear_build(c, &s);
}

static bool linear_bench_shape(checkop_case *c, int32_t i, linear_shape *s)
{
    if (i >= 4 * N_TYPE) {
        return false;
    }
    *s = (linear_shape){.dtype = weight_types[i / 4], .fill = CHECKOP_SANE};
    s->rows = i % 2 == 0 ? 1 : 64;
    s->n = i / 2 % 2 == 0 ? 1536 : 4096;
    s->k = whole_blocks(s->dtype, s->n == 1536 ? 576 : 4096);
    checkop_say(c, "%s[%lld,%lld] x %lld", whim_dtype_get(s->dtype)->name, (long long)s->n,
                (long long)s->k, (long long)s->rows);
    return true;
}

static bool linear_bench(checkop_case *c, int32_t i)
{
    linear_shape s;
    return linear_bench_shape(c, i, &s) && (linear_build(c, &s), true);
}

static const char *linear_arguments(int32_t i, void *args)
{
    whim_linear_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_linear_args){.w = {.dtype = WHIM_DTYPE_Q8_0, .n = 4, .k = 32, .data = p},
                            .x = p,
                            .x_stride = 32,
                            .y = p,
                            .y_stride = 4,
                            .n_row = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->w.n = -4, "n < 0";
    case 3:
        return a->w.k = -32, "k < 0";
    case 4:
        return a->w.k = 31, "k is not a multiple of the block";
    case 5:
        return a->w.dtype = WHIM_DTYPE_Q4_K, "k is not a multiple of the large block";
    case 6:
        return a->x_stride = 31, "x_stride < k";
    case 7:
        return a->y_stride = 3, "y_stride < n";
    case 8:
        return a->w.dtype = WHIM_DTYPE_I32, "an integer type as weight";
    case 9:
        return a->w.dtype = WHIM_DTYPE_COUNT, "no such type";
    case 10:
        return a->w.data = NULL, "w.data = NULL";
    case 11:
        return a->y = NULL, "y = NULL";
    case 12:
        return a->x_type = WHIM_ACT_COUNT, "no such storage type";
    case 13:
        return a->x_type = WHIM_ACT_FP8, "k is no whole block of FP8";
    case 14:
        return a->x_type = WHIM_ACT_Q8, a->x_stride = 48, "x_stride is no whole block of int8";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_linear = {N_FIXED + N_ACTS, 20 * N_TYPE,      2 * N_TYPE,
                                            linear_make,      linear_arguments, linear_bench};

/* --- linear_swiglu ---------------------------------------------------------------------------- */

/* With biases: of gate, of up, or of both. */
static void swiglu_build(checkop_case *c, const linear_shape *s, whim_dtype up_type)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_linear_swiglu);
    whim_linear_swiglu_args *a = (void *)call->args.bytes;
    a->gate = (whim_weight){.dtype = s->dtype, .n = s->n, .k = s->k};
    a->up = (whim_weight){.dtype = up_type, .n = s->n, .k = s->k};
    a->x_stride = s->k + s->pad;
    a->gate_bias = s->bias && s->rows % 3 != 0 ? checkop_somewhere : NULL;
    a->up_bias = s->bias && s->rows % 3 != 1 ? checkop_somewhere + 1 : NULL;
    a->y_stride = y_stride(s);
    a->n_row = s->rows;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, linear_swiglu, s->rows);
    c->flops = 4.0 * (double)(s->rows * s->n) * (double)s->k;
    c->traffic = 2.0 * weight_bytes(s) + 4.0 * (double)(s->rows * (s->n + s->k));
}

/* Every fifth case has two types, one of which fits any k that the other does. */
static void swiglu_make(checkop_case *c, int32_t index)
{
    linear_shape s = shape_make(c, index);
    whim_dtype up_type = index % 5 == 4 ? WHIM_DTYPE_BF16 : s.dtype;
    checkop_say(c, " up=%s", whim_dtype_get(up_type)->name);
    swiglu_build(c, &s, up_type);
}

static bool swiglu_bench(checkop_case *c, int32_t i)
{
    linear_shape s;
    return linear_bench_shape(c, i, &s) && (swiglu_build(c, &s, s.dtype), true);
}

static const char *swiglu_arguments(int32_t i, void *args)
{
    whim_linear_swiglu_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_linear_swiglu_args){.gate = {.dtype = WHIM_DTYPE_Q8_0, .n = 4, .k = 32, .data = p},
                                   .up = {.dtype = WHIM_DTYPE_F32, .n = 4, .k = 32, .data = p},
                                   .x = p,
                                   .x_stride = 32,
                                   .y = p,
                                   .y_stride = 4,
                                   .n_row = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->up.n = 3, "gate and up of different n";
    case 3:
        return a->up.k = 31, "gate and up of different k";
    case 4:
        return a->gate.k = a->up.k = 31, "k is not a multiple of the block";
    case 5:
        return a->up.dtype = WHIM_DTYPE_I32, "an integer type as weight";
    case 6:
        return a->up.data = NULL, "up.data = NULL";
    case 7:
        return a->y_stride = 3, "y_stride < n";
    case 8:
        return a->x_stride = 31, "x_stride < k";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_linear_swiglu = {N_FIXED,     5 * N_TYPE,       N_TYPE,
                                                   swiglu_make, swiglu_arguments, swiglu_bench};

/* --- embed ------------------------------------------------------------------------------------ */

static void embed_build(checkop_case *c, const linear_shape *s)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_embed);
    whim_embed_args *a = (void *)call->args.bytes;
    a->w = (whim_weight){.dtype = s->dtype, .n = s->n, .k = s->k};
    a->y_stride = s->k + s->pad;
    a->n_row = s->rows;
    CHECKOP_BIND(c, call, embed, ids, checkop_ids(c, "ids", s->rows, -2, (int32_t)s->n + 1), 4);
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, embed, s->rows);
    c->flops = (double)(s->rows * s->k);
    c->traffic = (double)(s->rows * (4 * s->k + whim_dtype_row_bytes(s->dtype, s->k)));
}

static void embed_make(checkop_case *c, int32_t index)
{
    linear_shape s = shape_make(c, index);
    embed_build(c, &s);
}

static bool embed_bench(checkop_case *c, int32_t i)
{
    if (i >= 2 * N_TYPE) {
        return false;
    }
    linear_shape s = {.dtype = weight_types[i / 2], .rows = i % 2 == 0 ? 1 : 64, .n = 4096};
    s.k = whole_blocks(s.dtype, 576);
    checkop_say(c, "%s[%lld,%lld] x %lld", whim_dtype_get(s.dtype)->name, (long long)s.n,
                (long long)s.k, (long long)s.rows);
    embed_build(c, &s);
    return true;
}

static const char *embed_arguments(int32_t i, void *args)
{
    whim_embed_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_embed_args){.w = {.dtype = WHIM_DTYPE_Q4_1, .n = 4, .k = 32, .data = p},
                           .ids = p,
                           .y = p,
                           .y_stride = 32,
                           .n_row = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->w.k = 33, "k is not a multiple of the block";
    case 3:
        return a->y_stride = 31, "y_stride < k";
    case 4:
        return a->ids = NULL, "ids = NULL";
    case 5:
        return a->w.dtype = WHIM_DTYPE_I32, "an integer type as weight";
    case 6:
        return a->w.n = -1, "n < 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_embed = {N_FIXED,    5 * N_TYPE,      N_TYPE,
                                           embed_make, embed_arguments, embed_bench};

/* --- narrow ----------------------------------------------------------------------------------- */

static const linear_shape narrow_hostile[] = {
    {0, 0, 0, 64, 0, 0, false, CHECKOP_SANE},
    {0, 1, 0, 32, 0, 0, false, CHECKOP_SANE},
    {0, 3, 0, 96, 5, 1, false, CHECKOP_SANE},
    {0, 17, 0, 576, 1, 1, false, CHECKOP_WILD},
    {0, 33, 0, 160, 0, 3, false, CHECKOP_ANY},
    {0, 4, 0, 0, 0, 0, false, CHECKOP_SANE},
    {0, 2, 0, 4096, 0, 0, false, CHECKOP_WILD},
    {0, 9, 0, 64, 0, 0, false, CHECKOP_ZERO},
    {0, CHECKOP_MANY, 0, 32, 1, 1, false, CHECKOP_SANE},
};
enum {
    N_SHAPE = sizeof narrow_hostile / sizeof narrow_hostile[0],
    N_NARROW = N_SHAPE * WHIM_ACT_COUNT
};

static void narrow_build(checkop_case *c, const linear_shape *s, whim_act act)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_narrow);
    whim_narrow_args *a = (void *)call->args.bytes;
    a->x_stride = s->k + s->pad;
    a->y_type = act;
    a->y_stride = s->k + (s->pad > 0 ? whim_act_block(act) : 0);
    a->n_row = s->rows;
    a->n_col = s->k;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, narrow, s->rows);
    c->flops = 3.0 * (double)(s->rows * s->k);
    c->traffic = (double)(s->rows * (4 * s->k + whim_act_bytes(act, s->k)));
}

/* Every shape as int8 first, which all backends have. */
static void narrow_make(checkop_case *c, int32_t index)
{
    bool fixed = index < N_NARROW;
    linear_shape s = fixed ? narrow_hostile[index % N_SHAPE] : (linear_shape){0};
    whim_act act = fixed ? (whim_act)((WHIM_ACT_Q8 + index / N_SHAPE) % WHIM_ACT_COUNT)
                         : (whim_act)checkop_pick(&c->rng, WHIM_ACT_Q8, WHIM_ACT_Q8, WHIM_ACT_BF16,
                                                  WHIM_ACT_FP8);
    if (!fixed) {
        s.rows = checkop_range(&c->rng, 1, 40);
        s.k = 32 * checkop_range(&c->rng, 1, 30);
        s.pad = checkop_range(&c->rng, 0, 7);
        s.offset = checkop_range(&c->rng, 0, 7);
        s.fill = checkop_chance(&c->rng, 3) ? CHECKOP_ANY : CHECKOP_SANE;
    }
    s.k = (s.k + whim_act_block(act) - 1) / whim_act_block(act) * whim_act_block(act);
    checkop_say(c, "%s rows=%lld k=%lld pad=%lld offset=%lld fill=%d", whim_act_name(act),
                (long long)s.rows, (long long)s.k, (long long)s.pad, (long long)s.offset,
                (int)s.fill);
    narrow_build(c, &s, act);
}

static bool narrow_bench(checkop_case *c, int32_t i)
{
    if (i >= 2) {
        return false;
    }
    linear_shape s = {.rows = i == 0 ? 1 : 64, .k = 4096, .fill = CHECKOP_SANE};
    checkop_say(c, "%lld x %lld to int8", (long long)s.rows, (long long)s.k);
    narrow_build(c, &s, WHIM_ACT_Q8);
    return true;
}

static const char *narrow_arguments(int32_t i, void *args)
{
    whim_narrow_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_narrow_args){.x = p,
                            .x_stride = 64,
                            .y_type = WHIM_ACT_Q8,
                            .y = p,
                            .y_stride = 64,
                            .n_row = 2,
                            .n_col = 64};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->n_col = 48, "n_col is not a multiple of 32";
    case 3:
        return a->n_col = -32, "n_col < 0";
    case 4:
        return a->x_stride = 63, "x_stride < n_col";
    case 5:
        return a->y = NULL, "y = NULL";
    case 6:
        return a->y_stride = 80, "y_stride is not a multiple of 32";
    case 7:
        return a->y_stride = 32, "y_stride < n_col";
    case 8:
        return a->y_type = WHIM_ACT_COUNT, "no such storage type";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_narrow = {N_NARROW,         150,         12, narrow_make,
                                            narrow_arguments, narrow_bench};

/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the ops of a mixture of experts. Choices: equal scores, biases that change the choice
 * and must not change the weights. Experts: none of a row, all rows on one, experts without rows,
 * the same expert twice. */
#include "checkop/harness.h"

#include <math.h>
#include <string.h>

/* --- moe_topk --------------------------------------------------------------------------------- */

typedef struct topk_shape {
    int64_t rows, experts, k, pad, offset;
    whim_moe_scoring scoring;
    bool bias, renormalize;
    checkop_fill fill; /* GIVEN: ties */
} topk_shape;

static const topk_shape topk_hostile[] = {
    {0, 128, 8, 0, 0, WHIM_MOE_SOFTMAX, false, true, CHECKOP_SANE},
    {1, 128, 8, 0, 0, WHIM_MOE_SOFTMAX, false, true, CHECKOP_SANE},
    {1, 256, 8, 0, 0, WHIM_MOE_SIGMOID, true, true, CHECKOP_SANE},
    {5, 1, 1, 3, 1, WHIM_MOE_SOFTMAX, false, true, CHECKOP_ANY},
    {7, 12, 3, 1, 1, WHIM_MOE_SIGMOID, true, false, CHECKOP_WILD},
    {9, 12, 12, 0, 0, WHIM_MOE_SOFTMAX, true, false, CHECKOP_GIVEN},
    {33, 300, 64, 5, 3, WHIM_MOE_SOFTMAX, false, true, CHECKOP_GIVEN},
    {17, 64, 10, 0, 1, WHIM_MOE_SIGMOID, false, true, CHECKOP_GIVEN},
    {3, WHIM_MOE_MAX_EXPERT, 64, 0, 0, WHIM_MOE_SOFTMAX, true, true, CHECKOP_WILD},
    {3, 17, 4, 2, 0, WHIM_MOE_SOFTMAX, false, true, CHECKOP_ANY},
    {4, 100, 7, 0, 0, WHIM_MOE_SIGMOID, true, true, CHECKOP_ZERO},
    {CHECKOP_MANY, 5, 2, 1, 1, WHIM_MOE_SIGMOID, true, true, CHECKOP_SANE},
};
enum { N_TOPK = sizeof topk_hostile / sizeof topk_hostile[0] };

/* Few different values, so that ties are the rule. */
static void fill_ties(checkop_case *c, int32_t buf)
{
    static const float list[] = {-1.5f, 0.0f, -0.0f, 2.25f};
    checkop_buf *b = &c->buf[buf];
    for (int64_t r = 0; r < b->rows; r++) {
        for (int64_t i = 0; i < b->cols; i++) {
            memcpy(b->init + b->head + r * b->stride_bytes + 4 * i,
                   &list[checkop_range(&c->rng, 0, 3)], 4);
        }
    }
}

static void topk_refill(checkop_case *c)
{
    if (c->buf[0].fill == CHECKOP_GIVEN) {
        fill_ties(c, 0);
    }
}

static void topk_build(checkop_case *c, const topk_shape *s)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_moe_topk);
    whim_moe_topk_args *a = (void *)call->args.bytes;
    a->logits_stride = s->experts + s->pad;
    a->bias = s->bias ? checkop_somewhere : NULL;
    a->n_row = s->rows;
    a->n_expert = s->experts;
    a->k_top = s->k;
    a->scoring = s->scoring;
    a->renormalize = s->renormalize;
    a->scale = checkop_chance(&c->rng, 2) ? 1.0f : 2.5f;
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, moe_topk, s->rows);
    c->refill = topk_refill;
    topk_refill(c);
    c->flops = 10.0 * (double)(s->rows * s->experts);
    c->traffic = 4.0 * (double)(s->rows * s->experts);
}

static void topk_make(checkop_case *c, int32_t index)
{
    topk_shape s;
    checkop_rng *rng = &c->rng;
    if (index < N_TOPK) {
        s = topk_hostile[index];
    } else {
        s.rows = checkop_pick(rng, 1, 2, 8, checkop_range(rng, 1, 40));
        s.experts =
            checkop_pick(rng, 128, 256, checkop_range(rng, 1, 70), checkop_range(rng, 1, 600));
        s.k = checkop_range(rng, 1, s.experts < 64 ? s.experts : 64);
        s.pad = checkop_chance(rng, 2) ? 0 : checkop_range(rng, 1, 20);
        s.offset = checkop_range(rng, 0, 9);
        s.scoring = checkop_chance(rng, 2) ? WHIM_MOE_SOFTMAX : WHIM_MOE_SIGMOID;
        s.bias = checkop_chance(rng, 2);
        s.renormalize = checkop_chance(rng, 2);
        s.fill = (checkop_fill)checkop_pick(rng, CHECKOP_GIVEN, CHECKOP_ANY, CHECKOP_SANE);
    }
    checkop_say(c, "rows=%lld experts=%lld k=%lld pad=%lld offset=%lld scoring=%d%s%s fill=%d",
                (long long)s.rows, (long long)s.experts, (long long)s.k, (long long)s.pad,
                (long long)s.offset, (int)s.scoring, s.bias ? " bias" : "",
                s.renormalize ? " renormalize" : "", (int)s.fill);
    topk_build(c, &s);
}

static bool topk_bench(checkop_case *c, int32_t i)
{
    if (i >= 4) {
        return false;
    }
    topk_shape s = {.rows = i % 2 == 0 ? 1 : 512,
                    .experts = i / 2 == 0 ? 128 : 256,
                    .k = 8,
                    .scoring = i / 2 == 0 ? WHIM_MOE_SOFTMAX : WHIM_MOE_SIGMOID,
                    .bias = i / 2 == 1,
                    .renormalize = true,
                    .fill = CHECKOP_SANE};
    checkop_say(c, "8 of %lld x %lld rows", (long long)s.experts, (long long)s.rows);
    topk_build(c, &s);
    return true;
}

static const char *topk_arguments(int32_t i, void *args)
{
    whim_moe_topk_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_moe_topk_args){.logits = p,
                              .logits_stride = 4,
                              .weights = p,
                              .ids = p,
                              .n_row = 2,
                              .n_expert = 4,
                              .k_top = 2,
                              .scale = 1.0f};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->logits_stride = 3, "logits_stride < n_expert";
    case 3:
        return a->k_top = 0, "k_top = 0";
    case 4:
        return a->k_top = 5, "k_top > n_expert";
    case 5:
        return a->n_expert = a->logits_stride = WHIM_MOE_MAX_EXPERT + 1, "too many experts";
    case 6:
        return a->scoring = (whim_moe_scoring)2, "no such scoring";
    case 7:
        return a->weights = NULL, "weights = NULL";
    case 8:
        return a->ids = NULL, "ids = NULL";
    case 9:
        return a->n_expert = 0, "n_expert = 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_moe_topk = {N_TOPK,         100,       10, topk_make,
                                              topk_arguments, topk_bench};

/* --- moe_experts ------------------------------------------------------------------------------ */

typedef enum routing {
    SPREAD,  /* k different experts for each row */
    ONE,     /* all rows on one expert */
    BROKEN,  /* ids outside the experts, and some twice */
    NOWHERE, /* no id is an expert's */
} routing;

typedef struct experts_shape {
    whim_dtype gate, up, down;
    int64_t rows, experts, k, d, ff, pad, offset;
    routing routing;
    bool apart;   /* results are not summed */
    whim_act act; /* as which a first call stores the rows */
    bool chosen;  /* by a first call */
} experts_shape;

#define SAME(type) WHIM_DTYPE_##type, WHIM_DTYPE_##type, WHIM_DTYPE_##type
static const experts_shape experts_hostile[] = {
    {SAME(F32), 0, 4, 2, 16, 8, 0, 0, SPREAD},
    {SAME(F32), 1, 12, 3, 48, 20, 0, 0, SPREAD},
    {SAME(F32), 7, 12, 3, 33, 17, 3, 1, SPREAD},
    {SAME(F32), 5, 4, 2, 16, 8, 1, 1, BROKEN},
    {SAME(F32), 1, 4, 4, 16, 8, 1, 1, BROKEN},
    {SAME(F32), 1, 4, 2, 16, 8, 0, 0, NOWHERE},
    {SAME(F32), 6, 4, 2, 16, 8, 0, 0, NOWHERE},
    {SAME(BF16), 9, 6, 2, 40, 24, 0, 1, SPREAD},
    {SAME(BF16), 1, 6, 2, 70, 34, 0, 1, SPREAD},
    {SAME(BF16), 1, 6, 2, 64, 64, 0, 0, SPREAD},
    {SAME(BF16), 9, 12, 3, 128, 64, 3, 1, BROKEN},
    {SAME(BF16), 12, 3, 2, 64, 192, 0, 0, SPREAD},
    {SAME(BF16), 5, 4, 2, 64, 64, 0, 0, NOWHERE},
    {SAME(BF16), 30, 8, 2, 64, 64, 0, 1, ONE},   /* 60 rows of few */
    {SAME(BF16), 150, 16, 4, 64, 64, 1, 0, ONE}, /* 600: several items */
    {SAME(BF16), 200, 3, 2, 128, 64, 0, 0, ONE}, /* and of many */
    {SAME(BF16), 133, 4, 2, 64, 320, 0, 1, SPREAD},
    {SAME(BF16), 190, 2, 2, 64, 64, 0, 0, SPREAD}, /* parts of 96 */
    {SAME(BF16), 330, 5, 3, 64, 64, 3, 3, BROKEN},
    {SAME(BF16), 70, 6, 4, 64, 64, 0, 0, SPREAD}, /* parts of 32 to 64 of few */
    {SAME(BF16), 6, 12, 3, 64, 64, 0, 0, SPREAD, .chosen = true},
    {SAME(BF16), 8, 200, 8, 128, 64, 1, 1, SPREAD, .chosen = true},
    {SAME(F32), 5, 12, 3, 33, 17, 0, 0, SPREAD, .chosen = true},
    {SAME(F16), 3, 1, 1, 17, 5, 2, 0, ONE},
    {SAME(FP8), 3, 5, 2, 128, 128, 2, 1, SPREAD},
    {SAME(FP8), 1, 5, 2, 128, 128, 2, 1, SPREAD},
    {SAME(FP8), 19, 3, 2, 256, 128, 1, 1, ONE},
    {SAME(Q8_0), 70, 3, 1, 32, 32, 1, 0, ONE},
    {SAME(Q8_0), 270, 2, 1, 64, 32, 0, 0, ONE},
    {SAME(Q4_0), 1, 16, 8, 64, 96, 0, 0, SPREAD},
    {SAME(Q4_0), 2, 16, 8, 64, 96, 0, 0, SPREAD},
    {SAME(Q4_0), 19, 16, 8, 96, 32, 5, 3, BROKEN},
    {SAME(Q4_K), 4, 3, 2, 256, 256, 0, 0, SPREAD},
    {WHIM_DTYPE_Q4_K, WHIM_DTYPE_Q4_K, WHIM_DTYPE_Q6_K, 5, 3, 2, 256, 256, 0, 1, SPREAD},
    {WHIM_DTYPE_Q4_0, WHIM_DTYPE_F32, WHIM_DTYPE_Q8_0, 5, 4, 2, 32, 32, 1, 0, SPREAD},
    {WHIM_DTYPE_BF16, WHIM_DTYPE_Q8_0, WHIM_DTYPE_F16, 1, 4, 2, 32, 32, 0, 0, SPREAD},
    {SAME(F32), 1, 3, 2, 16, 9000, 0, 0, SPREAD},
    {SAME(F32), 3, 4, 2, 8, 0, 0, 0, SPREAD},
    {SAME(F32), 1, 4, 2, 8, 0, 0, 0, SPREAD},
    {SAME(Q8_0), 40, 300, 2, 32, 32, 0, 0, SPREAD},
    {SAME(F32), CHECKOP_MANY, 3, 2, 3, 2, 0, 0, SPREAD},
    {SAME(F32), 1, 12, 3, 48, 20, 2, 1, BROKEN, true},
    {SAME(F32), 0, 4, 2, 16, 8, 0, 0, SPREAD, true},
    {SAME(BF16), 9, 6, 2, 700, 24, 0, 1, SPREAD, true},
    {SAME(Q4_0), 1, 16, 8, 1056, 96, 0, 0, SPREAD, true},
    {SAME(Q4_0), 19, 16, 8, 96, 32, 5, 3, BROKEN, true},
    {SAME(Q8_0), 70, 3, 1, 32, 32, 1, 0, ONE, true},
    {SAME(FP8), 6, 4, 2, 128, 128, 0, 0, NOWHERE, true},
    {SAME(Q4_0), 1, 16, 8, 64, 96, 0, 0, SPREAD, true, WHIM_ACT_Q8},
    {SAME(Q4_0), 19, 16, 8, 96, 32, 5, 3, BROKEN, true, WHIM_ACT_Q8},
    {SAME(Q8_0), 70, 3, 1, 64, 32, 1, 0, ONE, false, WHIM_ACT_Q8},
    {SAME(Q4_K), 4, 3, 2, 256, 256, 0, 0, SPREAD, false, WHIM_ACT_Q8},
    {WHIM_DTYPE_Q4_0, WHIM_DTYPE_F32, WHIM_DTYPE_Q8_0, 5, 4, 2, 32, 32, 1, 0, SPREAD, true,
     WHIM_ACT_Q8},
    {SAME(BF16), 9, 6, 2, 40, 24, 0, 1, SPREAD, true, WHIM_ACT_BF16},
    {SAME(BF16), 1, 6, 2, 70, 34, 3, 0, SPREAD, true, WHIM_ACT_BF16},
    {SAME(F32), 7, 12, 3, 33, 17, 3, 1, SPREAD, false, WHIM_ACT_BF16},
    {SAME(F32), 1, 12, 3, 33, 17, 0, 0, SPREAD, false, WHIM_ACT_BF16},
    {SAME(F32), 1, 4, 2, 64, 8, 0, 0, BROKEN, true, WHIM_ACT_Q8},
    {SAME(FP8), 3, 5, 2, 128, 128, 2, 1, SPREAD, true, WHIM_ACT_Q8},
    {SAME(FP8), 3, 5, 2, 128, 128, 2, 1, SPREAD, true, WHIM_ACT_FP8},
    {SAME(Q4_0), 3, 5, 2, 64, 96, 1, 1, SPREAD, true, WHIM_ACT_BF16},
};
enum { N_EXPERTS = sizeof experts_hostile / sizeof experts_hostile[0] };

enum { PARAM_IDS, PARAM_EXPERTS, PARAM_K, PARAM_STRIDE, PARAM_ROUTING };

/* The experts of each row. */
static void experts_refill(checkop_case *c)
{
    int32_t *ids = checkop_i32(c, (int32_t)c->param[PARAM_IDS]);
    int32_t n = (int32_t)c->param[PARAM_EXPERTS], k = (int32_t)c->param[PARAM_K];
    int32_t one = (int32_t)checkop_range(&c->rng, 0, n - 1);
    for (int64_t r = 0; r < c->n_row; r++) {
        int32_t first = (int32_t)checkop_range(&c->rng, 0, n - 1);
        int32_t step = (int32_t)checkop_range(&c->rng, 1, n > k ? n / k : 1);
        for (int32_t j = 0; j < k; j++) {
            int32_t id = (first + j * step) % n;
            switch ((routing)c->param[PARAM_ROUTING]) {
            case SPREAD:
                break;
            case ONE:
                id = one;
                break;
            case BROKEN:
                id = (int32_t)checkop_pick(&c->rng, -1, id, id, first, n, INT32_MAX, INT32_MIN);
                break;
            case NOWHERE:
                id = (int32_t)checkop_pick(&c->rng, -1, n);
                break;
            }
            ids[r * c->param[PARAM_STRIDE] + j] = id;
        }
    }
}

/* Rows that a first call stores as the shape says; their buffer. */
static int32_t experts_rows(checkop_case *c, const experts_shape *s)
{
    checkop_call *store = checkop_call_add(c, WHIM_OP_narrow);
    whim_narrow_args *n = (void *)store->args.bytes;
    *n = (whim_narrow_args){.x_stride = s->d + s->pad,
                            .y_type = s->act,
                            .y_stride = s->d + (s->pad > 0 ? whim_act_block(s->act) : 0),
                            .n_row = s->rows,
                            .n_col = s->d};
    checkop_operands(c, store, CHECKOP_SANE, s->offset);
    return checkop_bound(store, offsetof(whim_narrow_args, y));
}

/* The experts of the rows come from a first call. */
static int32_t experts_choice(checkop_case *c, const experts_shape *s, int32_t *weights)
{
    checkop_call *choice = checkop_call_add(c, WHIM_OP_moe_topk);
    whim_moe_topk_args *a = (void *)choice->args.bytes;
    *a = (whim_moe_topk_args){.logits_stride = s->experts,
                              .n_row = s->rows,
                              .n_expert = s->experts,
                              .k_top = s->k,
                              .renormalize = true,
                              .scale = 1.0f};
    checkop_operands(c, choice, CHECKOP_SANE, 0);
    *weights = checkop_bound(choice, offsetof(whim_moe_topk_args, weights));
    return checkop_bound(choice, offsetof(whim_moe_topk_args, ids));
}

static void experts_build(checkop_case *c, const experts_shape *s)
{
    bool stored = s->act != WHIM_ACT_F32;
    int32_t rows = stored ? experts_rows(c, s) : 0, weights = 0;
    int32_t ids = s->chosen ? experts_choice(c, s, &weights)
                            : checkop_bytes(c, "ids", CHECKOP_IN, CHECKOP_GIVEN, s->rows, 4 * s->k,
                                            4 * s->k, 4);
    int64_t up_rows = s->experts * whim_moe_pitch(s->ff);
    int64_t down_rows = s->experts * whim_moe_pitch(s->d);
    c->dtype = s->gate == WHIM_DTYPE_BF16 ? s->gate : s->down;
    checkop_call *call = checkop_call_add(c, WHIM_OP_moe_experts);
    whim_moe_experts_args *a = (void *)call->args.bytes;
    a->gate = (whim_weight){.dtype = s->gate, .n = up_rows, .k = s->d};
    a->up = (whim_weight){.dtype = s->up, .n = up_rows, .k = s->d};
    a->down = (whim_weight){.dtype = s->down, .n = down_rows, .k = s->ff};
    a->x_stride = s->d + (!stored ? s->pad : s->pad > 0 ? whim_act_block(s->act) : 0);
    a->x_type = s->act;
    a->y_stride = (s->apart ? s->k : 1) * s->d + (s->pad > 0 ? s->pad + 1 : 0);
    a->weights = s->apart ? NULL : checkop_somewhere;
    a->n_row = s->rows;
    a->n_expert = s->experts;
    a->k_top = s->k;
    CHECKOP_BIND(c, call, moe_experts, ids, ids, 4 * s->k);
    if (s->chosen) {
        CHECKOP_BIND(c, call, moe_experts, weights, weights, 4 * s->k);
    }
    if (stored) {
        CHECKOP_BIND(c, call, moe_experts, x, rows, c->buf[rows].stride_bytes);
    }
    checkop_operands(c, call, CHECKOP_SANE, s->offset);
    CHECKOP_SUBJECT(c, call, moe_experts, s->rows);
    if (stored) {
        c->buf[rows].by_row = false; /* the first call writes all of them */
    }
    if (s->chosen) {
        c->buf[ids].by_row = c->buf[weights].by_row = false;
    }
    c->param[PARAM_IDS] = ids;
    c->param[PARAM_EXPERTS] = s->experts;
    c->param[PARAM_K] = c->param[PARAM_STRIDE] = s->k;
    c->param[PARAM_ROUTING] = s->routing;
    if (!s->chosen) {
        c->refill = experts_refill;
        experts_refill(c);
    }
    double used = (double)(s->rows * s->k < s->experts ? s->rows * s->k : s->experts);
    c->flops = 6.0 * (double)(s->rows * s->k) * (double)(s->d * s->ff);
    c->traffic = used * ((double)(s->ff * (whim_dtype_row_bytes(s->gate, s->d) +
                                           whim_dtype_row_bytes(s->up, s->d))) +
                         (double)(s->d * whim_dtype_row_bytes(s->down, s->ff)));
}

static int64_t whole_blocks(whim_dtype dtype, int64_t k)
{
    int64_t block = whim_dtype_get(dtype)->block_elems;
    return (k + block - 1) / block * block;
}

static void experts_make(checkop_case *c, int32_t index)
{
    experts_shape s = {0};
    checkop_rng *rng = &c->rng;
    if (index < N_EXPERTS) {
        s = experts_hostile[index];
    } else {
        s.gate = s.up = (whim_dtype)checkop_range(rng, 0, WHIM_DTYPE_I32 - 1);
        s.down =
            checkop_chance(rng, 2) ? s.gate : (whim_dtype)checkop_range(rng, 0, WHIM_DTYPE_I32 - 1);
        s.rows = checkop_pick(rng, 1, 2, 5, checkop_range(rng, 1, 24));
        s.experts = checkop_range(rng, 1, 12);
        s.k = checkop_range(rng, 1, s.experts < 4 ? s.experts : 4);
        s.d = whole_blocks(s.gate, checkop_range(rng, 1, 80));
        s.ff = whole_blocks(s.down, checkop_range(rng, 1, 60));
        s.pad = checkop_chance(rng, 2) ? 0 : checkop_range(rng, 1, 9);
        s.offset = checkop_range(rng, 0, 5);
        s.routing = (routing)checkop_pick(rng, SPREAD, SPREAD, ONE, BROKEN);
        s.apart = checkop_chance(rng, 4);
        s.act = checkop_chance(rng, 4) ? WHIM_ACT_BF16 : WHIM_ACT_F32;
        s.act = s.d % WHIM_GROUP == 0 && checkop_chance(rng, 3) ? WHIM_ACT_Q8 : s.act;
    }
    checkop_say(c,
                "%s gate=%s up=%s down=%s rows=%lld experts=%lld k=%lld d=%lld ff=%lld pad=%lld "
                "offset=%lld routing=%d%s",
                whim_act_name(s.act), whim_dtype_get(s.gate)->name, whim_dtype_get(s.up)->name,
                whim_dtype_get(s.down)->name, (long long)s.rows, (long long)s.experts,
                (long long)s.k, (long long)s.d, (long long)s.ff, (long long)s.pad,
                (long long)s.offset, (int)s.routing, s.apart ? " apart" : "");
    experts_build(c, &s);
}

static bool experts_bench(checkop_case *c, int32_t i)
{
    static const whim_dtype types[] = {WHIM_DTYPE_Q4_0, WHIM_DTYPE_Q8_0, WHIM_DTYPE_BF16};
    static const int64_t rows[] = {1, 8, 128};
    if (i >= 9) {
        return false;
    }
    whim_dtype t = types[i / 3];
    experts_shape s = {t, t, t, rows[i % 3], 32, 8, 2048, 768, 0, 0, SPREAD};
    checkop_say(c, "%s 8 of 32 [768,2048] x %lld", whim_dtype_get(t)->name, (long long)s.rows);
    experts_build(c, &s);
    return true;
}

static const char *experts_arguments(int32_t i, void *args)
{
    whim_moe_experts_args *a = args;
    static _Alignas(64) float p[16];
    *a = (whim_moe_experts_args){.gate = {WHIM_DTYPE_F32, 64, 8, p},
                                 .up = {WHIM_DTYPE_F32, 64, 8, p},
                                 .down = {WHIM_DTYPE_F32, 32, 17, p},
                                 .x = p,
                                 .x_stride = 8,
                                 .ids = (int32_t *)(void *)p,
                                 .weights = p,
                                 .y = p,
                                 .y_stride = 8,
                                 .n_row = 2,
                                 .n_expert = 2,
                                 .k_top = 1};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->gate.n = 34, "experts without their pitch";
    case 3:
        return a->up.n = 32, "gate and up differ";
    case 4:
        return a->down.n = 16, "down has too few rows";
    case 5:
        return a->n_expert = 0, "n_expert = 0";
    case 6:
        return a->k_top = 0, "k_top = 0";
    case 7:
        return a->x_stride = 7, "x_stride < d_model";
    case 8:
        return a->ids = NULL, "ids = NULL";
    case 9:
        return a->down.dtype = WHIM_DTYPE_I32, "an integer type as weight";
    case 10:
        return a->up.k = 7, "up takes other rows";
    case 11:
        return a->weights = NULL, a->k_top = 2, "results apart in rows of one";
    case 12:
        return a->x_type = WHIM_ACT_Q8, "rows that are no whole blocks";
    case 13:
        return a->x_type = WHIM_ACT_COUNT, "no such storage type";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_moe_experts = {N_EXPERTS,         120,          12, experts_make,
                                                 experts_arguments, experts_bench};

/* --- moe_sum ---------------------------------------------------------------------------------- */

typedef struct sum_shape {
    int64_t rows, experts, k, cols, pad, offset;
    routing routing;
    checkop_fill fill;
} sum_shape;

static void sum_build(checkop_case *c, const sum_shape *s)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_moe_sum);
    whim_moe_sum_args *a = (void *)call->args.bytes;
    a->x_stride = s->k * s->cols + s->pad;
    a->choice_stride = s->k + s->pad;
    a->y_stride = s->cols + 2 * s->pad;
    a->n_row = s->rows;
    a->n_col = s->cols;
    a->n_expert = s->experts;
    a->k_top = s->k;
    int64_t stride = 4 * a->choice_stride;
    int32_t ids = checkop_bytes(c, "ids", CHECKOP_IN, CHECKOP_GIVEN, s->rows, 4 * s->k, stride, 4);
    CHECKOP_BIND(c, call, moe_sum, ids, ids, stride);
    checkop_operands(c, call, s->fill, s->offset);
    CHECKOP_SUBJECT(c, call, moe_sum, s->rows);
    c->param[PARAM_IDS] = ids;
    c->param[PARAM_EXPERTS] = s->experts;
    c->param[PARAM_K] = s->k;
    c->param[PARAM_STRIDE] = a->choice_stride;
    c->param[PARAM_ROUTING] = s->routing;
    c->refill = experts_refill;
    experts_refill(c);
    c->flops = 2.0 * (double)(s->rows * s->k * s->cols);
    c->traffic = 4.0 * (double)(s->rows * (s->k + 1) * s->cols);
}

static void sum_make(checkop_case *c, int32_t index)
{
    static const sum_shape fixed[] = {
        {0, 4, 2, 64, 0, 0, SPREAD, CHECKOP_SANE},
        {1, 128, 8, 2048, 0, 0, SPREAD, CHECKOP_SANE},
        {7, 12, 3, 33, 3, 1, BROKEN, CHECKOP_SANE},
        {5, 4, 2, 0, 1, 0, SPREAD, CHECKOP_SANE},
        {6, 4, 2, 700, 0, 0, NOWHERE, CHECKOP_ANY},
        {CHECKOP_MANY, 3, 2, 3, 0, 0, ONE, CHECKOP_WILD},
    };
    enum { N_FIXED = sizeof fixed / sizeof fixed[0] };
    sum_shape s;
    checkop_rng *rng = &c->rng;
    if (index < N_FIXED) {
        s = fixed[index];
    } else {
        s.rows = checkop_range(rng, 1, 40);
        s.experts = checkop_range(rng, 1, 20);
        s.k = checkop_range(rng, 1, s.experts < 8 ? s.experts : 8);
        s.cols = checkop_range(rng, 1, 1300);
        s.pad = checkop_range(rng, 0, 3);
        s.offset = checkop_range(rng, 0, 5);
        s.routing = (routing)checkop_pick(rng, SPREAD, ONE, BROKEN);
        s.fill = (checkop_fill)checkop_pick(rng, CHECKOP_SANE, CHECKOP_WILD, CHECKOP_ANY);
    }
    checkop_say(c,
                "rows=%lld experts=%lld k=%lld cols=%lld pad=%lld offset=%lld routing=%d fill=%d",
                (long long)s.rows, (long long)s.experts, (long long)s.k, (long long)s.cols,
                (long long)s.pad, (long long)s.offset, (int)s.routing, (int)s.fill);
    sum_build(c, &s);
}

static bool sum_bench(checkop_case *c, int32_t i)
{
    if (i >= 2) {
        return false;
    }
    sum_shape s = {i == 0 ? 1 : 512, 128, 8, 2048, 0, 0, SPREAD, CHECKOP_SANE};
    checkop_say(c, "8 x %lld x 2048", (long long)s.rows);
    sum_build(c, &s);
    return true;
}

static const char *sum_arguments(int32_t i, void *args)
{
    whim_moe_sum_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_moe_sum_args){.x = p,
                             .x_stride = 8,
                             .ids = (int32_t *)(void *)p,
                             .weights = p,
                             .choice_stride = 2,
                             .y = p,
                             .y_stride = 4,
                             .n_row = 2,
                             .n_col = 4,
                             .n_expert = 3,
                             .k_top = 2};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->x_stride = 7, "x_stride < k_top * n_col";
    case 3:
        return a->choice_stride = 1, "choice_stride < k_top";
    case 4:
        return a->k_top = 0, "k_top = 0";
    case 5:
        return a->weights = NULL, "weights = NULL";
    case 6:
        return a->n_expert = 0, "n_expert = 0";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_moe_sum = {6, 40, 6, sum_make, sum_arguments, sum_bench};

/* --- gated_add -------------------------------------------------------------------------------- */

static void gated_build(checkop_case *c, int64_t rows, int64_t cols, int64_t pad, checkop_fill fill)
{
    checkop_call *call = checkop_call_add(c, WHIM_OP_gated_add);
    whim_gated_add_args *a = (void *)call->args.bytes;
    a->x_stride = cols + pad;
    a->y_stride = cols + 2 * pad;
    a->gate_stride = 1 + pad;
    a->n_row = rows;
    a->n_col = cols;
    checkop_operands(c, call, fill, pad);
    CHECKOP_SUBJECT(c, call, gated_add, rows);
    c->flops = 2.0 * (double)(rows * cols);
    c->traffic = 12.0 * (double)(rows * cols);
}

static void gated_make(checkop_case *c, int32_t index)
{
    static const int64_t fixed[][3] = {{0, 64, 0}, {1, 2048, 0}, {1, 1, 2},
                                       {7, 33, 1}, {5, 0, 0},    {CHECKOP_MANY, 3, 0}};
    enum { N_FIXED = 6 };
    int64_t rows = index < N_FIXED ? fixed[index][0] : checkop_range(&c->rng, 1, 40);
    int64_t cols = index < N_FIXED ? fixed[index][1] : checkop_range(&c->rng, 1, 1300);
    int64_t pad = index < N_FIXED ? fixed[index][2] : checkop_range(&c->rng, 0, 3);
    checkop_fill fill =
        (checkop_fill)checkop_pick(&c->rng, CHECKOP_SANE, CHECKOP_WILD, CHECKOP_ANY);
    checkop_say(c, "rows=%lld cols=%lld pad=%lld fill=%d", (long long)rows, (long long)cols,
                (long long)pad, (int)fill);
    gated_build(c, rows, cols, pad, fill);
}

static bool gated_bench(checkop_case *c, int32_t i)
{
    if (i >= 2) {
        return false;
    }
    int64_t rows = i == 0 ? 1 : 512;
    checkop_say(c, "%lld x 2048", (long long)rows);
    gated_build(c, rows, 2048, 0, CHECKOP_SANE);
    return true;
}

static const char *gated_arguments(int32_t i, void *args)
{
    whim_gated_add_args *a = args;
    float *p = checkop_somewhere;
    *a = (whim_gated_add_args){.x = p,
                               .x_stride = 4,
                               .gate = p,
                               .gate_stride = 1,
                               .y = p,
                               .y_stride = 4,
                               .n_row = 2,
                               .n_col = 4};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->x_stride = 3, "x_stride < n_col";
    case 3:
        return a->gate = NULL, "gate = NULL";
    case 4:
        return a->y = NULL, "y = NULL";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_gated_add = {6, 40, 6, gated_make, gated_arguments, gated_bench};

/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of sample: rows of random logits that each want something else, from all logits or from the
 * best. */
#include "checkop/harness.h"
#include "support/sample_rows.h"

#include "base/check.h"

enum { B_LOGITS, B_WANTS, B_LISTS, B_VALUES, B_IDS };

typedef struct sample_shape {
    int64_t rows, cols, pad, k_best;
    /* 1: temperature 1 and nothing else, 2: top_p, 3: log-probabilities; for the bench */
    int64_t plain;
} sample_shape;

static const sample_shape hostile[] = {
    {0, 64, 0, 0},     {1, 1, 0, 0},
    {3, 1, 2, 5},      {40, 17, 5, 0},
    {33, 63, 0, 64},   {9, 64, 0, 0},
    {9, 65, 1, 0},     {25, 130, 0, 20},
    {7, 1023, 0, 0},   {7, 1024, 3, 0},
    {7, 1025, 0, 0},   {11, 4099, 1, 0},
    {5, 33000, 0, 0},  {3, CHECKOP_MANY, 0, 0},
    {6, 49152, 0, 64}, {CHECKOP_MANY, 3, 1, 0},
    {4, 151936, 0, 0},
};
enum { N_HOSTILE = sizeof hostile / sizeof hostile[0] };

static void plain_want(const checkop_case *c, whim_sample_want *w)
{
    *w = (whim_sample_want){.seed = w->seed,
                            .kind = WHIM_SAMPLE_DRAW,
                            .temperature = 1,
                            .top_p = c->param[2] == 2 ? 0.95f : 1,
                            .repetition_penalty = 1,
                            .n_logprob = c->param[2] == 3 ? 5 : 0,
                            .mask = {.at = -1}};
}

/* The best of the logits, by the law of topk. */
static void best_find(checkop_case *c)
{
    const checkop_buf *logits = &c->buf[B_LOGITS];
    whim_stream law;
    whim_law_stream_init(&law);
    whim_err err = whim_op_topk(&law, &(whim_topk_args){
                                          .x = (const void *)(logits->init + logits->head),
                                          .x_stride = logits->stride_bytes / (int64_t)sizeof(float),
                                          .values = (void *)checkop_i32(c, B_VALUES),
                                          .ids = checkop_i32(c, B_IDS),
                                          .n_row = logits->rows,
                                          .n_col = logits->cols,
                                          .k_top = c->param[1],
                                      });
    whim_check(err == WHIM_ERR_OK);
}

/* param: columns, k_best, plain */
static void sample_refill(checkop_case *c)
{
    int64_t cols = c->param[0], used = 0;
    checkop_buf *logits = &c->buf[B_LOGITS], *wants = &c->buf[B_WANTS];
    int32_t *lists = checkop_i32(c, B_LISTS);
    for (int64_t r = 0; r < logits->rows; r++) {
        uint64_t key = checkop_rand(&c->rng);
        int64_t profile =
            c->param[2] != 0 ? 0 : checkop_range(&c->rng, 0, SAMPLE_ROWS_PROFILES - 1);
        float *x = (float *)(void *)(logits->init + logits->head + r * logits->stride_bytes);
        sample_rows_logits(key, profile, x, cols);
        whim_sample_want w = sample_rows_want(key, cols, c->param[1], lists, &used);
        if (c->param[2] != 0) {
            plain_want(c, &w);
        }
        memcpy(wants->init + wants->head + r * (int64_t)sizeof w, &w, sizeof w);
    }
    if (c->param[1] > 0) {
        best_find(c);
    }
}

static void sample_build(checkop_case *c, const sample_shape *s)
{
    int32_t *lists;
    int64_t words = s->rows * sample_rows_words(s->cols), want = sizeof(whim_sample_want);
    int64_t best = 4 * s->k_best;
    checkop_matrix(c, "logits", CHECKOP_IN, CHECKOP_GIVEN, s->rows, s->cols, s->cols + s->pad, 1);
    checkop_bytes(c, "wants", CHECKOP_IN, CHECKOP_GIVEN, s->rows, want, want, 0);
    checkop_given(c, "lists", words, &lists);
    checkop_matrix(c, "best_values", CHECKOP_IN, CHECKOP_GIVEN, s->rows, s->k_best, s->k_best, 0);
    checkop_bytes(c, "best_ids", CHECKOP_IN, CHECKOP_GIVEN, s->rows, best, best, 0);
    checkop_call *call = checkop_call_add(c, WHIM_OP_sample);
    whim_sample_args *a = (void *)call->args.bytes;
    a->logits_stride = s->cols + s->pad;
    a->k_best = s->k_best;
    a->n_word = words;
    a->n_row = s->rows;
    a->n_col = s->cols;
    if (s->k_best == 0) {
        CHECKOP_BIND(c, call, sample, logits, B_LOGITS, c->buf[B_LOGITS].stride_bytes);
    }
    CHECKOP_BIND(c, call, sample, best_values, B_VALUES, c->buf[B_VALUES].stride_bytes);
    CHECKOP_BIND(c, call, sample, best_ids, B_IDS, c->buf[B_IDS].stride_bytes);
    CHECKOP_BIND(c, call, sample, wants, B_WANTS, c->buf[B_WANTS].stride_bytes);
    CHECKOP_BIND(c, call, sample, lists, B_LISTS, 0);
    checkop_operands(c, call, CHECKOP_GIVEN, 1);
    CHECKOP_SUBJECT(c, call, sample, s->rows);
    c->param[0] = s->cols;
    c->param[1] = s->k_best;
    c->param[2] = s->plain;
    c->refill = sample_refill;
    sample_refill(c);
    c->traffic = 4.0 * (double)(s->rows * s->cols);
}

static void sample_make(checkop_case *c, int32_t index)
{
    sample_shape s = {0};
    checkop_rng *rng = &c->rng;
    if (index < N_HOSTILE) {
        s = hostile[index];
    } else {
        s.rows = checkop_pick(rng, 1, 2, 8, checkop_range(rng, 1, 40));
        s.cols = checkop_pick(rng, 64, 300, checkop_range(rng, 1, 70), checkop_range(rng, 1, 3000));
        s.pad = checkop_chance(rng, 2) ? 0 : checkop_range(rng, 1, 20);
        s.k_best = checkop_chance(rng, 3) ? checkop_range(rng, 1, WHIM_TOPK_MAX) : 0;
    }
    checkop_say(c, "rows=%lld cols=%lld pad=%lld k_best=%lld", (long long)s.rows, (long long)s.cols,
                (long long)s.pad, (long long)s.k_best);
    sample_build(c, &s);
}

static bool sample_bench(checkop_case *c, int32_t i)
{
    static const char *const names[] = {"temperature 1", "top_p 0.95", "5 log-probabilities"};
    if (i >= 6) {
        return false;
    }
    sample_shape s = {.rows = i % 2 == 0 ? 1 : 32, .cols = 49152, .plain = 1 + i / 2};
    checkop_say(c, "%s of %lld x %lld", names[i / 2], (long long)s.rows, (long long)s.cols);
    sample_build(c, &s);
    return true;
}

static const char *sample_arguments(int32_t i, void *args)
{
    whim_sample_args *a = args;
    void *p = checkop_somewhere;
    *a = (whim_sample_args){.logits = p,
                            .logits_stride = 4,
                            .wants = p,
                            .lists = p,
                            .tokens = p,
                            .told = p,
                            .top_ids = p,
                            .top_logprobs = p,
                            .n_row = 2,
                            .n_col = 4};
    switch (i) {
    case 0:
        return "valid";
    case 1:
        return a->n_row = -1, "n_row < 0";
    case 2:
        return a->logits_stride = 3, "logits_stride < n_col";
    case 3:
        return a->logits = NULL, "neither logits nor the best";
    case 4:
        return a->logits = NULL, a->best_values = p, a->best_ids = p, a->k_best = 65, "k_best > 64";
    case 5:
        return a->wants = NULL, "wants = NULL";
    case 6:
        return a->tokens = NULL, "tokens = NULL";
    case 7:
        return a->told = NULL, "told = NULL";
    case 8:
        return a->top_ids = NULL, "top_ids = NULL";
    case 9:
        return a->top_logprobs = NULL, "top_logprobs = NULL";
    case 10:
        return a->n_word = -1, "n_word < 0";
    case 11:
        return a->lists = NULL, a->n_word = 3, "lists = NULL";
    case 12:
        return a->n_row = 0, a->n_col = INT64_C(1) << 31, "more columns than ids";
    default:
        return NULL;
    }
}

const checkop_case_family checkop_sample = {N_HOSTILE,        150,         12, sample_make,
                                            sample_arguments, sample_bench};

/* SPDX-License-Identifier: Apache-2.0 */
/* Experts that ranks have some of each: thousands of steps of all sizes, in which ways and storage
 * types of rows change all the time and ranks come late, have the bits of moe_experts on all of
 * them. Ranks are threads with the law's stream. */
#include "layers/ranks/dealt_experts.h"

#include "base/clock.h"
#include "base/math/rng.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "ops/ops.h"
#include "support/cmocka.h"

#include <stdlib.h>
#include <string.h>

enum {
    D = 32,
    FF = 5,
    N_EXPERT = 7, /* no number of ranks divides it */
    K = 3,
    MAX_RANK = 4,
    MAX_ROWS = 24,
    N_STEP = 1000,
    SLOTS = 2,                  /* beyond, rows and choices are two messages */
    N_STORED = WHIM_ACT_Q8 + 1, /* rows travel as F32, BF16 and int8 */
    WAIT_S = 100
};

static const whim_config config = {.d_model = D,
                                   .moe = {.n_expert = N_EXPERT, .top_k = K, .d_expert = FF}};

/* A step of all ranks: its rows, choices and what comes of them. */
typedef struct step {
    int64_t n_row;
    uint64_t seed;
    bool is_cut;   /* ranks have rows of their own */
    whim_act rows; /* as which these travel */
    float x[MAX_ROWS * D], weights[MAX_ROWS * K], y[MAX_ROWS * D];
    int32_t ids[MAX_ROWS * K];
} step;

typedef struct rank_ctx {
    whim_comm comm;
    whim_thread thread;
    int64_t n_done; /* steps that were right */
} rank_ctx;

/* Stacks of all experts, rows as the law has them: those of an expert are a multiple of 16. */
static float gate[N_EXPERT * 16 * D], up[N_EXPERT * 16 * D], down[N_EXPERT * D * FF];

static float number(uint64_t seed, uint64_t i)
{
    return (float)((int64_t)(whim_rng_at(seed, i) % 2001) - 1000) / 500.0f;
}

static void numbers_fill(float *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = number(seed, (uint64_t)i);
    }
}

/* Experts first .. first + n - 1. */
static whim_moe_experts_args experts_of(int64_t first, int64_t n)
{
    return (whim_moe_experts_args){
        .gate = {WHIM_DTYPE_F32, n * 16, D, gate + first * 16 * D},
        .up = {WHIM_DTYPE_F32, n * 16, D, up + first * 16 * D},
        .down = {WHIM_DTYPE_F32, n * D, FF, down + first * D * FF},
        .x_stride = D,
        .y_stride = D,
        .n_expert = N_EXPERT,
        .k_top = K,
    };
}

/* Choices of any kind: spread, all the same expert's, with ids that are nobody's, nobody's at all;
 * or those of one rank's rows only. */
static int32_t id_of(uint64_t seed, int64_t i, int32_t n_rank)
{
    int32_t any = (int32_t)(whim_rng_at(seed, (uint64_t)i) % N_EXPERT);
    switch (seed % 5) {
    case 0:
        return (int32_t)(seed / 5 % N_EXPERT);
    case 1:
        return any % 3 == 0 ? -1 : any;
    case 2:
        return i / K % n_rank == 1 ? any : -1;
    case 3:
        return seed % 7 == 0 ? -1 : any;
    default:
        return any;
    }
}

static void step_make(step *s, uint64_t number_of, int32_t n_rank)
{
    static const int64_t rows[] = {0, 1, WHIM_DEAL_FEW_ROWS, WHIM_DEAL_FEW_ROWS + 1, 3, 9, 12};
    uint64_t seed = whim_rng_at(77, number_of);
    _Alignas(64) float room[2 * D + 2 * FF + 64];
    _Alignas(64) char stored[MAX_ROWS * D * sizeof(float)];
    whim_stream law;
    s->seed = seed;
    s->is_cut = seed / 64 % 3 == 0;
    s->n_row = rows[seed / 256 % 7];
    s->rows = s->is_cut ? (whim_act)(seed / 2048 % N_STORED) : WHIM_ACT_F32;
    s->n_row -= s->is_cut ? s->n_row % n_rank : 0; /* each rank has as many */
    numbers_fill(s->x, s->n_row * D, seed + 1);
    numbers_fill(s->weights, s->n_row * K, seed + 2);
    for (int64_t i = 0; i < s->n_row * K; i++) {
        s->ids[i] = id_of(seed, i, n_rank);
    }
    whim_law_stream_init(&law);
    law.workspace = (whim_workspace){.base = (char *)room, .bytes = sizeof room};
    whim_moe_experts_args all = experts_of(0, N_EXPERT);
    whim_act_store(s->rows, s->x, stored, s->n_row * D);
    all.x = stored;
    all.x_type = s->rows;
    all.ids = s->ids;
    all.weights = s->weights;
    all.y = s->y;
    all.n_row = s->n_row;
    assert_int_equal(whim_op_moe_experts(&law, &all), WHIM_ERR_OK);
}

/* What a rank has of a step. */
typedef struct share {
    float x[MAX_ROWS * D], weights[MAX_ROWS * K], wanted[MAX_ROWS * D];
    int32_t ids[MAX_ROWS * K], marks[MAX_ROWS];
    int64_t n_row;
    whim_deal_apart apart;
} share;

/* All rows; or a rank's own, one after the other: of as many for each it has some, or none, and
 * some of these are padding. */
static void share_take(const step *s, const whim_deal *deal, share *out)
{
    int64_t by = s->is_cut ? deal->n_rank : 1, first = s->is_cut ? deal->rank : 0;
    int64_t n = s->n_row / by;
    uint64_t own = whim_rng_at(s->seed, 1000 + (uint64_t)(s->is_cut ? deal->rank : 0));
    bool pads = own / 64 % 4 == 0;
    out->apart = (whim_deal_apart){s->is_cut ? n : 0, s->is_cut || pads ? out->marks : NULL};
    out->n_row = s->is_cut && own % 3 != 0 ? (int64_t)(own / 3 % (uint64_t)(n + 1)) : n;
    for (int64_t i = 0; i < out->n_row; i++) {
        int64_t r = first + i * by;
        bool is_padding = pads && (own >> (8 + i)) % 2 == 0;
        out->marks[i] = is_padding ? -1 : (int32_t)i;
        memcpy(out->x + i * D, s->x + r * D, D * sizeof *s->x);
        memcpy(out->weights + i * K, s->weights + r * K, K * sizeof *s->weights);
        memcpy(out->ids + i * K, s->ids + r * K, K * sizeof *s->ids);
        memcpy(out->wanted + i * D, s->y + r * D, D * sizeof *s->y);
        if (is_padding) {
            memset(out->wanted + i * D, 0, D * sizeof *s->y);
        }
    }
}

static bool step_run(rank_ctx *rank, const whim_deal *deal, const step *s)
{
    static _Thread_local _Alignas(64) char memory[128 * 1024];
    static _Thread_local share own_rows;
    float y[MAX_ROWS * D], room[2 * D + 2 * FF + 64];
    whim_bump bump = {.base = memory, .size = sizeof memory};
    whim_part own = whim_deal_own(deal);
    whim_moe_experts_args a = experts_of(own.at, own.n);
    whim_stream law;
    whim_law_stream_init(&law);
    law.comm = &rank->comm;
    law.workspace = (whim_workspace){.base = (char *)room, .bytes = sizeof room};
    share_take(s, deal, &own_rows);
    const whim_deal_apart *apart = &own_rows.apart;
    a.x = own_rows.x;
    a.ids = own_rows.ids;
    a.weights = own_rows.weights;
    a.y = y;
    a.n_row = own_rows.n_row;
    whim_deal_space space = whim_deal_space_take(&bump, deal, &config, a.n_row, apart->n_each);
    whim_err err = whim_dealt_experts(deal, &law, &a, apart, &space);
    return err == WHIM_ERR_OK && memcmp(y, own_rows.wanted, (size_t)a.n_row * D * sizeof *y) == 0;
}

/* Experts of each rank where they are not as many. */
static const int32_t uneven[MAX_RANK + 1][MAX_RANK] = {
    [2] = {1, 6}, [3] = {4, 1, 2}, [4] = {3, 1, 1, 2}};

static void rank_main(void *ctx)
{
    rank_ctx *rank = ctx;
    static _Thread_local step s;
    whim_binder binder;
    whim_binder_init(&binder);
    binder.n_deal = rank->comm.n_rank;
    binder.deal_rank = rank->comm.rank;
    binder.deal_rows_fixed = true;
    binder.deal_slots = SLOTS;
    const whim_deal *deals[N_STORED];
    for (int32_t act = 0; act < N_STORED; act++) {
        binder.deal_rows = (whim_act)act;
        binder.deal_counts = act == WHIM_ACT_BF16 ? uneven[binder.n_deal] : NULL;
        deals[act] = whim_deal_make(&config, &binder);
    }
    for (int64_t i = 0; !binder.failed && i < N_STEP; i++) {
        uint64_t late = whim_rng_at(3 + (uint64_t)rank->comm.rank, (uint64_t)i);
        if (late % 32 == 0) {
            whim_clock_sleep_ns((int64_t)(late / 32 % 200000));
        }
        step_make(&s, (uint64_t)i, rank->comm.n_rank);
        if (!step_run(rank, deals[s.rows], &s)) {
            break;
        }
        rank->n_done++;
    }
    whim_binder_deinit(&binder);
}

static void steps_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    static rank_ctx ranks[MAX_RANK];
    numbers_fill(gate, (int64_t)(sizeof gate / sizeof gate[0]), 11);
    numbers_fill(up, (int64_t)(sizeof up / sizeof up[0]), 12);
    numbers_fill(down, (int64_t)(sizeof down / sizeof down[0]), 13);
    for (int32_t n = 2; n <= MAX_RANK; n++) {
        whim_comm_memory memory;
        whim_diag diag = {{0}};
        assert_int_equal(whim_comm_memory_make(n, &memory, &diag), WHIM_ERR_OK);
        for (int32_t r = 0; r < n; r++) {
            whim_comm_cfg cfg = {.rank = r, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = true};
            ranks[r] = (rank_ctx){0};
            whim_comm_open(&ranks[r].comm, &memory, &cfg);
            assert_int_equal(
                whim_thread_create(&ranks[r].thread, "rank", rank_main, &ranks[r], &diag),
                WHIM_ERR_OK);
        }
        for (int32_t r = 0; r < n; r++) {
            whim_thread_join(&ranks[r].thread);
        }
        for (int32_t r = 0; r < n; r++) {
            assert_int_equal(ranks[r].n_done, N_STEP);
        }
        whim_comm_memory_close(&memory);
    }
}

/* Every expert is one rank's; the first ones have one more where they are not as many each. */
static void experts_are_dealt_in_order(void **state)
{
    (void)state;
    for (int32_t n = 2; n <= N_EXPERT; n++) {
        int64_t next = 0, most = (N_EXPERT + n - 1) / n;
        for (int32_t r = 0; r < n; r++) {
            whim_binder binder;
            whim_binder_init(&binder);
            binder.n_deal = n;
            binder.deal_rank = r;
            whim_part own = whim_deal_own(whim_deal_make(&config, &binder));
            assert_int_equal(own.at, next);
            assert_int_equal(own.n, r < N_EXPERT % n || N_EXPERT % n == 0 ? most : most - 1);
            next += own.n;
            whim_binder_deinit(&binder);
        }
        assert_int_equal(next, N_EXPERT);
    }
}

static void experts_are_dealt_as_is_said(void **state)
{
    (void)state;
    static const int32_t firsts[] = {0, 4, 5, N_EXPERT};
    for (int32_t r = 0; r < 3; r++) {
        whim_binder binder;
        whim_binder_init(&binder);
        binder.n_deal = 3;
        binder.deal_rank = r;
        binder.deal_counts = uneven[3];
        whim_part own = whim_deal_own(whim_deal_make(&config, &binder));
        assert_int_equal(own.at, firsts[r]);
        assert_int_equal(own.n, uneven[3][r]);
        whim_binder_deinit(&binder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_dealt_in_order),
        cmocka_unit_test(experts_are_dealt_as_is_said),
        cmocka_unit_test(steps_have_the_bits_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

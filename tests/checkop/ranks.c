/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of several ranks: each a thread with a device, a stream and a comm of its own. Every
 * rank knows all ranks' inputs, which are numbers of (case, rank, element), and holds what it gets
 * against loops over arrays of ranks, bit for bit: sums in FP32 and in the order of ranks. */
#include "checkop/harness.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/math/rng.h"
#include "base/thread.h"
#include "comm/comm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 7, MAX_ROWS = 9, K_TOP = 2 };
enum { MAX_ELEMS = 80000, N_CALL = 40, N_CALL_QUICK = 12, WAIT_S = 100 };

typedef struct rank_side {
    struct team *of;
    whim_comm comm;
    whim_device *dev;
    whim_stream *stream;
    void *x, *y; /* MAX_ELEMS floats of the device */
    float *in, *got, *wanted, *other;
    whim_thread thread;
    char failed[2300]; /* "" while all is well */
} rank_side;

typedef struct team {
    int32_t n_rank, n_call;
    uint64_t seed;
    rank_side ranks[MAX_RANKS];
} team;

/* A call: the same on all ranks, but for what differs by its nature. */
typedef struct rank_call {
    whim_op op;
    int64_t number, n_row, n_col, root;
    int64_t cols[MAX_RANKS];
    int64_t total; /* of cols */
    /* of moe_dispatch, and of moe_exchange, whose rows have K_TOP results of n_col / K_TOP each */
    int32_t firsts[MAX_RANKS + 1], ids[MAX_ROWS * K_TOP];
    bool all;
} rank_call;

static rank_call call_make(const team *t, int64_t number)
{
    static const whim_op ops[] = {
        WHIM_OP_all_reduce,       WHIM_OP_all_reduce,   WHIM_OP_all_gather_v, WHIM_OP_all_gather_v,
        WHIM_OP_reduce_scatter_v, WHIM_OP_moe_dispatch, WHIM_OP_moe_exchange, WHIM_OP_moe_exchange,
        WHIM_OP_reduce_scatter_v, WHIM_OP_broadcast,    WHIM_OP_barrier,      WHIM_OP_moe_dispatch};
    checkop_rng rng = {.state = t->seed * 1000 + (uint64_t)number};
    rank_call c = {.op = ops[checkop_range(&rng, 0, 11)], .number = number};
    bool large = checkop_chance(&rng, 2);
    c.n_row = checkop_pick(&rng, 0, 1, 1, 2, 3, checkop_range(&rng, 4, 9));
    c.n_col = large ? checkop_range(&rng, 2000, MAX_ELEMS / 9) : checkop_range(&rng, 0, 300);
    if (large && c.n_row == 1) {
        c.n_col = checkop_range(&rng, WHIM_COMM_PIECE / 4 - 3, MAX_ELEMS); /* around a piece */
    }
    c.root = checkop_range(&rng, 0, t->n_rank - 1);
    for (int32_t r = 0; r < t->n_rank; r++) {
        int64_t most = c.n_col / t->n_rank;
        c.cols[r] = checkop_chance(&rng, 4) ? 0 : checkop_range(&rng, 0, most);
        c.total += c.cols[r];
    }
    for (int32_t r = 0; r < t->n_rank; r++) { /* a rank may have no expert */
        c.firsts[r + 1] = c.firsts[r] + (int32_t)checkop_range(&rng, 0, 3);
    }
    int64_t one = checkop_range(&rng, 0, 3 * t->n_rank);
    bool to_one = checkop_chance(&rng, 4);
    for (int32_t i = 0; i < MAX_ROWS * K_TOP; i++) {
        c.ids[i] = (int32_t)(to_one ? one : checkop_range(&rng, -1, c.firsts[t->n_rank]));
    }
    c.all = checkop_chance(&rng, 2);
    return c;
}

/* Values whose sums depend on their order, and now and then no number. */
static void input_fill(const team *t, const rank_call *c, int32_t rank, float *out)
{
    for (int64_t i = 0; i < MAX_ELEMS; i++) {
        uint64_t bits =
            whim_rng_at(t->seed + (uint64_t)(c->number * MAX_RANKS + rank), (uint64_t)i);
        out[i] = (float)((int64_t)(bits >> 40) - (1 << 23)) * (bits % 3 == 0 ? 1e-6f : 1e3f);
        if (bits % 5003 == 0) {
            out[i] = INFINITY;
        }
    }
}

/* --- what must come out ----------------------------------------------------------------------- */

static void wanted_sum(rank_side *s, const rank_call *c, int64_t n)
{
    memset(s->wanted, 0, (size_t)n * 4);
    for (int32_t r = 0; r < s->of->n_rank; r++) {
        input_fill(s->of, c, r, s->other);
        for (int64_t i = 0; i < n; i++) {
            s->wanted[i] = r == 0 ? s->other[i] : s->wanted[i] + s->other[i];
        }
    }
}

static void wanted_gather(rank_side *s, const rank_call *c)
{
    for (int64_t r = 0, at = 0; r < s->of->n_rank; at += c->cols[r], r++) {
        input_fill(s->of, c, (int32_t)r, s->other);
        for (int64_t row = 0; row < c->n_row; row++) {
            for (int64_t i = 0; i < c->cols[r]; i++) {
                s->wanted[row * c->total + at + i] = s->other[row * c->cols[r] + i];
            }
        }
    }
}

static int64_t wanted_scatter(rank_side *s, const rank_call *c)
{
    int64_t own = c->cols[s->comm.rank], first = 0;
    wanted_sum(s, c, c->n_row * c->total);
    for (int32_t r = 0; r < s->comm.rank; r++) {
        first += c->cols[r];
    }
    for (int64_t row = 0; row < c->n_row; row++) {
        for (int64_t i = 0; i < own; i++) {
            s->wanted[row * own + i] = s->wanted[row * c->total + first + i];
        }
    }
    return c->n_row * own;
}

static int64_t wanted_results(rank_side *s, const rank_call *c)
{
    int64_t n_col = c->n_col / K_TOP;
    int32_t n_rank = s->of->n_rank, me = s->comm.rank;
    input_fill(s->of, c, me, s->wanted);
    for (int32_t r = 0; r < n_rank; r++) {
        input_fill(s->of, c, r, s->other);
        for (int64_t i = 0; i < c->n_row * K_TOP; i++) {
            bool made = c->ids[i] >= c->firsts[r] && c->ids[i] < c->firsts[r + 1];
            if (made && (c->all || i / K_TOP % n_rank == me)) {
                memcpy(s->wanted + i * n_col, s->other + i * n_col, (size_t)n_col * 4);
            }
        }
    }
    return c->n_row * K_TOP * n_col * 4;
}

static bool has_expert(const rank_call *c, int64_t row, int32_t rank)
{
    for (int64_t k = row * K_TOP; k < (row + 1) * K_TOP; k++) {
        if (c->ids[k] >= c->firsts[rank] && c->ids[k] < c->firsts[rank + 1]) {
            return true;
        }
    }
    return false;
}

static int64_t wanted_rows(rank_side *s, const rank_call *c)
{
    int64_t n_col = c->n_col;
    input_fill(s->of, c, s->comm.rank, s->wanted);
    for (int64_t i = 0; i < c->n_row; i++) {
        input_fill(s->of, c, (int32_t)(i % s->of->n_rank), s->other);
        if (has_expert(c, i, s->comm.rank)) {
            memcpy(s->wanted + i * n_col, s->other + i * n_col, (size_t)n_col * 4);
        }
    }
    return c->n_row * n_col * 4;
}

/* Bytes of the result; *in_place: it lies where the input was. */
static int64_t wanted_make(rank_side *s, const rank_call *c, bool *in_place)
{
    *in_place = true;
    switch (c->op) {
    case WHIM_OP_all_reduce:
        wanted_sum(s, c, c->n_row * c->n_col);
        return c->n_row * c->n_col * 4;
    case WHIM_OP_broadcast:
        input_fill(s->of, c, (int32_t)c->root, s->wanted);
        return c->n_col;
    case WHIM_OP_moe_dispatch:
        return wanted_rows(s, c);
    case WHIM_OP_moe_exchange:
        return wanted_results(s, c);
    case WHIM_OP_barrier:
        return 0;
    default:
        *in_place = false;
        break;
    }
    if (c->op == WHIM_OP_all_gather_v) {
        wanted_gather(s, c);
        return c->n_row * c->total * 4;
    }
    return wanted_scatter(s, c) * 4;
}

/* --- a call ----------------------------------------------------------------------------------- */

static whim_err queue(rank_side *s, const rank_call *c)
{
    int32_t n = s->of->n_rank, rank = s->comm.rank;
    switch (c->op) {
    case WHIM_OP_all_reduce:
        return whim_op_all_reduce(s->stream,
                                  &(whim_all_reduce_args){s->x, c->n_row, c->n_col, "sum of test"});
    case WHIM_OP_all_gather_v:
        return whim_op_all_gather_v(
            s->stream, &(whim_all_gather_v_args){s->x, c->cols, s->y, c->n_row, n, rank, "gather"});
    case WHIM_OP_reduce_scatter_v:
        return whim_op_reduce_scatter_v(
            s->stream,
            &(whim_reduce_scatter_v_args){s->x, c->cols, s->y, c->n_row, n, rank, "scatter"});
    case WHIM_OP_moe_exchange: /* ids lie in y */
        return whim_op_moe_exchange(s->stream, &(whim_moe_exchange_args){.x = s->x,
                                                                         .ids = s->y,
                                                                         .firsts = c->firsts,
                                                                         .n_row = c->n_row,
                                                                         .n_col = c->n_col / K_TOP,
                                                                         .k_top = K_TOP,
                                                                         .n_rank = n,
                                                                         .rank = rank,
                                                                         .all = c->all,
                                                                         .site = "results"});
    case WHIM_OP_moe_dispatch:
        return whim_op_moe_dispatch(s->stream, &(whim_moe_dispatch_args){.x = s->x,
                                                                         .ids = s->y,
                                                                         .firsts = c->firsts,
                                                                         .n_row = c->n_row,
                                                                         .n_col = c->n_col,
                                                                         .k_top = K_TOP,
                                                                         .n_rank = n,
                                                                         .rank = rank,
                                                                         .site = "rows"});
    case WHIM_OP_broadcast:
        return whim_op_broadcast(s->stream, &(whim_broadcast_args){.x = s->x,
                                                                   .bytes = c->n_col,
                                                                   .root = (int32_t)c->root,
                                                                   .site = "broadcast"});
    default:
        return whim_op_barrier(s->stream, &(whim_barrier_args){"barrier"});
    }
}

/* At once, or as a graph that is replayed. */
static whim_err run(rank_side *s, const rank_call *c, bool as_graph)
{
    whim_graph *graph = NULL;
    if (!as_graph) {
        return queue(s, c);
    }
    WHIM_TRY(s->stream->vt->capture_begin(s->stream));
    whim_err err = queue(s, c);
    whim_err end = s->stream->vt->capture_end(s->stream, &graph);
    err = err != WHIM_ERR_OK ? err : end;
    err = err != WHIM_ERR_OK ? err : s->stream->vt->replay(s->stream, graph);
    whim_err ran = whim_stream_sync(s->stream);
    s->stream->vt->graph_free(s->stream, graph);
    return err != WHIM_ERR_OK ? err : ran;
}

static whim_err call_run(rank_side *s, const rank_call *c, bool as_graph, bool in_place)
{
    int64_t bytes = (int64_t)MAX_ELEMS * 4;
    input_fill(s->of, c, s->comm.rank, s->in);
    memset(s->other, 0x5a, (size_t)bytes);
    if (c->op == WHIM_OP_moe_exchange || c->op == WHIM_OP_moe_dispatch) {
        memcpy(s->other, c->ids, sizeof c->ids);
    }
    WHIM_TRY(whim_stream_copy_in(s->stream, s->x, s->in, bytes));
    WHIM_TRY(whim_stream_copy_in(s->stream, s->y, s->other, bytes));
    WHIM_TRY(run(s, c, as_graph));
    WHIM_TRY(whim_stream_copy_out(s->stream, s->got, in_place ? s->x : s->y, bytes));
    return whim_stream_sync(s->stream);
}

/* NaN are equal: of two infinities the sum has a sign of its own. */
static bool same(const rank_side *s, const rank_call *c, int64_t bytes)
{
    bool sums = c->op == WHIM_OP_all_reduce || c->op == WHIM_OP_reduce_scatter_v;
    for (int64_t i = 0; sums && i < bytes / 4; i++) {
        bool both_nan = s->got[i] != s->got[i] && s->wanted[i] != s->wanted[i];
        if (!both_nan && memcmp(&s->got[i], &s->wanted[i], 4) != 0) {
            return false;
        }
    }
    return sums || memcmp(s->got, s->wanted, (size_t)bytes) == 0;
}

/* What lies behind the result is as it was. */
static bool untouched(const rank_side *s, int64_t bytes, bool in_place)
{
    const char *got = (const char *)s->got, *in = (const char *)s->in;
    for (int64_t i = bytes; i < (int64_t)MAX_ELEMS * 4; i++) {
        if (got[i] != (in_place ? in[i] : 0x5a)) {
            return false;
        }
    }
    return true;
}

static bool call_test(rank_side *s, int64_t number)
{
    bool in_place;
    rank_call c = call_make(s->of, number);
    int64_t bytes = wanted_make(s, &c, &in_place);
    whim_err err = call_run(s, &c, number % 3 == 0, in_place);
    const char *what = err != WHIM_ERR_OK               ? s->comm.diag.text
                       : !same(s, &c, bytes)            ? "the result differs from the law"
                       : !untouched(s, bytes, in_place) ? "it wrote behind the result"
                                                        : NULL;
    if (what != NULL) {
        snprintf(s->failed, sizeof s->failed, "rank %d of %d, call %d, %s of %d x %d: %s: %s",
                 s->comm.rank, s->of->n_rank, (int)number, whim_op_name(c.op), (int)c.n_row,
                 (int)c.n_col, whim_err_name(err), what);
    }
    return what == NULL;
}

static void rank_main(void *ctx)
{
    rank_side *s = ctx;
    for (int64_t i = 0; i < s->of->n_call && call_test(s, i); i++) {
    }
}

/* --- a team ----------------------------------------------------------------------------------- */

static float *floats_make(void)
{
    float *p = malloc((size_t)MAX_ELEMS * 4);
    whim_check(p != NULL);
    return p;
}

static whim_err rank_open(rank_side *s, const checkop_run *run, int32_t n_thread, whim_diag *diag)
{
    const whim_device_cfg cfg = {.n_thread = n_thread, .isa = run->isa};
    WHIM_TRY(run->backend->device_open(0, &cfg, &s->dev, diag));
    WHIM_TRY(whim_stream_open(s->dev, &s->stream, diag));
    s->stream->comm = &s->comm;
    WHIM_TRY(whim_device_alloc(s->dev, MAX_ELEMS * 4, &s->x, diag));
    WHIM_TRY(whim_device_alloc(s->dev, MAX_ELEMS * 4, &s->y, diag));
    return whim_stream_reserve(s->stream, 0, diag);
}

static void rank_close(rank_side *s)
{
    whim_stream_close(s->stream);
    if (s->dev != NULL) {
        whim_device_free(s->dev, s->x, MAX_ELEMS * 4);
        whim_device_free(s->dev, s->y, MAX_ELEMS * 4);
    }
    whim_device_close(s->dev);
    free(s->in);
    free(s->got);
    free(s->wanted);
    free(s->other);
}

static void rank_begin(team *t, int32_t r, const whim_comm_memory *memory, const checkop_run *run)
{
    rank_side *s = &t->ranks[r];
    whim_diag diag = {{0}};
    whim_comm_cfg cfg = {.rank = r, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = true};
    s->of = t;
    s->in = floats_make();
    s->got = floats_make();
    s->wanted = floats_make();
    s->other = floats_make();
    whim_comm_open(&s->comm, memory, &cfg);
    bool threads = t->n_rank <= 3 && run->side[0].dev->caps.n_thread > 1; /* else the CPUs' share */
    whim_check(rank_open(s, run, threads ? 2 : 1, &diag) == WHIM_ERR_OK);
}

bool checkop_ranks_run_on(const checkop_run *run)
{
    whim_device *dev = run->side[0].dev;
    return dev->vt->op_accepts(dev, WHIM_OP_barrier, &(whim_barrier_args){"asked"});
}

/* Case i has i + 1 ranks. */
bool checkop_ranks_test(const checkop_run *run, int32_t index, bool quick)
{
    static team t;
    bool ok = true;
    whim_comm_memory memory;
    whim_diag diag = {{0}};
    memset(&t, 0, sizeof t);
    t.n_rank = index % MAX_RANKS + 1;
    t.n_call = quick ? N_CALL_QUICK : N_CALL;
    t.seed = run->seed + (uint64_t)index;
    whim_check(whim_comm_memory_make(t.n_rank, &memory, &diag) == WHIM_ERR_OK);
    for (int32_t r = 0; r < t.n_rank; r++) {
        rank_begin(&t, r, &memory, run);
    }
    for (int32_t r = 0; r < t.n_rank; r++) {
        whim_check(whim_thread_create(&t.ranks[r].thread, "rank", rank_main, &t.ranks[r], &diag) ==
                   WHIM_ERR_OK);
    }
    for (int32_t r = 0; r < t.n_rank; r++) {
        whim_thread_join(&t.ranks[r].thread);
        rank_close(&t.ranks[r]);
        if (t.ranks[r].failed[0] != '\0') {
            printf("FAIL %s ranks case %d (--op=ranks --seed=%llu --case=%d): %s\n", run->place,
                   index, (unsigned long long)run->seed, index, t.ranks[r].failed);
            ok = false;
        }
    }
    whim_comm_memory_close(&memory);
    return ok;
}

static void ranks_make(checkop_case *c, int32_t index)
{
    checkop_say(c, "%d ranks", index % MAX_RANKS + 1);
}

const checkop_case_family checkop_ranks = {MAX_RANKS, MAX_RANKS, 0, ranks_make, NULL, NULL};

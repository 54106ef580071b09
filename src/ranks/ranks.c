/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's side: generations of ranks, orders, the watch. */
#include "ranks/ranks.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/cpu.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "ranks/order.h"
#include "ranks/process.h"

#include <stdatomic.h>
#include <string.h>

enum {
    WATCH_MS = 50,        /* between looks at the flag that ends the watch */
    CROWDED_STALL_S = 60, /* where ranks share CPUs */
};

typedef struct ranks {
    whim_engine_cfg cfg; /* rank 0's */
    whim_comm_memory memory;
    whim_comm comm;
    const char *program;
    bool crowded;
    int64_t stall_ns;
    whim_rank_process *followers; /* [n_rank - 1], of rank 1 and so on */
    whim_thread watch;
    bool is_watched;
    atomic_bool over;
} ranks;

/* --- orders ----------------------------------------------------------------------------------- */

static whim_err reply_take(whim_rank_process *p, whim_follower_reply *reply, whim_diag *diag)
{
    WHIM_TRY(whim_rank_hear(p, reply, sizeof *reply, diag));
    reply->diag.text[sizeof reply->diag.text - 1] = '\0';
    if (reply->err != WHIM_ERR_OK) {
        return whim_fail(diag, (whim_err)reply->err, "rank %d: %s", p->rank, reply->diag.text);
    }
    return WHIM_ERR_OK;
}

/* Start all followers, each with its part to prepare; they do so at the same time. */
static whim_err followers_order(ranks *r, const whim_engine *engine, whim_diag *diag)
{
    whim_engine_sizes sizes = whim_engine_sizes_of(engine);
    whim_follower_order *order = whim_alloc(sizeof *order);
    whim_err err = whim_got(order != NULL, diag, "no memory for the order of a rank");
    for (int32_t i = 1; i < r->cfg.n_rank && err == WHIM_ERR_OK; i++) {
        err = whim_follower_order_make(order, &r->cfg, &sizes, i, diag);
        order->crowded = r->crowded;
        order->stall_ns = r->stall_ns;
        if (err == WHIM_ERR_OK) {
            err = whim_rank_start(&r->followers[i - 1], r->program, r->memory.fd, diag);
        }
        if (err == WHIM_ERR_OK) {
            err = whim_rank_send(&r->followers[i - 1], order, sizeof *order, diag);
        }
    }
    whim_free(order);
    return err;
}

/* What they found; *bytes: what they will take. */
static whim_err followers_hear(ranks *r, const whim_engine *engine, int64_t *bytes, whim_diag *diag)
{
    const char *isa = whim_engine_caps(engine)->isa;
    *bytes = 0;
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        whim_follower_reply reply;
        WHIM_TRY(reply_take(&r->followers[i - 1], &reply, diag));
        if (strncmp(reply.isa, isa, sizeof reply.isa) != 0) {
            return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                             "rank %d runs on level %.31s and rank 0 on %s; --isa makes them equal",
                             i, reply.isa, isa);
        }
        *bytes += reply.plan_bytes;
    }
    return WHIM_ERR_OK;
}

/* --- loading and watching --------------------------------------------------------------------- */

/* Who waits in a collective for a rank that is gone is told at once. */
static void watch_main(void *ctx)
{
    ranks *r = ctx;
    char how[WHIM_RANK_HOW];
    while (!atomic_load(&r->over)) {
        for (int32_t i = 1; i < r->cfg.n_rank; i++) {
            if (whim_rank_ended(&r->followers[i - 1], how, sizeof how) && !atomic_load(&r->over)) {
                whim_comm_abort(&r->memory, how);
            }
        }
        whim_clock_sleep_ns(WATCH_MS * WHIM_NS_PER_MS);
    }
}

static whim_err load_begin(void *ctx, whim_diag *diag)
{
    ranks *r = ctx;
    const uint32_t word = WHIM_RANK_LOAD;
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        WHIM_TRY(whim_rank_send(&r->followers[i - 1], &word, sizeof word, diag));
    }
    return WHIM_ERR_OK;
}

static whim_err load_end(void *ctx, whim_diag *diag)
{
    ranks *r = ctx;
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        whim_follower_reply reply;
        WHIM_TRY(reply_take(&r->followers[i - 1], &reply, diag));
    }
    WHIM_TRY(whim_thread_create(&r->watch, "ranks", watch_main, r, diag));
    r->is_watched = true;
    return WHIM_ERR_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* A generation of ranks: processes and their watch. Its memory stays until there is another,
 * because rank 0 may still ask it. */
static void generation_end(ranks *r, int64_t until)
{
    atomic_store(&r->over, true);
    if (r->is_watched) {
        whim_thread_join(&r->watch);
        r->is_watched = false;
    }
    for (int32_t i = 1; r->followers != NULL && i < r->cfg.n_rank; i++) {
        whim_rank_end(&r->followers[i - 1], until);
    }
}

static void close_all(void *ctx)
{
    ranks *r = ctx;
    generation_end(r, whim_clock_ns() + WHIM_RANK_END_MS * WHIM_NS_PER_MS);
    whim_comm_memory_close(&r->memory);
    whim_free(r->followers);
    whim_free(r);
}

/* --- the beginning ---------------------------------------------------------------------------- */

static whim_err generation_begin(ranks *r, whim_diag *diag)
{
    whim_comm_memory memory;
    WHIM_TRY(whim_comm_memory_make(r->cfg.n_rank, &memory, diag));
    whim_comm_memory_close(&r->memory);
    r->memory = memory;
    r->memory.fd = whim_rank_fd(memory.fd);
    atomic_store(&r->over, false);
    whim_comm_open(&r->comm, &r->memory,
                   &(whim_comm_cfg){.wait_ns = r->stall_ns, .crowded = r->crowded});
    return WHIM_ERR_OK;
}

static whim_err count_check(const whim_ranks_cfg *cfg, int32_t n_thread, whim_diag *diag)
{
    int32_t n_cpu = whim_os_cpu_count();
    if (cfg->n_rank < 2 || cfg->n_rank > WHIM_COMM_MAX_RANK) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%d ranks were asked for; there may be 1 to %d",
                         cfg->n_rank, WHIM_COMM_MAX_RANK);
    }
    if ((int64_t)cfg->n_rank * n_thread > n_cpu && !cfg->may_crowd) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%d ranks with %d thread%s each were asked for, but this process may use "
                         "%d CPU%s; --oversubscribe takes them all the same",
                         cfg->n_rank, n_thread, n_thread == 1 ? "" : "s", n_cpu,
                         n_cpu == 1 ? "" : "s");
    }
    return WHIM_ERR_OK;
}

static whim_err ranks_make(ranks *r, const whim_engine_cfg *engine_cfg, const whim_ranks_cfg *cfg,
                           whim_diag *diag)
{
    int32_t n_thread = engine_cfg->n_thread > 0 ? engine_cfg->n_thread : 1;
    WHIM_TRY(count_check(cfg, n_thread, diag));
    r->cfg = *engine_cfg;
    r->cfg.n_rank = cfg->n_rank;
    r->cfg.comm = &r->comm;
    r->crowded = (int64_t)cfg->n_rank * n_thread > whim_os_cpu_count();
    r->stall_ns = cfg->stall_ns > 0 ? cfg->stall_ns
                  : r->crowded      ? CROWDED_STALL_S * WHIM_NS_PER_S
                                    : 0;
    r->followers = whim_alloc_array(cfg->n_rank - 1, sizeof *r->followers);
    WHIM_TRY(whim_got(r->followers != NULL, diag, "no memory for %d ranks", cfg->n_rank));
    for (int32_t i = 0; i < cfg->n_rank - 1; i++) {
        r->followers[i] = (whim_rank_process){.rank = i + 1, .socket = -1};
    }
    r->program = cfg->program != NULL ? cfg->program : "/proc/self/exe";
    return generation_begin(r, diag);
}

/* --- beginning again -------------------------------------------------------------------------- */

static bool is_apart(void *ctx)
{
    const ranks *r = ctx;
    return whim_comm_is_over(&r->comm);
}

/* The memory is new, so nobody of the last generation has any part in it. */
static whim_err rejoin(void *ctx, const whim_engine *engine, whim_diag *diag)
{
    ranks *r = ctx;
    int64_t ignored;
    generation_end(r, whim_clock_ns()); /* at once: one of them may be what hangs */
    WHIM_TRY(generation_begin(r, diag));
    whim_err err = followers_order(r, engine, diag);
    if (err == WHIM_ERR_OK) {
        err = followers_hear(r, engine, &ignored, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = load_begin(r, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = load_end(r, diag);
    }
    if (err != WHIM_ERR_OK) {
        generation_end(r, whim_clock_ns());
        whim_comm_abort(&r->memory, diag->text);
    }
    return err;
}

whim_err whim_ranks_prepare(const whim_engine_cfg *engine_cfg, const whim_ranks_cfg *cfg,
                            whim_engine **out, whim_diag *diag)
{
    whim_engine *engine = NULL;
    ranks *r = whim_alloc(sizeof *r);
    WHIM_TRY(whim_got(r != NULL, diag, "no memory for %d ranks", cfg->n_rank));
    r->memory.fd = -1;
    int64_t bytes = 0;
    whim_err err = ranks_make(r, engine_cfg, cfg, diag);
    if (err == WHIM_ERR_OK) { /* refused here, it is before any process is started */
        err = whim_engine_prepare(&r->cfg, &engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = followers_order(r, engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = followers_hear(r, engine, &bytes, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_engine_close(engine);
        close_all(r);
        return err;
    }
    whim_engine_set_peers(
        engine, &(whim_engine_peers){r, load_begin, load_end, close_all, is_apart, rejoin}, bytes);
    *out = engine;
    return WHIM_ERR_OK;
}

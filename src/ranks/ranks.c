/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's side: the beginning of its ranks, beginning again, and their end. */
#include "ranks/ranks.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/cpu.h"
#include "comm/rank_meters.h"
#include "ranks/bridges.h"
#include "ranks/ranks_inner.h"
#include "ranks/wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    CROWDED_STALL_S = 60, /* where ranks share CPUs */
    NODES_AGAIN_S = 10,   /* for nodes to come back, before it is tried anew */
};

/* --- the end ---------------------------------------------------------------------------------- */

/* A generation of ranks: processes and their watch. Its memory stays until there is another,
 * because rank 0 may still ask it. */
static void generation_end(whim_ranks *r, int64_t until)
{
    whim_ranks_watch_end(r);
    for (int32_t i = 1; r->followers != NULL && i < r->cfg.n_rank; i++) {
        whim_rank_end(&r->followers[i - 1], until);
    }
    for (int32_t i = 0; r->bridges != NULL && i < r->nodes_cfg.n_node; i++) {
        whim_rank_end(&r->bridges[i], until);
    }
    if (r->nodes != NULL) {
        whim_nodes_end(r->nodes);
    }
}

static void close_all(void *ctx)
{
    whim_ranks *r = ctx;
    generation_end(r, whim_clock_ns() + WHIM_RANK_END_MS * WHIM_NS_PER_MS);
    whim_nodes_close(r->nodes);
    whim_comm_memory_close(&r->memory);
    pthread_mutex_destroy(&r->lock);
    whim_free(r->bridges);
    whim_free(r->followers);
    whim_free(r->order);
    whim_free(r);
}

/* --- the beginning ---------------------------------------------------------------------------- */

static whim_err generation_begin(whim_ranks *r, whim_diag *diag)
{
    whim_comm_memory memory;
    WHIM_TRY(whim_comm_memory_make(r->cfg.n_rank, &memory, diag));
    int fd = whim_rank_fd(memory.fd);
    if (fd < 0) {
        memory.fd = -1;
        whim_fail(diag, WHIM_ERR_IO, "no descriptor for what ranks share: %s", strerror(errno));
        whim_comm_memory_close(&memory);
        return WHIM_ERR_IO;
    }
    memory.fd = fd;
    pthread_mutex_lock(&r->lock);
    if (r->memory.shared != NULL) {
        whim_rank_meters_carry(&memory, &r->memory);
    }
    whim_comm_memory_close(&r->memory);
    r->memory = memory;
    pthread_mutex_unlock(&r->lock);
    whim_comm_open(&r->comm, &r->memory,
                   &(whim_comm_cfg){.wait_ns = r->stall_ns, .crowded = r->crowded});
    return WHIM_ERR_OK;
}

whim_err whim_ranks_count_check(int32_t n_rank, int32_t n_thread, bool may_crowd, bool *crowded,
                                whim_diag *diag)
{
    int32_t n_cpu = whim_os_cpu_count();
    n_thread = n_thread > 0 ? n_thread : 1;
    *crowded = (int64_t)n_rank * n_thread > n_cpu;
    if (*crowded && !may_crowd) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "%d ranks with %d thread%s each were asked for, but this process may use "
                         "%d CPU%s; --oversubscribe takes them all the same",
                         n_rank, n_thread, n_thread == 1 ? "" : "s", n_cpu, n_cpu == 1 ? "" : "s");
    }
    return WHIM_ERR_OK;
}

static whim_err processes_make(int32_t n, const char *name, int32_t first, whim_rank_process **out,
                               whim_diag *diag)
{
    whim_rank_process *list = whim_alloc_array(n, sizeof *list);
    WHIM_TRY(whim_got(list != NULL, diag, "no memory for %d ranks", n));
    for (int32_t i = 0; i < n; i++) {
        list[i].socket = -1;
        snprintf(list[i].name, sizeof list[i].name, "%s %d", name, first + i);
    }
    *out = list;
    return WHIM_ERR_OK;
}

/* The port is bound before anything takes long; nobody joins yet. What cannot be without a library
 * is refused before others come for it. */
static whim_err nodes_make(whim_ranks *r, const whim_nodes_cfg *cfg, whim_diag *diag)
{
    if (cfg->n_node > r->cfg.n_rank || cfg->n_node > WHIM_JOIN_MAX_NODE) {
        return whim_fail(
            diag, WHIM_ERR_INVALID,
            "--nodes %d with %d ranks: each node has a rank at least, and there may be "
            "%d nodes",
            cfg->n_node, r->cfg.n_rank, WHIM_JOIN_MAX_NODE);
    }
    r->nodes_cfg = *cfg;
    WHIM_TRY(processes_make(cfg->n_node, "the bridge of node", 0, &r->bridges, diag));
    WHIM_TRY(whim_bridge_try(r->program, 0, cfg->device, diag));
    return whim_nodes_open(cfg, &r->nodes, diag);
}

static whim_err ranks_make(whim_ranks *r, const whim_engine_cfg *engine_cfg,
                           const whim_ranks_cfg *cfg, whim_diag *diag)
{
    if (cfg->n_rank < 2 || cfg->n_rank > WHIM_COMM_MAX_RANK) {
        return whim_fail(diag, WHIM_ERR_INVALID, "%d ranks were asked for; there may be 1 to %d",
                         cfg->n_rank, WHIM_COMM_MAX_RANK);
    }
    r->program = cfg->program != NULL ? cfg->program : "/proc/self/exe";
    r->cfg = *engine_cfg;
    r->cfg.n_rank = cfg->n_rank;
    r->cfg.comm = &r->comm;
    r->nodes_cfg.n_node = 1;
    if (cfg->nodes != NULL) {
        WHIM_TRY(nodes_make(r, cfg->nodes, diag));
    }
    r->cfg.n_host = whim_ranks_first(r, 1);
    WHIM_TRY(whim_ranks_count_check(r->cfg.n_host, engine_cfg->n_thread, cfg->may_crowd,
                                    &r->crowded, diag));
    r->crowded |= r->nodes != NULL && cfg->may_crowd; /* another node may be */
    r->stall_ns = cfg->stall_ns > 0 ? cfg->stall_ns
                  : r->crowded      ? CROWDED_STALL_S * WHIM_NS_PER_S
                                    : 0;
    WHIM_TRY(processes_make(cfg->n_rank - 1, "rank", 1, &r->followers, diag));
    return generation_begin(r, diag);
}

static whim_err wish_check(const whim_ranks *r, const whim_engine *engine, whim_diag *diag)
{
    int32_t n_kv = whim_engine_config(engine)->n_kv;
    if (n_kv < r->cfg.n_rank) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "%d ranks would share the model's %d KV heads, and keep them more than "
                         "once",
                         r->cfg.n_rank, n_kv);
    }
    return whim_memory_plan_check(whim_engine_plan(engine), diag);
}

/* Now that it is known what all must have alike. */
static whim_err nodes_start(whim_ranks *r, const whim_engine *engine, whim_diag *diag)
{
    whim_join_facts facts;
    if (r->nodes == NULL) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_join_facts_of(engine, &r->cfg, r->nodes_cfg.n_node, &facts, diag));
    return whim_nodes_start(r->nodes, &facts,
                            r->crowded ? WHIM_WIRE_CROWDED_MS * WHIM_NS_PER_MS : 0, diag);
}

/* All have as many pages as the smallest has room for: what was chosen by this host's memory alone
 * may be more than another's. */
static whim_err sizes_lower(whim_ranks *r, whim_engine **engine, whim_diag *diag)
{
    const whim_nodes_cfg *nodes = &r->nodes_cfg;
    bool any = false;
    if (r->nodes == NULL) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_nodes_await(r->nodes, r->nodes_cfg.join_ns, diag));
    r->sizes = whim_engine_sizes_of(*engine);
    for (int32_t i = 1; i < nodes->n_node; i++) {
        whim_join_room room = whim_nodes_room(r->nodes, i);
        bool lower = whim_join_lower(&r->sizes, &room);
        any |= lower;
        if (lower && nodes->on_lower != NULL) {
            nodes->on_lower(nodes->ctx, i, &r->sizes);
        }
    }
    if (!any) {
        return WHIM_ERR_OK;
    }
    whim_engine_close(*engine);
    *engine = NULL;
    r->cfg.sizes = &r->sizes;
    return whim_engine_prepare(&r->cfg, engine, diag);
}

/* --- beginning again -------------------------------------------------------------------------- */

static bool is_apart(void *ctx, whim_diag *why)
{
    const whim_ranks *r = ctx;
    return whim_comm_check(&r->comm, why) != WHIM_ERR_OK;
}

/* The memory is new, so nobody of the last generation has any part in it. */
static whim_err rejoin(void *ctx, const whim_engine *engine, whim_diag *diag)
{
    whim_ranks *r = ctx;
    int64_t ignored;
    generation_end(r, whim_clock_ns()); /* at once: one of them may be what hangs */
    WHIM_TRY(generation_begin(r, diag));
    whim_err err = whim_ranks_start(r, engine, NODES_AGAIN_S * WHIM_NS_PER_S, &ignored, diag);
    if (err == WHIM_ERR_OK) {
        err = whim_ranks_load_begin(r, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = whim_ranks_load_end(r, diag);
    }
    if (err != WHIM_ERR_OK) {
        generation_end(r, whim_clock_ns());
        whim_comm_abort(&r->memory, diag->text);
    }
    return err;
}

static void look(void *ctx, int32_t rank, whim_rank_meters *out)
{
    whim_ranks *r = ctx;
    pthread_mutex_lock(&r->lock);
    whim_rank_meters_look(&r->memory, rank, out);
    pthread_mutex_unlock(&r->lock);
}

whim_err whim_ranks_prepare(const whim_engine_cfg *engine_cfg, const whim_ranks_cfg *cfg,
                            whim_engine **out, whim_diag *diag)
{
    whim_engine *engine = NULL;
    whim_ranks *r = whim_alloc(sizeof *r);
    WHIM_TRY(whim_got(r != NULL, diag, "no memory for %d ranks", cfg->n_rank));
    pthread_mutex_init(&r->lock, NULL);
    r->memory.fd = -1;
    int64_t bytes = 0;
    whim_err err = ranks_make(r, engine_cfg, cfg, diag);
    if (err == WHIM_ERR_OK) { /* refused here, it is before any process is started */
        err = whim_engine_prepare(&r->cfg, &engine, diag);
    }
    if (err == WHIM_ERR_OK && cfg->is_wish) {
        err = wish_check(r, engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = nodes_start(r, engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = sizes_lower(r, &engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = whim_ranks_order_make(r, engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = whim_ranks_start(r, engine, r->nodes_cfg.join_ns, &bytes, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_engine_close(engine);
        close_all(r);
        return err;
    }
    whim_engine_set_peers(engine,
                          &(whim_engine_peers){r, whim_ranks_load_begin, whim_ranks_load_end,
                                               close_all, is_apart, rejoin, look},
                          bytes);
    *out = engine;
    return WHIM_ERR_OK;
}

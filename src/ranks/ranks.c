/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's side: generations of ranks, orders, the watch. */
#include "ranks/ranks.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/cpu.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "comm/rank_meters.h"
#include "ranks/bridges.h"
#include "ranks/order.h"
#include "ranks/process.h"
#include "ranks/wire.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    WATCH_MS = 50,        /* between looks at the flag that ends the watch */
    CROWDED_STALL_S = 60, /* where ranks share CPUs */
    NODES_AGAIN_S = 10,   /* for nodes to come back, before it is tried anew */
};

typedef struct ranks {
    whim_engine_cfg cfg;  /* rank 0's */
    pthread_mutex_t lock; /* of `memory`, against who looks at meters meanwhile */
    whim_comm_memory memory;
    whim_comm comm;
    const char *program;
    bool crowded;
    int64_t stall_ns;
    whim_follower_order *order;   /* of each, but for its rank: texts of the caller's may be gone */
    uint64_t weights;             /* whim_rank_weights of rank 0, at the first start */
    whim_rank_process *followers; /* [n_rank - 1], of rank 1 and so on */
    /* with several hosts */
    whim_nodes *nodes;          /* NULL: this one alone */
    whim_nodes_cfg nodes_cfg;   /* n_node 1: this one alone */
    whim_rank_process *bridges; /* [n_node] */
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
        return whim_fail(diag, (whim_err)reply->err, "%s: %s", p->name, reply->diag.text);
    }
    return WHIM_ERR_OK;
}

static int32_t first_of(const ranks *r, int32_t node)
{
    return whim_nodes_first(r->cfg.n_rank, r->nodes_cfg.n_node, node);
}

/* Start a follower on a node, with its part to prepare. */
static whim_err follower_order(ranks *r, int32_t node, int32_t rank, whim_diag *diag)
{
    whim_rank_process *p = &r->followers[rank - 1];
    r->order->rank = rank;
    r->order->host_first = first_of(r, node);
    r->order->n_host = first_of(r, node + 1) - r->order->host_first;
    WHIM_TRY(node == 0 ? whim_rank_start(p, r->program, "rank", r->memory.fd, diag)
                       : whim_nodes_process(r->nodes, node, rank, p, diag));
    return whim_rank_send(p, r->order, sizeof *r->order, diag);
}

/* Start all followers; they prepare at the same time. */
static whim_err followers_order(ranks *r, whim_diag *diag)
{
    for (int32_t i = 1, node = 0; i < r->cfg.n_rank; i++) {
        node += i >= first_of(r, node + 1);
        WHIM_TRY(follower_order(r, node, i, diag));
    }
    return WHIM_ERR_OK;
}

static whim_err wish_check(const ranks *r, const whim_engine *engine, whim_diag *diag)
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

/* What all of them are told, now and when they are started again. */
static whim_err order_make(ranks *r, const whim_engine *engine, whim_diag *diag)
{
    whim_engine_sizes sizes = whim_engine_sizes_of(engine);
    r->order = whim_alloc(sizeof *r->order);
    WHIM_TRY(whim_got(r->order != NULL, diag, "no memory for the orders of ranks"));
    WHIM_TRY(whim_follower_order_make(r->order, &r->cfg, &sizes, 0, diag));
    r->order->crowded = r->crowded;
    r->order->stall_ns = r->stall_ns;
    return whim_rank_weights(engine, &r->weights, diag);
}

static whim_err follower_hear(ranks *r, int32_t rank, const char *isa, int64_t *bytes,
                              whim_diag *diag)
{
    whim_follower_reply reply;
    WHIM_TRY(reply_take(&r->followers[rank - 1], &reply, diag));
    if (strncmp(reply.isa, isa, sizeof reply.isa) != 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "rank %d runs on level %.31s and rank 0 on %s; --isa makes them equal",
                         rank, reply.isa, isa);
    }
    if (reply.weights != r->weights) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "rank %d found other model files (fingerprint %016llx) than rank 0 "
                         "began with (%016llx): they were replaced, and all must start again",
                         rank, (unsigned long long)reply.weights, (unsigned long long)r->weights);
    }
    *bytes += reply.plan_bytes;
    return WHIM_ERR_OK;
}

/* What they found; *bytes: what those of this host will take. Other hosts have as much as they said
 * when they joined. */
static whim_err followers_hear(ranks *r, const whim_engine *engine, int64_t *bytes, whim_diag *diag)
{
    const char *isa = whim_engine_caps(engine)->isa;
    for (int32_t node = 0, i = 1; node < r->nodes_cfg.n_node; node++) {
        int64_t needed = 0;
        for (; i < first_of(r, node + 1); i++) {
            WHIM_TRY(follower_hear(r, i, isa, &needed, diag));
        }
        int64_t there = node == 0 ? INT64_MAX : whim_nodes_memory(r->nodes, node);
        if (needed > there) {
            return whim_fail(diag, WHIM_ERR_NO_FIT,
                             "the ranks of node %d take %.2f GiB, and it had %.2f GiB free; less "
                             "--ctx or --kv-mem, or more nodes",
                             node, (double)needed / (1 << 30), (double)there / (1 << 30));
        }
        *bytes = node == 0 ? needed : *bytes;
    }
    return WHIM_ERR_OK;
}

/* All of a generation but its memory, up to the load. */
static whim_err generation_start(ranks *r, const whim_engine *engine, int64_t wait_ns,
                                 int64_t *bytes, whim_diag *diag)
{
    uint64_t generation = 0;
    if (r->nodes != NULL) {
        WHIM_TRY(whim_nodes_begin(r->nodes, wait_ns, &generation, diag));
    }
    WHIM_TRY(followers_order(r, diag));
    if (r->nodes != NULL) {
        whim_bridges_cfg cfg = {.nodes = r->nodes,
                                .program = r->program,
                                .device = r->nodes_cfg.device,
                                .memory = r->memory.fd,
                                .n_node = r->nodes_cfg.n_node,
                                .n_rank = r->cfg.n_rank,
                                .generation = generation,
                                .stall_ns = r->stall_ns,
                                .crowded = r->crowded};
        WHIM_TRY(whim_bridges_open(&cfg, r->bridges, diag));
    }
    return followers_hear(r, engine, bytes, diag);
}

/* --- loading and watching --------------------------------------------------------------------- */

/* Who waits in a collective for a rank that is gone is told at once. */
static void watch_some(ranks *r, whim_rank_process *list, int32_t n)
{
    char how[WHIM_RANK_HOW];
    for (int32_t i = 0; i < n; i++) {
        if (whim_rank_ended(&list[i], how, sizeof how) && !atomic_load(&r->over)) {
            whim_comm_abort(&r->memory, how);
        }
    }
}

static void watch_main(void *ctx)
{
    ranks *r = ctx;
    while (!atomic_load(&r->over)) {
        watch_some(r, r->followers, r->cfg.n_rank - 1);
        watch_some(r, r->bridges, r->nodes != NULL ? r->nodes_cfg.n_node : 0);
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
    for (int32_t i = 0; r->bridges != NULL && i < r->nodes_cfg.n_node; i++) {
        whim_rank_end(&r->bridges[i], until);
    }
    if (r->nodes != NULL) {
        whim_nodes_end(r->nodes);
    }
}

static void close_all(void *ctx)
{
    ranks *r = ctx;
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

static whim_err generation_begin(ranks *r, whim_diag *diag)
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
    atomic_store(&r->over, false);
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
static whim_err nodes_make(ranks *r, const whim_nodes_cfg *cfg, whim_diag *diag)
{
    if (cfg->n_node > r->cfg.n_rank || cfg->n_node > WHIM_JOIN_MAX_NODE) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "--nodes %d with --tp %d: each node has a rank at least, and there may be "
                         "%d nodes",
                         cfg->n_node, r->cfg.n_rank, WHIM_JOIN_MAX_NODE);
    }
    r->nodes_cfg = *cfg;
    WHIM_TRY(processes_make(cfg->n_node, "the bridge of node", 0, &r->bridges, diag));
    WHIM_TRY(whim_bridge_try(r->program, 0, cfg->device, diag));
    return whim_nodes_open(cfg, &r->nodes, diag);
}

static whim_err ranks_make(ranks *r, const whim_engine_cfg *engine_cfg, const whim_ranks_cfg *cfg,
                           whim_diag *diag)
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
    r->cfg.n_host = first_of(r, 1);
    WHIM_TRY(whim_ranks_count_check(r->cfg.n_host, engine_cfg->n_thread, cfg->may_crowd,
                                    &r->crowded, diag));
    r->crowded |= r->nodes != NULL && cfg->may_crowd; /* another node may be */
    r->stall_ns = cfg->stall_ns > 0 ? cfg->stall_ns
                  : r->crowded      ? CROWDED_STALL_S * WHIM_NS_PER_S
                                    : 0;
    WHIM_TRY(processes_make(cfg->n_rank - 1, "rank", 1, &r->followers, diag));
    return generation_begin(r, diag);
}

/* Now that it is known what all must have alike. */
static whim_err nodes_start(ranks *r, const whim_engine *engine, whim_diag *diag)
{
    whim_join_facts facts;
    if (r->nodes == NULL) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_join_facts_of(engine, &r->cfg, r->nodes_cfg.n_node, &facts, diag));
    return whim_nodes_start(r->nodes, &facts,
                            r->crowded ? WHIM_WIRE_CROWDED_MS * WHIM_NS_PER_MS : 0, diag);
}

/* --- beginning again -------------------------------------------------------------------------- */

static bool is_apart(void *ctx, whim_diag *why)
{
    const ranks *r = ctx;
    bool is_over = whim_comm_is_over(&r->comm);
    if (is_over && why != NULL) {
        (void)whim_comm_why(r->memory.shared, why);
    }
    return is_over;
}

/* The memory is new, so nobody of the last generation has any part in it. */
static whim_err rejoin(void *ctx, const whim_engine *engine, whim_diag *diag)
{
    ranks *r = ctx;
    int64_t ignored;
    generation_end(r, whim_clock_ns()); /* at once: one of them may be what hangs */
    WHIM_TRY(generation_begin(r, diag));
    whim_err err = generation_start(r, engine, NODES_AGAIN_S * WHIM_NS_PER_S, &ignored, diag);
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

static void look(void *ctx, int32_t rank, whim_rank_meters *out)
{
    ranks *r = ctx;
    pthread_mutex_lock(&r->lock);
    whim_rank_meters_look(&r->memory, rank, out);
    pthread_mutex_unlock(&r->lock);
}

whim_err whim_ranks_prepare(const whim_engine_cfg *engine_cfg, const whim_ranks_cfg *cfg,
                            whim_engine **out, whim_diag *diag)
{
    whim_engine *engine = NULL;
    ranks *r = whim_alloc(sizeof *r);
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
        err = order_make(r, engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = nodes_start(r, engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = generation_start(r, engine, r->nodes_cfg.join_ns, &bytes, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_engine_close(engine);
        close_all(r);
        return err;
    }
    whim_engine_set_peers(
        engine, &(whim_engine_peers){r, load_begin, load_end, close_all, is_apart, rejoin, look},
        bytes);
    *out = engine;
    return WHIM_ERR_OK;
}

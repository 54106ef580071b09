/* SPDX-License-Identifier: Apache-2.0 */
/* A generation of ranks: what they are ordered, their load, and the watch over them. */
#include "base/alloc.h"
#include "base/clock.h"
#include "ranks/bridges.h"
#include "ranks/ranks_inner.h"

#include <string.h>
#include <sys/socket.h>

enum { WATCH_MS = 50 }; /* between looks at the flag that ends the watch */

/* --- orders ----------------------------------------------------------------------------------- */

static whim_err reply_check(const whim_rank_process *p, whim_follower_reply *reply, whim_diag *diag)
{
    reply->diag.text[sizeof reply->diag.text - 1] = '\0';
    if (reply->err != WHIM_ERR_OK) {
        return whim_fail(diag, (whim_err)reply->err, "%s: %s", p->name, reply->diag.text);
    }
    return WHIM_ERR_OK;
}

static whim_err reply_take(whim_rank_process *p, whim_follower_reply *reply, whim_diag *diag)
{
    WHIM_TRY(whim_rank_hear(p, reply, sizeof *reply, diag));
    return reply_check(p, reply, diag);
}

/* Start a follower on a node, with its part to prepare. */
static whim_err follower_order(whim_ranks *r, int32_t node, int32_t rank, whim_diag *diag)
{
    whim_rank_process *p = &r->followers[rank - 1];
    r->order->rank = rank;
    r->order->host_first = whim_ranks_first(r, node);
    r->order->n_host = whim_ranks_first(r, node + 1) - r->order->host_first;
    WHIM_TRY(node == 0 ? whim_rank_start(p, r->program, "rank", r->memory.fd, diag)
                       : whim_nodes_process(r->nodes, node, rank, p, diag));
    return whim_rank_send(p, r->order, sizeof *r->order, diag);
}

/* Start all followers; they prepare at the same time. */
static whim_err followers_order(whim_ranks *r, whim_diag *diag)
{
    for (int32_t i = 1, node = 0; i < r->cfg.n_rank; i++) {
        node += i >= whim_ranks_first(r, node + 1);
        WHIM_TRY(follower_order(r, node, i, diag));
    }
    return WHIM_ERR_OK;
}

whim_err whim_ranks_order_make(whim_ranks *r, const whim_engine *engine, whim_diag *diag)
{
    whim_engine_sizes sizes = whim_engine_sizes_of(engine);
    r->order = whim_alloc(sizeof *r->order);
    WHIM_TRY(whim_got(r->order != NULL, diag, "no memory for the orders of ranks"));
    WHIM_TRY(whim_follower_order_make(r->order, &r->cfg, &sizes, 0, diag));
    r->order->crowded = r->crowded;
    r->order->stall_ns = r->stall_ns;
    return whim_rank_weights(engine, &r->weights, diag);
}

static whim_err follower_hear(whim_ranks *r, int32_t rank, const char *isa, int64_t *bytes,
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
static whim_err followers_hear(whim_ranks *r, const whim_engine *engine, int64_t *bytes,
                               whim_diag *diag)
{
    const char *isa = whim_engine_caps(engine)->isa;
    for (int32_t node = 0, i = 1; node < r->nodes_cfg.n_node; node++) {
        int64_t needed = 0;
        for (; i < whim_ranks_first(r, node + 1); i++) {
            WHIM_TRY(follower_hear(r, i, isa, &needed, diag));
        }
        int64_t there = node == 0 ? INT64_MAX : whim_nodes_room(r->nodes, node).memory;
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

whim_err whim_ranks_start(whim_ranks *r, const whim_engine *engine, int64_t wait_ns, int64_t *bytes,
                          whim_diag *diag)
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
static void watch_some(whim_ranks *r, whim_rank_process *list, int32_t n)
{
    char how[WHIM_RANK_HOW];
    for (int32_t i = 0; i < n; i++) {
        if (whim_rank_ended(&list[i], how, sizeof how)) {
            whim_comm_abort(&r->memory, how);
        }
    }
}

static void watch_main(void *ctx)
{
    whim_ranks *r = ctx;
    while (!atomic_load(&r->over)) {
        watch_some(r, r->followers, r->cfg.n_rank - 1);
        watch_some(r, r->bridges, r->nodes != NULL ? r->nodes_cfg.n_node : 0);
        whim_clock_sleep_ns(WATCH_MS * WHIM_NS_PER_MS);
    }
}

static whim_err watch_begin(whim_ranks *r, whim_diag *diag)
{
    atomic_store(&r->over, false);
    WHIM_TRY(whim_thread_create(&r->watch, "ranks", watch_main, r, diag));
    r->is_watched = true;
    return WHIM_ERR_OK;
}

void whim_ranks_watch_end(whim_ranks *r)
{
    atomic_store(&r->over, true);
    if (r->is_watched) {
        whim_thread_join(&r->watch);
        r->is_watched = false;
    }
}

/* Who is lost while rank 0 loads ends the group, and with it that load. */
whim_err whim_ranks_load_begin(void *ctx, whim_diag *diag)
{
    whim_ranks *r = ctx;
    const uint32_t word = WHIM_RANK_LOAD;
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        WHIM_TRY(whim_rank_send(&r->followers[i - 1], &word, sizeof word, diag));
    }
    return watch_begin(r, diag);
}

/* Whether a group ended because of that process. */
static bool is_about(const whim_diag *why, const whim_rank_process *p)
{
    size_t n = strlen(p->name);
    return strncmp(why->text, p->name, n) == 0 && why->text[n] == ' ';
}

/* Why a load came to nothing: what the rank that was lost first said before, or how it ended. What
 * others say is that the group did. */
static whim_err load_lost(whim_ranks *r, whim_diag *diag)
{
    whim_diag why = {""};
    whim_err err = whim_comm_check(&r->comm, &why);
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        whim_rank_process *p = &r->followers[i - 1];
        whim_follower_reply reply = {0};
        if (is_about(&why, p) &&
            recv(p->socket, &reply, sizeof reply, MSG_DONTWAIT) == (ssize_t)sizeof reply) {
            WHIM_TRY(reply_check(p, &reply, diag));
        }
    }
    return whim_fail(diag, err, "%.900s before it was ready", why.text);
}

whim_err whim_ranks_load_end(void *ctx, whim_diag *diag)
{
    whim_ranks *r = ctx;
    whim_ranks_watch_end(r); /* who is listened to has one owner */
    if (whim_comm_is_over(&r->comm)) {
        return load_lost(r, diag);
    }
    for (int32_t i = 1; i < r->cfg.n_rank; i++) {
        whim_follower_reply reply;
        WHIM_TRY(reply_take(&r->followers[i - 1], &reply, diag));
    }
    return watch_begin(r, diag);
}

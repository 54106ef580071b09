/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/bridges.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/comm.h"
#include "ranks/bridge_order.h"
#include "ranks/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE_S = 3 }; /* the system takes one to say that a cable is in again */

static whim_bridge_order order_of(const whim_bridges_cfg *cfg)
{
    whim_bridge_order order = {.magic = WHIM_BRIDGE_MAGIC,
                               .bytes = sizeof order,
                               .version = WHIM_VERSION,
                               .generation = cfg->generation,
                               .n_node = cfg->n_node,
                               .stall_ns = cfg->stall_ns,
                               .patience_ns = PATIENCE_S * WHIM_NS_PER_S,
                               .crowded = cfg->crowded};
    for (int32_t i = 0; i <= cfg->n_node; i++) {
        order.rank_first[i] = whim_nodes_first(cfg->n_rank, cfg->n_node, i);
    }
    snprintf(order.device, sizeof order.device, "%s", cfg->device != NULL ? cfg->device : "");
    return order;
}

static whim_err start(const whim_bridges_cfg *cfg, int32_t node, whim_rank_process *p,
                      whim_diag *diag)
{
    snprintf(p->name, sizeof p->name, "the bridge of node %d", node);
    return node == 0 ? whim_rank_start(p, cfg->program, "bridge", cfg->memory, diag)
                     : whim_nodes_process(cfg->nodes, node, WHIM_WIRE_BRIDGE, p, diag);
}

static whim_err hear(whim_rank_process *p, whim_bridge_reply *reply, whim_diag *diag)
{
    WHIM_TRY(whim_rank_hear(p, reply, sizeof *reply, diag));
    reply->diag.text[sizeof reply->diag.text - 1] = '\0';
    if (reply->magic != WHIM_BRIDGE_MAGIC || reply->bytes != sizeof *reply ||
        reply->address.bytes < 0 || reply->address.bytes > WHIM_BRIDGE_ADDRESS) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s answers something else than its address",
                         p->name);
    }
    if (reply->err != WHIM_ERR_OK) {
        return whim_fail(diag, (whim_err)reply->err, "%s: %s", p->name, reply->diag.text);
    }
    return WHIM_ERR_OK;
}

static whim_err try_with(whim_rank_process *p, const char *program, int memory,
                         const whim_bridge_order *order, whim_diag *diag)
{
    whim_bridge_reply reply;
    WHIM_TRY(whim_rank_start(p, program, "bridge", memory, diag));
    WHIM_TRY(whim_rank_send(p, order, sizeof *order, diag));
    return hear(p, &reply, diag);
}

whim_err whim_bridge_try(const char *program, int32_t node, const char *device, whim_diag *diag)
{
    enum { PAIR = 2 };
    whim_rank_process p = {.socket = -1};
    whim_comm_memory memory;
    whim_bridge_order order =
        order_of(&(whim_bridges_cfg){.device = device, .n_node = PAIR, .n_rank = PAIR});
    order.patience_ns = 0; /* what is not there shall be told at once */
    snprintf(p.name, sizeof p.name, "the bridge of node %d", node);
    WHIM_TRY(whim_comm_memory_make(PAIR, &memory, diag));
    memory.fd = whim_rank_fd(memory.fd);
    whim_err err = memory.fd < 0 ? whim_fail(diag, WHIM_ERR_IO, "no descriptor for %s: %s", p.name,
                                             strerror(errno))
                                 : try_with(&p, program, memory.fd, &order, diag);
    whim_rank_end(&p, whim_clock_ns());
    whim_comm_memory_close(&memory);
    return err;
}

/* Whoever answers first is heard first: the others wait for one that is lost. */
static whim_err hear_all(const whim_bridges_cfg *cfg, whim_rank_process *bridges,
                         whim_bridge_reply *reply, whim_diag *diag)
{
    struct pollfd fds[WHIM_BRIDGE_MAX_NODE];
    char how[WHIM_RANK_HOW];
    for (int32_t i = 0; i < cfg->n_node; i++) {
        fds[i] = (struct pollfd){.fd = bridges[i].socket, .events = POLLIN};
        bridges[i].looks = (whim_rank_looks){0};
    }
    for (int32_t n_left = cfg->n_node; n_left > 0;) {
        bool any = poll(fds, (nfds_t)cfg->n_node, WHIM_RANK_LOOK_MS) > 0;
        for (int32_t i = 0; i < cfg->n_node; i++) {
            if (any && fds[i].revents != 0) {
                WHIM_TRY(hear(&bridges[i], reply, diag));
                fds[i].fd = -1;
                n_left--;
            } else if (!any && fds[i].fd >= 0 && whim_rank_hangs(&bridges[i], how, sizeof how)) {
                return whim_fail(diag, WHIM_ERR_DEVICE, "%s before it was ready", how);
            }
        }
    }
    return WHIM_ERR_OK;
}

/* Each is told where all are, and says when it has them. */
static whim_err connect_all(const whim_bridges_cfg *cfg, whim_rank_process *bridges,
                            const whim_bridge_peer *peers, whim_bridge_reply *reply,
                            whim_diag *diag)
{
    for (int32_t i = 0; i < cfg->n_node; i++) {
        for (int32_t k = 0; k < cfg->n_node; k++) {
            WHIM_TRY(whim_rank_send(&bridges[i], &peers[k], sizeof peers[k], diag));
        }
    }
    return hear_all(cfg, bridges, reply, diag);
}

static whim_err open_all(const whim_bridges_cfg *cfg, whim_rank_process *bridges,
                         whim_bridge_peer *peers, whim_bridge_reply *reply, whim_diag *diag)
{
    whim_bridge_order order = order_of(cfg);
    for (int32_t i = 0; i < cfg->n_node; i++) {
        order.node = i;
        WHIM_TRY(start(cfg, i, &bridges[i], diag));
        WHIM_TRY(whim_rank_send(&bridges[i], &order, sizeof order, diag));
    }
    for (int32_t i = 0; i < cfg->n_node; i++) {
        WHIM_TRY(hear(&bridges[i], reply, diag));
        peers[i] = (whim_bridge_peer){.magic = WHIM_BRIDGE_MAGIC,
                                      .bytes = sizeof peers[i],
                                      .node = i,
                                      .address = reply->address};
    }
    return connect_all(cfg, bridges, peers, reply, diag);
}

whim_err whim_bridges_open(const whim_bridges_cfg *cfg, whim_rank_process *bridges, whim_diag *diag)
{
    whim_bridge_peer *peers = whim_alloc_array(cfg->n_node, sizeof *peers);
    whim_bridge_reply *reply = whim_alloc(sizeof *reply);
    whim_err err =
        whim_got(peers != NULL && reply != NULL, diag, "no memory for %d bridges", cfg->n_node);
    if (err == WHIM_ERR_OK) {
        err = open_all(cfg, bridges, peers, reply, diag);
    }
    whim_free(reply);
    whim_free(peers);
    return err;
}

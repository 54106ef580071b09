/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a bridge: opens, connects and carries as it is told. It alone has a network
 * library in it, so what that does to a process is not done to one that serves. */
#include "comm/bridge.h"
#include "base/clock.h"
#include "base/thread.h"
#include "ranks/bridge_order.h"
#include "ranks/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    CONNECT_S = 20,
    AGAIN_MS = 100,  /* between tries to use an interface */
    LEAVE_MS = 1000, /* for other nodes to hear that it leaves */
};

_Static_assert(sizeof(whim_bridge_address) == sizeof(whim_link_address) &&
                   (int)WHIM_BRIDGE_MAX_NODE == (int)WHIM_LINK_MAX_NODE,
               "orders and links have the same addresses and nodes");

typedef struct process {
    whim_bridge_order order;
    whim_comm_memory memory;
    whim_bridge *bridge;
    pthread_mutex_t lock;
    whim_bridge *running; /* what the watch stops */
    whim_link_address addresses[WHIM_LINK_MAX_NODE];
    whim_thread watch;
    void (*leave)(int code);
} process;

static void watch_parent(void *ctx)
{
    process *p = ctx;
    whim_child_wait_alone(WHIM_BRIDGE_SOCKET);
    pthread_mutex_lock(&p->lock);
    bool runs = p->running != NULL;
    if (runs) {
        whim_bridge_stop(p->running);
    }
    pthread_mutex_unlock(&p->lock);
    whim_clock_sleep_ns(runs ? LEAVE_MS * WHIM_NS_PER_MS : 0);
    p->leave(EXIT_SUCCESS);
}

static void set_running(process *p, whim_bridge *bridge)
{
    pthread_mutex_lock(&p->lock);
    p->running = bridge;
    pthread_mutex_unlock(&p->lock);
}

static whim_err order_check(const whim_bridge_order *o, int64_t bytes, whim_diag *diag)
{
    if (bytes != (int64_t)sizeof *o || o->magic != WHIM_BRIDGE_MAGIC || o->bytes != sizeof *o ||
        strncmp(o->version, WHIM_VERSION, sizeof o->version) != 0 ||
        memchr(o->device, '\0', sizeof o->device) == NULL || o->n_node < 2 ||
        o->n_node > WHIM_BRIDGE_MAX_NODE) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "the order for a bridge does not come from whimbrel " WHIM_VERSION);
    }
    return WHIM_ERR_OK;
}

static whim_err begin(process *p, int64_t bytes, whim_link_set set, whim_link_address *address,
                      whim_diag *diag)
{
    const whim_bridge_order *o = &p->order;
    const whim_link_ops *ops;
    WHIM_TRY(order_check(o, bytes, diag));
    WHIM_TRY(whim_comm_memory_join(WHIM_BRIDGE_MEMORY, &p->memory, diag));
    WHIM_TRY(whim_link_load(NULL, set, &ops, diag));
    whim_bridge_cfg cfg = {.memory = &p->memory,
                           .ops = ops,
                           .device = o->device[0] != '\0' ? o->device : NULL,
                           .generation = o->generation,
                           .node = o->node,
                           .n_node = o->n_node,
                           .rank_first = o->rank_first,
                           .crowded = o->crowded};
    int64_t until_ns = whim_clock_ns() + o->patience_ns;
    whim_err err = whim_bridge_open(&cfg, &p->bridge, address, diag);
    while (err == WHIM_ERR_IO && whim_clock_ns() < until_ns) {
        whim_clock_sleep_ns(AGAIN_MS * WHIM_NS_PER_MS);
        err = whim_bridge_open(&cfg, &p->bridge, address, diag);
    }
    return err;
}

static whim_err meet(process *p, whim_diag *diag)
{
    for (int32_t i = 0; i < p->order.n_node; i++) {
        whim_bridge_peer peer;
        ssize_t n = recv(WHIM_BRIDGE_SOCKET, &peer, sizeof peer, 0);
        if (n != (ssize_t)sizeof peer || peer.magic != WHIM_BRIDGE_MAGIC ||
            peer.bytes != sizeof peer || peer.node != i || peer.address.bytes < 0 ||
            peer.address.bytes > WHIM_BRIDGE_ADDRESS) {
            return whim_fail(diag, WHIM_ERR_CORRUPT, "the address of node %d is not valid", i);
        }
        memcpy(&p->addresses[i], &peer.address, sizeof peer.address);
    }
    int64_t wait_ns = p->order.stall_ns > CONNECT_S * WHIM_NS_PER_S ? p->order.stall_ns
                                                                    : CONNECT_S * WHIM_NS_PER_S;
    return whim_bridge_connect(p->bridge, p->addresses, wait_ns, diag);
}

static bool reply(whim_err err, const whim_diag *diag, const whim_link_address *address)
{
    whim_bridge_reply r = {
        .magic = WHIM_BRIDGE_MAGIC, .bytes = sizeof r, .err = (int32_t)err, .diag = *diag};
    memcpy(&r.address, address, sizeof r.address);
    return send(WHIM_BRIDGE_SOCKET, &r, sizeof r, MSG_NOSIGNAL) == (ssize_t)sizeof r;
}

int whim_bridge_main(void (*leave)(int code), void (*set)(const char *name, const char *value))
{
    static process p = {.lock = PTHREAD_MUTEX_INITIALIZER}; /* too large for a stack */
    whim_diag diag = {""};
    whim_link_address address = {0};
    ssize_t n = recv(WHIM_BRIDGE_SOCKET, &p.order, sizeof p.order, 0);
    if (n <= 0) {
        return whim_child_complain(
            "`whimbrel bridge` is for whimbrel itself; use `whimbrel serve --nodes N`");
    }
    p.leave = leave;
    whim_child_begin("whimbrel-bridge");
    whim_err err = whim_thread_create(&p.watch, "watch", watch_parent, &p, &diag);
    if (err == WHIM_ERR_OK) {
        err = begin(&p, n, set, &address, &diag);
    }
    bool heard = reply(err, &diag, &address);
    if (err == WHIM_ERR_OK && heard) {
        set_running(&p, p.bridge);
        err = meet(&p, &diag);
        heard = reply(err, &diag, &(whim_link_address){0});
    }
    if (err == WHIM_ERR_OK && heard) {
        whim_bridge_run(p.bridge);
    }
    set_running(&p, NULL);
    whim_bridge_close(p.bridge);
    whim_comm_memory_close(&p.memory);
    return err == WHIM_ERR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

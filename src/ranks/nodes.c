/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/nodes.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "ranks/nodes_inner.h"
#include "weights/part.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOK_MS = 20 }; /* between looks at what others may have changed */

int32_t whim_nodes_first(int32_t n_rank, int32_t n_node, int32_t node)
{
    return node >= n_node ? n_rank : (int32_t)whim_part_of(n_rank, n_node, node).at;
}

/* --- the thread ------------------------------------------------------------------------------- */

typedef struct poll_list {
    struct pollfd *fds;
    int32_t n;
} poll_list;

static void poll_add(poll_list *list, int fd, short events)
{
    list->fds[list->n++] = (struct pollfd){.fd = fd, .events = events};
}

/* Everybody in a fixed order; who is not there is -1, which poll leaves out. So is what would go to
 * a node that has not taken the last frame: an agent may be busy for long. */
static void poll_fill(const whim_nodes *n, poll_list *list)
{
    list->n = 0;
    poll_add(list, whim_clock_ns() >= n->accept_at_ns ? n->listener : -1, POLLIN);
    for (int32_t i = 0; i < WHIM_NODES_GUESTS; i++) {
        poll_add(list, n->guests[i].fd, POLLIN);
    }
    for (int32_t i = 1; i < n->cfg.n_node; i++) {
        const whim_wire *wire = &n->nodes[i].wire;
        poll_add(list, wire->fd, wire->n_out > 0 ? POLLIN | POLLOUT : POLLIN);
    }
    for (int32_t i = 0; i < n->n_channel; i++) {
        const whim_channel *c = n->channels[i];
        poll_add(list, n->nodes[c->node].wire.n_out > 0 ? -1 : c->fd, POLLIN);
    }
}

/* Whether something has come, by the place in the list; a descriptor that is another by now is
 * looked at the next time. */
static bool has_come(const poll_list *list, int32_t *at, int fd)
{
    const struct pollfd *p = *at < list->n ? &list->fds[(*at)++] : NULL;
    return p != NULL && p->fd == fd && p->revents != 0;
}

static void look(whim_nodes *n, const poll_list *list)
{
    int32_t at = 0;
    int64_t now = whim_clock_ns();
    if (has_come(list, &at, n->listener)) {
        whim_nodes_accept(n, now);
    }
    for (int32_t i = 0; i < WHIM_NODES_GUESTS; i++) {
        bool come = has_come(list, &at, n->guests[i].fd);
        if (n->guests[i].fd >= 0) {
            whim_guest_look(n, &n->guests[i], now, come);
        }
    }
    for (int32_t i = 1; i < n->cfg.n_node; i++) {
        bool come = has_come(list, &at, n->nodes[i].wire.fd);
        if (n->nodes[i].wire.fd >= 0) {
            whim_node_look(n, i, now, come);
        }
    }
    for (int32_t i = 0; i < n->n_channel; i++) {
        if (has_come(list, &at, n->channels[i]->fd) && n->channels[i]->fd >= 0) {
            whim_channel_look(n, n->channels[i]);
        }
    }
}

static int32_t channel_room(const whim_nodes *n)
{
    return (int32_t)n->facts.n_rank + n->cfg.n_node;
}

static void thread_main(void *ctx)
{
    whim_nodes *n = ctx;
    int64_t room = 1 + WHIM_NODES_GUESTS + n->cfg.n_node + channel_room(n);
    poll_list list = {.fds = whim_alloc_array(room, sizeof *list.fds)};
    pthread_mutex_lock(&n->lock);
    while (!n->over && list.fds != NULL) {
        poll_fill(n, &list);
        pthread_mutex_unlock(&n->lock);
        (void)poll(list.fds, (nfds_t)list.n, LOOK_MS);
        pthread_mutex_lock(&n->lock);
        look(n, &list);
    }
    pthread_mutex_unlock(&n->lock);
    whim_free(list.fds);
}

/* --- beginning and end ------------------------------------------------------------------------ */

whim_err whim_nodes_open(const whim_nodes_cfg *cfg, whim_nodes **out, whim_diag *diag)
{
    whim_nodes *n = whim_alloc(sizeof *n);
    WHIM_TRY(whim_got(n != NULL, diag, "no memory for %d nodes", cfg->n_node));
    n->cfg = *cfg;
    n->listener = -1;
    pthread_mutex_init(&n->lock, NULL);
    whim_cond_init(&n->change);
    for (int32_t i = 0; i < WHIM_NODES_GUESTS; i++) {
        n->guests[i].fd = -1;
    }
    n->nodes = whim_alloc_array(cfg->n_node, sizeof *n->nodes);
    whim_err err = whim_got(n->nodes != NULL, diag, "no memory for %d nodes", cfg->n_node);
    for (int32_t i = 0; err == WHIM_ERR_OK && i < cfg->n_node; i++) {
        n->nodes[i].wire.fd = -1;
    }
    /* so that no bridge takes messages for its own that are meant for another job's */
    if (err == WHIM_ERR_OK && getrandom(&n->generation, sizeof n->generation, 0) < 0) {
        err = whim_fail(diag, WHIM_ERR_IO, "the system gives no random bytes");
    }
    if (err == WHIM_ERR_OK) {
        err = whim_nodes_port_open(n, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_nodes_close(n);
        return err;
    }
    *out = n;
    return WHIM_ERR_OK;
}

whim_err whim_nodes_start(whim_nodes *n, const whim_join_facts *facts, int64_t limit_ns,
                          whim_diag *diag)
{
    n->facts = *facts;
    n->limit_ns = limit_ns > 0 ? limit_ns : WHIM_WIRE_LIMIT_MS * WHIM_NS_PER_MS;
    n->channels = whim_alloc_array(channel_room(n), sizeof *n->channels);
    WHIM_TRY(whim_got(n->channels != NULL, diag, "no memory for the ranks of other nodes"));
    WHIM_TRY(whim_thread_create(&n->thread, "nodes", thread_main, n, diag));
    n->is_running = true;
    return WHIM_ERR_OK;
}

static void channels_free(whim_nodes *n)
{
    for (int32_t i = 0; i < n->n_channel; i++) {
        whim_channel_end(n->channels[i], "");
        whim_free(n->channels[i]);
    }
    n->n_channel = 0;
}

void whim_nodes_close(whim_nodes *n)
{
    if (n == NULL) {
        return;
    }
    whim_nodes_end(n);
    pthread_mutex_lock(&n->lock);
    n->over = true;
    pthread_mutex_unlock(&n->lock);
    if (n->is_running) {
        whim_thread_join(&n->thread);
    }
    for (int32_t i = 0; i < WHIM_NODES_GUESTS; i++) {
        if (n->guests[i].fd >= 0) {
            close(n->guests[i].fd);
        }
    }
    for (int32_t i = 1; n->nodes != NULL && i < n->cfg.n_node; i++) {
        whim_wire_close(&n->nodes[i].wire);
    }
    if (n->listener >= 0) {
        close(n->listener);
    }
    pthread_cond_destroy(&n->change);
    pthread_mutex_destroy(&n->lock);
    whim_free(n->channels);
    whim_free(n->nodes);
    whim_free(n);
}

/* --- generations ------------------------------------------------------------------------------ */

/* The first node that is not there; 0: all are. */
static int32_t missing(const whim_nodes *n)
{
    for (int32_t i = 1; i < n->cfg.n_node; i++) {
        if (n->nodes[i].wire.fd < 0) {
            return i;
        }
    }
    return 0;
}

static whim_err all_wait(whim_nodes *n, int64_t wait_ns, whim_diag *diag)
{
    struct timespec until = whim_clock_after(wait_ns);
    int error = 0;
    while (missing(n) != 0 && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&n->change, &n->lock, &until);
    }
    if (missing(n) == 0) {
        return WHIM_ERR_OK;
    }
    const char *why = n->refused.text;
    return whim_fail(
        diag, WHIM_ERR_DEVICE, "node %d of %d has not joined at %s, port %s, in %g s%s%s",
        missing(n), n->cfg.n_node, n->cfg.host, n->cfg.port,
        (double)wait_ns / (double)WHIM_NS_PER_S, why[0] != '\0' ? "; refused: " : "", why);
}

static void tell_all(whim_nodes *n, whim_wire_kind kind)
{
    whim_diag diag = {""};
    for (int32_t i = 1; i < n->cfg.n_node; i++) {
        whim_wire *wire = &n->nodes[i].wire;
        whim_wire_head head = {.kind = kind, .generation = n->generation};
        if (wire->fd >= 0 && whim_wire_send(wire, head, NULL, &diag) != WHIM_ERR_OK) {
            whim_node_lose(n, i, diag.text);
        }
        n->nodes[i].has_begun = kind == WHIM_WIRE_BEGIN && wire->fd >= 0;
    }
}

whim_err whim_nodes_await(whim_nodes *n, int64_t wait_ns, whim_diag *diag)
{
    pthread_mutex_lock(&n->lock);
    whim_err err = all_wait(n, wait_ns, diag);
    pthread_mutex_unlock(&n->lock);
    return err;
}

whim_err whim_nodes_begin(whim_nodes *n, int64_t wait_ns, uint64_t *generation, whim_diag *diag)
{
    pthread_mutex_lock(&n->lock);
    whim_err err = all_wait(n, wait_ns, diag);
    if (err == WHIM_ERR_OK) {
        *generation = ++n->generation;
        tell_all(n, WHIM_WIRE_BEGIN);
        n->refused.text[0] = '\0';
    }
    pthread_mutex_unlock(&n->lock);
    return err;
}

void whim_nodes_end(whim_nodes *n)
{
    pthread_mutex_lock(&n->lock);
    channels_free(n);
    if (n->nodes != NULL) {
        tell_all(n, WHIM_WIRE_END);
    }
    n->generation++; /* what is still under way is nobody's */
    pthread_mutex_unlock(&n->lock);
}

whim_err whim_nodes_process(whim_nodes *n, int32_t node, int32_t channel, whim_rank_process *p,
                            whim_diag *diag)
{
    int pair[2];
    whim_channel *c = whim_alloc(sizeof *c);
    WHIM_TRY(whim_got(c != NULL, diag, "no memory for %s", p->name));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        whim_free(c);
        return whim_fail(diag, WHIM_ERR_IO, "no socket for %s: %s", p->name, strerror(errno));
    }
    *c = (whim_channel){.fd = whim_rank_fd(pair[1]), .node = node, .channel = channel};
    p->socket = whim_rank_fd(pair[0]);
    p->far = &c->far;
    pthread_mutex_lock(&n->lock);
    n->channels[n->n_channel++] = c;
    /* One that was lost and is back knows nothing of this generation, and would answer nothing. */
    if (c->fd < 0 || p->socket < 0 || n->nodes[node].wire.fd < 0 || !n->nodes[node].has_begun) {
        whim_channel_end(c, "its node is lost");
    }
    pthread_mutex_unlock(&n->lock);
    return WHIM_ERR_OK;
}

whim_join_room whim_nodes_room(whim_nodes *n, int32_t node)
{
    pthread_mutex_lock(&n->lock);
    whim_join_room room = n->nodes[node].room;
    pthread_mutex_unlock(&n->lock);
    return room;
}

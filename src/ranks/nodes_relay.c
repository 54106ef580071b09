/* SPDX-License-Identifier: Apache-2.0 */
/* What goes between the leader's sockets and the processes of other hosts. */
#include "ranks/nodes_inner.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void whim_channel_end(whim_channel *channel, const char *how)
{
    if (channel->fd < 0) {
        return;
    }
    snprintf(channel->far.how, sizeof channel->far.how, "%s", how);
    atomic_store(&channel->far.ended, true); /* before whoever waits for a message sees its end */
    close(channel->fd);
    channel->fd = -1;
}

void whim_node_lose(whim_nodes *n, int32_t node, const char *why)
{
    char how[WHIM_RANK_HOW];
    snprintf(how, sizeof how, "node %d (%s) is lost: %.120s", node, n->nodes[node].from, why);
    whim_wire_close(&n->nodes[node].wire);
    for (int32_t i = 0; i < n->n_channel; i++) {
        if (n->channels[i]->node == node) {
            whim_channel_end(n->channels[i], how);
        }
    }
    pthread_cond_broadcast(&n->change);
}

typedef struct frame_from {
    whim_nodes *nodes;
    int32_t node;
} frame_from;

static whim_channel *channel_of(whim_nodes *n, int32_t node, int32_t channel)
{
    for (int32_t i = 0; i < n->n_channel; i++) {
        if (n->channels[i]->node == node && n->channels[i]->channel == channel) {
            return n->channels[i];
        }
    }
    return NULL;
}

static whim_err on_frame(void *ctx, const whim_wire_head *head, const void *data, whim_diag *diag)
{
    const frame_from *from = ctx;
    whim_nodes *n = from->nodes;
    if (head->kind == WHIM_WIRE_BEAT || head->generation != n->generation) {
        return WHIM_ERR_OK; /* what is left of another generation is nobody's */
    }
    whim_channel *channel = channel_of(n, from->node, head->channel);
    if (channel == NULL || (head->kind != WHIM_WIRE_DATA && head->kind != WHIM_WIRE_ENDED)) {
        return whim_fail(diag, WHIM_ERR_CORRUPT, "it sent a frame that was not expected");
    }
    if (head->kind == WHIM_WIRE_ENDED) {
        char how[WHIM_RANK_HOW];
        snprintf(how, sizeof how, "%.*s on node %d", (int)strnlen(data, head->bytes),
                 (const char *)data, from->node);
        whim_channel_end(channel, how);
    } else if (channel->fd >= 0 && send(channel->fd, data, head->bytes,
                                        MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)head->bytes) {
        whim_channel_end(channel, "its answers are not taken");
    }
    return WHIM_ERR_OK;
}

void whim_node_look(whim_nodes *n, int32_t node, int64_t now_ns, bool has_come)
{
    whim_diag diag = {""};
    whim_wire *wire = &n->nodes[node].wire;
    frame_from from = {n, node};
    whim_err err = has_come ? whim_wire_take(wire, on_frame, &from, &diag) : WHIM_ERR_OK;
    if (err == WHIM_ERR_OK) {
        err = whim_wire_beat(wire, now_ns, &diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_node_lose(n, node, diag.text);
    }
}

void whim_channel_look(whim_nodes *n, whim_channel *channel)
{
    char data[WHIM_WIRE_MOST];
    whim_diag diag = {""};
    whim_wire *wire = &n->nodes[channel->node].wire;
    if (wire->fd >= 0 && wire->n_out > 0) { /* the one before filled it: it waits in its socket */
        return;
    }
    ssize_t got = recv(channel->fd, data, sizeof data, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0) { /* its owner is done with it */
        whim_channel_end(channel, "");
        return;
    }
    whim_wire_head head = {.kind = WHIM_WIRE_DATA,
                           .bytes = (uint32_t)got,
                           .generation = n->generation,
                           .channel = channel->channel};
    if (wire->fd >= 0 && whim_wire_send(wire, head, data, &diag) != WHIM_ERR_OK) {
        whim_node_lose(n, channel->node, diag.text);
    }
}

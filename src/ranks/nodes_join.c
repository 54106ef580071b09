/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's part of joining: it never waits for anybody, and reads no more than a hello. */
#include "ranks/nodes_inner.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEAF_MS = 200 }; /* after somebody could not be let in */

static void guest_close(whim_guest *guest)
{
    close(guest->fd);
    guest->fd = -1;
}

static void refuse(whim_nodes *n, whim_guest *guest, const whim_diag *why)
{
    whim_fail(&n->refused, WHIM_ERR_INVALID, "%s: %s", guest->from, why->text);
    guest_close(guest);
}

/* A free place; the oldest guest's where there is none, so that idle ones keep nobody out. */
static whim_guest *guest_place(whim_nodes *n)
{
    whim_guest *place = &n->guests[0];
    for (int32_t i = 0; i < WHIM_NODES_GUESTS; i++) {
        if (n->guests[i].fd < 0) {
            return &n->guests[i];
        }
        if (n->guests[i].until_ns < place->until_ns) {
            place = &n->guests[i];
        }
    }
    guest_close(place);
    return place;
}

void whim_nodes_accept(whim_nodes *n, int64_t now_ns)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    whim_diag diag = {""};
    char host[48] = "?", port[8] = "?";
    int one = 1;
    int fd = accept4(n->listener, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    fd = fd >= 0 ? whim_rank_fd(fd) : -1;
    if (fd < 0) { /* who knocks still does where there is no descriptor for it */
        n->accept_at_ns = now_ns + DEAF_MS * WHIM_NS_PER_MS;
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    whim_guest *guest = guest_place(n);
    int64_t wait_ns = n->cfg.hello_ns > 0 ? n->cfg.hello_ns : WHIM_JOIN_MS * WHIM_NS_PER_MS;
    *guest = (whim_guest){.fd = fd, .until_ns = now_ns + wait_ns};
    snprintf(guest->from, sizeof guest->from, "%s port %s", host, port);
    whim_err err = whim_join_challenge_make(&guest->challenge, &diag);
    if (err == WHIM_ERR_OK) {
        err = whim_wire_write(fd, &guest->challenge, sizeof guest->challenge, 0, &diag);
    }
    if (err != WHIM_ERR_OK) {
        guest_close(guest);
    }
}

static whim_err judge(whim_nodes *n, const whim_guest *guest, whim_diag *diag)
{
    WHIM_TRY(
        whim_join_hello_check(&guest->challenge, &guest->hello, &n->facts, n->cfg.secret, diag));
    const whim_node *node = &n->nodes[guest->hello.node];
    if (node->wire.fd >= 0) {
        return whim_fail(diag, WHIM_ERR_BUSY, "node %lld has joined already, from %s",
                         (long long)guest->hello.node, node->from);
    }
    return WHIM_ERR_OK;
}

/* The whole hello is there. */
static void guest_answer(whim_nodes *n, whim_guest *guest)
{
    whim_diag why = {""}, ignored;
    whim_join_answer answer;
    whim_err err = judge(n, guest, &why);
    if (err == WHIM_ERR_CORRUPT) {
        refuse(n, guest, &why);
        return;
    }
    whim_join_answer_make(&guest->challenge, &guest->hello, err,
                          err == WHIM_ERR_NOT_FOUND ? "" : why.text, n->limit_ns, n->cfg.secret,
                          &answer);
    if (err == WHIM_ERR_NOT_FOUND) { /* it must not have a proof to guess the secret by */
        memset(answer.proof, 0, sizeof answer.proof);
    }
    whim_err sent = whim_wire_write(guest->fd, &answer, sizeof answer, 0, &ignored);
    if (err != WHIM_ERR_OK || sent != WHIM_ERR_OK) {
        refuse(n, guest, &why);
        return;
    }
    whim_node *node = &n->nodes[guest->hello.node];
    whim_wire_open(&node->wire, guest->fd, n->limit_ns);
    memcpy(node->from, guest->from, sizeof node->from);
    node->memory = guest->hello.memory;
    guest->fd = -1;
    pthread_cond_broadcast(&n->change);
}

void whim_guest_look(whim_nodes *n, whim_guest *guest, int64_t now_ns, bool has_come)
{
    ssize_t got = -1;
    whim_diag why = {""};
    if (has_come) {
        got = recv(guest->fd, (char *)&guest->hello + guest->n_in,
                   sizeof guest->hello - (size_t)guest->n_in, MSG_DONTWAIT);
    }
    if (got > 0) {
        guest->n_in += got;
    } else if (got == 0 || (has_come && errno != EAGAIN && errno != EINTR)) {
        guest_close(guest); /* it changed its mind, or only looked whether the port is open */
        return;
    }
    /* what begins otherwise need not go on */
    if (guest->n_in >= 8 &&
        (guest->hello.magic != WHIM_JOIN_MAGIC || guest->hello.bytes != sizeof guest->hello)) {
        whim_fail(&why, WHIM_ERR_CORRUPT,
                  "what it sent is not how whimbrel " WHIM_VERSION " joins");
        refuse(n, guest, &why);
    } else if (guest->n_in == (int64_t)sizeof guest->hello) {
        guest_answer(n, guest);
    } else if (now_ns > guest->until_ns) {
        whim_fail(&why, WHIM_ERR_IO, "it sent %lld of %zu bytes and no more",
                  (long long)guest->n_in, sizeof guest->hello);
        refuse(n, guest, &why);
    }
}

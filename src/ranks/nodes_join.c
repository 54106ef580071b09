/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's part of joining: it never waits for anybody, and reads no more than a hello. */
#include "ranks/nodes_inner.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEAF_MS = 200 }; /* after somebody could not be let in */

/* --- the port --------------------------------------------------------------------------------- */

static int bound(const struct addrinfo *at)
{
    int one = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fd = fd >= 0 ? whim_rank_fd(fd) : -1;
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, WHIM_NODES_GUESTS) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool is_loopback(const struct addrinfo *at)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)at->ai_addr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)at->ai_addr;
    return at->ai_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
                                    : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Many systems know their own name as an address at which no other machine can come. */
static whim_err name_check(const char *host, const struct addrinfo *list, whim_diag *diag)
{
    const struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST};
    struct addrinfo *ignored = NULL;
    char text[64] = "";
    bool is_meant = strcmp(host, "localhost") == 0;
    if (!is_meant && getaddrinfo(host, NULL, &numeric, &ignored) == 0) {
        freeaddrinfo(ignored);
        is_meant = true;
    }
    for (const struct addrinfo *at = list; at != NULL && !is_meant; at = at->ai_next) {
        is_meant = !is_loopback(at);
    }
    if (!is_meant) {
        (void)getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, NULL, 0,
                          NI_NUMERICHOST);
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "--join: %s is %s on this machine, which other machines cannot reach; "
                         "give an address that they can",
                         host, text);
    }
    return WHIM_ERR_OK;
}

whim_err whim_nodes_port_open(whim_nodes *n, whim_diag *diag)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(n->cfg.host, n->cfg.port, &hints, &list);
    if (error != 0) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "--join: %s is not known: %s", n->cfg.host,
                         gai_strerror(error));
    }
    whim_err err = name_check(n->cfg.host, list, diag);
    for (const struct addrinfo *at = list; at != NULL && n->listener < 0 && err == WHIM_ERR_OK;
         at = at->ai_next) {
        n->listener = bound(at);
    }
    error = errno;
    freeaddrinfo(list);
    WHIM_TRY(err);
    if (n->listener < 0) {
        return whim_fail(diag, error == EADDRINUSE ? WHIM_ERR_BUSY : WHIM_ERR_IO,
                         "--join: cannot wait for other nodes at %s, port %s: %s", n->cfg.host,
                         n->cfg.port, strerror(error));
    }
    return WHIM_ERR_OK;
}

int32_t whim_nodes_port(const whim_nodes *n)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char port[8] = "0";
    if (getsockname(n->listener, (struct sockaddr *)&address, &size) == 0) {
        (void)getnameinfo((struct sockaddr *)&address, size, NULL, 0, port, sizeof port,
                          NI_NUMERICSERV);
    }
    int32_t number = 0;
    for (const char *c = port; *c >= '0' && *c <= '9'; c++) {
        number = 10 * number + (*c - '0');
    }
    return number;
}

/* --- who comes -------------------------------------------------------------------------------- */

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
    node->room = guest->hello.room;
    node->has_begun = false;
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
                  "its message is not that of a whimbrel " WHIM_VERSION " that joins");
        refuse(n, guest, &why);
    } else if (guest->n_in == (int64_t)sizeof guest->hello) {
        guest_answer(n, guest);
    } else if (now_ns > guest->until_ns) {
        whim_fail(&why, WHIM_ERR_IO, "it sent %lld of %zu bytes and no more",
                  (long long)guest->n_in, sizeof guest->hello);
        refuse(n, guest, &why);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets that listen. Addresses only, no names: who listens where should not depend on a
 * resolver. */
#include "http/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

/* What the system may keep for a connection in each direction, which it doubles for its own needs.
 * Left alone it grows with what was sent, to megabytes, and nobody counts that. Of what comes it
 * keeps more: about so much arrives in each round trip, and a body of 32 MiB from far away has
 * body_ns. */
enum { SEND_BYTES = 128 << 10, RECEIVE_BYTES = 256 << 10 };

typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address;

/* The length of the address, 0 when `host` is none. */
static socklen_t parse(const char *host, int32_t port, address *out)
{
    memset(out, 0, sizeof *out);
    if (strcmp(host, "localhost") == 0) {
        host = "127.0.0.1";
    }
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons((uint16_t)port);
        return sizeof out->v4;
    }
    if (inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons((uint16_t)port);
        return sizeof out->v6;
    }
    return 0;
}

/* Accepted sockets inherit the options. */
static int open_one(const address *addr, socklen_t n, bool only_v6)
{
    int fd = socket(addr->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int on = 1, v6 = only_v6 ? 1 : 0, send = SEND_BYTES, receive = RECEIVE_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send, sizeof send);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof receive);
    if (addr->any.sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6, sizeof v6);
    }
    if (bind(fd, &addr->any, n) != 0 || listen(fd, BACKLOG) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static int32_t bound_port(int fd)
{
    address addr;
    socklen_t n = sizeof addr;
    if (getsockname(fd, &addr.any, &n) != 0) {
        return 0;
    }
    return ntohs(addr.any.sa_family == AF_INET6 ? addr.v6.sin6_port : addr.v4.sin_port);
}

static whim_err listen_failed(const char *host, int32_t port, int why, whim_diag *diag)
{
    if (why == EADDRINUSE) {
        return whim_fail(diag, WHIM_ERR_BUSY,
                         "port %d of %s is taken by another program; choose one with --port", port,
                         host);
    }
    return whim_fail(diag, WHIM_ERR_IO, "cannot listen on %s port %d: %s", host, port,
                     strerror(why));
}

whim_err whim_http_listen(whim_http *http, whim_diag *diag)
{
    const whim_http_cfg *cfg = &http->cfg;
    http->port = cfg->port;
    if (cfg->n_host < 1 || cfg->n_host > WHIM_HTTP_LISTEN_MAX || cfg->port < 0 ||
        cfg->port > 65535) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "listening needs 1 to %d addresses and a port from 0 to 65535",
                         WHIM_HTTP_LISTEN_MAX);
    }
    for (int32_t i = 0; i < cfg->n_host; i++) {
        address addr;
        socklen_t n = parse(cfg->hosts[i], http->port, &addr);
        if (n == 0) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "\"%s\" is not an IP address; give one to listen on, e.g. 127.0.0.1",
                             cfg->hosts[i]);
        }
        int fd = open_one(&addr, n, cfg->n_host > 1);
        if (fd < 0 && i == 0) {
            return listen_failed(cfg->hosts[i], http->port, errno, diag);
        }
        if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL) &&
            strcmp(cfg->hosts[i], "::1") == 0) {
            continue; /* a machine without IPv6 */
        }
        if (fd < 0) {
            whim_log_warn(cfg->log, "listen_skipped", whim_log_text("host", cfg->hosts[i]),
                          whim_log_int("port", http->port),
                          whim_log_text("reason", strerror(errno)));
            continue;
        }
        http->port = http->port == 0 ? bound_port(fd) : http->port;
        http->listeners[http->n_listener++] =
            (whim_listener){.source = WHIM_SOURCE_LISTEN, .fd = fd};
    }
    return WHIM_ERR_OK;
}

void whim_http_unlisten(whim_http *http)
{
    for (int32_t i = 0; i < http->n_listener; i++) {
        close(http->listeners[i].fd);
    }
    http->n_listener = 0;
}

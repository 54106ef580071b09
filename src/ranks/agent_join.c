/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's part of joining. */
#include "ranks/agent_inner.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOK_MS = 50 };

/* Whether the socket can be read or written in time. */
static bool wait_for(const whim_agent *a, int fd, short events, int64_t until_ns)
{
    struct pollfd p = {.fd = fd, .events = events};
    while (!atomic_load(a->cfg->stop) && whim_clock_ns() < until_ns) {
        if (poll(&p, 1, LOOK_MS) > 0) {
            return true;
        }
    }
    return false;
}

static int connected(const whim_agent *a, const struct addrinfo *at, int64_t until_ns)
{
    int one = 1, error = 0;
    socklen_t size = sizeof error;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fd = fd >= 0 ? whim_rank_fd(fd) : -1;
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
        return fd;
    }
    if (errno == EINPROGRESS) {
        error = wait_for(a, fd, POLLOUT, until_ns) ? 0 : ETIMEDOUT;
        if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
            return fd;
        }
        errno = error;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static whim_err leader_connect(const whim_agent *a, int64_t until_ns, int *out, whim_diag *diag)
{
    const whim_nodes_cfg *nodes = &a->cfg->nodes;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    *out = -1;
    int error = getaddrinfo(nodes->host, nodes->port, &hints, &list);
    if (error != 0) { /* a name may come later than its host */
        return whim_fail(diag, WHIM_ERR_IO, "%s is not known: %s", nodes->host,
                         gai_strerror(error));
    }
    int64_t n_left = 0;
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        n_left++;
    }
    for (const struct addrinfo *at = list; at != NULL && *out < 0; at = at->ai_next, n_left--) {
        int64_t now_ns = whim_clock_ns(); /* each has its share: one may swallow all that comes */
        *out = connected(a, at, now_ns + (until_ns - now_ns) / n_left);
    }
    error = errno;
    freeaddrinfo(list);
    if (*out < 0) {
        return whim_fail(diag, WHIM_ERR_IO, "no answer from %s, port %s: %s", nodes->host,
                         nodes->port, strerror(error));
    }
    return WHIM_ERR_OK;
}

static whim_err read_all(const whim_agent *a, int fd, void *out, size_t bytes, int64_t until_ns,
                         whim_diag *diag)
{
    for (size_t n = 0; n < bytes;) {
        if (!wait_for(a, fd, POLLIN, until_ns)) {
            return whim_fail(diag, WHIM_ERR_IO, "the leader sent %zu of %zu bytes and no more", n,
                             bytes);
        }
        ssize_t got = recv(fd, (char *)out + n, bytes - n, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            return whim_fail(diag, WHIM_ERR_IO, "the leader closed the connection");
        }
        n += got > 0 ? (size_t)got : 0;
    }
    return WHIM_ERR_OK;
}

static whim_err exchange(const whim_agent *a, int fd, int64_t until_ns, int64_t *limit_ns,
                         whim_diag *diag)
{
    const whim_agent_cfg *cfg = a->cfg;
    whim_join_challenge challenge;
    whim_join_hello hello;
    whim_join_answer answer;
    WHIM_TRY(read_all(a, fd, &challenge, sizeof challenge, until_ns, diag));
    WHIM_TRY(whim_join_hello_make(&challenge, &a->facts, cfg->nodes.node, &a->room,
                                  cfg->nodes.secret, &hello, diag));
    WHIM_TRY(whim_wire_write(fd, &hello, sizeof hello, WHIM_JOIN_MS * WHIM_NS_PER_MS, diag));
    WHIM_TRY(read_all(a, fd, &answer, sizeof answer, until_ns, diag));
    *limit_ns = answer.limit_ns;
    return whim_join_answer_check(&challenge, &hello, &answer, cfg->nodes.secret, diag);
}

whim_err whim_agent_join(whim_agent *a, whim_diag *diag)
{
    int64_t until_ns = whim_clock_ns() + WHIM_JOIN_MS * WHIM_NS_PER_MS, limit_ns = 0;
    int fd;
    WHIM_TRY(leader_connect(a, until_ns, &fd, diag));
    whim_err err = exchange(a, fd, until_ns, &limit_ns, diag);
    if (err != WHIM_ERR_OK) {
        close(fd);
        return err;
    }
    whim_wire_open(&a->wire, fd, limit_ns);
    return WHIM_ERR_OK;
}

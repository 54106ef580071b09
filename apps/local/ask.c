/* SPDX-License-Identifier: Apache-2.0 */
/* One question to a server of this machine. */
#include "base/clock.h"
#include "local/running.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 << 10, PIECE = 4096 };

/* Wait until the socket is ready; false when the time is over. */
static bool wait_for(int fd, short events, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left = (until - whim_clock_ns()) / WHIM_NS_PER_MS;
    return left > 0 && poll(&p, 1, (int)left) == 1;
}

static bool connected(int fd, const struct addrinfo *at, int64_t until)
{
    int error = 0;
    socklen_t n = sizeof error;
    return connect(fd, at->ai_addr, at->ai_addrlen) == 0 ||
           (errno == EINPROGRESS && wait_for(fd, POLLOUT, until) &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error == 0);
}

/* The socket, or -1. Addresses of this machine need no name server. */
static int dial(const char *host, int32_t port, int64_t until)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *all = NULL;
    char service[16];
    int fd = -1;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &all) != 0) {
        return -1;
    }
    for (const struct addrinfo *at = all; at != NULL; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && connected(fd, at, until)) {
            break;
        }
        if (fd >= 0) {
            close(fd);
        }
        fd = -1;
    }
    freeaddrinfo(all);
    return fd;
}

/* HTTP/1.0, so that the answer ends with the connection and has no chunks. */
static bool exchange(int fd, const char *path, int64_t until, whim_str *answer)
{
    char piece[PIECE];
    int n = snprintf(piece, sizeof piece, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", path);
    if (!wait_for(fd, POLLOUT, until) || send(fd, piece, (size_t)n, MSG_NOSIGNAL) != n) {
        return false;
    }
    while (answer->len < ANSWER_MAX && wait_for(fd, POLLIN, until)) {
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0) {
            return got == 0;
        }
        whim_str_append_n(answer, piece, got);
    }
    return false;
}

bool local_ask(const char *host, int32_t port, const char *path, double seconds, whim_str *body)
{
    int64_t until = whim_clock_ns() + (int64_t)(seconds * (double)WHIM_NS_PER_S);
    whim_str answer = {0};
    int fd = dial(host, port, until);
    bool ok = fd >= 0 && exchange(fd, path, until, &answer);
    if (fd >= 0) {
        close(fd);
    }
    const char *text = whim_str_text(&answer), *end = strstr(text, "\r\n\r\n");
    ok = ok && strncmp(text, "HTTP/1.", 7) == 0 && end != NULL;
    if (ok) {
        whim_str_append(body, end + 4);
    }
    whim_str_deinit(&answer);
    return ok && !body->failed;
}

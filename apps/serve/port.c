/* SPDX-License-Identifier: Apache-2.0 */
/* What is said when the port is taken: by whom, and what to type instead. */
#include "base/os/facts.h"
#include "local/running.h"
#include "serve/serve.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASK_SECONDS = 1, TRIES = 20 };

static bool address(const char *host, int32_t port, struct sockaddr_storage *out, socklen_t *n)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        *n = sizeof *v4;
        return true;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    *n = sizeof *v6;
    return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

/* Whether a whimbrel answers there, as /health tells. */
static bool is_whimbrel(const char *host, int32_t port)
{
    whim_str answer = {0};
    bool is = local_ask(host, port, "/health", ASK_SECONDS, &answer) &&
              strstr(whim_str_text(&answer), "\"server\":\"whimbrel\"") != NULL;
    whim_str_deinit(&answer);
    return is;
}

/* The next port that is free now. */
static int32_t free_port(const char *host, int32_t port)
{
    for (int32_t i = 1; i <= TRIES && port + i <= 65535; i++) {
        struct sockaddr_storage addr;
        socklen_t n;
        bool ok = address(host, port + i, &addr, &n);
        int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ok = ok && bind(fd, (struct sockaddr *)&addr, n) == 0;
        close(fd);
        if (ok) {
            return port + i;
        }
    }
    return 0; /* any */
}

void complain_port_taken(const char *host, int32_t port)
{
    char name[32];
    int32_t pid, other = free_port(host, port);
    whim_str owner = {0};
    bool wide = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    const char *near = wide ? "127.0.0.1" : host;
    bool ours = is_whimbrel(near, port);
    if (whim_os_port_owner(port, &pid, name, sizeof name)) {
        whim_str_printf(&owner, "%s (process %d)", name, pid);
    } else {
        whim_str_append(&owner, ours ? "another whimbrel" : "another program");
    }
    if (ours) {
        bool six = strchr(near, ':') != NULL;
        whim_str_printf(&owner, ", which serves at http://%s%s%s:%d", six ? "[" : "", near,
                        six ? "]" : "", port);
    }
    complain(EXIT_FAILED,
             "port %d of %s is taken by %s; choose another: make serve PORT=%d, or whimbrel serve "
             "--port %d",
             port, host, whim_str_text(&owner), other, other);
    whim_str_deinit(&owner);
}

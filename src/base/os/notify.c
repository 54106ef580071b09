/* SPDX-License-Identifier: Apache-2.0 */
#include "base/os/notify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { SEND_SECONDS = 2 };

static whim_err make_address(const char *name, struct sockaddr_un *addr, socklen_t *n,
                             whim_diag *diag)
{
    size_t len = strlen(name);
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((name[0] != '/' && name[0] != '@') || len < 2) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "\"%.64s\" is not a socket to notify; expected a path that begins with / "
                         "or a name that begins with @",
                         name);
    }
    if (len >= sizeof addr->sun_path) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "the name of the socket to notify has %zu bytes; it may have %zu", len,
                         sizeof addr->sun_path - 1);
    }
    memcpy(addr->sun_path, name, len);
    if (name[0] == '@') {
        addr->sun_path[0] = '\0'; /* and no NUL at the end: the length says it */
    }
    *n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
    return WHIM_ERR_OK;
}

whim_err whim_os_notify_open(whim_os_notify *notify, const char *name, whim_diag *diag)
{
    struct sockaddr_un addr;
    struct timeval wait = {.tv_sec = SEND_SECONDS};
    socklen_t n = 0;
    notify->fd = -1;
    WHIM_TRY(make_address(name, &addr, &n, diag));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) != 0 ||
        connect(fd, (const struct sockaddr *)&addr, n) != 0) {
        int why = errno;
        if (fd >= 0) {
            close(fd);
        }
        return whim_fail(diag, WHIM_ERR_IO, "cannot reach the socket to notify, %.108s: %s", name,
                         strerror(why));
    }
    notify->fd = fd;
    return WHIM_ERR_OK;
}

void whim_os_notify_close(whim_os_notify *notify)
{
    if (notify->fd >= 0) {
        close(notify->fd);
        notify->fd = -1;
    }
}

bool whim_os_notify_send(const whim_os_notify *notify, const char *text)
{
    size_t n = strlen(text);
    ssize_t sent = -1;
    while (notify->fd >= 0 && (sent = send(notify->fd, text, n, MSG_NOSIGNAL)) < 0 &&
           errno == EINTR) {
    }
    return sent == (ssize_t)n;
}

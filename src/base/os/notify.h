/* SPDX-License-Identifier: Apache-2.0 */
/* Words to the service manager that started this process: datagrams to the UNIX socket that it
 * named (systemd's NOTIFY_SOCKET protocol, which others speak too). Each message is lines of
 * NAME=VALUE.
 * Threads: send from any; open and close by the owner. */
#ifndef WHIM_BASE_OS_NOTIFY_H
#define WHIM_BASE_OS_NOTIFY_H

#include "base/err.h"

#include <stdbool.h>

/* {.fd = -1} is closed: what is sent then is dropped. */
typedef struct whim_os_notify {
    int fd;
} whim_os_notify;

/* `name` is a path that begins with / or, after an @, a name in Linux's abstract space. INVALID for
 * other names, IO when nobody is there; both with a message, and then it is closed. */
WHIM_MUST_CHECK whim_err whim_os_notify_open(whim_os_notify *notify, const char *name,
                                             whim_diag *diag);
void whim_os_notify_close(whim_os_notify *notify);

/* Waits at most two seconds for a manager that is busy; false when it did not take the message. */
bool whim_os_notify_send(const whim_os_notify *notify, const char *text);

#endif

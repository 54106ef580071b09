/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/child.h"

#include "base/os/cpu.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

void whim_child_begin(const char *name)
{
    const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        signal(ours[i], SIG_IGN);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    whim_os_thread_name(name);
}

void whim_child_wait_alone(int socket)
{
    struct pollfd fd = {.fd = socket, .events = POLLRDHUP};
    while (poll(&fd, 1, -1) < 0 && errno == EINTR) {
    }
}

int whim_child_complain(const char *text)
{
    fprintf(stderr, "whimbrel: %s\n", text);
    return EXIT_FAILURE;
}

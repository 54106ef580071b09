/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals. */
#include "base/os/facts.h"

#include <sys/ioctl.h>
#include <unistd.h>

bool whim_os_term_is(int fd)
{
    return isatty(fd) == 1;
}

int32_t whim_os_term_width(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    return 80;
}

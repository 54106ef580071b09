/* SPDX-License-Identifier: Apache-2.0 */
/* Who listens on a TCP port of this machine. Threads: any. */
#ifndef WHIM_BASE_OS_PORT_H
#define WHIM_BASE_OS_PORT_H

#include <stdbool.h>
#include <stdint.h>

/* The process and the name of its program, cut to fit; false when nobody listens or the owner
 * cannot be seen, which is the rule for other users' processes. */
bool whim_os_port_owner(int32_t port, int32_t *pid, char *name, int64_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What processes that another whimbrel starts have in common.
 * Threads: the first one of the process, before there are others. */
#ifndef WHIM_RANKS_CHILD_H
#define WHIM_RANKS_CHILD_H

/* Whoever started it ends it, whatever a terminal or a service manager sends to all; and none
 * outlives that one. */
void whim_child_begin(const char *name);

/* Until the other end of the socket is closed: nobody is left to work for. */
void whim_child_wait_alone(int socket);

/* To the terminal of whoever calls it by hand; returns the exit code. */
int whim_child_complain(const char *text);

#endif

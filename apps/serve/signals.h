/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of a server, on a thread of their own: SIGINT and SIGTERM ask for the end, a second one
 * for an end now; SIGHUP without a terminal asks for keys and certificate again, with one it is as
 * SIGTERM. While a model loads the first ends the process at once: nothing is lost. While a child
 * works it ends that first.
 * Threads: one of its own; the calls are the main thread's. */
#ifndef WHIM_APPS_SERVE_SIGNALS_H
#define WHIM_APPS_SERVE_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

/* Block the signals for this thread and all that it makes later, and begin to take them; false
 * after a complaint. */
bool signals_start(void);

/* Wait for a child to end, its status as of waitpid. Does not come back when the end is asked for
 * meanwhile. */
int signals_child_wait(pid_t pid);

/* From now on the end is the main thread's matter. */
void signals_loaded(void);

typedef enum signal_wish { SIGNAL_NONE, SIGNAL_RELOAD, SIGNAL_STOP, SIGNAL_STOP_NOW } signal_wish;

/* What is asked for now; waits up to half a second for a change. A reload is reported once,
 * the others stay. */
signal_wish signals_wait(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Small facts that the system tells. Threads: any. */
#ifndef WHIM_BASE_OS_FACTS_H
#define WHIM_BASE_OS_FACTS_H

#include <stdbool.h>
#include <stdint.h>

/* --- term.c: what a file descriptor is shown on --- */
bool whim_os_term_is(int fd);

/* Columns of the terminal behind fd; 80 when it has none or does not say. */
int32_t whim_os_term_width(int fd);

/* --- port.c --- */
/* The process that listens on a TCP port of this machine and the name of its program, cut to fit;
 * false when nobody listens or the owner cannot be seen, which is the rule for other users'
 * processes. */
bool whim_os_port_owner(int32_t port, int32_t *pid, char *name, int64_t n);

/* --- refused.c --- */
/* The names of the calls that make things faster and that a sandbox refuses here, with blanks
 * between them; how many. Tries each without an effect. */
int32_t whim_os_refused(char *buf, int64_t n);

/* --- self.c: this process; 0 where it cannot be told --- */
typedef struct whim_os_self {
    int64_t cpu_ns;   /* used so far, by all threads */
    int64_t start_ns; /* since 1970 */
    int64_t resident_bytes, virtual_bytes;
    int64_t n_fd, max_fd; /* open files, and how many may be */
} whim_os_self;
void whim_os_self_get(whim_os_self *out);

/* --- other_process.c: a process of this machine; false when it is not shown --- */
typedef struct whim_os_process {
    char state; /* the system's letter: R, S, D, T (stopped), Z (ended) */
    int32_t parent;
    int64_t cpu_ticks; /* of CPU time, of all its threads; a tick is some milliseconds */
    int64_t resident_bytes;
} whim_os_process;
bool whim_os_process_get(int32_t pid, whim_os_process *out);

/* Whether one of its threads runs, or waits for a CPU or a disk: on a busy machine work may go on
 * for long without a tick. */
bool whim_os_process_is_busy(int32_t pid);

/* Resident bytes of a process and of those that it started; what they share is counted for each. */
int64_t whim_os_process_family_bytes(int32_t pid);

#endif

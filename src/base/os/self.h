/* SPDX-License-Identifier: Apache-2.0 */
/* What the system knows about this process. Threads: any. */
#ifndef WHIM_BASE_OS_SELF_H
#define WHIM_BASE_OS_SELF_H

#include <stdint.h>

/* 0 where it cannot be told. */
typedef struct whim_os_self {
    int64_t cpu_ns;   /* used so far, by all threads */
    int64_t start_ns; /* since 1970 */
    int64_t resident_bytes, virtual_bytes;
    int64_t n_fd, max_fd; /* open files, and how many may be */
} whim_os_self;
void whim_os_self_get(whim_os_self *out);

#endif

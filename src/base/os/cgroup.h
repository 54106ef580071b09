/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that control groups (version 1 and 2) set on this process. A limit of any group from the
 * process's own up to the root of what is mounted holds, so the tightest one is given.
 * `root` goes in front of every path that is read: "" in earnest, a made-up tree in tests.
 * Threads: any. */
#ifndef WHIM_BASE_OS_CGROUP_H
#define WHIM_BASE_OS_CGROUP_H

#include <stdint.h>

/* CPUs of the quota, rounded up; INT32_MAX: no quota. */
int32_t whim_os_cgroup_cpus(const char *root);

/* Bytes below the memory limit that are unused or hold droppable file cache, never negative;
 * INT64_MAX: no limit. */
int64_t whim_os_cgroup_mem_left(const char *root);

#endif

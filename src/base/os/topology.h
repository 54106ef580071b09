/* SPDX-License-Identifier: Apache-2.0 */
/* The cores and memory nodes behind the CPUs that this process may use, and threads kept on a part
 * of them. hwloc tells where it is linked; the kernel's own files do where it is not (static
 * builds).
 * Threads: any. */
#ifndef WHIM_BASE_OS_TOPOLOGY_H
#define WHIM_BASE_OS_TOPOLOGY_H

#include "base/os/cpu.h"

typedef struct whim_os_cpu {
    int32_t cpu;  /* the system's number */
    int32_t core; /* CPUs of one core share its units; cores count from 0 */
    int32_t node; /* CPUs of one node are equally near to its memory; the system's number */
} whim_os_cpu;

typedef struct whim_os_topology {
    const char *source; /* "hwloc", "sysfs"; "none": each CPU counts as a core, all as one node */
    int32_t n_cpu, n_core, n_node;
    whim_os_cpu cpus[WHIM_OS_CPUS_MAX]; /* by node, then core, then number */
} whim_os_topology;

/* The CPUs of the process's mask, read once. */
const whim_os_topology *whim_os_topology_get(void);

/* The CPUs cpus[*begin .. *end - 1] that thread `index` of `count` gets: the cores are split into
 * equal runs, so that threads sit on cores of their own, spread over the whole machine, and those
 * with more than one core can leave a busy one. With more threads than cores the CPUs are split,
 * and with more threads than CPUs all get all. */
void whim_os_topology_slice(const whim_os_topology *t, int32_t index, int32_t count, int32_t *begin,
                            int32_t *end);
/* The nodes of those CPUs in order, [n_node] at most; how many. */
int32_t whim_os_topology_nodes(const whim_os_topology *t, int32_t index, int32_t count,
                               int32_t *nodes);
void whim_os_topology_mask(const whim_os_topology *t, int32_t begin, int32_t end,
                           whim_os_mask *out);

/* How many nodes there are, if each has as many cores as any other; else 1. */
int32_t whim_os_topology_even_nodes(const whim_os_topology *t);

/* The readers by themselves (tests): the CPUs of `mask`; false when nothing is told about them.
 * `root` goes in front of every path that is read, as for control groups. */
bool whim_os_topology_hwloc(const whim_os_mask *mask, whim_os_topology *out);
bool whim_os_topology_sysfs(const char *root, const whim_os_mask *mask, whim_os_topology *out);

#endif

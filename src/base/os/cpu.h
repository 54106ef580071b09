/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs that this process may use. Invariants:
 *  1. The affinity mask is read once, at the first call of any function here, because pinning a
 *     thread narrows that thread's own mask; the mask of the process is what counts.
 *  2. A count is never more than the mask or the control group's quota allow, and never less than
 *     1.
 * Threads: any. */
#ifndef WHIM_BASE_OS_CPU_H
#define WHIM_BASE_OS_CPU_H

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_OS_CPUS_MAX = 4096 }; /* CPUs above this number are not looked at */

/* A set of CPUs, by the system's numbers. */
typedef struct whim_os_mask {
    uint64_t bits[WHIM_OS_CPUS_MAX / 64];
} whim_os_mask;

bool whim_os_mask_has(const whim_os_mask *mask, int64_t cpu);
void whim_os_mask_add(whim_os_mask *mask, int64_t cpu);

/* True when every CPU of `part` is in `whole`. */
bool whim_os_mask_covers(const whim_os_mask *whole, const whim_os_mask *part);

/* CPUs usable by this process: the smaller of the affinity mask and the CPU quota, rounded up. */
int32_t whim_os_cpu_count(void);

/* The affinity mask alone, and the CPUs in it. Where the system does not tell it, the mask is empty
 * and the count that of the CPUs online. */
const whim_os_mask *whim_os_cpu_mask(void);
int32_t whim_os_cpu_mask_count(void);

/* The name of the CPU for people, e.g. "Neoverse-V1"; "unknown CPU" when nothing tells. */
void whim_os_cpu_model(char *buf, int64_t n);

/* The same from the text of /proc/cpuinfo (tests). */
void whim_os_cpu_model_parse(const char *cpuinfo, char *buf, int64_t n);

/* The CPUs that the calling thread may run on, and choosing them. False when the system refuses or
 * has no such call; the thread then runs where it could before, which is slower, not wrong. */
bool whim_os_thread_mask(whim_os_mask *out);
bool whim_os_thread_set_mask(const whim_os_mask *mask);

/* Let the calling thread run on the whole mask again. A new thread inherits its creator's mask. */
void whim_os_thread_unpin(void);

/* Name the calling thread for ps and debuggers: at most 15 bytes. */
void whim_os_thread_name(const char *name);

#endif

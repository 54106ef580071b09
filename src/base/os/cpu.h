/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs that this process may use. Invariants:
 *  1. The affinity mask is read once, at the first call of any function here, because pinning a thread
 *     narrows that thread's own mask; the mask of the process is what counts.
 *  2. A count is never more than the mask or the control group's quota allow, and never less than 1.
 * Threads: any. */
#ifndef WHIM_BASE_OS_CPU_H
#define WHIM_BASE_OS_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* CPUs usable by this process: the smaller of the affinity mask and the CPU quota, rounded up. */
int32_t whim_os_cpu_count(void);

/* CPUs in the affinity mask alone. */
int32_t whim_os_cpu_mask_count(void);

/* The name of the CPU for people, e.g. "Neoverse-V1"; "unknown CPU" when nothing tells. */
void whim_os_cpu_model(char *buf, int64_t n);

/* The same from the text of /proc/cpuinfo (tests). */
void whim_os_cpu_model_parse(const char *cpuinfo, char *buf, int64_t n);

/* Keep the calling thread on the i-th CPU of the mask, counted modulo the mask's size. False when the
 * system refuses or has no such call; the thread then runs anywhere, which is slower, not wrong. */
bool whim_os_thread_pin(int32_t i);

/* Let the calling thread run on the whole mask again. A new thread inherits its creator's pin. */
void whim_os_thread_unpin(void);

/* Name the calling thread for ps and debuggers: at most 15 bytes. */
void whim_os_thread_name(const char *name);

#endif

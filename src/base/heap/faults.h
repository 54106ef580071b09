/* SPDX-License-Identifier: Apache-2.0 */
/* Fault tests of whole programs: one allocation fails, whichever thread asks for it, the JSON
 * library's among them (whim_json_count_memory). See alloc.h for those that fail from some point
 * on. */
#ifndef WHIM_BASE_HEAP_FAULTS_H
#define WHIM_BASE_HEAP_FAULTS_H

#include <stdint.h>

/* Of the allocations from now on the n-th fails, counted from 1; 0: none. */
void whim_alloc_fail_nth(int64_t n);

/* How many there were since then. */
int64_t whim_alloc_seen(void);

#endif

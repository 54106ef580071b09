/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that make things faster and that a sandbox may refuse. Threads: any. */
#ifndef WHIM_BASE_OS_REFUSED_H
#define WHIM_BASE_OS_REFUSED_H

#include <stdint.h>

/* The names of those that are refused here, with blanks between them; how many. Tries each without
 * an effect. */
int32_t whim_os_refused(char *buf, int64_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a file descriptor is shown on. Threads: any. */
#ifndef WHIM_BASE_OS_TERM_H
#define WHIM_BASE_OS_TERM_H

#include <stdbool.h>
#include <stdint.h>

bool whim_os_term_is(int fd);

/* Columns of the terminal behind fd; 80 when it has none or does not say. */
int32_t whim_os_term_width(int fd);

#endif

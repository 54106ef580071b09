/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the small text files by which a kernel tells facts. Threads: any. */
#ifndef WHIM_BASE_OS_PROCFILE_H
#define WHIM_BASE_OS_PROCFILE_H

#include <stdbool.h>
#include <stdint.h>

/* The first cap - 1 bytes of a file, NUL-terminated; the length, or -1 when it cannot be read. */
int64_t whim_os_file_text(const char *path, char *buf, int64_t cap);

/* The number after `key` at the start of a line of `text`, skipping blanks ("MemTotal:"); false
 * when there is no such line. */
bool whim_os_text_number(const char *text, const char *key, int64_t *out);

#endif

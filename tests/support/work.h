/* SPDX-License-Identifier: Apache-2.0 */
/* Work counted without a clock: how many blocks of code ran, and for what the C library does to
 * memory, how many bytes it was given. Included before everything else in the sources that
 * mk/build.mk builds as counted (COUNTED_SRC), and by tests that ask. Threads: one. */
#ifndef WHIM_TESTS_SUPPORT_WORK_H
#define WHIM_TESTS_SUPPORT_WORK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* All that was done since the program began. */
int64_t whim_work_done(void);

/* Called by each block of counted code. The compiler has another name for it, which mk/build.mk
 * changes to this one, because libFuzzer has a function of that name. */
void whim_work_block(void);

void *whim_work_memmem(const void *hay, size_t n, const void *needle, size_t m);
void *whim_work_memchr(const void *s, int c, size_t n);
int whim_work_memcmp(const void *a, const void *b, size_t n);
void *whim_work_memcpy(void *to, const void *from, size_t n);
void *whim_work_memset(void *s, int c, size_t n);
size_t whim_work_strlen(const char *s);

#ifndef WHIM_WORK_ITSELF
#define memmem whim_work_memmem
#define memchr whim_work_memchr
#define memcmp whim_work_memcmp
#define memcpy whim_work_memcpy
#define memset whim_work_memset
#define strlen whim_work_strlen
#endif

#endif

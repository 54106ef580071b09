/* SPDX-License-Identifier: Apache-2.0 */
#define WHIM_WORK_ITSELF
#include "support/work.h"

/* What the C library does to so many bytes is like a block of code. */
enum { BYTES_OF_BLOCK = 16 };

static int64_t done;

int64_t whim_work_done(void)
{
    return done;
}

void whim_work_block(void)
{
    done++;
}

static void count(size_t n)
{
    done += 1 + (int64_t)(n / BYTES_OF_BLOCK);
}

void *whim_work_memmem(const void *hay, size_t n, const void *needle, size_t m)
{
    void *found = memmem(hay, n, needle, m);
    count(m > n ? 0 : found == NULL ? n : (size_t)((const char *)found - (const char *)hay) + m);
    return found;
}

void *whim_work_memchr(const void *s, int c, size_t n)
{
    void *found = memchr(s, c, n);
    count(found == NULL ? n : (size_t)((const char *)found - (const char *)s));
    return found;
}

int whim_work_memcmp(const void *a, const void *b, size_t n)
{
    int order = memcmp(a, b, n);
    size_t same = 0; /* where they differ is where it ended */
    while (order != 0 && ((const char *)a)[same] == ((const char *)b)[same]) {
        same++;
    }
    count(order != 0 ? same : n);
    return order;
}

void *whim_work_memcpy(void *to, const void *from, size_t n)
{
    count(n);
    return memcpy(to, from, n);
}

void *whim_work_memset(void *s, int c, size_t n)
{
    count(n);
    return memset(s, c, n);
}

size_t whim_work_strlen(const char *s)
{
    size_t n = strlen(s);
    count(n);
    return n;
}

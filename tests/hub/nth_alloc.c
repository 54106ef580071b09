/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded before whimbrel: of its own allocations (not those of its libraries) the one with the
 * number in FAIL_NTH fails, and only that. At the end their number goes to the file in
 * FAIL_COUNT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_llong n_seen;
static long long fail_number;
static void *(*next_alloc)(size_t, size_t);

__attribute__((constructor)) static void begin(void)
{
    const char *number = getenv("FAIL_NTH");
    fail_number = number != NULL ? atoll(number) : 0;
    *(void **)&next_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAIL_COUNT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "%lld\n", (long long)atomic_load(&n_seen));
        fclose(file);
    }
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return atomic_fetch_add(&n_seen, 1) + 1 == fail_number ? NULL : next_alloc(alignment, size);
}

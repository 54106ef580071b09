/* SPDX-License-Identifier: Apache-2.0 */
/* Trying calls that change nothing. EINVAL is a kernel without the feature, not a refusal. */
#include "base/os/facts.h"

#include "base/os/cpu.h"
#include "base/os/mem.h"
#include "base/os/topology.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static bool affinity_refused(void)
{
    whim_os_mask own;
    errno = 0;
    return !(whim_os_thread_mask(&own) && whim_os_thread_set_mask(&own)) && errno != 0 &&
           errno != EINVAL;
}

static bool huge_pages_refused(void *page, int64_t bytes)
{
    errno = 0;
#ifdef MADV_HUGEPAGE
    return madvise(page, (size_t)bytes, MADV_HUGEPAGE) != 0 && errno != EINVAL;
#else
    (void)page;
    (void)bytes;
    return false;
#endif
}

static bool interleave_refused(void *page, int64_t bytes)
{
    const int32_t first = 0;
    errno = 0;
    return whim_os_topology_get()->n_node > 1 && /* else nobody asks for it */
           !whim_os_pages_interleave(page, bytes, &first, 1) && errno != 0 && errno != EINVAL;
}

int32_t whim_os_refused(char *buf, int64_t n)
{
    int64_t bytes = whim_os_page_bytes();
    void *page = whim_os_pages_alloc(bytes);
    const struct {
        const char *name;
        bool refused;
    } calls[] = {
        {"sched_setaffinity", affinity_refused()},
        {"madvise(MADV_HUGEPAGE)", page != NULL && huge_pages_refused(page, bytes)},
        {"mbind", page != NULL && interleave_refused(page, bytes)},
    };
    int32_t count = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (calls[i].refused) {
            size_t at = strlen(buf);
            snprintf(buf + at, (size_t)n - at, "%s%s", count > 0 ? " " : "", calls[i].name);
            count++;
        }
    }
    whim_os_pages_free(page, bytes);
    return count;
}

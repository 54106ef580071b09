/* SPDX-License-Identifier: Apache-2.0 */
#include "base/os/facts.h"

#include "base/clock.h"
#include "base/os/procfile.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Field 22 of stat, counted from after the name, which may hold blanks: ticks from boot to the
 * start. */
static int64_t start_of(void)
{
    char text[1024];
    unsigned long long ticks = 0;
    long per_second = sysconf(_SC_CLK_TCK);
    const char *at =
        whim_os_file_text("/proc/self/stat", text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    for (int i = 0; at != NULL && i < 20; i++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL || per_second <= 0 || sscanf(at, "%llu", &ticks) != 1) {
        return 0;
    }
    int64_t booted = whim_clock_read(CLOCK_REALTIME) - whim_clock_read(CLOCK_BOOTTIME);
    return booted + (int64_t)ticks * (WHIM_NS_PER_S / per_second);
}

static int64_t open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t n = -1; /* its own */
    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

void whim_os_self_get(whim_os_self *out)
{
    char text[256];
    long long all = 0, resident = 0;
    struct rlimit limit;
    int64_t page = sysconf(_SC_PAGESIZE);
    if (whim_os_file_text("/proc/self/statm", text, sizeof text) > 0 &&
        sscanf(text, "%lld %lld", &all, &resident) != 2) {
        all = resident = 0;
    }
    *out = (whim_os_self){
        .cpu_ns = whim_clock_read(CLOCK_PROCESS_CPUTIME_ID),
        .start_ns = start_of(),
        .resident_bytes = resident * page,
        .virtual_bytes = all * page,
        .n_fd = open_files(),
    };
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        out->max_fd = limit.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)limit.rlim_cur;
    }
}

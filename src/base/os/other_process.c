/* SPDX-License-Identifier: Apache-2.0 */
#include "base/os/facts.h"
#include "base/os/procfile.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool whim_os_process_get(int32_t pid, whim_os_process *out)
{
    char path[64], text[1024];
    unsigned long long user = 0, system = 0;
    long long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    /* Fields are counted from after the name, which may hold blanks: the state is the first, the
     * parent the second, CPU times are the 12th and the 13th, pages in memory the 22nd. */
    const char *at = whim_os_file_text(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    bool told =
        at != NULL && sscanf(at,
                             ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s "
                             "%*s %*s %*s %*s %*s %lld",
                             &out->state, &out->parent, &user, &system, &pages) == 5;
    out->cpu_ticks = (int64_t)(user + system);
    out->resident_bytes = pages * sysconf(_SC_PAGESIZE);
    return told;
}

bool whim_os_process_is_busy(int32_t pid)
{
    char path[64], text[1024];
    bool busy = false;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (const struct dirent *entry;
         !busy && threads != NULL && (entry = readdir(threads)) != NULL;) {
        int32_t thread = (int32_t)atoi(entry->d_name); /* 0 where it is no number */
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, thread);
        const char *at = thread > 0 && whim_os_file_text(path, text, sizeof text) > 0
                             ? strrchr(text, ')')
                             : NULL;
        busy = at != NULL && at[1] == ' ' && (at[2] == 'R' || at[2] == 'D');
    }
    if (threads != NULL) {
        closedir(threads);
    }
    return busy;
}

int64_t whim_os_process_family_bytes(int32_t pid)
{
    whim_os_process process = {0};
    int64_t bytes = whim_os_process_get(pid, &process) ? process.resident_bytes : 0;
    DIR *all = opendir("/proc");
    for (const struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        int32_t other = (int32_t)atoi(entry->d_name); /* 0 where it is no number */
        if (other > 0 && whim_os_process_get(other, &process) && process.parent == pid) {
            bytes += process.resident_bytes;
        }
    }
    if (all != NULL) {
        closedir(all);
    }
    return bytes;
}

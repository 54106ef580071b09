/* SPDX-License-Identifier: Apache-2.0 */
#include "base/os/facts.h"
#include "base/os/procfile.h"

#include <stdio.h>
#include <string.h>

bool whim_os_process_get(int32_t pid, whim_os_process *out)
{
    char path[64], text[1024];
    unsigned long long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    /* Fields are counted from after the name, which may hold blanks: the state is the first, CPU
     * times are the 12th and the 13th. */
    const char *at = whim_os_file_text(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    bool told = at != NULL && sscanf(at, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu",
                                     &out->state, &user, &system) == 3;
    out->cpu_ticks = (int64_t)(user + system);
    return told;
}

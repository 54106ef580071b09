/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/net/tcp* gives the socket of a port, /proc/PID/fd the process that holds it. */
#include "base/os/facts.h"

#include "base/os/procfile.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TCP_LISTENS = 0x0a, LINE = 512, TARGET = 64 };

/* The inode of the socket that listens; false when the table has none. */
static bool inode_find(const char *table, int32_t port, unsigned long long *inode)
{
    char line[LINE];
    FILE *file = fopen(table, "re");
    bool found = false;
    if (file == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof line, file) != NULL) {
        unsigned local, state;
        found = sscanf(line,
                       " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u "
                       "%*u %llu",
                       &local, &state, inode) == 3 &&
                (int32_t)local == port && state == TCP_LISTENS;
    }
    fclose(file);
    return found;
}

static bool holds(const char *pid, const char *socket)
{
    char path[300], target[TARGET];
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *dir = opendir(path);
    bool found = false;
    if (dir == NULL) {
        return false;
    }
    for (struct dirent *entry; !found && (entry = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%.20s/fd/%.20s", pid, entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, socket) == 0;
    }
    closedir(dir);
    return found;
}

bool whim_os_port_owner(int32_t port, int32_t *pid, char *name, int64_t n)
{
    unsigned long long inode;
    char socket[TARGET], path[64];
    if (!inode_find("/proc/net/tcp", port, &inode) && !inode_find("/proc/net/tcp6", port, &inode)) {
        return false;
    }
    snprintf(socket, sizeof socket, "socket:[%llu]", inode);
    DIR *dir = opendir("/proc");
    bool found = false;
    if (dir == NULL) {
        return false;
    }
    for (struct dirent *entry; !found && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && holds(entry->d_name, socket)) {
            *pid = (int32_t)strtol(entry->d_name, NULL, 10);
            snprintf(path, sizeof path, "/proc/%d/comm", *pid);
            found = whim_os_file_text(path, name, n) > 0;
            name[strcspn(name, "\n")] = '\0';
        }
    }
    closedir(dir);
    return found;
}

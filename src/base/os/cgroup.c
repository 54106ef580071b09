/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the groups of this process: /proc/self/mountinfo says where a hierarchy is mounted and
 * which part of it, /proc/self/cgroup says where in it the process is. In a container the two may
 * not fit each other; then the mount's own top is the process's group. */
#include "base/os/cgroup.h"

#include "base/os/procfile.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 16 * 1024, PATH_MAX_LEN = 1024 };

/* Where the groups of one controller are. */
typedef struct group_place {
    bool v2;
    char top[PATH_MAX_LEN];   /* the mount point, root prefix included */
    char group[PATH_MAX_LEN]; /* below it: "" or "/a/b" */
} group_place;

/* Does the comma-separated list hold `name`? */
static bool list_has(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Cut the next line off *text. */
static char *next_line(char **text)
{
    char *line = *text;
    if (line == NULL || *line == '\0') {
        return NULL;
    }
    char *end = strchr(line, '\n');
    *text = end == NULL ? NULL : end + 1;
    if (end != NULL) {
        *end = '\0';
    }
    return line;
}

/* A file of this process below root; false when it cannot be read. */
static bool self_text(const char *root, const char *name, char text[TEXT_MAX])
{
    char path[PATH_MAX_LEN];
    snprintf(path, sizeof path, "%s/proc/self/%s", root, name);
    return whim_os_file_text(path, text, TEXT_MAX) >= 0;
}

/* The mount of `controller` (version 1), or of version 2 when `controller` is NULL: its mount point
 * and the part of the hierarchy that is mounted there. */
static bool mount_find(const char *root, const char *controller, char *top, char *part)
{
    char text[TEXT_MAX], *rest = text;
    if (!self_text(root, "mountinfo", text)) {
        return false;
    }
    for (char *line; (line = next_line(&rest)) != NULL;) {
        char type[64], super[512], mount_part[512], mount_top[512];
        const char *dash = strstr(line, " - ");
        if (dash == NULL || sscanf(line, "%*s %*s %*s %511s %511s", mount_part, mount_top) != 2 ||
            sscanf(dash, " - %63s %*s %511s", type, super) != 2) {
            continue;
        }
        bool found = controller == NULL
                         ? strcmp(type, "cgroup2") == 0
                         : strcmp(type, "cgroup") == 0 && list_has(super, controller);
        if (found) {
            snprintf(top, PATH_MAX_LEN, "%s%s", root, mount_top);
            snprintf(part, PATH_MAX_LEN, "%s", mount_part);
            return true;
        }
    }
    return false;
}

/* The group of this process in the hierarchy of `controller`, or of version 2. */
static bool group_find(const char *root, const char *controller, char *group)
{
    char text[TEXT_MAX], *rest = text;
    if (!self_text(root, "cgroup", text)) {
        return false;
    }
    for (char *line; (line = next_line(&rest)) != NULL;) {
        char *names = strchr(line, ':');
        char *where = names == NULL ? NULL : strchr(names + 1, ':');
        if (where == NULL) {
            continue;
        }
        *where++ = '\0';
        names++;
        if (controller == NULL ? *names == '\0' : list_has(names, controller)) {
            snprintf(group, PATH_MAX_LEN, "%s", where);
            return true;
        }
    }
    return false;
}

static bool place_find(const char *root, const char *controller, bool v2, group_place *place)
{
    char part[PATH_MAX_LEN];
    char group[PATH_MAX_LEN];
    const char *key = v2 ? NULL : controller;
    if (!mount_find(root, key, place->top, part) || !group_find(root, key, group)) {
        return false;
    }
    size_t part_len = strcmp(part, "/") == 0 ? 0 : strlen(part);
    const char *below = strncmp(group, part, part_len) == 0 ? group + part_len : "";
    snprintf(place->group, sizeof place->group, "%s", strcmp(below, "/") == 0 ? "" : below);
    place->v2 = v2;
    return true;
}

/* The text of a file of the place's group; false when there is none. */
static bool place_text(const group_place *place, const char *name, char *text)
{
    char path[2 * PATH_MAX_LEN + 64];
    snprintf(path, sizeof path, "%s%s/%s", place->top, place->group, name);
    return whim_os_file_text(path, text, TEXT_MAX) >= 0;
}

static bool place_number(const group_place *place, const char *name, int64_t *out)
{
    char text[TEXT_MAX];
    return place_text(place, name, text) && whim_os_text_number(text, "", out);
}

static int64_t place_cpus(const group_place *place)
{
    int64_t quota = -1;
    int64_t period = 0;
    if (place->v2) {
        char text[TEXT_MAX];
        long long q, p;
        if (place_text(place, "cpu.max", text) && sscanf(text, "%lld %lld", &q, &p) == 2) {
            quota = q;
            period = p;
        }
    } else if (!place_number(place, "cpu.cfs_quota_us", &quota) ||
               !place_number(place, "cpu.cfs_period_us", &period)) {
        quota = -1;
    }
    if (quota <= 0 || period <= 0 || quota / period >= INT32_MAX - 1) {
        return INT32_MAX;
    }
    return quota / period + (quota % period != 0);
}

static int64_t place_mem_left(const group_place *place)
{
    /* Version 1 has no word for "no limit", but a number near 2^63. */
    const int64_t endless = INT64_MAX / 2;
    int64_t limit, usage;
    if (!place_number(place, place->v2 ? "memory.max" : "memory.limit_in_bytes", &limit) ||
        !place_number(place, place->v2 ? "memory.current" : "memory.usage_in_bytes", &usage) ||
        limit >= endless) {
        return INT64_MAX;
    }
    char text[TEXT_MAX];
    int64_t cache = 0;
    if (place_text(place, "memory.stat", text) &&
        !whim_os_text_number(text, place->v2 ? "inactive_file " : "total_inactive_file ", &cache)) {
        cache = 0;
    }
    int64_t left = limit - usage + (cache < usage ? cache : usage);
    return left > 0 ? left : 0;
}

/* Go to the parent group; false at the top. */
static bool place_up(group_place *place)
{
    char *slash = strrchr(place->group, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

/* The least of what the groups of a controller allow, from the process's own up to the top. */
static int64_t least_of(const char *root, const char *controller,
                        int64_t (*allowed)(const group_place *), int64_t endless)
{
    int64_t least = endless;
    for (int v2 = 0; v2 < 2; v2++) {
        group_place place;
        for (bool more = place_find(root, controller, v2 != 0, &place); more;
             more = place_up(&place)) {
            int64_t here = allowed(&place);
            least = here < least ? here : least;
        }
    }
    return least;
}

int32_t whim_os_cgroup_cpus(const char *root)
{
    return (int32_t)least_of(root, "cpu", place_cpus, INT32_MAX);
}

int64_t whim_os_cgroup_mem_left(const char *root)
{
    return least_of(root, "memory", place_mem_left, INT64_MAX);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where whimbrel keeps files of its own: the default model, the history of chat. tools/cache-dir
 * finds the same folder before there is a program. A folder in which others can write is never
 * used: they could put a model there. */
#include "base/file.h"
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FOLDERS = 4 };

typedef struct cache_folder {
    const char *variable;
    char path[MODEL_PATH_MAX];
} cache_folder;

static bool add(cache_folder *list, int *n, const char *variable, const char *tail, bool is_list)
{
    const char *value = getenv(variable);
    if (value == NULL || value[0] == '\0') {
        return false;
    }
    /* Relative ones are to be ignored, says the specification of XDG_CACHE_HOME. */
    if (value[0] != '/' && strcmp(variable, "WHIMBREL_CACHE") != 0) {
        return false;
    }
    int len = is_list ? (int)strcspn(value, ":") : (int)strlen(value);
    while (len > 1 && value[len - 1] == '/') {
        len--;
    }
    cache_folder *folder = &list[*n];
    folder->variable = variable;
    if (snprintf(folder->path, sizeof folder->path, "%.*s%s", len, value, tail) >=
        (int)sizeof folder->path) {
        return false;
    }
    (*n)++;
    return true;
}

/* The folders that the environment names, best first; one that was named for whimbrel alone is the
 * only one. */
static int candidates(cache_folder *list)
{
    int n = 0;
    if (!add(list, &n, "WHIMBREL_CACHE", "", false)) {
        add(list, &n, "CACHE_DIRECTORY", "", true); /* of systemd; it may name several */
        add(list, &n, "XDG_CACHE_HOME", "/whimbrel", false);
        add(list, &n, "HOME", "/.cache/whimbrel", false);
    }
    return n;
}

/* NULL, or why a folder that exists cannot be trusted. */
static const char *distrust(const struct stat *st)
{
    if (!S_ISDIR(st->st_mode)) {
        return "is not a folder";
    }
    if (st->st_uid != geteuid() && st->st_uid != 0) {
        return "belongs to another user";
    }
    return (st->st_mode & S_IWOTH) != 0 ? "can be written by everybody" : NULL;
}

/* NULL, or why files cannot be written there; folders that are missing could be made. `blame`
 * becomes the nearest path that exists. */
static const char *obstacle(const char *path, char *blame)
{
    struct stat st;
    snprintf(blame, MODEL_PATH_MAX, "%s", path);
    if (stat(blame, &st) == 0 && distrust(&st) != NULL) {
        return distrust(&st);
    }
    while (stat(blame, &st) != 0) {
        if (errno != ENOENT) {
            return strerror(errno);
        }
        char *slash = strrchr(blame, '/');
        if (slash == NULL) {
            snprintf(blame, MODEL_PATH_MAX, ".");
        } else {
            slash[slash == blame] = '\0';
        }
    }
    if ((st.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH) {
        return "can be written by everybody";
    }
    if (access(blame, W_OK | X_OK) == 0) {
        return NULL;
    }
    return errno == EROFS                     ? "cannot be written: its file system is read-only"
           : st.st_uid == 0 && geteuid() != 0 ? "belongs to root"
                                              : "cannot be written";
}

bool cache_folder_at(int32_t i, char *buf)
{
    cache_folder list[MAX_FOLDERS];
    struct stat st;
    if (i >= candidates(list)) {
        return false;
    }
    bool good = stat(list[i].path, &st) == 0 && distrust(&st) == NULL;
    snprintf(buf, MODEL_PATH_MAX, "%s", good ? list[i].path : "");
    return true;
}

bool cache_find(const char *name, char *buf, int64_t n)
{
    char folder[MODEL_PATH_MAX];
    for (int32_t i = 0; cache_folder_at(i, folder); i++) {
        if (folder[0] != '\0' && snprintf(buf, (size_t)n, "%s/%s", folder, name) < n &&
            whim_path_get_type(buf) == WHIM_PATH_FILE) {
            return true;
        }
    }
    return false;
}

bool cache_place(const char *name, char *buf, int64_t n, whim_str *why)
{
    cache_folder list[MAX_FOLDERS];
    char blame[MODEL_PATH_MAX];
    int n_folder = candidates(list);
    for (int i = 0; i < n_folder; i++) {
        const char *reason = obstacle(list[i].path, blame);
        if (reason == NULL) {
            return snprintf(buf, (size_t)n, "%s/%s", list[i].path, name) < n;
        }
        whim_str_printf(why, "%s%s (from %s): %s %s", i > 0 ? "; " : "", list[i].path,
                        list[i].variable, blame, reason);
        if (strcmp(reason, "belongs to root") == 0 && strstr(blame, "whimbrel") != NULL) {
            whim_str_printf(why, ", perhaps since a sudo; to have it back: sudo chown -R %lld %s",
                            (long long)geteuid(), blame);
        }
    }
    if (n_folder == 0) {
        whim_str_append(why, "none of WHIMBREL_CACHE, CACHE_DIRECTORY, XDG_CACHE_HOME and HOME is "
                             "set to an absolute path");
    }
    whim_str_append(why, "; set WHIMBREL_CACHE to a folder that only you can write");
    return false;
}

bool cache_path(const char *name, char *buf, int64_t n)
{
    char folder[MODEL_PATH_MAX];
    whim_str why = {0};
    bool ok = cache_place(name, buf, n, &why);
    whim_str_deinit(&why);
    if (!ok) {
        return false;
    }
    snprintf(folder, sizeof folder, "%s", buf);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0755); /* a failure shows when the file is opened */
        *slash = '/';
    }
    return true;
}

bool weights_memory(char *buf, int64_t n)
{
    return cache_path("weights-sums.txt", buf, n);
}

const char *default_model_name(void)
{
    return "SmolLM2-135M-Instruct.Q4_1.gguf";
}

bool default_model_is(const char *path)
{
    char own[MODEL_PATH_MAX];
    return cache_find(default_model_name(), own, sizeof own) && strcmp(own, path) == 0;
}

bool default_model_path(char *buf, int64_t n, whim_str *why)
{
    return cache_find(default_model_name(), buf, n) ||
           cache_place(default_model_name(), buf, n, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The module for UCX. The library reads its settings when it is opened, so they are made before. */
#include "comm/link.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MODULE "whimbrel-ucx.so"
#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

/* Its signal handlers would take the ones that reload keys, its hooks patch mmap, its shared memory
 * is not ours, and unless connections are made without waiting a peer that cannot be reached stops
 * everybody for a minute. The sizes are for a piece and its head, which then travel as one and
 * without asking first. */
static void settings_make(whim_link_set set)
{
    static const char *const settings[][2] = {
        {"UCX_HANDLE_ERRORS", "none"},     {"UCX_DEBUG_SIGNO", "0"},
        {"UCX_MEM_EVENTS", "n"},           {"UCX_TLS", "^sm,self"},
        {"UCX_TCP_CONN_NB", "y"},          {"UCX_RNDV_THRESH", "512K"},
        {"UCX_TCP_TX_SEG_SIZE", "272K"},   {"UCX_TCP_RX_SEG_SIZE", "272K"},
        {"UCX_WARN_UNUSED_ENV_VARS", "n"}, {"UCX_LOG_LEVEL", "fatal"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        set(settings[i][0], settings[i][1]);
    }
}

/* `below` the folder of this program. */
static bool place_of(const char *below, char *out, size_t size)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) {
        return false;
    }
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    int len =
        slash == NULL ? -1 : snprintf(out, size, "%.*s%s", (int)(slash - program), program, below);
    return len > 0 && (size_t)len < size && access(out, R_OK) == 0;
}

static whim_err module_find(char *out, size_t size, whim_diag *diag)
{
    if (place_of("/" MODULE, out, size) || place_of("/../lib/whimbrel/" MODULE, out, size)) {
        return WHIM_ERR_OK;
    }
    return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                     "ranks on several hosts need the module " MODULE
                     ", which this build does not have: install the package libucx-dev and build "
                     "whimbrel again");
}

whim_err whim_link_load(const char *path, whim_link_set set, const whim_link_ops **out,
                        whim_diag *diag)
{
    char found[PATH_MAX + 32];
    if (path == NULL) {
        WHIM_TRY(module_find(found, sizeof found, diag));
        path = found;
    }
    settings_make(set);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "ranks on several hosts need the library of UCX; the package libucx0 has "
                         "it (%.512s)",
                         dlerror());
    }
    const whim_link_ops *ops = dlsym(module, NAME_OF(WHIM_LINK_SYMBOL));
    if (ops == NULL || strcmp(ops->version, WHIM_VERSION) != 0 ||
        ops->head_bytes != (int64_t)sizeof(whim_link_head)) {
        whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                  "%.512s does not belong to whimbrel " WHIM_VERSION ", but to %s", path,
                  ops != NULL ? ops->version : "something else");
        dlclose(module);
        return WHIM_ERR_UNSUPPORTED;
    }
    *out = ops;
    return WHIM_ERR_OK;
}

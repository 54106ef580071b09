/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring the machine, and asking the hub and the cache; fit.c decides. */
#include "base/os/cpu.h"
#include "base/os/mem.h"
#include "cmd.h"
#include "device/device.h"
#include "engine/machine.h"
#include "hub_model.h"
#include "local/fit.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

static const double measure_seconds = 0.2, reach_seconds = 3;

/* Free space of the file system that a path is or would be on. */
static int64_t disk_free(const char *path)
{
    char at[MODEL_PATH_MAX];
    struct statvfs fs;
    snprintf(at, sizeof at, "%s", path);
    while (statvfs(at, &fs) != 0) {
        char *slash = strrchr(at, '/');
        if (slash == NULL || slash == at) {
            return 0;
        }
        *slash = '\0';
    }
    return (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

/* What the first GPU that can be used has free. */
static int64_t gpu_memory(void)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < whim_backend_count() && bytes == 0; i++) {
        const whim_backend *backend = whim_backend_at(i);
        whim_device_cfg cfg = {.n_thread = 0};
        whim_device *device;
        whim_diag ignored;
        if (backend->preferred && backend->device_open(0, &cfg, &device, &ignored) == WHIM_ERR_OK) {
            bytes = device->vt->mem_available != NULL ? device->vt->mem_available(device) : 0;
            whim_device_close(device);
        }
    }
    return bytes;
}

static bool is_cached(const char *cache, const catalogue_row *row)
{
    char path[WHIM_HUB_PATH_MAX], canonical[CATALOGUE_TEXT_MAX];
    whim_hub_ref ref;
    whim_diag ignored;
    snprintf(canonical, sizeof canonical, "%s:%s", row->repo, row->pick);
    return whim_hub_ref_parse(&ref, canonical, &ignored) == WHIM_ERR_OK &&
           whim_hub_cached(cache, &ref, true, path, &ignored) == WHIM_ERR_OK;
}

bool fit_find(fit_list *list)
{
    hub_visit visit = {.quiet = true};
    whim_diag diag = {""};
    int32_t n;
    const catalogue_row *rows = catalogue_rows(&n);
    *list = (fit_list){.n = 0};
    machine_room *room = &list->room;
    if (!hub_settings_read(&visit)) {
        return false;
    }
    room->memory = whim_os_mem_available();
    room->gpu_memory = gpu_memory();
    room->disk = disk_free(visit.cache);
    room->has_hub = whim_hub_reaches(&visit.cfg, reach_seconds);
    if (whim_machine_read_gbs(whim_os_cpu_count(), measure_seconds, &room->read_gbs, &diag) !=
        WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        fit_consider(list, &rows[i], is_cached(visit.cache, &rows[i]));
    }
    return true;
}

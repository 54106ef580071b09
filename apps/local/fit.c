/* SPDX-License-Identifier: Apache-2.0 */
#include "local/fit.h"

#include "base/os/cpu.h"
#include "base/os/mem.h"
#include "device/device.h"
#include "engine/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

static const double measure_seconds = 0.2, reach_seconds = 3;
static const double usable_rate = 5;                            /* tokens a second: as one reads */
static const int64_t disk_spare = INT64_C(1) << 30;             /* left on the disk */
static const int64_t default_bytes = INT64_C(98) * 1000 * 1000; /* of the default model */

/* --- the machine ------------------------------------------------------------------------------ */

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

/* --- models ----------------------------------------------------------------------------------- */

static bool is_cached(const char *cache, const char *canonical)
{
    char path[WHIM_HUB_PATH_MAX];
    whim_hub_ref ref;
    whim_diag ignored;
    return whim_hub_ref_parse(&ref, canonical, &ignored) == WHIM_ERR_OK &&
           whim_hub_cached(cache, &ref, true, path, &ignored) == WHIM_ERR_OK;
}

static void consider(fit_list *list, const catalogue_row *row, const char *cache)
{
    const machine_room *room = &list->room;
    model_fit *fit = &list->v[list->n];
    *fit = (model_fit){.row = row, .on_gpu = row->memory <= room->gpu_memory};
    catalogue_name(row, fit->name);
    snprintf(fit->canonical, sizeof fit->canonical, "%s:%s", row->repo, row->pick);
    fit->cached = is_cached(cache, fit->canonical);
    fit->rate = fit->on_gpu ? 0 : room->read_gbs * 1e9 / (double)row->active;
    bool can_come = row->offered && room->has_hub && row->disk + disk_spare <= room->disk;
    if ((fit->cached || can_come) && (fit->on_gpu || row->memory <= room->memory) &&
        list->n + 1 < FIT_MAX) {
        list->n++;
    }
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
        consider(list, &rows[i], visit.cache);
    }
    return true;
}

/* Whether a is to be preferred to b, which comes before it: what is quick enough to what is not,
 * then what is offered to what happens to be in the cache, then the better one; of those that are
 * too slow the quickest. */
static bool beats(const model_fit *a, const model_fit *b)
{
    bool quick = a->on_gpu || a->rate >= usable_rate;
    bool other = b != NULL && (b->on_gpu || b->rate >= usable_rate);
    if (b == NULL || quick != other) {
        return b == NULL || quick;
    }
    return quick ? a->row->offered >= b->row->offered : a->rate > b->rate;
}

const model_fit *fit_best(const fit_list *list, const model_fit **better)
{
    const model_fit *cached = NULL, *any = NULL;
    for (int32_t i = 0; i < list->n; i++) {
        const model_fit *fit = &list->v[i];
        cached = fit->cached && beats(fit, cached) ? fit : cached;
        any = beats(fit, any) ? fit : any;
    }
    *better = cached != NULL && any != cached && !any->cached ? any : NULL;
    return cached != NULL ? cached : any;
}

/* --- in words --------------------------------------------------------------------------------- */

void fit_source(const model_fit *fit, char *buf, size_t n)
{
    if (fit->cached) {
        snprintf(buf, n, "in the cache");
    } else {
        snprintf(buf, n, "%.1f GB to fetch", (double)fit->row->disk / 1e9);
    }
}

static void speed(double rate, char *buf, size_t n)
{
    snprintf(buf, n, "up to %.*f tokens/s", rate < 10 ? 1 : 0, rate);
}

void fit_speed(const model_fit *fit, char *buf, size_t n)
{
    if (fit->on_gpu) {
        snprintf(buf, n, "on the GPU");
    } else {
        speed(fit->rate, buf, n);
    }
}

void fit_default_speed(const fit_list *list, char *buf, size_t n)
{
    speed(list->room.read_gbs * 1e9 / (double)default_bytes, buf, n);
}

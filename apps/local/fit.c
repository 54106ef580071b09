/* SPDX-License-Identifier: Apache-2.0 */
#include "local/fit.h"

#include <stdio.h>

static const double usable_rate = 5;                            /* tokens a second: as one reads */
static const int64_t disk_spare = INT64_C(1) << 30;             /* left on the disk */
static const int64_t default_bytes = INT64_C(98) * 1000 * 1000; /* of the default model */

/* --- which, and which of them ----------------------------------------------------------------- */

void fit_consider(fit_list *list, const catalogue_row *row, bool cached)
{
    const machine_room *room = &list->room;
    model_fit *fit = &list->v[list->n];
    *fit = (model_fit){.row = row, .cached = cached, .on_gpu = row->memory <= room->gpu_memory};
    catalogue_name(row, fit->name);
    snprintf(fit->canonical, sizeof fit->canonical, "%s:%s", row->repo, row->pick);
    fit->rate = fit->on_gpu ? 0 : room->read_gbs * 1e9 / (double)row->active;
    bool can_come = row->offered && room->has_hub && row->disk + disk_spare <= room->disk;
    if ((fit->cached || can_come) && (fit->on_gpu || row->memory <= room->memory) &&
        list->n + 1 < FIT_MAX) {
        list->n++;
    }
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

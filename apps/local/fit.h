/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine has for a model, and how each of the catalogue would do on it.
 * Threads: the main thread. */
#ifndef WHIM_APPS_LOCAL_FIT_H
#define WHIM_APPS_LOCAL_FIT_H

#include "local/catalogue.h"

#include <stdbool.h>
#include <stdint.h>

enum { FIT_MAX = 64 };

typedef struct machine_room {
    int64_t memory, gpu_memory; /* that can be taken now; 0: no GPU */
    int64_t disk;               /* free where models go */
    double read_gbs;            /* memory, measured */
    bool has_hub;               /* it answers */
} machine_room;

/* A model that fits: in memory and, unless it is in the cache, on the disk. */
typedef struct model_fit {
    const catalogue_row *row;
    char name[CATALOGUE_TEXT_MAX];      /* "qwen3:4b" */
    char canonical[CATALOGUE_TEXT_MAX]; /* ORG/NAME:QUANT */
    bool cached, on_gpu;
    double rate; /* tokens a second at most, as memory is read; 0: not known (a GPU) */
} model_fit;

typedef struct fit_list {
    machine_room room;
    model_fit v[FIT_MAX]; /* in the catalogue's order: the better ones come later */
    int32_t n;
} fit_list;

/* Measure the machine and find what fits; models that are not in the cache only where the hub
 * answers. False after a complaint. */
bool fit_find(fit_list *list);

/* Add a row if it fits the room of the list. Threads: any, a list at a time. */
void fit_consider(fit_list *list, const catalogue_row *row, bool cached);

/* The best to take unasked that is as quick as one reads, or else the quickest: of those in the
 * cache, or of all when none is there; NULL: none fits. `better`: one that would be better still,
 * but has to be fetched; or NULL. */
const model_fit *fit_best(const fit_list *list, const model_fit **better);

/* "2.5 GB to fetch" or "in the cache", and "up to 12 tokens/s". */
void fit_source(const model_fit *fit, char *buf, size_t n);
void fit_speed(const model_fit *fit, char *buf, size_t n);

/* The speed at which the default model would run, in these words. */
void fit_default_speed(const fit_list *list, char *buf, size_t n);

#endif

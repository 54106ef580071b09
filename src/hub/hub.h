/* SPDX-License-Identifier: Apache-2.0 */
/* Models by name: ORG/NAME[@REV][:PICK] becomes a folder or file in the Hugging Face cache, fetched
 * when it is not there.
 * Invariants: 1. a name appears in a snapshot only when its content is whole and its checksum
 * right; 2. a pull may be ended at any moment, the next goes on where it was; 3. the token is sent
 * to the endpoint alone.
 * Threads: the calls block and use threads of their own; `say` and `progress` are called from them,
 * one at a time. */
#ifndef WHIM_HUB_HUB_H
#define WHIM_HUB_HUB_H

#include "base/err.h"
#include "base/str.h"
#include "hub/cache.h"
#include "hub/ref.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct whim_hub_cfg {
    const char *cache;       /* the hub's folder of the cache, ".../huggingface/hub" */
    const char *endpoint;    /* "https://huggingface.co"; no slash at the end */
    const char *token;       /* or NULL */
    const char *ca_file;     /* certificates to trust instead of the system's, or NULL */
    const char *ca_dir;      /* the same, as a folder, or NULL */
    bool offline;            /* only what is in the cache */
    bool verify;             /* checksum what is in the cache, too */
    int32_t n_connection;    /* at once */
    int32_t n_try;           /* without any progress, before a transfer is given up */
    double stall_s;          /* nothing came for so long: try again */
    const atomic_bool *stop; /* or NULL: set it to end a pull early */
    void (*say)(void *ctx, const char *line);
    /* Bytes of what is to be fetched; done may also fall, when a wrong file is fetched again. */
    void (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx; /* of both, which may be NULL */
} whim_hub_cfg;

/* Bring the model up to date and give its folder or file. Offline: from the cache, or NOT_FOUND. */
WHIM_MUST_CHECK whim_err whim_hub_pull(const whim_hub_cfg *cfg, const whim_hub_ref *ref,
                                       char path[WHIM_HUB_PATH_MAX], whim_diag *diag);

/* The same, but a whole copy in the cache is taken as it is, without a look at the hub. */
WHIM_MUST_CHECK whim_err whim_hub_get(const whim_hub_cfg *cfg, const whim_hub_ref *ref,
                                      char path[WHIM_HUB_PATH_MAX], whim_diag *diag);

/* Whether the hub answers, whatever it says, within about `seconds`; false offline. */
bool whim_hub_reaches(const whim_hub_cfg *cfg, double seconds);

#endif

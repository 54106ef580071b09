/* SPDX-License-Identifier: Apache-2.0 */
/* Weights, backend, level, type, ranks; the draft, whose keys and values lie in the same pages. */
#include "engine/kv_space.h"

#include "weights/fingerprint.h"

#include <stdio.h>
#include <string.h>

/* Counts up whenever a change of the code moves the bits of keys and values. */
#define NUMERICS_VERSION "3"
/* The same for several ranks only. */
#define RANKS_VERSION "2"

/* Of how experts are dealt unevenly. */
static uint64_t counts_hash(const whim_binder *binder)
{
    uint64_t hash = 0;
    for (int32_t r = 0; r < binder->n_deal && binder->deal_counts != NULL; r++) {
        hash = (hash ^ (uint64_t)binder->deal_counts[r]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

whim_err whim_kv_space_make(const whim_engine *engine, whim_kv_space *out, whim_diag *diag)
{
    uint64_t hash, draft;
    char why[256];
    WHIM_TRY(whim_ckpt_fingerprint(whim_engine_ckpt(engine), &hash, diag));
    int used =
        snprintf(out->name, sizeof out->name, "numerics %s, weights %016llx, %s %s, kv %s",
                 NUMERICS_VERSION, (unsigned long long)hash, whim_engine_backend(engine),
                 whim_engine_caps(engine)->isa, whim_kv_type_name(whim_engine_kv_type(engine)));
    const whim_binder *binder = whim_engine_binder(engine);
    if (binder->n_rank > 1 && !binder->whole_sums) { /* sums of their parts are rounded otherwise */
        used += snprintf(out->name + used, sizeof out->name - (size_t)used,
                         ", ranks %d by " RANKS_VERSION, binder->n_rank);
    }
    if (binder->n_wide > 1) { /* as are those of MLPs over all groups */
        used += snprintf(out->name + used, sizeof out->name - (size_t)used, ", MLPs over %d",
                         binder->n_wide);
    }
    if (whim_engine_dispatch_rounds(engine, why, sizeof why)) {
        used += snprintf(out->name + used, sizeof out->name - (size_t)used, ", rows %d",
                         (int)binder->deal_rows);
    }
    if (binder->deal_span > 0) { /* as are those of whose experts these are */
        used +=
            snprintf(out->name + used, sizeof out->name - (size_t)used, ", experts of %d %016llx",
                     binder->n_deal, (unsigned long long)counts_hash(binder));
    }
    for (const char *c = out->name; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    out->answers = hash;
    if (binder->whole_sums) { /* the same bits, of which each rank has some heads' */
        used += snprintf(out->name + used, sizeof out->name - (size_t)used, ", heads of %d",
                         binder->n_rank);
    }
    if (whim_engine_draft(engine) != NULL) {
        WHIM_TRY(whim_ckpt_fingerprint(whim_engine_draft_ckpt(engine), &draft, diag));
        snprintf(out->name + used, sizeof out->name - (size_t)used, ", draft %016llx as %s",
                 (unsigned long long)draft, whim_engine_draft_type(engine));
    }
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/order.h"

#include "base/math/rng.h"
#include "weights/identity/fingerprint.h"

#include <stdio.h>
#include <string.h>

/* The texts of an order and where the configuration has them. */
typedef struct field {
    size_t at, size;    /* in the order */
    const char **value; /* in the configuration */
} field;

enum { N_FIELD = 11 };

#define FIELD(name)                                                                                \
    {                                                                                              \
        offsetof(whim_follower_order, name), sizeof((whim_follower_order *)NULL)->name, &cfg->name \
    }

static void fields_of(whim_engine_cfg *cfg, field *out)
{
    const field list[N_FIELD] = {
        FIELD(model),       FIELD(draft),     FIELD(draft_type),  FIELD(load_format),
        FIELD(weight_type), FIELD(backend),   FIELD(isa),         FIELD(kv_type),
        FIELD(kv_dir),      FIELD(deal_rows), FIELD(deal_counts),
    };
    memcpy(out, list, sizeof list);
}

whim_err whim_follower_order_make(whim_follower_order *order, const whim_engine_cfg *from,
                                  const whim_engine_sizes *sizes, int32_t rank, whim_diag *diag)
{
    whim_engine_cfg copy = *from, *cfg = &copy;
    field fields[N_FIELD];
    fields_of(cfg, fields);
    *order = (whim_follower_order){
        .magic = WHIM_ORDER_MAGIC,
        .bytes = sizeof *order,
        .version = WHIM_VERSION,
        .rank = rank,
        .n_rank = cfg->n_rank,
        .n_share = cfg->n_share,
        .n_group = cfg->n_group,
        .n_deal = cfg->n_deal,
        .deal_cut = cfg->deal_cut,
        .deal_slots = cfg->deal_slots,
        .host_first = cfg->host_first,
        .n_host = cfg->n_host,
        .n_thread = cfg->n_thread,
        .sizes = *sizes,
        .max_step_tokens = cfg->max_step_tokens,
        .max_outs = cfg->max_outs,
        .max_kept = cfg->max_kept,
        .n_flight = cfg->n_flight,
        .graphs = cfg->graphs,
        .kv_as_used = cfg->kv_as_used,
        .embeds = cfg->embeds,
    };
    for (int i = 0; i < N_FIELD; i++) {
        const char *text = *fields[i].value != NULL ? *fields[i].value : "";
        if (strlen(text) >= fields[i].size) {
            return whim_fail(diag, WHIM_ERR_INVALID,
                             "'%.64s...' is %zu bytes long; at most %zu can be sent to other ranks",
                             text, strlen(text), fields[i].size - 1);
        }
        memcpy((char *)order + fields[i].at, text, strlen(text) + 1);
    }
    return WHIM_ERR_OK;
}

whim_err whim_follower_order_read(const whim_follower_order *order, int64_t bytes,
                                  whim_engine_cfg *cfg, whim_diag *diag)
{
    if (bytes != (int64_t)sizeof *order || order->magic != WHIM_ORDER_MAGIC ||
        order->bytes != sizeof *order ||
        strncmp(order->version, WHIM_VERSION, sizeof order->version) != 0) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "the order for this rank does not come from whimbrel " WHIM_VERSION
                         "; ranks are started by `whimbrel serve --tp N` and the like");
    }
    field fields[N_FIELD];
    *cfg = (whim_engine_cfg){
        .rank = order->rank,
        .n_rank = order->n_rank,
        .n_share = order->n_share,
        .n_group = order->n_group,
        .n_deal = order->n_deal,
        .deal_cut = order->deal_cut,
        .deal_slots = order->deal_slots,
        .host_first = order->host_first,
        .n_host = order->n_host,
        .n_thread = order->n_thread,
        .sizes = &order->sizes,
        .max_seqs = order->sizes.max_seqs,
        .max_step_tokens = order->max_step_tokens,
        .max_outs = order->max_outs,
        .max_kept = order->max_kept,
        .n_flight = order->n_flight,
        .graphs = order->graphs,
        .kv_as_used = order->kv_as_used,
        .embeds = order->embeds,
    };
    fields_of(cfg, fields);
    for (int i = 0; i < N_FIELD; i++) {
        const char *text = (const char *)order + fields[i].at;
        if (memchr(text, '\0', fields[i].size) == NULL) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "a text in the order for this rank has no end");
        }
        *fields[i].value = text[0] != '\0' ? text : NULL;
    }
    return WHIM_ERR_OK;
}

whim_err whim_rank_weights(const whim_engine *engine, uint64_t *out, whim_diag *diag)
{
    uint64_t draft = 0;
    WHIM_TRY(whim_ckpt_fingerprint(whim_engine_ckpt(engine), out, diag));
    if (whim_engine_draft(engine) != NULL) {
        WHIM_TRY(whim_ckpt_fingerprint(whim_engine_draft_ckpt(engine), &draft, diag));
        *out = whim_rng_key(*out, draft);
    }
    return WHIM_ERR_OK;
}

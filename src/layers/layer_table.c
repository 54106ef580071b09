/* SPDX-License-Identifier: Apache-2.0 */
/* Rows from a configuration, and what they keep in pages and slots. */
#include "layers/layer_table.h"

#include "layers/attention.h"
#include "layers/gated_delta.h"
#include "layers/mlp.h"
#include "ops/args/attn_args.h"

static whim_layer_row attention_row(const whim_config *c, const whim_layer_traits *traits,
                                    int32_t l)
{
    return (whim_layer_row){
        .mixer = WHIM_MIXER_ATTENTION,
        .n_head = c->n_head,
        .n_kv = c->n_kv,
        .d_head = c->d_head,
        .window = whim_config_is_windowed(c, l) ? c->window : 0,
        .qk_norm = traits->qk_norm,
        .gated = traits->gated,
        .qkv_bias = c->qkv_bias,
        .o_bias = c->o_bias,
    };
}

whim_err whim_layer_table_make(whim_layer_table *table, const whim_config *c,
                               const whim_layer_traits *traits, whim_arena *arena)
{
    *table = (whim_layer_table){
        .n_layer = c->n_layer, .n_rope = 1, .ropes = {c->rope}, .gdn = c->gdn, .n_rank = 1};
    table->rows = whim_arena_alloc_array(arena, c->n_layer, sizeof *table->rows);
    if (table->rows == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t l = 0; l < c->n_layer; l++) {
        whim_layer_row *row = &table->rows[l];
        if (whim_config_is_gdn(c, l)) {
            *row = (whim_layer_row){.mixer = WHIM_MIXER_GATED_DELTA, .state_at = table->slot_bytes};
            table->slot_bytes += whim_gated_delta_state_bytes(&c->gdn);
        } else {
            *row = attention_row(c, traits, l);
        }
        row->mlp = whim_config_has_experts(c, l) ? WHIM_MLP_EXPERTS : WHIM_MLP_SWIGLU;
        row->d_ff = c->d_ff;
        row->mlp_bias = c->mlp_bias;
    }
    return WHIM_ERR_OK;
}

/* A row's share; its own counts become those. */
static whim_err row_cut(whim_layer_row *row, const whim_config *c, int32_t l, whim_binder *binder)
{
    int32_t n_rank = binder->n_rank > 1 ? binder->n_rank : 1;
    whim_layer_share *share = &row->share;
    *share = (whim_layer_share){.n_head = row->n_head, .n_kv = row->n_kv, .d_ff = row->d_ff};
    share->heads = whim_heads_part_of(row->n_head, row->n_kv, n_rank, binder->rank);
    WHIM_TRY(whim_attention_cols(row, c, l, binder, &share->o));
    if (row->mlp == WHIM_MLP_SWIGLU) {
        share->ff = whim_mlp_part(row, c, l, binder);
        row->d_ff = (int32_t)share->ff.n;
    }
    row->n_head = (int32_t)share->heads.q.n;
    row->n_kv = (int32_t)share->heads.kv.n;
    return WHIM_ERR_OK;
}

whim_err whim_layer_table_cut(whim_layer_table *table, const whim_config *c, whim_binder *binder)
{
    table->n_rank = binder->n_rank > 1 ? binder->n_rank : 1;
    table->rank = binder->rank;
    table->whole_sums = binder->whole_sums;
    table->gdn = whim_gated_delta_cut(&c->gdn, table->n_rank, table->rank);
    table->slot_bytes = 0;
    for (int32_t l = 0; l < table->n_layer; l++) {
        whim_layer_row *row = &table->rows[l];
        WHIM_TRY(row_cut(row, c, l, binder));
        if (row->mixer == WHIM_MIXER_GATED_DELTA) {
            row->state_at = table->slot_bytes;
            table->slot_bytes += whim_gated_delta_state_bytes(&table->gdn);
        }
    }
    return WHIM_ERR_OK;
}

int64_t whim_layer_table_kept_bytes(const whim_layer_table *table, int64_t n_row)
{
    int64_t n = 0;
    for (int32_t l = 0; l < table->n_layer; l++) {
        n += table->rows[l].mixer == WHIM_MIXER_GATED_DELTA;
    }
    return n > 0 ? n * whim_gated_delta_kept_bytes(&table->gdn, n_row) : 0;
}

int64_t whim_layer_table_place(const whim_layer_table *table, whim_kv_type type, int32_t page_len,
                               int64_t *offsets)
{
    int64_t used = 0;
    for (int32_t l = 0; l < table->n_layer; l++) {
        const whim_layer_row *row = &table->rows[l];
        bool keeps = row->mixer == WHIM_MIXER_ATTENTION;
        if (offsets != NULL) {
            offsets[l] = keeps ? used : 0;
        }
        used += keeps ? whim_kv_layer_bytes(row->n_kv, row->d_head, type, page_len) : 0;
    }
    return used;
}

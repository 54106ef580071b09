/* SPDX-License-Identifier: Apache-2.0 */
/* A model with its draft. */
#include "draft/dflash.h"

#include "draft/chain.h"
#include "layers/decoder.h"

struct whim_model {
    const whim_model_def *target_def;
    whim_model *target;
    whim_config draft;    /* the draft's */
    whim_decoder *layers; /* the draft's layers */
    whim_projection fc;   /* [d_model, n_feature * d_model] */
    const float *norm;    /* [d_model] of what fc gives */
    whim_chain chain;
    whim_layer_table table; /* the model's layers, then the draft's */
};

/* --- passes ----------------------------------------------------------------------------------- */

/* The batch as the draft's layers see it: their parts of a page come behind the model's. */
static whim_batch own_batch(const whim_model *m, const whim_batch *batch)
{
    whim_batch own = *batch;
    own.kv_offsets += m->table.n_layer - m->layers->table.n_layer;
    return own;
}

/* Keys and values of the rows whose features these are, for every layer of the draft. */
static whim_err append(const whim_model *m, whim_stream *s, const whim_batch *batch,
                       const float *features, whim_bump *bump)
{
    const whim_decoder *dec = m->layers;
    int64_t n = batch->n_row, d = m->draft.d_model;
    float *fused = whim_bump_rows(bump, n, d);
    whim_attention_pass pass;
    whim_batch own = own_batch(m, batch);
    whim_attention_pass_init(&pass, &dec->table, n, bump);
    WHIM_TRY(whim_attention_rotary(&pass, dec->rotary, dec->table.n_rope, s, batch));
    WHIM_TRY(whim_project(s, &m->fc, features, n, fused, d));
    WHIM_TRY(whim_op_rmsnorm(s, &(whim_rmsnorm_args){.x = fused,
                                                     .x_stride = d,
                                                     .w = m->norm,
                                                     .eps = m->draft.rms_eps,
                                                     .y = fused,
                                                     .y_stride = d,
                                                     .n_row = n,
                                                     .n_col = d}));
    for (int32_t l = 0; l < dec->table.n_layer; l++) {
        WHIM_TRY(whim_attention_append(&dec->layers[l].attn, &dec->table.rows[l], l,
                                       m->draft.rms_eps, dec->rotary, &pass, s, &own, fused));
    }
    return WHIM_ERR_OK;
}

/* The same of rows of passes before. */
static whim_err append_late(const whim_model *m, whim_stream *s, const whim_batch *batch,
                            whim_bump *bump)
{
    whim_batch late = *batch;
    if (batch->n_late == 0) {
        return WHIM_ERR_OK;
    }
    late.n_row = batch->n_late;
    late.positions = batch->late_positions;
    late.slots = batch->late_slots;
    return append(m, s, &late, batch->late, bump);
}

/* The model's pass, which leaves what its draft needs of every row. */
static whim_err forward_target(const whim_model *m, whim_stream *s, const whim_batch *batch,
                               whim_out *out)
{
    const whim_draft_config *c = &m->draft.draft;
    int64_t d = m->draft.d_model, width = c->n_feature * d;
    bool waits = batch->late_at >= 0;
    float *features = waits ? batch->late + batch->late_at * width
                            : whim_bump_rows(out->scratch, batch->n_row, width);
    whim_out more = *out;
    for (int32_t i = 0; i < c->n_feature; i++) {
        more.captures[more.n_capture++] =
            (whim_capture){c->features[i] + 1, features + i * d, width};
    }
    WHIM_TRY(m->target_def->forward(m->target, s, batch, &more));
    WHIM_TRY(append_late(m, s, batch, out->scratch));
    return waits ? WHIM_ERR_OK : append(m, s, batch, features, out->scratch);
}

/* The draft's own pass. */
static whim_err forward_block(const whim_model *m, whim_stream *s, const whim_batch *batch,
                              whim_out *out)
{
    const whim_decoder *dec = m->layers;
    whim_batch own = own_batch(m, batch);
    whim_out proposed = *out;
    proposed.n_capture = 0;
    WHIM_TRY(append_late(m, s, batch, out->scratch));
    if (!whim_chain_is_any(&m->draft.draft.chain) || out->n_top == 0) {
        return whim_decoder_forward(dec, s, &own, &proposed);
    }
    whim_head head = whim_decoder_ends(dec);
    float *x, *rows;
    WHIM_TRY(whim_decoder_run(dec, s, &own, &proposed, &x));
    WHIM_TRY(whim_head_rows(&head, m->draft.rms_eps, s, &own, x, out->scratch, &rows));
    return whim_chain_forward(&m->chain, &head, s, &own, rows, &proposed);
}

static whim_err forward(whim_model *m, whim_stream *s, const whim_batch *batch, whim_out *out)
{
    return batch->drafts ? forward_block(m, s, batch, out) : forward_target(m, s, batch, out);
}

static whim_err advance(whim_model *m, whim_stream *s, const whim_batch *batch, whim_bump *scratch)
{
    return m->target_def->advance(m->target, s, batch, scratch);
}

static const whim_layer_table *layers(const whim_model *m)
{
    return &m->table;
}

static const whim_head *head(const whim_model *m)
{
    return m->target_def->head(m->target);
}

/* --- making one ------------------------------------------------------------------------------- */

static const whim_layer_traits traits = {.qk_norm = WHIM_QK_NORM_HEADS};

/* The draft's rows: a block's rows see each other, unless a window or the file says otherwise. */
static whim_err rows_make(const whim_config *c, whim_layer_table *table, whim_arena *arena)
{
    WHIM_TRY(whim_layer_table_make(table, c, &traits, arena));
    for (int32_t l = 0; l < table->n_layer; l++) {
        bool causal = c->draft.causal_given ? c->draft.causal : table->rows[l].window > 0;
        table->rows[l].both_ways = !causal;
        table->rows[l].conv_tap = c->draft.conv_tap;
        table->rows[l].conv_group = c->draft.conv_group;
    }
    return WHIM_ERR_OK;
}

static whim_err table_join(whim_layer_table *table, const whim_layer_table *target,
                           const whim_layer_table *draft, whim_arena *arena)
{
    int32_t n = target->n_layer + draft->n_layer;
    *table = *target;
    table->n_layer = n;
    table->rows = whim_arena_alloc_array(arena, n, sizeof *table->rows);
    if (table->rows == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t l = 0; l < n; l++) {
        table->rows[l] = l < target->n_layer ? target->rows[l] : draft->rows[l - target->n_layer];
    }
    return WHIM_ERR_OK;
}

static void ends_bind(whim_model *m, const whim_draft_parts *p)
{
    int64_t d = p->draft->d_model, width = p->draft->draft.n_feature * d;
    whim_param fc = {.weight = &m->fc.w, .n = d, .k = width};
    whim_bind(p->binder, &fc, "fc.weight");
    whim_norm_bind(&m->norm, d, false, "hidden_norm", -1, p->binder);
    whim_chain_bind(&m->chain, p->draft, p->binder);
    if (p->tokens != NULL) {
        int64_t n = p->draft->draft.n_token;
        whim_param few = whim_decoder_own_head(m->layers, n, p->target_binder);
        few.rows.n_file = p->target->n_vocab;
        few.pick = p->tokens;
        whim_bind(p->target_binder, &few,
                  p->target->tied_head ? "embed_tokens.weight" : "lm_head.weight");
    }
}

static whim_err bind(const whim_draft_parts *p, const whim_model_def **def, whim_model **model,
                     whim_diag *diag)
{
    whim_model_def *own = whim_arena_alloc(p->arena, sizeof *own);
    whim_model *m = whim_arena_alloc(p->arena, sizeof *m);
    const whim_layer_table *target = (*def)->layers(*model);
    whim_layer_table rows = {0};
    if (own == NULL || m == NULL || rows_make(p->draft, &rows, p->arena) != WHIM_ERR_OK ||
        table_join(&m->table, target, &rows, p->arena) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a draft");
    }
    m->target_def = *def;
    m->target = *model;
    m->draft = *p->draft;
    WHIM_TRY(whim_decoder_bind(p->draft, &traits, &rows, (*def)->head(*model), p->arena, p->binder,
                               &m->layers, diag));
    ends_bind(m, p);
    *own = **def;
    own->late_cols = p->draft->draft.n_feature * p->draft->d_model;
    own->layers = layers;
    own->head = head;
    own->forward = forward;
    own->advance = advance;
    *def = own;
    *model = m;
    return WHIM_ERR_OK;
}

const whim_draft_kind whim_draft_dflash = {
    .arch = &whim_dflash_arch, .check = whim_dflash_check, .bind = bind};

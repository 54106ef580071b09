/* SPDX-License-Identifier: Apache-2.0 */
/* An EAGLE3 draft: its tensors and its layer. */
#include "draft/eagle3.h"

#include "draft/serial.h"
#include "layers/decoder.h"

/* The layer is a decoder's, but for what its attention takes and what it is added to. */
typedef struct eagle3 {
    whim_config config;                         /* the draft's */
    whim_decoder *decoder;                      /* its layer, and its norm at the end */
    whim_weight embed;                          /* [n_vocab, d]; n 0: the model's */
    whim_projection fc;                         /* [d, n_feature * d_target] */
    const float *whole;                         /* [n_feature * d_target] norm before fc, or NULL */
    const float *parts[WHIM_DRAFT_MAX_FEATURE]; /* [d_target] a norm of each part, or NULL */
    const float *hidden;                        /* [d] norm of a feature */
} eagle3;

/* --- passes ----------------------------------------------------------------------------------- */

static whim_err fuse(const void *own, whim_stream *s, int64_t n_row, float *captured,
                     whim_bump *bump, float *feature)
{
    const eagle3 *m = own;
    int64_t part = m->config.draft.d_target, width = m->fc.w.k;
    float eps = m->config.rms_eps;
    (void)bump;
    if (m->whole != NULL) {
        WHIM_TRY(
            whim_serial_norm(s, eps, m->whole, captured, width, captured, width, n_row, width));
    }
    for (int32_t i = 0; i < m->config.draft.n_feature && m->parts[i] != NULL; i++) {
        float *at = captured + i * part;
        WHIM_TRY(whim_serial_norm(s, eps, m->parts[i], at, width, at, width, n_row, part));
    }
    return whim_project(s, &m->fc, captured, n_row, feature, m->config.d_model);
}

static whim_head ends_of(const eagle3 *m)
{
    whim_head ends = whim_decoder_ends(m->decoder);
    if (m->embed.n > 0) {
        ends.embed = m->embed;
        ends.embed_part = NULL;
    }
    return ends;
}

static whim_err input_make(const eagle3 *m, whim_stream *s, const whim_batch *batch,
                           const float *before, whim_bump *bump, float **u)
{
    whim_head ends = ends_of(m);
    const whim_serial_input in = {.ends = &ends,
                                  .own_embed = m->embed.n > 0,
                                  .embed_norm = m->decoder->layers[0].mixer_norm,
                                  .feature_norm = m->hidden,
                                  .eps = m->config.rms_eps};
    return whim_serial_input_make(&in, s, batch, before, bump, u);
}

static whim_err append(const void *own, whim_stream *s, const whim_batch *batch, float *before,
                       whim_bump *bump)
{
    const eagle3 *m = own;
    const whim_decoder *dec = m->decoder;
    whim_attention_pass pass;
    float *u;
    WHIM_TRY(input_make(m, s, batch, before, bump, &u));
    whim_attention_pass_init(&pass, &dec->table, batch->n_row, bump);
    WHIM_TRY(whim_attention_rotary(&pass, dec->rotary, dec->table.n_rope, s, batch));
    return whim_attention_append(&dec->layers[0].attn, &dec->table.rows[0], 0, m->config.rms_eps,
                                 dec->rotary, &pass, s, batch, u);
}

/* before += what the layer makes of it */
static whim_err layer_run(const eagle3 *m, whim_stream *s, const whim_batch *batch, float *before,
                          whim_bump *bump)
{
    const whim_decoder *dec = m->decoder;
    int64_t n = batch->n_row, d = m->config.d_model;
    float *u, *mixed = whim_bump_rows(bump, n, d), *normed = whim_bump_rows(bump, n, d);
    whim_attention_pass attn;
    whim_mlp_pass mlp;
    WHIM_TRY(input_make(m, s, batch, before, bump, &u));
    whim_attention_pass_init(&attn, &dec->table, n, bump);
    whim_mlp_pass_init(&mlp, &dec->table, n, bump);
    WHIM_TRY(whim_attention_rotary(&attn, dec->rotary, dec->table.n_rope, s, batch));
    WHIM_TRY(whim_attention_forward(&dec->layers[0].attn, &dec->table.rows[0], 0, m->config.rms_eps,
                                    dec->rotary, &attn, s, batch, u, mixed));
    WHIM_TRY(whim_op_add_rmsnorm(s, &(whim_add_rmsnorm_args){.x = before,
                                                             .x_stride = d,
                                                             .delta = mixed,
                                                             .delta_stride = d,
                                                             .w = dec->layers[0].mlp_norm,
                                                             .eps = m->config.rms_eps,
                                                             .y = normed,
                                                             .y_stride = d,
                                                             .n_row = n,
                                                             .n_col = d}));
    WHIM_TRY(whim_mlp_forward(&dec->layers[0].mlp, &mlp, s, normed, n, mixed));
    return whim_op_add(
        s, &(whim_add_args){
               .x = before, .x_stride = d, .y = mixed, .y_stride = d, .n_row = n, .n_col = d});
}

static whim_err step(const void *own, whim_stream *s, const whim_batch *batch, float *before,
                     whim_out *out, float *feature)
{
    const eagle3 *m = own;
    int64_t n = batch->n_row, d = m->config.d_model;
    whim_head ends = ends_of(m);
    WHIM_TRY(layer_run(m, s, batch, before, out->scratch));
    WHIM_TRY(whim_head_forward(&ends, m->config.rms_eps, s, batch, before, out));
    if (m->config.draft.norm_output) {
        return whim_serial_norm(s, m->config.rms_eps, ends.norm, before, d, feature, d, n, d);
    }
    return whim_op_gather_rows(s, &(whim_gather_rows_args){.x = before,
                                                           .x_stride = d,
                                                           .y = feature,
                                                           .y_stride = d,
                                                           .n_src = n,
                                                           .n_row = n,
                                                           .n_col = d});
}

/* --- making one ------------------------------------------------------------------------------- */

static const whim_serial_form form = {.fuse = fuse, .append = append, .step = step};

static void matrix_bind(whim_weight *w, int64_t n, int64_t k, const char *name, whim_binder *binder)
{
    whim_param param = {.weight = w, .n = n, .k = k};
    whim_bind(binder, &param, "%s.weight", name);
}

/* All that lies outside of the layer. */
static void ends_bind(eagle3 *m, whim_binder *binder, whim_binder *target)
{
    const whim_draft_config *d = &m->config.draft;
    int64_t width = (int64_t)d->n_feature * d->d_target;
    matrix_bind(&m->fc.w, m->config.d_model, width, "fc", binder);
    whim_norm_bind(&m->hidden, m->config.d_model, false, "hidden_norm", 0, binder);
    if (d->norm_before_fc) {
        whim_norm_bind(&m->whole, width, false, "input_norm", -1, binder);
    }
    for (int32_t i = 0; i < d->n_feature && d->norm_parts; i++) {
        whim_param param = {.values = &m->parts[i], .n = d->d_target};
        whim_bind(binder, &param, "fc_norm.%d.weight", i);
    }
    if (d->n_token > 0) {
        whim_param head = whim_decoder_own_head(m->decoder, d->n_token, target);
        whim_bind(binder, &head, "lm_head.weight");
    }
    if (d->d_target != m->config.d_model) {
        matrix_bind(&m->embed, m->config.n_vocab, m->config.d_model, "embed_tokens", binder);
        m->embed.n = m->config.n_vocab;
    }
}

static whim_err bind(const whim_draft_parts *p, const whim_model_def **def, whim_model **model,
                     whim_diag *diag)
{
    static const whim_layer_traits traits = {.qk_norm = WHIM_QK_NORM_NONE};
    whim_layer_table rows = {0};
    eagle3 *m = whim_arena_alloc(p->arena, sizeof *m);
    if (m == NULL || whim_layer_table_make(&rows, p->draft, &traits, p->arena) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a draft");
    }
    rows.rows[0].d_in = 2 * p->draft->d_model;
    rows.rows[0].first = 1;
    m->config = *p->draft;
    WHIM_TRY(whim_decoder_bind(p->draft, &traits, &rows, (*def)->head(*model), p->arena, p->binder,
                               &m->decoder, diag));
    ends_bind(m, p->binder, p->target_binder);
    whim_serial_spec spec = {.form = &form,
                             .own = m,
                             .n_feature = p->draft->draft.n_feature,
                             .d_target = p->target->d_model,
                             .d = p->draft->d_model,
                             .rows = &m->decoder->table};
    whim_eagle3_boundaries(p->draft, p->target->n_layer, spec.boundaries);
    return whim_serial_join(&spec, p->arena, def, model, diag);
}

const whim_draft_kind whim_draft_eagle3 = {
    .arch = &whim_eagle3_arch, .check = whim_eagle3_check, .bind = bind};

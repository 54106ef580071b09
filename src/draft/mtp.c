/* SPDX-License-Identifier: Apache-2.0 */
/* The MTP layer of a model: its tensors and its passes. */
#include "draft/mtp.h"

#include "draft/serial.h"
#include "layers/decoder.h"

#include <string.h>

typedef struct mtp {
    whim_config config;                     /* the layer's */
    whim_decoder *decoder;                  /* it, and its norm at the end */
    const whim_head *lent;                  /* the model's ends */
    whim_projection fc;                     /* [d, 2 d] */
    const float *embed_norm, *feature_norm; /* [d] */
} mtp;

/* --- passes ----------------------------------------------------------------------------------- */

/* Rows of the layer's width. */
static whim_err norm(whim_stream *s, const mtp *m, const float *w, const float *x, float *y,
                     int64_t n_row)
{
    int64_t d = m->config.d_model;
    return whim_serial_norm(s, m->config.rms_eps, w, x, d, y, d, n_row, d);
}

static whim_err fuse(const void *own, whim_stream *s, int64_t n_row, float *captured,
                     whim_bump *bump, float *feature)
{
    const mtp *m = own;
    (void)bump;
    return norm(s, m, m->lent->norm, captured, feature, n_row);
}

/* x = fc [norm(embedding) | norm(before)], [n_row, d] */
static whim_err input_make(const mtp *m, whim_stream *s, const whim_batch *batch,
                           const float *before, whim_bump *bump, float **x)
{
    int64_t n = batch->n_row, d = m->config.d_model;
    const whim_serial_input in = {.ends = m->lent,
                                  .embed_norm = m->embed_norm,
                                  .feature_norm = m->feature_norm,
                                  .eps = m->config.rms_eps};
    float *u;
    *x = whim_bump_rows(bump, n, d);
    WHIM_TRY(whim_serial_input_make(&in, s, batch, before, bump, &u));
    return whim_project(s, &m->fc, u, n, *x, d);
}

static whim_err append(const void *own, whim_stream *s, const whim_batch *batch, float *before,
                       whim_bump *bump)
{
    const mtp *m = own;
    const whim_decoder *dec = m->decoder;
    whim_attention_pass pass;
    float *x;
    WHIM_TRY(input_make(m, s, batch, before, bump, &x));
    WHIM_TRY(norm(s, m, dec->layers[0].mixer_norm, x, x, batch->n_row));
    whim_attention_pass_init(&pass, &dec->table, batch->n_row, bump);
    WHIM_TRY(whim_attention_rotary(&pass, dec->rotary, dec->table.n_rope, s, batch));
    return whim_attention_append(&dec->layers[0].attn, &dec->table.rows[0], 0, m->config.rms_eps,
                                 dec->rotary, &pass, s, batch, x);
}

static whim_err step(const void *own, whim_stream *s, const whim_batch *batch, float *before,
                     whim_out *out, float *feature)
{
    const mtp *m = own;
    float *x;
    whim_batch given = *batch; /* the layer's rows in place of embeddings */
    whim_head ends = whim_decoder_ends(m->decoder);
    WHIM_TRY(input_make(m, s, batch, before, out->scratch, &x));
    given.embeds = x;
    WHIM_TRY(whim_decoder_run(m->decoder, s, &given, out, &x));
    WHIM_TRY(norm(s, m, ends.norm, x, feature, batch->n_row));
    return whim_head_forward(&ends, m->config.rms_eps, s, batch, x, out);
}

/* --- making one ------------------------------------------------------------------------------- */

static const whim_serial_form form = {.fuse = fuse, .append = append, .step = step};

static whim_err bind(const whim_draft_parts *p, const whim_model_def **def, whim_model **model,
                     whim_diag *diag)
{
    const whim_layer_traits *traits = &(*def)->traits;
    whim_layer_table rows = {0};
    int64_t d = p->draft->d_model;
    mtp *m = whim_arena_alloc(p->arena, sizeof *m);
    if (m == NULL || whim_layer_table_make(&rows, p->draft, traits, p->arena) != WHIM_ERR_OK) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a draft");
    }
    rows.rows[0].first = 1;
    m->config = *p->draft;
    m->lent = (*def)->head(*model);
    WHIM_TRY(whim_decoder_bind(p->draft, traits, &rows, m->lent, p->arena, p->binder, &m->decoder,
                               diag));
    whim_param fc = {.weight = &m->fc.w, .n = d, .k = 2 * d};
    whim_bind(p->binder, &fc, "fc.weight");
    whim_norm_bind(&m->embed_norm, d, traits->norm_at_zero, "pre_fc_norm_embedding", -1, p->binder);
    whim_norm_bind(&m->feature_norm, d, traits->norm_at_zero, "pre_fc_norm_hidden", -1, p->binder);
    whim_serial_spec spec = {.form = &form,
                             .own = m,
                             .n_feature = 1,
                             .boundaries = {p->target->n_layer},
                             .d_target = d,
                             .d = d,
                             .rows = &m->decoder->table};
    return whim_serial_join(&spec, p->arena, def, model, diag);
}

/* It has no files of its own, and so no classes; in the model's its names have a prefix. */
static const whim_spelling names[] = {{"mtp.", ""}, {0}};
static const whim_arch arch = {.name = "mtp", .safetensors_names = names};

const whim_draft_kind whim_draft_mtp = {.arch = &arch, .check = whim_draft_check, .bind = bind};

/* The layer's configuration: one layer of the model that attends. */
static whim_config config_of(const whim_config *model)
{
    whim_config c = *model;
    c.arch = &arch;
    c.n_layer = 1;
    c.n_draft_layer = 0;
    c.gdn = (whim_gdn_config){0};
    memset(c.moe.dense, 0, sizeof c.moe.dense);
    c.draft = (whim_draft_config){.block = WHIM_SERIAL_MOST,
                                  .anchor_first = true,
                                  .serial = true,
                                  .n_target_layer = model->n_layer,
                                  .n_feature = 1,
                                  .features = {model->n_layer - 1},
                                  .d_target = model->d_model};
    return c;
}

whim_err whim_mtp_open(whim_ckpt *draft, const whim_ckpt *model, const char *path, whim_diag *diag)
{
    if (model->format != WHIM_CKPT_SAFETENSORS || whim_ckpt_find(model, "mtp.fc.weight") == NULL) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND,
                         "%s: there is no MTP layer: safetensors have one as \"mtp.fc.weight\" and "
                         "others",
                         path);
    }
    if (model->config.d_model % 2 != 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"hidden_size\" is %d; drafts of an even one are supported", path,
                         model->config.d_model);
    }
    WHIM_TRY(whim_ckpt_view(draft, model, "mtp.", diag));
    draft->config = config_of(&model->config);
    return WHIM_ERR_OK;
}

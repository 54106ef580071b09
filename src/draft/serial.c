/* SPDX-License-Identifier: Apache-2.0 */
/* A model with a draft that proposes token after token. */
#include "draft/serial.h"

#include "ops/ops.h"

struct whim_model {
    const whim_model_def *target_def;
    whim_model *target;
    whim_serial_spec spec;
    int32_t n_target;       /* layers of the model */
    whim_layer_table table; /* these, the features, then the draft's layers */
};

/* --- features in pages ------------------------------------------------------------------------ */

/* Half of a feature lies as a key, half as a value, in heads of at most 64: 8-bit types have
 * a scale for each. */
static whim_layer_row feature_row(int64_t d)
{
    int64_t half = d / 2, size = 64;
    while (half % size != 0) {
        size /= 2;
    }
    return (whim_layer_row){.mixer = WHIM_MIXER_ATTENTION,
                            .n_kv = (int32_t)(half / size),
                            .d_head = (int32_t)size,
                            .rope = WHIM_NO_ROPE};
}

static whim_kv_view features_of(const whim_model *m, const whim_batch *batch)
{
    const whim_layer_row *row = &m->table.rows[m->n_target];
    whim_kv_view kv = batch->kv;
    kv.layer_offset = batch->kv_offsets[m->n_target];
    kv.n_kv = row->n_kv;
    kv.d_head = row->d_head;
    return kv;
}

/* y = x, of [n_row, n_col] */
static whim_err columns(whim_stream *s, const float *x, int64_t x_stride, float *y,
                        int64_t y_stride, int64_t n_row, int64_t n_col)
{
    return whim_op_gather_rows(s, &(whim_gather_rows_args){.x = x,
                                                           .x_stride = x_stride,
                                                           .y = y,
                                                           .y_stride = y_stride,
                                                           .n_src = n_row,
                                                           .n_row = n_row,
                                                           .n_col = n_col});
}

static whim_err features_store(const whim_model *m, whim_stream *s, const whim_batch *batch,
                               const float *feature, whim_bump *bump)
{
    int64_t n = batch->n_row, d = m->spec.d, half = d / 2;
    float *k = whim_bump_rows(bump, n, half), *v = whim_bump_rows(bump, n, half);
    WHIM_TRY(columns(s, feature, d, k, half, n, half));
    WHIM_TRY(columns(s, feature + half, d, v, half, n, half));
    return whim_op_kv_write(
        s, &(whim_kv_write_args){
               .kv = features_of(m, batch), .k = k, .v = v, .slots = batch->slots, .n_row = n});
}

/* Those of the positions before; zeros where there is none. */
static whim_err features_read(const whim_model *m, whim_stream *s, const whim_batch *batch,
                              whim_bump *bump, float **before)
{
    int64_t n = batch->n_row, d = m->spec.d, half = d / 2;
    float *k = whim_bump_rows(bump, n, half), *v = whim_bump_rows(bump, n, half);
    *before = whim_bump_rows(bump, n, d);
    WHIM_TRY(whim_op_kv_read(
        s, &(whim_kv_read_args){
               .kv = features_of(m, batch), .slots = batch->before, .k = k, .v = v, .n_row = n}));
    WHIM_TRY(columns(s, k, half, *before, d, n, half));
    return columns(s, v, half, *before + half, d, n, half);
}

/* --- what layers begin with ------------------------------------------------------------------- */

whim_err whim_serial_norm(whim_stream *s, float eps, const float *w, const float *x,
                          int64_t x_stride, float *y, int64_t y_stride, int64_t n_row,
                          int64_t n_col)
{
    return whim_op_rmsnorm(s, &(whim_rmsnorm_args){.x = x,
                                                   .x_stride = x_stride,
                                                   .w = w,
                                                   .eps = eps,
                                                   .y = y,
                                                   .y_stride = y_stride,
                                                   .n_row = n_row,
                                                   .n_col = n_col});
}

whim_err whim_serial_input_make(const whim_serial_input *in, whim_stream *s,
                                const whim_batch *batch, const float *before, whim_bump *bump,
                                float **u)
{
    int64_t n = batch->n_row, d = in->ends->embed.k;
    float *x = whim_bump_rows(bump, n, d);
    whim_batch tokens = *batch;
    tokens.embeds = in->own_embed ? NULL : batch->embeds;
    *u = whim_bump_rows(bump, n, 2 * d);
    WHIM_TRY(whim_head_embed_part(in->ends, s, &tokens, bump, x));
    WHIM_TRY(whim_serial_norm(s, in->eps, in->embed_norm, x, d, *u, 2 * d, n, d));
    return whim_serial_norm(s, in->eps, in->feature_norm, before, d, *u + d, 2 * d, n, d);
}

/* --- passes ----------------------------------------------------------------------------------- */

/* The batch as the draft's layers see it: their parts of a page come behind the others. */
static whim_batch own_batch(const whim_model *m, const whim_batch *batch)
{
    whim_batch own = *batch;
    own.kv_offsets += m->n_target + 1;
    return own;
}

/* The model's pass, which leaves what its draft needs of every row. */
static whim_err forward_target(const whim_model *m, whim_stream *s, const whim_batch *batch,
                               whim_out *out)
{
    const whim_serial_spec *spec = &m->spec;
    int64_t n = batch->n_row, width = spec->n_feature * spec->d_target;
    float *captured = whim_bump_rows(out->scratch, n, width), *before;
    float *feature = whim_bump_rows(out->scratch, n, spec->d);
    whim_out more = *out;
    for (int32_t i = 0; i < spec->n_feature; i++) {
        more.captures[more.n_capture++] =
            (whim_capture){spec->boundaries[i], captured + i * spec->d_target, width};
    }
    WHIM_TRY(m->target_def->forward(m->target, s, batch, &more));
    WHIM_TRY(spec->form->fuse(spec->own, s, n, captured, out->scratch, feature));
    WHIM_TRY(features_store(m, s, batch, feature, out->scratch));
    WHIM_TRY(features_read(m, s, batch, out->scratch, &before));
    whim_batch own = own_batch(m, batch);
    return spec->form->append(spec->own, s, &own, before, out->scratch);
}

static whim_err forward_draft(const whim_model *m, whim_stream *s, const whim_batch *batch,
                              whim_out *out)
{
    float *before, *feature = whim_bump_rows(out->scratch, batch->n_row, m->spec.d);
    whim_batch own = own_batch(m, batch);
    whim_out proposed = *out;
    proposed.n_capture = 0;
    WHIM_TRY(features_read(m, s, batch, out->scratch, &before));
    WHIM_TRY(m->spec.form->step(m->spec.own, s, &own, before, &proposed, feature));
    return features_store(m, s, batch, feature, out->scratch);
}

static whim_err forward(whim_model *m, whim_stream *s, const whim_batch *batch, whim_out *out)
{
    return (batch->drafts ? forward_draft : forward_target)(m, s, batch, out);
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

static whim_err table_join(whim_model *m, const whim_layer_table *target, whim_arena *arena)
{
    const whim_layer_table *rows = m->spec.rows;
    m->table = *target;
    m->n_target = target->n_layer;
    m->table.n_layer = m->n_target + 1 + rows->n_layer;
    m->table.rows = whim_arena_alloc_array(arena, m->table.n_layer, sizeof *m->table.rows);
    if (m->table.rows == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    for (int32_t l = 0; l < m->n_target; l++) {
        m->table.rows[l] = target->rows[l];
    }
    m->table.rows[m->n_target] = feature_row(m->spec.d);
    for (int32_t l = 0; l < rows->n_layer; l++) {
        m->table.rows[m->n_target + 1 + l] = rows->rows[l];
    }
    return WHIM_ERR_OK;
}

whim_err whim_serial_join(const whim_serial_spec *spec, whim_arena *arena,
                          const whim_model_def **def, whim_model **model, whim_diag *diag)
{
    whim_model_def *own = whim_arena_alloc(arena, sizeof *own);
    whim_model *m = whim_arena_alloc(arena, sizeof *m);
    WHIM_TRY(whim_got(own != NULL && m != NULL, diag, "no memory for a draft"));
    m->target_def = *def;
    m->target = *model;
    m->spec = *spec;
    WHIM_TRY(whim_got(table_join(m, (*def)->layers(*model), arena) == WHIM_ERR_OK, diag,
                      "no memory for a draft"));
    *own = **def;
    own->layers = layers;
    own->head = head;
    own->forward = forward;
    own->advance = advance;
    *def = own;
    *model = m;
    return WHIM_ERR_OK;
}

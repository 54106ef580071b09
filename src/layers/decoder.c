/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of a decoder, in the order of the data. */
#include "layers/decoder.h"

#include "base/check.h"
#include "layers/ranks/cut_rows.h"

/* Buffers of a pass, all F32, reused by every layer. There are two for sums, so that a norm may
 * still read what the mixer adds while the MLP makes its own. */
typedef struct pass {
    const whim_decoder *dec;
    whim_stream *s;
    const whim_batch *batch; /* rows that this rank works on */
    const whim_batch *all;   /* of all ranks; the same where the pass is not cut */
    whim_batch own;          /* where it is */
    float *x;                /* [n_row, d_model] the residual stream */
    whim_rows mixed;         /* [n_row, d_model] what a mixer adds to it */
    whim_rows fed;           /* [n_row, d_model] what an MLP adds to it */
    float *normed;           /* [n_row, d_model] */
    float *turned;           /* the same, of what a convolution makes of it; NULL: there is none */
    float *deltas;           /* [n_row, whim_block_conv_deltas] */
    float *whole;            /* of a pass that is cut: x of all rows, in order */
    float *gathered;         /* and anything of them as they are gathered */
    int64_t n_each, n_fed;   /* rows of each group, where these meet, and rows of an MLP */
    float *part;             /* of groups that meet: some columns of a group's rows */
    float *together;         /* and [n_fed, d_model] the residual stream of all, */
    float *together_normed;  /* the same, */
    whim_rows together_fed;  /* the same */
    int32_t *own_marks;      /* [n_each] which rows of a group are padding, */
    int32_t *marks;          /* [n_fed] which of all; NULL: nobody asks */
    whim_whole_space joint;  /* of mixers whose heads are dealt and whose sums are not */
    whim_attention_pass attn;
    whim_gated_delta_pass gdn, gdn_whole;
    whim_mlp_pass mlp;
    whim_deal_apart apart; /* of rows that go to experts of other ranks */
    whim_moe_space moe;
} pass;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What a pass that is cut needs of all rows. */
static void pass_init_cut(pass *p, whim_bump *bump)
{
    const whim_decoder *dec = p->dec;
    const whim_batch_cut *cut = p->all->cut;
    int64_t width = dec->x_cols[0];
    p->whole = whim_bump_rows(bump, p->all->n_row, width);
    for (int32_t l = 0; l < dec->table.n_layer; l++) {
        const whim_decoder_layer *layer = &dec->layers[l];
        width = larger(width, layer->delta != NULL ? layer->delta->qkv_cols[0]
                                                   : 2 * layer->attn.kv_cols[0]);
    }
    p->gathered = whim_bump_rows(bump, cut->n_row * cut->n_rank, width);
    p->attn.all = p->gathered;
    if (dec->table.slot_bytes > 0) {
        whim_gated_delta_pass_init(&p->gdn_whole, &dec->config.gdn, false, 0, 0, p->all->n_row,
                                   bump);
        p->gdn.whole = &p->gdn_whole;
        p->gdn.gathered = p->gathered;
    }
}

/* What groups that meet need of all rows. */
static void pass_init_meet(pass *p, whim_bump *bump)
{
    const whim_meet *meet = p->dec->meet;
    p->part = whim_bump_rows(bump, p->n_each, meet->own.n);
    p->together = whim_bump_rows(bump, p->n_fed, meet->d_model);
    p->together_normed = whim_bump_rows(bump, p->n_fed, meet->d_model);
    p->together_fed.x = whim_bump_rows(bump, p->n_fed, meet->d_model);
    if (p->dec->config.moe.n_expert > 0) {
        p->own_marks = whim_bump_take(bump, p->n_each * (int64_t)sizeof *p->own_marks);
        p->marks = whim_bump_take(bump, p->n_fed * (int64_t)sizeof *p->marks);
    }
}

/* Whose rows are others than this rank's, and which are padding. */
static whim_deal_apart apart_of(const pass *p)
{
    const whim_batch *batch = p->all;
    const whim_batch_cut *cut = batch->cut;
    bool marked = p->dec->deal != NULL && (batch->n_meet > 0 || batch->pads);
    if (p->dec->meet != NULL) {
        return (whim_deal_apart){0, p->marks};
    }
    if (cut == NULL) {
        return (whim_deal_apart){batch->n_meet, marked ? batch->tokens : NULL};
    }
    return (whim_deal_apart){batch->n_meet > 0 ? batch->n_meet : cut->n_row, cut->own};
}

static void pass_init(pass *p, const whim_decoder *dec, whim_stream *s, const whim_batch *batch,
                      whim_bump *bump)
{
    const whim_config *c = &dec->config;
    *p = (pass){.dec = dec, .s = s, .batch = batch, .all = batch};
    if (batch->cut != NULL) {
        p->own = whim_cut_own(batch);
        p->batch = &p->own;
    }
    int64_t n = p->batch->n_row, d = c->d_model;
    p->n_each = dec->meet != NULL ? batch->n_meet : n;
    p->n_fed = dec->meet != NULL ? p->n_each * dec->meet->n_group : n;
    whim_check(p->n_each >= n);
    p->x = whim_bump_rows(bump, n, d);
    p->mixed.x = whim_bump_rows(bump, p->n_each, d);
    p->fed.x = whim_bump_rows(bump, whim_deal_rows(dec->deal, p->n_each), d);
    p->normed = whim_bump_rows(bump, n, d);
    int64_t deltas = 0, out_cols = 0, cut = 0;
    whim_whole_widths joint = {0};
    for (int32_t l = 0; l < dec->table.n_layer; l++) {
        int64_t width = whim_block_conv_deltas(&dec->table.rows[l], d);
        const whim_gated_delta *delta = dec->layers[l].delta;
        deltas = larger(deltas, width);
        whim_whole_widths_add(&joint, delta != NULL ? delta->whole : dec->layers[l].attn.whole);
        if (delta != NULL) {
            out_cols = larger(out_cols, delta->cols.width);
            cut = larger(cut, whim_own_cols_cut_width(&delta->cols));
        }
    }
    p->turned = deltas > 0 ? whim_bump_rows(bump, n, d) : NULL;
    p->deltas = whim_bump_rows(bump, n, deltas);
    p->joint = whim_whole_space_take(bump, &joint, n);
    whim_attention_pass_init(&p->attn, &dec->table, n, bump);
    p->attn.joint = &p->joint;
    whim_mlp_pass_init(&p->mlp, &dec->table, p->n_fed, bump);
    if (dec->meet != NULL) {
        pass_init_meet(p, bump);
    }
    p->apart = apart_of(p);
    if (c->moe.n_expert > 0) {
        p->moe = whim_moe_space_take(bump, c, dec->deal, p->n_fed, &p->apart);
    }
    if (dec->table.slot_bytes > 0) {
        whim_gated_delta_pass_init(&p->gdn, &c->gdn, dec->gdn_grouped, out_cols, cut, n, bump);
        p->gdn.joint = &p->joint;
    }
    if (batch->cut != NULL) {
        pass_init_cut(p, bump);
    }
}

/* y = norm(x) */
static whim_err norm(const pass *p, const float *w, const float *x, int64_t n_row, float *y)
{
    int64_t d = p->dec->config.d_model;
    return whim_op_rmsnorm(p->s, &(whim_rmsnorm_args){
                                     .x = x,
                                     .x_stride = d,
                                     .w = w,
                                     .eps = p->dec->config.rms_eps,
                                     .y = y,
                                     .y_stride = d,
                                     .n_row = n_row,
                                     .n_col = d,
                                 });
}

/* normed = norm(x), after x += what a block has left (else NULL). */
static whim_err norm_after(const pass *p, const float *w, const whim_rows *left)
{
    int64_t d = p->dec->config.d_model;
    const float *delta;
    if (left == NULL) {
        return norm(p, w, p->x, p->batch->n_row, p->normed);
    }
    WHIM_TRY(whim_rows_get(left, &delta));
    return whim_op_add_rmsnorm(p->s, &(whim_add_rmsnorm_args){
                                         .x = p->x,
                                         .x_stride = d,
                                         .delta = delta,
                                         .delta_stride = d,
                                         .w = w,
                                         .eps = p->dec->config.rms_eps,
                                         .y = p->normed,
                                         .y_stride = d,
                                         .n_row = p->batch->n_row,
                                         .n_col = d,
                                     });
}

/* y = f(x), both [n_row, d_model], of layer l; of several ranks each has its part of a sum. */
typedef whim_err sublayer(const pass *p, int32_t l, const float *x, whim_rows *y);

/* y becomes the sum of what the ranks of a group have made of their parts. */
static whim_err join(const pass *p, whim_rows *y, const char *site)
{
    if (y->owed != WHIM_OWED_GROUP) {
        return WHIM_ERR_OK;
    }
    y->owed = WHIM_OWED_NOTHING;
    return whim_op_all_reduce(p->s, &(whim_all_reduce_args){.x = y->x,
                                                            .n_row = p->batch->n_row,
                                                            .n_col = p->dec->config.d_model,
                                                            .site = site});
}

static bool splits_sums(const whim_decoder *dec)
{
    return dec->table.n_rank > 1 && !dec->table.whole_sums;
}

static whim_err mixer(const pass *p, int32_t l, const float *x, whim_rows *y)
{
    const whim_decoder *dec = p->dec;
    const whim_decoder_layer *layer = &dec->layers[l];
    const whim_layer_row *row = &dec->table.rows[l];
    if (row->mixer == WHIM_MIXER_GATED_DELTA) {
        WHIM_TRY(whim_gated_delta_forward(layer->delta, &dec->config, dec->gdn_grouped,
                                          row->state_at, &p->gdn, p->s, p->all, x, y->x));
    } else {
        WHIM_TRY(whim_attention_forward(&layer->attn, row, l, dec->config.rms_eps, dec->rotary,
                                        &p->attn, p->s, p->batch, x, y->x));
    }
    y->owed = splits_sums(dec) ? WHIM_OWED_GROUP : WHIM_OWED_NOTHING;
    return WHIM_ERR_OK;
}

/* An MLP, or the sum of its experts. */
static whim_err mlp(const pass *p, int32_t l, const float *x, whim_rows *y)
{
    const whim_decoder_layer *layer = &p->dec->layers[l];
    if (p->dec->table.rows[l].mlp == WHIM_MLP_EXPERTS) {
        WHIM_TRY(whim_moe_forward(layer->moe, &p->dec->config.moe, p->s, x, p->n_fed, &p->apart,
                                  &p->moe, y->x));
    } else {
        WHIM_TRY(whim_mlp_forward(&layer->mlp, &p->mlp, p->s, x, p->n_fed, y->x));
    }
    y->owed = p->dec->meet != NULL  ? WHIM_OWED_ALL
              : splits_sums(p->dec) ? WHIM_OWED_GROUP
                                    : WHIM_OWED_NOTHING;
    return WHIM_ERR_OK;
}

/* y = f(normed), or with convolutions around it; normed is lost then. */
static whim_err around(const pass *p, int32_t l, const whim_block_conv *conv, sublayer *f,
                       const char *site, whim_rows *y)
{
    const whim_layer_row *row = &p->dec->table.rows[l];
    if (row->conv_tap == 0) {
        return f(p, l, p->normed, y);
    }
    WHIM_TRY(whim_product(p->s, &conv->deltas, p->normed, p->batch->n_row, p->deltas));
    WHIM_TRY(
        whim_block_conv_forward(conv, row, 0, p->s, p->batch, p->normed, p->deltas, p->turned));
    whim_rows made = {.x = p->normed};
    WHIM_TRY(f(p, l, p->turned, &made));
    WHIM_TRY(join(p, &made, site));
    y->owed = made.owed;
    return whim_block_conv_forward(conv, row, 1, p->s, p->batch, p->normed, p->deltas, y->x);
}

/* The MLP of a layer, of this group's rows. */
static whim_err feed(pass *p, int32_t l)
{
    const whim_decoder_layer *layer = &p->dec->layers[l];
    WHIM_TRY(join(p, &p->mixed, "mixer"));
    WHIM_TRY(norm_after(p, layer->mlp_norm, &p->mixed));
    WHIM_TRY(around(p, l, &layer->mlp_conv, mlp, "mlp", &p->fed));
    return join(p, &p->fed, "mlp");
}

/* The same of the rows of all groups together. Layers with convolutions are drafts', which are cut
 * over no ranks. */
static whim_err feed_together(pass *p, int32_t l)
{
    const whim_meet *meet = p->dec->meet;
    whim_check(p->dec->table.rows[l].conv_tap == 0);
    WHIM_TRY(whim_meet_gather(meet, p->s, &p->mixed, p->batch->n_row, p->n_each, p->part, p->x,
                              p->together));
    WHIM_TRY(norm(p, p->dec->layers[l].mlp_norm, p->together, p->n_fed, p->together_normed));
    WHIM_TRY(mlp(p, l, p->together_normed, &p->together_fed));
    return whim_meet_scatter(meet, p->s, &p->together_fed, p->n_each, p->part, &p->fed);
}

/* x = embeddings of the tokens. Of a pass that is cut all are found, which costs next to nothing:
 * tokens may be known to the device only. */
static whim_err embed(const pass *p, const whim_head *head, whim_bump *bump)
{
    const whim_decoder *dec = p->dec;
    if (p->all->cut != NULL) {
        WHIM_TRY(whim_head_embed_part(head, p->s, p->all, bump, p->whole));
        return whim_cut_select(p->s, p->all, p->whole, p->x, dec->config.d_model);
    }
    WHIM_TRY(whim_head_embed_part(head, p->s, p->batch, bump, dec->scaled ? p->normed : p->x));
    return dec->scaled ? whim_rows_scale(p->s, p->batch, p->normed, dec->embed_scale,
                                         dec->config.d_model, p->x)
                       : WHIM_ERR_OK;
}

/* Copy the residual stream out where boundary `b` was asked for. */
static whim_err capture(const pass *p, int32_t b, const whim_out *out)
{
    int64_t d = p->dec->config.d_model, n = p->batch->n_row;
    for (int32_t i = 0; i < out->n_capture; i++) {
        if (out->captures[i].boundary == b && p->all->cut != NULL) {
            WHIM_TRY(whim_cut_join(p->s, p->all, p->dec->x_cols, p->x, p->gathered,
                                   out->captures[i].rows, out->captures[i].stride, "features"));
        } else if (out->captures[i].boundary == b) {
            WHIM_TRY(whim_op_gather_rows(p->s, &(whim_gather_rows_args){
                                                   .x = p->x,
                                                   .x_stride = d,
                                                   .y = out->captures[i].rows,
                                                   .y_stride = out->captures[i].stride,
                                                   .n_src = n,
                                                   .n_row = n,
                                                   .n_col = d,
                                               }));
        }
    }
    return WHIM_ERR_OK;
}

/* x += what a block has left */
static whim_err add(const pass *p, const whim_rows *left)
{
    int64_t d = p->dec->config.d_model;
    const float *y;
    WHIM_TRY(whim_rows_get(left, &y));
    return whim_op_add(p->s, &(whim_add_args){
                                 .x = p->x,
                                 .x_stride = d,
                                 .y = y,
                                 .y_stride = d,
                                 .n_row = p->batch->n_row,
                                 .n_col = d,
                             });
}

/* Of a draft's ends the norm is always its own, the head where it has one for fewer tokens. */
whim_head whim_decoder_ends(const whim_decoder *dec)
{
    whim_head head = dec->head;
    if (dec->lent != NULL) {
        head.embed = dec->lent->embed;
        head.embed_part = dec->lent->embed_part;
    }
    if (dec->lent != NULL && !dec->owns_head) {
        head.tied = dec->lent->tied;
        head.head = dec->lent->head;
        head.head_part = dec->lent->head_part;
    }
    return head;
}

whim_err whim_decoder_run(const whim_decoder *dec, whim_stream *s, const whim_batch *batch,
                          whim_out *out, float **x)
{
    int32_t n_layer = dec->table.n_layer;
    pass p;
    whim_head head = whim_decoder_ends(dec);
    pass_init(&p, dec, s, batch, out->scratch);
    WHIM_TRY(whim_attention_rotary(&p.attn, dec->rotary, dec->table.n_rope, s, p.batch));
    WHIM_TRY(embed(&p, &head, out->scratch));
    if (p.marks != NULL) {
        WHIM_TRY(whim_meet_mark(dec->meet, s, batch->tokens, batch->n_row, p.n_each, p.own_marks,
                                p.marks));
    }
    for (int32_t l = 0; l < n_layer; l++) {
        WHIM_TRY(norm_after(&p, dec->layers[l].mixer_norm, l > 0 ? &p.fed : NULL));
        WHIM_TRY(capture(&p, l, out));
        WHIM_TRY(around(&p, l, &dec->layers[l].mixer_conv, mixer, "mixer", &p.mixed));
        WHIM_TRY(dec->meet != NULL ? feed_together(&p, l) : feed(&p, l));
    }
    WHIM_TRY(add(&p, &p.fed));
    WHIM_TRY(capture(&p, n_layer, out));
    if (batch->cut == NULL) {
        *x = p.x;
        return WHIM_ERR_OK;
    }
    *x = p.whole;
    return whim_cut_join(s, batch, dec->x_cols, p.x, p.gathered, p.whole, dec->config.d_model,
                         "rows");
}

whim_err whim_decoder_forward(const whim_decoder *dec, whim_stream *s, const whim_batch *batch,
                              whim_out *out)
{
    whim_head head = whim_decoder_ends(dec);
    float *x;
    WHIM_TRY(whim_decoder_run(dec, s, batch, out, &x));
    return whim_head_forward(&head, dec->config.rms_eps, s, batch, x, out);
}

whim_err whim_decoder_advance(const whim_decoder *dec, whim_stream *s, const whim_batch *batch,
                              whim_bump *scratch)
{
    whim_gated_delta_pass gdn;
    whim_gated_delta_pass_init(&gdn, &dec->config.gdn, dec->gdn_grouped, 0, 0, batch->n_row,
                               scratch);
    for (int32_t l = 0; l < dec->table.n_layer; l++) {
        if (dec->table.rows[l].mixer == WHIM_MIXER_GATED_DELTA) {
            WHIM_TRY(whim_gated_delta_advance(dec->layers[l].delta, &dec->config.gdn,
                                              dec->table.rows[l].state_at, &gdn, s, batch));
        }
    }
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts that propose token after token, each from the last one and a feature of the position
 * before it: what the model made of that position or, where the model has not been yet, what the
 * draft itself did.
 *     feature of p:  f_p, d_model wide
 *     entry at p:    key and value of what the draft makes of token p and f_{p-1}
 *     proposal:      the draft's layer over the entries 1 .. p says which token follows at p + 1
 * So all that lies at a place of a page is known by the tokens up to it, as with the model's own
 * keys, and whoever shares a page has what it needs to continue behind it. There is no entry at 0.
 * Features are in pages, too, in a part of their own, and are always read from there: however a
 * text was cut into steps, an entry has the same bits.
 *     a pass of the model:  features of its rows, then the entries of these rows
 *     a pass of the draft:  for one row of a sequence its entry, a proposal and its own feature
 * Threads: as the stream. */
#ifndef WHIM_DRAFT_SERIAL_H
#define WHIM_DRAFT_SERIAL_H

#include "draft/draft.h"
#include "layers/head.h"

enum { WHIM_SERIAL_MOST = 7 }; /* proposals of one kind of draft in a row: as it is trained */

/* What such a draft does, `own` being its own. Batches have its layers' parts of pages. */
typedef struct whim_serial_form {
    /* feature = [n_row, d] of what was captured of the model's rows, [n_row, n_feature * the
     * model's d_model] */
    whim_err (*fuse)(const void *own, whim_stream *s, int64_t n_row, float *captured,
                     whim_bump *bump, float *feature);

    /* Entries of the rows, whose features of the positions before are in `before`. */
    whim_err (*append)(const void *own, whim_stream *s, const whim_batch *batch, float *before,
                       whim_bump *bump);

    /* The same with proposals, and the rows' own features. `before` may be changed. */
    whim_err (*step)(const void *own, whim_stream *s, const whim_batch *batch, float *before,
                     whim_out *out, float *feature);
} whim_serial_form;

typedef struct whim_serial_spec {
    const whim_serial_form *form;
    const void *own;
    int32_t n_feature;
    int32_t boundaries[WHIM_DRAFT_MAX_FEATURE]; /* of the model, that are captured */
    int64_t d_target;                           /* the model's d_model */
    int64_t d;                                  /* of a feature: even */
    const whim_layer_table *rows;               /* the draft's layers */
} whim_serial_spec;

/* --- what their layers begin with ------------------------------------------------------------- */

/* Rows [n_row, n_col] normalised; y may be x. */
WHIM_MUST_CHECK whim_err whim_serial_norm(whim_stream *s, float eps, const float *w, const float *x,
                                          int64_t x_stride, float *y, int64_t y_stride,
                                          int64_t n_row, int64_t n_col);

/* u = [norm(embedding) | norm(before)], [n_row, 2 d] of the bump. `ends` has the embedding; where
 * it is the draft's own, embeddings that a batch brings instead of tokens are none of it, and may
 * be of another width: it takes its own of the tokens. */
typedef struct whim_serial_input {
    const whim_head *ends;
    bool own_embed;
    const float *embed_norm, *feature_norm; /* [d] */
    float eps;
} whim_serial_input;
WHIM_MUST_CHECK whim_err whim_serial_input_make(const whim_serial_input *in, whim_stream *s,
                                                const whim_batch *batch, const float *before,
                                                whim_bump *bump, float **u);

/* The model with its draft takes the model's place, as bind of whim_draft_kind. */
WHIM_MUST_CHECK whim_err whim_serial_join(const whim_serial_spec *spec, whim_arena *arena,
                                          const whim_model_def **def, whim_model **model,
                                          whim_diag *diag);

#endif

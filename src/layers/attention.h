/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped-query attention over paged keys and values, a layer's mixer:
 *     q k v = products of x; q, k = rotate(norm(q, k)); y = out(softmax(q k^T / sqrt(d)) v)
 * with what its row of the table says: heads, norms, rotation, a window, a gate on what attention
 * gives.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_ATTENTION_H
#define WHIM_LAYERS_ATTENTION_H

#include "layers/batch.h"
#include "layers/layer_table.h"
#include "layers/projection.h"
#include "layers/ranks/whole_rows.h"

typedef struct whim_attention {
    whim_projection q;            /* [n_head * d_head, d_in]; gated: [2 n_head * d_head, d_in] */
    whim_projection k, v;         /* [n_kv * d_head, d_in] */
    whim_projection o;            /* [d_model, n_head * d_head] */
    const float *q_norm;          /* as whim_qk_norm says, or NULL */
    const float *k_norm;          /* the same */
    const int64_t *kv_cols;       /* for gathering k and v of rows that ranks share, or NULL */
    const whim_whole_rows *whole; /* o has some outputs of whole rows; NULL: some columns, or all */
} whim_attention;

/* A rotary table, bound. */
typedef struct whim_rotary {
    const void *freqs; /* double [n_freq] */
    int64_t n_freq;
    double scale;
} whim_rotary;

/* Buffers of a pass, wide enough for every layer and reused by each. */
typedef struct whim_attention_pass {
    float *cos_sin[WHIM_MAX_ROPE]; /* [n_row, 2 n_freq] */
    float *qkv;  /* [n_row, (n_head + 2 n_kv) d_head]; gated: (2 n_head + 2 n_kv) d_head */
    float *gate; /* [n_row, n_head, d_head], or NULL */
    float *q;    /* [n_row, n_head, d_head] */
    float *kv;   /* [2, n_row, n_kv, d_head]: k, and v behind it */
    float *all;  /* of a pass that is cut: [2, rows of all ranks, n_kv, d_head] */
    float *attn; /* [n_row, n_head, d_head] */
    float *wide; /* [n_row, columns of `o` that are kept], where some are others'; else NULL */
    float *cut;  /* [n_row, whim_own_cols_cut_width] */
    float *sums; /* [n_row, 2] squares of q and k, where they are normalised whole */
    const whim_whole_space *joint; /* for whim_attention.whole */
} whim_attention_pass;

/* The columns of layer l's output projection that the binder's rank keeps; `row` is still the whole
 * one but for its heads' share. NO_MEMORY. */
WHIM_MUST_CHECK whim_err whim_attention_cols(const whim_layer_row *row, const whim_config *config,
                                             int32_t l, whim_binder *binder, whim_own_cols *out);

/* Declare the tensors of layer l. At zero: its norms' weights are stored less one. */
void whim_attention_bind(whim_attention *a, const whim_layer_row *row, const whim_config *config,
                         bool at_zero, int32_t l, whim_binder *binder);

void whim_attention_pass_init(whim_attention_pass *p, const whim_layer_table *table, int64_t n_row,
                              whim_bump *bump);

/* cos_sin of the rows' positions, once for all layers. */
WHIM_MUST_CHECK whim_err whim_attention_rotary(const whim_attention_pass *p,
                                               const whim_rotary *rotary, int32_t n_rotary,
                                               whim_stream *s, const whim_batch *batch);

/* Keys and values of x, [n_row, d_in], to the pages, and nothing else: what a draft keeps of the
 * model's rows. Heads are normalised each by itself or not at all. */
WHIM_MUST_CHECK whim_err whim_attention_append(const whim_attention *a, const whim_layer_row *row,
                                               int32_t l, float eps, const whim_rotary *rotary,
                                               const whim_attention_pass *p, whim_stream *s,
                                               const whim_batch *batch, const float *x);

/* y = mixer(x), [n_row, d_model] of [n_row, d_in], of layer l. */
WHIM_MUST_CHECK whim_err whim_attention_forward(const whim_attention *a, const whim_layer_row *row,
                                                int32_t l, float eps, const whim_rotary *rotary,
                                                const whim_attention_pass *p, whim_stream *s,
                                                const whim_batch *batch, const float *x, float *y);

#endif

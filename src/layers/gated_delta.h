/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta net of Qwen3.5 and Qwen3-Next, a layer's mixer instead of attention:
 *     q k v z b a = products of x; q k v = silu(conv(q k v)); q, k of length 1
 *     S = exp(g) S + k (beta (v - (exp(g) S)^T k))^T; o = S^T q, for each value head
 *     y = out(norm(o) * silu(z))
 * with g = -exp(A_log) softplus(a + dt_bias) and beta = sigmoid(b). A sequence's state is S and the
 * last rows of the convolution's input: a slot holds both for every such layer.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_GATED_DELTA_H
#define WHIM_LAYERS_GATED_DELTA_H

#include "device/device.h"
#include "layers/batch.h"
#include "layers/ranks/own_cols.h"
#include "layers/ranks/whole_rows.h"
#include "weights/bind.h"
#include "weights/config.h"

#include <stdbool.h>

typedef struct whim_gated_delta {
    whim_weight qkv; /* [2 n_key d_key + n_value d_value, d_model]; grouped: with z, by key head */
    whim_weight z;   /* [n_value d_value, d_model]; unused when grouped */
    /* [n_value, d_model]; grouped: b is [2 n_value, d_model], with a, by key head */
    whim_weight b, a;
    const float *conv;            /* [2 n_key d_key + n_value d_value, n_tap] */
    const float *rate;            /* [n_value] -exp(A_log) */
    const float *dt_bias;         /* [n_value] */
    const float *norm;            /* [d_value] */
    whim_weight out;              /* [d_model, n_value d_value] */
    bool out_tiled;               /* its columns are in the order of whim_gdn_config.tiled */
    whim_own_cols cols;           /* what of them a rank has; no runs: all that its heads give */
    const whim_whole_rows *whole; /* `out` has some outputs of whole rows; NULL: all outputs */
    /* for gathering qkv, and b and a, of rows that ranks share, or NULL */
    const int64_t *qkv_cols, *head_cols;
} whim_gated_delta;

/* Buffers of a pass, reused by every layer. */
typedef struct whim_gated_delta_pass {
    float *qkvz, *ba;  /* grouped only: [n_row, ...] as the products give them */
    float *qkv, *conv; /* [n_row, 2 n_key d_key + n_value d_value] */
    float *z, *o;      /* [n_row, n_value, d_value] */
    float *y;          /* the same, with zeros where `out` has columns of others */
    float *cut;        /* [n_row, whim_own_cols_cut_width] */
    float *b, *a;      /* [n_row, n_value] */
    /* Of a pass that is cut, whose recurrence needs all rows in order: theirs, and room for them as
     * they are gathered. */
    const struct whim_gated_delta_pass *whole;
    float *gathered;
    const whim_whole_space *joint; /* for whim_gated_delta.whole */
} whim_gated_delta_pass;

/* The heads that a rank has: key heads, and the value heads that go with them. */
whim_gdn_config whim_gated_delta_cut(const whim_gdn_config *gdn, int32_t n_rank, int32_t rank);

/* Bytes of one layer's part of a state slot; never 0, so that a rank without heads has slots, too.
 */
int64_t whim_gated_delta_state_bytes(const whim_gdn_config *gdn);

/* Bytes of what one layer keeps of `n_row` rows: all that their state is made from. */
int64_t whim_gated_delta_kept_bytes(const whim_gdn_config *gdn, int64_t n_row);

/* Declare the tensors of layer l, of which the configuration has all heads. Grouped: Qwen3-Next's
 * layout. */
void whim_gated_delta_bind(whim_gated_delta *g, const whim_config *config, bool grouped, int32_t l,
                           whim_binder *binder);

/* From here on configurations have the heads of the rank. `out_cols`: the most that a layer's `out`
 * has, `cut`: that it puts together of cut groups. */
void whim_gated_delta_pass_init(whim_gated_delta_pass *p, const whim_gdn_config *gdn, bool grouped,
                                int64_t out_cols, int64_t cut, int64_t n_row, whim_bump *bump);

/* y = mixer(x), both [n_row, d_model]; the layer's part of a slot begins at `state_at`. Where the
 * batch is cut, x and y are the rank's own rows. */
WHIM_MUST_CHECK whim_err whim_gated_delta_forward(const whim_gated_delta *g,
                                                  const whim_config *config, bool grouped,
                                                  int64_t state_at, const whim_gated_delta_pass *p,
                                                  whim_stream *s, const whim_batch *batch,
                                                  const float *x, float *y);

/* The states alone advance by rows that a pass before has kept. */
WHIM_MUST_CHECK whim_err whim_gated_delta_advance(const whim_gated_delta *g,
                                                  const whim_gdn_config *gdn, int64_t state_at,
                                                  const whim_gated_delta_pass *p, whim_stream *s,
                                                  const whim_batch *batch);

#endif

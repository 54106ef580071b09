/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a quantised copy of a Hugging Face model folder, in a form that other programs read too:
 *   q8, q4  compressed-tensors, "pack-quantized": symmetric integers in groups of 32 along k;
 *   fp8     e4m3 in tiles of 128 x 128 with "weight_scale_inv".
 * What is quantised: the matrices of the layers, as the model binds them; experts one by one, also
 * those stored in one tensor, which get names of their own. What stays as it is, and is on the list
 * of modules that are not quantised: embeddings, head, norms, routers, gates, convolutions, what
 * text does not need, and matrices that do not divide into whole groups or tiles.
 * Nothing but a few slabs of rows is in memory. Invariant: OUT appears whole, by one rename, or not
 * at all.
 * Threads: one caller; it starts threads of its own and joins them. */
#ifndef WHIM_WEIGHTS_QUANTISED_QUANTIZE_H
#define WHIM_WEIGHTS_QUANTISED_QUANTIZE_H

#include "weights/bind.h"

#include <signal.h>

typedef enum whim_quantize_kind {
    WHIM_QUANTIZE_Q8,
    WHIM_QUANTIZE_Q4,
    WHIM_QUANTIZE_FP8,
} whim_quantize_kind;

typedef struct whim_quantize_cfg {
    whim_quantize_kind kind;
    const char *in, *out; /* folders */
    int64_t shard_bytes;  /* of one file of weights, roughly */
    int32_t n_thread;
    const volatile sig_atomic_t
        *stop;                       /* not 0: end as soon as possible, as a failure; may be NULL */
    whim_load_progress *on_progress; /* may be NULL; from several threads */
    void *ctx;
} whim_quantize_cfg;

typedef struct whim_quantize_result {
    int64_t n_matrix;              /* quantised */
    int64_t n_odd;                 /* left as they are because of their shape */
    const char *unit;              /* into which they do not divide */
    int64_t bytes_in, bytes_out;   /* tensors of the whole model */
    int64_t matrix_in, matrix_out; /* of what was quantised, scales included */
} whim_quantize_result;

/* Whether this can begin at all: the model's format, where OUT would be. */
WHIM_MUST_CHECK whim_err whim_quantize_check(const whim_ckpt *ckpt, const whim_quantize_cfg *cfg,
                                             whim_diag *diag);

/* Do it. The binder is matched with the checkpoint. On failure nothing is left. */
WHIM_MUST_CHECK whim_err whim_quantize(const whim_ckpt *ckpt, const whim_binder *binder,
                                       const whim_quantize_cfg *cfg, whim_quantize_result *result,
                                       whim_diag *diag);

#endif

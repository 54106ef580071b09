/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the quantiser: quantize_plan.c says what becomes of each tensor,
 * quantize_slabs.c does it, quantize.c owns the folder.
 * Threads: made by one, then read-only. */
#ifndef WHIM_WEIGHTS_QUANTISED_QUANTIZE_IMPL_H
#define WHIM_WEIGHTS_QUANTISED_QUANTIZE_IMPL_H

#include "weights/quantised/quantize.h"
#include "weights/safetensors/write.h"

/* What a kind of codes is. */
typedef struct whim_quantize_format {
    int32_t bits;  /* of integers; 0: e4m3 */
    int64_t group; /* weights along k with one scale, and what rows must be a multiple of */
    int64_t tile;  /* rows with one scale */
} whim_quantize_format;

const whim_quantize_format *whim_quantize_format_get(whim_quantize_kind kind);

/* Rows of a tensor that become a matrix of codes, or a tensor that is copied. */
typedef struct whim_quantize_unit {
    const whim_ckpt_tensor *tensor;
    int64_t row0, n, k; /* a matrix; n = 0: a copy */
    const char *module; /* of a matrix: the name before ".weight" */
    int64_t entry;      /* its first entry; codes, scales and for integers the shape */
    int64_t step;       /* rows of a slab, or bytes of a copy */
    int64_t first, n_slab;
} whim_quantize_unit;

typedef struct whim_quantize_plan {
    whim_arena arena;
    const whim_quantize_format *format;
    whim_quantize_unit *units;
    int64_t n_unit;
    whim_safetensors_entry *entries;
    int64_t n_entry;
    int64_t n_slab;
    int64_t slab_elems; /* weights of the largest slab */
    whim_quantize_result result;
} whim_quantize_plan;

WHIM_MUST_CHECK whim_err whim_quantize_plan_make(whim_quantize_plan *plan, const whim_ckpt *ckpt,
                                                 const whim_binder *binder, whim_quantize_kind kind,
                                                 whim_diag *diag);
void whim_quantize_plan_free(whim_quantize_plan *plan);

/* A config.json with what the plan makes of the weights; the caller frees the text with
 * whim_free. */
WHIM_MUST_CHECK whim_err whim_quantize_config(const whim_quantize_plan *plan, const char *text,
                                              int64_t n, const char *path, char **out,
                                              whim_diag *diag);

/* All tensors into the writer's files. */
WHIM_MUST_CHECK whim_err whim_quantize_slabs(const whim_quantize_plan *plan, const whim_ckpt *ckpt,
                                             const whim_quantize_cfg *cfg,
                                             const whim_safetensors_writer *writer,
                                             whim_diag *diag);

#endif

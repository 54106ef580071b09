/* SPDX-License-Identifier: Apache-2.0 */
/* How rows of a weight are made of the tensors of a quantised checkpoint: codes, scales, zero
 * points, and the groups that share them. The rows come in one of our own types, so kernels know
 * nothing of checkpoints:
 *   value(n, k) = (code(n, k) - zero(n, g)) * scale(n, g),   g = k / group_k, or g_idx[k] where
 *   that is there;
 * a code e4m3 stands for its value, and its zero is 0.
 * FP8, INT8, F32 and (but for scales beyond F16) Q4_0 and Q8_0 hold that exactly; in Q4_1 the
 * product zero * scale and in F16 the value are rounded to F16.
 * Threads: read-only after it was made; reading takes its own memory. */
#ifndef WHIM_WEIGHTS_QUANTISED_RECIPE_H
#define WHIM_WEIGHTS_QUANTISED_RECIPE_H

#include "weights/ckpt.h"

/* Where the code of (n, k) is. Words are 32 bits and hold 32 / bits codes, the first in the lowest
 * bits. */
typedef enum whim_recipe_layout {
    WHIM_RECIPE_BYTES, /* [n][k] one byte each */
    /* [n][k / per word] words; zeros [n / per word][groups] words, scales [rows][groups] */
    WHIM_RECIPE_PACKED,
    /* [k / per word][n] words; zeros [groups][n / per word] words, scales [groups][n] */
    WHIM_RECIPE_GPTQ,
    WHIM_RECIPE_AWQ, /* [k][n / 8] words in the order of AWQ; zeros alike, scales [groups][n] */
} whim_recipe_layout;

struct whim_recipe {
    whim_recipe_layout layout;
    bool is_float; /* codes are e4m3 */
    int32_t bits;
    int32_t zero;        /* where `zeros` is not there */
    int32_t zero_offset; /* added to what is stored in `zeros` */
    int64_t n, k;
    int64_t group_n, group_k; /* how many rows and columns share a scale */
    int64_t n_group;          /* scales along k */
    whim_ckpt_tensor codes, scales, zeros,
        g_idx; /* file -1: not there; `bytes` is what is stored */
};

/* Rows of an assembled tensor in its type. */
WHIM_MUST_CHECK whim_err whim_recipe_read(const whim_ckpt *ckpt, const whim_ckpt_tensor *tensor,
                                          int64_t row0, int64_t n_row, void *dst, whim_diag *diag);

/* Memory that reading n_row rows takes while it runs. */
int64_t whim_recipe_scratch_bytes(const whim_recipe *recipe, int64_t n_row);

/* Look at all scales, zero points and groups before anything is loaded: scales are finite (and
 * within `max`), groups within their number. Tells whether groups are in order and whether all
 * zeros are `usual`. */
typedef struct whim_recipe_facts {
    bool in_order, zeros_usual;
} whim_recipe_facts;
WHIM_MUST_CHECK whim_err whim_recipe_check(const whim_ckpt *ckpt, const whim_recipe *recipe,
                                           float max, int32_t usual, whim_recipe_facts *facts,
                                           whim_diag *diag);

#endif

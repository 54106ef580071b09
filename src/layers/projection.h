/* SPDX-License-Identifier: Apache-2.0 */
/* What all layers are made of: products with a bias or without, and the weights of norms.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_PROJECTION_H
#define WHIM_LAYERS_PROJECTION_H

#include "ops/ops.h"
#include "weights/bind.h"

#include <stdbool.h>

/* y = x w^T (+ bias) */
typedef struct whim_projection {
    whim_weight w;
    const float *bias; /* [n], or NULL */
} whim_projection;

/* What a rank has of a projection; nothing said: all. Whose products are added up over ranks leaves
 * the bias to one of them. */
typedef struct whim_projection_cut {
    const whim_part *rows; /* [1] */
    const whim_part *cols; /* [n_col_run] */
    int32_t n_col_run;
    bool no_bias;
} whim_projection_cut;

/* A projection of layer l to be declared: its weight and, where it has one, its bias. */
typedef struct whim_projection_spec {
    whim_projection *out;
    int64_t n, k;
    int64_t unpair; /* as of whim_param */
    bool bias;
    const char *name; /* "self_attn.q_proj" */
    whim_projection_cut cut;
} whim_projection_spec;

void whim_projections_bind(const whim_projection_spec *specs, size_t n_spec, int32_t l,
                           whim_binder *binder);

/* The weights of norm `name` of layer l, or outside of layers when l < 0. At zero: the file has
 * them less one. */
void whim_norm_bind(const float **out, int64_t n, bool at_zero, const char *name, int32_t l,
                    whim_binder *binder);

/* The same of those that a rank has of layer l's; NULL: all. */
void whim_norm_part_bind(const float **out, int64_t n, const whim_part *part, bool at_zero,
                         const char *name, int32_t l, whim_binder *binder);

/* y = x w^T + bias; x is dense, rows of y are y_stride apart. */
WHIM_MUST_CHECK static inline whim_err whim_project(whim_stream *s, const whim_projection *p,
                                                    const float *x, int64_t n_row, float *y,
                                                    int64_t y_stride)
{
    return whim_op_linear(s, &(whim_linear_args){
                                 .w = p->w,
                                 .x = x,
                                 .x_stride = p->w.k,
                                 .bias = p->bias,
                                 .y = y,
                                 .y_stride = y_stride,
                                 .n_row = n_row,
                             });
}

/* y = x w^T, both dense. */
WHIM_MUST_CHECK static inline whim_err whim_product(whim_stream *s, const whim_weight *w,
                                                    const float *x, int64_t n_row, float *y)
{
    return whim_project(s, &(whim_projection){.w = *w}, x, n_row, y, w->n);
}

#endif

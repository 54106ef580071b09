/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of projections and norms, by name. */
#include "layers/projection.h"

void whim_projections_bind(const whim_projection_spec *specs, size_t n_spec, int32_t l,
                           whim_binder *binder)
{
    for (size_t i = 0; i < n_spec; i++) {
        const whim_projection_spec *p = &specs[i];
        const whim_projection_cut *cut = &p->cut;
        whim_param w = {.weight = &p->out->w,
                        .n = p->n,
                        .k = p->k,
                        .unpair = p->unpair,
                        .row_runs = cut->rows,
                        .n_row_run = cut->rows != NULL,
                        .col_runs = cut->cols,
                        .n_col_run = cut->n_col_run};
        whim_bind(binder, &w, "layers.%d.%s.weight", l, p->name);
        if (p->bias) {
            static const whim_part none = {0};
            const whim_part *rows = cut->no_bias ? &none : cut->rows;
            whim_param bias = {.values = &p->out->bias,
                               .n = p->n,
                               .unpair = p->unpair,
                               .row_runs = rows,
                               .n_row_run = rows != NULL};
            whim_bind(binder, &bias, "layers.%d.%s.bias", l, p->name);
        }
    }
}

void whim_norm_bind(const float **out, int64_t n, bool at_zero, const char *name, int32_t l,
                    whim_binder *binder)
{
    whim_norm_part_bind(out, n, NULL, at_zero, name, l, binder);
}

void whim_norm_part_bind(const float **out, int64_t n, const whim_part *part, bool at_zero,
                         const char *name, int32_t l, whim_binder *binder)
{
    whim_param norm = {.values = out,
                       .n = n,
                       .form = at_zero ? WHIM_VECTOR_PLUS_ONE : WHIM_VECTOR_PLAIN,
                       .row_runs = part,
                       .n_row_run = part != NULL};
    if (l < 0) {
        whim_bind(binder, &norm, "%s.weight", name);
    } else {
        whim_bind(binder, &norm, "layers.%d.%s.weight", l, name);
    }
}

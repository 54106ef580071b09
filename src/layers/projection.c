/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of projections and norms, by name. */
#include "layers/projection.h"

void whim_projections_bind(const whim_projection_spec *specs, size_t n_spec, int32_t l,
                           whim_binder *binder)
{
    for (size_t i = 0; i < n_spec; i++) {
        const whim_projection_spec *p = &specs[i];
        whim_bind_matrix(binder,
                         &(whim_bind_matrix_spec){
                             .out = &p->out->w,
                             .n = p->n,
                             .k = p->k,
                             .unpair = p->unpair,
                         },
                         "layers.%d.%s.weight", l, p->name);
        if (p->bias) {
            whim_bind_vector(binder, &p->out->bias, p->n, p->unpair, "layers.%d.%s.bias", l,
                             p->name);
        }
    }
}

void whim_norm_bind(const float **out, int64_t n, bool at_zero, const char *name, int32_t l,
                    whim_binder *binder)
{
    whim_bind_vector_spec spec = {
        .out = out, .n = n, .form = at_zero ? WHIM_VECTOR_PLUS_ONE : WHIM_VECTOR_PLAIN};
    if (l < 0) {
        whim_bind_values(binder, &spec, "%s.weight", name);
    } else {
        whim_bind_values(binder, &spec, "layers.%d.%s.weight", l, name);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The law of the rotary-position ops. */
#include "base/fmath.h"
#include "ops/ref/ref.h"

whim_err whim_ref_rope_table(whim_stream *s, const whim_rope_table_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        float *row = a->cos_sin + r * 2 * a->n_freq;
        for (int64_t i = 0; i < a->n_freq; i++) {
            double sine, cosine;
            whim_sincos((double)a->positions[r] * a->freqs[i], &sine, &cosine);
            row[i] = (float)(cosine * a->scale);
            row[a->n_freq + i] = (float)(sine * a->scale);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_rope(whim_stream *s, const whim_rope_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *cosine = a->cos_sin + r * 2 * a->n_freq;
        const float *sine = cosine + a->n_freq;
        for (int64_t h = 0; h < a->n_head; h++) {
            float *x = a->x + r * a->x_stride + h * a->d_head;
            for (int64_t i = 0; i < a->n_freq; i++) {
                float lo = x[i];
                float hi = x[i + a->n_freq];
                x[i] = whim_fmaf(lo, cosine[i], -(hi * sine[i]));
                x[i + a->n_freq] = whim_fmaf(hi, cosine[i], lo * sine[i]);
            }
        }
    }
    return WHIM_ERR_OK;
}

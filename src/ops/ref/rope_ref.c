/* SPDX-License-Identifier: Apache-2.0 */
/* The law of the rotary-position ops and of the norm of q and k over all ranks. */
#include "base/math/fmath.h"
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

static float heads_sumsq(const float *x, int64_t n_head, int64_t d_head)
{
    float sum = 0.0f;
    for (int64_t h = 0; h < n_head; h++) {
        sum += whim_sumsq16(x + h * d_head, d_head);
    }
    return sum;
}

whim_err whim_ref_qk_sumsq(whim_stream *s, const whim_qk_sumsq_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        const float *q = a->qkv + r * a->qkv_stride;
        a->sums[2 * r] = heads_sumsq(q, a->n_head, a->d_head);
        a->sums[2 * r + 1] = heads_sumsq(q + a->n_head * a->d_head, a->n_kv, a->d_head);
    }
    return WHIM_ERR_OK;
}

whim_err whim_ref_rmsnorm_sumsq(whim_stream *s, const whim_rmsnorm_sumsq_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        float mean = a->sums[r * a->sum_stride] / (float)a->width;
        float scale = 1.0f / sqrtf(mean + a->eps);
        for (int64_t i = 0; i < a->n_col; i++) {
            a->y[r * a->y_stride + i] = a->x[r * a->x_stride + i] * scale * a->w[i];
        }
    }
    return WHIM_ERR_OK;
}

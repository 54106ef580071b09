/* SPDX-License-Identifier: Apache-2.0 */
/* The law of what only drafts do. */
#include "base/math/fmath.h"
#include "ops/ref/ref.h"
#include "tensor/rank_key.h"

#include <string.h>

/* --- pick_chain ------------------------------------------------------------------------------- */

/* Which candidate of row i follows one whose vector is p; -1: there is none. */
static int64_t choose(const whim_pick_chain_args *a, int64_t i, const float *p, float *score)
{
    const float *gate = a->gate != NULL ? a->gate + i * a->rank : NULL;
    uint64_t best = 0;
    for (int64_t c = 0; c < a->k_top; c++) {
        int64_t at = i * a->k_top + c;
        float u = whim_softcap(a->values[at] * a->scale, a->cap);
        float s = u + whim_dot16(p, gate, a->after + at * a->rank, a->rank);
        uint64_t key = whim_rank_key(s, c);
        if (a->ids[at] >= 0 && key > best) {
            best = key;
            *score = s;
        }
    }
    return best > 0 ? whim_rank_id(best) : -1;
}

/* How sure the draft is of row i after p. */
static float sureness(const whim_pick_chain_args *a, int64_t i, const float *p)
{
    float sum = whim_dot16(a->z + i * a->n_hidden, NULL, a->sure_w, a->n_hidden);
    if (a->sure_of_pairs) {
        sum += whim_dot16(p, NULL, a->sure_w + a->n_hidden, a->rank);
    }
    return *a->sure_bias + sum;
}

whim_err whim_ref_pick_chain(whim_stream *s, const whim_pick_chain_args *a)
{
    (void)s;
    for (int64_t i = 0; i < a->n_row; i++) {
        a->tokens[i * a->out_stride] = -1;
        a->told[i * a->out_stride] = 0.0f;
    }
    for (int64_t q = 0; q < a->n_seq; q++) {
        const float *p = a->before + a->q_start[q] * a->rank;
        for (int64_t i = 0; i < a->n_row; i++) {
            if (a->rows[i] < a->q_start[q] || a->rows[i] >= a->q_start[q + 1]) {
                continue;
            }
            float told = 0.0f;
            int64_t c = choose(a, i, p, &told);
            a->told[i * a->out_stride] = a->sure_w != NULL ? sureness(a, i, p) : told;
            if (c >= 0) {
                a->tokens[i * a->out_stride] = a->ids[i * a->k_top + c];
                p = a->before + (a->n_src + i * a->k_top + c) * a->rank;
            }
        }
    }
    return WHIM_ERR_OK;
}

/* --- block_conv ------------------------------------------------------------------------------- */

static float conv_at(const whim_block_conv_args *a, int64_t first, int64_t r, int64_t c)
{
    int64_t n_group = a->n_col / a->group;
    float sum = 0.0f;
    for (int64_t tap = 0; tap < a->n_tap && r - tap >= first; tap++) {
        float w = a->base[tap * a->n_col + c];
        if (a->delta != NULL) {
            w += a->delta[r * a->delta_stride + tap * n_group + c / a->group];
        }
        sum = whim_fmaf(w, a->x[(r - tap) * a->x_stride + c], sum);
    }
    return sum;
}

whim_err whim_ref_block_conv(whim_stream *s, const whim_block_conv_args *a)
{
    (void)s;
    for (int64_t r = 0; r < a->n_row; r++) {
        memset(a->y + r * a->y_stride, 0, (size_t)a->n_col * sizeof *a->y);
    }
    for (int64_t q = 0; q < a->n_seq; q++) {
        for (int64_t r = a->q_start[q]; r < a->q_start[q + 1]; r++) {
            for (int64_t c = 0; c < a->n_col; c++) {
                a->y[r * a->y_stride + c] = conv_at(a, a->q_start[q], r, c);
            }
        }
    }
    return WHIM_ERR_OK;
}

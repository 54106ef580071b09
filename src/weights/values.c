/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are no numbers, found before anything is loaded. */
#include "base/alloc.h"
#include "base/thread.h"
#include "tensor/quant.h"
#include "tensor/quant_encode.h"
#include "weights/bind.h"

#include <float.h>
#include <pthread.h>

enum { PIECE = 1 << 16 }; /* values; a multiple of every type's block */

typedef struct piece {
    const whim_param *param;
    const whim_ckpt_tensor *tensor;
    int64_t at, n;
} piece;

typedef struct search {
    const whim_ckpt *ckpt;
    piece *pieces;
    int64_t n_piece, cap;
    float *values; /* [n_thread][PIECE], and their bytes in the file */
    char *bytes;
    pthread_mutex_t lock;
    int64_t first; /* item that `diag` is about: the first in the file's order */
    whim_diag *diag;
} search;

static int64_t n_values(const whim_ckpt_tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->n_dim; i++) {
        n *= t->shape[i];
    }
    return n;
}

static bool pieces_add(search *s, const whim_param *param, const whim_ckpt_tensor *t)
{
    int64_t n = n_values(t);
    /* Scales of recipes were looked at when they were made. */
    bool is_read = t->file >= 0 && t->recipe == NULL;
    for (int64_t at = 0; is_read && at < n; at += PIECE) {
        if (!whim_grow(&s->pieces, s->n_piece + 1, &s->cap, sizeof *s->pieces)) {
            return false;
        }
        int64_t left = n - at;
        s->pieces[s->n_piece++] = (piece){param, t, at, left < PIECE ? left : PIECE};
    }
    return true;
}

/* The largest magnitude that may become a value of the parameter. */
static float limit_of(const whim_param *param, const whim_ckpt_tensor *t)
{
    bool narrows = param->weight != NULL && param->dtype != t->dtype;
    return narrows && param->dtype == WHIM_DTYPE_Q8_0   ? whim_encode_int_limit(8)
           : narrows && param->dtype == WHIM_DTYPE_Q4_0 ? whim_encode_int_limit(4)
                                                        : FLT_MAX;
}

static whim_err piece_search(search *s, const piece *p, float *x, char *bytes, whim_diag *diag)
{
    const whim_ckpt_tensor *t = p->tensor;
    int64_t offset = whim_dtype_row_bytes(t->dtype, p->at), i = 0;
    WHIM_TRY(whim_ckpt_read(s->ckpt, t, offset, whim_dtype_row_bytes(t->dtype, p->n), bytes, diag));
    whim_dequant_row(t->dtype, bytes, x, p->n);
    float limit = limit_of(p->param, t);
    if (whim_absmax(x, p->n) <= limit) {
        return WHIM_ERR_OK;
    }
    while (whim_absmax(&x[i], 1) <= limit) {
        i++;
    }
    return whim_fail(diag, WHIM_ERR_CORRUPT, "value %lld of tensor %s is %g, which is %s",
                     (long long)(p->at + i), t->file_name, (double)x[i],
                     whim_absmax(&x[i], 1) <= FLT_MAX
                         ? "too large for the type that it is loaded as"
                         : "no number");
}

static whim_err search_item(void *ctx, int64_t item, int32_t worker)
{
    search *s = ctx;
    whim_diag diag = {""};
    int64_t offset = (int64_t)worker * PIECE;
    whim_err err = piece_search(s, &s->pieces[item], s->values + offset,
                                s->bytes + offset * (int64_t)sizeof(float), &diag);
    pthread_mutex_lock(&s->lock);
    if (err != WHIM_ERR_OK && item < s->first) {
        s->first = item;
        whim_fail(s->diag, err, "%s", diag.text);
    }
    pthread_mutex_unlock(&s->lock);
    return err;
}

whim_err whim_bind_check_values(const whim_binder *binder, const whim_ckpt *ckpt, int32_t n_thread,
                                whim_diag *diag)
{
    search s = {.ckpt = ckpt, .first = INT64_MAX, .diag = diag};
    s.values = whim_alloc_array((int64_t)n_thread * PIECE, sizeof *s.values);
    s.bytes = whim_alloc_array((int64_t)n_thread * PIECE, sizeof(float));
    bool ok = s.values != NULL && s.bytes != NULL;
    for (int64_t i = 0; i < binder->n_param; i++) {
        const whim_param *param = &binder->params[i];
        for (int64_t k = 0; k < param->n_part && param->constant == NULL; k++) {
            ok = ok && pieces_add(&s, param, param->parts[k].tensor);
        }
    }
    pthread_mutex_init(&s.lock, NULL);
    whim_err err = whim_got(ok, diag, "no memory to look at the values of tensors");
    if (err == WHIM_ERR_OK) {
        err = whim_parallel_for(n_thread, s.n_piece, search_item, &s);
    }
    pthread_mutex_destroy(&s.lock);
    whim_free(s.pieces);
    whim_free(s.values);
    whim_free(s.bytes);
    return err;
}

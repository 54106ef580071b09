/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and packing: step 3 of bind.h. Matrices are cut into slabs of whole rows, a few MB each;
 * any loader thread takes the next slab, reads it into its staging buffer and packs it to its
 * place. */
#include "base/alloc.h"
#include "base/math/fmath.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "weights/bind.h"
#include "weights/quantised/recipe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { SLAB_BYTES = 4 * 1024 * 1024 };

typedef struct slab {
    const whim_param *param;
    int64_t part, row0, n_row;
} slab;

typedef struct loader {
    const whim_binder *binder;
    const whim_ckpt *ckpt;
    whim_device *device;
    slab *slabs;
    char *staging; /* [n_thread][staging_bytes] */
    int64_t staging_bytes;
    whim_load_progress *on_progress;
    void *ctx;
    atomic_llong done;
    int64_t total;
    pthread_mutex_t diag_lock;
    whim_diag *diag;
} loader;

/* Bytes of a row as the device takes it. */
static int64_t row_bytes_of(const whim_param *param)
{
    return whim_dtype_row_bytes(param->dtype, param->k_here);
}

/* The smallest multiple of `granule` that holds whole heads. */
static int64_t head_granule(int64_t granule, int64_t d_head)
{
    int64_t rows = granule;
    while (rows % d_head != 0) {
        rows += granule;
    }
    return rows;
}

/* Rows in one slab: a multiple of the device's granule (and of a head, where heads are un-paired),
 * at least one such unit. */
static int64_t slab_rows(const whim_param *param, const whim_device *device)
{
    int64_t granule = device->caps.pack_row_granule;
    if (param->unpair > 0) {
        granule = head_granule(granule, param->unpair);
    }
    /* Where columns are left out, rows are read whole. */
    int64_t row_bytes = param->col_runs != NULL ? whim_rows_file_bytes(param) : row_bytes_of(param);
    int64_t rows = row_bytes > 0 ? SLAB_BYTES / row_bytes / granule * granule : param->n_here;
    rows = rows < granule ? granule : rows;
    return rows < param->n_here ? rows : param->n_here;
}

/* Bytes of rows as the device takes them, after which other memory may begin. */
static int64_t staged_bytes(const whim_param *param, int64_t rows)
{
    return whim_aligned(rows * row_bytes_of(param));
}

static int64_t staging_bytes_each(const whim_binder *binder, const whim_device *device)
{
    int64_t bytes = 64;
    for (int64_t i = 0; i < binder->n_param; i++) {
        const whim_param *param = &binder->params[i];
        if (param->weight != NULL) {
            int64_t rows = slab_rows(param, device);
            int64_t need = staged_bytes(param, rows) + whim_rows_scratch_bytes(param, rows);
            bytes = need > bytes ? need : bytes;
        }
    }
    return whim_aligned(bytes);
}

/* The most that one thread takes besides to make rows of quantised parts. */
static int64_t recipe_bytes_each(const whim_binder *binder, const whim_device *device)
{
    int64_t most = 0;
    for (int64_t i = 0; i < binder->n_param; i++) {
        const whim_param *param = &binder->params[i];
        for (int64_t k = 0; k < param->n_part && param->weight != NULL; k++) {
            const whim_recipe *recipe = param->parts[k].tensor->recipe;
            int64_t rows = slab_rows(param, device);
            int64_t bytes = recipe != NULL ? whim_recipe_scratch_bytes(recipe, rows) : 0;
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

whim_bind_widened whim_bind_widened_of(const whim_binder *binder)
{
    whim_bind_widened w = {0};
    for (int64_t i = 0; i < binder->n_param; i++) {
        const whim_param *param = &binder->params[i];
        for (int64_t k = 0; k < param->n_part && param->weight != NULL; k++) {
            const whim_ckpt_tensor *t = param->parts[k].tensor;
            if (t->recipe != NULL && whim_dtype_get(t->dtype)->kind == WHIM_DTYPE_KIND_FLOAT) {
                w.n++;
                w.bytes += param->n_here * whim_dtype_row_bytes(t->dtype, param->k_here);
                w.stored += param->n_here * param->k_here * t->recipe->bits / 8;
            }
        }
    }
    return w;
}

int64_t whim_bind_staging_bytes(const whim_binder *binder, const whim_device *device,
                                int32_t n_thread)
{
    return n_thread * (staging_bytes_each(binder, device) + recipe_bytes_each(binder, device));
}

static whim_err slab_load(void *ctx, int64_t item, int32_t worker)
{
    loader *ld = ctx;
    const slab *sl = &ld->slabs[item];
    char *staging = ld->staging + worker * ld->staging_bytes;
    whim_diag diag = {""}; /* not all that can fail here says why */
    const whim_comm *comm = ld->binder->comm;
    whim_err err = comm != NULL ? whim_comm_check(comm, &diag) : WHIM_ERR_OK;
    if (err == WHIM_ERR_OK) {
        err = whim_rows_read(ld->ckpt, sl->param, sl->part, sl->row0, sl->n_row, staging,
                             staging + staged_bytes(sl->param, sl->n_row), &diag);
    }
    if (err == WHIM_ERR_OK) {
        err = whim_device_pack(ld->device,
                               &(whim_pack){
                                   .dtype = sl->param->dtype,
                                   .n = whim_param_rows(sl->param),
                                   .k = sl->param->k_here,
                                   .row0 = sl->part * whim_param_pitch(sl->param) + sl->row0,
                                   .n_row = sl->n_row,
                                   .src = staging,
                                   .dst = (char *)ld->binder->buffer + sl->param->offset,
                               });
        if (err != WHIM_ERR_OK) {
            whim_fail(&diag, err, "the device could not take tensor %s", sl->param->name);
        }
    }
    if (err != WHIM_ERR_OK) {
        pthread_mutex_lock(&ld->diag_lock);
        whim_fail(ld->diag, err, "%s", diag.text);
        pthread_mutex_unlock(&ld->diag_lock);
        return err;
    }
    int64_t bytes = sl->n_row * whim_rows_file_bytes(sl->param);
    int64_t done = atomic_fetch_add(&ld->done, bytes) + bytes;
    if (ld->on_progress != NULL) {
        ld->on_progress(ld->ctx, done, ld->total);
    }
    return WHIM_ERR_OK;
}

static whim_err matrices_load(loader *ld, int32_t n_thread)
{
    int64_t n_slab = 0, cap = 0;
    for (int64_t i = 0; i < ld->binder->n_param; i++) {
        const whim_param *param = &ld->binder->params[i];
        if (param->weight == NULL || param->k_here == 0) {
            continue;
        }
        int64_t rows = slab_rows(param, ld->device), n_here = param->n_here;
        int64_t each = rows > 0 ? (n_here + rows - 1) / rows : 0, n = param->n_part * each;
        WHIM_TRY(whim_got(whim_grow(&ld->slabs, n_slab + n, &cap, sizeof *ld->slabs), ld->diag,
                          "no memory for the load list"));
        for (int64_t j = 0; j < n; j++) {
            int64_t row = j % each * rows, left = n_here - row;
            ld->slabs[n_slab++] = (slab){param, j / each, row, left < rows ? left : rows};
        }
        ld->total += param->n_part * n_here * whim_rows_file_bytes(param);
    }
    return whim_parallel_for(n_thread, n_slab, slab_load, ld);
}

/* Vectors and constants are small: one thread, one copy each. */
static whim_err small_load(loader *ld, whim_stream *stream)
{
    for (int64_t i = 0; i < ld->binder->n_param; i++) {
        const whim_param *param = &ld->binder->params[i];
        void *dst = (char *)ld->binder->buffer + param->offset;
        if (param->constant != NULL) {
            WHIM_TRY(whim_stream_copy_in(stream, dst, param->constant, param->bytes));
        } else if (param->vector && param->bytes > 0) {
            float *values = whim_alloc(param->bytes);
            WHIM_TRY(whim_got(values != NULL, ld->diag, "no memory for %s", param->name));
            whim_err err = whim_vector_read(ld->ckpt, param, values, ld->diag);
            if (err == WHIM_ERR_OK) {
                err = whim_stream_copy_in(stream, dst, values, param->bytes);
            }
            if (err == WHIM_ERR_OK) {
                err = whim_stream_sync(stream);
            }
            whim_free(values);
            WHIM_TRY(err);
        }
    }
    return whim_stream_sync(stream);
}

whim_err whim_bind_load(whim_binder *binder, const whim_ckpt *ckpt, whim_device *device,
                        int32_t n_thread, whim_load_progress *on_progress, void *ctx,
                        whim_diag *diag)
{
    loader ld = {
        .binder = binder,
        .ckpt = ckpt,
        .device = device,
        .staging_bytes = staging_bytes_each(binder, device),
        .on_progress = on_progress,
        .ctx = ctx,
        .diag = diag,
    };
    pthread_mutex_init(&ld.diag_lock, NULL);
    whim_stream *stream = NULL;
    whim_err err = whim_device_alloc(device, binder->bytes, &binder->buffer, diag);
    if (err != WHIM_ERR_OK) {
        goto out;
    }
    binder->device = device;
    ld.staging = whim_alloc_array(n_thread, ld.staging_bytes);
    if (ld.staging == NULL) {
        err = whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for %d staging buffers", n_thread);
        goto out;
    }
    WHIM_TRY_OUT(whim_stream_open(device, &stream, diag));
    WHIM_TRY_OUT(small_load(&ld, stream));
    WHIM_TRY_OUT(matrices_load(&ld, n_thread));
    whim_bind_point(binder, binder->buffer);
out:
    whim_stream_close(stream);
    whim_free(ld.slabs);
    whim_free(ld.staging);
    pthread_mutex_destroy(&ld.diag_lock);
    return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The work: slabs of rows are read, widened, encoded and written, by several threads. */
#include "weights/quantised/quantize_impl.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/thread.h"
#include "tensor/half.h"
#include "tensor/quant.h"
#include "tensor/quant_encode.h"

#include <float.h>
#include <stdatomic.h>
#include <string.h>

/* What a worker owns for each weight of a slab: as a float, as read, its code, and more than its
 * share of a scale. */
enum { FLOAT_BYTES = 4, STAGE_BYTES = 4, CODE_BYTES = 1, SCALE_BYTES = 1 };

typedef struct job {
    const whim_quantize_plan *plan;
    const whim_ckpt *ckpt;
    const whim_quantize_cfg *cfg;
    const whim_safetensors_writer *writer;
    char *memory;
    int64_t memory_each;
    atomic_llong done;
    pthread_mutex_t lock; /* for diag */
    whim_diag *diag;
} job;

/* A slab on its way. */
typedef struct slab {
    const job *j;
    const whim_quantize_unit *u;
    int64_t row, n_row;
    char *staging;
    float *values;  /* [n_row][k] */
    uint8_t *codes; /* packed as the file has them */
    char *scales;
    whim_diag *diag;
} slab;

static whim_err read_values(const slab *s)
{
    const whim_quantize_unit *u = s->u;
    int64_t row_bytes = whim_dtype_row_bytes(u->tensor->dtype, u->k);
    WHIM_TRY(whim_ckpt_read(s->j->ckpt, u->tensor, (u->row0 + s->row) * row_bytes,
                            s->n_row * row_bytes, s->staging, s->diag));
    whim_dequant_row(u->tensor->dtype, s->staging, s->values, s->n_row * u->k);
    return WHIM_ERR_OK;
}

static whim_err refuse(const slab *s, int64_t row, float absmax, float limit)
{
    const whim_quantize_unit *u = s->u;
    const char *what = absmax <= FLT_MAX ? "a weight too large for these codes"
                                         : "a weight that is infinite or no number";
    return whim_fail(
        s->diag, WHIM_ERR_CORRUPT, "%s: tensor \"%.200s\", row %lld: %s (%g, at most %g); %s",
        s->j->ckpt->files[u->tensor->file].path, u->tensor->file_name,
        (long long)(u->row0 + s->row + row), what, (double)absmax, (double)limit,
        absmax <= FLT_MAX ? "--to fp8 has room for it" : "the model is damaged, fetch it again");
}

/* --- integers --------------------------------------------------------------------------------- */

/* Codes to words, the first in the lowest bits, with their zero in the middle of the range. */
static void pack(const int8_t *codes, int64_t n, int32_t bits, uint8_t *dst)
{
    if (bits == 8) {
        for (int64_t i = 0; i < n; i++) {
            dst[i] = (uint8_t)(codes[i] + 128);
        }
    } else {
        for (int64_t i = 0; i < n / 2; i++) {
            dst[i] = (uint8_t)((codes[2 * i] + 8) | (codes[2 * i + 1] + 8) << 4);
        }
    }
}

static void put_scale(char *dst, whim_dtype type, float scale)
{
    uint16_t half = type == WHIM_DTYPE_BF16 ? whim_f32_to_bf16(scale) : whim_f32_to_f16(scale);
    if (type == WHIM_DTYPE_F32) {
        memcpy(dst, &scale, sizeof scale);
    } else {
        memcpy(dst, &half, sizeof half);
    }
}

static whim_err encode_ints(const slab *s)
{
    const whim_quantize_unit *u = s->u;
    int32_t bits = s->j->plan->format->bits;
    whim_dtype type = u->tensor->dtype;
    int64_t group = s->j->plan->format->group, size = whim_dtype_row_bytes(type, 1);
    float limit = whim_encode_int_limit(bits);
    for (int64_t r = 0; r < s->n_row; r++) {
        const float *row = s->values + r * u->k;
        float absmax = whim_absmax(row, u->k);
        if (!(absmax <= limit)) {
            return refuse(s, r, absmax, limit);
        }
        for (int64_t k = 0; k < u->k; k += group) {
            int8_t codes[WHIM_GROUP];
            int64_t at = r * u->k + k;
            float scale = whim_encode_int(row + k, bits, type, codes);
            pack(codes, group, bits, s->codes + at * bits / 8);
            put_scale(s->scales + at / group * size, type, scale);
        }
    }
    return WHIM_ERR_OK;
}

/* --- e4m3 ------------------------------------------------------------------------------------- */

static void encode_tile(const slab *s, int64_t row, int64_t k)
{
    int64_t width = s->u->k, group = s->j->plan->format->group, tile = s->j->plan->format->tile;
    float absmax = 0.0f;
    for (int64_t r = row; r < row + tile; r++) {
        float most = whim_absmax(s->values + r * width + k, group);
        absmax = most > absmax ? most : absmax;
    }
    float scale = whim_fp8_scale_for(absmax);
    for (int64_t r = row; r < row + tile; r++) {
        whim_encode_fp8(s->values + r * width + k, group, scale, s->codes + r * width + k);
    }
    put_scale(s->scales + 4 * (row / tile * (width / group) + k / group), WHIM_DTYPE_F32, scale);
}

static whim_err encode_floats(const slab *s)
{
    const whim_quantize_format *f = s->j->plan->format;
    for (int64_t r = 0; r < s->n_row; r++) {
        float absmax = whim_absmax(s->values + r * s->u->k, s->u->k);
        if (!(absmax <= FLT_MAX)) {
            return refuse(s, r, absmax, FLT_MAX);
        }
    }
    for (int64_t r = 0; r < s->n_row; r += f->tile) {
        for (int64_t k = 0; k < s->u->k; k += f->group) {
            encode_tile(s, r, k);
        }
    }
    return WHIM_ERR_OK;
}

/* --- slabs ------------------------------------------------------------------------------------ */

static whim_err quantize_slab(const slab *s)
{
    const job *j = s->j;
    const whim_quantize_unit *u = s->u;
    const whim_quantize_format *f = j->plan->format;
    const whim_safetensors_entry *scales = &j->plan->entries[u->entry + 1];
    int64_t code_bytes = u->k * (f->bits == 0 ? 8 : f->bits) / 8;
    int64_t line_bytes = scales->as.bytes / scales->as.shape[0];
    int64_t line = s->row / f->tile, n_line = s->n_row / f->tile;
    WHIM_TRY(read_values(s));
    WHIM_TRY(f->bits == 0 ? encode_floats(s) : encode_ints(s));
    WHIM_TRY(whim_safetensors_put(j->writer, u->entry, s->row * code_bytes, s->codes,
                                  s->n_row * code_bytes, s->diag));
    WHIM_TRY(whim_safetensors_put(j->writer, u->entry + 1, line * line_bytes, s->scales,
                                  n_line * line_bytes, s->diag));
    const int64_t shape[2] = {u->n, u->k};
    return f->bits == 0 || s->row > 0
               ? WHIM_ERR_OK
               : whim_safetensors_put(j->writer, u->entry + 2, 0, shape, sizeof shape, s->diag);
}

static whim_err copy_slab(const slab *s)
{
    const whim_ckpt_tensor *t = s->u->tensor;
    const whim_ckpt_file *file = &s->j->ckpt->files[t->file];
    WHIM_TRY(
        whim_file_read_at(file->fd, t->offset + s->row, s->n_row, s->staging, file->path, s->diag));
    return whim_safetensors_put(s->j->writer, s->u->entry, s->row, s->staging, s->n_row, s->diag);
}

static const whim_quantize_unit *unit_of(const whim_quantize_plan *plan, int64_t item)
{
    int64_t low = 0, high = plan->n_unit;
    while (high - low > 1) {
        int64_t mid = (low + high) / 2;
        if (plan->units[mid].first <= item) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return &plan->units[low];
}

static whim_err run_slab(void *ctx, int64_t item, int32_t worker)
{
    job *j = ctx;
    whim_diag diag = {""};
    const whim_quantize_unit *u = unit_of(j->plan, item);
    bool is_copy = u->n == 0;
    int64_t elems = j->plan->slab_elems, size = is_copy ? u->tensor->raw.bytes : u->n;
    char *memory = j->memory + worker * j->memory_each;
    slab s = {.j = j,
              .u = u,
              .row = (item - u->first) * u->step,
              .values = (float *)(void *)memory,
              .staging = memory + FLOAT_BYTES * elems,
              .codes = (uint8_t *)memory + (FLOAT_BYTES + STAGE_BYTES) * elems,
              .scales = memory + (FLOAT_BYTES + STAGE_BYTES + CODE_BYTES) * elems,
              .diag = &diag};
    s.n_row = size - s.row < u->step ? size - s.row : u->step;
    whim_err err = j->cfg->stop != NULL && *j->cfg->stop != 0
                       ? whim_fail(&diag, WHIM_ERR_BUSY, "stopped")
                   : is_copy ? copy_slab(&s)
                             : quantize_slab(&s);
    if (err != WHIM_ERR_OK) {
        pthread_mutex_lock(&j->lock);
        whim_fail(j->diag, err, "%s", diag.text);
        pthread_mutex_unlock(&j->lock);
        return err;
    }
    int64_t bytes = is_copy ? s.n_row : s.n_row * whim_dtype_row_bytes(u->tensor->dtype, u->k);
    int64_t done = atomic_fetch_add(&j->done, bytes) + bytes;
    if (j->cfg->on_progress != NULL) {
        j->cfg->on_progress(j->cfg->ctx, done, j->plan->result.bytes_in);
    }
    return WHIM_ERR_OK;
}

whim_err whim_quantize_slabs(const whim_quantize_plan *plan, const whim_ckpt *ckpt,
                             const whim_quantize_cfg *cfg, const whim_safetensors_writer *writer,
                             whim_diag *diag)
{
    job j = {.plan = plan, .ckpt = ckpt, .cfg = cfg, .writer = writer, .diag = diag};
    j.memory_each =
        whim_aligned(plan->slab_elems * (FLOAT_BYTES + STAGE_BYTES + CODE_BYTES + SCALE_BYTES));
    j.memory = whim_alloc_array(cfg->n_thread, j.memory_each);
    WHIM_TRY(whim_got(j.memory != NULL, diag, "no memory for %d buffers of %lld bytes",
                      cfg->n_thread, (long long)j.memory_each));
    pthread_mutex_init(&j.lock, NULL);
    whim_err err = whim_parallel_for(cfg->n_thread, plan->n_slab, run_slab, &j);
    pthread_mutex_destroy(&j.lock);
    whim_free(j.memory);
    return err;
}

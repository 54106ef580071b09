/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of a file: a quick one of each piece, which all threads make, and SHA-256 over those. */
#include "weights/identity/identity.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/math/lane_sum.h"
#include "base/math/rng.h"
#include "base/thread.h"
#include "weights/identity/fingerprint.h"
#include "weights/identity/sum_memory.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PIECE = 4 << 20, BUFFER = 256 << 10 };

/* Clocks of file systems step by some milliseconds, those of other machines may be off. */
#define SETTLED_NS (2 * WHIM_NS_PER_S)

typedef struct reading {
    const whim_identity_cfg *cfg;
    const whim_ckpt_file *file;
    whim_lane_sum *sums; /* of its pieces */
    char *buffers;       /* [n_thread][BUFFER] */
} reading;

static whim_err piece_sum(void *ctx, int64_t item, int32_t worker)
{
    reading *r = ctx;
    const whim_ckpt_file *f = r->file;
    char *buffer = r->buffers + (int64_t)worker * BUFFER;
    int64_t at = item * PIECE, end = at + PIECE < f->bytes ? at + PIECE : f->bytes;
    r->sums[item] = whim_lane_sum_begin((uint64_t)item);
    for (int64_t n; at < end; at += n) {
        n = end - at < BUFFER ? end - at : BUFFER;
        if (r->cfg->stop != NULL && atomic_load(r->cfg->stop)) {
            return WHIM_ERR_BUSY;
        }
        WHIM_TRY(whim_file_read_at(f->fd, at, n, buffer, f->path, NULL));
        whim_lane_sum_add(&r->sums[item], buffer, n);
    }
    return WHIM_ERR_OK;
}

static whim_err file_read(const whim_ckpt_file *file, const whim_identity_cfg *cfg,
                          uint8_t out[WHIM_SHA256_BYTES], whim_diag *diag)
{
    whim_sha256 all;
    int64_t n_piece = (file->bytes + PIECE - 1) / PIECE;
    int32_t n_thread = cfg->n_thread > 1 ? cfg->n_thread : 1;
    reading r = {.cfg = cfg, .file = file};
    r.sums = whim_alloc_array(n_piece + 1, (int64_t)sizeof *r.sums);
    r.buffers = whim_alloc_array(n_thread, BUFFER);
    whim_err err = whim_got(r.sums != NULL && r.buffers != NULL, diag, "no memory for a sum");
    if (err == WHIM_ERR_OK) {
        err = whim_parallel_for(n_thread, n_piece, piece_sum, &r);
        if (err != WHIM_ERR_OK) {
            whim_fail(diag, err, "%s: %s while its sum was made", file->path, whim_err_text(err));
        }
    }
    if (err == WHIM_ERR_OK) {
        whim_sha256_init(&all);
        whim_sha256_add(&all, &file->bytes, (int64_t)sizeof file->bytes);
        whim_sha256_add(&all, r.sums, n_piece * (int64_t)sizeof *r.sums);
        whim_sha256_end(&all, out);
    }
    whim_free(r.sums);
    whim_free(r.buffers);
    return err;
}

/* Whether another change would show. */
static bool is_settled(const whim_sum_of_file *file)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t now = t.tv_sec * WHIM_NS_PER_S + t.tv_nsec;
    return file->changed_ns < now - SETTLED_NS && file->written_ns < now - SETTLED_NS;
}

static whim_err file_sum(whim_sum_memory *memory, const whim_ckpt_file *file,
                         const whim_identity_cfg *cfg, uint8_t out[WHIM_SHA256_BYTES],
                         whim_diag *diag)
{
    whim_sum_of_file before, after;
    bool seen = whim_sum_of_file_look(file->fd, &before) && is_settled(&before);
    if (seen && whim_sum_memory_find(memory, &before)) {
        memcpy(out, before.sum, sizeof before.sum);
        return WHIM_ERR_OK;
    }
    WHIM_TRY(file_read(file, cfg, out, diag));
    if (seen && whim_sum_of_file_look(file->fd, &after) &&
        whim_sum_of_file_is_same(&before, &after)) {
        memcpy(after.sum, out, sizeof after.sum);
        whim_sum_memory_add(memory, &after);
    }
    return WHIM_ERR_OK;
}

uint64_t whim_ckpt_written(const whim_ckpt *ckpt)
{
    uint64_t all = 0;
    for (int32_t i = 0; i < ckpt->n_file; i++) {
        whim_sum_of_file file = {0};
        (void)whim_sum_of_file_look(ckpt->files[i].fd, &file);
        all = whim_rng_mix(whim_rng_mix(all ^ (uint64_t)file.bytes) ^ (uint64_t)file.written_ns);
    }
    return all;
}

whim_err whim_ckpt_identity(const whim_ckpt *ckpt, const whim_identity_cfg *cfg,
                            char out[WHIM_IDENTITY_TEXT], whim_diag *diag)
{
    uint64_t print;
    whim_sha256 all;
    whim_sum_memory memory = {0};
    uint8_t sum[WHIM_SHA256_BYTES];
    WHIM_TRY(whim_ckpt_fingerprint(ckpt, &print, diag));
    whim_sha256_init(&all);
    whim_sha256_add(&all, &print, (int64_t)sizeof print);
    whim_sha256_add(&all, ckpt->config_sum, (int64_t)sizeof ckpt->config_sum);
    whim_sum_memory_read(&memory, cfg->memory);
    whim_err err = WHIM_ERR_OK;
    for (int32_t i = 0; i < ckpt->n_file && err == WHIM_ERR_OK; i++) {
        err = file_sum(&memory, &ckpt->files[i], cfg, sum, diag);
        whim_sha256_add(&all, sum, (int64_t)sizeof sum);
    }
    whim_sum_memory_write(&memory, cfg->memory);
    whim_sum_memory_deinit(&memory);
    whim_sha256_end(&all, sum);
    for (int i = 0; i < (WHIM_IDENTITY_TEXT - 1) / 2; i++) {
        snprintf(out + (ptrdiff_t)2 * i, 3, "%02x", sum[i]);
    }
    return err;
}

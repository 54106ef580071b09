/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a case on the law and on the devices under test: images in, calls, images out, and the
 * judgements of compare.c in between. */
#include "checkop/compare.h"

#include "support/drive.h"

#include "base/check.h"
#include "ops/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool run_failed(const checkop_case *c, const checkop_run *run, const char *what,
                       whim_err err)
{
    checkop_fail_head(c, run);
    printf("  %s: %s\n", what, whim_err_name(err));
    return false;
}

/* --- opening ---------------------------------------------------------------------------------- */

static whim_err side_open(checkop_side *side, const whim_backend *backend, const char *isa,
                          int32_t n_thread, whim_diag *diag)
{
    whim_device_cfg cfg = {.n_thread = n_thread, .isa = isa};
    WHIM_TRY(backend->device_open(0, &cfg, &side->dev, diag));
    return whim_stream_open(side->dev, &side->stream, diag);
}

whim_err checkop_run_open(checkop_run *run, const whim_backend *backend, const char *isa,
                          whim_diag *diag)
{
    whim_law_stream_init(&run->law);
    run->backend = backend;
    run->isa = isa;
    run->rounds_bf16 = drive_rounds(backend->name, isa);
    run->rounds_first = strcmp(backend->name, "cuda") == 0;
    WHIM_TRY(side_open(&run->side[0], backend, isa, run->n_thread, diag));
    run->attn_matrix = drive_attn_matrix(backend->name, isa);
    run->n_side = 1;
    if (run->side[0].dev->caps.n_thread > 1) {
        WHIM_TRY(side_open(&run->side[1], backend, isa, 1, diag));
        run->n_side = 2;
    }
    return WHIM_ERR_OK;
}

void checkop_run_close(checkop_run *run)
{
    for (int32_t i = 0; i < CHECKOP_SIDES; i++) {
        whim_stream_close(run->side[i].stream);
        whim_device_close(run->side[i].dev);
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Pack the rows in slabs of random sizes that start at the device's granule. As a reader of files
 * would have them, floats are aligned to themselves and blocks to nothing. */
static whim_err pack_slabs(checkop_case *c, checkop_run *run, int32_t side, checkop_buf *b)
{
    whim_device *dev = run->side[side].dev;
    int64_t granule = dev->caps.pack_row_granule > 0 ? dev->caps.pack_row_granule : 1;
    const whim_dtype_info *info = whim_dtype_get(b->dtype);
    int64_t off = info->kind == WHIM_DTYPE_KIND_FLOAT ? info->block_bytes : 1;
    uint8_t *file = malloc((size_t)(b->rows * b->row_bytes + off));
    whim_check(file != NULL);
    memcpy(file + off, b->init + b->head, (size_t)(b->rows * b->row_bytes));
    whim_err err = WHIM_ERR_OK;
    for (int64_t row = 0; row < b->rows && err == WHIM_ERR_OK;) {
        int64_t n = granule * checkop_range(&c->rng, 1, 1 + b->rows / granule / 2);
        n = n < b->rows - row ? n : b->rows - row;
        err = whim_device_pack(dev, &(whim_pack){
                                        .dtype = b->dtype,
                                        .n = b->rows,
                                        .k = b->cols,
                                        .row0 = row,
                                        .n_row = n,
                                        .src = file + off + row * b->row_bytes,
                                        .dst = (uint8_t *)b->dev[side] + CHECKOP_PAD,
                                    });
        row += n;
    }
    free(file);
    return err;
}

static whim_err weight_upload(checkop_case *c, checkop_run *run, int32_t side, checkop_buf *b)
{
    whim_stream *s = run->side[side].stream;
    uint8_t *image = b->dev_init[side];
    WHIM_TRY(whim_stream_copy_in(s, b->dev[side], image, b->dev_bytes[side]));
    WHIM_TRY(whim_stream_sync(s));
    WHIM_TRY(pack_slabs(c, run, side, b));
    WHIM_TRY(whim_stream_copy_out(s, image, b->dev[side], b->dev_bytes[side]));
    WHIM_TRY(whim_stream_sync(s));
    for (int64_t i = 0; i < CHECKOP_PAD; i++) {
        if (image[i] != 0x5a || image[b->dev_bytes[side] - 1 - i] != 0x5a) {
            printf("  pack_weight wrote outside of its region\n");
            return WHIM_ERR_CORRUPT;
        }
    }
    return WHIM_ERR_OK;
}

/* The workspace that a device wants for the calls, -1: it lacks one of them. Their buffers are
 * there already. */
static int64_t space_bytes(checkop_case *c, checkop_run *run, int32_t side)
{
    whim_recorder recorder;
    whim_recorder_init(&recorder, run->side[side].dev);
    for (int32_t i = 0; i < c->n_call; i++) {
        checkop_call call;
        checkop_resolve(c, &c->call[i], side, call.args.bytes);
        if (checkop_invoke(&recorder.base, c->call[i].op, call.args.bytes) != WHIM_ERR_OK) {
            c->skip = whim_op_name(c->call[i].op);
            return -1;
        }
    }
    return recorder.base.workspace.peak;
}

/* Bytes of a buffer whose size or layout is the device's; -1: it has no kernel. */
static int64_t own_bytes(checkop_case *c, checkop_run *run, int32_t side, const checkop_buf *b)
{
    if (b->role == CHECKOP_SPARE) {
        return space_bytes(c, run, side);
    }
    int64_t packed = whim_device_weight_bytes(run->side[side].dev, b->dtype, b->rows, b->cols);
    c->skip = packed < 0 ? whim_dtype_get(b->dtype)->name : NULL;
    return packed;
}

static bool buf_upload(checkop_case *c, checkop_run *run, int32_t side, checkop_buf *b)
{
    whim_device *dev = run->side[side].dev;
    int64_t bytes = b->bytes;
    b->dev_head[side] = b->head;
    b->dev_init[side] = b->init;
    if (b->role == CHECKOP_WEIGHT || b->role == CHECKOP_SPARE) {
        int64_t own = own_bytes(c, run, side, b);
        if (own < 0) {
            return false;
        }
        bytes = own + 2 * CHECKOP_PAD;
        b->dev_head[side] = CHECKOP_PAD;
        b->dev_init[side] = malloc((size_t)bytes);
        whim_check(b->dev_init[side] != NULL);
        memset(b->dev_init[side], 0x5a, (size_t)bytes);
    }
    b->dev_bytes[side] = bytes;
    whim_diag diag = {{0}};
    whim_err err = whim_device_alloc(dev, bytes, &b->dev[side], &diag);
    if (err == WHIM_ERR_OK && b->role == CHECKOP_WEIGHT) {
        err = weight_upload(c, run, side, b);
    }
    if (err != WHIM_ERR_OK) {
        return run_failed(c, run, b->name, err);
    }
    if (b->role == CHECKOP_SPARE) {
        run->side[side].stream->workspace = (whim_workspace){
            .base = (char *)b->dev[side] + CHECKOP_PAD, .bytes = bytes - 2 * CHECKOP_PAD};
    }
    return true;
}

bool checkop_case_upload(checkop_case *c, checkop_run *run)
{
    for (int32_t i = 0; i < c->n_buf; i++) {
        checkop_buf *b = &c->buf[i];
        int64_t most = 0;
        for (int32_t side = 0; side < run->n_side; side++) {
            if (!buf_upload(c, run, side, b)) {
                return false;
            }
            most = b->dev_bytes[side] > most ? b->dev_bytes[side] : most;
        }
        b->got = malloc((size_t)most);
        whim_check(b->got != NULL);
    }
    return true;
}

void checkop_case_free(checkop_case *c, checkop_run *run)
{
    for (int32_t i = 0; i < c->n_buf; i++) {
        checkop_buf *b = &c->buf[i];
        for (int32_t side = 0; side < run->n_side; side++) {
            run->side[side].stream->workspace = (whim_workspace){0};
            whim_device_free(run->side[side].dev, b->dev[side], b->dev_bytes[side]);
            if (b->dev_init[side] != b->init) {
                free(b->dev_init[side]);
            }
        }
        free(b->init);
        free(b->law);
        free(b->full);
        free(b->got);
    }
}

/* --- runs ------------------------------------------------------------------------------------- */

static bool law_run(checkop_case *c, checkop_run *run)
{
    for (int32_t i = 0; i < c->n_buf; i++) {
        checkop_buf *b = &c->buf[i];
        memcpy(b->law, b->init, (size_t)b->bytes);
        if (b->role == CHECKOP_SPARE) {
            run->law.workspace = (whim_workspace){(char *)b->law + b->head, b->row_bytes, 0, 0};
        }
    }
    for (int32_t i = 0; i < c->n_call; i++) {
        checkop_call call;
        checkop_resolve(c, &c->call[i], -1, call.args.bytes);
        whim_err err = checkop_invoke(&run->law, c->call[i].op, call.args.bytes);
        if (err != WHIM_ERR_OK) {
            return run_failed(c, run, "the law refused the call", err);
        }
    }
    return true;
}

whim_err checkop_images_in(checkop_case *c, checkop_run *run, int32_t side)
{
    for (int32_t i = 0; i < c->n_buf; i++) {
        checkop_buf *b = &c->buf[i];
        WHIM_TRY(whim_stream_copy_in(run->side[side].stream, b->dev[side], b->dev_init[side],
                                     b->dev_bytes[side]));
    }
    return WHIM_ERR_OK;
}

static whim_err images_out(checkop_case *c, checkop_run *run, int32_t side)
{
    for (int32_t i = 0; i < c->n_buf; i++) {
        checkop_buf *b = &c->buf[i];
        WHIM_TRY(
            whim_stream_copy_out(run->side[side].stream, b->got, b->dev[side], b->dev_bytes[side]));
    }
    return whim_stream_sync(run->side[side].stream);
}

/* The calls of the case, the one under test for all rows (row < 0) or for one. */
static whim_err calls_queue(checkop_case *c, checkop_run *run, int32_t side, int64_t row)
{
    for (int32_t i = 0; i < c->n_call; i++) {
        checkop_call call = c->call[i];
        if (row >= 0 && i == c->subject) {
            checkop_slice(c, row, &call);
        }
        checkop_call ready;
        checkop_resolve(c, &call, side, ready.args.bytes);
        WHIM_TRY(checkop_invoke(run->side[side].stream, call.op, ready.args.bytes));
    }
    return WHIM_ERR_OK;
}

static whim_err device_run(checkop_case *c, checkop_run *run, int32_t side, int64_t row)
{
    WHIM_TRY(checkop_images_in(c, run, side));
    WHIM_TRY(calls_queue(c, run, side, row));
    return images_out(c, run, side);
}

/* Record the calls once, replay them twice with other contents at the same addresses. */
static bool graph_test(checkop_case *c, checkop_run *run)
{
    whim_stream *s = run->side[0].stream;
    whim_graph *graph = NULL;
    whim_err err = s->vt->capture_begin(s);
    if (err == WHIM_ERR_OK) {
        err = calls_queue(c, run, 0, -1);
        whim_err end = s->vt->capture_end(s, &graph);
        err = err != WHIM_ERR_OK ? err : end;
    }
    bool ok = err == WHIM_ERR_OK || run_failed(c, run, "capture", err);
    for (int32_t round = 0; round < 2 && ok; round++) {
        for (int32_t i = 0; i < c->n_buf; i++) {
            c->buf[i].fill = c->buf[i].role == CHECKOP_WEIGHT ? CHECKOP_GIVEN : c->buf[i].fill;
        }
        checkop_fill_case(c);
        if (c->refill != NULL) {
            c->refill(c);
        }
        err = checkop_images_in(c, run, 0);
        err = err != WHIM_ERR_OK ? err : s->vt->replay(s, graph);
        err = err != WHIM_ERR_OK ? err : images_out(c, run, 0);
        ok = err == WHIM_ERR_OK ? law_run(c, run) && checkop_compare_law(c, run, 0, "replay")
                                : run_failed(c, run, "replay", err);
    }
    if (graph != NULL) {
        s->vt->graph_free(s, graph);
    }
    return ok;
}

static bool rows_test(checkop_case *c, checkop_run *run, int32_t n_sample)
{
    for (int32_t i = 0; i < n_sample && i < c->n_row; i++) {
        int64_t row = i == 0 ? c->n_row - 1 : i == 1 ? 0 : checkop_range(&c->rng, 0, c->n_row - 1);
        whim_err err = device_run(c, run, 0, row);
        if (err != WHIM_ERR_OK) {
            return run_failed(c, run, "one row alone", err);
        }
        if (!checkop_compare_row(c, run, row)) {
            return false;
        }
    }
    return true;
}

bool checkop_case_test(checkop_case *c, checkop_run *run, bool quick)
{
    if (!law_run(c, run)) {
        return false;
    }
    for (int32_t side = 0; side < run->n_side; side++) {
        whim_err err = device_run(c, run, side, -1);
        if (err != WHIM_ERR_OK) {
            return run_failed(c, run, "the device refused the call", err);
        }
        if (!checkop_compare_law(c, run, side, side == 0 ? "all threads" : "one thread")) {
            return false;
        }
        if (side == 0) {
            checkop_keep_full(c);
        } else if (!checkop_compare_full(c, run)) {
            return false;
        }
    }
    if (!rows_test(c, run, quick ? 2 : 4)) {
        return false;
    }
    return run->index % 5 != 0 || graph_test(c, run);
}

int32_t checkop_arguments_test(checkop_run *run, int32_t group, int32_t *n_case)
{
    int32_t n_wrong = 0;
    whim_op op = (whim_op)group;
    for (int32_t i = 0; checkop_family(group)->arguments != NULL; i++) {
        checkop_call call;
        memset(&call, 0, sizeof call);
        const char *what = checkop_family(group)->arguments(i, call.args.bytes);
        if (what == NULL) {
            break;
        }
        whim_err wanted = i == 0 ? WHIM_ERR_OK : WHIM_ERR_INVALID;
        whim_err err = checkop_check(op, call.args.bytes);
        if (err == wanted && i > 0) {
            err = checkop_invoke(run->side[0].stream, op, call.args.bytes);
        }
        if (err != wanted) {
            printf("FAIL %s %s arguments: %s: expected %s, got %s\n", run->place, run->name, what,
                   whim_err_name(wanted), whim_err_name(err));
            n_wrong++;
        }
        ++*n_case;
    }
    return n_wrong;
}

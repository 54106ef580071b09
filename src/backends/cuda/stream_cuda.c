/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of the driver's: copies, parts, graphs. */
#include "backends/cuda/cuda.h"

#include "base/alloc.h"

/* Flags by the driver's numbers. */
enum { STREAM_NON_BLOCKING = 1, EVENT_NO_TIMING = 2, CAPTURE_RELAXED = 2 };

struct whim_graph {
    whim_cu_handle exec;
};

static whim_cuda_stream *stream_of(whim_stream *base)
{
    return (whim_cuda_stream *)base;
}

/* Make the context current, and queue what waits. */
static whim_err stream_enter(whim_cuda_stream *s)
{
    WHIM_TRY(whim_cuda_enter(s->dev));
    WHIM_TRY(whim_cuda_flush(&s->base));
    s->made.x = NULL; /* a copy may change the rows */
    return WHIM_ERR_OK;
}

static whim_err cuda_copy_in(whim_stream *base, void *dst, const void *src, int64_t bytes)
{
    whim_cuda_stream *s = stream_of(base);
    if (s->capturing || bytes < 0) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(stream_enter(s));
    return bytes == 0 ? WHIM_ERR_OK
                      : whim_cuda_error(s->dev->cu->cuMemcpyHtoDAsync_v2(
                            (uint64_t)(uintptr_t)dst, src, (size_t)bytes, s->handle));
}

static whim_err cuda_copy_out(whim_stream *base, void *dst, const void *src, int64_t bytes)
{
    whim_cuda_stream *s = stream_of(base);
    if (s->capturing || bytes < 0) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(stream_enter(s));
    return bytes == 0 ? WHIM_ERR_OK
                      : whim_cuda_error(s->dev->cu->cuMemcpyDtoHAsync_v2(
                            dst, (uint64_t)(uintptr_t)src, (size_t)bytes, s->handle));
}

static whim_err cuda_sync(whim_stream *base)
{
    whim_cuda_stream *s = stream_of(base);
    if (s->capturing) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(stream_enter(s));
    return whim_cuda_error(s->dev->cu->cuStreamSynchronize(s->handle));
}

/* What fails stays failed until the context is gone, so that each later part tells so, too. */
static whim_err cuda_wait(whim_stream *base, whim_event event)
{
    whim_cuda_stream *s = stream_of(base);
    if (s->capturing || event < 1 || event > s->n_event ||
        event <= s->n_event - WHIM_STREAM_EVENTS) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(whim_cuda_enter(s->dev));
    return whim_cuda_error(s->dev->cu->cuEventSynchronize(s->events[event % WHIM_STREAM_EVENTS]));
}

static whim_err cuda_record(whim_stream *base, whim_event *event)
{
    whim_cuda_stream *s = stream_of(base);
    if (s->capturing) {
        return WHIM_ERR_INVALID;
    }
    if (s->n_event >= WHIM_STREAM_EVENTS) {
        WHIM_TRY(cuda_wait(base, s->n_event - WHIM_STREAM_EVENTS + 1));
    }
    WHIM_TRY(stream_enter(s));
    whim_event next = s->n_event + 1;
    WHIM_TRY(whim_cuda_error(
        s->dev->cu->cuEventRecord(s->events[next % WHIM_STREAM_EVENTS], s->handle)));
    *event = s->n_event = next;
    return WHIM_ERR_OK;
}

/* It works by itself from the start. */
static whim_err cuda_begin(whim_stream *base, whim_diag *diag)
{
    (void)base;
    (void)diag;
    return WHIM_ERR_OK;
}

static whim_err cuda_capture_begin(whim_stream *base)
{
    whim_cuda_stream *s = stream_of(base);
    if (s->capturing) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(stream_enter(s));
    WHIM_TRY(whim_cuda_error(s->dev->cu->cuStreamBeginCapture_v2(s->handle, CAPTURE_RELAXED)));
    s->capturing = true;
    return WHIM_ERR_OK;
}

static whim_err cuda_capture_end(whim_stream *base, whim_graph **out)
{
    whim_cuda_stream *s = stream_of(base);
    const whim_cu_driver *cu = s->dev->cu;
    whim_cu_handle recorded = NULL;
    if (!s->capturing) {
        return WHIM_ERR_INVALID;
    }
    s->capturing = false;
    whim_err err = stream_enter(s);
    int ended = cu->cuStreamEndCapture(s->handle, &recorded);
    if (err != WHIM_ERR_OK || ended != 0) {
        if (ended == 0) {
            (void)cu->cuGraphDestroy(recorded);
        }
        return err != WHIM_ERR_OK ? err : whim_cuda_error(ended);
    }
    whim_graph *graph = whim_alloc(sizeof *graph);
    int status = graph != NULL ? cu->cuGraphInstantiateWithFlags(&graph->exec, recorded, 0)
                               : WHIM_CU_OUT_OF_MEMORY;
    (void)cu->cuGraphDestroy(recorded);
    if (status != 0) {
        whim_free(graph);
        return whim_cuda_error(status);
    }
    *out = graph;
    return WHIM_ERR_OK;
}

static whim_err cuda_replay(whim_stream *base, whim_graph *graph)
{
    whim_cuda_stream *s = stream_of(base);
    if (s->capturing) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(stream_enter(s));
    return whim_cuda_error(s->dev->cu->cuGraphLaunch(graph->exec, s->handle));
}

static void cuda_graph_free(whim_stream *base, whim_graph *graph)
{
    whim_cuda_stream *s = stream_of(base);
    if (graph != NULL) {
        if (whim_cuda_enter(s->dev) == WHIM_ERR_OK) {
            (void)s->dev->cu->cuGraphExecDestroy(graph->exec);
        }
        whim_free(graph);
    }
}

static void cuda_stream_close(whim_stream *base)
{
    whim_cuda_stream *s = stream_of(base);
    const whim_cu_driver *cu = s->dev->cu;
    (void)cu->cuCtxSetCurrent(s->dev->context);
    if (s->handle != NULL) {
        (void)cu->cuStreamSynchronize(s->handle);
        (void)cu->cuStreamDestroy_v2(s->handle);
    }
    if (s->ended != 0) {
        (void)cu->cuMemFree_v2(s->ended);
    }
    if (s->tiles != 0) {
        (void)cu->cuMemFree_v2(s->tiles);
    }
    for (int32_t i = 0; i < WHIM_STREAM_EVENTS; i++) {
        if (s->events[i] != NULL) {
            (void)cu->cuEventDestroy_v2(s->events[i]);
        }
    }
    whim_free(s);
}

static const whim_stream_vt stream_vt = {
    .close = cuda_stream_close,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .sync = cuda_sync,
    .record = cuda_record,
    .wait = cuda_wait,
    .begin = cuda_begin,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .replay = cuda_replay,
    .graph_free = cuda_graph_free,
};

whim_err whim_cuda_stream_open(whim_device *base, whim_stream **out, whim_diag *diag)
{
    whim_cuda_device *dev = (whim_cuda_device *)base;
    WHIM_TRY(whim_cuda_enter(dev));
    whim_cuda_stream *s = whim_alloc(sizeof *s);
    if (s == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a stream");
    }
    s->base = (whim_stream){.vt = &stream_vt, .ops = &dev->ops, .device = base};
    s->dev = dev;
    int status = dev->cu->cuStreamCreate(&s->handle, STREAM_NON_BLOCKING);
    for (int32_t i = 0; i < WHIM_STREAM_EVENTS && status == 0; i++) {
        status = dev->cu->cuEventCreate(&s->events[i], EVENT_NO_TIMING);
    }
    size_t bytes = WHIM_CUDA_ATTN_ENDED * sizeof(int32_t);
    status = status != 0 ? status : dev->cu->cuMemAlloc_v2(&s->ended, bytes);
    status = status != 0 ? status : dev->cu->cuMemsetD8_v2(s->ended, 0, bytes);
    status = status != 0 ? status : dev->cu->cuMemAlloc_v2(&s->tiles, 2 * 2 * WHIM_CUDA_MADE);
    status = status != 0 ? status : dev->cu->cuStreamSynchronize(NULL);
    if (status != 0) {
        cuda_stream_close(&s->base);
        return whim_fail(diag, whim_cuda_error(status), "no stream on the GPU: %s (%d)",
                         whim_cu_error_text(dev->cu, status), status);
    }
    *out = &s->base;
    return WHIM_ERR_OK;
}

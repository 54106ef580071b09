/* SPDX-License-Identifier: Apache-2.0 */
/* The command list: recording, barriers, flushing, graphs. */
#include "backends/cpu/stream.h"

#include "base/alloc.h"

#include <string.h>

static bool conflicts(const whim_cpu_stream *s, const whim_access *accesses, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        for (int32_t j = 0; j < s->n_open; j++) {
            if ((accesses[i].write || s->open[j].write) &&
                whim_access_overlap(&accesses[i], &s->open[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Remember what the command touches, and forget the quantised activations if it overwrites their
 * source. The first barrier of a list comes for free with its start. */
static bool track(whim_cpu_stream *s, const whim_access *accesses, int32_t n)
{
    bool barrier = s->n_open + n > CPU_OPEN_MAX || conflicts(s, accesses, n);
    if (barrier) {
        s->n_open = 0;
    }
    for (int32_t i = 0; i < n; i++) {
        s->open[s->n_open++] = accesses[i];
        if (accesses[i].write && whim_access_overlap(&accesses[i], &s->q8_from)) {
            s->q8_from.n_row = 0;
        }
    }
    return barrier;
}

static void list_forget(whim_cpu_stream *s)
{
    s->n_list = 0;
    s->n_open = 0;
    s->q8_from.n_row = 0;
}

static void flush(whim_cpu_stream *s)
{
    whim_cpu_workers_run(&s->dev->workers, s->list, s->n_list);
    list_forget(s);
}

static whim_err graph_append(whim_graph *graph, const whim_cpu_command *command)
{
    if (graph->n_command == graph->capacity) {
        int64_t capacity = graph->capacity > 0 ? graph->capacity * 2 : 256;
        whim_cpu_command *grown =
            whim_realloc(graph->commands, graph->n_command * (int64_t)sizeof *command,
                         capacity * (int64_t)sizeof *command);
        if (grown == NULL) {
            return WHIM_ERR_NO_MEMORY;
        }
        graph->commands = grown;
        graph->capacity = capacity;
    }
    graph->commands[graph->n_command++] = *command;
    return WHIM_ERR_OK;
}

whim_err whim_cpu_push(whim_cpu_stream *s, whim_cpu_kernel *kernel, const void *args,
                       int64_t args_bytes, const whim_access *accesses, int32_t n_access)
{
    if (s->capture == NULL && s->n_list == CPU_LIST_MAX) {
        flush(s);
    }
    whim_cpu_command command = {.kernel = kernel, .barrier = track(s, accesses, n_access)};
    memcpy(command.args, args, (size_t)args_bytes);
    if (s->capture != NULL) {
        return graph_append(s->capture, &command);
    }
    s->list[s->n_list++] = command;
    return WHIM_ERR_OK;
}

static whim_err stream_copy(whim_stream *base, void *dst, const void *src, int64_t bytes)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture != NULL) {
        return WHIM_ERR_INVALID;
    }
    flush(s);
    if (bytes > 0) {
        memcpy(dst, src, (size_t)bytes);
    }
    return WHIM_ERR_OK;
}

static whim_err stream_sync(whim_stream *base)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture != NULL) {
        return WHIM_ERR_INVALID;
    }
    flush(s);
    return WHIM_ERR_OK;
}

static void stream_graph_free(whim_stream *base, whim_graph *graph)
{
    (void)base;
    if (graph != NULL) {
        whim_free(graph->commands);
        whim_free(graph);
    }
}

static whim_err stream_capture_begin(whim_stream *base)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture != NULL) {
        return WHIM_ERR_INVALID;
    }
    flush(s);
    s->capture = whim_alloc(sizeof *s->capture);
    return s->capture != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

static whim_err stream_capture_end(whim_stream *base, whim_graph **out)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture == NULL) {
        return WHIM_ERR_INVALID;
    }
    *out = s->capture;
    s->capture = NULL;
    list_forget(s);
    return WHIM_ERR_OK;
}

static whim_err stream_replay(whim_stream *base, whim_graph *graph)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture != NULL) {
        return WHIM_ERR_INVALID;
    }
    flush(s);
    whim_cpu_workers_run(&s->dev->workers, graph->commands, graph->n_command);
    return WHIM_ERR_OK;
}

static void stream_close(whim_stream *base)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    stream_graph_free(base, s->capture);
    whim_free(s->list);
    whim_free(s->q8);
    whim_free(s);
}

static const whim_stream_vt stream_vt = {
    .close = stream_close,
    .copy_in = stream_copy,
    .copy_out = stream_copy,
    .sync = stream_sync,
    .capture_begin = stream_capture_begin,
    .capture_end = stream_capture_end,
    .replay = stream_replay,
    .graph_free = stream_graph_free,
};

int64_t whim_cpu_stream_bytes(void)
{
    return (int64_t)sizeof(whim_cpu_stream) + CPU_LIST_MAX * (int64_t)sizeof(whim_cpu_command) +
           CPU_Q8_BYTES;
}

whim_err whim_cpu_stream_open(whim_device *dev, whim_stream **out, whim_diag *diag)
{
    whim_cpu_stream *s = whim_alloc(sizeof *s);
    if (s != NULL) {
        s->dev = (whim_cpu_device *)dev;
        s->base = (whim_stream){.vt = &stream_vt, .ops = &s->dev->ops, .device = dev};
        s->list = whim_alloc_array(CPU_LIST_MAX, sizeof *s->list);
        s->q8 = whim_alloc(CPU_Q8_BYTES);
    }
    if (s == NULL || s->list == NULL || s->q8 == NULL) {
        if (s != NULL) {
            stream_close(&s->base);
        }
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the CPU's command list");
    }
    *out = &s->base;
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The command list: recording, barriers, copies, graphs. */
#include "backends/cpu/stream.h"

#include "base/alloc.h"
#include "base/os/mem.h"

#include <string.h>

/* Do two lists of accesses have memory in common that one of them writes? */
static bool touch(const whim_access *a, int32_t n_a, const whim_access *b, int32_t n_b)
{
    for (int32_t i = 0; i < n_a; i++) {
        for (int32_t j = 0; j < n_b; j++) {
            if ((a[i].write || b[j].write) && whim_access_overlap(&a[i], &b[j])) {
                return true;
            }
        }
    }
    return false;
}

static bool needs_barrier(const whim_cpu_stream *s, const whim_access *accesses, int32_t n)
{
    return s->n_open + n > CPU_OPEN_MAX || touch(accesses, n, s->open, s->n_open);
}

/* Remember what the command touches, and forget rows that were made from what it overwrites. The
 * first barrier of a list comes for free with its start. */
static bool track(whim_cpu_stream *s, const whim_access *accesses, int32_t n)
{
    bool barrier = needs_barrier(s, accesses, n) || s->fence;
    s->fence = false;
    if (barrier) {
        s->n_open = 0;
    }
    for (int32_t i = 0; i < n; i++) {
        s->open[s->n_open++] = accesses[i];
        if (!accesses[i].write) {
            continue;
        }
        if (whim_access_overlap(&accesses[i], &s->q8_from)) {
            s->q8_from.n_row = 0;
        }
        if (whim_access_overlap(&accesses[i], &s->kept.x) ||
            whim_access_overlap(&accesses[i], &s->kept.delta)) {
            s->kept.x.n_row = 0;
        }
    }
    return barrier;
}

/* What follows is another list. */
static void list_forget(whim_cpu_stream *s)
{
    s->fence = false;
    s->n_open = 0;
    s->q8_from.n_row = 0;
    s->kept.x.n_row = 0;
}

/* The place of the next command, of the graph or of the list, which has room. */
static whim_err next_command(whim_cpu_stream *s, whim_cpu_command **out)
{
    if (s->capture == NULL) {
        *out = &s->list[s->n_list++];
        return WHIM_ERR_OK;
    }
    if (!whim_grow(&s->capture->commands, s->capture->n_command + 1, &s->capture->capacity,
                   sizeof *s->capture->commands)) {
        return WHIM_ERR_NO_MEMORY;
    }
    *out = &s->capture->commands[s->capture->n_command++];
    return WHIM_ERR_OK;
}

whim_err whim_cpu_push_ahead(whim_cpu_stream *s, whim_cpu_kernel *kernel, const void *args,
                             int64_t args_bytes, const whim_access *accesses, int32_t n_access)
{
    whim_cpu_command *command;
    WHIM_TRY(next_command(s, &command));
    command->kernel = kernel;
    command->barrier = track(s, accesses, n_access);
    memcpy(command->args, args, (size_t)args_bytes);
    return WHIM_ERR_OK;
}

/* What waits is appended. */
static whim_err emit_later(whim_cpu_stream *s)
{
    int32_t n = s->later.n_access;
    s->later.n_access = 0;
    return n == 0 ? WHIM_ERR_OK
                  : whim_cpu_push_ahead(s, s->later.kernel, s->later.args, s->later.args_bytes,
                                        s->later.accesses, n);
}

/* What was recorded since the last run becomes one. */
static void run_close(whim_cpu_stream *s)
{
    whim_cpu_part *part = whim_cpu_queue_part(&s->queue);
    if (s->n_list > s->n_run) {
        part->runs[part->n_run++] = (whim_cpu_run){s->list + s->n_run, s->n_list - s->n_run};
        s->n_run = s->n_list;
    }
    list_forget(s);
}

static whim_err part_close(whim_cpu_stream *s, whim_event *event)
{
    WHIM_TRY(emit_later(s));
    run_close(s);
    *event = whim_cpu_queue_close(&s->queue);
    s->list = whim_cpu_queue_part(&s->queue)->list;
    s->n_list = s->n_run = 0;
    return WHIM_ERR_OK;
}

static whim_err flush(whim_cpu_stream *s)
{
    whim_event event;
    WHIM_TRY(part_close(s, &event));
    return whim_cpu_queue_wait(&s->queue, event);
}

/* The list ends here: a graph comes next, or is recorded. */
static whim_err list_close(whim_cpu_stream *s)
{
    WHIM_TRY(emit_later(s));
    run_close(s);
    return whim_cpu_queue_part(&s->queue)->n_run + 2 > CPU_RUNS_MAX ? flush(s) : WHIM_ERR_OK;
}

whim_err whim_cpu_room(whim_cpu_stream *s)
{
    return s->capture == NULL && s->n_list + 2 > CPU_LIST_MAX ? flush(s) : WHIM_ERR_OK;
}

whim_err whim_cpu_settle(whim_cpu_stream *s, const whim_access *accesses, int32_t n_access)
{
    bool common = touch(accesses, n_access, s->later.accesses, s->later.n_access);
    return common ? emit_later(s) : WHIM_ERR_OK;
}

whim_err whim_cpu_push(whim_cpu_stream *s, whim_cpu_kernel *kernel, const void *args,
                       int64_t args_bytes, const whim_access *accesses, int32_t n_access)
{
    WHIM_TRY(whim_cpu_room(s));
    WHIM_TRY(whim_cpu_settle(s, accesses, n_access));
    if (needs_barrier(s, accesses, n_access)) {
        WHIM_TRY(emit_later(s)); /* it needs the barrier too, and then serves both */
    }
    return whim_cpu_push_ahead(s, kernel, args, args_bytes, accesses, n_access);
}

whim_err whim_cpu_push_fenced(whim_cpu_stream *s, whim_cpu_kernel *kernel, const void *args,
                              int64_t args_bytes, const whim_access *accesses, int32_t n_access)
{
    WHIM_TRY(emit_later(s));
    s->fence = true;
    WHIM_TRY(whim_cpu_push(s, kernel, args, args_bytes, accesses, n_access));
    s->fence = true;
    return WHIM_ERR_OK;
}

whim_err whim_cpu_push_later(whim_cpu_stream *s, whim_op op, whim_cpu_kernel *kernel,
                             const void *args, const whim_add_rmsnorm_args *norm)
{
    WHIM_TRY(whim_cpu_room(s));
    WHIM_TRY(emit_later(s));
    s->later.kernel = kernel;
    s->later.args_bytes = whim_op_args_bytes(op);
    memcpy(s->later.args, args, (size_t)s->later.args_bytes);
    s->later.n_access = whim_access_list(op, args, s->later.accesses);
    s->later.norm = *norm;
    return WHIM_ERR_OK;
}

static bool is_idle(whim_cpu_stream *s)
{
    return s->n_list == 0 && s->later.n_access == 0 && whim_cpu_queue_part(&s->queue)->n_run == 0 &&
           whim_cpu_queue_idle(&s->queue);
}

/* At once where nothing comes before it, else a command in its place. Access lists leave out what
 * is constant in a step, as a copy's target may be: so there is a barrier on either side. */
static whim_err stream_copy(whim_stream *base, void *dst, const void *src, int64_t bytes)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture != NULL || bytes < 0) {
        return WHIM_ERR_INVALID;
    }
    if (bytes == 0) {
        return WHIM_ERR_OK;
    }
    if (is_idle(s)) {
        memcpy(dst, src, (size_t)bytes);
        return WHIM_ERR_OK;
    }
    whim_copy_bytes_args args = {.dst = dst, .src = src, .bytes = bytes};
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_list(WHIM_OP_copy_bytes, &args, accesses);
    return whim_cpu_push_fenced(s, s->dev->kernels->copy_bytes, &args, sizeof args, accesses, n);
}

static whim_err stream_sync(whim_stream *base)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture != NULL) {
        return WHIM_ERR_INVALID;
    }
    return flush(s);
}

static whim_err stream_record(whim_stream *base, whim_event *event)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    return s->capture != NULL ? WHIM_ERR_INVALID : part_close(s, event);
}

static whim_err stream_wait(whim_stream *base, whim_event event)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture != NULL || event > s->queue.n_closed) {
        return WHIM_ERR_INVALID;
    }
    return whim_cpu_queue_wait(&s->queue, event);
}

static whim_err stream_begin(whim_stream *base, whim_diag *diag)
{
    return whim_cpu_queue_begin(&((whim_cpu_stream *)base)->queue, diag);
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
    WHIM_TRY(list_close(s));
    s->capture = whim_alloc(sizeof *s->capture);
    return s->capture != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

static whim_err stream_capture_end(whim_stream *base, whim_graph **out)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture == NULL) {
        return WHIM_ERR_INVALID;
    }
    whim_err err = emit_later(s);
    if (err == WHIM_ERR_OK) {
        *out = s->capture;
    } else {
        stream_graph_free(base, s->capture);
    }
    s->capture = NULL;
    list_forget(s);
    return err;
}

static whim_err stream_replay(whim_stream *base, whim_graph *graph)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    if (s->capture != NULL) {
        return WHIM_ERR_INVALID;
    }
    WHIM_TRY(list_close(s));
    whim_cpu_part *part = whim_cpu_queue_part(&s->queue);
    part->runs[part->n_run++] = (whim_cpu_run){graph->commands, graph->n_command};
    return WHIM_ERR_OK;
}

static void stream_close(whim_stream *base)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    whim_cpu_queue_deinit(&s->queue);
    stream_graph_free(base, s->capture);
    whim_os_pages_free(s->q8, CPU_Q8_BYTES);
    whim_os_pages_free(s->attn, sizeof *s->attn);
    whim_free(s);
}

static const whim_stream_vt stream_vt = {
    .close = stream_close,
    .copy_in = stream_copy,
    .copy_out = stream_copy,
    .sync = stream_sync,
    .record = stream_record,
    .wait = stream_wait,
    .begin = stream_begin,
    .capture_begin = stream_capture_begin,
    .capture_end = stream_capture_end,
    .replay = stream_replay,
    .graph_free = stream_graph_free,
};

int64_t whim_cpu_stream_bytes(void)
{
    return (int64_t)sizeof(whim_cpu_stream) +
           CPU_PARTS * CPU_LIST_MAX * (int64_t)sizeof(whim_cpu_command) + CPU_Q8_BYTES +
           (int64_t)sizeof(whim_attn_shared);
}

/* Large, so straight from the system, and held from now on as the memory plan says. */
static void *pages_now(int64_t bytes)
{
    void *pages = whim_os_pages_alloc(bytes);
    if (pages != NULL) {
        whim_os_pages_commit(pages, bytes);
    }
    return pages;
}

whim_err whim_cpu_stream_open(whim_device *dev, whim_stream **out, whim_diag *diag)
{
    whim_cpu_stream *s = whim_alloc(sizeof *s);
    whim_err queued = WHIM_ERR_NO_MEMORY;
    if (s != NULL) {
        s->dev = (whim_cpu_device *)dev;
        s->base = (whim_stream){.vt = &stream_vt, .ops = &s->dev->ops, .device = dev};
        queued = whim_cpu_queue_init(&s->queue, &s->dev->workers);
        s->list = s->queue.parts[0].list;
        s->q8 = pages_now(CPU_Q8_BYTES);
        s->attn = pages_now(sizeof *s->attn);
    }
    if (queued != WHIM_ERR_OK || s->q8 == NULL || s->attn == NULL) {
        if (s != NULL) {
            stream_close(&s->base);
        }
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for the CPU's command list");
    }
    *out = &s->base;
    return WHIM_ERR_OK;
}

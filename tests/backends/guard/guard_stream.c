/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's stream: a list of commands, and a worker that runs them when, and only when, the host
 * waits. A wait for one part runs later parts along, or not, as a coin falls: both are what a
 * device may do. The lists live in pages of their own and grow whenever they must: running early to
 * make room would hide a caller who relies on it, and the heap is closed inside a step. */
#include "backends/guard/guard.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/math/rng.h"
#include "base/os/mem.h"
#include "base/thread.h"
#include "ops/operands.h"

#include <stdio.h>
#include <string.h>

enum { LIST_FIRST = 64 * 1024, EARLY_READ = 0xa5 };

/* Bytes one after the other, in pages. */
typedef struct byte_list {
    char *data;
    int64_t used, cap;
} byte_list;

typedef enum cmd_kind { CMD_OP, CMD_COPY } cmd_kind;

typedef struct guard_cmd {
    cmd_kind kind;
    whim_op op;
    void *dst;
    const void *src;
    int64_t bytes;
    whim_workspace workspace; /* CMD_OP */
    _Alignas(16) char args[WHIM_OP_ARGS_MAX];
} guard_cmd;

struct whim_graph {
    byte_list cmds;
};

typedef struct guard_stream {
    whim_stream base;
    byte_list cmds; /* what waits */
    int64_t number; /* of the stream: its coins fall in another order */
    bool capturing;
    byte_list captured;      /* while capturing */
    int64_t n_event, n_done; /* parts that have an event, and those that have run */
    /* of those with one, in bytes of cmds; part n at n % WHIM_STREAM_EVENTS */
    int64_t ends[WHIM_STREAM_EVENTS];
    whim_err results[WHIM_STREAM_EVENTS]; /* the same of those that have run */
    uint64_t n_coin;                      /* coins thrown */

    whim_thread worker;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    enum { WORKER_IDLE, WORKER_RUN, WORKER_QUIT } state;
    int64_t end; /* of what is to run, in bytes of cmds */
    whim_err result;
} guard_stream;

static void list_deinit(byte_list *list)
{
    whim_os_pages_free(list->data, list->cap);
    *list = (byte_list){0};
}

/* Append a copy of `bytes` bytes. */
static whim_err list_append(byte_list *list, const void *src, int64_t bytes)
{
    int64_t cap = list->cap > 0 ? list->cap : LIST_FIRST;
    while (cap - list->used < bytes) {
        cap *= 2;
    }
    if (cap != list->cap) {
        char *data = whim_os_pages_alloc(cap);
        if (data == NULL) {
            return WHIM_ERR_NO_MEMORY;
        }
        if (list->used > 0) {
            memcpy(data, list->data, (size_t)list->used);
        }
        whim_os_pages_free(list->data, list->cap);
        list->data = data;
        list->cap = cap;
    }
    memcpy(list->data + list->used, src, (size_t)bytes);
    list->used += bytes;
    return WHIM_ERR_OK;
}

static void require_device(guard_stream *s, const void *ptr, int64_t bytes, const char *who)
{
    if (!whim_guard_owns((guard_device *)s->base.device, ptr, bytes)) {
        char what[128];
        snprintf(what, sizeof what, "%s was given %p, which is not device memory", who, ptr);
        whim_check_failed(__FILE__, __LINE__, what);
    }
}

/* Every operand lies in the device's memory, to its end. */
static whim_err record_op(whim_stream *base, whim_op op, const void *args)
{
    guard_stream *s = (guard_stream *)base;
    whim_operand operands[WHIM_OPERANDS_MAX];
    int32_t n = whim_operand_list(op, args, operands);
    for (int32_t i = 0; i < n; i++) {
        if (operands[i].data != NULL) {
            char who[96];
            snprintf(who, sizeof who, "%s %s", whim_op_name(op), operands[i].name);
            require_device(s, operands[i].data, whim_operand_extent(&operands[i]), who);
        }
    }
    guard_cmd cmd = {.kind = CMD_OP, .op = op};
    void *space;
    cmd.workspace.bytes = whim_law_workspace(op, args);
    WHIM_TRY(whim_workspace_take(base, cmd.workspace.bytes, &space));
    cmd.workspace.base = space;
    cmd.workspace.bytes = (cmd.workspace.bytes + 63) / 64 * 64;
    memcpy(cmd.args, args, (size_t)whim_op_args_bytes(op));
    return list_append(s->capturing ? &s->captured : &s->cmds, &cmd, sizeof cmd);
}

/* The table: primitives only. */
#undef WHIM_PRIM
#undef WHIM_FUSED
#define WHIM_FUSED(name)
#define WHIM_PRIM(name)                                                        \
    static whim_err record_##name(whim_stream *s, const whim_##name##_args *a) \
    {                                                                          \
        return record_op(s, WHIM_OP_##name, a);                                \
    }
#include "ops/ops.def"
#undef WHIM_PRIM

void whim_guard_ops_init(whim_ops *ops, bool llama_only)
{
    if (llama_only) {
        *ops = (whim_ops){
            .embed = record_embed,
            .linear = record_linear,
            .rmsnorm = record_rmsnorm,
            .add = record_add,
            .swiglu = record_swiglu,
            .gather_rows = record_gather_rows,
            .topk = record_topk,
            .rope_table = record_rope_table,
            .rope = record_rope,
            .kv_write = record_kv_write,
            .page_zero = record_page_zero,
            .attn_paged = record_attn_paged,
            .sample = record_sample,
            .result_tokens = record_result_tokens,
        };
        return;
    }
    *ops = (whim_ops){
#define WHIM_PRIM(name) .name = record_##name,
#include "ops/ops.def"
#undef WHIM_PRIM
    };
}

static whim_err cmds_run(guard_stream *s)
{
    whim_stream law;
    whim_law_stream_init(&law);
    law.comm = s->base.comm;
    for (int64_t at = 0; at < s->end; at += (int64_t)sizeof(guard_cmd)) {
        const guard_cmd *cmd = (const guard_cmd *)(s->cmds.data + at);
        switch (cmd->kind) {
        case CMD_OP:
            law.workspace = cmd->workspace;
            WHIM_TRY(whim_op_call(&law, cmd->op, cmd->args));
            break;
        case CMD_COPY:
            memcpy(cmd->dst, cmd->src, (size_t)cmd->bytes);
            break;
        }
    }
    return WHIM_ERR_OK;
}

static void worker_main(void *ctx)
{
    guard_stream *s = ctx;
    guard_device *dev = (guard_device *)s->base.device;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->state == WORKER_IDLE) {
            pthread_cond_wait(&s->changed, &s->lock);
        }
        if (s->state == WORKER_QUIT) {
            break;
        }
        pthread_mutex_lock(&dev->lock);
        whim_guard_open_memory(dev, true);
        s->result = cmds_run(s);
        whim_guard_open_memory(dev, false);
        pthread_mutex_unlock(&dev->lock);
        s->state = WORKER_IDLE;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Run the first `end` bytes of the list. A failure takes all that waits along. */
static whim_err list_run(guard_stream *s, int64_t end)
{
    pthread_mutex_lock(&s->lock);
    s->end = end;
    s->state = WORKER_RUN;
    pthread_cond_broadcast(&s->changed);
    while (s->state == WORKER_RUN) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    whim_err err = s->result;
    pthread_mutex_unlock(&s->lock);
    if (err != WHIM_ERR_OK) {
        end = s->cmds.used;
    }
    if (end < s->cmds.used) { /* an empty list may have no memory at all */
        memmove(s->cmds.data, s->cmds.data + end, (size_t)(s->cmds.used - end));
    }
    s->cmds.used -= end;
    for (int32_t i = 0; i < WHIM_STREAM_EVENTS; i++) {
        s->ends[i] -= end;
    }
    for (; s->n_done < s->n_event && s->ends[s->n_done % WHIM_STREAM_EVENTS] <= 0; s->n_done++) {
        s->results[s->n_done % WHIM_STREAM_EVENTS] = err;
    }
    return err;
}

static whim_err guard_sync(whim_stream *base)
{
    guard_stream *s = (guard_stream *)base;
    if (s->capturing) {
        return WHIM_ERR_INVALID;
    }
    whim_err err = list_run(s, s->cmds.used);
    whim_guard_release((guard_device *)base->device, base, s->n_event + 1);
    return err;
}

/* Run the part that ends with an open event, or more. */
static whim_err part_run(guard_stream *s, whim_event event)
{
    int64_t part = (event - 1) % WHIM_STREAM_EVENTS;
    if (s->n_done < event) {
        bool more = whim_rng_at((uint64_t)s->number, s->n_coin++) % 2 == 0;
        (void)list_run(s, more ? s->cmds.used : s->ends[part]);
    }
    return s->results[part];
}

static whim_err guard_wait(whim_stream *base, whim_event event)
{
    guard_stream *s = (guard_stream *)base;
    if (s->capturing || event > s->n_event || event <= s->n_event - WHIM_STREAM_EVENTS) {
        return WHIM_ERR_INVALID;
    }
    whim_err err = part_run(s, event);
    whim_guard_release((guard_device *)base->device, base, event);
    return err;
}

static whim_err guard_record(whim_stream *base, whim_event *event)
{
    guard_stream *s = (guard_stream *)base;
    if (s->capturing) {
        return WHIM_ERR_INVALID;
    }
    if (s->n_event - s->n_done == WHIM_STREAM_EVENTS) {
        (void)part_run(s, s->n_done + 1); /* its result is told to whoever waits for it */
    }
    s->ends[s->n_event % WHIM_STREAM_EVENTS] = s->cmds.used;
    *event = ++s->n_event;
    return WHIM_ERR_OK;
}

/* It works when it is waited for, whatever it is told. */
static whim_err guard_begin(whim_stream *base, whim_diag *diag)
{
    (void)base;
    (void)diag;
    return WHIM_ERR_OK;
}

static whim_err guard_copy_in(whim_stream *base, void *dst, const void *src, int64_t bytes)
{
    guard_stream *s = (guard_stream *)base;
    if (s->capturing || bytes < 0) {
        return WHIM_ERR_INVALID;
    }
    if (bytes == 0) {
        return WHIM_ERR_OK;
    }
    require_device(s, dst, bytes, "copy_in");
    whim_guard_hold((guard_device *)base->device, base, src, bytes, s->n_event + 1, false);
    guard_cmd cmd = {.kind = CMD_COPY, .dst = dst, .src = src, .bytes = bytes};
    return list_append(&s->cmds, &cmd, sizeof cmd);
}

static whim_err guard_copy_out(whim_stream *base, void *dst, const void *src, int64_t bytes)
{
    guard_stream *s = (guard_stream *)base;
    if (s->capturing || bytes < 0) {
        return WHIM_ERR_INVALID;
    }
    if (bytes == 0) {
        return WHIM_ERR_OK;
    }
    require_device(s, src, bytes, "copy_out");
    if (!whim_guard_hold((guard_device *)base->device, base, dst, bytes, s->n_event + 1, true)) {
        memset(dst, EARLY_READ, (size_t)bytes); /* who looks before a wait sees nonsense */
    }
    guard_cmd cmd = {.kind = CMD_COPY, .dst = dst, .src = src, .bytes = bytes};
    return list_append(&s->cmds, &cmd, sizeof cmd);
}

static whim_err guard_capture_begin(whim_stream *base)
{
    guard_stream *s = (guard_stream *)base;
    if (s->capturing) {
        return WHIM_ERR_INVALID;
    }
    s->capturing = true;
    return WHIM_ERR_OK;
}

static whim_err guard_capture_end(whim_stream *base, whim_graph **out)
{
    guard_stream *s = (guard_stream *)base;
    if (!s->capturing) {
        return WHIM_ERR_INVALID;
    }
    s->capturing = false;
    byte_list captured = s->captured;
    s->captured = (byte_list){0};
    whim_graph *graph = whim_alloc(sizeof *graph);
    if (graph == NULL) {
        list_deinit(&captured);
        return WHIM_ERR_NO_MEMORY;
    }
    graph->cmds = captured;
    *out = graph;
    return WHIM_ERR_OK;
}

static whim_err guard_replay(whim_stream *base, whim_graph *graph)
{
    guard_stream *s = (guard_stream *)base;
    if (s->capturing) {
        return WHIM_ERR_INVALID;
    }
    if (graph->cmds.used == 0) {
        return WHIM_ERR_OK;
    }
    return list_append(&s->cmds, graph->cmds.data, graph->cmds.used);
}

static void guard_graph_free(whim_stream *base, whim_graph *graph)
{
    (void)base;
    if (graph != NULL) {
        list_deinit(&graph->cmds);
        whim_free(graph);
    }
}

/* What still waits is dropped: a caller who wanted it would have synced. */
static void guard_stream_close(whim_stream *base)
{
    guard_stream *s = (guard_stream *)base;
    guard_device *dev = (guard_device *)base->device;
    pthread_mutex_lock(&s->lock);
    s->state = WORKER_QUIT;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    whim_thread_join(&s->worker);
    whim_guard_release(dev, base, INT64_MAX);
    pthread_mutex_lock(&dev->lock);
    dev->n_stream--;
    pthread_mutex_unlock(&dev->lock);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    list_deinit(&s->cmds);
    list_deinit(&s->captured);
    whim_free(s);
}

static const whim_stream_vt guard_stream_vt = {
    .close = guard_stream_close,
    .copy_in = guard_copy_in,
    .copy_out = guard_copy_out,
    .sync = guard_sync,
    .record = guard_record,
    .wait = guard_wait,
    .begin = guard_begin,
    .capture_begin = guard_capture_begin,
    .capture_end = guard_capture_end,
    .replay = guard_replay,
    .graph_free = guard_graph_free,
};

whim_err whim_guard_stream_open(whim_device *base, whim_stream **out, whim_diag *diag)
{
    guard_device *dev = (guard_device *)base;
    guard_stream *s = whim_alloc(sizeof *s);
    WHIM_TRY(whim_got(s != NULL, diag, "no memory for a stream"));
    s->base = (whim_stream){.vt = &guard_stream_vt, .ops = &dev->ops, .device = base};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    whim_err err = whim_thread_create(&s->worker, "whim-guard", worker_main, s, diag);
    if (err != WHIM_ERR_OK) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        whim_free(s);
        return err;
    }
    pthread_mutex_lock(&dev->lock);
    dev->n_stream++;
    s->number = dev->n_opened++;
    pthread_mutex_unlock(&dev->lock);
    *out = &s->base;
    return WHIM_ERR_OK;
}

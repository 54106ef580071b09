/* SPDX-License-Identifier: Apache-2.0 */
#include "emulated_gpu/queue.h"

#include "emulated_gpu/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 64 };

static struct {
    int status;
    char why[600];
    gpu_stream *streams[STREAMS];
} the;

int gpu_queue_status(void)
{
    return the.status;
}

const char *gpu_queue_why(void)
{
    return the.why;
}

static void *must(void *p)
{
    if (p == NULL) {
        abort();
    }
    return p;
}

/* --- lists ------------------------------------------------------------------------------------- */

static void list_add(gpu_list *l, gpu_item i)
{
    if (l->n == l->room) {
        l->room = l->room > 0 ? 2 * l->room : 16;
        l->items = must(realloc(l->items, (size_t)l->room * sizeof *l->items));
    }
    l->items[l->n++] = i;
}

void *gpu_args_copy(const gpu_launch *l)
{
    return memcpy(must(malloc(l->kernel->arg_bytes)), l->args, l->kernel->arg_bytes);
}

static gpu_item item_copy(gpu_item i)
{
    if (i.kind == GPU_ITEM_LAUNCH) {
        i.launch.args = gpu_args_copy(&i.launch);
    }
    return i;
}

static void item_free(const gpu_item *i)
{
    if (i->kind == GPU_ITEM_LAUNCH) {
        free((void *)(uintptr_t)i->launch.args);
    }
}

void gpu_list_free(gpu_list *l)
{
    for (int i = 0; i < l->n; i++) {
        item_free(&l->items[i]);
    }
    free(l->items);
    free(l);
}

gpu_list *gpu_list_copy(const gpu_list *from)
{
    gpu_list *to = must(calloc(1, sizeof *to));
    for (int i = 0; i < from->n; i++) {
        list_add(to, item_copy(from->items[i]));
    }
    return to;
}

/* --- running ----------------------------------------------------------------------------------- */

static void item_run(const gpu_item *i)
{
    switch (i->kind) {
    case GPU_ITEM_LAUNCH:
        if (!gpu_run(&i->launch, the.why, sizeof the.why)) {
            fprintf(stderr, "emulated GPU: %s\n", the.why);
            the.status = GPU_LOST;
        }
        break;
    case GPU_ITEM_COPY:
        memmove(i->to, i->from, i->bytes);
        break;
    case GPU_ITEM_FILL:
        memset(i->to, i->value, i->bytes);
        break;
    case GPU_ITEM_EVENT:
        i->event->done = i->number;
    }
}

/* The first n of a stream. */
static int some_run(gpu_stream *s, int n)
{
    gpu_list *q = &s->queue;
    if (n == 0) {
        return the.status;
    }
    gpu_memory_open(true);
    for (int i = 0; i < n && the.status == 0; i++) {
        item_run(&q->items[i]);
    }
    gpu_memory_open(false);
    for (int i = 0; i < n; i++) {
        item_free(&q->items[i]);
    }
    q->n -= n;
    memmove(q->items, q->items + n, (size_t)q->n * sizeof *q->items);
    return the.status;
}

int gpu_stream_run(gpu_stream *s)
{
    return some_run(s, s->queue.n);
}

int gpu_streams_run(void)
{
    for (int i = 0; i < STREAMS; i++) {
        if (the.streams[i] != NULL) {
            (void)gpu_stream_run(the.streams[i]);
        }
    }
    return the.status;
}

int gpu_item_now(gpu_item i)
{
    gpu_memory_open(true);
    item_run(&i);
    gpu_memory_open(false);
    return the.status;
}

/* --- streams, events, graphs ------------------------------------------------------------------- */

gpu_stream *gpu_stream_new(void)
{
    for (int i = 0; i < STREAMS; i++) {
        if (the.streams[i] == NULL) {
            return the.streams[i] = must(calloc(1, sizeof(gpu_stream)));
        }
    }
    return NULL;
}

void gpu_stream_free(gpu_stream *s)
{
    (void)gpu_stream_run(s);
    for (int i = 0; i < STREAMS; i++) {
        if (the.streams[i] == s) {
            the.streams[i] = NULL;
        }
    }
    free(s->queue.items);
    free(s);
}

int gpu_stream_add(gpu_stream *s, gpu_item i)
{
    list_add(s->captures != NULL ? s->captures : &s->queue, i);
    return the.status;
}

int gpu_event_record(gpu_event *e, gpu_stream *s)
{
    e->on = s;
    return gpu_stream_add(s, (gpu_item){.kind = GPU_ITEM_EVENT, .event = e, .number = ++e->asked});
}

int gpu_event_await(gpu_event *e)
{
    int n = 0;
    if (e->done == e->asked) {
        return the.status;
    }
    while (e->on->queue.items[n].event != e || e->on->queue.items[n].number != e->asked) {
        n++;
    }
    return some_run(e->on, n + 1);
}

void gpu_capture_begin(gpu_stream *s)
{
    s->captures = must(calloc(1, sizeof *s->captures));
}

gpu_list *gpu_capture_end(gpu_stream *s)
{
    gpu_list *l = s->captures;
    s->captures = NULL;
    return l;
}

int gpu_list_launch(const gpu_list *l, gpu_stream *s)
{
    for (int i = 0; i < l->n; i++) {
        (void)gpu_stream_add(s, item_copy(l->items[i]));
    }
    return the.status;
}

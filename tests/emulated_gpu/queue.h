/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the emulated GPU, which run as late as they may, and graphs, which are lists of the same
 * items.
 * Threads: under the driver's lock. */
#ifndef EMULATED_GPU_QUEUE_H
#define EMULATED_GPU_QUEUE_H

#include "emulated_gpu/gpu.h"

enum { GPU_LOST = 719 };

typedef struct gpu_stream gpu_stream;

/* How often it was recorded, and the last time that has been reached. */
typedef struct gpu_event {
    gpu_stream *on;
    int64_t asked, done;
} gpu_event;

typedef enum gpu_item_kind {
    GPU_ITEM_LAUNCH,
    GPU_ITEM_COPY,
    GPU_ITEM_FILL,
    GPU_ITEM_EVENT
} gpu_item_kind;

typedef struct gpu_item {
    gpu_item_kind kind;
    gpu_launch launch; /* with arguments of its own */
    char *to;
    const char *from;
    size_t bytes;
    int value;
    gpu_event *event;
    int64_t number; /* of the recording */
} gpu_item;

typedef struct gpu_list {
    gpu_item *items;
    int n, room;
} gpu_list;

/* Items that are asked for go to `captures`, where that is not NULL. */
struct gpu_stream {
    gpu_list queue;
    gpu_list *captures;
};

/* 0, or GPU_LOST for ever after a fault, which `gpu_queue_why` tells. */
int gpu_queue_status(void);
const char *gpu_queue_why(void);

gpu_stream *gpu_stream_new(void); /* NULL: there are too many */
void gpu_stream_free(gpu_stream *s);
int gpu_stream_add(gpu_stream *s, gpu_item i);
int gpu_stream_run(gpu_stream *s); /* all of it */
int gpu_streams_run(void);
int gpu_item_now(gpu_item i); /* beside all streams */

int gpu_event_record(gpu_event *e, gpu_stream *s);
int gpu_event_await(gpu_event *e);

void gpu_capture_begin(gpu_stream *s);
gpu_list *gpu_capture_end(gpu_stream *s);
gpu_list *gpu_list_copy(const gpu_list *from);
int gpu_list_launch(const gpu_list *l, gpu_stream *s);
void gpu_list_free(gpu_list *l);

/* The arguments of a launch for an item. */
void *gpu_args_copy(const gpu_launch *l);

#endif

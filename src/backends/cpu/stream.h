/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's stream: a list of commands that the workers walk when it is flushed (by sync, by a copy, or
 * when it is full). Recording decides where barriers go.
 * Threads: one owner. */
#ifndef WHIM_BACKENDS_CPU_STREAM_H
#define WHIM_BACKENDS_CPU_STREAM_H

#include "backends/cpu/access.h"
#include "backends/cpu/cpu.h"

enum {
    CPU_LIST_MAX = 4096,           /* commands before a flush */
    CPU_OPEN_MAX = 256,            /* accesses remembered since the last barrier */
    CPU_Q8_BYTES = 4 * 1024 * 1024 /* quantised activations of one product */
};

typedef struct whim_cpu_stream {
    whim_stream base;
    whim_cpu_device *dev;
    whim_cpu_command *list; /* [CPU_LIST_MAX] */
    int64_t n_list;
    whim_access open[CPU_OPEN_MAX]; /* accesses since the last barrier */
    int32_t n_open;
    void *q8;            /* CPU_Q8_BYTES of int8 rows (packing.h), shared by all workers */
    whim_access q8_from; /* what q8 holds the quantised form of; n_row 0: nothing */
    whim_graph *capture; /* not NULL while recording a graph */
} whim_cpu_stream;

struct whim_graph {
    whim_cpu_command *commands;
    int64_t n_command, capacity;
};

/* Append a command; `accesses` decide about a barrier before it. */
whim_err whim_cpu_push(whim_cpu_stream *s, whim_cpu_kernel *kernel, const void *args,
                       int64_t args_bytes, const whim_access *accesses, int32_t n_access);

#endif

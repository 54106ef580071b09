/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's stream: lists of commands that the workers walk, one after the other (queue.h).
 * Recording decides where barriers go.
 * Threads: one owner. */
#ifndef WHIM_BACKENDS_CPU_STREAM_H
#define WHIM_BACKENDS_CPU_STREAM_H

#include "backends/cpu/access.h"
#include "backends/cpu/attn_plan.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/queue.h"

/* Tests open thousands of streams, and every page is cleared: theirs have less, so that products
 * are made in parts, too, which the program does with long prompts only. Sixteen narrow rows must
 * fit, so tests take rows of some 32,000 values, a sixteenth of what the program takes. */
enum {
    CPU_OPEN_MAX = 256, /* accesses remembered since the last barrier */
#ifdef WHIM_DEBUG
    CPU_Q8_BYTES = 1024 * 1024,
#else
    CPU_Q8_BYTES = 16 * 1024 * 1024, /* narrow activations of one product */
#endif
};

/* A norm of few rows that waits: the products that read its result make it for themselves and go
 * ahead; the norm itself runs beside later work, after a barrier that is needed anyway. */
typedef struct whim_cpu_later {
    whim_cpu_kernel *kernel;
    _Alignas(16) char args[WHIM_OP_ARGS_MAX];
    int64_t args_bytes;
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n_access;           /* 0: nothing waits */
    whim_add_rmsnorm_args norm; /* what it computes; delta NULL: no sum before the norm */
} whim_cpu_later;

typedef struct whim_cpu_kept {
    whim_access x, delta; /* x.n_row 0: nothing is kept */
    const float *norm;
    float eps;
    whim_cpu_kernel *narrow; /* what gives their narrow form; NULL: none */
} whim_cpu_kept;

typedef struct whim_cpu_stream {
    whim_stream base;
    whim_cpu_device *dev;
    whim_cpu_queue queue;
    whim_cpu_command *list;         /* [CPU_LIST_MAX] of the part that is recorded */
    int64_t n_list, n_run;          /* commands in it; those that belong to a run already */
    bool fence;                     /* the next command needs a barrier */
    whim_access open[CPU_OPEN_MAX]; /* accesses since the last barrier */
    int32_t n_open;
    void *q8; /* CPU_Q8_BYTES of int8 or BF16 rows (packing.h), shared by all workers */
    whim_cpu_kernel *q8_by; /* what made them */
    whim_access q8_from;    /* what q8 holds the narrow form of; n_row 0: nothing */
    whim_cpu_later later;
    whim_cpu_kept kept;     /* what the workers' own rows were made from */
    whim_attn_shared *attn; /* of the attention command that runs */
    whim_graph *capture;    /* not NULL while recording a graph */
} whim_cpu_stream;

struct whim_graph {
    whim_cpu_command *commands;
    int64_t n_command, capacity;
};

/* Make room for two commands: a full list runs, and with it what waits. */
whim_err whim_cpu_room(whim_cpu_stream *s);

/* Let the norm that waits run before a command with these accesses, if they have memory in
 * common. */
whim_err whim_cpu_settle(whim_cpu_stream *s, const whim_access *accesses, int32_t n_access);

/* Append a command; `accesses` decide about a barrier before it, and whether what waits comes
 * first. */
whim_err whim_cpu_push(whim_cpu_stream *s, whim_cpu_kernel *kernel, const void *args,
                       int64_t args_bytes, const whim_access *accesses, int32_t n_access);

/* The same for a product that goes ahead of the norm that waits; after whim_cpu_room. */
whim_err whim_cpu_push_ahead(whim_cpu_stream *s, whim_cpu_kernel *kernel, const void *args,
                             int64_t args_bytes, const whim_access *accesses, int32_t n_access);

/* The same between two barriers: for what no list of accesses tells all about. */
whim_err whim_cpu_push_fenced(whim_cpu_stream *s, whim_cpu_kernel *kernel, const void *args,
                              int64_t args_bytes, const whim_access *accesses, int32_t n_access);

/* Collectives (comm_cpu.c). */
void whim_cpu_comm_ops_init(whim_ops *ops);

/* moe_experts (moe_cpu.c). */
whim_err whim_cpu_op_moe_experts(whim_stream *s, const whim_moe_experts_args *a);

/* Let a norm wait, after the one that waits already; `norm` says what it computes. */
whim_err whim_cpu_push_later(whim_cpu_stream *s, whim_op op, whim_cpu_kernel *kernel,
                             const void *args, const whim_add_rmsnorm_args *norm);

#endif

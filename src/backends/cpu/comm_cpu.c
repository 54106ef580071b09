/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in the command list. Worker 0 talks to the peers; the others go on to the next
 * barrier, but for long sums, of which each does a part. Commands keep their order on worker 0, so
 * ranks that queue the same collectives come to them in the same order. */
#include "backends/cpu/stream.h"
#include "comm/comm.h"
#include "ops/compose/compose.h"

#include <assert.h>
#include <string.h>

typedef struct comm_args {
    _Alignas(16) char args[64]; /* of the op */
    whim_op op;
    whim_comm *comm;
    whim_cpu_queue *queue;
} comm_args;

static_assert(sizeof(comm_args) <= WHIM_OP_ARGS_MAX, "command too small");
#undef WHIM_PRIM
#undef WHIM_FUSED
#define WHIM_PRIM(name)
#define WHIM_FUSED(name)
#define WHIM_COMM(name) \
    static_assert(sizeof(whim_##name##_args) <= sizeof(((comm_args *)NULL)->args), "too large");
#include "ops/ops.def"

/* A sum of as many bytes is worth the barriers that all workers need for it. */
enum { LONG_BYTES = 128 * 1024 };

static void failed(const comm_args *a, const whim_cpu_worker *worker, whim_err err)
{
    a->queue->run_err = err;
    whim_cpu_list_stop(worker);
}

static void long_sum_kernel(const void *args, const whim_cpu_worker *worker)
{
    const comm_args *a = args;
    const whim_all_reduce_args *sum = (const void *)a->args;
    int64_t n = sum->n_row * sum->n_col, n_round = whim_comm_long_rounds(n);
    for (int64_t i = 0; i < n_round; i++) {
        whim_comm_long_work(a->comm, sum->x, n, i, worker->index, worker->count);
        whim_cpu_meet(worker);
        whim_err err =
            worker->index == 0 ? whim_comm_long_round(a->comm, n, i, sum->site) : WHIM_ERR_OK;
        if (err != WHIM_ERR_OK) {
            failed(a, worker, err);
        }
        whim_cpu_meet(worker);
        if (a->queue->run_err != WHIM_ERR_OK) { /* written before the barrier, or never */
            return;
        }
    }
    whim_comm_long_work(a->comm, sum->x, n, n_round, worker->index, worker->count);
}

static void comm_kernel(const void *args, const whim_cpu_worker *worker)
{
    const comm_args *a = args;
    if (worker->index != 0) {
        return;
    }
    whim_stream law;
    whim_law_stream_init(&law);
    law.comm = a->comm;
    whim_err err = whim_op_call(&law, a->op, a->args);
    if (err != WHIM_ERR_OK) {
        failed(a, worker, err);
    }
}

static whim_cpu_kernel *kernel_of(const whim_cpu_stream *s, whim_op op, const void *args)
{
    const whim_all_reduce_args *sum = args;
    bool is_long = op == WHIM_OP_all_reduce && s->dev->workers.count > 1 &&
                   sum->n_row * sum->n_col * (int64_t)sizeof *sum->x > LONG_BYTES;
    return is_long ? long_sum_kernel : comm_kernel;
}

static whim_err push(whim_stream *base, whim_op op, const void *args)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    comm_args a = {.op = op, .comm = base->comm, .queue = &s->queue};
    memcpy(a.args, args, (size_t)whim_op_args_bytes(op));
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_list(op, args, accesses);
    return (op == WHIM_OP_barrier ? whim_cpu_push_fenced : whim_cpu_push)(
        s, kernel_of(s, op, args), &a, sizeof a, accesses, n);
}

#define WHIM_COMM(name)                                                       \
    static whim_err op_##name(whim_stream *s, const whim_##name##_args *args) \
    {                                                                         \
        return whim_stream_is_alone(s) ? whim_alone_##name(s, args)           \
                                       : push(s, WHIM_OP_##name, args);       \
    }
#include "ops/ops.def"

void whim_cpu_comm_ops_init(whim_ops *ops)
{
#define WHIM_COMM(name) ops->name = op_##name;
#include "ops/ops.def"
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in the command list. Worker 0 talks to the peers; the others go on to the next
 * barrier, but for long messages, of which each moves a part. Commands keep their order on worker
 * 0, so ranks that queue the same collectives come to them in the same order. */
#include "backends/cpu/stream.h"
#include "ops/compose/compose.h"
#include "ops/ref/comm_ref.h"

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

/* A message of as many bytes is worth the barriers that all workers need for it. */
enum { LONG_BYTES = 128 * 1024 };

static void failed(const comm_args *a, const whim_cpu_worker *worker, whim_err err)
{
    a->queue->run_err = err;
    whim_cpu_list_stop(worker);
}

static void meet(const void *worker)
{
    whim_cpu_meet(worker);
}

static void team_kernel(const void *args, const whim_cpu_worker *worker)
{
    const comm_args *a = args;
    const whim_comm_team team = {worker->index, worker->count, meet, worker, &a->queue->team_err};
    whim_cpu_meet(worker); /* worker 0 may still be in the collective before, which counts rounds */
    whim_err err = whim_ref_comm(a->comm, &team, a->op, a->args);
    if (err != WHIM_ERR_OK && worker->index == 0) {
        failed(a, worker, err);
    }
    whim_cpu_meet(worker); /* peers may give anew what was read */
}

static void comm_kernel(const void *args, const whim_cpu_worker *worker)
{
    const comm_args *a = args;
    whim_err err = worker->index == 0 ? whim_ref_comm(a->comm, NULL, a->op, a->args) : WHIM_ERR_OK;
    if (err != WHIM_ERR_OK) {
        failed(a, worker, err);
    }
}

static bool wants_team(const whim_cpu_stream *s, whim_op op, int64_t bytes)
{
    return s->dev->workers.count > 1 && bytes > LONG_BYTES && whim_ref_comm_takes_team(op);
}

static whim_err push(whim_stream *base, whim_op op, const void *args, int64_t bytes)
{
    whim_cpu_stream *s = (whim_cpu_stream *)base;
    comm_args a = {.op = op, .comm = base->comm, .queue = &s->queue};
    memcpy(a.args, args, (size_t)whim_op_args_bytes(op));
    whim_access accesses[WHIM_ACCESS_MAX];
    int32_t n = whim_access_list(op, args, accesses);
    return (op == WHIM_OP_barrier ? whim_cpu_push_fenced : whim_cpu_push)(
        s, wants_team(s, op, bytes) ? team_kernel : comm_kernel, &a, sizeof a, accesses, n);
}

#define WHIM_COMM(name)                                                                            \
    static whim_err op_##name(whim_stream *s, const whim_##name##_args *args)                      \
    {                                                                                              \
        return whim_stream_is_alone(s) ? whim_alone_##name(s, args)                                \
                                       : push(s, WHIM_OP_##name, args, whim_##name##_bytes(args)); \
    }
#include "ops/ops.def"

void whim_cpu_comm_ops_init(whim_ops *ops)
{
#define WHIM_COMM(name) ops->name = op_##name;
#include "ops/ops.def"
}

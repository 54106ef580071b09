/* SPDX-License-Identifier: Apache-2.0 */
/* The op table of the recorder: it asks the device, and runs compositions on itself. */
#include "ops/recorder.h"

#include "ops/compose/compose.h"
#include "ops/operands.h"

#include <stdio.h>

static whim_err ask_workspace(whim_stream *s, whim_op op, const void *args)
{
    void *space;
    return whim_workspace_take(s, s->device->vt->op_workspace(s->device, op, args), &space);
}

static whim_err refuse(whim_recorder *r, whim_op op, const void *args)
{
    whim_op_text(op, args, r->refused, sizeof r->refused);
    return WHIM_ERR_UNSUPPORTED;
}

static void count(whim_recorder *r, whim_op op, int64_t comm_bytes)
{
    r->comm_bytes += comm_bytes;
    r->comm_most[op] = comm_bytes > r->comm_most[op] ? comm_bytes : r->comm_most[op];
}

#undef WHIM_PRIM
#undef WHIM_FUSED
#define RECORD(name, comm, otherwise)                                                \
    static whim_err record_##name(whim_stream *s, const whim_##name##_args *args)    \
    {                                                                                \
        whim_recorder *r = (whim_recorder *)s;                                       \
        int64_t n_op = r->n_op;                                                      \
        bool accepts = s->device->vt->op_accepts(s->device, WHIM_OP_##name, args);   \
        whim_err err = accepts ? ask_workspace(s, WHIM_OP_##name, args) : otherwise; \
        r->n_op = n_op + 1;                                                          \
        count(r, WHIM_OP_##name, comm);                                              \
        return err;                                                                  \
    }
#define WHIM_PRIM(name) RECORD(name, 0, refuse(r, WHIM_OP_##name, args))
#define WHIM_FUSED(name) RECORD(name, 0, whim_compose_##name(s, args))
#define WHIM_COMM(name)                     \
    RECORD(name, whim_##name##_bytes(args), \
           whim_stream_is_alone(s) ? whim_alone_##name(s, args) : refuse(r, WHIM_OP_##name, args))
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED
#define WHIM_PRIM(name) WHIM_OP(name)
#define WHIM_FUSED(name) WHIM_OP(name)

void whim_recorder_init(whim_recorder *recorder, whim_device *device)
{
    static const whim_ops ops = {
#define WHIM_OP(name) .name = record_##name,
#include "ops/ops.def"
#undef WHIM_OP
    };
    *recorder = (whim_recorder){.base = {.ops = &ops, .device = device}};
    recorder->base.workspace = (whim_workspace){.base = (char *)64, .bytes = INT64_MAX / 2};
}

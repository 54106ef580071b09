/* SPDX-License-Identifier: Apache-2.0 */
/* A table of ops that stands before a stream's own. */
#include "ops/trace.h"

#include "base/clock.h"
#include "ops/operands.h"

#include <stdio.h>

static void say(const whim_trace *trace, whim_op op, const void *args, int64_t ns)
{
    char line[1024];
    int used = snprintf(line, sizeof line, "%10.1f us  ", 1e-3 * (double)ns);
    whim_op_text(op, args, line + used, sizeof line - (size_t)used);
    trace->line(trace->ctx, line);
}

/* What a composition is made of belongs to it and gets no lines. */
static whim_err traced(whim_stream *s, whim_op op, const void *args)
{
    const whim_trace *trace = (const whim_trace *)s->device->watch;
    const whim_ops *before = s->ops;
    s->ops = trace->inner;
    int64_t start = whim_clock_ns();
    whim_err err = whim_op_call(s, op, args);
    err = err == WHIM_ERR_OK ? whim_stream_sync(s) : err;
    int64_t ns = whim_clock_ns() - start;
    s->ops = before;
    if (err == WHIM_ERR_OK) {
        say(trace, op, args, ns);
    }
    return err;
}

#define WHIM_OP(name)                                                            \
    static whim_err trace_##name(whim_stream *s, const whim_##name##_args *args) \
    {                                                                            \
        return traced(s, WHIM_OP_##name, args);                                  \
    }
#include "ops/ops.def"
#undef WHIM_OP

static const whim_ops trace_ops = {
#define WHIM_OP(name) .name = trace_##name,
#include "ops/ops.def"
#undef WHIM_OP
};

/* All streams of a device have its one table. */
static void opened(whim_stream_watch *watch, whim_stream *s)
{
    ((whim_trace *)watch)->inner = s->ops;
    s->ops = &trace_ops;
}

whim_stream_watch *whim_trace_watch(whim_trace *trace)
{
    trace->watch.opened = opened;
    return &trace->watch;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The op table of the recorder. */
#include "ops/recorder.h"

#define WHIM_OP(name)                                                             \
    static whim_err record_##name(whim_stream *s, const whim_##name##_args *args) \
    {                                                                             \
        (void)args;                                                               \
        ((whim_recorder *)s)->n_op[WHIM_OP_##name]++;                             \
        return WHIM_ERR_OK;                                                       \
    }
#include "ops/ops.def"
#undef WHIM_OP

void whim_recorder_init(whim_recorder *recorder)
{
    static const whim_ops ops = {
#define WHIM_OP(name) .name = record_##name,
#include "ops/ops.def"
#undef WHIM_OP
    };
    *recorder = (whim_recorder){.base = {.ops = &ops}};
}

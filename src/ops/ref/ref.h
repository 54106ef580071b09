/* SPDX-License-Identifier: Apache-2.0 */
/* The law: every primitive in plain C, on host memory, at once. These functions say what an op
 * means to the last bit, the order of every sum included; they are never optimised. The stream is
 * unused but for collectives, which take its comm.
 * Threads: stateless. */
#ifndef WHIM_OPS_REF_REF_H
#define WHIM_OPS_REF_REF_H

#include "ops/ops.h"

#undef WHIM_PRIM
#undef WHIM_FUSED
#define WHIM_PRIM(name) whim_err whim_ref_##name(whim_stream *s, const whim_##name##_args *a);
#define WHIM_FUSED(name)
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED
#define WHIM_PRIM(name) WHIM_OP(name)
#define WHIM_FUSED(name) WHIM_OP(name)

#endif

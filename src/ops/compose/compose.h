/* SPDX-License-Identifier: Apache-2.0 */
/* Fused ops written with other ops on the same stream. On the law's table a composition is the
 * fused op's law; on a backend without a kernel for it, it is what runs. A composition has no
 * memory but the op's own outputs and what it takes of the workspace, which WHIM_SPACE of
 * operands.def names.
 * And collectives as they are for the only rank of a group, on any backend; UNSUPPORTED for a
 * stream that has peers. */
#ifndef WHIM_OPS_COMPOSE_COMPOSE_H
#define WHIM_OPS_COMPOSE_COMPOSE_H

#include "ops/ops.h"

#undef WHIM_PRIM
#undef WHIM_FUSED
#define WHIM_PRIM(name)
#define WHIM_FUSED(name) whim_err whim_compose_##name(whim_stream *s, const whim_##name##_args *a);
#define WHIM_COMM(name) whim_err whim_alone_##name(whim_stream *s, const whim_##name##_args *a);
#include "ops/ops.def"
#undef WHIM_PRIM
#undef WHIM_FUSED
#define WHIM_PRIM(name) WHIM_OP(name)
#define WHIM_FUSED(name) WHIM_OP(name)

/* Whether a stream is the only rank of its group. */
bool whim_stream_is_alone(const whim_stream *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The op table and its callers, all made from ops.def. An op has one signature,
 *     whim_err op(whim_stream *, const whim_<op>_args *)
 * and is called as whim_op_<op>(stream, &(whim_<op>_args){...}). The inline caller checks the
 * arguments that the host can see. For what is in device memory, whoever calls it vouches.
 * Threads: as the stream. */
#ifndef WHIM_OPS_OPS_H
#define WHIM_OPS_OPS_H

#include "base/err.h"
#include "device/device.h"
#include "ops/args/attn_args.h"
#include "ops/args/comm_args.h"
#include "ops/args/draft_args.h"
#include "ops/args/gdn_args.h"
#include "ops/args/linear_args.h"
#include "ops/args/moe_args.h"
#include "ops/args/rope_args.h"
#include "ops/args/row_args.h"
#include "ops/args/sample_args.h"

#define WHIM_PRIM(name) WHIM_OP(name)
#define WHIM_FUSED(name) WHIM_OP(name)

typedef enum whim_op {
#define WHIM_OP(name) WHIM_OP_##name,
#include "ops/ops.def"
#undef WHIM_OP
    WHIM_OP_COUNT
} whim_op;

typedef struct whim_ops {
#define WHIM_OP(name) whim_err (*name)(whim_stream *, const whim_##name##_args *);
#include "ops/ops.def"
#undef WHIM_OP
} whim_ops;

/* Argument checks: WHIM_ERR_INVALID for a shape, stride or type that no implementation may see. */
#define WHIM_OP(name) WHIM_MUST_CHECK whim_err whim_##name##_check(const whim_##name##_args *args);
#include "ops/ops.def"
#undef WHIM_OP

/* The callers: check, then the stream's own implementation. What that takes of the workspace is
 * given back. */
#define WHIM_OP(name)                                                                     \
    WHIM_MUST_CHECK static inline whim_err whim_op_##name(whim_stream *s,                 \
                                                          const whim_##name##_args *args) \
    {                                                                                     \
        WHIM_TRY(whim_##name##_check(args));                                              \
        int64_t used = s->workspace.used;                                                 \
        whim_err err = s->ops->name(s, args);                                             \
        s->workspace.used = used;                                                         \
        return err;                                                                       \
    }
#include "ops/ops.def"
#undef WHIM_OP

/* The name of an op, and whether it is a fused one. */
const char *whim_op_name(whim_op op);
bool whim_op_is_fused(whim_op op);

/* Call op number `op` with type-erased arguments (graph replay, test harness). */
WHIM_MUST_CHECK whim_err whim_op_call(whim_stream *s, whim_op op, const void *args);

/* Bytes of the argument struct of an op; the largest is WHIM_OP_ARGS_MAX. */
int64_t whim_op_args_bytes(whim_op op);
enum { WHIM_OP_ARGS_MAX = 192 };

/* Fill the holes of a backend's table: fused ops get their compositions, collectives what they are
 * for one rank, primitives a refusal (UNSUPPORTED). */
void whim_ops_fill(whim_ops *table);

/* Whether a filled table has an implementation of its own for an op. */
bool whim_ops_has(const whim_ops *table, whim_op op);

/* The law: primitives in plain C, fused ops as compositions of them. */
const whim_ops *whim_ops_law(void);

/* Bytes of workspace that an op takes on the law's table; of a fused op that is what its
 * composition takes on any. */
int64_t whim_law_workspace(whim_op op, const void *args);

/* A stream that runs every op at once on the law's table, on host memory. Its workspace is the
 * caller's to set. */
void whim_law_stream_init(whim_stream *s);

#endif

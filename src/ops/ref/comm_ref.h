/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives for backends that have rows in host memory: the law's, by several threads. */
#ifndef WHIM_OPS_REF_COMM_REF_H
#define WHIM_OPS_REF_COMM_REF_H

#include "comm/comm.h"
#include "ops/ops.h"

/* Whether a team may call it. */
bool whim_ref_comm_takes_team(whim_op op);

/* The collective `op` with its arguments, of a comm that has peers. */
WHIM_MUST_CHECK whim_err whim_ref_comm(whim_comm *comm, const whim_comm_team *team, whim_op op,
                                       const void *args);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The law of collectives: those of comm/ on host memory. What ranks' arrays become is written out
 * once more, as loops over arrays of ranks, in tests/checkop/ranks.c. */
#include "ops/ref/comm_ref.h"

#include "ops/compose/compose.h"
#include "ops/ref/ref.h"

/* Arguments that were made for another group. */
static whim_err fits(const whim_comm *comm, int32_t n_rank, int32_t rank)
{
    return n_rank == comm->n_rank && rank == comm->rank ? WHIM_ERR_OK : WHIM_ERR_INVALID;
}

static whim_comm *comm_of(whim_comm *own, whim_among among)
{
    whim_comm_cuts *cuts = own->cuts;
    return cuts == NULL || among == WHIM_AMONG_OWN ? own
           : among == WHIM_AMONG_ALL               ? (own->of != NULL ? own->of : own)
           : among == WHIM_AMONG_BESIDE            ? &cuts->beside
                                                   : &cuts->across;
}

static whim_err comm_all_reduce(whim_comm *own, const whim_comm_team *team,
                                const whim_all_reduce_args *a)
{
    return whim_comm_all_reduce(comm_of(own, a->among), team, a->x, a->n_row * a->n_col, a->site);
}

static whim_err comm_all_gather_v(whim_comm *own, const whim_comm_team *team,
                                  const whim_all_gather_v_args *a)
{
    whim_comm *comm = comm_of(own, a->among);
    WHIM_TRY(fits(comm, a->n_rank, a->rank));
    return whim_comm_all_gather_rows(comm, team, a->x, a->cols, a->n_row, a->y, a->site);
}

static whim_err comm_reduce_scatter_v(whim_comm *own, const whim_comm_team *team,
                                      const whim_reduce_scatter_v_args *a)
{
    whim_comm *comm = comm_of(own, a->among);
    WHIM_TRY(fits(comm, a->n_rank, a->rank));
    return whim_comm_reduce_scatter_rows(comm, team, a->x, a->cols, a->n_row, a->y, a->site);
}

static whim_err comm_moe_dispatch(whim_comm *comm, const whim_comm_team *team,
                                  const whim_moe_dispatch_args *a)
{
    WHIM_TRY(fits(comm, a->n_rank, a->rank));
    const whim_comm_rows rows = {.x = (char *)a->x,
                                 .n = a->n_row,
                                 .row_bytes = a->n_col * (int64_t)sizeof *a->x,
                                 .keys = a->ids,
                                 .firsts = a->firsts,
                                 .n_key = a->k_top};
    return whim_comm_exchange(comm, team, &rows, a->site);
}

static whim_err comm_moe_exchange(whim_comm *comm, const whim_comm_team *team,
                                  const whim_moe_exchange_args *a)
{
    WHIM_TRY(fits(comm, a->n_rank, a->rank));
    const whim_comm_rows rows = {.x = (char *)a->x,
                                 .n = a->n_row * a->k_top,
                                 .row_bytes = a->n_col * (int64_t)sizeof *a->x,
                                 .keys = a->ids,
                                 .firsts = a->firsts,
                                 .wanted_by_each = a->all ? 0 : a->k_top};
    return whim_comm_exchange(comm, team, &rows, a->site);
}

static whim_err comm_broadcast(whim_comm *own, const whim_broadcast_args *a)
{
    whim_comm *comm = comm_of(own, a->among);
    return a->root < comm->n_rank ? whim_comm_broadcast(comm, a->x, a->bytes, a->root, a->site)
                                  : WHIM_ERR_INVALID;
}

bool whim_ref_comm_takes_team(whim_op op)
{
    return op == WHIM_OP_all_reduce || op == WHIM_OP_all_gather_v ||
           op == WHIM_OP_reduce_scatter_v || op == WHIM_OP_moe_dispatch ||
           op == WHIM_OP_moe_exchange;
}

whim_err whim_ref_comm(whim_comm *comm, const whim_comm_team *team, whim_op op, const void *args)
{
    switch (op) {
    case WHIM_OP_all_reduce:
        return comm_all_reduce(comm, team, args);
    case WHIM_OP_all_gather_v:
        return comm_all_gather_v(comm, team, args);
    case WHIM_OP_reduce_scatter_v:
        return comm_reduce_scatter_v(comm, team, args);
    case WHIM_OP_moe_dispatch:
        return comm_moe_dispatch(comm, team, args);
    case WHIM_OP_moe_exchange:
        return comm_moe_exchange(comm, team, args);
    case WHIM_OP_broadcast:
        return comm_broadcast(comm, args);
    default:
        return whim_comm_barrier(comm, ((const whim_barrier_args *)args)->site);
    }
}

#undef WHIM_PRIM
#undef WHIM_FUSED
#define WHIM_PRIM(name)
#define WHIM_FUSED(name)
#define WHIM_COMM(name)                                                                   \
    whim_err whim_ref_##name(whim_stream *s, const whim_##name##_args *a)                 \
    {                                                                                     \
        return whim_stream_is_alone(s) ? whim_alone_##name(s, a)                          \
                                       : whim_ref_comm(s->comm, NULL, WHIM_OP_##name, a); \
    }
#include "ops/ops.def"

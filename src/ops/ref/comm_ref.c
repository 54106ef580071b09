/* SPDX-License-Identifier: Apache-2.0 */
/* The law of collectives: those of comm/ on host memory. What ranks' arrays become is written out
 * once more, as loops over arrays of ranks, in tests/checkop/ranks.c. */
#include "comm/comm.h"
#include "ops/compose/compose.h"
#include "ops/ref/ref.h"

/* Arguments that were made for another group. */
static whim_err fits(const whim_comm *comm, int32_t n_rank, int32_t rank)
{
    return n_rank == comm->n_rank && rank == comm->rank ? WHIM_ERR_OK : WHIM_ERR_INVALID;
}

/* Where the stream's ranks are some of all, those of a list for all are all. */
static whim_comm *comm_of(const whim_stream *s, int32_t n_rank)
{
    whim_comm *all = s->comm->of;
    return all != NULL && n_rank == all->n_rank ? all : s->comm;
}

whim_err whim_ref_all_reduce(whim_stream *s, const whim_all_reduce_args *a)
{
    return whim_stream_is_alone(s)
               ? whim_alone_all_reduce(s, a)
               : whim_comm_all_reduce(s->comm, a->x, a->n_row * a->n_col, a->site);
}

whim_err whim_ref_all_gather_v(whim_stream *s, const whim_all_gather_v_args *a)
{
    if (whim_stream_is_alone(s)) {
        return whim_alone_all_gather_v(s, a);
    }
    whim_comm *comm = comm_of(s, a->n_rank);
    WHIM_TRY(fits(comm, a->n_rank, a->rank));
    return whim_comm_all_gather_rows(comm, a->x, a->cols, a->n_row, a->y, a->site);
}

whim_err whim_ref_reduce_scatter_v(whim_stream *s, const whim_reduce_scatter_v_args *a)
{
    if (whim_stream_is_alone(s)) {
        return whim_alone_reduce_scatter_v(s, a);
    }
    whim_comm *comm = comm_of(s, a->n_rank);
    WHIM_TRY(fits(comm, a->n_rank, a->rank));
    return whim_comm_reduce_scatter_rows(comm, a->x, a->cols, a->n_row, a->y, a->site);
}

whim_err whim_ref_all_to_all_v(whim_stream *s, const whim_all_to_all_v_args *a)
{
    if (whim_stream_is_alone(s)) {
        return whim_alone_all_to_all_v(s, a);
    }
    WHIM_TRY(fits(s->comm, a->n_rank, a->rank));
    return whim_comm_all_to_all(s->comm, a->x, a->send, a->y, a->take, a->site);
}

whim_err whim_ref_moe_exchange(whim_stream *s, const whim_moe_exchange_args *a)
{
    if (whim_stream_is_alone(s)) {
        return whim_alone_moe_exchange(s, a);
    }
    WHIM_TRY(fits(s->comm, a->n_rank, a->rank));
    const whim_comm_rows rows = {.x = (char *)a->x,
                                 .n = a->n_row * a->k_top,
                                 .row_bytes = a->n_col * (int64_t)sizeof *a->x,
                                 .keys = a->ids,
                                 .firsts = a->firsts,
                                 .wanted_by_each = a->all ? 0 : a->k_top};
    return whim_comm_exchange(s->comm, &rows, a->site);
}

whim_err whim_ref_broadcast(whim_stream *s, const whim_broadcast_args *a)
{
    if (whim_stream_is_alone(s)) {
        return whim_alone_broadcast(s, a);
    }
    return a->root < s->comm->n_rank
               ? whim_comm_broadcast(s->comm, a->x, a->bytes, a->root, a->site)
               : WHIM_ERR_INVALID;
}

whim_err whim_ref_barrier(whim_stream *s, const whim_barrier_args *a)
{
    return whim_stream_is_alone(s) ? whim_alone_barrier(s, a) : whim_comm_barrier(s->comm, a->site);
}

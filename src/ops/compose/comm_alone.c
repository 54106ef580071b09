/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of one rank: its own part is all there is. */
#include "comm/comm.h"
#include "ops/compose/compose.h"

/* A block of one rank may have others beside it. */
bool whim_stream_is_alone(const whim_stream *s)
{
    return s->comm == NULL || (s->comm->n_rank == 1 && s->comm->cuts == NULL);
}

/* With peers, whoever is here has no way to them. */
static whim_err alone(const whim_stream *s, int32_t n_rank)
{
    return !whim_stream_is_alone(s) ? WHIM_ERR_UNSUPPORTED
           : n_rank != 1            ? WHIM_ERR_INVALID
                                    : WHIM_ERR_OK;
}

static whim_err copy(whim_stream *s, void *to, const void *from, int64_t bytes)
{
    return to == from ? WHIM_ERR_OK
                      : whim_op_copy_bytes(
                            s, &(whim_copy_bytes_args){.dst = to, .src = from, .bytes = bytes});
}

whim_err whim_alone_all_reduce(whim_stream *s, const whim_all_reduce_args *a)
{
    (void)a;
    return alone(s, 1);
}

whim_err whim_alone_all_gather_v(whim_stream *s, const whim_all_gather_v_args *a)
{
    WHIM_TRY(alone(s, a->n_rank));
    return copy(s, a->y, a->x, a->n_row * a->cols[0] * (int64_t)sizeof *a->y);
}

whim_err whim_alone_reduce_scatter_v(whim_stream *s, const whim_reduce_scatter_v_args *a)
{
    WHIM_TRY(alone(s, a->n_rank));
    return copy(s, a->y, a->x, a->n_row * a->cols[0] * (int64_t)sizeof *a->y);
}

whim_err whim_alone_moe_dispatch(whim_stream *s, const whim_moe_dispatch_args *a)
{
    return alone(s, a->n_rank);
}

whim_err whim_alone_moe_exchange(whim_stream *s, const whim_moe_exchange_args *a)
{
    return alone(s, a->n_rank);
}

whim_err whim_alone_broadcast(whim_stream *s, const whim_broadcast_args *a)
{
    return alone(s, a->root + 1);
}

whim_err whim_alone_barrier(whim_stream *s, const whim_barrier_args *a)
{
    (void)a;
    return alone(s, 1);
}

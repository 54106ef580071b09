/* SPDX-License-Identifier: Apache-2.0 */
/* The largest message of a rank's steps. */
#include "comm/comm.h"
#include "golden/ranks.h"
#include "ops/ops.h"

/* What a collective tells is counted when it has run, so each is waited for. */
static whim_err after(whim_stream *s, whim_err err, int64_t before)
{
    rank_meter *m = (rank_meter *)s->device->watch;
    const whim_comm *all = s->comm->of != NULL ? s->comm->of : s->comm;
    err = err == WHIM_ERR_OK ? whim_stream_sync(s) : err;
    m->most = all->n_byte - before > m->most ? all->n_byte - before : m->most;
    return err;
}

static whim_err count_before(whim_stream *s, int64_t *n)
{
    WHIM_TRY(whim_stream_sync(s));
    *n = (s->comm->of != NULL ? s->comm->of : s->comm)->n_byte;
    return WHIM_ERR_OK;
}

#define METERED(name)                                                           \
    static whim_err metered_##name(whim_stream *s, const whim_##name##_args *a) \
    {                                                                           \
        const rank_meter *m = (const rank_meter *)s->device->watch;             \
        int64_t before;                                                         \
        if (!m->on) {                                                           \
            return m->inner->name(s, a);                                        \
        }                                                                       \
        WHIM_TRY(count_before(s, &before));                                     \
        return after(s, m->inner->name(s, a), before);                          \
    }
METERED(all_reduce)
METERED(all_gather_v)
METERED(reduce_scatter_v)
METERED(moe_dispatch)
METERED(moe_exchange)

static void opened(whim_stream_watch *watch, whim_stream *s)
{
    rank_meter *m = (rank_meter *)watch;
    m->inner = s->ops;
    m->ops = *s->ops;
    m->ops.all_reduce = metered_all_reduce;
    m->ops.all_gather_v = metered_all_gather_v;
    m->ops.reduce_scatter_v = metered_reduce_scatter_v;
    m->ops.moe_dispatch = metered_moe_dispatch;
    m->ops.moe_exchange = metered_moe_exchange;
    s->ops = &m->ops;
}

whim_stream_watch *rank_meter_watch(rank_meter *m)
{
    *m = (rank_meter){.watch = {.opened = opened}};
    return &m->watch;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One rank whose sums are a last bit off. */
#include "base/math/rng.h"
#include "golden/ranks.h"
#include "ops/ops.h"

#include <math.h>

typedef struct nudge {
    whim_stream_watch watch;
    const whim_ops *inner; /* what the ops do */
    whim_ops ops;
    uint64_t seed;
} nudge;

/* Some columns up, some down, some not: the same in every row, however rows are cut into steps. */
static whim_err move(whim_stream *s, const float *x, int64_t stride, int64_t n_row, int64_t n_col)
{
    const nudge *n = (const nudge *)s->device->watch;
    float *own = (float *)(uintptr_t)x;
    WHIM_TRY(whim_stream_sync(s)); /* the products that make it are done */
    for (int64_t i = 0; i < n_row * n_col; i++) {
        float *value = &own[i / n_col * stride + i % n_col];
        uint64_t way = whim_rng_at(n->seed, (uint64_t)(i % n_col)) % 3;
        *value = way == 0 ? *value : nextafterf(*value, way == 1 ? INFINITY : -INFINITY);
    }
    return WHIM_ERR_OK;
}

static whim_err moved_add_rmsnorm(whim_stream *s, const whim_add_rmsnorm_args *a)
{
    WHIM_TRY(move(s, a->delta, a->delta_stride, a->n_row, a->n_col));
    return ((const nudge *)s->device->watch)->inner->add_rmsnorm(s, a);
}

static whim_err moved_add(whim_stream *s, const whim_add_args *a)
{
    WHIM_TRY(move(s, a->y, a->y_stride, a->n_row, a->n_col));
    return ((const nudge *)s->device->watch)->inner->add(s, a);
}

static void opened(whim_stream_watch *watch, whim_stream *s)
{
    nudge *n = (nudge *)watch;
    n->inner = s->ops;
    n->ops = *s->ops;
    n->ops.add_rmsnorm = moved_add_rmsnorm;
    n->ops.add = moved_add;
    s->ops = &n->ops;
}

bool ranks_run_nudged(rank_member *out, rank_member *like, uint64_t seed)
{
    nudge n = {.watch = {.opened = opened}, .seed = seed};
    rank_member with = *like;
    with.watch = &n.watch;
    with.once = true;
    with.speaks = false;
    bool good = ranks_run(out, 1, &with);
    like->diag = with.diag;
    return good;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of the model: eagerly, or by the graph that was recorded when its bucket was first
 * seen. */
#include "base/alloc.h"
#include "runner/exec/inner.h"

static whim_err forward(whim_exec *x, const whim_graph_key *key)
{
    const whim_step_size *bucket = &key->bucket;
    whim_batch_cut cut;
    whim_batch batch = {
        .kv = {.pages = x->kv,
               .page_stride = x->plan.page_bytes,
               .type = x->cfg.kv_type,
               .page_len = x->cfg.page_len},
        .kv_offsets = x->kv_offsets,
        .state = whim_exec_states(x),
        .embeds = (key->flags & WHIM_STEP_EMBEDS) != 0 ? x->embeds : NULL,
        .kept = (key->flags & WHIM_STEP_KEEP) != 0 ? x->kept.rows : NULL,
        .max_kept = x->kept.max_rows,
        .drafts = (key->flags & WHIM_STEP_DRAFT) != 0,
        .before = x->befores.rows,
        .cut = key->own_rows > 0 ? &cut : NULL,
        .n_meet = key->meet_rows,
        .pads = x->cfg.graphs,
    };
    whim_step_view(x->block, &x->limits, bucket, &batch);
    whim_late_view(&x->late, &key->late, &batch);
    if (key->own_rows > 0) {
        whim_cut_view(&x->cut.cfg, x->cut.arrays, key->own_rows, bucket->n_seq, &cut);
    }
    whim_bump bump = {.base = x->activations, .size = x->plan.activation_bytes};
    whim_out out = {.scratch = &bump};
    whim_outputs_view_own(&x->outputs, bucket->n_top, &out);
    return x->def->forward(x->model, x->stream, &batch, &out);
}

/* Record the pass of a bucket. A bucket's first step records; later ones only replay. */
static whim_err record(whim_exec *x, whim_graph_slot *slot, const whim_graph_key *key)
{
    whim_alloc_guard_leave();
    whim_err err = x->stream->vt->capture_begin(x->stream);
    if (err == WHIM_ERR_OK) {
        err = forward(x, key);
        whim_graph *graph = NULL;
        whim_err end = x->stream->vt->capture_end(x->stream, &graph);
        err = err != WHIM_ERR_OK ? err : end;
        if (err != WHIM_ERR_OK && graph != NULL) { /* half a pass must never be replayed */
            x->stream->vt->graph_free(x->stream, graph);
            graph = NULL;
        }
        slot->graph = graph;
    }
    whim_alloc_guard_enter();
    return err;
}

whim_err whim_exec_pass(whim_exec *x, const whim_graph_key *key)
{
    whim_graph_slot *slot = x->cfg.graphs ? whim_graphs_find(&x->graphs, key) : NULL;
    if (slot == NULL) {
        return forward(x, key);
    }
    if (slot->graph == NULL) {
        WHIM_TRY(record(x, slot, key));
    }
    return x->stream->vt->replay(x->stream, slot->graph);
}

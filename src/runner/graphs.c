/* SPDX-License-Identifier: Apache-2.0 */
/* The table of graphs. */
#include "runner/graphs.h"

static int64_t round_up(int64_t n, int64_t limit)
{
    int64_t p = 1;
    while (p < n) {
        p *= 2;
    }
    return n == 0 ? 0 : p < limit ? p : limit;
}

void whim_graphs_bucket(whim_step_size *size, int32_t flags, const whim_exec_cfg *cfg)
{
    bool keeps = (flags & WHIM_STEP_KEEP) != 0;
    size->n_row = round_up(size->n_row, keeps ? cfg->max_kept : cfg->max_rows);
    size->n_seq = round_up(size->n_seq, cfg->max_seqs);
    size->n_out = round_up(size->n_out, cfg->max_outs);
}

whim_graph_slot *whim_graphs_find(whim_graphs *graphs, const whim_step_size *bucket, int32_t flags,
                                  const whim_late_step *late)
{
    flags &= WHIM_GRAPH_FLAGS;
    for (int32_t i = 0; i < graphs->n; i++) {
        const whim_step_size *b = &graphs->slots[i].bucket;
        if (b->n_row == bucket->n_row && b->n_seq == bucket->n_seq && b->n_out == bucket->n_out &&
            b->n_top == bucket->n_top && graphs->slots[i].flags == flags &&
            graphs->slots[i].late.at == late->at &&
            graphs->slots[i].late.n_taken == late->n_taken) {
            return &graphs->slots[i];
        }
    }
    if (graphs->n == WHIM_GRAPHS_MAX) {
        return NULL;
    }
    graphs->slots[graphs->n] = (whim_graph_slot){.bucket = *bucket, .flags = flags, .late = *late};
    return &graphs->slots[graphs->n++];
}

void whim_graphs_clear(whim_graphs *graphs, whim_stream *stream)
{
    for (int32_t i = 0; i < graphs->n; i++) {
        if (graphs->slots[i].graph != NULL) {
            stream->vt->graph_free(stream, graphs->slots[i].graph);
        }
    }
    graphs->n = 0;
}

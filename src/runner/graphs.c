/* SPDX-License-Identifier: Apache-2.0 */
/* The table of graphs. */
#include "runner/graphs.h"

int64_t whim_graphs_round(int64_t n, int64_t limit)
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
    size->n_row = whim_graphs_round(size->n_row, keeps ? cfg->max_kept : cfg->max_rows);
    size->n_seq = whim_graphs_round(size->n_seq, cfg->max_seqs);
    size->n_out = whim_graphs_round(size->n_out, cfg->max_outs);
}

static bool same(const whim_graph_key *a, const whim_graph_key *b)
{
    return a->bucket.n_row == b->bucket.n_row && a->bucket.n_seq == b->bucket.n_seq &&
           a->bucket.n_out == b->bucket.n_out && a->bucket.n_top == b->bucket.n_top &&
           (a->flags & WHIM_GRAPH_FLAGS) == (b->flags & WHIM_GRAPH_FLAGS) &&
           a->late.at == b->late.at && a->late.n_taken == b->late.n_taken &&
           a->own_rows == b->own_rows && a->meet_rows == b->meet_rows;
}

whim_graph_slot *whim_graphs_find(whim_graphs *graphs, const whim_graph_key *key)
{
    for (int32_t i = 0; i < graphs->n; i++) {
        if (same(&graphs->slots[i].key, key)) {
            return &graphs->slots[i];
        }
    }
    if (graphs->n == WHIM_GRAPHS_MAX) {
        return NULL;
    }
    graphs->slots[graphs->n] = (whim_graph_slot){.key = *key};
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

/* SPDX-License-Identifier: Apache-2.0 */
/* inspect --tp N, --cp N, --dp N or --ep N: what each of N ranks would have of a model, and what
 * they tell each other. */
#include "inspect_ranks.h"

#include "base/alloc.h"
#include "base/os/mem.h"
#include "base/os/topology.h"
#include "comm/comm.h"
#include "model.h"

#include <stdio.h>

/* Counts of one rank; of heads and widths those of the first layer that has them. */
typedef struct share {
    int32_t n_head, n_kv, n_key, d_ff, n_expert;
    int64_t weights, kv, total, most_comm;
    /* Bytes that ranks exchange for each token of a step of one, of some, of a prompt. With several
     * groups: in the token's own group, while all groups have as many tokens. */
    int64_t token_comm, batch_comm, prompt_comm;
} share;

enum { BATCH = 8 };

/* What all ranks take of a memory node; a rank's part is spread over the nodes of its CPUs. */
typedef struct node_share {
    int32_t node, n_rank;
    int64_t bytes, available; /* available -1: the system does not tell */
} node_share;

/* Returns how many nodes there are. */
static int32_t nodes_sum(const share *shares, int32_t n_rank, node_share out[WHIM_OS_CPUS_MAX])
{
    const whim_os_topology *t = whim_os_topology_get();
    int32_t nodes[WHIM_OS_CPUS_MAX], n = whim_os_topology_nodes(t, 0, 1, nodes);
    for (int32_t i = 0; i < n; i++) {
        out[i] =
            (node_share){.node = nodes[i], .available = whim_os_mem_node_available("", nodes[i])};
    }
    for (int32_t r = 0; r < n_rank; r++) {
        int32_t n_own = whim_os_topology_nodes(t, r, n_rank, nodes);
        for (int32_t i = 0, own = 0; i < n && own < n_own; i++) {
            if (out[i].node == nodes[own]) {
                out[i].n_rank++;
                out[i].bytes += shares[r].total / n_own;
                own++;
            }
        }
    }
    return n;
}

static int32_t first(int32_t known, int32_t value)
{
    return known > 0 ? known : value;
}

/* The first stack of experts, or NULL. */
static const whim_param *first_stack(const whim_engine *engine)
{
    const whim_binder *binder = whim_engine_binder(engine);
    int64_t i = 0;
    while (i < binder->n_param && binder->params[i].n_expert == 0) {
        i++;
    }
    return i < binder->n_param ? &binder->params[i] : NULL;
}

/* What a rank tells and hears in a step of n_row in each group, for each token of its own group. */
static bool comm_of(const whim_engine *engine, int64_t n_row, bool is_prompt, int64_t *out)
{
    int64_t bytes;
    bool ok = whim_engine_step_comm(engine, n_row, is_prompt, &bytes) == WHIM_ERR_OK;
    *out = ok ? (bytes + n_row / 2) / n_row : 0;
    return ok;
}

static bool share_of(const whim_engine *engine, share *out)
{
    const whim_layer_table *table = whim_engine_layers(engine);
    const whim_memory_plan *plan = whim_engine_plan(engine);
    const whim_param *stack = first_stack(engine);
    int32_t expert_width = stack != NULL ? (int32_t)stack->n_here : 0;
    *out = (share){.n_key = table->gdn.n_key,
                   .n_expert = stack != NULL ? (int32_t)whim_param_experts(stack) : 0,
                   .weights = whim_engine_binder(engine)->bytes,
                   .kv = whim_engine_runner_plan(engine)->kv_bytes,
                   .total = plan->total,
                   .most_comm = whim_engine_runner_plan(engine)->most_comm};
    for (int32_t l = 0; l < table->n_layer; l++) {
        const whim_layer_row *row = &table->rows[l];
        out->n_head = first(out->n_head, row->n_head);
        out->n_kv = first(out->n_kv, row->n_kv);
        out->d_ff = first(out->d_ff, row->mlp == WHIM_MLP_SWIGLU ? row->d_ff : expert_width);
    }
    return comm_of(engine, 1, false, &out->token_comm) &&
           comm_of(engine, BATCH, false, &out->batch_comm) &&
           comm_of(engine, whim_engine_limits(engine)->max_rows, true, &out->prompt_comm);
}

/* One rank is prepared after the other, with the sizes that the first has chosen; none loads. */
static bool share_make(const whim_engine_cfg *cfg, whim_comm_memory *memory, int32_t rank,
                       whim_engine_sizes *sizes, share *out)
{
    loader load;
    whim_comm comm;
    whim_engine_cfg own = *cfg;
    whim_comm_open(&comm, memory, &(whim_comm_cfg){.rank = rank});
    own.rank = rank;
    own.comm = &comm;
    own.sizes = rank > 0 ? sizes : NULL;
    whim_engine *engine = open_engine(&own, true, &load);
    if (engine == NULL) {
        return false;
    }
    *sizes = whim_engine_sizes_of(engine);
    bool ok = share_of(engine, out);
    whim_engine_close(engine);
    if (!ok) {
        complain(EXIT_FAILED, "a dry run of rank %d failed", rank);
    }
    return ok;
}

static void append_text(whim_str *out, const share *shares, int32_t n_rank)
{
    int64_t sum = 0;
    char text[3][32];
    whim_str_printf(
        out,
        "\nserve over %d ranks\n  rank  heads     KV    key     MLP  experts      weights  "
        "   KV pages          all\n",
        n_rank);
    for (int32_t r = 0; r < n_rank; r++) {
        const share *s = &shares[r];
        whim_format_bytes(text[0], sizeof text[0], s->weights);
        whim_format_bytes(text[1], sizeof text[1], s->kv);
        whim_format_bytes(text[2], sizeof text[2], s->total);
        whim_str_printf(out, "%6d %6d %6d %6d %7d %8d %12s %12s %12s\n", r, s->n_head, s->n_kv,
                        s->n_key, s->d_ff, s->n_expert, text[0], text[1], text[2]);
        sum += s->total;
    }
    whim_format_bytes(text[0], sizeof text[0], sum);
    whim_format_bytes(text[1], sizeof text[1], shares[0].token_comm);
    whim_format_bytes(text[2], sizeof text[2], shares[0].batch_comm);
    whim_str_printf(
        out,
        "all of them: %s; messages of each, for each of its tokens: %s, of %d at once: ", text[0],
        text[1], BATCH);
    whim_format_bytes(text[0], sizeof text[0], shares[0].prompt_comm);
    whim_format_bytes(text[1], sizeof text[1], shares[0].most_comm);
    whim_str_printf(out, "%s, of a prompt: %s; the largest message: %s\n", text[2], text[0],
                    text[1]);
    node_share nodes[WHIM_OS_CPUS_MAX];
    int32_t n = nodes_sum(shares, n_rank, nodes);
    for (int32_t i = 0; i < n; i++) {
        whim_format_bytes(text[0], sizeof text[0], nodes[i].bytes);
        whim_format_bytes(text[1], sizeof text[1], nodes[i].available);
        whim_str_printf(out, "memory node %d: %s of %d rank%s here; it has %s left\n",
                        nodes[i].node, text[0], nodes[i].n_rank, nodes[i].n_rank == 1 ? "" : "s",
                        nodes[i].available < 0 ? "an unknown amount" : text[1]);
    }
}

static void append_json(whim_str *out, const share *shares, int32_t n_rank)
{
    whim_str_append(out, ",\"ranks\":[");
    for (int32_t r = 0; r < n_rank; r++) {
        const share *s = &shares[r];
        whim_str_printf(out,
                        "%s{\"rank\":%d,\"n_head\":%d,\"n_kv\":%d,\"n_key\":%d,\"d_ff\":%d,"
                        "\"n_expert\":%d,"
                        "\"weights\":%lld,\"kv\":%lld,\"total\":%lld,\"token_comm\":%lld,"
                        "\"batch_comm\":%lld,\"prompt_comm\":%lld,\"most_comm\":%lld}",
                        r == 0 ? "" : ",", r, s->n_head, s->n_kv, s->n_key, s->d_ff, s->n_expert,
                        (long long)s->weights, (long long)s->kv, (long long)s->total,
                        (long long)s->token_comm, (long long)s->batch_comm,
                        (long long)s->prompt_comm, (long long)s->most_comm);
    }
    node_share nodes[WHIM_OS_CPUS_MAX];
    int32_t n = nodes_sum(shares, n_rank, nodes);
    whim_str_append(out, "],\"nodes\":[");
    for (int32_t i = 0; i < n; i++) {
        whim_str_printf(out, "%s{\"node\":%d,\"n_rank\":%d,\"total\":%lld,\"available\":%lld}",
                        i == 0 ? "" : ",", nodes[i].node, nodes[i].n_rank,
                        (long long)nodes[i].bytes, (long long)nodes[i].available);
    }
    whim_str_append_char(out, ']');
}

bool append_ranks(whim_str *out, whim_engine_cfg cfg, int32_t n_rank, bool json)
{
    whim_diag diag = {""};
    whim_comm_memory memory = {.fd = -1};
    whim_engine_sizes sizes;
    share *shares = whim_alloc_array(n_rank, sizeof *shares);
    bool ok = shares != NULL && whim_comm_memory_make(n_rank, &memory, &diag) == WHIM_ERR_OK;
    if (!ok) {
        complain(EXIT_FAILED, "%s", shares != NULL ? diag.text : "no memory for a list of ranks");
    }
    cfg.n_rank = n_rank;
    for (int32_t r = 0; r < n_rank && ok; r++) {
        ok = share_make(&cfg, &memory, r, &sizes, &shares[r]);
    }
    if (ok) {
        (json ? append_json : append_text)(out, shares, n_rank);
    }
    whim_comm_memory_close(&memory);
    whim_free(shares);
    return ok;
}

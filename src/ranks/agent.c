/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/agent.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/os/cpu.h"
#include "base/os/facts.h"
#include "ranks/agent_inner.h"
#include "ranks/bridges.h"
#include "ranks/ranks.h"

#include <poll.h>
#include <stdio.h>

enum { AGAIN_MS = 250 }; /* between tries to join */

/* What this host has: its part of the model as the leader has its own, prepared and let go. */
static whim_err facts_find(whim_agent *a, whim_diag *diag)
{
    whim_engine_cfg cfg = a->cfg->engine;
    whim_engine *engine = NULL;
    cfg.rank = a->first;
    cfg.host_first = a->first;
    cfg.n_host = a->n;
    whim_err err = whim_engine_prepare(&cfg, &engine, diag);
    if (err != WHIM_ERR_OK && a->cfg->draft_found) { /* then node 0 leaves it out as well */
        cfg.draft = NULL;
        err = whim_engine_prepare(&cfg, &engine, diag);
    }
    WHIM_TRY(err);
    a->draft = cfg.draft;
    a->room = (whim_join_room){.memory = whim_engine_plan(engine)->available_here,
                               .sizes = whim_engine_sizes_of(engine)};
    err = whim_join_facts_of(engine, &cfg, a->cfg->nodes.n_node, &a->facts, diag);
    whim_engine_close(engine);
    return err;
}

static whim_err agent_make(whim_agent *a, whim_diag *diag)
{
    const whim_nodes_cfg *nodes = &a->cfg->nodes;
    int32_t n_rank = a->cfg->engine.n_rank;
    a->first = whim_nodes_first(n_rank, nodes->n_node, nodes->node);
    a->n = whim_nodes_first(n_rank, nodes->n_node, nodes->node + 1) - a->first;
    WHIM_TRY(whim_ranks_count_check(a->n, a->cfg->engine.n_thread, a->cfg->may_crowd, &a->crowded,
                                    diag));
    WHIM_TRY(whim_bridge_try(whim_agent_program(a), nodes->node, nodes->device, diag));
    a->processes = whim_alloc_array(a->n + 1, sizeof *a->processes);
    a->is_asked = whim_alloc_array(a->n + 1, sizeof *a->is_asked);
    a->polls = whim_alloc_array(a->n + 2, sizeof *a->polls);
    WHIM_TRY(whim_got(a->processes != NULL && a->is_asked != NULL && a->polls != NULL, diag,
                      "no memory for %d ranks", a->n));
    for (int32_t i = 0; i <= a->n; i++) {
        whim_rank_process *p = &a->processes[i];
        *p = (whim_rank_process){.socket = -1};
        snprintf(p->name, sizeof p->name, i < a->n ? "rank %d" : "the bridge of node %d",
                 i < a->n ? a->first + i : nodes->node);
    }
    return facts_find(a, diag);
}

static void tell(const whim_agent *a, const char *event, const char *text)
{
    if (a->cfg->tell != NULL) {
        a->cfg->tell(a->cfg->ctx, event, text);
    }
}

/* Tries until it has joined; the leader may start later, or again. */
static whim_err join(whim_agent *a, whim_diag *diag)
{
    int64_t until_ns = whim_clock_ns() + a->cfg->nodes.join_ns;
    whim_err err = whim_agent_join(a, diag);
    while ((err == WHIM_ERR_IO || err == WHIM_ERR_BUSY) && !atomic_load(a->cfg->stop)) {
        if (whim_clock_ns() > until_ns) {
            whim_diag_prefix(diag, "node %d could not join in %g s: ", a->cfg->nodes.node,
                             (double)a->cfg->nodes.join_ns / (double)WHIM_NS_PER_S);
            return err;
        }
        whim_clock_sleep_ns(AGAIN_MS * WHIM_NS_PER_MS);
        err = whim_agent_join(a, diag);
    }
    if (err != WHIM_ERR_OK) {
        whim_diag_prefix(diag, "node %d cannot join: ", a->cfg->nodes.node);
    }
    return err;
}

/* Before it joins again: other memory is free by now, and files may be others. What cannot be found
 * now is as it was; its ranks will say why. */
static void facts_renew(whim_agent *a)
{
    whim_agent was = {.facts = a->facts, .draft = a->draft, .room = a->room};
    whim_diag ignored;
    if (facts_find(a, &ignored) != WHIM_ERR_OK) {
        a->facts = was.facts;
        a->draft = was.draft;
        a->room = was.room;
    }
}

static whim_err agent_run(whim_agent *a, whim_diag *diag)
{
    for (bool again = false; !atomic_load(a->cfg->stop); again = true) {
        if (again) {
            facts_renew(a);
        }
        whim_err err = join(a, diag);
        if (err != WHIM_ERR_OK) {
            return atomic_load(a->cfg->stop) ? WHIM_ERR_OK : err;
        }
        tell(a, "joined", a->cfg->nodes.host);
        if (whim_agent_serve(a, diag) != WHIM_ERR_OK) {
            tell(a, "leader_lost", diag->text);
        }
    }
    return WHIM_ERR_OK;
}

whim_err whim_agent_run(const whim_agent_cfg *cfg, whim_diag *diag)
{
    whim_agent *a = whim_alloc(sizeof *a);
    WHIM_TRY(whim_got(a != NULL, diag, "no memory for the agent of a node"));
    a->cfg = cfg;
    a->wire.fd = -1;
    whim_err err = agent_make(a, diag);
    if (err == WHIM_ERR_OK) {
        err = agent_run(a, diag);
    }
    whim_free(a->polls);
    whim_free(a->is_asked);
    whim_free(a->processes);
    whim_free(a);
    return err;
}

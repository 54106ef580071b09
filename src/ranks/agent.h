/* SPDX-License-Identifier: Apache-2.0 */
/* The agent of a host that is not the leader's: it joins the leader (ranks/join.h), starts what
 * that asks for (the ranks of its host and a bridge), relays between them and the leader, and ends
 * them when the leader says so or is lost; then it joins again.
 * Threads: the one that calls. */
#ifndef WHIM_RANKS_AGENT_H
#define WHIM_RANKS_AGENT_H

#include "ranks/nodes.h"

#include <stdatomic.h>

typedef struct whim_agent_cfg {
    whim_engine_cfg engine; /* as the leader's, with this host's paths and threads; n_rank of all */
    whim_nodes_cfg nodes;   /* node 1 or more */
    bool draft_found;       /* nobody asked for its draft: one that cannot be used is left out */
    bool may_crowd;         /* more ranks than CPUs are taken */
    const char *program;    /* NULL: this one */
    const atomic_bool *stop;
    /* Told of what happens, for the log: an event's name and words. */
    void (*tell)(void *ctx, const char *event, const char *text);
    void *ctx;
} whim_agent_cfg;

/* Until *stop; any error: it cannot join, or could not for cfg->nodes.join_ns. */
WHIM_MUST_CHECK whim_err whim_agent_run(const whim_agent_cfg *cfg, whim_diag *diag);

#endif

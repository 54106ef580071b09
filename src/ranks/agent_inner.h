/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ranks/agent.h share. */
#ifndef WHIM_RANKS_AGENT_INNER_H
#define WHIM_RANKS_AGENT_INNER_H

#include "comm/comm.h"
#include "ranks/agent.h"
#include "ranks/wire.h"

typedef struct whim_agent {
    const whim_agent_cfg *cfg;
    whim_join_facts facts;
    const char *draft;   /* that it uses; NULL: none */
    whim_join_room room; /* of this host when it joined */
    bool crowded;
    int32_t first, n; /* its ranks */
    whim_wire wire;
    /* the generation that is under way */
    bool is_begun;
    uint64_t generation;
    whim_comm_memory group;
    whim_rank_process *processes; /* [n + 1]: its ranks, and the bridge */
    bool *is_asked;               /* [n + 1]: was told something, and has not answered */
    int64_t look_at_ns;           /* when those are looked at again */
    struct pollfd *polls;         /* [n + 2] */
} whim_agent;

/* What its processes run. */
static inline const char *whim_agent_program(const whim_agent *agent)
{
    return agent->cfg->program != NULL ? agent->cfg->program : "/proc/self/exe";
}

/* One try to join: agent->wire is open after it. BUSY and IO: another try may do. */
WHIM_MUST_CHECK whim_err whim_agent_join(whim_agent *agent, whim_diag *diag);

/* Serves the leader until that is lost, which is IO, or *stop. No process is left. */
WHIM_MUST_CHECK whim_err whim_agent_serve(whim_agent *agent, whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a rank that do a collective together. */
#include "comm/shared.h"

enum { LINE = 64 };

bool whim_comm_leads(const whim_comm_team *team)
{
    return team == NULL || team->worker == 0;
}

whim_comm_part whim_comm_share(const whim_comm_team *team, int64_t n, int64_t size)
{
    int64_t each = LINE / size, lines = (whim_comm_max(n, 0) + each - 1) / each;
    int64_t worker = team != NULL ? team->worker : 0, count = team != NULL ? team->n_worker : 1;
    int64_t begin = lines * worker / count * each, end = lines * (worker + 1) / count * each;
    return (whim_comm_part){whim_comm_min(begin, n), whim_comm_min(end, n)};
}

bool whim_comm_enter(const whim_comm_team *team)
{
    if (team != NULL) {
        team->meet(team->ctx);
    }
    return whim_comm_leads(team);
}

whim_err whim_comm_leave(const whim_comm_team *team, whim_err err)
{
    if (team == NULL) {
        return err;
    }
    if (team->worker == 0) { /* nobody looks at it between the first meeting and the second */
        *team->err = err;
    }
    team->meet(team->ctx);
    return *team->err;
}

whim_comm_call whim_comm_call_by(whim_comm *comm, const whim_comm_team *team, whim_comm_kind kind,
                                 int64_t size, const char *site)
{
    return whim_comm_leads(team) ? whim_comm_call_of(comm, kind, size, site)
                                 : whim_comm_call_again(kind, size, site);
}

whim_err whim_comm_round_by(whim_comm *comm, const whim_comm_team *team, const whim_comm_call *call,
                            int64_t wrote)
{
    whim_err err = WHIM_ERR_OK;
    if (whim_comm_enter(team)) {
        err = whim_comm_round(comm, call, (whim_comm_wrote){.bytes = (int32_t)wrote});
    }
    return whim_comm_leave(team, err);
}

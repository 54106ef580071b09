/* SPDX-License-Identifier: Apache-2.0 */
/* All groups of a service, whose shares make a step together. Threads: the service's. */
#ifndef WHIM_ENGINE_SERVICE_GROUPS_H
#define WHIM_ENGINE_SERVICE_GROUPS_H

#include "engine/service/inner.h"

/* Right after a failure too: end, and close behind it. In between pages are only the trees'. */
WHIM_MUST_CHECK whim_err whim_groups_open(whim_service *s, whim_diag *diag);
void whim_groups_end(whim_service *s);
void whim_groups_close(whim_service *s);

/* Where a request goes: to the group that knows most of its prompt, then to the emptiest; one in
 * which requests wait comes behind all in which none do. */
whim_group *whim_groups_choose(whim_service *s, const int32_t *tokens, int64_t n_tok);

/* What the groups have of a step: sums, and the most rows that one has. */
typedef struct whim_groups_sum {
    int64_t n_item, n_row, most_rows, n_prefill;
    bool all_choose; /* every row is of an item that chooses, and none of a prompt */
} whim_groups_sum;
whim_groups_sum whim_groups_sum_of(const whim_service *s, int64_t turn);

/* Plan the step `turn` (of those under way) of all groups and make its parts; ahead: of the one
 * after `turn`, whose results its tokens are. False: there is nothing to do, or some group wants a
 * plan of its own, and no plan is open. */
bool whim_groups_plan(whim_service *s, int64_t turn);
bool whim_groups_plan_ahead(whim_service *s, int64_t turn);

/* Queue it. */
WHIM_MUST_CHECK whim_err whim_groups_submit(whim_service *s, int64_t turn, whim_diag *diag);

/* After it. */
void whim_groups_results_take(whim_service *s, int64_t turn);
WHIM_MUST_CHECK whim_err whim_groups_states_advance(whim_service *s, int64_t turn, whim_diag *diag);
void whim_groups_commit(whim_service *s, int64_t turn);
void whim_groups_failed(whim_service *s, int64_t turn, bool begin_again, const whim_diag *why);
void whim_groups_abort(whim_service *s, int64_t turn);

/* What pages held is lost. */
void whim_groups_lose(whim_service *s);

/* Of each: rows of the next plans, and the service that makes up for a step of priority. */
void whim_groups_set_pace(whim_service *s, int64_t n_row, int64_t age);

whim_sched_stats whim_groups_stats(const whim_service *s);

#endif

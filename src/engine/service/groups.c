/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of all groups. */
#include "engine/service/groups.h"

/* --- life ------------------------------------------------------------------------------------- */

whim_err whim_groups_open(whim_service *s, whim_diag *diag)
{
    int32_t n = whim_exec_groups(whim_engine_limits(s->cfg.engine));
    s->groups = whim_arena_alloc_array(&s->arena, n, sizeof *s->groups);
    s->parts = whim_arena_alloc_array(&s->arena, n * s->cfg.max_seqs, sizeof *s->parts);
    WHIM_TRY(whim_got(s->groups != NULL && s->parts != NULL, diag, "no memory for the service"));
    for (s->n_group = 0; s->n_group < n;) {
        int32_t index = s->n_group++; /* what is open of it is ended, too */
        WHIM_TRY(whim_group_open(&s->groups[index], s, index, diag));
    }
    return WHIM_ERR_OK;
}

void whim_groups_end(whim_service *s)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group_end(&s->groups[i]);
    }
}

void whim_groups_close(whim_service *s)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group_close(&s->groups[i]);
    }
}

/* --- who goes where --------------------------------------------------------------------------- */

/* Requests that a group may have more than the emptiest, to go on from what it knows. */
enum { AHEAD = 2 };

/* What speaks for a group. */
typedef struct claim {
    bool has_room;
    int64_t n_known, n_request;
} claim;

static bool is_better(const claim *a, const claim *b)
{
    bool knows_more = a->n_known > b->n_known, has_fewer = a->n_request < b->n_request;
    if (a->has_room != b->has_room) {
        return a->has_room;
    }
    if (a->has_room) {
        return knows_more || (a->n_known == b->n_known && has_fewer);
    }
    return has_fewer || (a->n_request == b->n_request && knows_more);
}

static int64_t requests_of(const whim_group *g)
{
    whim_sched_stats stats = whim_sched_get_stats(g->sched);
    return stats.n_running + stats.n_waiting;
}

static int64_t fewest_requests(const whim_service *s)
{
    int64_t fewest = INT64_MAX;
    for (int32_t i = 0; i < s->n_group; i++) {
        int64_t n = requests_of(&s->groups[i]);
        fewest = n < fewest ? n : fewest;
    }
    return fewest;
}

whim_group *whim_groups_choose(whim_service *s, const int32_t *tokens, int64_t n_tok)
{
    whim_group *chosen = NULL;
    claim best = {0};
    int64_t most = fewest_requests(s) + AHEAD;
    most = most < s->cfg.max_seqs - 1 ? most : s->cfg.max_seqs - 1;
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group *g = &s->groups[i];
        claim own = {.n_known = whim_prefix_tree_peek(g->tree, tokens, n_tok),
                     .n_request = requests_of(g)};
        own.has_room = own.n_request <= most;
        if (chosen == NULL || is_better(&own, &best)) {
            chosen = g;
            best = own;
        }
    }
    return chosen;
}

/* --- a step ----------------------------------------------------------------------------------- */

static whim_flight *flight_of(whim_group *g, int64_t turn)
{
    return &g->flights[turn % WHIM_EXEC_FLIGHT];
}

whim_groups_sum whim_groups_sum_of(const whim_service *s, int64_t turn)
{
    whim_groups_sum sum = {.all_choose = true};
    for (int32_t i = 0; i < s->n_group; i++) {
        const whim_plan *plan = &flight_of(&s->groups[i], turn)->plan;
        sum.n_item += plan->n_item;
        sum.n_row += plan->n_row;
        sum.most_rows = plan->n_row > sum.most_rows ? plan->n_row : sum.most_rows;
        for (int64_t k = 0; k < plan->n_item; k++) {
            const whim_plan_item *item = &plan->items[k];
            sum.n_prefill += item->is_prefill ? item->n_tok : 0;
            sum.all_choose = sum.all_choose && item->chooses && !item->is_prefill;
        }
    }
    return sum;
}

bool whim_groups_plan(whim_service *s, int64_t turn)
{
    int64_t n_item = 0, n_out = 0;
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group *g = &s->groups[i];
        whim_flight *f = flight_of(g, turn);
        whim_sched_plan(g->sched, &f->plan);
        f->first_out = n_out;
        n_out += f->plan.n_out;
        n_item += f->plan.n_item;
        whim_group_parts_make(g, f);
    }
    return n_item > 0;
}

/* Whether a group has nothing against a step ahead, whose plan is then made: it may be empty. */
static bool plan_ahead(whim_group *g, const whim_flight *before, whim_flight *f)
{
    f->plan = (whim_plan){0};
    if (before->plan.n_item == 0) {
        whim_sched_stats stats = whim_sched_get_stats(g->sched);
        return stats.n_running + stats.n_waiting == 0;
    }
    return before->plan.n_proposed == 0 && whim_group_may_go_ahead(g, before) &&
           whim_sched_plan_ahead(g->sched, &before->plan, g->over, &f->plan);
}

bool whim_groups_plan_ahead(whim_service *s, int64_t turn)
{
    bool good = true;
    int64_t n_item = 0, n_out = 0;
    for (int32_t i = 0; i < s->n_group && good; i++) {
        whim_group *g = &s->groups[i];
        const whim_flight *before = flight_of(g, turn);
        whim_flight *f = flight_of(g, turn + 1);
        good = plan_ahead(g, before, f);
        f->first_out = n_out;
        n_out += f->plan.n_out;
        n_item += f->plan.n_item;
        whim_group_parts_make_ahead(g, before, f);
    }
    for (int32_t i = 0; i < s->n_group && (!good || n_item == 0); i++) {
        whim_sched_drop_ahead(s->groups[i].sched);
    }
    return good && n_item > 0;
}

whim_err whim_groups_submit(whim_service *s, int64_t turn, whim_diag *diag)
{
    int64_t n = 0;
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_flight *f = flight_of(&s->groups[i], turn);
        for (int64_t k = 0; k < f->plan.n_item; k++) {
            f->len[k] = f->parts[k].seq->len;
            s->parts[n++] = f->parts[k];
        }
    }
    return whim_runner_submit(s->runner, s->parts, n, diag);
}

/* --- after it --------------------------------------------------------------------------------- */

void whim_groups_results_take(whim_service *s, int64_t turn)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group_results_take(&s->groups[i], flight_of(&s->groups[i], turn));
    }
}

whim_err whim_groups_states_advance(whim_service *s, int64_t turn, whim_diag *diag)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group *g = &s->groups[i];
        WHIM_TRY(whim_group_states_advance(g, flight_of(g, turn), diag));
    }
    return WHIM_ERR_OK;
}

/* A group without a share has no plan open. */
void whim_groups_commit(whim_service *s, int64_t turn)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group *g = &s->groups[i];
        if (flight_of(g, turn)->plan.n_item > 0) {
            whim_group_commit(g, flight_of(g, turn));
        }
    }
}

void whim_groups_failed(whim_service *s, int64_t turn, bool begin_again, const whim_diag *why)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group *g = &s->groups[i];
        if (flight_of(g, turn)->plan.n_item > 0) {
            whim_group_failed(g, flight_of(g, turn), begin_again, why);
        }
    }
}

void whim_groups_abort(whim_service *s, int64_t turn)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_group *g = &s->groups[i];
        if (flight_of(g, turn)->plan.n_item > 0) {
            whim_sched_abort(g->sched, &flight_of(g, turn)->plan);
        }
    }
}

void whim_groups_lose(whim_service *s)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_sched_lose(s->groups[i].sched);
    }
}

void whim_groups_set_pace(whim_service *s, int64_t n_row, int64_t age)
{
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_sched_set_budget(s->groups[i].sched, n_row);
        whim_sched_set_age(s->groups[i].sched, age);
    }
}

whim_sched_stats whim_groups_stats(const whim_service *s)
{
    whim_sched_stats sum = {0};
    for (int32_t i = 0; i < s->n_group; i++) {
        whim_sched_stats of = whim_sched_get_stats(s->groups[i].sched);
        sum.n_running += of.n_running;
        sum.n_waiting += of.n_waiting;
        sum.pages_used += of.pages_used;
        sum.pages_cached += of.pages_cached;
        sum.pages_total += of.pages_total;
        for (int32_t why = 0; why < WHIM_PREEMPT_COUNT; why++) {
            sum.n_preempted[why] += of.n_preempted[why];
        }
        sum.n_hit_tokens += of.n_hit_tokens;
        sum.n_prompt_tokens += of.n_prompt_tokens;
        sum.n_evicted += of.n_evicted;
    }
    return sum;
}

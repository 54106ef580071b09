/* SPDX-License-Identifier: Apache-2.0 */
/* What one client alone is planned, in random traces without a disk: the same as before clients
 * shared anything. EXPECTED was taken from the scheduler of the commit before "sched: let clients
 * share places, pages and rows at all times", by this file. Sharing therefore costs one client
 * neither a step nor a row. Whoever changes how a single client's requests are planned puts the new
 * numbers here. */
#include "sim.h"

#include "support/tally.h"

#include <string.h>

#define EXPECTED UINT64_C(0x41e1628093856fe6)
enum {
    EXPECTED_STEPS = 74227,
    TRACES = 60,
    MAX_REQ = 60,
    CTX = 400,
    PAGE = 8,
    SEATS = 16,
    PROPOSED = 4,
};

typedef struct guest {
    whim_sched_req *req;
    int32_t tokens[CTX + PROPOSED + 2];
    int64_t max_tok;
} guest;

typedef struct inn {
    uint64_t seed, n_draw, plans;
    whim_page_pool pool, states;
    whim_prefix_tree *tree;
    whim_sched *sched;
    int64_t max_step, n_guest, n_live, n_step;
    bool with_states, with_proposals, with_ahead;
    guest guests[MAX_REQ];
} inn;

static int64_t draw(inn *i, int64_t n)
{
    return (int64_t)((sim_hash(i->seed * 1000003 + i->n_draw++, 1) >> 8) % (uint64_t)n);
}

static bool copy_state(void *ctx, int32_t from, int32_t to)
{
    (void)ctx;
    return from != to;
}

static bool inn_open(inn *i, uint64_t seed)
{
    memset(i, 0, sizeof *i);
    i->seed = seed;
    whim_sched_cfg cfg = {.max_seqs = 1 + draw(i, SEATS),
                          .max_step_tokens = 16 + draw(i, 112),
                          .max_outs = 1 + draw(i, 2 * SEATS),
                          .max_ctx = CTX,
                          .age_tokens = 1 + draw(i, 400),
                          .pool = &i->pool};
    i->max_step = cfg.max_step_tokens;
    i->with_states = draw(i, 3) == 0;
    i->with_proposals = !i->with_states && draw(i, 2) == 0;
    i->with_ahead = draw(i, 3) > 0;
    bool ok = whim_page_pool_init(&i->pool, CTX / PAGE + draw(i, 200), PAGE) == WHIM_ERR_OK &&
              whim_page_pool_init(&i->states, i->with_states ? cfg.max_seqs + draw(i, 12) : 0, 1) ==
                  WHIM_ERR_OK &&
              whim_prefix_tree_create(&i->pool, NULL, NULL, &i->tree) == WHIM_ERR_OK;
    cfg.tree = i->tree;
    if (ok && i->with_states) {
        ok = whim_prefix_tree_set_states(i->tree, &i->states) == WHIM_ERR_OK;
        cfg.states = &i->states;
        cfg.state_every = 1 + draw(i, 200);
        cfg.copy_state = copy_state;
    }
    return ok && whim_sched_create(&cfg, &i->sched) == WHIM_ERR_OK;
}

static void inn_close(inn *i)
{
    whim_sched_destroy(i->sched);
    whim_prefix_tree_destroy(i->tree);
    whim_page_pool_deinit(&i->states);
    whim_page_pool_deinit(&i->pool);
}

/* Prompts begin as some of the others do. */
static bool arrive(inn *i)
{
    guest *g = &i->guests[i->n_guest];
    int64_t n = 1 + draw(i, draw(i, 2) == 0 ? 30 : CTX - 2), shared = draw(i, n + 1);
    uint64_t stem = (uint64_t)draw(i, 3);
    for (int64_t k = 0; k < n; k++) {
        g->tokens[k] =
            (int32_t)(k < shared ? (int64_t)(sim_hash(stem, (int32_t)k) % 100) : draw(i, 100));
    }
    g->max_tok = n + 1 + draw(i, CTX - n);
    whim_sched_add add = {.tokens = g->tokens,
                          .n_tok = n,
                          .max_tok = g->max_tok,
                          .priority = (int32_t)draw(i, 5) - 2,
                          .client = 9,
                          .all_rows = draw(i, 12) == 0,
                          .user = g};
    whim_diag diag = {""};
    i->n_guest++;
    i->n_live++;
    return whim_sched_submit(i->sched, &add, &g->req, &diag) == WHIM_ERR_OK;
}

static void note(inn *i, const whim_plan *plan)
{
    for (int64_t k = 0; k < plan->n_item; k++) {
        const whim_plan_item *item = &plan->items[k];
        const guest *g = whim_sched_req_user(item->req);
        i->plans = sim_hash(i->plans, (int32_t)(g - i->guests));
        i->plans =
            sim_hash(i->plans, (int32_t)(item->n_tok * 1000 + item->n_out * 10 + item->chooses));
        i->plans = sim_hash(i->plans, (int32_t)item->n_proposed);
    }
    i->plans = sim_hash(i->plans, (int32_t)plan->n_preempted);
}

static bool grow(inn *i, const whim_plan *plan)
{
    note(i, plan);
    i->n_step += plan->n_item > 0;
    for (int64_t k = 0; k < plan->n_item; k++) {
        const whim_plan_item *item = &plan->items[k];
        if (whim_sequence_grow(item->seq, &i->pool, item->n_tok) != WHIM_ERR_OK) {
            return false;
        }
        item->seq->state_at = item->seq->len;
    }
    return true;
}

static void commit(inn *i, const whim_plan *plan)
{
    static const int32_t tokens[PROPOSED + 1] = {1, 2, 3, 4, 5};
    whim_sched_made made[SEATS] = {{0}};
    for (int64_t k = 0; k < plan->n_item; k++) {
        const whim_plan_item *item = &plan->items[k];
        made[k].tokens = tokens;
        if (item->req == NULL || !item->chooses) {
            continue;
        }
        guest *g = whim_sched_req_user(item->req);
        int64_t left = g->max_tok - whim_sched_req_get(item->req).n_tok;
        int64_t n = 1 + draw(i, item->n_proposed + 1);
        made[k].n = n < left ? n : left;
        made[k].ended = made[k].n == left || draw(i, 200) == 0;
        if (made[k].ended) {
            g->req = NULL;
            i->n_live--;
        }
    }
    whim_sched_commit(i->sched, plan, made);
}

static void propose(inn *i)
{
    static const int32_t tokens[PROPOSED] = {1, 2, 3, 4};
    for (int64_t k = 0; i->with_proposals && k < i->n_guest; k++) {
        int64_t n = draw(i, PROPOSED + 1);
        if (i->guests[k].req != NULL && n > 0) {
            whim_sched_propose(i->sched, i->guests[k].req, tokens, n);
        }
    }
}

static bool may_go_ahead(inn *i, const whim_plan *plan, bool *over)
{
    bool may = i->with_ahead && draw(i, 4) > 0;
    for (int64_t k = 0; k < plan->n_item; k++) {
        const whim_plan_item *item = &plan->items[k];
        const guest *g = whim_sched_req_user(item->req);
        may = may && item->chooses && item->n_proposed == 0;
        over[k] = whim_sched_req_get(item->req).n_tok + 1 >= g->max_tok;
    }
    return may;
}

static bool step(inn *i)
{
    whim_plan plan, ahead = {0};
    bool over[SEATS];
    if (draw(i, 30) == 0) {
        whim_sched_set_budget(i->sched, SEATS + draw(i, i->max_step));
    }
    propose(i);
    whim_sched_plan(i->sched, &plan);
    if (plan.n_item == 0) {
        return true;
    }
    if (draw(i, 40) == 0) {
        note(i, &plan);
        whim_sched_abort(i->sched, &plan);
        return true;
    }
    if (!grow(i, &plan)) {
        return false;
    }
    if (may_go_ahead(i, &plan, over) && whim_sched_plan_ahead(i->sched, &plan, over, &ahead) &&
        ahead.n_item > 0) {
        bool grew = grow(i, &ahead);
        commit(i, &plan);
        commit(i, &ahead);
        return grew;
    }
    whim_sched_drop_ahead(i->sched);
    commit(i, &plan);
    return true;
}

static bool trace(inn *i, uint64_t seed)
{
    bool good = inn_open(i, seed);
    for (int64_t turn = 0; good && turn < 100000 && (i->n_guest < MAX_REQ || i->n_live > 0);
         turn++) {
        while (good && i->n_guest < MAX_REQ && draw(i, 6) == 0) {
            good = arrive(i);
        }
        guest *g = &i->guests[draw(i, MAX_REQ)];
        if (g->req != NULL && draw(i, 40) == 0) {
            whim_sched_remove(i->sched, g->req);
            g->req = NULL;
            i->n_live--;
        }
        good = good && step(i);
    }
    good = good && i->n_guest == MAX_REQ && i->n_live == 0;
    inn_close(i);
    return good;
}

void sim_plans(void)
{
    static inn i;
    uint64_t plans = 0;
    int64_t n_step = 0;
    bool good = true;
    for (uint64_t seed = 1; seed <= TRACES && good; seed++) {
        good = trace(&i, seed);
        plans = plans * 31 + i.plans;
        n_step += i.n_step;
    }
    tally_check(good && plans == EXPECTED && n_step == EXPECTED_STEPS,
                "one client alone is planned as before there were shares",
                "plans 0x%llx, %lld steps", (unsigned long long)plans, (long long)n_step);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One client that keeps all places taken, for counting what a step costs (sim_test --alone under
 * callgrind): prompts of 100 tokens, answers of 200, steps planned ahead where they can be. */
#include "sim.h"

#include "support/tally.h"

#include <stddef.h>

enum { SEATS = 32, WAIT = 8, PROMPT = 100, MADE = 200, STEPS = 4000 };

typedef struct lone {
    whim_sched_req *req;
    int32_t tokens[PROMPT + MADE];
} lone;

typedef struct house {
    whim_page_pool pool;
    whim_prefix_tree *tree;
    whim_sched *sched;
    lone requests[SEATS + WAIT];
    int32_t n_sent;
    int64_t n_step, n_ahead, n_row;
} house;

static bool house_open(house *h)
{
    whim_sched_cfg cfg = {.max_seqs = SEATS,
                          .max_step_tokens = 512,
                          .max_outs = 2 * SEATS,
                          .max_ctx = 512,
                          .pool = &h->pool};
    bool ok = whim_page_pool_init(&h->pool, 1024, SIM_PAGE) == WHIM_ERR_OK &&
              whim_prefix_tree_create(&h->pool, NULL, NULL, &h->tree) == WHIM_ERR_OK;
    cfg.tree = h->tree;
    return ok && whim_sched_create(&cfg, &h->sched) == WHIM_ERR_OK;
}

static void house_close(house *h)
{
    whim_sched_destroy(h->sched);
    whim_prefix_tree_destroy(h->tree);
    whim_page_pool_deinit(&h->pool);
}

static void send(house *h, lone *l)
{
    whim_diag diag = {""};
    l->tokens[0] = h->n_sent++; /* no two begin alike */
    for (int32_t i = 1; i < PROMPT; i++) {
        l->tokens[i] = i;
    }
    whim_sched_add add = {
        .tokens = l->tokens, .n_tok = PROMPT, .max_tok = PROMPT + MADE, .client = 1, .user = l};
    if (whim_sched_submit(h->sched, &add, &l->req, &diag) != WHIM_ERR_OK) {
        tally_check(false, "a request is taken", "%s", diag.text);
    }
}

static void grow(house *h, const whim_plan *plan)
{
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        if (whim_sequence_grow(item->seq, &h->pool, item->n_tok) != WHIM_ERR_OK) {
            tally_check(false, "a step has its pages", "step %lld", (long long)h->n_step);
        }
    }
    h->n_step++;
    h->n_row += plan->n_row;
}

static bool is_over(const whim_plan_item *item)
{
    return item->chooses && whim_sched_req_get(item->req).n_tok + 1 >= PROMPT + MADE;
}

static void commit(house *h, const whim_plan *plan)
{
    static const int32_t token = 7;
    whim_sched_made made[SEATS] = {{0}};
    lone *over[SEATS];
    int32_t n = 0;
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        made[i] = (whim_sched_made){.tokens = &token};
        if (item->req != NULL) {
            made[i].n = item->chooses;
            made[i].ended = is_over(item);
            over[n] = whim_sched_req_user(item->req);
            n += made[i].ended;
        }
    }
    whim_sched_commit(h->sched, plan, made);
    while (n > 0) {
        send(h, over[--n]);
    }
}

static void step(house *h)
{
    whim_plan plan, ahead;
    bool over[SEATS], all_choose = true;
    whim_sched_plan(h->sched, &plan);
    grow(h, &plan);
    for (int64_t i = 0; i < plan.n_item; i++) {
        over[i] = is_over(&plan.items[i]);
        all_choose = all_choose && plan.items[i].chooses;
    }
    bool goes = all_choose && whim_sched_plan_ahead(h->sched, &plan, over, &ahead);
    if (!goes || ahead.n_item == 0) {
        whim_sched_drop_ahead(h->sched);
        commit(h, &plan);
        return;
    }
    h->n_ahead++;
    grow(h, &ahead);
    commit(h, &plan);
    commit(h, &ahead);
}

void sim_alone(void)
{
    static house h;
    if (!house_open(&h)) {
        tally_check(false, "a client alone", "no memory");
        return;
    }
    for (int32_t i = 0; i < SEATS + WAIT; i++) {
        send(&h, &h.requests[i]);
    }
    while (h.n_step < STEPS) {
        step(&h);
    }
    tally_check(h.n_ahead > STEPS / 4 && h.n_row > 40 * h.n_step, "a client alone fills its steps",
                "%lld rows in %lld steps, %lld of them ahead, %d requests", (long long)h.n_row,
                (long long)h.n_step, (long long)h.n_ahead, h.n_sent);
    house_close(&h);
}

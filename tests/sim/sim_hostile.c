/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile clients beside polite ones, counted in steps: what a client gets does not depend on how
 * much others ask for. A step only lets sequences grow; that texts stay the same is what the random
 * traces are for. */
#include "sim.h"

#include "base/alloc.h"
#include "support/tally.h"

#include <stdio.h>
#include <string.h>

enum {
    SEATS = 32,
    STEP_TOKENS = 256,
    OUTS = 64,
    PAGES = 1536, /* 49,152 tokens */
    CTX = 20000,
    MAX_REQ = 16000,
    STEPS = 1200,
    HOSTILE = 100, /* clients from here on */
};

typedef struct visit {
    whim_sched_req *req;
    int32_t *tokens;
    int64_t max_tok, n_made;
    uint64_t client;
    int64_t sent, first, ended; /* in steps; -1: not yet */
} visit;

typedef struct city {
    whim_page_pool pool, states;
    whim_prefix_tree *tree;
    whim_sched *sched;
    visit visits[MAX_REQ];
    int64_t n_visit, n_step, n_ahead, most_rows;
    int64_t n_left, n_wrong; /* rows that were left to others, and those that were not foreseen */
    bool with_states;
} city;

static bool copy_state(void *ctx, int32_t from, int32_t to)
{
    (void)ctx;
    return from != to;
}

static void city_open(city *c, bool with_states)
{
    memset(c, 0, sizeof *c);
    c->with_states = with_states;
    whim_sched_cfg cfg = {.max_seqs = SEATS,
                          .max_step_tokens = STEP_TOKENS,
                          .max_outs = OUTS,
                          .max_ctx = CTX,
                          .pool = &c->pool};
    bool ok = whim_page_pool_init(&c->pool, PAGES, SIM_PAGE) == WHIM_ERR_OK &&
              whim_page_pool_init(&c->states, with_states ? SEATS + 32 : 0, 1) == WHIM_ERR_OK &&
              whim_prefix_tree_create(&c->pool, NULL, NULL, &c->tree) == WHIM_ERR_OK;
    cfg.tree = c->tree;
    if (with_states) {
        ok = ok && whim_prefix_tree_set_states(c->tree, &c->states) == WHIM_ERR_OK;
        cfg.states = &c->states;
        cfg.copy_state = copy_state;
    }
    ok = ok && whim_sched_create(&cfg, &c->sched) == WHIM_ERR_OK;
    if (!ok) {
        tally_check(false, "a city of clients", "no memory");
    }
}

static void city_close(city *c)
{
    whim_sched_destroy(c->sched);
    whim_prefix_tree_destroy(c->tree);
    tally_check(c->pool.n_free == c->pool.n_page && c->states.n_free == c->states.n_page,
                "all pages and states come back", "%lld of %lld pages", (long long)c->pool.n_free,
                (long long)c->pool.n_page);
    whim_page_pool_deinit(&c->states);
    whim_page_pool_deinit(&c->pool);
    for (int64_t i = 0; i < c->n_visit; i++) {
        whim_free(c->visits[i].tokens);
    }
}

/* NULL: there were enough. */
static visit *send(city *c, uint64_t client, int32_t priority, int64_t n_prompt, int64_t n_made)
{
    visit *v = &c->visits[c->n_visit];
    int64_t n = n_prompt + n_made;
    int32_t *tokens = c->n_visit < MAX_REQ ? whim_alloc_array(n + 1, sizeof *tokens) : NULL;
    if (tokens == NULL) {
        return NULL;
    }
    *v = (visit){.tokens = tokens,
                 .max_tok = n,
                 .client = client,
                 .sent = c->n_step,
                 .first = -1,
                 .ended = -1};
    for (int64_t i = 0; i < n_prompt; i++) { /* nobody begins as another does */
        v->tokens[i] = (int32_t)(i == 0 ? c->n_visit : i);
    }
    whim_sched_add add = {.tokens = tokens,
                          .n_tok = n_prompt,
                          .max_tok = n,
                          .priority = priority,
                          .client = client,
                          .user = v};
    whim_diag diag = {""};
    c->n_visit++;
    if (whim_sched_submit(c->sched, &add, &v->req, &diag) != WHIM_ERR_OK) {
        tally_check(false, "a request is taken", "%s", diag.text);
    }
    return v;
}

static void leave(city *c, visit *v)
{
    if (v->req != NULL) {
        whim_sched_remove(c->sched, v->req);
        v->req = NULL;
    }
}

static bool grow(city *c, const whim_plan *plan)
{
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        if (whim_sequence_grow(item->seq, &c->pool, item->n_tok) != WHIM_ERR_OK) {
            return tally_check(false, "a step has its pages", "step %lld", (long long)c->n_step),
                   false;
        }
        item->seq->state_at = item->seq->len;
    }
    return true;
}

static void commit(city *c, const whim_plan *plan)
{
    static const int32_t token = 7;
    whim_sched_made made[SEATS] = {{0}};
    c->n_step++;
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        visit *v = item->req != NULL ? whim_sched_req_user(item->req) : NULL;
        if (v == NULL || !item->chooses) {
            made[i] = (whim_sched_made){&token, 0, false};
            continue;
        }
        bool is_last = whim_sched_req_get(item->req).n_tok + 1 >= v->max_tok;
        made[i] = (whim_sched_made){&token, 1, is_last};
        v->n_made++;
        v->first = v->first < 0 ? c->n_step : v->first;
        v->ended = is_last ? c->n_step : -1;
        v->req = is_last ? NULL : v->req;
    }
    c->most_rows = plan->n_row > c->most_rows ? plan->n_row : c->most_rows;
    whim_sched_commit(c->sched, plan, made);
}

/* Who of the running had no row in the plan was foreseen. */
static void compare(city *c, const whim_plan *plan)
{
    for (int64_t i = 0; i < c->n_visit; i++) {
        const visit *v = &c->visits[i];
        if (v->req == NULL || whim_sched_at_last(v->req) == NULL) {
            continue;
        }
        bool has_row = false;
        for (int64_t k = 0; k < plan->n_item; k++) {
            has_row = has_row || plan->items[k].req == v->req;
        }
        c->n_left += !has_row;
        c->n_wrong += has_row == whim_sched_is_left(c->sched, v->req);
    }
}

/* One step, and the next ones as long as they can be planned ahead of it. */
static void city_step(city *c)
{
    whim_plan plan, ahead;
    bool over[SEATS];
    whim_sched_foresee(c->sched);
    whim_sched_plan(c->sched, &plan);
    compare(c, &plan);
    if (plan.n_item == 0 || !grow(c, &plan)) {
        c->n_step++;
        return;
    }
    for (int i = 0; i < SEATS; i++) {
        const whim_plan_item *item = &plan.items[i];
        const visit *v = i < plan.n_item ? whim_sched_req_user(item->req) : NULL;
        over[i] = v != NULL && whim_sched_req_get(item->req).n_tok + 1 >= v->max_tok;
    }
    bool goes = whim_sched_plan_ahead(c->sched, &plan, over, &ahead) && ahead.n_item > 0;
    if (!goes) {
        whim_sched_drop_ahead(c->sched);
        commit(c, &plan);
        return;
    }
    c->n_ahead++;
    if (grow(c, &ahead)) {
        commit(c, &plan);
        commit(c, &ahead);
    }
}

static int64_t made_by(const city *c, uint64_t client)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_visit; i++) {
        n += c->visits[i].client == client ? c->visits[i].n_made : 0;
    }
    return n;
}

/* One sequence beside 31 others: within a fifth, with full steps again when one is alone. */
static void one_and_many_are_equal(city *c)
{
    for (int with_states = 0; with_states < 2; with_states++) {
        city_open(c, with_states == 1);
        for (int i = 0; i < 31; i++) {
            send(c, HOSTILE, -4, 20, 1400);
        }
        while (c->n_step < 30) {
            city_step(c);
        }
        visit *one = send(c, 1, 0, 20, 900);
        int64_t before = made_by(c, HOSTILE);
        while (one->ended < 0 && c->n_step < 2000) {
            city_step(c);
        }
        int64_t many = made_by(c, HOSTILE) - before, took = c->n_step - one->sent;
        tally_check(one->ended > 0 && 5 * many > 4 * one->n_made && 4 * many < 5 * one->n_made,
                    "one sequence and 31 have the same throughput", "%lld and %lld tokens",
                    (long long)one->n_made, (long long)many);
        tally_check(took < 900 + 20, "and the one has a row in each step", "%lld steps for 900",
                    (long long)took);
        int64_t most = 0, least = INT64_MAX;
        for (int i = 0; i < 31; i++) {
            most = c->visits[i].n_made > most ? c->visits[i].n_made : most;
            least = c->visits[i].n_made < least ? c->visits[i].n_made : least;
        }
        tally_check(c->n_left > 1000 && c->n_wrong <= 1, "who has no row is foreseen",
                    "%lld rows left, %lld not as foreseen", (long long)c->n_left,
                    (long long)c->n_wrong);
        tally_check(most - least <= 16, "the 31 have turns", "%lld to %lld tokens",
                    (long long)least, (long long)most);
        tally_check(c->n_ahead > 300, "steps are planned ahead", "%lld", (long long)c->n_ahead);
        before = made_by(c, HOSTILE);
        int64_t from = c->n_step;
        while (c->n_step < from + 100) {
            city_step(c);
        }
        int64_t steps = c->n_step - from;
        tally_check(made_by(c, HOSTILE) - before >= 31 * (steps - 2), "nobody else: full steps",
                    "%lld tokens in %lld steps", (long long)(made_by(c, HOSTILE) - before),
                    (long long)steps);
        city_close(c);
    }
}

/* --- attacks ---------------------------------------------------------------------------------- */

/* Keep n requests of a client there. */
static void keep(city *c, uint64_t client, int64_t n, int32_t priority, int64_t n_prompt,
                 int64_t n_made)
{
    int64_t open = 0;
    for (int64_t i = 0; i < c->n_visit; i++) {
        open += c->visits[i].client == client && c->visits[i].req != NULL;
    }
    for (; open < n && send(c, client, priority, n_prompt, n_made) != NULL; open++) {
    }
}

static void n_32(city *c)
{
    keep(c, HOSTILE, 64, 0, 30, 7000);
}

static void priority(city *c)
{
    keep(c, HOSTILE, 64, -4, 30, 7000);
}

static void tiny_flood(city *c)
{
    keep(c, HOSTILE, 100, 0, 4, 2);
}

static void long_prompts(city *c)
{
    keep(c, HOSTILE, 8, 0, 16000, 200);
}

/* Two of these fill the memory. */
static void long_prompts_of_two(city *c)
{
    keep(c, HOSTILE, 4, 0, 18000, 200);
    keep(c, HOSTILE + 1, 4, 0, 18000, 200);
}

static void many_addresses(city *c)
{
    for (uint64_t i = 0; i < 31; i++) {
        keep(c, HOSTILE + i, 2, 0, 30, 7000);
    }
}

/* More than there are places. */
static void too_many_addresses(city *c)
{
    for (uint64_t i = 0; i < 60; i++) {
        keep(c, HOSTILE + i, 1, 0, 30, 7000);
    }
}

/* One who holds all, and others that come, make two tokens and go, or go in the middle. */
static void come_and_go(city *c)
{
    keep(c, HOSTILE, 64, 0, 30, 7000);
    if (c->n_step % 7 < 2) {
        visit *v = send(c, HOSTILE + 1 + (uint64_t)(c->n_visit % 50), 0, 12, 40);
        for (int64_t i = 0; i < c->n_visit && v != NULL; i++) {
            visit *old = &c->visits[i];
            if (old->client > HOSTILE && old->sent + 9 < c->n_step) {
                leave(c, old);
            }
        }
    }
}

typedef struct attack {
    const char *name;
    void (*act)(city *c);
    int64_t most_steps;     /* to a newcomer's first token */
    int64_t least_share;    /* of one who generates all the time: a row in so many steps */
    int64_t most_preempted; /* for shares, in STEPS steps */
} attack;

static const attack attacks[] = {
    {"64 long answers", n_32, 6, 2, 60},
    {"64 long answers with priority -4", priority, 6, 2, 60},
    {"a flood of tiny requests", tiny_flood, 6, 2, 60},
    {"prompts of 16,000", long_prompts, 6, 2, 60},
    {"prompts of 18,000 of two", long_prompts_of_two, 6, 2, 60},
    {"31 addresses with two long answers each", many_addresses, 6, 2, 150},
    {"60 addresses, more than places", too_many_addresses, 12, 3, 250},
    {"clients that come and go", come_and_go, 6, 2, 60},
};

/* Beside them a client that generates, and one that comes back for two tokens. */
static void suffer(city *c, const attack *a, bool with_states)
{
    char name[128];
    int64_t slowest = 0, n_polite = 0, n_served = 0, made_late = 0;
    visit *polite = NULL;
    city_open(c, with_states);
    visit *runs = send(c, 2, 0, 50, 15000);
    while (c->n_step < STEPS) {
        a->act(c);
        if (c->n_step >= 100 && (polite == NULL || polite->ended + 29 < c->n_step) &&
            (polite == NULL || polite->ended >= 0)) {
            polite = send(c, 1, 0, 40, 2);
            n_polite += polite != NULL;
        }
        if (c->n_step == 200) {
            made_late = runs->n_made;
        }
        bool waited = polite != NULL && polite->first < 0;
        city_step(c);
        if (waited && polite->first >= 0) {
            n_served++;
            int64_t took = polite->first - polite->sent;
            slowest = took > slowest ? took : slowest;
        }
    }
    whim_sched_stats stats = whim_sched_get_stats(c->sched);
    int64_t n_given = stats.n_preempted[WHIM_PREEMPT_SHARE];
    int64_t rows = runs->n_made - made_late;
    snprintf(name, sizeof name, "%s%s: newcomers", a->name, with_states ? ", with states" : "");
    tally_check(n_served >= 8 && n_served >= n_polite - 1 && slowest <= a->most_steps, name,
                "%lld of %lld, the slowest after %lld steps", (long long)n_served,
                (long long)n_polite, (long long)slowest);
    snprintf(name, sizeof name, "%s%s: one who runs", a->name, with_states ? ", with states" : "");
    tally_check(rows * a->least_share >= STEPS - 210, name, "%lld tokens in 1000 steps",
                (long long)rows);
    snprintf(name, sizeof name, "%s%s: preempted seldom", a->name,
             with_states ? ", with states" : "");
    tally_check(n_given <= a->most_preempted, name, "%lld times for shares, %lld for pages",
                (long long)n_given, (long long)stats.n_preempted[WHIM_PREEMPT_PAGES]);
    tally_check(made_by(c, HOSTILE) > 0, "the hostile ones have their share, too", "%lld tokens",
                (long long)made_by(c, HOSTILE));
    city_close(c);
}

void sim_hostile(void)
{
    city *c = whim_alloc(sizeof *c);
    if (c == NULL) {
        tally_check(false, "a city of clients", "no memory");
        return;
    }
    one_and_many_are_equal(c);
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        suffer(c, &attacks[i], false);
        suffer(c, &attacks[i], true);
    }
    whim_free(c);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Who goes first, between clients and inside one, counted in steps. Clients send requests by a
 * script; a step only lets sequences grow, and a request ends at its max_tok. */
#include "sim.h"

#include "support/tally.h"

#include <stdio.h>
#include <string.h>

enum { MAX_REQ = 400, MAX_STEP = 4000, PAGES = 256, CTX = 256, AGE = 400 };

typedef struct request {
    whim_sched_req *req;
    int32_t tokens[CTX];
    int64_t max_tok;
    uint64_t client;
    int64_t sent, started, ended; /* in steps; -1: not yet */
} request;

typedef struct town {
    whim_page_pool pool;
    whim_sched *sched;
    request requests[MAX_REQ];
    int64_t n_request, n_step;
    int64_t served[MAX_STEP]; /* rows of client B so far, after each step */
} town;

enum { A = 1, B = 2 };

static void town_open(town *t, int64_t max_seqs)
{
    memset(t, 0, sizeof *t);
    whim_sched_cfg cfg = {.max_seqs = max_seqs,
                          .max_step_tokens = 32,
                          .max_outs = 8,
                          .max_ctx = CTX,
                          .age_tokens = AGE,
                          .pool = &t->pool};
    bool ok = whim_page_pool_init(&t->pool, PAGES, SIM_PAGE) == WHIM_ERR_OK &&
              whim_sched_create(&cfg, &t->sched) == WHIM_ERR_OK;
    if (!ok) {
        tally_check(false, "a town of clients", "no memory");
    }
}

static void town_close(town *t)
{
    whim_sched_destroy(t->sched);
    whim_page_pool_deinit(&t->pool);
}

typedef struct order {
    uint64_t client;
    int32_t priority;
    bool among_all;
    int64_t n_prompt, n_made;
} order;

static request *town_send(town *t, order o)
{
    request *r = &t->requests[t->n_request];
    whim_diag diag = {""};
    *r = (request){.max_tok = o.n_prompt + o.n_made,
                   .client = o.client,
                   .sent = t->n_step,
                   .started = -1,
                   .ended = -1};
    for (int64_t i = 0; i < o.n_prompt; i++) {
        r->tokens[i] = (int32_t)(t->n_request * 1000 + i);
    }
    whim_sched_add add = {.tokens = r->tokens,
                          .n_tok = o.n_prompt,
                          .max_tok = r->max_tok,
                          .priority = o.priority,
                          .among_all = o.among_all,
                          .client = o.client,
                          .user = r};
    if (whim_sched_submit(t->sched, &add, &r->req, &diag) != WHIM_ERR_OK) {
        tally_check(false, "a request is taken", "%s", diag.text);
        return NULL;
    }
    t->n_request++;
    return r;
}

static void town_step(town *t)
{
    whim_plan plan;
    static const int32_t token = 0;
    whim_sched_made made[8] = {{0}};
    int64_t of_b = t->n_step > 0 ? t->served[t->n_step - 1] : 0;
    whim_sched_plan(t->sched, &plan);
    for (int64_t i = 0; i < plan.n_item; i++) {
        const whim_plan_item *item = &plan.items[i];
        request *r = whim_sched_req_user(item->req);
        if (whim_sequence_grow(item->seq, &t->pool, item->n_tok) != WHIM_ERR_OK) {
            tally_check(false, "a step has its pages", "step %lld", (long long)t->n_step);
            return;
        }
        r->started = r->started < 0 ? t->n_step : r->started;
        made[i] = (whim_sched_made){&token, item->chooses, false};
        made[i].ended = item->chooses && whim_sched_req_get(item->req).n_tok + 1 >= r->max_tok;
        r->ended = made[i].ended ? t->n_step : r->ended;
        of_b += r->client == B ? item->n_tok : 0;
    }
    whim_sched_commit(t->sched, &plan, made);
    t->served[t->n_step++] = of_b;
}

/* A keeps eight requests there, B has a long one and sends short ones now and then; what B gets,
 * step by step. */
static void rivals(town *t, int64_t n_step, const int32_t *priorities, int n_priority,
                   bool among_all)
{
    town_open(t, 3);
    int64_t n_a = 0;
    town_send(t, (order){.client = B, .n_prompt = 8, .n_made = CTX - 8});
    for (int64_t step = 0; step < n_step; step++) {
        int64_t open = 0;
        for (int64_t i = 0; i < t->n_request; i++) {
            open += t->requests[i].client == A && t->requests[i].ended < 0;
        }
        for (; open < 8 && t->n_request < MAX_REQ - 1; open++) {
            town_send(t, (order){A, priorities[n_a++ % n_priority], among_all, 20, 12});
        }
        if (step % 17 == 3) {
            town_send(t, (order){.client = B, .n_prompt = 24, .n_made = 6});
        }
        town_step(t);
    }
}

/* However A calls its requests, B's service is what it is, row for row. */
static void a_number_moves_nobody_else(town *plain, town *t)
{
    static const int32_t zero[] = {0}, least[] = {-4}, most[] = {4}, beyond[] = {-1000},
                         mixed[] = {0, -4, 3, -1, 4, -2, -4}, falling[] = {4, 2, 0, -2, -4};
    static const struct {
        const char *name;
        const int32_t *v;
        int n;
    } cases[] = {{"-4", least, 1},
                 {"4", most, 1},
                 {"-1000", beyond, 1},
                 {"mixed", mixed, 7},
                 {"falling", falling, 5}};
    enum { STEPS = 240 }; /* B's long one lasts */
    rivals(plain, STEPS, zero, 1, false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "priority %s moves no other client", cases[i].name);
        rivals(t, STEPS, cases[i].v, cases[i].n, false);
        int64_t same = 0;
        while (same < STEPS && t->served[same] == plain->served[same]) {
            same++;
        }
        tally_check(same == STEPS && plain->served[STEPS - 1] > 100, name,
                    "B has %lld rows, and %lld without", (long long)t->served[STEPS - 1],
                    (long long)plain->served[STEPS - 1]);
        town_close(t);
    }
    rivals(t, STEPS, least, 1, true);
    tally_check(t->served[STEPS - 1] < plain->served[STEPS - 1],
                "an allowed key goes before others", "B has %lld rows, and %lld without",
                (long long)t->served[STEPS - 1], (long long)plain->served[STEPS - 1]);
    town_close(t);
    town_close(plain);
}

/* Small requests that are sent first keep no early places for large ones: a large one moves them
 * back by what it costs. */
static void no_places_are_kept(town *t)
{
    int64_t started[2];
    for (int with = 0; with < 2; with++) {
        town_open(t, 1);
        town_send(t, (order){.client = 3, .n_prompt = 8, .n_made = 4});
        town_step(t);
        for (int i = 0; i < 20; i++) {
            town_send(t, (order){.client = A, .n_prompt = 1, .n_made = 1});
        }
        for (int i = 0; i < 20; i++) {
            town_send(t, (order){A, with ? -4 : 0, false, 100, 100});
        }
        request *of_b = town_send(t, (order){.client = B, .n_prompt = 100, .n_made = 100});
        request *second = town_send(t, (order){.client = B, .n_prompt = 100, .n_made = 4});
        while (t->n_step < MAX_STEP && second->started < 0) {
            town_step(t);
        }
        started[with] = second->started;
        tally_check(of_b->ended >= 0 && second->started >= 0, "B has its turns", "at step %lld",
                    (long long)second->started);
        town_close(t);
    }
    /* One large request of A more or less: which of two with nearly the same tag is first may
     * change. */
    tally_check(started[1] <= started[0] + 120, "small requests keep no places for large ones",
                "B's second starts at step %lld, and %lld without", (long long)started[1],
                (long long)started[0]);
}

static void lower_goes_first_inside_a_client(town *t)
{
    static const int32_t priorities[] = {3, -2, 0, 4, -4, 1};
    enum { N = sizeof priorities / sizeof priorities[0] };
    request *r[N], *other;
    town_open(t, 1);
    town_send(t, (order){.client = B, .n_prompt = 8, .n_made = 4});
    town_step(t);
    for (int i = 0; i < N; i++) {
        r[i] = town_send(t, (order){A, priorities[i], false, 8, 4});
    }
    other = town_send(t, (order){.client = 3, .n_prompt = 8, .n_made = 4});
    while (t->n_step < 200) {
        town_step(t);
    }
    bool good = other->ended >= 0;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            good = good && r[i]->ended >= 0 &&
                   (priorities[i] >= priorities[k] || r[i]->started < r[k]->started);
        }
    }
    tally_check(good, "lower goes first inside a client", "%lld steps", (long long)t->n_step);
    tally_check(other->started < r[2]->started, "and another client has its turn between them",
                "it starts at step %lld", (long long)other->started);
    town_close(t);
}

/* The last of a client, while that always has others that are more important. */
static void waiting_ages_inside_a_client(town *t, bool among_all)
{
    town_open(t, 1);
    request *last = town_send(t, (order){A, 4, among_all, 20, 4});
    request *other = town_send(t, (order){.client = B, .n_prompt = 20, .n_made = 4});
    for (int64_t step = 0; step < 3000 && (last->ended < 0 || other->ended < 0); step++) {
        if (step % 4 == 0 && t->n_request < MAX_REQ - 1) {
            town_send(t, (order){A, -4, among_all, 20, 4});
        }
        town_step(t);
    }
    tally_check(last->ended >= 0 && other->ended >= 0, "nobody waits for ever",
                "the last of its client ended at step %lld, the other client's at %lld",
                (long long)last->ended, (long long)other->ended);
    town_close(t);
}

/* Alone a client may let a request take the place of one that runs; beside another it waits for its
 * turn, and that one has its share. */
static void places_are_taken_from_oneself(town *t)
{
    for (int rival = 0; rival < 2; rival++) {
        town_open(t, 2);
        request *first = town_send(t, (order){A, 0, false, 8, 100});
        town_send(t, (order){A, 0, false, 8, 100});
        town_step(t);
        request *of_b =
            rival ? town_send(t, (order){.client = B, .n_prompt = 8, .n_made = 4}) : NULL;
        request *urgent = town_send(t, (order){A, -4, false, 8, 4});
        town_step(t);
        town_step(t);
        bool took = urgent->started >= 0;
        tally_check(took == !rival && first->started == 0,
                    rival ? "no place is taken while another client is there"
                          : "a client's urgent request takes a place of its own",
                    "%s", took ? "taken" : "not taken");
        tally_check(of_b == NULL || of_b->started >= 0, "another client has one of the two places",
                    "from step %lld", of_b != NULL ? (long long)of_b->started : -1);
        town_close(t);
    }
}

void sim_clients(void)
{
    static town plain, t;
    a_number_moves_nobody_else(&plain, &t);
    no_places_are_kept(&t);
    lower_goes_first_inside_a_client(&t);
    waiting_ages_inside_a_client(&t, false);
    waiting_ages_inside_a_client(&t, true);
    places_are_taken_from_oneself(&t);
}

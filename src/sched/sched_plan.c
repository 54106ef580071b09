/* SPDX-License-Identifier: Apache-2.0 */
/* Making a plan. In this order: a waiting request of higher priority takes the place of running
 * ones, or that of a client which holds more than its share; pages are shared out among the running
 * in order of turn, which may preempt the last ones; every running request with one token left gets
 * its row, or its client's as many as others have; prefill takes what is left of the budget; then
 * waiting requests are let in; proposals take what nobody has a use for.
 * Nothing here allocates. */
#include "base/check.h"
#include "sched/sched.h"
#include "sched/sched_state.h"

/* What is left of a step while its plan is made. */
typedef struct budget {
    int64_t n_row, n_out;
    int64_t n_page; /* taken by the items so far */
    bool is_dealt;  /* prompts have no more than their clients' shares */
    whim_plan *plan;
} budget;

int64_t whim_sched_claims(const whim_sched *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_running; i++) {
        n += whim_sched_pages(s, s->running[i]) - s->running[i]->seq->n_page;
    }
    return n;
}

/* --- items ------------------------------------------------------------------------------------ */

/* How many rows the next chunk of a request has, and how many results. */
static int64_t chunk_of(const whim_sched *s, const whim_sched_req *req, const budget *b,
                        int64_t *n_out)
{
    int64_t left = req->n_tok - req->n_fed;
    int64_t room = (req->seq->n_page + req->n_room) * page_len(s) - req->n_fed;
    int64_t n = whim_min64(whim_min64(left, room), b->n_row);
    int64_t most_out = s->clients.n_client > 1 ? (b->n_out + 1) / 2 : b->n_out;
    n = left > 1 ? whim_min64(n, req->client->n_left) : n;
    if (s->cfg.states != NULL) {
        n = whim_min64(n, whim_sched_state_stop(s, req, req->n_fed) - req->n_fed);
    }
    if (req->all_rows && req->n_row < req->n_prompt) {
        int64_t done = req->n_row > req->n_fed ? req->n_row - req->n_fed : 0;
        n = whim_min64(n, done + most_out); /* others need some, too */
        *n_out = n > done ? n - done : 0;
        return n;
    }
    if (n == left && b->n_out == 0) {
        n--;
    }
    *n_out = n == left;
    return n;
}

/* A place in the plan for the next n rows of a request. */
static void fill_item(whim_sched *s, budget *b, whim_plan_item *item, int64_t n, int64_t n_out)
{
    whim_sched_req *req = item->req;
    b->n_page += whim_sequence_pages_needed(req->seq, n);
    bool fits = s->cfg.pool->n_free >= b->n_page ||
                (s->cfg.tree != NULL && whim_prefix_tree_evict(s->cfg.tree, b->n_page));
    whim_check(fits);
    b->n_row -= n;
    b->n_out -= n_out;
    b->plan->n_row += n;
    b->plan->n_out += n_out;
    if (req->client->n_left < INT64_MAX && !whim_sched_is_at_last(req)) {
        req->client->n_left -= n;
    }
    *item = (whim_plan_item){
        .req = req,
        .seq = req->seq,
        .tokens = req->tokens + req->n_fed,
        .n_tok = n,
        .n_out = n_out,
        .chooses = req->n_fed + n == req->n_tok,
        .is_prefill = n > 1 || req->n_fed < req->n_prompt || req->n_fed + n < req->n_tok,
    };
}

static void add_item(whim_sched *s, budget *b, whim_sched_req *req)
{
    int64_t n_out;
    int64_t n = chunk_of(s, req, b, &n_out);
    if (n > 0) {
        whim_plan_item *item = &b->plan->items[b->plan->n_item++];
        item->req = req;
        fill_item(s, b, item, n, n_out);
    }
}

/* What is left of the step when all have had their share goes to whoever has more to do. */
static void add_rest(whim_sched *s, budget *b)
{
    for (int64_t i = 0; i < b->plan->n_item && b->n_row > 0; i++) {
        whim_plan_item *item = &b->plan->items[i];
        if (item->chooses || item->req->all_rows) {
            continue;
        }
        b->n_page -= whim_sequence_pages_needed(item->seq, item->n_tok);
        b->n_row += item->n_tok;
        b->n_out += item->n_out;
        b->plan->n_row -= item->n_tok;
        b->plan->n_out -= item->n_out;
        item->req->client->n_left = INT64_MAX;
        int64_t n_out, n = chunk_of(s, item->req, b, &n_out);
        fill_item(s, b, item, n, n_out);
    }
}

/* --- pages for the running -------------------------------------------------------------------- */

/* In order of turn everyone gets the pages of all its known tokens, at the cost of the last ones.
 * Only who is the last itself has to do with less, and goes on when others have ended. Where there
 * are several clients, those who hold more pages are the last. */
static void share_pages(whim_sched *s, whim_plan *plan)
{
    int64_t given = 0, giver;
    for (int64_t i = 0; i < s->n_running; i++) {
        whim_sched_req *req = s->running[i];
        int64_t need = whim_sched_pages(s, req) - req->seq->n_page;
        while (whim_sched_room(s) < given + need && (giver = whim_sched_page_giver(s, i)) >= 0) {
            if (giver < i) {
                given -= s->running[giver]->n_room;
                i--;
            }
            whim_sched_preempt(s, plan, s->running[giver], WHIM_PREEMPT_PAGES);
        }
        req->n_room = whim_min64(need, whim_sched_room(s) - given);
        given += req->n_room;
    }
}

/* --- letting in ------------------------------------------------------------------------------- */

static void hold(whim_sched *s, whim_sched_req *req, int64_t n_page)
{
    if (n_page > req->held_at) {
        req->held_at = n_page;
        req->n_held = 0;
    }
    req->n_held++;
    whim_heap_remove(&s->waiting, &req->turn);
}

/* In order of turn, until one does not fit. Who waits for another's prefill lets the next ones
 * pass; of several clients, who does not fit lets others pass. */
static void let_all_in(whim_sched *s, budget *b)
{
    int64_t n_held = 0, n_page, n_need;
    whim_sched_req *req;
    while (n_held < s->max_running && b->n_row > 0 && b->n_out > 0 &&
           (req = whim_sched_next(s)) != NULL && whim_sched_has_seat(s, req)) {
        bool has_rows = req->client->n_left > 0;
        whim_verdict v = has_rows ? whim_sched_examine(s, req, &n_page, &n_need) : WHIM_BLOCKED;
        if (v == WHIM_BLOCKED && s->clients.n_client == 1) {
            break;
        }
        if (v == WHIM_BLOCKED) {
            req->client->is_blocked = true;
        } else if (v == WHIM_FITS) {
            whim_sched_admit(s, req, n_page, b->n_page);
            add_item(s, b, req);
        } else {
            hold(s, req, n_page);
            s->held[n_held++] = req;
        }
    }
    while (n_held > 0) {
        whim_heap_push(&s->waiting, &s->held[--n_held]->turn);
    }
}

/* The running request that makes way for the first of the queue, or NULL. One of another client
 * does only for who counts among all; one of the same client only while that is alone here, because
 * what is computed again costs others time. */
static whim_sched_req *who_makes_way(const whim_sched *s, const whim_sched_req *req)
{
    whim_sched_req *last = s->running[s->n_running - 1], *own = NULL;
    if (whim_sched_weight(req) < whim_sched_weight(last) &&
        whim_heap_before(&req->turn, &last->turn)) {
        return last;
    }
    bool may = !req->among_all && s->clients.n_client == 1;
    for (int64_t i = 0; may && i < s->n_running; i++) {
        whim_sched_req *other = s->running[i];
        if (!other->among_all && req->priority < other->priority &&
            whim_sched_own_before(own != NULL ? own : req, other)) {
            own = other;
        }
    }
    return own;
}

/* The first of the queue takes the place of running requests of lower priority, if it needs to. */
static void make_way(whim_sched *s, whim_plan *plan)
{
    const whim_sched_req *req = (const whim_sched_req *)whim_heap_top(&s->waiting);
    int64_t n_page, n_need;
    while (req != NULL && s->n_running > 0) {
        whim_sched_req *last = who_makes_way(s, req);
        if (last == NULL) {
            return;
        }
        whim_verdict v = whim_sched_examine(s, req, &n_page, &n_need);
        if (v == WHIM_FITS) {
            whim_sched_give_pages(s, n_page);
        }
        if (v == WHIM_HELD || (v == WHIM_FITS && s->n_running < s->max_running)) {
            return;
        }
        whim_sched_preempt(s, plan, last, WHIM_PREEMPT_PRIORITY);
    }
}

/* --- proposals -------------------------------------------------------------------------------- */

/* Rows of a request's proposals, of those that fit the pages at hand. */
static int64_t proposals_of(const whim_sched *s, const whim_plan_item *item, int64_t n_page)
{
    const whim_sched_req *req = item->req;
    if (!item->chooses || item->is_prefill) {
        return 0;
    }
    int64_t held = req->seq->n_page + whim_sequence_pages_needed(req->seq, 1) + n_page;
    int64_t room = held * req->seq->page_len - req->seq->len - 1;
    if (s->cfg.states != NULL) {
        room = whim_min64(room, whim_sched_state_stop(s, req, req->n_fed) - req->n_fed - 1);
    }
    return whim_min64(req->n_proposed, room);
}

/* Pages that are free, beyond those of all that is known of the running; rows and results of the
 * step's limits, beyond its budget. With states all rows of such a step are kept. */
static void add_proposals(whim_sched *s, const budget *b)
{
    whim_plan *plan = b->plan;
    int64_t most = s->cfg.max_step_tokens;
    int64_t max_row = s->cfg.states != NULL ? whim_min64(s->cfg.max_kept, most) : most;
    int64_t n_page = s->cfg.pool->n_free - whim_sched_claims(s), n_out = b->n_out;
    int64_t n_row = max_row > plan->n_row ? max_row - plan->n_row : 0;
    for (int64_t i = 0; i < plan->n_item && n_page >= 0; i++) {
        whim_plan_item *item = &plan->items[i];
        int64_t n = whim_min64(proposals_of(s, item, n_page), whim_min64(n_row, n_out));
        n_page -=
            whim_sequence_pages_needed(item->seq, 1 + n) - whim_sequence_pages_needed(item->seq, 1);
        n_row -= n;
        n_out -= n;
        item->n_tok += n;
        item->n_out += n;
        item->n_proposed = n;
        plan->n_row += n;
        plan->n_out += n;
        plan->n_proposed += n;
    }
    for (int64_t i = 0; i < s->n_running; i++) {
        s->running[i]->n_proposed = 0;
    }
}

/* Rows of the running: one for each that is at its last token, then prompts. */
static void add_running(whim_sched *s, budget *b)
{
    whim_sched_deal_rows(s);
    for (int64_t i = 0; i < s->n_running; i++) {
        whim_sched_req *req = s->running[i];
        if (whim_sched_is_at_last(req) && req->left_at < s->n_plan) {
            add_item(s, b, req);
        }
    }
    b->is_dealt = whim_sched_deal_prompts(s, b->n_row);
    for (int64_t i = 0; i < s->n_running; i++) {
        if (!whim_sched_is_at_last(s->running[i])) {
            add_item(s, b, s->running[i]);
        }
    }
}

void whim_sched_plan(whim_sched *s, whim_plan *plan)
{
    whim_check(!s->is_open);
    whim_sched_plan_init(s, plan);
    s->n_plan++;
    whim_sched_clients_begin(s);
    budget b = {.n_row = s->n_budget, .n_out = s->cfg.max_outs, .plan = plan};
    make_way(s, plan);
    whim_sched_take_share(s, plan);
    int64_t n_before = plan->n_preempted;
    share_pages(s, plan);
    add_running(s, &b);
    if (plan->n_preempted ==
        n_before) { /* who just lost its pages does not take them back at once */
        let_all_in(s, &b);
    }
    if (b.is_dealt) {
        add_rest(s, &b);
    }
    add_proposals(s, &b);
    s->is_open = plan->n_item > 0;
    s->open[0] = *plan;
}

/* --- a plan ahead ----------------------------------------------------------------------------- */

/* Whether a commit of the item and one more row are all there is to do for it. */
static bool may_go_on(const whim_sched *s, const whim_plan_item *item)
{
    const whim_sched_req *req = item->req;
    if (!item->chooses || item->n_proposed > 0) {
        return false;
    }
    /* A state that is to be kept must not have moved on by then. */
    return s->cfg.states == NULL ||
           req->n_fed + item->n_tok != whim_sched_state_stop(s, req, req->n_fed);
}

/* Running requests without a row, for the sake of other clients. */
static int64_t count_left(const whim_sched *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_running; i++) {
        n += s->running[i]->left_at == s->n_plan;
    }
    return n;
}

bool whim_sched_plan_ahead(whim_sched *s, const whim_plan *plan, const bool *over, whim_plan *ahead)
{
    whim_check(s->is_open && !s->is_ahead);
    whim_sched_plan_init(s, ahead);
    int64_t n_page = s->cfg.pool->n_free - whim_sched_claims(s);
    bool good = !whim_sched_wants_plan(s);
    int64_t n_live = 0, n_left = count_left(s);
    for (int64_t i = 0; i < plan->n_item && good; i++) {
        const whim_plan_item *item = &plan->items[i];
        n_live += item->req != NULL;
        if (item->req == NULL || over[i]) {
            good = n_left == 0; /* rows are dealt anew */
            continue;
        }
        n_page -= whim_sequence_pages_needed(item->seq, 1);
        good = may_go_on(s, item) && n_page >= 0 && item->req->n_tok + 1 < item->req->max_tok &&
               (n_left == 0 || !whim_sched_turn_row(s, item->req));
        ahead->items[ahead->n_item++] = (whim_plan_item){
            .req = item->req, .seq = item->seq, .n_tok = 1, .n_out = 1, .chooses = true};
    }
    /* One who runs and is not in the plan wants a plan of its own, unless others' share is why. */
    good = good && n_live + n_left == s->n_running;
    ahead->n_item = good ? ahead->n_item : 0;
    ahead->n_row = ahead->n_out = ahead->n_item;
    s->is_ahead = ahead->n_item > 0;
    s->open[1] = *ahead;
    return good;
}

void whim_sched_drop_ahead(whim_sched *s)
{
    s->is_ahead = false;
}

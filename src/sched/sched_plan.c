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

#include <string.h>

/* Waiting requests that one that is let in is compared with. */
enum { MAX_LOOK = 64 };

/* Plans that a request waits for another's prefill while nothing new becomes known. */
enum { MAX_HELD = 16 };

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

/* Pages that a request may take over instead of computing them: the last known token is always fed,
 * and so is every row whose result is still wanted. */
static int64_t reusable(const whim_sched *s, const whim_sched_req *req)
{
    int64_t n = req->n_tok - 1;
    return (req->all_rows ? whim_min64(n, req->n_row) : n) / page_len(s);
}

/* Whether there is room for states besides those of the running. */
static bool keeps_states(const whim_sched *s)
{
    return s->cfg.tree != NULL && s->cfg.states != NULL && s->cfg.states->n_page > s->max_running;
}

/* Whether a running request is about to compute the next page that this one needs. */
static bool is_underway(const whim_sched *s, const whim_sched_req *req, int64_t n_known)
{
    int64_t n = (n_known + 1) * page_len(s);
    if (s->cfg.states != NULL && !keeps_states(s)) {
        return false; /* it will keep nothing to go on from */
    }
    for (int64_t i = 0; i < s->n_running; i++) {
        const whim_sched_req *other = s->running[i];
        if (s->cfg.states != NULL) {
            n = whim_sched_state_stop(s, other, other->n_fed);
            n = n <= reusable(s, req) * page_len(s) ? n : INT64_MAX;
        }
        if (other->n_tok >= n && other->n_fed < n &&
            memcmp(other->tokens, req->tokens, (size_t)n * sizeof *req->tokens) == 0) {
            return true;
        }
    }
    return false;
}

void whim_sched_give_pages(whim_sched *s, int64_t n)
{
    if (s->from >= 0) {
        whim_page_pool_give(s->cfg.states, s->from);
        s->from = -1;
    }
    while (n > 0) {
        whim_page_pool_give(s->cfg.pool, s->pages[--n]);
    }
}

/* Pages that the tree has for the request; of a model with states, up to one of those. */
static int64_t match(whim_sched *s, const whim_sched_req *req, int64_t n_tok)
{
    if (s->cfg.states == NULL) {
        return whim_prefix_tree_match(s->cfg.tree, req->tokens, n_tok, s->pages);
    }
    return whim_prefix_tree_match_state(s->cfg.tree, req->tokens, n_tok, s->pages, &s->from);
}

whim_verdict whim_sched_examine(whim_sched *s, const whim_sched_req *req, int64_t *n_page,
                                int64_t *n_need)
{
    int64_t max = reusable(s, req);
    *n_page = 0;
    if (s->cfg.tree != NULL) {
        *n_page = match(s, req, max * page_len(s));
        bool may_hold = *n_page > req->held_at || req->n_held < MAX_HELD;
        if (*n_page < max && may_hold && is_underway(s, req, *n_page)) {
            whim_sched_give_pages(s, *n_page);
            return WHIM_HELD;
        }
    }
    *n_need = whim_sched_pages(s, req) - *n_page + whim_sched_kept_pages(s, req);
    if (*n_need > whim_sched_room(s) - whim_sched_claims(s)) {
        whim_sched_give_pages(s, *n_page);
        return WHIM_BLOCKED;
    }
    return WHIM_FITS;
}

/* Bring up to `max` pages behind the first n_page from the store; how many there are then. They
 * take none that the request would not take anyway. */
static int64_t fetch(whim_sched *s, const whim_sched_req *req, int64_t n_page, int64_t max,
                     int64_t planned)
{
    const whim_sched_store *store = &s->cfg.store;
    if (store->fetch == NULL || max <= 0) {
        return n_page;
    }
    whim_page_pool *pool = s->cfg.pool;
    bool fits = pool->n_free >= planned + max ||
                (s->cfg.tree != NULL && whim_prefix_tree_evict(s->cfg.tree, planned + max));
    whim_check(fits);
    int64_t n = store->fetch(store->ctx, req->tokens, n_page, max, s->pages + n_page);
    whim_check(n >= 0 && n <= max);
    if (n > 0 && s->cfg.tree != NULL) {
        whim_prefix_tree_insert(s->cfg.tree, req->tokens, s->pages, n_page + n);
    }
    return n_page + n;
}

/* The deepest state of the store behind more than n_min and at most n_max pages becomes that of its
 * page in the tree, and s->from; how many pages that is, or 0. */
static int64_t fetch_state(whim_sched *s, const whim_sched_req *req, int64_t n_min, int64_t n_max)
{
    const whim_sched_store *store = &s->cfg.store;
    for (int64_t n = n_max; n > n_min; n--) {
        n = store->known_state(store->ctx, req->tokens, n_min, n);
        if (n == 0 || !whim_prefix_tree_evict_states(s->cfg.tree, 1)) {
            break;
        }
        int32_t slot = whim_page_pool_take(s->cfg.states);
        if (store->fetch_state(store->ctx, req->tokens, n, slot) &&
            whim_prefix_tree_keep_state(s->cfg.tree, req->tokens, n, slot)) {
            if (s->from >= 0) {
                whim_page_pool_give(s->cfg.states, s->from);
            }
            s->from = slot;
            return n;
        }
        whim_page_pool_give(s->cfg.states, slot);
    }
    return 0;
}

/* The same of a model with states: pages are of use up to one that carries a state. What the tree
 * knows beyond the first n_page carries none, and is not fetched again. */
static int64_t fetch_with_state(whim_sched *s, whim_sched_req *req, int64_t n_page, int64_t planned)
{
    const whim_sched_store *store = &s->cfg.store;
    int64_t max = reusable(s, req);
    if (store->fetch == NULL || s->cfg.tree == NULL || max <= n_page) {
        return n_page;
    }
    for (int64_t i = 0; i < n_page; i++) {
        whim_page_pool_give(s->cfg.pool, s->pages[i]); /* match takes them again */
    }
    int64_t n = whim_prefix_tree_match(s->cfg.tree, req->tokens, max * page_len(s), s->pages);
    int64_t n_known = n + store->known(store->ctx, req->tokens, n, max - n);
    if (n_known * page_len(s) > req->n_branch) {
        req->n_branch = n_known * page_len(s);
    }
    int64_t n_wanted = store->known_state(store->ctx, req->tokens, n_page, n_known);
    if (n_wanted > n) {
        n = fetch(s, req, n, n_wanted - n, planned);
    }
    int64_t n_got = fetch_state(s, req, n_page, whim_min64(n, n_wanted));
    n_got = n_got > 0 ? n_got : n_page;
    while (n > n_got) {
        whim_page_pool_give(s->cfg.pool, s->pages[--n]);
    }
    return n_got;
}

static whim_miss miss_of(const whim_sched *s, const whim_sched_req *req, int64_t n_page)
{
    if (req->all_rows) {
        return WHIM_MISS_ROWS;
    }
    if (s->cfg.tree == NULL) {
        return WHIM_MISS_NO_CACHE;
    }
    int64_t max = reusable(s, req);
    if (max == 0) {
        return WHIM_MISS_SHORT;
    }
    if (n_page == max) {
        return WHIM_MISS_NONE;
    }
    if (n_page * page_len(s) < req->n_branch) {
        return WHIM_MISS_NO_STATE;
    }
    return whim_prefix_tree_lost(s->cfg.tree, req->tokens, max * page_len(s)) ? WHIM_MISS_EVICTED
                                                                              : WHIM_MISS_NEW;
}

/* The state that the pages end with becomes the request's own. Where the copy fails it starts from
 * nothing. */
static void load_state(whim_sched *s, whim_sched_req *req)
{
    if (s->from < 0) {
        return;
    }
    if (!s->cfg.copy_state(s->cfg.copy_ctx, s->from, req->seq->state)) {
        whim_sequence_cut(req->seq, s->cfg.pool, 0);
        req->n_fed = req->n_safe = req->seq->state_at = 0;
    }
    whim_page_pool_give(s->cfg.states, s->from);
    s->from = -1;
}

/* Tokens of whole pages that `first` computes and `then` could take over. */
static int64_t shared(const whim_sched *s, const whim_sched_req *first, const whim_sched_req *then)
{
    int64_t max = whim_min64(reusable(s, then) * page_len(s), first->n_tok), n = 0;
    while (n < max && first->tokens[n] == then->tokens[n]) {
        n++;
    }
    return n / page_len(s) * page_len(s);
}

/* Where the prompt leaves what the tree knows, or later where it leaves that of one who waits: a
 * state is kept there. */
static int64_t branch_of(const whim_sched *s, const whim_sched_req *req)
{
    int64_t n = page_len(s) *
                whim_prefix_tree_peek(s->cfg.tree, req->tokens, reusable(s, req) * page_len(s));
    for (int64_t i = 0; i < s->waiting.n && i < MAX_LOOK; i++) {
        const whim_sched_req *other = (const whim_sched_req *)s->waiting.nodes[i];
        int64_t more = other != req ? shared(s, req, other) : 0;
        n = more > n ? more : n;
    }
    return n;
}

void whim_sched_branch(whim_sched *s, const whim_sched_req *req)
{
    for (int64_t i = 0; i < s->n_running && keeps_states(s) && !s->is_open; i++) {
        whim_sched_req *other = s->running[i];
        int64_t n = other->n_branch <= other->n_fed ? shared(s, other, req) : 0;
        other->n_branch = n > other->n_fed ? n : other->n_branch;
    }
}

static void let_in(whim_sched *s, budget *b, whim_sched_req *req, int64_t n_page)
{
    if (s->cfg.states != NULL && s->cfg.tree != NULL) {
        req->n_branch = branch_of(s, req);
    }
    if (!req->started) {
        req->miss = miss_of(s, req, n_page);
    }
    int64_t n = s->cfg.states != NULL ? fetch_with_state(s, req, n_page, b->n_page)
                                      : fetch(s, req, n_page, reusable(s, req) - n_page, b->n_page);
    if (!req->started) {
        req->n_cached = n * page_len(s);
        req->miss = n == reusable(s, req) && n > n_page ? WHIM_MISS_NONE : req->miss;
    }
    whim_sched_start(s, req, s->pages, n);
    load_state(s, req);
    whim_client_reached(&s->clients, req->tag);
    req->plan = s->n_plan;
    req->n_held = 0;
    req->n_room = whim_sched_pages(s, req) - n;
    add_item(s, b, req);
}

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
            let_in(s, b, req, n_page);
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

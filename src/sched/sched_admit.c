/* SPDX-License-Identifier: Apache-2.0 */
/* Letting a request in: whether it fits, what of it the tree and the store have, and the state that
 * it goes on from.
 * Nothing here allocates. */
#include "base/check.h"
#include "sched/sched.h"
#include "sched/sched_state.h"

#include <string.h>

/* Waiting requests that one that is let in is compared with. */
enum { MAX_LOOK = 64 };

/* Plans that a request waits for another's prefill while nothing new becomes known. */
enum { MAX_HELD = 16 };

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
void whim_sched_admit(whim_sched *s, whim_sched_req *req, int64_t n_page, int64_t planned)
{
    if (s->cfg.states != NULL && s->cfg.tree != NULL) {
        req->n_branch = branch_of(s, req);
    }
    if (!req->started) {
        req->miss = miss_of(s, req, n_page);
    }
    int64_t n = s->cfg.states != NULL ? fetch_with_state(s, req, n_page, planned)
                                      : fetch(s, req, n_page, reusable(s, req) - n_page, planned);
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
}

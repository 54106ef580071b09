/* SPDX-License-Identifier: Apache-2.0 */
/* Requests coming, going, and moving on by what a step did. Plans are made in sched_plan.c. */
#include "sched/sched.h"

#include "base/alloc.h"
#include "base/check.h"
#include "sched/sched_state.h"

#include <stddef.h>
#include <string.h>

enum {
    AGE_TOKENS = 1 << 18,
    MAX_AGE = 1 << 20, /* times any priority it fits 64 bits */
    /* What an answer is expected to take of a client's service when nothing is known about its
     * length. */
    EXPECTED_ANSWER = 256,
    STATE_EVERY = 4096,
};

/* --- lifetime --------------------------------------------------------------------------------- */

static whim_err seqs_create(whim_sched *s)
{
    for (int64_t i = 0; i < s->max_running; i++) {
        WHIM_TRY(whim_sequence_init(&s->seqs[i], s->cfg.max_ctx, page_len(s)));
        s->seqs[i].group = s->cfg.group;
        if (s->cfg.states != NULL) {
            WHIM_TRY(whim_sequence_take_state(&s->seqs[i], s->cfg.states));
        }
        s->free_seqs[s->n_free_seq++] = &s->seqs[i];
    }
    return WHIM_ERR_OK;
}

static bool arrays_create(whim_sched *s)
{
    whim_arena *a = &s->arena;
    int64_t n = s->max_running;
    s->running = whim_arena_alloc_array(a, n, sizeof *s->running);
    s->free_seqs = whim_arena_alloc_array(a, n, sizeof *s->free_seqs);
    s->items[0] = whim_arena_alloc_array(a, n, sizeof *s->items[0]);
    s->items[1] = whim_arena_alloc_array(a, n, sizeof *s->items[1]);
    s->held = whim_arena_alloc_array(a, n, sizeof *s->held);
    s->pages =
        whim_arena_alloc_array(a, whim_kv_pages(s->cfg.max_ctx, page_len(s)), sizeof *s->pages);
    s->seqs = whim_arena_alloc_array(a, n, sizeof *s->seqs);
    for (int64_t i = 0; s->seqs != NULL && i < n; i++) {
        s->seqs[i].state = -1; /* none to give back where an allocation fails */
    }
    return s->running != NULL && s->free_seqs != NULL && s->items[0] != NULL &&
           s->items[1] != NULL && s->held != NULL && s->pages != NULL && s->seqs != NULL;
}

whim_err whim_sched_create(const whim_sched_cfg *cfg, whim_sched **out)
{
    if (cfg->max_seqs < 1 || cfg->max_step_tokens < 1 || cfg->max_outs < 1 || cfg->max_ctx < 1) {
        return WHIM_ERR_INVALID;
    }
    whim_sched *s = whim_alloc(sizeof *s);
    if (s == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    s->cfg = *cfg;
    s->n_budget = cfg->max_step_tokens;
    s->from = -1;
    int64_t every = cfg->state_every > 0 ? cfg->state_every : STATE_EVERY;
    s->cfg.state_every = whim_kv_pages(every, page_len(s)) * page_len(s);
    s->cfg.age_tokens = cfg->age_tokens > 0 ? whim_min64(cfg->age_tokens, MAX_AGE) : AGE_TOKENS;
    /* Every running request can then have its row in every step. */
    s->max_running = whim_min64(cfg->max_seqs, whim_min64(cfg->max_step_tokens, cfg->max_outs));
    if (!arrays_create(s) || seqs_create(s) != WHIM_ERR_OK) {
        whim_sched_destroy(s);
        return WHIM_ERR_NO_MEMORY;
    }
    *out = s;
    return WHIM_ERR_OK;
}

/* The end of a request that is neither waiting nor running. */
static void req_free(whim_sched *s, whim_sched_req *req)
{
    whim_client_leave(&s->clients, req->client, req->cost - (req->n_most - req->n_cached));
    whim_free(req);
}

void whim_sched_destroy(whim_sched *s)
{
    if (s == NULL) {
        return;
    }
    s->is_open = s->is_ahead = false;
    while (s->n_running > 0) {
        whim_sched_remove(s, s->running[s->n_running - 1]);
    }
    while (s->waiting.n > 0) {
        whim_sched_remove(s, (whim_sched_req *)whim_heap_top(&s->waiting));
    }
    for (int64_t i = 0; s->seqs != NULL && i < s->max_running; i++) {
        if (s->cfg.states != NULL) {
            whim_sequence_give_state(&s->seqs[i], s->cfg.states);
        }
        whim_sequence_deinit(&s->seqs[i], s->cfg.pool);
    }
    whim_heap_deinit(&s->waiting);
    whim_arena_reset(&s->arena);
    whim_free(s);
}

/* --- moves ------------------------------------------------------------------------------------ */

int64_t whim_sched_pages(const whim_sched *s, const whim_sched_req *req)
{
    return whim_kv_pages(req->n_tok, page_len(s));
}

int64_t whim_sched_room(const whim_sched *s)
{
    int64_t evictable = s->cfg.tree != NULL ? whim_prefix_tree_evictable(s->cfg.tree) : 0;
    return s->cfg.pool->n_free + evictable;
}

void whim_sched_wait(whim_sched *s, whim_sched_req *req)
{
    whim_heap_push(&s->waiting, &req->turn);
    whim_sched_order_enter(s, req);
}

static void leave_queue(whim_sched *s, whim_sched_req *req)
{
    whim_heap_remove(&s->waiting, &req->turn);
    whim_sched_order_leave(req);
}

void whim_sched_start(whim_sched *s, whim_sched_req *req, const int32_t *pages, int64_t n)
{
    if (req->turn.at != 0) {
        leave_queue(s, req);
    }
    req->seq = s->free_seqs[--s->n_free_seq];
    whim_sequence_share(req->seq, pages, n);
    req->n_fed = req->n_safe = req->seq->state_at = req->seq->len;
    req->most_at_seat = req->n_most;
    req->client->n_seat++;
    req->client->has_run = true;
    int64_t at = s->n_running++;
    for (; at > 0 && whim_heap_before(&req->turn, &s->running[at - 1]->turn); at--) {
        s->running[at] = s->running[at - 1];
    }
    s->running[at] = req;
}

/* Its full pages become known, and those that the tree has already take the place of its own. */
static void remember(whim_sched *s, const whim_sched_req *req)
{
    if (s->cfg.tree != NULL) {
        whim_prefix_tree_merge(s->cfg.tree, req->tokens, req->seq->pages, req->n_fed / page_len(s));
    }
}

int64_t whim_sched_state_stop(const whim_sched *s, const whim_sched_req *req, int64_t n_fed)
{
    const int64_t places[] = {(req->n_prompt - 1) / page_len(s) * page_len(s), req->n_branch};
    int64_t next = (n_fed / s->cfg.state_every + 1) * s->cfg.state_every;
    for (int i = 0; i < 2; i++) {
        next = places[i] > n_fed ? whim_min64(next, places[i]) : next;
    }
    return next;
}

/* Keep the request's state with its last page, when this is a place for it. */
static void keep_state(whim_sched *s, whim_sched_req *req, int64_t n_before)
{
    whim_page_pool *states = s->cfg.states;
    if (states == NULL || s->cfg.tree == NULL ||
        req->n_fed != whim_sched_state_stop(s, req, n_before) ||
        whim_prefix_tree_has_state(s->cfg.tree, req->tokens, req->n_fed / page_len(s)) ||
        !whim_prefix_tree_evict_states(s->cfg.tree, 1)) {
        return;
    }
    remember(s, req);
    int32_t slot = whim_page_pool_take(states);
    if (s->cfg.copy_state(s->cfg.copy_ctx, req->seq->state, slot)) {
        whim_prefix_tree_keep_state(s->cfg.tree, req->tokens, req->n_fed / page_len(s), slot);
        req->n_safe = req->n_fed;
    }
    whim_page_pool_give(states, slot); /* the tree's now, or nobody's */
}

/* Items of open plans lose their request. */
static void forget(whim_sched *s, const whim_sched_req *req)
{
    for (int p = 0; p < s->is_open + s->is_ahead; p++) {
        for (int64_t i = 0; i < s->open[p].n_item; i++) {
            whim_plan_item *item = &s->open[p].items[i];
            item->req = item->req == req ? NULL : item->req;
        }
    }
}

void whim_sched_plan_init(whim_sched *s, whim_plan *plan)
{
    *plan = (whim_plan){.items = s->items[s->n_planned++ % 2]};
}

void whim_sched_stop(whim_sched *s, whim_sched_req *req)
{
    remember(s, req);
    whim_sequence_cut(req->seq, s->cfg.pool, 0);
    s->free_seqs[s->n_free_seq++] = req->seq;
    req->seq = NULL;
    req->n_fed = req->n_proposed = 0;
    req->client->n_seat--;
    int64_t at = 0;
    while (s->running[at] != req) {
        at++;
    }
    s->n_running--;
    for (; at < s->n_running; at++) {
        s->running[at] = s->running[at + 1];
    }
}

void whim_sched_preempt(whim_sched *s, whim_plan *plan, whim_sched_req *req, whim_preempt why)
{
    whim_sched_stop(s, req);
    whim_sched_wait(s, req);
    req->n_preempted++;
    s->n_preempted[why]++;
    if (plan != NULL) {
        plan->n_preempted++;
    }
}

void whim_sched_set_budget(whim_sched *s, int64_t n_row)
{
    s->n_budget = whim_min64(n_row, s->cfg.max_step_tokens);
    s->n_budget = s->n_budget > s->max_running ? s->n_budget : s->max_running;
}

void whim_sched_set_age(whim_sched *s, int64_t n_tok)
{
    s->cfg.age_tokens = n_tok < 1 ? 1 : whim_min64(n_tok, MAX_AGE);
}

/* --- coming and going ------------------------------------------------------------------------- */

static whim_err add_check(const whim_sched *s, const whim_sched_add *add, whim_diag *diag)
{
    if (add->n_tok < 1 || add->n_tok >= s->cfg.max_ctx || add->max_tok < add->n_tok ||
        add->max_tok > s->cfg.max_ctx) {
        return whim_fail(diag, WHIM_ERR_INVALID,
                         "a prompt of %lld tokens and %lld in all do not fit a context of %lld",
                         (long long)add->n_tok, (long long)add->max_tok, (long long)s->cfg.max_ctx);
    }
    /* The last token that is chosen is never fed. */
    int64_t n_fed = add->max_tok - 1 > add->n_tok ? add->max_tok - 1 : add->n_tok;
    if (whim_kv_pages(n_fed, page_len(s)) > s->cfg.pool->n_page) {
        return whim_fail(diag, WHIM_ERR_NO_FIT,
                         "%lld tokens need %lld KV pages of %d tokens, there are %lld",
                         (long long)n_fed, (long long)whim_kv_pages(n_fed, page_len(s)),
                         page_len(s), (long long)s->cfg.pool->n_page);
    }
    return WHIM_ERR_OK;
}

whim_err whim_sched_submit(whim_sched *s, const whim_sched_add *add, whim_sched_req **out,
                           whim_diag *diag)
{
    WHIM_TRY(add_check(s, add, diag));
    whim_sched_req *req = whim_alloc(sizeof *req);
    int64_t cost = add->n_tok + whim_min64(add->max_tok - add->n_tok, EXPECTED_ANSWER);
    whim_client *client;
    int64_t tag;
    /* Running ones may all have to wait some time: there is room for that too. */
    if (req == NULL ||
        whim_heap_reserve(&s->waiting, s->waiting.n + s->n_running + 1) != WHIM_ERR_OK ||
        whim_client_enter(&s->clients, add->client, cost, &client, &tag) != WHIM_ERR_OK) {
        whim_free(req);
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "no memory for a request");
    }
    *req = (whim_sched_req){
        .tokens = add->tokens,
        .n_tok = add->n_tok,
        .n_prompt = add->n_tok,
        .max_tok = add->max_tok,
        .user = add->user,
        .client = client,
        .tag = tag,
        .cost = cost,
        .priority = add->priority,
        .among_all = add->among_all,
        .all_rows = add->all_rows,
    };
    /* Time runs slower the more clients share it. */
    int64_t step =
        s->cfg.age_tokens * WHIM_SERVICE_UNIT / (s->clients.n_client > 0 ? s->clients.n_client : 1);
    req->own_key = tag + req->priority * step;
    req->turn.key = req->among_all ? req->own_key : tag;
    req->own_order = req->turn.order = s->n_arrival++;
    whim_sched_wait(s, req);
    whim_sched_branch(s, req);
    *out = req;
    return WHIM_ERR_OK;
}

void whim_sched_move_tokens(whim_sched_req *req, int32_t *tokens)
{
    req->tokens = tokens;
}

void whim_sched_remove(whim_sched *s, whim_sched_req *req)
{
    forget(s, req);
    if (req->seq != NULL) {
        whim_sched_stop(s, req);
    } else {
        leave_queue(s, req);
    }
    req_free(s, req);
}

/* --- after a step ----------------------------------------------------------------------------- */

/* The counters of a request's first step. */
static void first_step(whim_sched *s, whim_sched_req *req)
{
    req->started = true;
    s->n_prompt += req->n_prompt;
    s->n_hit += req->n_cached;
}

whim_sequence *whim_sched_at_last(const whim_sched_req *req)
{
    return req->n_tok - req->n_fed == 1 ? req->seq : NULL;
}

void whim_sched_propose(whim_sched *s, whim_sched_req *req, const int32_t *tokens, int64_t n)
{
    whim_check(!s->is_open && n >= 0);
    int64_t room = req->max_tok - req->n_tok - 1; /* one more is chosen after them */
    req->n_proposed = whim_min64(n, room > 0 ? room : 0);
    for (int64_t i = 0; i < req->n_proposed; i++) {
        req->tokens[req->n_tok + i] = tokens[i];
    }
}

/* Proposals that were right are known tokens now; the rows of the others never were. */
static void settle(whim_sched *s, const whim_plan_item *item, const whim_sched_made *made)
{
    whim_sched_req *req = item->req;
    int64_t n_right = made->n > 0 ? made->n - 1 : 0;
    whim_check(n_right <= item->n_proposed);
    for (int64_t i = 0; i < n_right; i++) {
        whim_check(made->tokens[i] == req->tokens[req->n_tok + i]);
    }
    whim_sequence_cut(req->seq, s->cfg.pool, req->seq->len - (item->n_proposed - n_right));
    whim_check(s->cfg.states == NULL || req->seq->state_at == req->seq->len);
}

static void commit_item(whim_sched *s, const whim_plan_item *item, const whim_sched_made *made)
{
    whim_sched_req *req = item->req;
    /* A row of the plan ahead, which the sequence has grown by as well. */
    int64_t n_after = req->seq->len - req->n_fed - item->n_tok;
    whim_check(req->seq == item->seq && n_after >= 0 && n_after <= s->is_ahead);
    if (item->n_proposed > 0) {
        settle(s, item, made);
    }
    if (!req->started) {
        first_step(s, req);
    }
    int64_t n_before = req->n_fed;
    req->n_fed = req->seq->len - n_after;
    keep_state(s, req, n_before);
    if (s->cfg.states == NULL && s->cfg.tree != NULL) {
        req->n_safe = req->n_fed / page_len(s) * page_len(s);
    }
    req->n_most = req->n_fed > req->n_most ? req->n_fed : req->n_most;
    if (req->all_rows && req->n_row < whim_min64(req->n_fed, req->n_prompt)) {
        req->n_row = whim_min64(req->n_fed, req->n_prompt);
    }
    for (int64_t i = 0; i < made->n && item->chooses && req->n_tok < req->max_tok; i++) {
        req->tokens[req->n_tok++] = made->tokens[i];
    }
    if (made->ended) {
        whim_sched_remove(s, req);
        return;
    }
    /* More rows than fit are a bug of the caller, who has to end it. */
    whim_check(!item->chooses || (made->n > 0 && req->n_tok < req->max_tok));
    if (item->is_prefill) {
        remember(s, req);
    }
}

void whim_sched_commit(whim_sched *s, const whim_plan *plan, const whim_sched_made *made)
{
    whim_check(s->is_open || plan->n_item == 0);
    int64_t served = 0;
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        served += item->n_tok - item->n_proposed + (made[i].n > 1 ? made[i].n - 1 : 0);
    }
    if (served > 0) {
        whim_client_served(&s->clients, served);
    }
    for (int64_t i = 0; i < plan->n_item; i++) {
        if (plan->items[i].req != NULL) {
            commit_item(s, &plan->items[i], &made[i]);
        }
    }
    s->is_open = s->is_ahead;
    s->is_ahead = false;
    s->open[0] = s->open[1];
}

void whim_sched_abort(whim_sched *s, const whim_plan *plan)
{
    for (int64_t i = 0; i < plan->n_item; i++) {
        whim_sched_req *req = plan->items[i].req;
        if (req == NULL) {
            continue;
        }
        bool lost = req->seq->len < req->n_fed ||
                    (s->cfg.states != NULL && req->seq->state_at != req->n_fed);
        req->n_fed = whim_min64(req->n_fed, req->seq->len);
        whim_sequence_cut(req->seq, s->cfg.pool, req->n_fed);
        if (req->plan == s->n_plan || lost) {
            whim_sched_stop(s, req);
            whim_sched_wait(s, req);
        }
    }
    s->is_open = s->is_ahead = false;
}

void whim_sched_lose(whim_sched *s)
{
    whim_check(!s->is_open);
    while (s->n_running > 0) {
        whim_sched_preempt(s, NULL, s->running[s->n_running - 1], WHIM_PREEMPT_LOST);
    }
    if (s->cfg.tree != NULL) {
        (void)whim_prefix_tree_evict(s->cfg.tree, s->cfg.pool->n_page); /* nobody else holds any */
    }
}

/* --- looking ---------------------------------------------------------------------------------- */

const char *whim_miss_name(whim_miss miss)
{
    static const char *const names[] = {
        [WHIM_MISS_WAITS] = "not admitted",
        [WHIM_MISS_NONE] = "nothing missed",
        [WHIM_MISS_NEW] = "new",
        [WHIM_MISS_EVICTED] = "evicted",
        [WHIM_MISS_NO_STATE] = "no state",
        [WHIM_MISS_ROWS] = "rows wanted",
        [WHIM_MISS_SHORT] = "short",
        [WHIM_MISS_NO_CACHE] = "no cache",
    };
    return names[miss];
}

whim_sched_req_info whim_sched_req_get(const whim_sched_req *req)
{
    return (whim_sched_req_info){
        .n_tok = req->n_tok,
        .n_prompt = req->n_prompt,
        .n_fed = req->n_fed,
        .n_cached = req->n_cached,
        .n_preempted = req->n_preempted,
        .running = req->seq != NULL,
        .miss = req->miss,
    };
}

void *whim_sched_req_user(const whim_sched_req *req)
{
    return req->user;
}

whim_sched_stats whim_sched_get_stats(const whim_sched *s)
{
    const whim_prefix_tree *tree = s->cfg.tree;
    const whim_page_pool *pool = s->cfg.pool;
    int64_t cached = tree != NULL ? whim_prefix_tree_alone(tree) : 0;
    whim_sched_stats stats = {
        .n_running = s->n_running,
        .n_waiting = s->waiting.n,
        .pages_used = pool->n_page - pool->n_free - cached,
        .pages_cached = cached,
        .pages_total = pool->n_page,
        .n_hit_tokens = s->n_hit,
        .n_prompt_tokens = s->n_prompt,
        .n_evicted = tree != NULL ? whim_prefix_tree_evicted(tree) : 0,
    };
    memcpy(stats.n_preempted, s->n_preempted, sizeof stats.n_preempted);
    return stats;
}

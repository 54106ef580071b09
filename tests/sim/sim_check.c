/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold after every call. */
#include "sim.h"

#include "sched/sched_state.h"

#include <string.h>

static void count_tree_page(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                            const int32_t *tokens)
{
    (void)state, (void)key;
    (void)tokens;
    ((int32_t *)ctx)[page]++;
}

/* Every page has as many references as there are holders, and the free list has exactly the
 * rest. */
bool sim_check_pages(sim_world *w)
{
    int32_t holders[SIM_MAX_PAGES] = {0}, is_free[SIM_MAX_PAGES] = {0};
    const whim_sched *s = w->sched;
    if (w->tree != NULL) {
        whim_prefix_tree_each(w->tree, count_tree_page, holders);
    }
    for (int64_t i = 0; i < s->n_running; i++) {
        const whim_sequence *seq = s->running[i]->seq;
        for (int64_t p = 0; p < seq->n_page; p++) {
            holders[seq->pages[p]]++;
        }
    }
    for (int64_t i = 0; i < w->pool.n_free; i++) {
        is_free[w->pool.free_ids[i]]++;
    }
    int64_t used = 0;
    for (int64_t p = 0; p < w->pool.n_page; p++) {
        if (w->pool.refs[p] != holders[p]) {
            return sim_fail(w, "page %lld has %d references and %d holders", (long long)p,
                            w->pool.refs[p], holders[p]);
        }
        if (is_free[p] != (holders[p] == 0)) {
            return sim_fail(w, "page %lld has %d holders and is %d times in the free list",
                            (long long)p, holders[p], is_free[p]);
        }
        used += holders[p] > 0;
    }
    if (w->tree != NULL && whim_prefix_tree_evictable(w->tree) != whim_prefix_tree_alone(w->tree)) {
        return sim_fail(w, "%lld pages are only the tree's, %lld of them can go",
                        (long long)whim_prefix_tree_alone(w->tree),
                        (long long)whim_prefix_tree_evictable(w->tree));
    }
    whim_sched_stats stats = whim_sched_get_stats(s);
    if (stats.pages_used + stats.pages_cached != used || stats.pages_used < 0 ||
        stats.n_running + stats.n_waiting != w->n_live) {
        return sim_fail(w, "%lld pages used and %lld cached of %lld, %lld + %lld of %lld live",
                        (long long)stats.pages_used, (long long)stats.pages_cached, (long long)used,
                        (long long)stats.n_running, (long long)stats.n_waiting,
                        (long long)w->n_live);
    }
    return true;
}

static bool check_rows(sim_world *w, const whim_plan_item *item)
{
    sim_job *job = whim_sched_req_user(item->req);
    int64_t end = item->seq->len + item->n_tok, first_out = end - item->n_out;
    int64_t wanted = item->chooses ? 1 + item->n_proposed : 0;
    if (job->all_rows && job->n_rows < job->n_prompt) {
        wanted = end > job->n_rows ? end - job->n_rows : 0;
        if (wanted > 0 && first_out != job->n_rows) {
            return sim_fail(w, "results begin at row %lld, expected %lld", (long long)first_out,
                            (long long)job->n_rows);
        }
    }
    if (item->n_out != wanted) {
        return sim_fail(w, "%lld results planned, %lld wanted", (long long)item->n_out,
                        (long long)wanted);
    }
    return true;
}

static bool check_item(sim_world *w, const whim_plan *plan, int64_t i)
{
    const whim_plan_item *item = &plan->items[i];
    const sim_job *job = whim_sched_req_user(item->req);
    whim_sched_req_info info = whim_sched_req_get(item->req);
    int64_t end = item->seq->len + item->n_tok - item->n_proposed;
    for (int64_t k = 0; k < i; k++) {
        if (plan->items[k].req == item->req || plan->items[k].seq == item->seq) {
            return sim_fail(w, "a request is twice in a plan");
        }
    }
    if (job->req != item->req || item->n_tok < 1 || end > info.n_tok || !info.running ||
        item->seq->len != info.n_fed || item->tokens != job->tokens + item->seq->len ||
        item->chooses != (end == info.n_tok)) {
        return sim_fail(w, "an item of %lld tokens after %lld of %lld is not in order",
                        (long long)item->n_tok, (long long)item->seq->len, (long long)info.n_tok);
    }
    if (info.n_cached >= job->n_prompt || info.n_cached % SIM_PAGE != 0 ||
        (job->all_rows && info.n_cached > 0)) {
        return sim_fail(w, "%lld of %lld prompt tokens are said to be cached",
                        (long long)info.n_cached, (long long)job->n_prompt);
    }
    if (item->n_proposed > 0 &&
        (item->is_prefill || !item->chooses || item->n_tok != 1 + item->n_proposed ||
         end + item->n_proposed >= job->max_tok)) {
        return sim_fail(w, "%lld proposals stand in a place that has none",
                        (long long)item->n_proposed);
    }
    return check_rows(w, item);
}

/* Of clients that generate, who has requests without a row has as many rows as the one with the
 * fewest, and one alone has all of its. */
static bool check_shares(sim_world *w, const whim_plan *plan)
{
    const whim_sched *s = w->sched;
    int64_t n_client = 0, fewest = INT64_MAX;
    for (const whim_client *c = NULL; (c = whim_client_after(&s->clients, c)) != NULL;) {
        int64_t rows = 0;
        for (int64_t i = 0; i < plan->n_item; i++) {
            const whim_sched_req *req = plan->items[i].req;
            rows += req->client == c && whim_sched_is_at_last(req) && whim_sched_weight(req) >= 0 &&
                    req->plan < s->n_plan;
        }
        n_client += rows > 0;
        fewest = rows > 0 && rows < fewest ? rows : fewest;
    }
    for (int64_t i = 0; i < s->n_running; i++) {
        const whim_sched_req *req = s->running[i];
        int64_t rows = 0;
        for (int64_t k = 0; k < plan->n_item && req->left_at == s->n_plan; k++) {
            const whim_sched_req *other = plan->items[k].req;
            rows += other->client == req->client && whim_sched_is_at_last(other) &&
                    whim_sched_weight(other) >= 0 && other->plan < s->n_plan;
        }
        if (req->left_at == s->n_plan && (n_client < 2 || rows != fewest)) {
            return sim_fail(w, "a client has %lld rows and one more is left out, others have %lld",
                            (long long)rows, (long long)fewest);
        }
    }
    return true;
}

bool sim_check_plan(sim_world *w, const whim_plan *plan)
{
    int64_t rows = 0, outs = 0, pages = 0, proposed = 0, known_pages = 0, claimed = 0;
    bool decode_left_out = false, prefill = false;
    for (int64_t i = 0; i < plan->n_item; i++) {
        const whim_plan_item *item = &plan->items[i];
        if (!check_item(w, plan, i)) {
            return false;
        }
        rows += item->n_tok;
        outs += item->n_out;
        pages += whim_sequence_pages_needed(item->seq, item->n_tok);
        known_pages += whim_sequence_pages_needed(item->seq, item->n_tok - item->n_proposed);
        proposed += item->n_proposed;
        prefill |= item->n_tok - item->n_proposed > 1;
    }
    if (rows != plan->n_row || outs != plan->n_out || proposed != plan->n_proposed ||
        rows - proposed > w->max_rows || rows > w->cfg.max_step_tokens || outs > w->cfg.max_outs ||
        plan->n_item > w->cfg.max_seqs || pages > w->pool.n_free) {
        return sim_fail(w, "a plan of %lld rows, %lld results, %lld items, %lld pages of %lld free",
                        (long long)rows, (long long)outs, (long long)plan->n_item, (long long)pages,
                        (long long)w->pool.n_free);
    }
    if (w->with_states && proposed > 0 && rows > w->cfg.max_kept) {
        return sim_fail(w, "a plan with proposals has %lld rows, %lld can be kept", (long long)rows,
                        (long long)w->cfg.max_kept);
    }
    /* Decode before prefill: nobody prefills while a request with one token left that has its page
     * is left out. */
    for (int64_t i = 0; i < w->sched->n_running; i++) {
        const whim_sched_req *req = w->sched->running[i];
        bool planned = false;
        for (int64_t k = 0; k < plan->n_item; k++) {
            planned |= plan->items[k].req == req;
        }
        claimed += whim_sched_pages(w->sched, req) - req->seq->n_page;
        decode_left_out |= !planned && req->left_at < w->sched->n_plan &&
                           req->n_tok - req->n_fed == 1 &&
                           whim_sequence_pages_needed(req->seq, 1) == 0;
    }
    /* Proposals take no page that is free for something known. */
    if (pages > known_pages && w->pool.n_free - (pages - known_pages) < claimed) {
        return sim_fail(w, "proposals take %lld pages, %lld are free and %lld needed",
                        (long long)(pages - known_pages), (long long)w->pool.n_free,
                        (long long)claimed);
    }
    return (!(decode_left_out && prefill) || sim_fail(w, "a prefill goes before a decode")) &&
           check_shares(w, plan);
}

static bool check_client(sim_world *w, const whim_client *c, int64_t *n_waiting)
{
    int64_t n = 0;
    for (const whim_sched_req *req = c->first; req != NULL; req = req->after, n++) {
        const whim_sched_req *next = req->after;
        if (req->client != c || req->seq != NULL || req->turn.at == 0 ||
            (next != NULL ? next->before != req : c->last != req)) {
            return sim_fail(w, "a client's list holds what does not wait");
        }
        if (next != NULL &&
            (!whim_sched_own_before(req, next) || !whim_heap_before(&req->turn, &next->turn))) {
            return sim_fail(w, "a client's places do not go along its order");
        }
    }
    *n_waiting += n;
    return true;
}

bool sim_check_order(sim_world *w)
{
    const whim_sched *s = w->sched;
    int64_t n = 0;
    for (int i = 0; i < WHIM_CLIENT_BUCKETS; i++) {
        for (const whim_client *c = s->clients.buckets[i]; c != NULL; c = c->next) {
            if (!check_client(w, c, &n)) {
                return false;
            }
        }
    }
    for (int64_t i = 0; i < s->waiting.n; i++) {
        n -= !((const whim_sched_req *)s->waiting.nodes[i])->among_all;
    }
    return n == 0 ||
           sim_fail(w, "%lld more wait in the lists of clients than in the queue", (long long)n);
}

/* One row for each, on pages that are free and that nobody needs; nobody who runs is left out but
 * those sure to end. */
bool sim_check_ahead(sim_world *w, const whim_plan *ahead)
{
    int64_t pages = 0, claimed = 0;
    for (int64_t i = 0; i < ahead->n_item; i++) {
        const whim_plan_item *item = &ahead->items[i];
        if (item->n_tok != 1 || item->n_out != 1 || !item->chooses || item->is_prefill) {
            return sim_fail(w, "an item of a plan ahead has %lld rows", (long long)item->n_tok);
        }
        pages += whim_sequence_pages_needed(item->seq, 1);
    }
    for (int64_t i = 0; i < w->sched->n_running; i++) {
        const whim_sched_req *req = w->sched->running[i];
        claimed += whim_sched_pages(w->sched, req) - req->seq->n_page;
    }
    if (pages > 0 && w->pool.n_free - pages < claimed) {
        return sim_fail(w, "a plan ahead takes %lld of %lld pages, %lld are needed",
                        (long long)pages, (long long)w->pool.n_free, (long long)claimed);
    }
    return true;
}

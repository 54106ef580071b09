/* SPDX-License-Identifier: Apache-2.0 */
/* The fake model, runner and disk. */
#include "sim.h"

#include "base/math/rng.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int64_t sim_draw(sim_world *w, int64_t n)
{
    return (int64_t)(whim_rng_at(w->seed, w->n_draw++) % (uint64_t)n);
}

bool sim_fail(sim_world *w, const char *fmt, ...)
{
    if (w->failure[0] == '\0') {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(w->failure, sizeof w->failure, fmt, ap);
        va_end(ap);
    }
    return false;
}

uint64_t sim_hash(uint64_t before, int32_t token)
{
    return whim_rng_key(before + 1, (uint64_t)(uint32_t)token) | 1; /* never 0 */
}

int32_t sim_next_token(uint64_t made_from)
{
    return (int32_t)(whim_rng_mix(made_from) % SIM_VOCAB);
}

static uint64_t *slot_of(sim_world *w, const whim_sequence *seq, int64_t position)
{
    int32_t slot = whim_sequence_slot(seq, position);
    return &w->pages[slot / SIM_PAGE].made_from[slot % SIM_PAGE];
}

/* As the runner does: pages without positions from before this step are zeroed first. */
static bool grow(sim_world *w, const whim_plan_item *item)
{
    int64_t before = item->seq->n_page;
    if (w->with_states && item->seq->len > 0 && item->seq->state_at != item->seq->len) {
        return sim_fail(w, "a sequence of %lld tokens has the state of %lld",
                        (long long)item->seq->len, (long long)item->seq->state_at);
    }
    if (item->n_proposed == 0) { /* a trial leaves the state as it is */
        item->seq->state_at = -1;
    }
    if (whim_sequence_grow(item->seq, &w->pool, item->n_tok) != WHIM_ERR_OK) {
        return sim_fail(w, "a planned sequence could not grow by %lld", (long long)item->n_tok);
    }
    for (int64_t i = before; i < item->seq->n_page; i++) {
        w->pages[item->seq->pages[i]] = (sim_page){{0}};
    }
    return true;
}

enum { STALE = 2 }; /* no hash: those are odd */

bool sim_draft(sim_world *w, whim_sequence *seq, int64_t n, bool *ran)
{
    int64_t len = seq->len, before = seq->n_page;
    int64_t needed = whim_sequence_pages_needed(seq, n);
    *ran = needed <= w->pool.n_free && seq->n_page + needed <= seq->max_page;
    if (!*ran) {
        return true;
    }
    if (whim_sequence_grow(seq, &w->pool, n) != WHIM_ERR_OK) {
        return sim_fail(w, "a draft's rows have no place");
    }
    for (int64_t i = before; i < seq->n_page; i++) {
        w->pages[seq->pages[i]] = (sim_page){{0}};
    }
    for (int64_t p = len; p < len + n; p++) {
        if (w->pool.refs[seq->pages[p / SIM_PAGE]] != 1) {
            return sim_fail(w, "a draft writes position %lld to a shared page", (long long)p);
        }
        *slot_of(w, seq, p) = STALE;
    }
    whim_sequence_cut(seq, &w->pool, len);
    return seq->len == len || sim_fail(w, "a draft leaves a sequence of another length");
}

void sim_forget(sim_world *w, const whim_plan_item *item, int64_t n_right)
{
    for (int64_t p = item->seq->len - item->n_proposed + n_right; p < item->seq->len; p++) {
        *slot_of(w, item->seq, p) = STALE;
    }
}

/* Read all positions before, write the new ones. */
static bool feed(sim_world *w, const whim_plan_item *item, sim_chosen *chosen)
{
    const sim_job *job = whim_sched_req_user(item->req);
    int64_t first = item->seq->len - item->n_tok, n_next = 0;
    int32_t next[SIM_MAX_PROPOSED + 1];
    uint64_t made_from = 0;
    for (int64_t p = 0; p < item->seq->len; p++) {
        if (w->with_states && p == first && p > 0 && w->state_of[item->seq->state] != made_from) {
            return sim_fail(w, "position %lld goes on from a state of other tokens", (long long)p);
        }
        made_from = sim_hash(made_from, job->tokens[p]);
        uint64_t *slot = slot_of(w, item->seq, p);
        if (p < first) {
            if (*slot != made_from) {
                return sim_fail(w, "position %lld of %lld reads a page of other tokens",
                                (long long)p, (long long)first);
            }
            continue;
        }
        if (w->pool.refs[item->seq->pages[p / SIM_PAGE]] != 1) {
            return sim_fail(w, "position %lld is written to a shared page", (long long)p);
        }
        if (*slot != 0 && *slot != STALE && *slot != made_from) {
            /* a step that failed may have written the same */
            return sim_fail(w, "position %lld is on a page that was not zeroed", (long long)p);
        }
        *slot = made_from;
        if (p + 1 >= item->seq->len - item->n_proposed) {
            next[n_next++] = sim_next_token(made_from);
        }
    }
    if (item->n_proposed == 0) {
        item->seq->state_at = item->seq->len;
        if (w->with_states) {
            w->state_of[item->seq->state] = made_from;
        }
    }
    const int32_t *proposed = job->tokens + item->seq->len - item->n_proposed;
    chosen->n = 0;
    do {
        chosen->tokens[chosen->n] = next[chosen->n];
    } while (chosen->n++ < item->n_proposed && next[chosen->n - 1] == proposed[chosen->n - 1]);
    return true;
}

void sim_advance(sim_world *w, const whim_plan_item *item, int64_t n_right)
{
    int64_t len = item->seq->len - item->n_proposed + n_right;
    if (w->with_states && item->n_proposed > 0) {
        w->state_of[item->seq->state] = *slot_of(w, item->seq, len - 1);
        item->seq->state_at = len;
        w->n_taken += n_right;
    }
}

bool sim_step(sim_world *w, const whim_plan *plan, sim_chosen *chosen)
{
    for (int64_t i = 0; i < plan->n_item; i++) {
        if (!grow(w, &plan->items[i])) {
            return false;
        }
    }
    for (int64_t i = 0; i < plan->n_item; i++) {
        if (!feed(w, &plan->items[i], &chosen[i])) {
            return false;
        }
    }
    return true;
}

bool sim_copy_state(void *ctx, int32_t from, int32_t to)
{
    sim_world *w = ctx;
    if (w->states.refs[from] < 1 || w->states.refs[to] != 1) {
        return sim_fail(w, "state %d with %d holders is copied over state %d with %d", from,
                        w->states.refs[from], to, w->states.refs[to]);
    }
    if (sim_draw(w, 50) == 0) {
        w->state_of[to] = 0;
        return false;
    }
    w->state_of[to] = w->state_of[from];
    if (from < w->cfg.max_seqs) { /* sequences took the first slots */
        w->n_kept++;
    } else {
        w->n_loaded++;
    }
    return true;
}

/* --- the disk --------------------------------------------------------------------------------- */

static sim_disk_page *disk_find(sim_world *w, const whim_prefix_key *key)
{
    for (int64_t i = 0; i < w->n_disk; i++) {
        if (memcmp(&w->disk[i].key, key, sizeof *key) == 0) {
            return &w->disk[i];
        }
    }
    return NULL;
}

void sim_evicted(void *ctx, int32_t page, int32_t state, const whim_prefix_key *key,
                 const int32_t *tokens)
{
    sim_world *w = ctx;
    (void)tokens;
    if (w->pool.refs[page] != 1 && state < 0) {
        sim_fail(w, "page %d is evicted while %d references are on it", page, w->pool.refs[page]);
    }
    sim_disk_page *there = disk_find(w, key);
    if (there == NULL && w->n_disk < SIM_MAX_DISK) {
        there = &w->disk[w->n_disk++];
        *there = (sim_disk_page){.key = *key, .page = w->pages[page]};
    }
    if (there != NULL && state >= 0) {
        there->state = w->state_of[state];
    }
}

/* The key of the first n pages. */
static whim_prefix_key key_of(const int32_t *tokens, int64_t n)
{
    whim_prefix_key key = {{0}};
    for (int64_t i = 0; i < n; i++) {
        key = whim_prefix_key_next(i > 0 ? &key : NULL, tokens + i * SIM_PAGE, SIM_PAGE);
    }
    return key;
}

static int64_t fetch(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max, int32_t *pages)
{
    sim_world *w = ctx;
    int64_t n = 0;
    for (; n < max && sim_draw(w, 50) > 0; n++) { /* the disk may be slow */
        whim_prefix_key key = key_of(tokens, n_page + n + 1);
        const sim_disk_page *found = disk_find(w, &key);
        int32_t page = found != NULL ? whim_page_pool_take(&w->pool) : -1;
        if (found == NULL || page < 0) {
            if (found != NULL) {
                sim_fail(w, "no page is free for a fetch of at most %lld", (long long)max);
            }
            break;
        }
        w->pages[page] = found->page;
        pages[n] = page;
    }
    w->n_fetched += n;
    return n;
}

static int64_t known(void *ctx, const int32_t *tokens, int64_t n_page, int64_t max)
{
    int64_t n = 0;
    for (; n < max; n++) {
        whim_prefix_key key = key_of(tokens, n_page + n + 1);
        if (disk_find(ctx, &key) == NULL) {
            break;
        }
    }
    return n;
}

static int64_t known_state(void *ctx, const int32_t *tokens, int64_t n_min, int64_t n_max)
{
    for (int64_t n = n_max; n > n_min; n--) {
        whim_prefix_key key = key_of(tokens, n);
        const sim_disk_page *found = disk_find(ctx, &key);
        if (found != NULL && found->state != 0) {
            return n;
        }
    }
    return 0;
}

static bool fetch_state(void *ctx, const int32_t *tokens, int64_t n_page, int32_t slot)
{
    sim_world *w = ctx;
    whim_prefix_key key = key_of(tokens, n_page);
    const sim_disk_page *found = disk_find(w, &key);
    if (w->states.refs[slot] != 1) {
        sim_fail(w, "a state is fetched to slot %d, which is in use", slot);
    }
    if (found == NULL || found->state == 0 || sim_draw(w, 20) == 0) {
        w->state_of[slot] = 1; /* half of it was read */
        return false;
    }
    w->state_of[slot] = found->state;
    w->n_state_fetched++;
    return true;
}

whim_sched_store sim_store(sim_world *w)
{
    return (whim_sched_store){.ctx = w,
                              .fetch = fetch,
                              .known = known,
                              .known_state = known_state,
                              .fetch_state = fetch_state};
}

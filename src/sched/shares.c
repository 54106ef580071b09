/* SPDX-License-Identifier: Apache-2.0 */
/* What clients take from each other while several have requests here. One alone meets none of this.
 *
 *  - Places: who waits takes the place of a client that has at least two more than its own; where
 *    clients are more than places, that of the request which has had the most rows from it, SLICE
 *    at least unless the one that waits is new.
 *  - Pages: who waits takes those of clients that hold more than its own would then. The request of
 *    the smallest turn of all takes them from anybody, so the largest request comes up, too.
 *  - What was taken is kept for a while (KEPT plans) for those who have no place, so that a client
 *    that comes and goes preempts seldom. Who was preempted for others has AGAIN new rows before it
 *    happens again: each preemption is paid for by progress, and every request ends.
 *  - Rows to generate with: each client that has such requests in a step gets as many rows as the
 *    one that has the fewest. A client's own go in turns of TURN rows.
 *  - Rows of prompts: what the step has for them is shared equally, and what one cannot use goes to
 *    the others.
 * Requests whose priority counts among all, and which go before others by it, are left out of
 * this. */
#include "sched/sched_state.h"

#include <stddef.h>

enum {
    SLICE = 256,
    KEPT = 64,
    AGAIN = 64, /* for a new request AGAIN_NEW */
    AGAIN_NEW = 16,
    TURN = 8,
    MAX_TRIES = 8, /* clients that a plan looks for places for */
};

static bool is_alone(const whim_sched *s)
{
    return s->clients.n_client < 2;
}

void whim_sched_clients_begin(whim_sched *s)
{
    for (whim_client *c = NULL; (c = whim_client_after(&s->clients, c)) != NULL;) {
        c->n_page = c->n_ready = c->n_want = 0;
        c->n_left = INT64_MAX;
        c->is_blocked = false;
    }
}

static void count_pages(whim_sched *s)
{
    for (int64_t i = 0; i < s->n_running; i++) {
        s->running[i]->client->n_page = 0;
    }
    for (int64_t i = 0; i < s->n_running; i++) {
        s->running[i]->client->n_page += s->running[i]->seq->n_page;
    }
}

/* --- who comes next --------------------------------------------------------------------------- */

static bool is_favoured(const whim_sched_req *req)
{
    return whim_sched_weight(req) < 0;
}

static int64_t seats_of(const whim_sched_req *req)
{
    return is_favoured(req) ? -1 : req->client->n_seat;
}

/* Whether a is let in before b, which are both favoured or neither. */
static bool comes_before(const whim_sched_req *a, const whim_sched_req *b)
{
    const whim_client *ca = a->client, *cb = b->client;
    bool has_fewer =
        ca->n_seat < cb->n_seat || (ca->n_seat == cb->n_seat && cb->has_run > ca->has_run);
    bool are_alike = ca->n_seat == cb->n_seat && ca->has_run == cb->has_run;
    return is_favoured(a) || are_alike ? whim_heap_before(&a->turn, &b->turn) : has_fewer;
}

/* Of the client with the fewest places (one that is new first) the request of the smallest turn;
 * one that is favoured by its turn. */
static whim_sched_req *next_of(const whim_sched *s, bool with_blocked)
{
    whim_sched_req *best = NULL, *favoured = NULL;
    if (is_alone(s)) {
        return (whim_sched_req *)whim_heap_top(&s->waiting);
    }
    for (int64_t i = 0; i < s->waiting.n; i++) {
        whim_sched_req *req = (whim_sched_req *)s->waiting.nodes[i];
        whim_sched_req **of = is_favoured(req) ? &favoured : &best;
        if (req->client->is_blocked && !with_blocked) {
            continue;
        }
        *of = *of == NULL || comes_before(req, *of) ? req : *of;
    }
    bool is_first =
        favoured != NULL && (best == NULL || whim_heap_before(&favoured->turn, &best->turn));
    return is_first ? favoured : best;
}

whim_sched_req *whim_sched_next(const whim_sched *s)
{
    return next_of(s, false);
}

static bool is_kept_from(const whim_sched *s, const whim_sched_req *req)
{
    return s->n_plan < s->kept_until && seats_of(req) > 0;
}

bool whim_sched_has_seat(const whim_sched *s, const whim_sched_req *req)
{
    return s->n_running + is_kept_from(s, req) < s->max_running;
}

int64_t whim_sched_kept_pages(const whim_sched *s, const whim_sched_req *req)
{
    return is_kept_from(s, req) ? s->kept_pages : 0;
}

/* --- places and pages for who waits ----------------------------------------------------------- */

/* Rows that are new since it was let in. */
static int64_t progress(const whim_sched_req *req)
{
    return req->n_most - req->most_at_seat;
}

/* Whether it may be preempted for `other`, which waits. */
static bool may_give(const whim_sched_req *req, const whim_sched_req *other)
{
    int64_t least = req->n_gave == 0 ? 1 : !other->client->has_run ? AGAIN_NEW : AGAIN;
    return !is_favoured(req) && progress(req) >= least;
}

/* Whether a is the better one of two to give its place: of the client with more places, then who
 * has the least to compute again, then the later turn. */
static bool gives_before(const whim_sched_req *a, const whim_sched_req *b)
{
    int64_t lost_a = a->n_fed - a->n_safe, lost_b = b->n_fed - b->n_safe;
    if (a->client->n_seat != b->client->n_seat) {
        return a->client->n_seat > b->client->n_seat;
    }
    return lost_a != lost_b ? lost_a < lost_b : whim_heap_before(&b->turn, &a->turn);
}

/* The running request that gives its place to one that waits where all are taken, or NULL. */
static whim_sched_req *seat_giver(const whim_sched *s, const whim_sched_req *req)
{
    whim_sched_req *giver = NULL, *longest = NULL;
    bool is_shared_out = seats_of(req) < 1;
    for (int64_t i = 0; i < s->n_running && !is_alone(s); i++) {
        whim_sched_req *other = s->running[i];
        int64_t n = progress(other);
        is_shared_out = is_shared_out && other->client->n_seat < 2;
        if (other->client == req->client || !may_give(other, req)) {
            continue;
        }
        if (other->client->n_seat >= seats_of(req) + 2 &&
            (giver == NULL || gives_before(other, giver))) {
            giver = other;
        }
        if (n >= (req->client->has_run ? SLICE : 1) && 2 * n >= other->n_fed - other->n_safe &&
            (longest == NULL || n > progress(longest))) {
            longest = other;
        }
    }
    return giver != NULL ? giver : is_shared_out ? longest : NULL;
}

/* It waits again, behind those who wait already where it has had its slice. */
static void give(whim_sched *s, whim_plan *plan, whim_sched_req *req)
{
    if (req->client->n_seat == 1 && !req->among_all && req->tag < s->clients.now) {
        req->tag = req->turn.key = s->clients.now;
    }
    req->n_gave++;
    whim_sched_preempt(s, plan, req, WHIM_PREEMPT_SHARE);
    if (s->n_plan >= s->kept_until) {
        s->kept_pages = 0;
    }
    s->kept_until = s->n_plan + KEPT;
}

/* Running requests, the last first, of clients that hold more than `own` pages, until there are n;
 * whether there are. With a plan they give them. */
static bool take_pages(whim_sched *s, whim_plan *plan, const whim_sched_req *req, int64_t own,
                       int64_t n)
{
    count_pages(s);
    for (int64_t i = s->n_running - 1; i >= 0 && n > 0; i--) {
        whim_sched_req *other = s->running[i];
        if (other->client == req->client || other->client->n_page <= own || !may_give(other, req)) {
            continue;
        }
        other->client->n_page -= other->seq->n_page;
        n -= other->seq->n_page;
        if (plan != NULL) {
            give(s, plan, other);
        }
    }
    return n <= 0;
}

/* The pages that one who waits lacks, if others hold more than its share. Whether it fits now. */
static bool pages_for(whim_sched *s, whim_plan *plan, const whim_sched_req *req)
{
    int64_t n_page, n_need;
    bool is_first = s->n_running > 0 && whim_heap_before(&req->turn, &s->running[0]->turn);
    for (bool more = true; more;) {
        whim_verdict v = whim_sched_examine(s, req, &n_page, &n_need);
        if (v == WHIM_FITS) {
            whim_sched_give_pages(s, n_page);
        }
        if (v != WHIM_BLOCKED) {
            return v == WHIM_FITS;
        }
        count_pages(s);
        int64_t held = req->client->n_seat > 0 ? req->client->n_page : 0;
        int64_t own = is_first ? 0 : held + n_need;
        /* Pages that it found itself were not free while it was looked at. */
        int64_t n_lack = n_page + n_need - whim_sched_room(s) + whim_sched_claims(s);
        n_lack = n_lack > 0 ? n_lack : 1;
        more = take_pages(s, NULL, req, own, n_lack) && take_pages(s, plan, req, own, n_lack);
        if (more && s->kept_pages < n_need) {
            s->kept_pages = n_need;
        }
    }
    return false;
}

/* Whether it can be let in, if need be at the cost of others. */
static bool place_for(whim_sched *s, whim_plan *plan, const whim_sched_req *req)
{
    if (s->n_running == s->max_running) {
        int64_t n_page, n_need;
        whim_sched_req *giver = seat_giver(s, req);
        whim_verdict v = whim_sched_examine(s, req, &n_page, &n_need);
        if (v == WHIM_FITS) {
            whim_sched_give_pages(s, n_page);
        }
        if (giver == NULL || v == WHIM_HELD) {
            return false;
        }
        give(s, plan, giver);
    }
    return whim_sched_has_seat(s, req) && pages_for(s, plan, req);
}

void whim_sched_take_share(whim_sched *s, whim_plan *plan)
{
    bool is_done = is_alone(s);
    for (int tries = 0; tries < MAX_TRIES && !is_done; tries++) {
        whim_sched_req *req = whim_sched_next(s);
        is_done = req == NULL || place_for(s, plan, req);
        if (!is_done) {
            req->client->is_blocked = true; /* others may fit */
        }
    }
    for (whim_client *c = NULL; (c = whim_client_after(&s->clients, c)) != NULL;) {
        c->is_blocked = false;
    }
}

bool whim_sched_wants_plan(const whim_sched *s)
{
    const whim_sched_req *req = next_of(s, true);
    return req != NULL && (whim_sched_has_seat(s, req) || seat_giver(s, req) != NULL);
}

/* --- pages for the running -------------------------------------------------------------------- */

/* The last of the client with the most pages, if that has more than the own one; else the last
 * behind it of those that have no less. The first of all takes them from whoever is last. */
int64_t whim_sched_page_giver(whim_sched *s, int64_t i)
{
    const whim_client *own = s->running[i]->client;
    int64_t last = s->n_running - 1, found = -1;
    if (is_alone(s)) {
        return i < last ? last : -1;
    }
    count_pages(s);
    for (int64_t k = last; k > 0; k--) {
        const whim_client *c = s->running[k]->client;
        bool has_more = c != own && c->n_page > own->n_page;
        bool is_behind = k > i && c->n_page >= own->n_page;
        if ((has_more || is_behind) &&
            (found < 0 || c->n_page > s->running[found]->client->n_page)) {
            found = k;
        }
    }
    return found < 0 && i == 0 && last > 0 ? last : found;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Whether it could have its row; page_len positions a page. */
static bool is_ready(const whim_sched *s, const whim_sched_req *req)
{
    int64_t room = (req->seq->n_page + req->n_room) * page_len(s) - req->n_fed;
    return whim_sched_is_at_last(req) && room > 0 && !is_favoured(req);
}

/* The same before pages are shared out. */
static bool will_be_ready(const whim_sched *s, const whim_sched_req *req)
{
    (void)s;
    return whim_sched_is_at_last(req) && !is_favoured(req);
}

typedef bool ready_fn(const whim_sched *s, const whim_sched_req *req);

/* How many of its client's have their turn before running[i]. */
static int64_t turns_before(const whim_sched *s, int64_t i, ready_fn *ready)
{
    const whim_sched_req *req = s->running[i];
    int64_t n = 0;
    for (int64_t k = 0; k < s->n_running; k++) {
        const whim_sched_req *other = s->running[k];
        bool before = other->turn_at != req->turn_at ? other->turn_at < req->turn_at : k < i;
        n += other->client == req->client && before && ready(s, other);
    }
    return n;
}

/* Rows of the client that has the fewest requests that are ready; all where there is one. Counts
 * n_ready of each. */
static int64_t count_ready(whim_sched *s, ready_fn *ready)
{
    int64_t fewest = INT64_MAX, n_client = 0;
    for (int64_t i = 0; i < s->n_running; i++) {
        whim_client *c = s->running[i]->client;
        c->n_ready += ready(s, s->running[i]);
    }
    for (whim_client *c = NULL; (c = whim_client_after(&s->clients, c)) != NULL;) {
        n_client += c->n_ready > 0;
        fewest = c->n_ready > 0 ? whim_min64(fewest, c->n_ready) : fewest;
    }
    return n_client > 1 ? fewest : INT64_MAX;
}

static bool is_passed(const whim_sched *s, int64_t i, int64_t fewest, ready_fn *ready)
{
    const whim_sched_req *req = s->running[i];
    return req->client->n_ready > fewest && ready(s, req) && turns_before(s, i, ready) >= fewest;
}

void whim_sched_deal_rows(whim_sched *s)
{
    int64_t fewest = is_alone(s) ? INT64_MAX : count_ready(s, is_ready);
    for (int64_t i = 0; i < s->n_running && fewest < INT64_MAX; i++) {
        s->running[i]->left_at =
            is_passed(s, i, fewest, is_ready) ? s->n_plan : s->running[i]->left_at;
    }
    for (int64_t i = 0; i < s->n_running && fewest < INT64_MAX; i++) {
        whim_sched_req *req = s->running[i];
        if (is_ready(s, req) && req->client->n_ready > fewest && req->left_at != s->n_plan) {
            whim_sched_turn_row(s, req);
        }
    }
}

void whim_sched_foresee(whim_sched *s)
{
    s->n_look++;
    if (is_alone(s)) {
        return;
    }
    whim_sched_clients_begin(s);
    int64_t fewest = count_ready(s, will_be_ready);
    for (int64_t i = 0; i < s->n_running && fewest < INT64_MAX; i++) {
        if (is_passed(s, i, fewest, will_be_ready)) {
            s->running[i]->foreseen_at = s->n_look;
        }
    }
}

bool whim_sched_is_left(const whim_sched *s, const whim_sched_req *req)
{
    return req->foreseen_at == s->n_look && s->n_look > 0;
}

bool whim_sched_turn_row(whim_sched *s, whim_sched_req *req)
{
    bool is_over = ++req->n_in_turn >= TURN;
    if (is_over) {
        req->n_in_turn = 0;
        req->turn_at = s->n_plan;
    }
    return is_over;
}

/* Rows of prompts that clients could take in this step; how many clients could. */
static int64_t count_wants(whim_sched *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n_running; i++) {
        const whim_sched_req *req = s->running[i];
        req->client->n_want += whim_sched_is_at_last(req) ? 0 : req->n_tok - req->n_fed;
    }
    for (int64_t i = 0; i < s->waiting.n && s->n_running < s->max_running; i++) {
        const whim_sched_req *req = (const whim_sched_req *)s->waiting.nodes[i];
        req->client->n_want += req->n_tok;
    }
    for (whim_client *c = NULL; (c = whim_client_after(&s->clients, c)) != NULL;) {
        n += c->n_want > 0;
    }
    return n;
}

bool whim_sched_deal_prompts(whim_sched *s, int64_t n_row)
{
    int64_t n = is_alone(s) ? 0 : count_wants(s), each = 0;
    if (n < 2) {
        return false;
    }
    for (int64_t n_before = n + 1;
         n > 0 && n < n_before;) { /* who wants less leaves it to others */
        n_before = n;
        each = n_row / n;
        for (whim_client *c = NULL; (c = whim_client_after(&s->clients, c)) != NULL;) {
            if (c->n_want > 0 && c->n_left == INT64_MAX && c->n_want <= each) {
                c->n_left = c->n_want;
                n_row -= c->n_want;
                n--;
            }
        }
    }
    for (whim_client *c = NULL; (c = whim_client_after(&s->clients, c)) != NULL;) {
        if (c->n_want > 0 && c->n_left == INT64_MAX) {
            c->n_left = each > 1 ? each : 1;
        }
    }
    return n > 0;
}

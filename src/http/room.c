/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that come slowly, or never to their end, may hold all that requests may have. Where
 * memory or connections are short, those of the client that holds most make room for the one that
 * goes on. */
#include "base/heap/budget.h"
#include "http/internal.h"

#include <string.h>

static const char greedy[] = "memory is short, and this client holds most of it";

static bool is_within(int32_t share, int64_t bytes)
{
    int32_t had = whim_budget_share(share);
    bool allows = whim_budget_allows(bytes);
    whim_budget_share(had);
    return allows;
}

static int32_t client_of(const whim_conn *conn)
{
    return (int32_t)(conn->ex->notes.client % WHIM_HTTP_CLIENTS);
}

/* --- bodies ----------------------------------------------------------------------------------- */

/* What each client's unfinished bodies hold. */
typedef struct held {
    int64_t bytes[WHIM_HTTP_CLIENTS];
} held;

static held held_by(const whim_http *http)
{
    held all = {{0}};
    for (const whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        if (conn->state == WHIM_CONN_BODY) {
            all.bytes[client_of(conn)] += conn->ex->parser.body.cap;
        }
    }
    return all;
}

/* Of the client whose bodies hold most, where that is more than this one's would with `more`, the
 * largest; NULL: there is none. */
static whim_conn *greediest(const whim_http *http, const held *all, const whim_conn *own,
                            int64_t more)
{
    int64_t most = all->bytes[client_of(own)] + more;
    whim_conn *best = NULL;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        if (conn->state != WHIM_CONN_BODY || all->bytes[client_of(conn)] < most) {
            continue;
        }
        bool is_larger = best == NULL || all->bytes[client_of(conn)] > most ||
                         conn->ex->parser.body.cap > best->ex->parser.body.cap;
        best = is_larger ? conn : best;
        most = all->bytes[client_of(conn)];
    }
    return best;
}

/* Whether it would be enough if all who hold more gave all of it. */
static bool may_help(const held *all, const whim_conn *own, int32_t share, int64_t more)
{
    int64_t others = 0, most = all->bytes[client_of(own)] + more;
    for (int32_t i = 0; i < WHIM_HTTP_CLIENTS; i++) {
        others += all->bytes[i] >= most ? all->bytes[i] : 0;
    }
    return is_within(share, more - others);
}

void whim_conn_make_room(whim_http *http, whim_conn *conn, int32_t share, int64_t n)
{
    const whim_str *body = &conn->ex->parser.body;
    const int64_t more = body->cap > n ? 2 * body->cap : 2 * n;
    if (share == 0 || body->len + n < body->cap || is_within(share, more)) {
        return;
    }
    held all = held_by(http);
    whim_conn *other;
    if (!may_help(&all, conn, share, more)) {
        return;
    }
    while (!is_within(share, more) && (other = greediest(http, &all, conn, more)) != NULL) {
        all.bytes[client_of(other)] -= other->ex->parser.body.cap;
        whim_conn_refuse(http, other, 503, greedy);
        whim_exchange_drop_body(other->ex);
    }
}

/* --- heads ------------------------------------------------------------------------------------ */

static whim_conn *largest_head(const whim_http *http, const whim_conn *own)
{
    int64_t most = own->ex->parser.head.cap;
    whim_conn *best = NULL;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        if (conn != own && conn->state == WHIM_CONN_HEAD && conn->ex->parser.head.cap > most) {
            best = conn;
            most = conn->ex->parser.head.cap;
        }
    }
    return best;
}

void whim_conn_refuse_heads(whim_http *http, const whim_conn *conn)
{
    whim_conn *other;
    while (whim_budget_is_over(WHIM_BUDGET_WHOLE) && (other = largest_head(http, conn)) != NULL) {
        whim_conn_kill(http, other);
    }
}

/* --- connections ------------------------------------------------------------------------------ */

enum { PLACES = 1024 }; /* addresses that share one count as one */

int32_t whim_conn_place(const struct in6_addr *address)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof address->s6_addr; i++) {
        hash = (hash ^ address->s6_addr[i]) * 16777619u;
    }
    return (int32_t)(hash % PLACES);
}

/* How many connections each address has. */
typedef struct crowd {
    int32_t n[PLACES];
} crowd;

static void crowd_count(const whim_http *http, crowd *out)
{
    *out = (crowd){{0}};
    for (const whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        out->n[conn->place]++;
    }
}

/* Requests that may be left, in this order. */
typedef enum leaving {
    LEAVES_BODY,    /* it is not there as a whole */
    LEAVES_WAITING, /* nothing of its reply is said */
    LEAVES_UNREAD,  /* its reply is there as a whole, and was not taken for a while */
    LEAVES_NOT
} leaving;

static leaving leaving_of(const whim_conn *conn)
{
    leaving how = LEAVES_NOT;
    if (conn->state == WHIM_CONN_BODY) {
        return LEAVES_BODY;
    }
    if (conn->state == WHIM_CONN_REPLY && conn->ex != NULL) {
        pthread_mutex_lock(&conn->ex->lock);
        bool is_unread = conn->ex->reply == WHIM_REPLY_DONE && conn->ex->out.len > 0 &&
                         conn->ex->done_ns <= whim_clock_ns() - WHIM_HTTP_UNREAD_NS;
        how = conn->ex->reply == WHIM_REPLY_NONE ? LEAVES_WAITING
              : is_unread                        ? LEAVES_UNREAD
                                                 : LEAVES_NOT;
        pthread_mutex_unlock(&conn->ex->lock);
    }
    return how;
}

/* A probe that takes one of the connections kept for probes, and its time. */
static bool is_slow_probe(const whim_conn *conn)
{
    if (!conn->is_over_number || conn->ex == NULL ||
        !whim_http_is_always_answered(conn->ex->request.path)) {
        return false;
    }
    leaving how = leaving_of(conn);
    return how == LEAVES_BODY || how == LEAVES_UNREAD;
}

enum { STAYS = 5 };

/* Which ones of an address make room first. */
static int32_t drop_class(const whim_conn *conn)
{
    switch (conn->state) {
    case WHIM_CONN_HANDSHAKE:
        return 0;
    case WHIM_CONN_IDLE:
        return conn->has_sent ? 1 : 0;
    case WHIM_CONN_LINGER:
        return 2;
    case WHIM_CONN_HEAD:
        return 3;
    default:
        return is_slow_probe(conn) ? 4 : STAYS;
    }
}

/* The first connection that has had no time to say what it wants, if there is a place left. */
static int64_t first_new(const whim_http *http)
{
    const whim_http_limits *l = &http->cfg.limits;
    return atomic_load(&http->n_connections) < l->max_connections
               ? atomic_load(&http->n_accepted) - l->kept_for_health
               : INT64_MAX;
}

whim_conn *whim_conn_to_drop(const whim_http *http, const struct in6_addr *newcomer)
{
    crowd c;
    whim_conn *best = NULL;
    int32_t best_class = STAYS;
    crowd_count(http, &c);
    const int32_t own = newcomer != NULL ? whim_conn_place(newcomer) : -1;
    const int64_t new_from = first_new(http);
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        int32_t class = drop_class(conn), n = c.n[conn->place];
        bool is_greedier = own < 0 || n > c.n[own] + (conn->number >= new_from ? 1 : 0);
        bool is_own = conn->place == own && conn->number < new_from;
        if (class == STAYS || !(is_greedier || is_own)) {
            continue;
        }
        int32_t more = best == NULL ? 1 : n - c.n[best->place];
        bool is_before =
            more == 0 &&
            (class < best_class || (class == best_class && conn->deadline_ns <= best->deadline_ns));
        if (more > 0 || is_before) {
            best = conn;
            best_class = class;
        }
    }
    return best;
}

static bool leaves_before(leaving how, const whim_conn *a, const whim_conn *b)
{
    return how == LEAVES_BODY      ? a->deadline_ns < b->deadline_ns
           : how == LEAVES_WAITING ? a->asked_ns > b->asked_ns
                                   : a->asked_ns < b->asked_ns;
}

whim_conn *whim_conn_crowding(const whim_http *http, const whim_conn *own)
{
    crowd c;
    whim_conn *best = NULL;
    leaving best_how = LEAVES_NOT;
    crowd_count(http, &c);
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        leaving how = c.n[conn->place] > c.n[own->place] ? leaving_of(conn) : LEAVES_NOT;
        int32_t more = best == NULL ? 1 : c.n[conn->place] - c.n[best->place];
        bool is_before =
            more == 0 && (how < best_how || (how == best_how && leaves_before(how, conn, best)));
        if (how != LEAVES_NOT && (more > 0 || is_before)) {
            best = conn;
            best_how = how;
        }
    }
    return best;
}

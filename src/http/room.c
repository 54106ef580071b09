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
    return (int32_t)(conn->ex->notes.client % WHIM_HTTP_SLOW_CLIENTS);
}

/* --- bodies ----------------------------------------------------------------------------------- */

/* What each client's unfinished bodies hold. */
typedef struct held {
    int64_t bytes[WHIM_HTTP_SLOW_CLIENTS];
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
    for (int32_t i = 0; i < WHIM_HTTP_SLOW_CLIENTS; i++) {
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

static int32_t place_of(const struct in6_addr *address)
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

static int32_t has(const crowd *c, const whim_conn *conn)
{
    return c->n[place_of(&conn->address)];
}

static void crowd_count(const whim_http *http, crowd *out)
{
    *out = (crowd){{0}};
    for (const whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        out->n[place_of(&conn->address)]++;
    }
}

enum { STAYS = 4 };

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
        return STAYS;
    }
}

static bool is_dropped_before(const crowd *c, const whim_conn *a, const whim_conn *b)
{
    int32_t n_a = has(c, a), n_b = has(c, b), class_a = drop_class(a), class_b = drop_class(b);
    if (n_a != n_b || class_a != class_b) {
        return n_a != n_b ? n_a > n_b : class_a < class_b;
    }
    return a->deadline_ns <= b->deadline_ns;
}

whim_conn *whim_conn_to_drop(const whim_http *http, const struct in6_addr *newcomer)
{
    crowd c;
    whim_conn *best = NULL;
    crowd_count(http, &c);
    const int32_t least = newcomer != NULL ? c.n[place_of(newcomer)] : 0;
    const whim_http_limits *l = &http->cfg.limits;
    const bool has_place = atomic_load(&http->n_connections) < l->max_connections;
    const int64_t new_from = newcomer != NULL && has_place
                                 ? atomic_load(&http->n_accepted) - l->kept_for_health
                                 : INT64_MAX;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        bool may_go = drop_class(conn) < STAYS && has(&c, conn) >= least &&
                      (conn->number < new_from || has(&c, conn) > least + 1);
        best = may_go && (best == NULL || is_dropped_before(&c, conn, best)) ? conn : best;
    }
    return best;
}

static bool waits_for_reply(const whim_conn *conn)
{
    if (conn->state != WHIM_CONN_REPLY || conn->ex == NULL) {
        return false;
    }
    pthread_mutex_lock(&conn->ex->lock);
    bool waits = conn->ex->reply == WHIM_REPLY_NONE;
    pthread_mutex_unlock(&conn->ex->lock);
    return waits;
}

static bool goes_before(const whim_conn *a, const whim_conn *b)
{
    if (b == NULL || a->state != b->state) {
        return b == NULL || a->state == WHIM_CONN_BODY;
    }
    return a->state == WHIM_CONN_BODY ? a->deadline_ns < b->deadline_ns : a->asked_ns > b->asked_ns;
}

whim_conn *whim_conn_crowding(const whim_http *http, const struct in6_addr *address)
{
    crowd c;
    int32_t most = 0;
    crowd_count(http, &c);
    for (int32_t i = 1; i < PLACES; i++) {
        most = c.n[i] > c.n[most] ? i : most;
    }
    whim_conn *best = NULL;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        bool may_go = conn->state == WHIM_CONN_BODY || waits_for_reply(conn);
        if (may_go && place_of(&conn->address) == most && goes_before(conn, best)) {
            best = conn;
        }
    }
    return c.n[most] > c.n[place_of(address)] ? best : NULL; /* which is among them */
}

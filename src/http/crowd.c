/* SPDX-License-Identifier: Apache-2.0 */
/* Where connections are short: those of the client that has most of them make room. */
#include "http/internal.h"

int32_t whim_conn_place(const struct in6_addr *address)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof address->s6_addr; i++) {
        hash = (hash ^ address->s6_addr[i]) * 16777619u;
    }
    return (int32_t)(hash % WHIM_HTTP_CLIENTS);
}

/* How many connections each client has. */
typedef struct crowd {
    int32_t n[WHIM_HTTP_CLIENTS];
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

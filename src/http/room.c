/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that come slowly, or wait long, may hold all memory for requests. When it is short,
 * those of the client that holds most make room for the request that continues. */
#include "base/heap/budget.h"
#include "http/internal.h"

static const char greedy[] = "memory is short, and this client holds much of it";

static bool is_within(int32_t share, int64_t bytes)
{
    int32_t had = whim_budget_share(share);
    bool allows = whim_budget_allows(bytes);
    whim_budget_share(had);
    return allows;
}

/* --- who holds what --------------------------------------------------------------------------- */

static int32_t client_of(const whim_conn *conn)
{
    uint64_t client = conn->ex != NULL ? conn->ex->notes.client : 0;
    return client != 0 ? (int32_t)(client % WHIM_HTTP_CLIENTS) : conn->place;
}

/* Of a request that is not there as a whole the I/O thread has the body; else its handler has. */
static int64_t body_of(const whim_conn *conn)
{
    return conn->state == WHIM_CONN_REPLY ? atomic_load(&conn->ex->n_body)
                                          : conn->ex->parser.body.cap;
}

/* Of its exchange, but for the body. */
static int64_t beside_body(whim_exchange *ex)
{
    const whim_http_parser *p = &ex->parser;
    int64_t n = (int64_t)sizeof *ex + p->head.cap + p->cap_field * (int64_t)sizeof *p->fields;
    n += ex->gate_headers.cap + atomic_load(&ex->n_kept);
    pthread_mutex_lock(&ex->lock);
    n += ex->out.cap;
    pthread_mutex_unlock(&ex->lock);
    return n;
}

static int64_t held_by(const whim_conn *conn)
{
    int64_t n = (int64_t)sizeof *conn + conn->pending.cap;
    return n + (conn->ex != NULL ? body_of(conn) + beside_body(conn->ex) : 0);
}

/* What each client's connections hold. */
typedef struct shares {
    int64_t bytes[WHIM_HTTP_CLIENTS];
} shares;

static shares shares_of(const whim_http *http)
{
    shares all = {{0}};
    for (const whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        all.bytes[client_of(conn)] += held_by(conn);
    }
    return all;
}

/* --- requests that give way ------------------------------------------------------------------- */

/* Which ones may. */
typedef enum givers {
    GIVE_AT_ONCE, /* whose memory is free at once: not there as a whole, or no handler has them */
    GIVE_SOON /* those, too, that a handler or the model has, and of whose reply nothing is said */
} givers;

/* It is answered whatever is short. None has a body, or a flood could call itself one. */
static bool is_probe(const whim_exchange *ex)
{
    return whim_http_is_always_answered(ex->request.path) && atomic_load(&ex->n_body) == 0;
}

static bool may_give(const whim_conn *conn, givers which)
{
    if (conn->state == WHIM_CONN_HEAD || conn->state == WHIM_CONN_BODY) {
        return true;
    }
    if (conn->state != WHIM_CONN_REPLY || is_probe(conn->ex)) {
        return false;
    }
    if (atomic_load(&conn->ex->is_queued)) {
        return true;
    }
    pthread_mutex_lock(&conn->ex->lock);
    bool is_silent = conn->ex->reply == WHIM_REPLY_NONE && !atomic_load(&conn->ex->has_line);
    pthread_mutex_unlock(&conn->ex->lock);
    return which == GIVE_SOON && is_silent;
}

/* Of one client: unfinished ones first, the largest of them; then those that wait, the newest. */
static bool gives_before(const whim_conn *a, const whim_conn *b)
{
    bool a_waits = a->state == WHIM_CONN_REPLY, b_waits = b->state == WHIM_CONN_REPLY;
    return a_waits != b_waits ? b_waits
           : a_waits          ? a->asked_ns > b->asked_ns
                              : held_by(a) > held_by(b);
}

/* What a client must hold at least to make room for this one: more than this one would with `more`,
 * and a part of all that is worth it. What answers hold is not seen here, so a client of one small
 * request is not the one that fills the memory, even if it seems to hold most. */
static int64_t least_greedy(const shares *all, const whim_conn *own, int64_t more)
{
    const int64_t with = all->bytes[client_of(own)] + more;
    const int64_t part = whim_budget_bytes() / WHIM_HTTP_GREEDY;
    return with > part ? with : part;
}

/* Of the client that holds most, where that is more than this one's would with `more`; NULL: there
 * is none. */
static whim_conn *greediest(const whim_http *http, const shares *all, const whim_conn *own,
                            givers which, int64_t more)
{
    const int32_t self = client_of(own);
    int64_t most = least_greedy(all, own, more);
    whim_conn *best = NULL;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        int64_t n = all->bytes[client_of(conn)];
        if (client_of(conn) == self || n < most || !may_give(conn, which)) {
            continue;
        }
        best = best == NULL || n > most || gives_before(conn, best) ? conn : best;
        most = n;
    }
    return best;
}

/* Bytes that will be free soon, which help only a request that can wait for them. */
static int64_t leaving_for(const whim_http *http, givers which)
{
    return which == GIVE_SOON ? atomic_load(&http->bodies->n_leaving) : 0;
}

/* Whether it would be enough if all who hold more gave all that they can. */
static bool may_help(const whim_http *http, const shares *all, const whim_conn *own, givers which,
                     int32_t share, int64_t more)
{
    const int32_t self = client_of(own);
    const int64_t least = least_greedy(all, own, more);
    int64_t others = leaving_for(http, which);
    for (const whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        bool is_greedier = client_of(conn) != self && all->bytes[client_of(conn)] >= least;
        others += is_greedier && may_give(conn, which) ? held_by(conn) : 0;
    }
    return is_within(share, more - others);
}

static void give_way(whim_http *http, whim_conn *conn)
{
    if (conn->state == WHIM_CONN_HEAD) {
        whim_conn_kill(http, conn);
    } else if (conn->state == WHIM_CONN_BODY) {
        whim_conn_refuse(http, conn, 503, greedy);
        whim_exchange_drop_body(conn->ex);
    } else {
        whim_conn_refuse_waiting(http, conn, 503, greedy, beside_body(conn->ex));
    }
}

/* Until there is room for `more` within the share. */
static void make_room(whim_http *http, whim_conn *conn, givers which, int32_t share, int64_t more)
{
    shares all = shares_of(http);
    whim_conn *other;
    if (!may_help(http, &all, conn, which, share, more)) {
        return;
    }
    while (!is_within(share, more - leaving_for(http, which)) &&
           (other = greediest(http, &all, conn, which, more)) != NULL) {
        all.bytes[client_of(other)] -= held_by(other);
        give_way(http, other);
    }
}

void whim_conn_make_room(whim_http *http, whim_conn *conn, int32_t share, int64_t n)
{
    const whim_str *body = &conn->ex->parser.body;
    const int64_t more = body->cap > n ? 2 * body->cap : 2 * n;
    if (share != 0 && body->len + n >= body->cap && !is_within(share, more)) {
        make_room(http, conn, GIVE_AT_ONCE, share, more);
    }
}

void whim_conn_make_way(whim_http *http, whim_conn *conn)
{
    const int64_t length = conn->ex->parser.length;
    const int64_t n = length > WHIM_HTTP_LARGE_BODY ? WHIM_HTTP_LARGE_BODY : length;
    const int64_t more = (n > 0 ? 2 * n : 0) + WHIM_BUDGET_LATE;
    if (!is_within(WHIM_HTTP_SHARE_WAITING, more)) {
        make_room(http, conn, GIVE_SOON, WHIM_HTTP_SHARE_WAITING, more);
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

/* --- replies that nobody reads ---------------------------------------------------------------- */

/* Bytes of a reply of which nothing was read for a while. */
static int64_t unread_of(const whim_conn *conn, int64_t before)
{
    whim_exchange *ex = conn->ex;
    if (ex == NULL) {
        return 0;
    }
    pthread_mutex_lock(&ex->lock);
    int64_t n = ex->reply != WHIM_REPLY_NONE && ex->read_ns <= before ? ex->out.cap : 0;
    pthread_mutex_unlock(&ex->lock);
    return n;
}

whim_conn *whim_conn_unread(const whim_http *http)
{
    const int64_t before = whim_clock_ns() - WHIM_HTTP_UNREAD_NS;
    const shares all = shares_of(http);
    whim_conn *best = NULL;
    int64_t most = 0, n_best = 0;
    for (whim_conn *conn = http->conns; conn != NULL; conn = conn->next) {
        int64_t n = unread_of(conn, before), client = all.bytes[client_of(conn)];
        if (n >= WHIM_HTTP_UNREAD_BYTES && (client > most || (client == most && n > n_best))) {
            best = conn;
            most = client;
            n_best = n;
        }
    }
    return best;
}

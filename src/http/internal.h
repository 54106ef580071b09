/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the HTTP layer share. Only they include it.
 *
 * Who owns what:
 *  - The I/O thread owns connections: it alone reads, parses, closes and frees them, and it alone
 *    takes an exchange off its connection.
 *  - An exchange is counted. Its lock guards its reply: whoever writes holds the lock while it
 *    looks at `conn`, so that the socket cannot be closed meanwhile. While the queue is empty a
 *    writer sends by itself; what the socket does not take is queued, and the I/O thread sends it.
 *    TLS is always sent by the I/O thread.
 *  - Locks: exchange, then wake list or handler queue. Callbacks are called with no lock held. */
#ifndef WHIM_HTTP_INTERNAL_H
#define WHIM_HTTP_INTERNAL_H

#include "base/clock.h"
#include "base/thread.h"
#include "http/http.h"
#include "http/parse.h"
#include "http/tls.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    WHIM_HTTP_SCRATCH = 65536, /* bytes read at once */
    WHIM_HTTP_AHEAD = 4096,    /* of them, those that may belong to a request behind this one */
    WHIM_HTTP_LISTEN_MAX = 8,  /* addresses */
    WHIM_HTTP_CLIENTS = 1024,  /* places where clients are counted, by a hash of them */
    WHIM_HTTP_BODIES_MAX = 8,  /* bodies of the largest size that may be in memory at once */
};

/* A body above this may take long to work on. */
#define WHIM_HTTP_LARGE_BODY (INT64_C(256) << 10)

/* Shares of the memory for requests (base/heap/budget.h) in eighths: what is large may not take
 * all, so that others are still answered. */
enum { WHIM_HTTP_SHARE_LARGE = 5, WHIM_HTTP_SHARE_MIDDLE = 7 };
#define WHIM_HTTP_SMALL_BODY (INT64_C(32) << 10)

/* From so many eighths on, requests that wait make room. */
enum { WHIM_HTTP_SHARE_WAITING = 7 };

/* Who holds less than such a part of it makes room for nobody. */
enum { WHIM_HTTP_GREEDY = 16 };

/* From so many eighths on, replies that are unread for longer make room. */
enum { WHIM_HTTP_SHARE_UNREAD = 4 };
#define WHIM_HTTP_UNREAD_NS WHIM_NS_PER_S
#define WHIM_HTTP_TIGHT_NS (250 * WHIM_NS_PER_MS)
#define WHIM_HTTP_UNREAD_BYTES (INT64_C(64) << 10)

/* What connections with TLS may have of it, in eighths, before idle ones are closed. */
enum { WHIM_HTTP_SHARE_TLS = 2 };

/* After a body above this the allocator is asked to give back what it does not use: parsed it may
 * have taken many times as much, of which the allocator keeps most for each thread. */
#define WHIM_HTTP_TIDY_BODY (INT64_C(1) << 20)
/* And where the memory for requests holds less than before, by such a part of it; not sooner after
 * the last time than that. */
enum { WHIM_HTTP_TIDY_PART = 16 };
#define WHIM_HTTP_TIDY_NS (5 * WHIM_NS_PER_S)

/* How old a request may be for a client that has shut its side to count as waiting still. */
#define WHIM_HTTP_HALFWAY_NS WHIM_NS_PER_S

typedef struct whim_conn whim_conn;

typedef enum whim_reply_state {
    WHIM_REPLY_NONE,   /* nothing said yet */
    WHIM_REPLY_STREAM, /* begun */
    WHIM_REPLY_DONE,   /* all of it is queued or sent */
} whim_reply_state;

/* Bytes of all bodies in memory. Counted by itself: an exchange, and its body, may outlive the
 * server. */
typedef struct whim_bodies {
    atomic_int refs; /* the server's and one of each exchange */
    atomic_llong n_bytes;
    atomic_llong n_leaving; /* held by requests that gave way, and will be free when they are */
    atomic_bool was_large;  /* memory should be given back: see whim_http_tidy */
} whim_bodies;

struct whim_exchange {
    atomic_int refs;
    whim_http *http;
    whim_bodies *bodies;
    int64_t n_counted; /* bytes that this one has in bodies; of the I/O thread */
    /* What it takes beside its head and its reply, when it is there as a whole: its body, what its
     * handler made and left; and what it holds after it gave way, under the lock. */
    atomic_llong n_body, n_kept;
    int64_t n_leaving;
    /* Set before the gate, constant from then on. */
    whim_http_parser parser;
    whim_http_request request;
    char request_id[132], client[INET6_ADDRSTRLEN], too_large[128];
    int64_t start_ns;
    bool has_head;  /* the head came whole */
    bool is_let_in; /* counted in n_let_in, and not yet handed to a handler; of the I/O thread */
    whim_str gate_headers; /* of the reply, as the gate left them; of the I/O thread */
    /* Of the thread that answers. */
    whim_exchange_notes notes;
    whim_str headers;
    /* Under the lock. */
    pthread_mutex_t lock;
    whim_conn *conn; /* NULL once it is over */
    whim_str out;    /* [out_at, len) is not sent yet */
    int64_t out_at;
    int64_t n_largest; /* of the stream's events */
    whim_reply_state reply;
    atomic_int status;
    bool keeps_alive; /* the connection may continue after this reply */
    bool is_broken;   /* the client is gone or too slow: close its connection */
    bool is_halfway;  /* the client has shut its side */
    void (*on_close)(void *ctx, bool gone);
    void *on_close_ctx;
    bool is_over, was_gone;
    int64_t read_ns; /* when the client last took a part of the reply, or all that was there */
    int64_t done_ns; /* when all of the reply was there */
    /* Of the wake list and the handler queue, under their locks. */
    whim_exchange *wake_next, *work_next;
    bool is_waking;
    int64_t work_number; /* the order in which requests were complete */
    atomic_bool is_queued;
    atomic_bool has_line; /* of the log: see whim_exchange_take_line */
};

/* Exchanges in order. */
typedef struct whim_work {
    whim_exchange *head, *tail;
    /* Of clients (by a hash of them): when one of theirs was taken last. */
    int64_t taken[WHIM_HTTP_CLIENTS], n_taken;
} whim_work;

/* What epoll hands back first: its kind. */
typedef enum whim_source { WHIM_SOURCE_WAKE, WHIM_SOURCE_LISTEN, WHIM_SOURCE_CONN } whim_source;

typedef enum whim_conn_state {
    WHIM_CONN_HANDSHAKE, /* TLS */
    WHIM_CONN_IDLE,      /* no byte of a request yet */
    WHIM_CONN_HEAD,
    WHIM_CONN_BODY,
    WHIM_CONN_REPLY, /* the request is complete; its reply is not */
    /* answered and shut; what the client still sends is dropped, so that no reset eats the
     * reply */
    WHIM_CONN_LINGER,
    WHIM_CONN_DEAD, /* closed; freed after the events at hand */
} whim_conn_state;

struct whim_conn {
    whim_source source;
    int fd;
    whim_conn_state state;
    uint32_t events;     /* what epoll watches */
    int64_t deadline_ns; /* 0: none */
    int64_t asked_ns;    /* when the request was complete */
    int64_t number;      /* connections that were accepted up to this one */
    int64_t waits_from;  /* for its turn with TLS: how many had begun to wait, with this one */
    int64_t n_linger;    /* bytes dropped */
    whim_tls_conn *tls;
    whim_exchange *ex;
    whim_str pending; /* [pending_at, len): read, not parsed; a pipelined request */
    int64_t pending_at;
    whim_conn *prev, *next;
    struct in6_addr address;
    int32_t place;       /* where connections of its client are counted: the address of its
                            request where a trusted proxy names one, else its own */
    bool has_sent;       /* a byte came from the client */
    bool is_halfway;     /* the client has shut its side */
    bool is_shaking;     /* it waits for its turn with TLS: see handshake.c */
    bool is_over_number; /* accepted when only health probes had room */
};

typedef struct whim_listener {
    whim_source source;
    int fd;
} whim_listener;

struct whim_http {
    whim_http_cfg cfg;
    whim_bodies *bodies;
    whim_tls *tls;
    int64_t tls_before; /* what TLS took before there were connections */
    whim_listener listeners[WHIM_HTTP_LISTEN_MAX];
    int32_t n_listener, port;
    int epoll_fd;
    whim_listener wake; /* an eventfd */
    /* Of the I/O thread. */
    whim_conn *conns, *dead; /* lists */
    int64_t next_check_ns;   /* no deadline is before it */
    int64_t accept_again_ns;
    bool is_listening;
    int64_t next_unread_ns; /* unread replies are not looked for before */
    bool is_tight;          /* memory for requests is short: unread replies are looked at often */
    char scratch[WHIM_HTTP_SCRATCH];
    /* Handshakes: connections that wait for a turn, when the next may have one, and of clients (by
     * a hash of them) when one of theirs had one last. */
    int32_t n_shaking;
    int64_t shake_again_ns, n_shook, n_waits, shook[WHIM_HTTP_CLIENTS];
    whim_log_limit full_limit, drop_limit, accept_limit, refuse_limit, unread_limit;
    /* Exchanges that the I/O thread should look at. */
    pthread_mutex_t wake_lock;
    whim_exchange *wake_list;
    /* Exchanges that wait for a handler. */
    pthread_mutex_t work_lock;
    pthread_cond_t work_cond;
    whim_work work, slow_work; /* slow requests apart: they may not take all handlers */
    int64_t n_work;
    bool took_quick; /* the last that was taken was not slow */
    int32_t n_slow;  /* handlers that work on a slow request */
    int32_t n_busy;  /* handlers that work on any, and by client (a hash of them) */
    int32_t busy_with[WHIM_HTTP_CLIENTS];
    bool work_stop;
    whim_thread io_thread, *handlers;
    int32_t n_handler;
    /* Of whoever tidies: the most that the memory for requests held since the last time, and when
     * it may be done again. */
    int64_t most_used, next_tidy_ns;
    bool is_started;
    atomic_bool is_draining, is_stopping;
    atomic_llong n_connections, n_accepted, n_requests, n_in_flight, n_refused, n_let_in;
};

/* --- listen.c ---------------------------------------------------------------------------- */

WHIM_MUST_CHECK whim_err whim_http_listen(whim_http *http, whim_diag *diag);
void whim_http_unlisten(whim_http *http);

/* --- loop.c ------------------------------------------------------------------------------ */

/* The I/O thread. */
void whim_http_loop(void *http);
/* Let the I/O thread look at this exchange (NULL: at the flags). Any thread; the exchange's lock
 * may be held. */
void whim_http_wake(whim_http *http, whim_exchange *ex);

/* --- conn.c: on the I/O thread ----------------------------------------------------------- */

/* Take over an accepted socket; closes it when there is no memory. */
void whim_conn_open(whim_http *http, int fd, const struct in6_addr *address);
void whim_conn_event(whim_http *http, whim_conn *conn, uint32_t events);
/* Its turn with TLS: a step of the handshake. */
void whim_conn_shake(whim_http *http, whim_conn *conn);
/* Look at the reply: send, finish, close. */
void whim_conn_progress(whim_http *http, whim_conn *conn);
/* Its deadline has passed. */
void whim_conn_timeout(whim_http *http, whim_conn *conn);
void whim_conn_kill(whim_http *http, whim_conn *conn);
/* The exchange is over, or the client has gone. */
void whim_conn_drop_exchange(whim_http *http, whim_conn *conn);
/* Deadline in ns from now; 0: none. */
void whim_conn_deadline(whim_http *http, whim_conn *conn, int64_t ns);

/* --- dispatch.c: requests on a connection, on the I/O thread -------------------------------- */

/* Parse bytes, begin requests, until the bytes are used up or a reply is waited for; how many
 * were used. */
int64_t whim_conn_parse(whim_http *http, whim_conn *conn, const char *bytes, int64_t n);
/* Answer with an error that HTTP found; the connection ends after it, and is in state REPLY or
 * DEAD now. */
void whim_conn_refuse(whim_http *http, whim_conn *conn, int status, const char *message);
/* The same for a request that is there as a whole and waits: whoever has it learns that its client
 * has gone, and its body and `held` bytes will be free when he has let go. Nothing where its reply
 * has begun. */
void whim_conn_refuse_waiting(whim_http *http, whim_conn *conn, int status, const char *message,
                              int64_t held);

/* --- handshake.c: turns with TLS, on the I/O thread ------------------------------------------ */

/* Bytes of a handshake came: from now on the connection waits for its turn. */
void whim_http_want_shake(whim_http *http, whim_conn *conn);
/* Whose step of a handshake is next: of the address whose last one lies back furthest, the
 * connection that waits longest (whose hello comes byte by byte goes to the end each time); NULL:
 * none waits. */
whim_conn *whim_http_next_shake(const whim_http *http);
/* That step, where it is time for one. */
void whim_http_shake(whim_http *http);
/* When the next step may begin, after one that might have begun at again_ns, did at begin_ns, and
 * took so long. */
int64_t whim_http_shake_again(int64_t again_ns, int64_t begin_ns, int64_t took_ns);

/* --- crowd.c: where connections are short ---------------------------------------------------- */

/* Where connections of an address are counted. */
int32_t whim_conn_place(const struct in6_addr *address);
/* The connection that makes room for a new one: none with a request under way but a slow probe that
 * took one kept for probes, and none of another address that has no more than that of the newcomer
 * (NULL: whoever it is). While there is a place left that is kept for health, the last that came
 * stay, too, if their address has no more than the newcomer's would have: they have had no time to
 * say what they want. First those of the address that has most, and of them those that never sent
 * a byte, then those that wait for their next request, are answered, or have sent a part of a
 * head; of these the one whose time would be over first. NULL: there is none. */
whim_conn *whim_conn_to_drop(const whim_http *http, const struct in6_addr *newcomer);
/* Of the clients that have more connections than this one's, from that which has most, a request
 * that is not there as a whole (the one whose time would be over first), or else one that waits for
 * its reply (the last that came), or else one whose whole reply was not taken for a while (the
 * first that came); NULL: there is none. */
whim_conn *whim_conn_crowding(const whim_http *http, const whim_conn *own);

/* --- room.c: where memory is short ---------------------------------------------------------- */

/* Before a body grows by n bytes that came: within `share` there is room for it, or nobody else can
 * make any. */
void whim_conn_make_room(whim_http *http, whim_conn *conn, int32_t share, int64_t n);

/* The head of this one is whole, and it was let in: where little memory is left, requests of the
 * client that holds most give way to it, where that is more than its own holds: unfinished ones,
 * the largest first, then those that wait, the newest first. */
void whim_conn_make_way(whim_http *http, whim_conn *conn);

/* The head of this one is whole: where all memory is taken, unfinished ones that are larger make
 * room. */
void whim_conn_refuse_heads(whim_http *http, const whim_conn *conn);

/* Of the client that holds most, the connection with the largest reply, whole or a stream, of which
 * nothing was read for a while, where it holds WHIM_HTTP_UNREAD_BYTES; NULL: there is none. */
whim_conn *whim_conn_unread(const whim_http *http);

/* --- work.c: handler threads ------------------------------------------------------------------ */

void whim_http_run_handler(void *http);
void whim_http_stop_handlers(whim_http *http);

/* Let a handler thread have the exchange, which is counted in n_let_in until the handler comes
 * back. */
void whim_http_hand_over(whim_http *http, whim_exchange *ex);
/* No handler is to have the exchange any more; false: one has it, or had it. I/O thread. */
bool whim_http_take_back(whim_http *http, whim_exchange *ex);
/* Whether it has what is kept for the case that others have all: connections, memory. */
bool whim_http_is_always_answered(const char *path);
/* The share of the memory for requests that one with such a body may draw on. */
int32_t whim_http_share(bool is_slow, int64_t n_body);

/* --- exchange.c -------------------------------------------------------------------------- */

whim_exchange *whim_exchange_create(whim_http *http, whim_conn *conn);
/* Drop a reference; NULL does nothing. */
void whim_bodies_unref(whim_bodies *bodies);
/* Send of what is queued as much as the socket takes, a megabyte or so at most, under the lock:
 * bytes sent, or -1 when the socket is broken. */
int64_t whim_exchange_flush(whim_exchange *ex);
/* Queue or send bytes that are no part of the reply (100 Continue). */
void whim_exchange_send_raw(whim_exchange *ex, const char *bytes);
/* It gives way: nothing is said on its connection from now on; false: the reply has begun, or will
 * in this moment, as its line of the log is taken. I/O thread. */
bool whim_exchange_silence(whim_exchange *ex);
/* One that gave way, and that somebody has: its body and `held` bytes count as leaving until they
 * are free. I/O thread. */
void whim_exchange_leave(whim_exchange *ex, int64_t held);
/* Bytes that this thread has put into queues of replies, which count there. */
int64_t whim_exchange_queued_here(void);
/* Off its connection: calls on_close and drops the connection's reference. I/O thread. */
void whim_exchange_detach(whim_exchange *ex);

/* --- reply.c ---------------------------------------------------------------------------- */

/* The head of a reply; n_body < 0: a stream. */
void whim_reply_head(const whim_exchange *ex, int status, const char *content_type, int64_t n_body,
                     whim_str *out);

#endif

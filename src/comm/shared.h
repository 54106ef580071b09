/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks share, and a round: the step that collectives are made of.
 * In a round a rank writes its piece, tells that it has, waits until all have, and reads. It may
 * read pieces of the round before, too. A rank that begins round s knows that all have ended round
 * s - 2, for they told of s - 1 after that; so three pieces in turn would be enough for nobody to
 * write what another still reads. In long sums it waits for the round before the one that it told,
 * so that it works while bytes travel; then what was given in round s - 5 may be read until s - 1
 * is told, and it takes six (tests/unit/comm/protocol_test.c walks all orders).
 * That also holds for ranks of other hosts, in whose place a bridge writes (comm/bridge.h): what it
 * writes here was written by the rank before, when nobody read there any more, and is told in the
 * same order. */
#ifndef WHIM_COMM_SHARED_H
#define WHIM_COMM_SHARED_H

#include "comm/comm.h"
#include "comm/mail.h"
#include "comm/rank_meters.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum {
    WHIM_COMM_TURNS = 6, /* pieces of a rank */
};

typedef enum whim_comm_kind {
    WHIM_COMM_ALL_REDUCE,
    WHIM_COMM_ALL_GATHER,
    WHIM_COMM_REDUCE_SCATTER,
    WHIM_COMM_EXCHANGE,
    WHIM_COMM_BROADCAST,
    WHIM_COMM_BARRIER
} whim_comm_kind;

/* What a rank is about; equal in all ranks. */
typedef struct whim_comm_call {
    int32_t kind;
    int32_t root; /* or a hash of how it is cut, where it is: equal sizes may be cut otherwise */
    int64_t size;
    char site[32];
} whim_comm_call;

/* Which bytes of its piece a rank wrote, for who carries them to other hosts; not compared. Of a
 * long sum (reduce.c) each rank needs its slice of what is given, and what is summed is the slice
 * that is this rank's, of a piece before. */
typedef struct whim_comm_wrote {
    int32_t bytes;
    int32_t given, summed; /* floats that are cut into slices */
    int32_t back;          /* rounds since those that are summed were given */
} whim_comm_wrote;

enum { WHIM_COMM_MOST_BACK = 2 };

/* What one tells and others wait for; on a cache line of its own. */
typedef struct whim_comm_count {
    _Alignas(128) _Atomic uint32_t n;
    _Atomic uint32_t sleepers; /* who waits for it by a futex */
} whim_comm_count;

/* What a rank has counted (comm/rank_meters.h): each number has one writer. */
typedef struct whim_comm_tally {
    _Alignas(128) _Atomic int64_t step_ns;
    _Atomic int64_t n_byte;        /* of collectives */
    _Atomic int64_t n_letter_byte; /* by the thread of its mail */
    _Atomic int64_t disk[WHIM_RANK_DISK_COUNT];
    _Atomic uint32_t n_site; /* told when the name is there */
    struct {
        char name[WHIM_COMM_SITE_NAME];
        _Atomic int64_t waited_ns;
    } sites[WHIM_COMM_SITES];
} whim_comm_tally;

/* Which call a rank is in, of a comm that is split: who waits for it in another set finds out. */
typedef struct whim_comm_place {
    _Alignas(128) _Atomic uint32_t n_call; /* told last */
    _Atomic int32_t set;
    _Atomic uint64_t site[4]; /* the text of whim_comm_call */
} whim_comm_place;

/* A rank's own: on cache lines that nobody else writes. */
typedef struct whim_comm_seat {
    /* told: its piece and call are written. The last 32 bits of its count: as many as a futex has,
     * and ranks are never more than a round apart. */
    _Alignas(128) _Atomic uint32_t n_round;
    _Atomic uint32_t sleepers; /* who waits for the count by a futex */
    _Atomic int32_t pid;   /* of its process; ranks of one process do not look at each other's */
    _Atomic int64_t ticks; /* grow while it works where it has no process here: its host tells */
    whim_comm_call calls[WHIM_COMM_TURNS];
    whim_comm_wrote wrote[WHIM_COMM_TURNS];
    whim_comm_count read;          /* letters (comm/mail.h) */
    _Atomic uint32_t begun, ended; /* letters, as far as they were followed (the same) */
    whim_comm_tally tally;         /* of the first set's */
    whim_comm_place place;         /* the same */
    whim_comm_place wide;          /* of calls that all groups make alike; the same, on its host */
} whim_comm_seat;

typedef enum whim_comm_state {
    WHIM_COMM_GOOD,
    WHIM_COMM_ENDING, /* the reason is being written */
    WHIM_COMM_ENDED
} whim_comm_state;

struct whim_comm_shared {
    uint64_t magic;
    int32_t n_rank;
    _Alignas(128) _Atomic uint32_t state;
    char why[sizeof((whim_diag *)NULL)->text];
    whim_comm_count sent; /* letters */
    /* that bridges have sent, heads among them: this host's, on node 0 all */
    _Alignas(128) _Atomic int64_t n_link_byte;
    whim_comm_count bell; /* rung by whoever tells anything while somebody sleeps by it */
    /* [WHIM_COMM_SETS][n_rank], then as many [WHIM_COMM_TURNS] pieces, then WHIM_MAIL_SLOTS
     * letters. Memory that nobody uses is none. */
    whim_comm_seat seats[];
};

enum { WHIM_MAIL_SLOT_BYTES = WHIM_MAIL_BYTES + 4096 };

typedef struct whim_comm_letter {
    _Alignas(64) int64_t bytes;
    _Alignas(64) char text[];
} whim_comm_letter;

/* Where letter n lies; the first is 0. */
whim_comm_letter *whim_comm_letter_at(struct whim_comm_shared *shared, uint64_t n);

static inline whim_comm_seat *whim_comm_seat_of(const whim_comm *comm, int32_t rank)
{
    return &comm->shared->seats[comm->seat + rank * comm->stride];
}

/* A rank's number among all. */
static inline int32_t whim_comm_number(const whim_comm *comm, int32_t rank)
{
    return comm->seat + rank * comm->stride - comm->set * comm->shared->n_rank;
}

/* The piece of a rank in a round. */
char *whim_comm_piece(const whim_comm *comm, int32_t rank, uint64_t round);

/* This rank's piece of the round that comes next. */
static inline char *whim_comm_next_piece(const whim_comm *comm)
{
    return whim_comm_piece(comm, comm->rank, comm->n_round + 1);
}

/* A rank's piece of the round that was last. */
static inline const char *whim_comm_told(const whim_comm *comm, int32_t rank)
{
    return whim_comm_piece(comm, rank, comm->n_round);
}

/* memcpy takes no NULL, and a part of nothing may be one. */
static inline void whim_comm_copy(void *to, const void *from, int64_t bytes)
{
    if (bytes > 0) {
        memcpy(to, from, (size_t)bytes);
    }
}

static inline int64_t whim_comm_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t whim_comm_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A collective begins, and is counted; or continues. */
whim_comm_call whim_comm_call_of(whim_comm *comm, whim_comm_kind kind, int64_t size,
                                 const char *site);
whim_comm_call whim_comm_call_again(whim_comm_kind kind, int64_t size, const char *site);

/* A call of a comm that is split begins. While it waits for `rank` in `round`: the other has gone
 * by, and its call is told (31 bytes of `site`). */
void whim_comm_place_tell(const whim_comm *comm, const char *site);
bool whim_comm_passed_by(const whim_comm *comm, int32_t rank, uint32_t round, char site[32]);

/* The last call that a rank told of; false: there was none. */
bool whim_comm_last_site(const whim_comm *comm, int32_t rank, char site[32]);

/* Whether a rank has ended all that this one has begun to make of letters: of what this one waits
 * for in a round, whatever has not come yet does not come. */
bool whim_comm_has_followed(const whim_comm *comm, int32_t rank);

/* Of a list with an entry for each rank. */
int32_t whim_comm_parts(const whim_comm *comm, const int64_t *list);

/* One round, after this rank's piece of round n_round + 1 was written: it is told, and waited for.
 * In parts: a rank may tell the next one before it waits for this one. */
void whim_comm_round_tell(whim_comm *comm, const whim_comm_call *call, whim_comm_wrote wrote);
WHIM_MUST_CHECK whim_err whim_comm_round_wait(whim_comm *comm, const whim_comm_call *call,
                                              uint64_t round);
WHIM_MUST_CHECK whim_err whim_comm_round(whim_comm *comm, const whim_comm_call *call,
                                         whim_comm_wrote wrote);

/* The same for a team. `whim_comm_call_by` is counted once. Of a round, all have done their part of
 * what comes before it when one of them enters, and all leave with what it got. */
bool whim_comm_leads(const whim_comm_team *team);
whim_comm_call whim_comm_call_by(whim_comm *comm, const whim_comm_team *team, whim_comm_kind kind,
                                 int64_t size, const char *site);
bool whim_comm_enter(const whim_comm_team *team);
WHIM_MUST_CHECK whim_err whim_comm_leave(const whim_comm_team *team, whim_err err);
WHIM_MUST_CHECK whim_err whim_comm_round_by(whim_comm *comm, const whim_comm_team *team,
                                            const whim_comm_call *call, int64_t wrote);

/* Which of n elements of `size` bytes are a worker's, whole cache lines as far as there are. */
typedef struct whim_comm_part {
    int64_t begin, end;
} whim_comm_part;
whim_comm_part whim_comm_share(const whim_comm_team *team, int64_t n, int64_t size);

/* Elements [begin, end) of n that are a rank's to sum, whole cache lines as far as there are. */
void whim_comm_slice(int32_t n_rank, int32_t rank, int64_t n, int64_t *begin, int64_t *end);

/* A count comes to n; who sleeps by it is woken, and the bell rung. */
void whim_comm_tell(struct whim_comm_shared *shared, _Atomic uint32_t *count,
                    _Atomic uint32_t *sleepers, uint64_t n);

/* For meters: bytes of a collective, of a letter and between hosts, and a wait at a place. */
void whim_comm_count_bytes(whim_comm *comm, int64_t n);
void whim_comm_count_letter(struct whim_comm_shared *shared, int32_t rank, int64_t n);
void whim_comm_count_link(struct whim_comm_shared *shared, int64_t n);
void whim_comm_count_wait(struct whim_comm_shared *shared, int32_t rank, const char *site,
                          int64_t ns);
void whim_comm_count_disk(struct whim_comm_shared *shared, int32_t rank, whim_rank_disk which,
                          int64_t n);

/* End the group; the first reason counts. Who waits for letters is woken. */
void whim_comm_shared_end(struct whim_comm_shared *shared, const char *why);

static inline bool whim_comm_has_ended(struct whim_comm_shared *shared)
{
    return atomic_load_explicit(&shared->state, memory_order_relaxed) != WHIM_COMM_GOOD;
}

/* Why it ended, also where another rank had a reason sooner, or died while it wrote it: DEVICE. */
whim_err whim_comm_why(struct whim_comm_shared *shared, whim_diag *diag);

/* How long a rank waits for another, as far as it ran itself: what stops a whole machine for a
 * while is no fault of the rank that it waits for. Nor is work that takes long. */
typedef struct whim_comm_wait {
    int64_t last_ns, waited_ns;
    int64_t looked_ns;    /* how long it had waited when it last looked at the other's process */
    int64_t worked_ns;    /* and when that was last seen to have worked, or to be about to */
    int64_t worked_ticks; /* of its CPU time then */
    int64_t moved_ns;     /* and when it was last seen to have told or read something */
    uint32_t moved_round, moved_read;
} whim_comm_wait;

/* The longest that one look may add, above any nap: beyond, whoever waits was stopped itself. */
enum { WHIM_COMM_LOOK_NS = 250000000 };

/* A look at the clock; returns how long it has waited. */
static inline int64_t whim_comm_wait_look(whim_comm_wait *wait, int64_t now_ns)
{
    int64_t since = wait->last_ns == 0 ? 0 : now_ns - wait->last_ns;
    wait->waited_ns += since < WHIM_COMM_LOOK_NS ? since : WHIM_COMM_LOOK_NS;
    wait->last_ns = now_ns;
    return wait->waited_ns;
}

/* CPU time that a rank has used, in ticks; of one on another host as many as its host has seen it
 * work. 0: nobody knows. */
int64_t whim_comm_ticks(struct whim_comm_shared *shared, int32_t rank);

/* Whether its process, if it has one of its own on this host, uses CPU time or waits for some, or
 * for a disk. */
bool whim_comm_is_busy(struct whim_comm_shared *shared, int32_t rank);

/* Whether it has waited too long for a peer: more than limit_ns, and the peer has used no CPU
 * time for the last half of that. One that works, but tells and reads nothing, is given up after a
 * minute; one that is far behind is not. */
bool whim_comm_wait_is_over(whim_comm_wait *wait, struct whim_comm_shared *shared, int32_t peer,
                            int64_t limit_ns);

#endif

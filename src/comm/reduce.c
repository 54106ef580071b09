/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that add up. An element's sum is in the order of ranks, whoever makes it. */
#include "base/os/futex.h"
#include "comm/shared.h"

enum {
    PIECE_FLOATS = WHIM_COMM_PIECE / 4,
    LONG_FLOATS = PIECE_FLOATS / 2, /* of long sums: more pieces have more work at the same time */
    FEW = 2,                        /* pieces, for which that is not worth a round more */
    NEAR_FLOATS = 512,              /* what the next cache has, with as much of each rank */
    LANES = 16
};

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* sum = x + y, of which either may be where it goes; `copy`: as well, or NULL. Four are read before
 * they are written, so that the compiler need not ask whether they overlap. */
static void add(float *sum, float *copy, const float *x, const float *y, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        four both = *(const four *)(x + i) + *(const four *)(y + i);
        *(four *)(sum + i) = both;
        if (copy != NULL) {
            *(four *)(copy + i) = both;
        }
    }
    for (; i < n; i++) {
        sum[i] = x[i] + y[i];
        if (copy != NULL) {
            copy[i] = sum[i];
        }
    }
}

/* The sum over ranks, in their order, of elements [at, at + n) of what they gave in a round; this
 * rank's are `own`, which `out` may not be. `copy` may be, or NULL. */
static void sum_ranks(const whim_comm *comm, uint64_t round, const float *own, int64_t at,
                      int64_t n, float *out, float *copy)
{
    const float *sum = NULL;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        const float *x =
            r == comm->rank ? own : (const float *)whim_comm_piece(comm, r, round) + at;
        if (copy == NULL && n * 4 <= WHIM_COMM_DIRECT) { /* of more, nobody waits for the first */
            whim_os_lines_read(x, n * 4);
        }
        if (r > 0) {
            add(out, r + 1 == comm->n_rank ? copy : NULL, sum, x, n);
        }
        sum = r == 0 ? x : out;
    }
    if (comm->n_rank == 1) {
        whim_comm_copy(out, own, n * 4);
    }
}

void whim_comm_slice(int32_t n_rank, int32_t rank, int64_t n, int64_t *begin, int64_t *end)
{
    int64_t lines = (n + LANES - 1) / LANES;
    *begin = whim_comm_min(n, lines * rank / n_rank * LANES);
    *end = whim_comm_min(n, lines * (rank + 1) / n_rank * LANES);
}

static void slice(const whim_comm *comm, int32_t rank, int64_t n, int64_t *begin, int64_t *end)
{
    whim_comm_slice(comm->n_rank, rank, n, begin, end);
}

/* Every rank sums all of it. */
static whim_err reduce_direct(whim_comm *comm, const whim_comm_call *call, float *x, int64_t n)
{
    float *mine = (float *)whim_comm_next_piece(comm);
    whim_comm_copy(mine, x, n * 4);
    WHIM_TRY(whim_comm_round(comm, call, (whim_comm_wrote){.bytes = (int32_t)(n * 4)}));
    sum_ranks(comm, comm->n_round, mine, 0, n, x, NULL);
    return WHIM_ERR_OK;
}

/* --- long sums -------------------------------------------------------------------------------- */

/* Piece by piece, every rank sums its slice and takes the others' from them. Between two rounds
 * three pieces are worked on: one is given to the peers, theirs of one before are summed, and the
 * sums of one before that are taken. Where there are more than a few, a rank does not wait for the
 * round that it told, but for the one before: its work and the way of the bytes then go on at the
 * same time. */

typedef struct long_sum {
    const whim_comm *comm;
    float *x;
    int64_t n;
    int64_t round; /* that comes next; 0: the first of this sum */
    const whim_comm_team *team;
} long_sum;

static int64_t long_pieces(int64_t n)
{
    return (n + LONG_FLOATS - 1) / LONG_FLOATS;
}

/* Rounds from when a piece is given until its sums are told. */
static int64_t long_back(int64_t n)
{
    return long_pieces(n) > FEW ? WHIM_COMM_MOST_BACK : 1;
}

/* The length of piece k of n floats; 0: there is none. */
static int64_t long_len(int64_t n, int64_t k)
{
    return k < 0 ? 0 : whim_comm_max(0, whim_comm_min(n - k * LONG_FLOATS, LONG_FLOATS));
}

static float *long_piece(const long_sum *s, int64_t k, int64_t *len)
{
    *len = long_len(s->n, k);
    return *len > 0 ? s->x + k * LONG_FLOATS : NULL;
}

/* The round in which piece k is given. */
static uint64_t round_of(const long_sum *s, int64_t k)
{
    return s->comm->n_round + 1 + (uint64_t)k - (uint64_t)s->round;
}

/* All but this rank's slice: nobody else needs that. */
static void long_give(const long_sum *s, int64_t k)
{
    float *mine = (float *)whim_comm_next_piece(s->comm);
    int64_t len, begin, end;
    const float *x = long_piece(s, k, &len);
    slice(s->comm, s->comm->rank, len, &begin, &end);
    whim_comm_part own = whim_comm_share(s->team, len, sizeof *x);
    int64_t low = whim_comm_min(own.end, begin), high = whim_comm_max(own.begin, end);
    if (len > 0) {
        whim_comm_copy(mine + own.begin, x + own.begin, (low - own.begin) * 4);
        whim_comm_copy(mine + high, x + high, (own.end - high) * 4);
    }
}

/* Into the rank's own piece, where nobody looks for it before it is told, and to where it is wanted
 * at once. */
static void long_add(const long_sum *s, int64_t k)
{
    uint64_t round = round_of(s, k);
    float *mine = (float *)whim_comm_piece(s->comm, s->comm->rank, round);
    int64_t len, begin, end;
    float *x = long_piece(s, k, &len);
    slice(s->comm, s->comm->rank, len, &begin, &end);
    whim_comm_part own = whim_comm_share(s->team, end - begin, sizeof *x);
    for (int64_t i = begin + own.begin, n; i < begin + own.end; i += n) {
        n = whim_comm_min(NEAR_FLOATS, begin + own.end - i);
        whim_os_lines_write(mine + i, n * 4); /* peers have read the sums that were there */
        sum_ranks(s->comm, round, x + i, i, n, mine + i, x + i);
    }
}

/* The sums of the others; its own are there. */
static void long_take(const long_sum *s, int64_t k)
{
    int64_t len, begin, end;
    float *x = long_piece(s, k, &len);
    whim_comm_part own = whim_comm_share(s->team, len, sizeof *x);
    for (int32_t r = 0; r < s->comm->n_rank && own.begin < own.end; r++) {
        slice(s->comm, r, len, &begin, &end);
        begin = whim_comm_max(begin, own.begin);
        end = whim_comm_min(end, own.end);
        if (begin < end && r != s->comm->rank) {
            const float *sums = (const float *)whim_comm_piece(s->comm, r, round_of(s, k));
            whim_comm_copy(x + begin, sums + begin, (end - begin) * 4);
        }
    }
}

static int64_t long_rounds(int64_t n)
{
    return long_pieces(n) + long_back(n);
}

/* What lies between the round before and the next, and after the last one. */
static void long_work(const long_sum *s)
{
    int64_t back = long_back(s->n), k = s->round - 2 * back;
    long_take(s, k);
    while (s->round == long_rounds(s->n) && ++k < long_pieces(s->n)) {
        long_take(s, k);
    }
    long_add(s, s->round - back);
    long_give(s, s->round);
}

static whim_err long_round(whim_comm *comm, int64_t n, int64_t round, const char *site)
{
    whim_comm_call call = round == 0 ? whim_comm_call_of(comm, WHIM_COMM_ALL_REDUCE, n, site)
                                     : whim_comm_call_again(WHIM_COMM_ALL_REDUCE, n, site);
    int64_t back = long_back(n);
    whim_comm_wrote wrote = {.given = (int32_t)long_len(n, round),
                             .summed = (int32_t)long_len(n, round - back),
                             .back = (int32_t)back};
    whim_comm_round_tell(comm, &call, wrote);
    if (back > 1 && round > 0) {
        WHIM_TRY(whim_comm_round_wait(comm, &call, comm->n_round - 1));
    }
    bool is_last = round + 1 == long_rounds(n);
    return back == 1 || is_last ? whim_comm_round_wait(comm, &call, comm->n_round) : WHIM_ERR_OK;
}

static whim_err reduce_long(whim_comm *comm, const whim_comm_team *team, float *x, int64_t n,
                            const char *site)
{
    long_sum s = {.comm = comm, .x = x, .n = n, .team = team};
    for (; s.round < long_rounds(n); s.round++) {
        long_work(&s);
        whim_err err = whim_comm_enter(team) ? long_round(comm, n, s.round, site) : WHIM_ERR_OK;
        WHIM_TRY(whim_comm_leave(team, err));
    }
    long_work(&s);
    return WHIM_ERR_OK;
}

whim_err whim_comm_all_reduce(whim_comm *comm, const whim_comm_team *team, float *x, int64_t n,
                              const char *site)
{
    if (n * 4 > WHIM_COMM_DIRECT) {
        return reduce_long(comm, team, x, n, site);
    }
    whim_err err = WHIM_ERR_OK;
    if (whim_comm_enter(team)) {
        whim_comm_call call = whim_comm_call_of(comm, WHIM_COMM_ALL_REDUCE, n, site);
        err = reduce_direct(comm, &call, x, n);
    }
    return whim_comm_leave(team, err);
}

/* --- each its part of the sum ----------------------------------------------------------------- */

/* A rank's columns of rows of `total`. */
typedef struct columns {
    int64_t first, own, total;
} columns;

static columns columns_of(const whim_comm *comm, const int64_t *cols)
{
    columns c = {.own = cols[comm->rank]};
    for (int32_t r = 0; r < comm->n_rank; r++) {
        c.first += r < comm->rank ? cols[r] : 0;
        c.total += cols[r];
    }
    return c;
}

/* Of a part of the piece of x that begins at `at`, the sum of what lies in the columns. */
static void columns_sum(const whim_comm *comm, const columns *c, const float *x, int64_t at,
                        whim_comm_part part, float *out)
{
    int64_t first = at + part.begin, behind = at + part.end;
    for (int64_t row = first / c->total; row * c->total < behind; row++) {
        int64_t from = row * c->total + c->first;
        int64_t begin = whim_comm_max(from, first), end = whim_comm_min(from + c->own, behind);
        if (begin < end) {
            sum_ranks(comm, comm->n_round, x + begin, begin - at, end - begin,
                      out + row * c->own + (begin - from), NULL);
        }
    }
}

whim_err whim_comm_reduce_scatter_rows(whim_comm *comm, const whim_comm_team *team, const float *x,
                                       const int64_t *cols, int64_t n_row, float *out,
                                       const char *site)
{
    columns c = columns_of(comm, cols);
    int64_t n = n_row * c.total, at = 0;
    whim_comm_call call = whim_comm_call_by(comm, team, WHIM_COMM_REDUCE_SCATTER, n, site);
    call.root = whim_comm_parts(comm, cols);
    do {
        int64_t len = whim_comm_min(n - at, PIECE_FLOATS);
        whim_comm_part own = whim_comm_share(team, len, sizeof *x);
        if (len > 0) { /* x of nothing may be NULL */
            whim_comm_copy(whim_comm_next_piece(comm) + own.begin * 4, x + at + own.begin,
                           (own.end - own.begin) * 4);
        }
        WHIM_TRY(whim_comm_round_by(comm, team, &call, len * 4));
        if (len > 0) {
            columns_sum(comm, &c, x, at, own, out);
        }
        at += len;
    } while (at < n);
    return WHIM_ERR_OK;
}

whim_err whim_comm_reduce_scatter(whim_comm *comm, const float *x, const int64_t *n, float *out,
                                  const char *site)
{
    return whim_comm_reduce_scatter_rows(comm, NULL, x, n, 1, out, site);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that add up. An element's sum is in the order of ranks, whoever makes it. */
#include "base/os/futex.h"
#include "comm/shared.h"

enum { PIECE_FLOATS = WHIM_COMM_PIECE / 4, LANES = 16 };

static void add(float *restrict sum, const float *restrict x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int32_t j = 0; j < LANES; j++) {
            sum[i + j] += x[i + j];
        }
    }
    for (; i < n; i++) {
        sum[i] += x[i];
    }
}

/* The sum over ranks, in their order, of elements [at, at + n) of what they told; this rank's are
 * `own`, which `out` may not be. */
static void sum_ranks(const whim_comm *comm, const float *own, int64_t at, int64_t n, float *out)
{
    for (int32_t r = 0; r < comm->n_rank; r++) {
        const float *x = r == comm->rank ? own : (const float *)whim_comm_told(comm, r, 0) + at;
        if (n * 4 <= WHIM_COMM_DIRECT) {
            whim_os_lines_read(x, n * 4);
        }
        if (r == 0) {
            whim_comm_copy(out, x, n * 4);
        } else {
            add(out, x, n);
        }
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
    sum_ranks(comm, mine, 0, n, x);
    return WHIM_ERR_OK;
}

/* --- long sums -------------------------------------------------------------------------------- */

/* Piece by piece, every rank sums its slice and takes the others' from them. Between two rounds
 * three pieces are worked on: one is given to the peers, theirs of the one before are summed, and
 * the sums of the one before that are taken. */

typedef struct long_sum {
    const whim_comm *comm;
    float *x;
    int64_t n;
    int32_t worker, n_worker;
} long_sum;

/* Elements [begin, end) of n that are a worker's. */
static void share(const long_sum *s, int64_t n, int64_t *begin, int64_t *end)
{
    int64_t lines = (n + LANES - 1) / LANES;
    *begin = whim_comm_min(n, lines * s->worker / s->n_worker * LANES);
    *end = whim_comm_min(n, lines * (s->worker + 1) / s->n_worker * LANES);
}

/* The length of piece k of n floats; 0: there is none. */
static int64_t long_len(int64_t n, int64_t k)
{
    return k < 0 ? 0 : whim_comm_max(0, whim_comm_min(n - k * PIECE_FLOATS, PIECE_FLOATS));
}

static float *long_piece(const long_sum *s, int64_t k, int64_t *len)
{
    *len = long_len(s->n, k);
    return *len > 0 ? s->x + k * PIECE_FLOATS : NULL;
}

/* All but this rank's slice: nobody else needs that. */
static void long_give(const long_sum *s, int64_t k)
{
    float *mine = (float *)whim_comm_next_piece(s->comm);
    int64_t len, begin, end, from, to;
    const float *x = long_piece(s, k, &len);
    slice(s->comm, s->comm->rank, len, &begin, &end);
    share(s, len, &from, &to);
    int64_t low = whim_comm_min(to, begin), high = whim_comm_max(from, end);
    if (len > 0) {
        whim_comm_copy(mine + from, x + from, (low - from) * 4);
        whim_comm_copy(mine + high, x + high, (to - high) * 4);
    }
}

/* Into the rank's own piece, where nobody looks for it before the next round. */
static void long_add(const long_sum *s, int64_t k)
{
    float *mine = (float *)whim_comm_piece(s->comm, s->comm->rank, s->comm->n_round);
    int64_t len, begin, end, from, to;
    const float *x = long_piece(s, k, &len);
    slice(s->comm, s->comm->rank, len, &begin, &end);
    share(s, end - begin, &from, &to);
    if (from < to) {
        from += begin;
        sum_ranks(s->comm, x + from, from, to + begin - from, mine + from);
    }
}

static void long_take(const long_sum *s, int64_t k)
{
    int64_t len, begin, end, from, to;
    float *x = long_piece(s, k, &len);
    share(s, len, &from, &to);
    for (int32_t r = 0; r < s->comm->n_rank && from < to; r++) {
        slice(s->comm, r, len, &begin, &end);
        begin = whim_comm_max(begin, from);
        end = whim_comm_min(end, to);
        if (begin < end) {
            const float *sums = (const float *)whim_comm_told(s->comm, r, 1);
            whim_comm_copy(x + begin, sums + begin, (end - begin) * 4);
        }
    }
}

int64_t whim_comm_long_rounds(int64_t n)
{
    return (n + PIECE_FLOATS - 1) / PIECE_FLOATS + 1;
}

void whim_comm_long_work(const whim_comm *comm, float *x, int64_t n, int64_t round, int32_t worker,
                         int32_t n_worker)
{
    long_sum s = {comm, x, n, worker, n_worker};
    long_take(&s, round - 2);
    long_add(&s, round - 1);
    long_give(&s, round);
}

whim_err whim_comm_long_round(whim_comm *comm, int64_t n, int64_t round, const char *site)
{
    whim_comm_call call = round == 0 ? whim_comm_call_of(comm, WHIM_COMM_ALL_REDUCE, n, site)
                                     : whim_comm_call_again(WHIM_COMM_ALL_REDUCE, n, site);
    whim_comm_wrote wrote = {.given = (int32_t)long_len(n, round),
                             .summed = (int32_t)long_len(n, round - 1)};
    return whim_comm_round(comm, &call, wrote);
}

static whim_err reduce_long(whim_comm *comm, float *x, int64_t n, const char *site)
{
    int64_t n_round = whim_comm_long_rounds(n);
    for (int64_t i = 0; i < n_round; i++) {
        whim_comm_long_work(comm, x, n, i, 0, 1);
        WHIM_TRY(whim_comm_long_round(comm, n, i, site));
    }
    whim_comm_long_work(comm, x, n, n_round, 0, 1);
    return WHIM_ERR_OK;
}

whim_err whim_comm_all_reduce(whim_comm *comm, float *x, int64_t n, const char *site)
{
    if (n * 4 > WHIM_COMM_DIRECT) {
        return reduce_long(comm, x, n, site);
    }
    whim_comm_call call = whim_comm_call_of(comm, WHIM_COMM_ALL_REDUCE, n, site);
    return reduce_direct(comm, &call, x, n);
}

/* --- each its part of the sum ----------------------------------------------------------------- */

/* Of a piece [at, at + len) of x, the sum of what lies in columns [first, first + own) of rows of
 * `total`. */
static void columns_sum(const whim_comm *comm, const float *x, int64_t at, int64_t len,
                        int64_t total, int64_t first, int64_t own, float *out)
{
    for (int64_t row = at / total; row * total < at + len; row++) {
        int64_t from = row * total + first;
        int64_t begin = whim_comm_max(from, at), end = whim_comm_min(from + own, at + len);
        if (begin < end) {
            sum_ranks(comm, x + begin, begin - at, end - begin, out + row * own + (begin - from));
        }
    }
}

whim_err whim_comm_reduce_scatter_rows(whim_comm *comm, const float *x, const int64_t *cols,
                                       int64_t n_row, float *out, const char *site)
{
    int64_t first = 0, total = 0;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        first += r < comm->rank ? cols[r] : 0;
        total += cols[r];
    }
    whim_comm_call call = whim_comm_call_of(comm, WHIM_COMM_REDUCE_SCATTER, n_row * total, site);
    call.root = whim_comm_parts(comm, cols);
    int64_t at = 0;
    do {
        int64_t len = whim_comm_min(n_row * total - at, PIECE_FLOATS);
        whim_comm_copy(whim_comm_next_piece(comm), x + at, len * 4);
        WHIM_TRY(whim_comm_round(comm, &call, (whim_comm_wrote){.bytes = (int32_t)(len * 4)}));
        if (len > 0) {
            columns_sum(comm, x, at, len, total, first, cols[comm->rank], out);
        }
        at += len;
    } while (at < n_row * total);
    return WHIM_ERR_OK;
}

whim_err whim_comm_reduce_scatter(whim_comm *comm, const float *x, const int64_t *n, float *out,
                                  const char *site)
{
    return whim_comm_reduce_scatter_rows(comm, x, n, 1, out, site);
}

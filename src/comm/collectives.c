/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as rounds: messages longer than a piece travel piece by piece. */
#include "comm/shared.h"

#include <stdio.h>
#include <string.h>

enum { PIECE_FLOATS = WHIM_COMM_PIECE / 4, LANES = 16 };

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* memcpy takes no NULL, and a part of nothing may be one. */
static void copy(void *to, const void *from, int64_t bytes)
{
    if (bytes > 0) {
        memcpy(to, from, (size_t)bytes);
    }
}

static whim_comm_call call_make(whim_comm *comm, whim_comm_kind kind, int64_t size,
                                const char *site)
{
    whim_comm_call call = {.kind = (int32_t)kind, .size = size};
    snprintf(call.site, sizeof call.site, "%s", site);
    comm->n_call++;
    return call;
}

/* This rank's piece of the round that comes next. */
static char *next_piece(const whim_comm *comm)
{
    return whim_comm_piece(comm, comm->rank, comm->n_round + 1);
}

/* A rank's piece of the round that was last, `back` rounds ago. */
static const char *told(const whim_comm *comm, int32_t rank, uint64_t back)
{
    return whim_comm_piece(comm, rank, comm->n_round - back);
}

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
        const float *x = r == comm->rank ? own : (const float *)told(comm, r, 0) + at;
        if (r == 0) {
            copy(out, x, n * 4);
        } else {
            add(out, x, n);
        }
    }
}

/* Elements [begin, end) of n that are a rank's to sum, whole cache lines as far as there are. */
static void slice(const whim_comm *comm, int32_t rank, int64_t n, int64_t *begin, int64_t *end)
{
    int64_t lines = (n + LANES - 1) / LANES;
    *begin = min64(n, lines * rank / comm->n_rank * LANES);
    *end = min64(n, lines * (rank + 1) / comm->n_rank * LANES);
}

/* Every rank sums all of it. */
static whim_err reduce_direct(whim_comm *comm, const whim_comm_call *call, float *x, int64_t n)
{
    float *mine = (float *)next_piece(comm);
    copy(mine, x, n * 4);
    WHIM_TRY(whim_comm_round(comm, call));
    sum_ranks(comm, mine, 0, n, x);
    return WHIM_ERR_OK;
}

/* Every rank sums its slice, and takes the others' from them. */
static whim_err reduce_sliced(whim_comm *comm, const whim_comm_call *call, float *x, int64_t n)
{
    float *mine = (float *)next_piece(comm);
    int64_t begin, end;
    slice(comm, comm->rank, n, &begin, &end);
    copy(mine, x, begin * 4);
    copy(mine + end, x + end, (n - end) * 4);
    WHIM_TRY(whim_comm_round(comm, call));
    sum_ranks(comm, x + begin, begin, end - begin, mine + begin); /* nobody reads these yet */
    WHIM_TRY(whim_comm_round(comm, call));
    for (int32_t r = 0; r < comm->n_rank; r++) {
        slice(comm, r, n, &begin, &end);
        copy(x + begin, (const float *)told(comm, r, 1) + begin, (end - begin) * 4);
    }
    return WHIM_ERR_OK;
}

whim_err whim_comm_all_reduce(whim_comm *comm, float *x, int64_t n, const char *site)
{
    whim_comm_call call = call_make(comm, WHIM_COMM_ALL_REDUCE, n, site);
    bool direct = n * 4 <= WHIM_COMM_DIRECT;
    int64_t at = 0;
    do { /* of nothing, too, so that ranks keep step */
        int64_t len = min64(n - at, PIECE_FLOATS);
        WHIM_TRY((direct ? reduce_direct : reduce_sliced)(comm, &call, x + at, len));
        at += len;
    } while (at < n);
    return WHIM_ERR_OK;
}

/* Bytes [at, at + n) of a matrix without gaps, to where they lie among rows that are `stride` bytes
 * apart. */
static void rows_place(char *to, int64_t stride, int64_t row_bytes, int64_t at, const char *from,
                       int64_t n)
{
    for (int64_t done = 0, len; done < n; done += len) {
        int64_t row = (at + done) / row_bytes, column = (at + done) % row_bytes;
        len = min64(n - done, row_bytes - column);
        copy(to + row * stride + column, from + done, len);
    }
}

/* Rank r has n_row rows of bytes[r]. */
static whim_err gather(whim_comm *comm, const char *part, const int64_t *bytes, int64_t n_row,
                       char *out, const char *site)
{
    int64_t most = 0, stride = 0;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        most = max64(most, n_row * bytes[r]);
        stride += bytes[r];
    }
    whim_comm_call call = call_make(comm, WHIM_COMM_ALL_GATHER, n_row * stride, site);
    int64_t at = 0;
    do {
        copy(next_piece(comm), part + at, min64(n_row * bytes[comm->rank] - at, WHIM_COMM_PIECE));
        WHIM_TRY(whim_comm_round(comm, &call));
        char *to = out;
        for (int32_t r = 0; r < comm->n_rank; to += bytes[r], r++) {
            rows_place(to, stride, bytes[r], at, told(comm, r, 0),
                       min64(n_row * bytes[r] - at, WHIM_COMM_PIECE));
        }
        at += WHIM_COMM_PIECE;
    } while (at < most);
    return WHIM_ERR_OK;
}

whim_err whim_comm_all_gather(whim_comm *comm, const void *part, const int64_t *bytes, void *out,
                              const char *site)
{
    return gather(comm, part, bytes, 1, out, site);
}

whim_err whim_comm_all_gather_rows(whim_comm *comm, const float *part, const int64_t *cols,
                                   int64_t n_row, float *out, const char *site)
{
    int64_t bytes[WHIM_COMM_MAX_RANK];
    for (int32_t r = 0; r < comm->n_rank; r++) {
        bytes[r] = cols[r] * (int64_t)sizeof *out;
    }
    return gather(comm, (const char *)part, bytes, n_row, (char *)out, site);
}

/* Of a piece [at, at + len) of x, the sum of what lies in columns [first, first + own) of rows of
 * `total`. */
static void columns_sum(const whim_comm *comm, const float *x, int64_t at, int64_t len,
                        int64_t total, int64_t first, int64_t own, float *out)
{
    for (int64_t row = at / total; row * total < at + len; row++) {
        int64_t from = row * total + first;
        int64_t begin = max64(from, at), end = min64(from + own, at + len);
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
    whim_comm_call call = call_make(comm, WHIM_COMM_REDUCE_SCATTER, n_row * total, site);
    int64_t at = 0;
    do {
        int64_t len = min64(n_row * total - at, PIECE_FLOATS);
        copy(next_piece(comm), x + at, len * 4);
        WHIM_TRY(whim_comm_round(comm, &call));
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

/* --- each to each ----------------------------------------------------------------------------- */

/* What ranks have for each other, from the tables that they told: the longest of all messages, and
 * where this rank's part begins in `rank`'s. */
static int64_t message_bytes(const whim_comm *comm, int32_t rank, int64_t *mine_at, int64_t *mine)
{
    const int64_t *table = (const int64_t *)told(comm, rank, 0);
    int64_t total = 0;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        *mine_at = r == comm->rank ? total : *mine_at;
        *mine = r == comm->rank ? table[r] : *mine;
        total += table[r];
    }
    return total;
}

static whim_err tables_agree(whim_comm *comm, const int64_t *take, int64_t *at, int64_t *most,
                             const char *site)
{
    *most = 0;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        int64_t bytes = 0;
        *most = max64(*most, message_bytes(comm, r, &at[r], &bytes));
        if (bytes != take[r]) {
            whim_fail(&comm->diag, WHIM_ERR_DEVICE,
                      "ranks disagree at \"%.31s\": rank %d has %lld bytes for rank %d, which "
                      "expects %lld",
                      site, r, (long long)bytes, comm->rank, (long long)take[r]);
            return whim_comm_end(comm);
        }
    }
    return WHIM_ERR_OK;
}

/* What `rank` told of its message [at, at + a piece) and is this rank's, to its place in `out`. */
static void part_take(const whim_comm *comm, int32_t rank, int64_t at, int64_t first, int64_t bytes,
                      char *out)
{
    int64_t begin = max64(first, at), end = min64(first + bytes, at + WHIM_COMM_PIECE);
    if (begin < end) {
        copy(out + (begin - first), told(comm, rank, 0) + (begin - at), end - begin);
    }
}

whim_err whim_comm_all_to_all(whim_comm *comm, const void *in, const int64_t *send, void *out,
                              const int64_t *take, const char *site)
{
    int64_t first[WHIM_COMM_MAX_RANK] = {0}, most = 0, own = 0;
    whim_comm_call call = call_make(comm, WHIM_COMM_ALL_TO_ALL, 0, site);
    for (int32_t r = 0; r < comm->n_rank; r++) {
        own += send[r];
    }
    copy(next_piece(comm), send, comm->n_rank * (int64_t)sizeof *send);
    WHIM_TRY(whim_comm_round(comm, &call));
    WHIM_TRY(tables_agree(comm, take, first, &most, site));
    for (int64_t at = 0; at < most; at += WHIM_COMM_PIECE) {
        copy(next_piece(comm), (const char *)in + at, min64(own - at, WHIM_COMM_PIECE));
        WHIM_TRY(whim_comm_round(comm, &call));
        char *to = out;
        for (int32_t r = 0; r < comm->n_rank; to += take[r], r++) {
            part_take(comm, r, at, first[r], take[r], to);
        }
    }
    return WHIM_ERR_OK;
}

/* --- one to all, nothing to all --------------------------------------------------------------- */

whim_err whim_comm_broadcast(whim_comm *comm, void *x, int64_t bytes, int32_t root,
                             const char *site)
{
    whim_comm_call call = call_make(comm, WHIM_COMM_BROADCAST, bytes, site);
    call.root = root;
    int64_t at = 0;
    do {
        int64_t len = min64(bytes - at, WHIM_COMM_PIECE);
        if (comm->rank == root) {
            copy(next_piece(comm), (char *)x + at, len);
        }
        WHIM_TRY(whim_comm_round(comm, &call));
        if (comm->rank != root) {
            copy((char *)x + at, told(comm, root, 0), len);
        }
        at += len;
    } while (at < bytes);
    return WHIM_ERR_OK;
}

whim_err whim_comm_barrier(whim_comm *comm, const char *site)
{
    whim_comm_call call = call_make(comm, WHIM_COMM_BARRIER, 0, site);
    return whim_comm_round(comm, &call);
}

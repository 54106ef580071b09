/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that move bytes, as rounds: messages longer than a piece travel piece by piece. */
#include "comm/shared.h"

#include <stdio.h>
#include <string.h>

/* Bytes [at, at + n) of a matrix without gaps, to where they lie among rows that are `stride` bytes
 * apart. */
static void rows_place(char *to, int64_t stride, int64_t row_bytes, int64_t at, const char *from,
                       int64_t n)
{
    for (int64_t done = 0, len; done < n; done += len) {
        int64_t row = (at + done) / row_bytes, column = (at + done) % row_bytes;
        len = whim_comm_min(n - done, row_bytes - column);
        whim_comm_copy(to + row * stride + column, from + done, len);
    }
}

/* Bytes of a message's part from `at` on that are the next piece; a worker's share is written
 * there. */
static int64_t piece_write(const whim_comm *comm, const whim_comm_team *team, const char *part,
                           int64_t bytes, int64_t at)
{
    int64_t len = whim_comm_max(0, whim_comm_min(bytes - at, WHIM_COMM_PIECE));
    whim_comm_part own = whim_comm_share(team, len, 1);
    if (len > 0) { /* a part of nothing may be NULL */
        whim_comm_copy(whim_comm_next_piece(comm) + own.begin, part + at + own.begin,
                       own.end - own.begin);
    }
    return len;
}

/* Rank r has n_row rows of bytes[r]. */
static whim_err gather(whim_comm *comm, const whim_comm_team *team, const char *part,
                       const int64_t *bytes, int64_t n_row, char *out, const char *site)
{
    int64_t most = 0, stride = 0;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        most = whim_comm_max(most, n_row * bytes[r]);
        stride += bytes[r];
    }
    whim_comm_call call = whim_comm_call_by(comm, team, WHIM_COMM_ALL_GATHER, n_row * stride, site);
    call.root = whim_comm_parts(comm, bytes);
    int64_t at = 0;
    do {
        int64_t wrote = piece_write(comm, team, part, n_row * bytes[comm->rank], at);
        WHIM_TRY(whim_comm_round_by(comm, team, &call, wrote));
        char *to = out;
        for (int32_t r = 0; r < comm->n_rank; to += bytes[r], r++) {
            int64_t len = whim_comm_min(n_row * bytes[r] - at, WHIM_COMM_PIECE);
            whim_comm_part own = whim_comm_share(team, whim_comm_max(0, len), 1);
            rows_place(to, stride, bytes[r], at + own.begin, whim_comm_told(comm, r) + own.begin,
                       own.end - own.begin);
        }
        at += WHIM_COMM_PIECE;
    } while (at < most);
    return WHIM_ERR_OK;
}

whim_err whim_comm_all_gather(whim_comm *comm, const void *part, const int64_t *bytes, void *out,
                              const char *site)
{
    return gather(comm, NULL, part, bytes, 1, out, site);
}

whim_err whim_comm_all_gather_rows(whim_comm *comm, const whim_comm_team *team, const float *part,
                                   const int64_t *cols, int64_t n_row, float *out, const char *site)
{
    int64_t bytes[WHIM_COMM_MAX_RANK];
    for (int32_t r = 0; r < comm->n_rank; r++) {
        bytes[r] = cols[r] * (int64_t)sizeof *out;
    }
    return gather(comm, team, (const char *)part, bytes, n_row, (char *)out, site);
}

/* --- one to all, nothing to all --------------------------------------------------------------- */

whim_err whim_comm_broadcast(whim_comm *comm, void *x, int64_t bytes, int32_t root,
                             const char *site)
{
    whim_comm_call call = whim_comm_call_of(comm, WHIM_COMM_BROADCAST, bytes, site);
    call.root = root;
    int64_t at = 0;
    do {
        int64_t len = whim_comm_min(bytes - at, WHIM_COMM_PIECE);
        int64_t wrote = comm->rank == root ? piece_write(comm, NULL, x, bytes, at) : 0;
        WHIM_TRY(whim_comm_round_by(comm, NULL, &call, wrote));
        if (comm->rank != root) {
            whim_comm_copy((char *)x + at, whim_comm_told(comm, root), len);
        }
        at += len;
    } while (at < bytes);
    return WHIM_ERR_OK;
}

whim_err whim_comm_barrier(whim_comm *comm, const char *site)
{
    whim_comm_call call = whim_comm_call_of(comm, WHIM_COMM_BARRIER, 0, site);
    return whim_comm_round(comm, &call, (whim_comm_wrote){0});
}

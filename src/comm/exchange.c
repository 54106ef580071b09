/* SPDX-License-Identifier: Apache-2.0 */
/* Rows from whoever made them to whoever wants them, where all ranks know both. What a rank gives
 * is one message: its rows that any other wants, in order. It travels piece by piece, and each of
 * the others picks its own out of it. */
#include "comm/shared.h"

static bool made_by(const whim_comm_rows *rows, int64_t i, int32_t rank)
{
    return rows->keys[i] >= rows->firsts[rank] && rows->keys[i] < rows->firsts[rank + 1];
}

static bool wanted_by(const whim_comm *comm, const whim_comm_rows *rows, int64_t i, int32_t rank)
{
    return rows->wanted_by_each == 0 || i / rows->wanted_by_each % comm->n_rank == rank;
}

/* Whether row i is in the message of `rank`. */
static bool given_by(const whim_comm *comm, const whim_comm_rows *rows, int64_t i, int32_t rank)
{
    return made_by(rows, i, rank) && (rows->wanted_by_each == 0 || !wanted_by(comm, rows, i, rank));
}

/* Where the message of a rank has been read up to. */
typedef struct cursor {
    int64_t row; /* the next one that may be in it */
    int64_t at;  /* bytes of the message before that */
} cursor;

/* The part of a row of a message that lies in [begin, end): its first byte and how many. */
typedef struct span {
    int64_t from, bytes;
} span;

static span span_of(int64_t at, int64_t row_bytes, int64_t begin, int64_t end)
{
    int64_t from = whim_comm_max(begin, at), to = whim_comm_min(end, at + row_bytes);
    return (span){from - at, whim_comm_max(0, to - from)};
}

/* Bytes [begin, begin + a piece) of the message of `rank`: from x into this rank's piece, where it
 * is this rank's, else from that rank's piece to the rows of x that are wanted here. How many. */
static int64_t piece_move(const whim_comm *comm, const whim_comm_rows *rows, int32_t rank,
                          int64_t begin, cursor *c)
{
    int64_t end = begin + WHIM_COMM_PIECE;
    bool gives = rank == comm->rank;
    char *next = gives ? whim_comm_next_piece(comm) : NULL;
    const char *told = gives ? NULL : whim_comm_told(comm, rank);
    for (; c->row < rows->n && c->at < end; c->row++) {
        if (!given_by(comm, rows, c->row, rank)) {
            continue;
        }
        span s = span_of(c->at, rows->row_bytes, begin, end);
        char *row = rows->x + c->row * rows->row_bytes + s.from;
        int64_t place = c->at + s.from - begin;
        if (gives) {
            whim_comm_copy(next + place, row, s.bytes);
        } else if (wanted_by(comm, rows, c->row, comm->rank)) {
            whim_comm_copy(row, told + place, s.bytes);
        }
        if (c->at + rows->row_bytes > end) { /* the rest of it is in the next piece */
            return WHIM_COMM_PIECE;
        }
        c->at += rows->row_bytes;
    }
    return whim_comm_max(0, whim_comm_min(c->at, end) - begin);
}

/* Bytes of the messages: the longest, and all. */
static int64_t longest(const whim_comm *comm, const whim_comm_rows *rows, int64_t *total)
{
    int64_t most = 0;
    *total = 0;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        int64_t n = 0;
        for (int64_t i = 0; i < rows->n; i++) {
            n += given_by(comm, rows, i, r);
        }
        most = whim_comm_max(most, n);
        *total += n * rows->row_bytes;
    }
    return most * rows->row_bytes;
}

/* Ranks whose keys differ would take rows for others. */
static int32_t keys_hash(const whim_comm_rows *rows)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)rows->wanted_by_each;
    for (int64_t i = 0; i < rows->n; i++) {
        hash = (hash ^ (uint32_t)rows->keys[i]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return (int32_t)(hash >> 32);
}

whim_err whim_comm_exchange(whim_comm *comm, const whim_comm_rows *rows, const char *site)
{
    cursor cursors[WHIM_COMM_MAX_RANK] = {{0}};
    int64_t total, most = longest(comm, rows, &total), begin = 0;
    whim_comm_call call = whim_comm_call_of(comm, WHIM_COMM_EXCHANGE, total, site);
    call.root = keys_hash(rows);
    do {
        int64_t bytes = piece_move(comm, rows, comm->rank, begin, &cursors[comm->rank]);
        WHIM_TRY(whim_comm_round(comm, &call, (whim_comm_wrote){.bytes = (int32_t)bytes}));
        for (int32_t r = 0; r < comm->n_rank; r++) {
            if (r != comm->rank) {
                (void)piece_move(comm, rows, r, begin, &cursors[r]);
            }
        }
        begin += WHIM_COMM_PIECE;
    } while (begin < most);
    return WHIM_ERR_OK;
}

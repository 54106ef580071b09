/* SPDX-License-Identifier: Apache-2.0 */
/* Rows from whoever made them to whoever wants them, where all ranks know both. What a rank gives
 * is one message: its rows that any other wants, in order. It travels piece by piece, and each of
 * the others picks its own out of it. */
#include "comm/shared.h"

static bool is_of(const whim_comm_rows *rows, int32_t key, int32_t rank)
{
    return key >= rows->firsts[rank] && key < rows->firsts[rank + 1];
}

static bool wanted_by(const whim_comm *comm, const whim_comm_rows *rows, int64_t i, int32_t rank)
{
    bool wants = rows->n_key == 0 &&
                 (rows->wanted_by_each == 0 || i / rows->wanted_by_each % comm->n_rank == rank);
    for (int32_t k = 0; k < rows->n_key && !wants; k++) {
        wants = is_of(rows, rows->keys[i * rows->n_key + k], rank);
    }
    return wants;
}

/* A key of row i is some other rank's. */
static bool wanted_by_others(const whim_comm *comm, const whim_comm_rows *rows, int64_t i,
                             int32_t rank)
{
    bool wants = false;
    for (int32_t k = 0; k < rows->n_key && !wants; k++) {
        int32_t key = rows->keys[i * rows->n_key + k];
        wants =
            key >= rows->firsts[0] && key < rows->firsts[comm->n_rank] && !is_of(rows, key, rank);
    }
    return wants;
}

/* Rows that a rank may give: `first` and each `row_step`th behind it. */
static int64_t first_row(const whim_comm_rows *rows, int32_t rank)
{
    return rows->n_key > 0 ? rank : 0;
}

static int64_t row_step(const whim_comm *comm, const whim_comm_rows *rows)
{
    return rows->n_key > 0 ? comm->n_rank : 1;
}

/* Whether row i, which `rank` may give, is in its message. */
static bool given_by(const whim_comm *comm, const whim_comm_rows *rows, int64_t i, int32_t rank)
{
    if (rows->n_key > 0) {
        return wanted_by_others(comm, rows, i, rank);
    }
    return is_of(rows, rows->keys[i], rank) &&
           (rows->wanted_by_each == 0 || !wanted_by(comm, rows, i, rank));
}

/* What a rank gives, and where it has been read up to. */
typedef struct message {
    int64_t bytes;
    int64_t row; /* the next one that may be in it */
    int64_t at;  /* bytes before that */
} message;

/* Bytes [begin, begin + a piece) of the message of `rank`, as far as they are a worker's: from x
 * into this rank's piece, where it is this rank's, else from that rank's piece to the rows of x
 * that are wanted here. How many there are. */
static int64_t piece_move(const whim_comm *comm, const whim_comm_team *team,
                          const whim_comm_rows *rows, int32_t rank, int64_t begin, message *m)
{
    bool gives = rank == comm->rank;
    char *next = gives ? whim_comm_next_piece(comm) : NULL;
    const char *told = gives ? NULL : whim_comm_told(comm, rank);
    int64_t len = whim_comm_max(0, whim_comm_min(m->bytes - begin, WHIM_COMM_PIECE));
    whim_comm_part own = whim_comm_share(team, len, 1);
    for (; m->row < rows->n && m->at < begin + len; m->row += row_step(comm, rows)) {
        if (!given_by(comm, rows, m->row, rank)) {
            continue;
        }
        int64_t from = whim_comm_max(begin + own.begin, m->at);
        int64_t bytes = whim_comm_min(begin + own.end, m->at + rows->row_bytes) - from;
        char *row = rows->x + m->row * rows->row_bytes + (from - m->at);
        if (gives) {
            whim_comm_copy(next + (from - begin), row, bytes);
        } else if (wanted_by(comm, rows, m->row, comm->rank)) {
            whim_comm_copy(row, told + (from - begin), bytes);
        }
        if (m->at + rows->row_bytes > begin + len) { /* the rest of it is in the next piece */
            break;
        }
        m->at += rows->row_bytes;
    }
    return len;
}

/* The messages of all ranks, from their beginnings; returns the bytes of the longest. */
static int64_t messages_find(const whim_comm *comm, const whim_comm_rows *rows, message *messages,
                             int64_t *total)
{
    int64_t most = 0;
    *total = 0;
    for (int32_t r = 0; r < comm->n_rank; r++) {
        int64_t n = 0;
        int64_t first = first_row(rows, r);
        for (int64_t i = first; i < rows->n; i += row_step(comm, rows)) {
            n += given_by(comm, rows, i, r);
        }
        messages[r] = (message){.bytes = n * rows->row_bytes, .row = first};
        most = whim_comm_max(most, messages[r].bytes);
        *total += messages[r].bytes;
    }
    return most;
}

/* Ranks whose keys differ would take rows for others. */
static int32_t keys_hash(const whim_comm_rows *rows)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)rows->wanted_by_each;
    for (int64_t i = 0; i < rows->n * (rows->n_key > 0 ? rows->n_key : 1); i++) {
        hash = (hash ^ (uint32_t)rows->keys[i]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return (int32_t)(hash >> 32);
}

whim_err whim_comm_exchange(whim_comm *comm, const whim_comm_team *team, const whim_comm_rows *rows,
                            const char *site)
{
    message messages[WHIM_COMM_MAX_RANK];
    int64_t total, most = messages_find(comm, rows, messages, &total), begin = 0;
    whim_comm_call call = whim_comm_call_by(comm, team, WHIM_COMM_EXCHANGE, total, site);
    call.root = whim_comm_leads(team) ? keys_hash(rows) : 0;
    do {
        int64_t wrote = piece_move(comm, team, rows, comm->rank, begin, &messages[comm->rank]);
        WHIM_TRY(whim_comm_round_by(comm, team, &call, wrote));
        for (int32_t r = 0; r < comm->n_rank; r++) {
            if (r != comm->rank) {
                (void)piece_move(comm, team, rows, r, begin, &messages[r]);
            }
        }
        begin += WHIM_COMM_PIECE;
    } while (begin < most);
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/zigzag.h"

/* Rows at .. at + n - 1 of a sequence's new ones. */
typedef struct chunk {
    int64_t at, n;
} chunk;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Chunk i of n_chunk; the first ones have one row more where they cannot be equal. */
static chunk chunk_of(int64_t n_row, int64_t n_chunk, int64_t i)
{
    int64_t each = n_row / n_chunk, more = n_row % n_chunk;
    return (chunk){i * each + smaller(i, more), each + (i < more)};
}

static int64_t rows_of(const whim_zigzag *z, int64_t s)
{
    return z->q_start[s + 1] - z->q_start[s];
}

/* The first (half 0) or second chunk that a rank has of sequence s. */
static chunk chunk_at(const whim_zigzag *z, int64_t s, int32_t rank, int32_t half)
{
    int64_t n_chunk = 2 * (int64_t)z->n_rank;
    return chunk_of(rows_of(z, s), n_chunk, half == 0 ? rank : n_chunk - 1 - rank);
}

int64_t whim_zigzag_rows(const whim_zigzag *z, int32_t rank)
{
    int64_t n = 0;
    for (int64_t s = 0; s < z->n_seq; s++) {
        n += chunk_at(z, s, rank, 0).n + chunk_at(z, s, rank, 1).n;
    }
    return n;
}

int64_t whim_zigzag_most(const whim_zigzag *z)
{
    int64_t most = 0;
    for (int32_t r = 0; r < z->n_rank; r++) {
        int64_t n = whim_zigzag_rows(z, r);
        most = n > most ? n : most;
    }
    return most;
}

void whim_zigzag_chunks(const whim_zigzag *z, int32_t rank, int32_t *q_start, int32_t *kv_len)
{
    int64_t at = 0;
    for (int64_t c = 0; c < 2 * z->n_seq; c++) {
        int64_t s = c % z->n_seq, before = z->kv_len[s] - rows_of(z, s);
        chunk own = chunk_at(z, s, rank, c >= z->n_seq);
        q_start[c] = (int32_t)at;
        kv_len[c] = (int32_t)(before + own.at + own.n);
        at += own.n;
    }
    q_start[2 * z->n_seq] = (int32_t)at;
}

void whim_zigzag_owners(const whim_zigzag *z, int32_t *ranks, int32_t *rows)
{
    for (int32_t r = 0; r < z->n_rank; r++) {
        int32_t row = 0;
        for (int64_t c = 0; c < 2 * z->n_seq; c++) {
            int64_t s = c % z->n_seq;
            chunk own = chunk_at(z, s, r, c >= z->n_seq);
            for (int64_t t = 0; t < own.n; t++) {
                ranks[z->q_start[s] + own.at + t] = r;
                rows[z->q_start[s] + own.at + t] = row++;
            }
        }
    }
}

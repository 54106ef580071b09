/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/cut.h"

#include "base/alloc.h"
#include "parallel/zigzag.h"

enum { MOST_OF = 3, MOST_IN = 4 }; /* the largest part of a step's rows that is one rank's */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_any(const whim_cut_cfg *cfg)
{
    return cfg->n_rank > 1;
}

/* Of n_rank ranks the first has a row more than its even share of a sequence with one row behind
 * whole chunks, less 1 / n_rank; none has more of any. */
int64_t whim_cut_max_rows(const whim_cut_cfg *cfg)
{
    int64_t most = (cfg->max_rows + cfg->max_seqs * (cfg->n_rank - 1)) / cfg->n_rank;
    return smaller(most, cfg->max_rows * MOST_OF / MOST_IN);
}

/* Where a rank has more than MOST_OF / MOST_IN of the rows, these are few for that many sequences:
 * by the above n_row / n_rank + max_seqs (1 - 1 / n_rank) is more than that part of n_row. */
int64_t whim_cut_max_whole(const whim_cut_cfg *cfg)
{
    int64_t n = cfg->n_rank, few = 2 * n - 1;
    int64_t bad = (MOST_IN * (n - 1) * cfg->max_seqs - 1) / (MOST_OF * n - MOST_IN);
    return smaller(bad > few ? bad : few, cfg->max_rows);
}

/* Where the arrays begin, in words; the last is the end. */
typedef struct layout {
    int64_t own, positions, q_start, kv_len, page_start, places, slots, end;
} layout;

/* `slots` is last: its length is the product of two sizes. */
static layout layout_of(const whim_cut_cfg *cfg)
{
    int64_t n_own = whim_cut_max_rows(cfg), n_chunk = 2 * cfg->max_seqs;
    layout l = {0};
    l.positions = l.own + n_own;
    l.q_start = l.positions + n_own;
    l.kv_len = l.q_start + n_chunk + 1;
    l.page_start = l.kv_len + n_chunk;
    l.places = l.page_start + n_chunk;
    l.slots = l.places + cfg->max_rows;
    l.end = l.slots + n_own * cfg->n_rank;
    return l;
}

int64_t whim_cut_bytes_of(const whim_cut_cfg *cfg)
{
    return is_any(cfg) ? whim_aligned(layout_of(cfg).end * (int64_t)sizeof(int32_t)) : 0;
}

int64_t whim_cut_owners_bytes(const whim_cut_cfg *cfg)
{
    return is_any(cfg) ? 2 * cfg->max_rows * (int64_t)sizeof(int32_t) : 0;
}

whim_err whim_cut_check(const whim_cut_cfg *cfg, whim_diag *diag)
{
    if (is_any(cfg) && cfg->max_rows < 2 * cfg->n_rank) {
        return whim_fail(
            diag, WHIM_ERR_INVALID,
            "--cp %d shares steps of %d tokens or more, and none has more than %lld: a "
            "larger --max-step-tokens or a smaller --cp will do",
            cfg->n_rank, 2 * cfg->n_rank, (long long)cfg->max_rows);
    }
    return WHIM_ERR_OK;
}

whim_err whim_cut_init(whim_cut *c, const whim_cut_cfg *cfg, whim_device *device, whim_diag *diag)
{
    void *arrays;
    *c = (whim_cut){.cfg = *cfg, .device = device, .bytes = whim_cut_bytes_of(cfg)};
    if (!is_any(cfg)) {
        return WHIM_ERR_OK;
    }
    c->owners = whim_alloc(whim_cut_owners_bytes(cfg));
    WHIM_TRY(whim_got(c->owners != NULL, diag, "no memory for the rows of ranks"));
    WHIM_TRY(whim_device_alloc(device, c->bytes, &arrays, diag));
    c->arrays = arrays;
    for (int32_t i = 0; i < cfg->n_set; i++) {
        WHIM_TRY(whim_device_host_alloc(device, c->bytes, &arrays, diag));
        c->sets[i] = arrays;
    }
    return WHIM_ERR_OK;
}

void whim_cut_deinit(whim_cut *c)
{
    whim_device_free(c->device, c->arrays, c->bytes);
    for (int32_t i = 0; i < WHIM_CUT_SETS; i++) {
        whim_device_host_free(c->device, c->sets[i], c->bytes);
    }
    whim_free(c->owners);
}

static whim_zigzag zigzag_of(const whim_cut *c, const whim_cut_step *step)
{
    return (whim_zigzag){.n_rank = c->cfg.n_rank,
                         .n_seq = step->bucket_seq,
                         .q_start = step->q_start,
                         .kv_len = step->kv_len};
}

int64_t whim_cut_rows(const whim_cut *c, const whim_cut_step *step)
{
    whim_zigzag z = zigzag_of(c, step);
    if (!is_any(&c->cfg) || step->n_row < 2 * c->cfg.n_rank) {
        return 0;
    }
    int64_t most = whim_zigzag_most(&z);
    return MOST_IN * most <= MOST_OF * step->n_row ? most : 0;
}

/* Slots of all ranks' rows, side by side, and which of the step's rows are this rank's. */
static void rows_fill(const whim_cut *c, const whim_cut_step *step, int64_t n_own, int32_t *to)
{
    layout at = layout_of(&c->cfg);
    int32_t n_rank = c->cfg.n_rank, *ranks = c->owners, *rows = ranks + c->cfg.max_rows;
    for (int64_t i = 0; i < n_own; i++) {
        to[at.own + i] = -1;
        to[at.positions + i] = 0;
    }
    for (int64_t i = 0; i < n_own * n_rank; i++) {
        to[at.slots + i] = -1;
    }
    for (int64_t t = 0; t < step->bucket_row; t++) {
        int32_t place = t < step->n_row ? rows[t] * n_rank + ranks[t] : -1;
        to[at.places + t] = place;
        if (place >= 0) {
            to[at.slots + place] = step->slots[t];
        }
        if (place >= 0 && ranks[t] == c->cfg.rank) {
            to[at.own + rows[t]] = (int32_t)t;
            to[at.positions + rows[t]] = step->positions[t];
        }
    }
}

int64_t whim_cut_fill(const whim_cut *c, const whim_cut_step *step, int64_t n_own, int32_t *to)
{
    layout at = layout_of(&c->cfg);
    whim_zigzag z = zigzag_of(c, step);
    whim_zigzag_owners(&z, c->owners, c->owners + c->cfg.max_rows);
    rows_fill(c, step, n_own, to);
    whim_zigzag_chunks(&z, c->cfg.rank, to + at.q_start, to + at.kv_len);
    for (int64_t i = 0; i < 2 * step->bucket_seq; i++) {
        to[at.page_start + i] = step->page_start[i % step->bucket_seq];
    }
    return at.slots + n_own * c->cfg.n_rank;
}

whim_err whim_cut_send(const whim_cut *c, whim_stream *s, const whim_cut_step *step, int64_t n_own,
                       int32_t set)
{
    int64_t n_word = whim_cut_fill(c, step, n_own, c->sets[set]);
    return whim_stream_copy_in(s, c->arrays, c->sets[set], n_word * (int64_t)sizeof(int32_t));
}

void whim_cut_view(const whim_cut_cfg *cfg, const int32_t *arrays, int64_t n_own, int64_t n_seq,
                   whim_batch_cut *out)
{
    layout at = layout_of(cfg);
    *out = (whim_batch_cut){
        .n_rank = cfg->n_rank,
        .rank = cfg->rank,
        .n_row = n_own,
        .n_seq = 2 * n_seq,
        .own = arrays + at.own,
        .positions = arrays + at.positions,
        .q_start = arrays + at.q_start,
        .kv_len = arrays + at.kv_len,
        .page_start = arrays + at.page_start,
        .slots = arrays + at.slots,
        .places = arrays + at.places,
    };
}

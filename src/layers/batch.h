/* SPDX-License-Identifier: Apache-2.0 */
/* All that one forward pass sees. Counts are constants of the call (or of a graph's bucket); what
 * changes between replays of a graph lives in the device arrays, at fixed addresses.
 *
 * Rows are tokens of several sequences, one sequence after the other; prefill and decode mix
 * freely. A bucket may be larger than the work: padding rows have token -1, position 0 and slot -1
 * and belong to no sequence; padding sequences have no rows, no keys and state slots -1; padding
 * outputs have row -1. No row ever influences another sequence's rows. */
#ifndef WHIM_LAYERS_BATCH_H
#define WHIM_LAYERS_BATCH_H

#include "base/alloc.h"
#include "base/check.h"
#include "ops/args/attn_args.h"
#include "ops/args/gdn_args.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WHIM_LATE_ROWS = 32 };

/* The rows of a pass, dealt to ranks that have the whole model each (parallel/cut.h). A rank makes
 * what layers make of its own rows alone, so no sum is split; keys and values, and whatever else is
 * wanted of all rows, are gathered. Of gathered rows, row i of rank r is number i * n_rank + r. */
typedef struct whim_batch_cut {
    int32_t n_rank, rank;
    int64_t n_row;             /* of each rank, padding included */
    int64_t n_seq;             /* chunks: two of each sequence */
    const int32_t *own;        /* [n_row]: which rows of the batch they are; -1: padding */
    const int32_t *positions;  /* [n_row] */
    const int32_t *q_start;    /* [n_seq + 1] */
    const int32_t *kv_len;     /* [n_seq] */
    const int32_t *page_start; /* [n_seq] */
    const int32_t *slots;      /* [n_row * n_rank] of gathered rows */
    const int32_t *places;     /* [n_row of the batch]: their numbers as gathered; -1: padding */
} whim_batch_cut;

typedef struct whim_batch {
    int64_t n_row, n_seq, n_out;
    int64_t max_pages;         /* entries that the page lists have room for */
    const int32_t *tokens;     /* [n_row] */
    const float *embeds;       /* [n_row, d_model] instead of tokens, or NULL */
    const int32_t *positions;  /* [n_row] */
    const int32_t *slots;      /* [n_row]: where the row's key and value go */
    const int32_t *before;     /* [n_row]: of the position before, -1: none; NULL: nobody asks */
    const int32_t *q_start;    /* [n_seq + 1] */
    const int32_t *kv_len;     /* [n_seq], rows of this pass included */
    const int32_t *pages;      /* lists of page ids, as ops/args/attn_args.h */
    const int32_t *page_start; /* [n_seq] */
    const int32_t *out_rows;   /* [n_out]: rows whose logits are wanted */
    whim_kv_view kv; /* whole pages: layers put in their heads and the place of their part */
    const int64_t *kv_offsets;  /* [n_layer] that place in a page; on the host */
    const int32_t *state_slots; /* [n_seq]: recurrent states, as ops/args/gdn_args.h */
    const int32_t *state_outs;  /* [n_seq]: where they go after the rows */
    whim_state_view state;      /* whole slots; layers find their part */
    void *kept;       /* where recurrent layers keep what they made of the rows, or NULL: nowhere */
    int64_t max_kept; /* rows that it has room for */
    bool drafts;      /* rows are a draft's: the last token of a sequence, and masks */
    bool pads;        /* some rows may be padding, as graphs have it */
    const whim_batch_cut *cut; /* NULL: every rank has all rows */
    /* Rows of the rank with the most, where ranks have rows of their own and meet in the layers;
     * 0: they do not, or there are none. */
    int64_t n_meet;
    /* What a draft needs of rows that it takes later (whim_model_def.late_cols). */
    float *late;     /* [WHIM_LATE_ROWS, late_cols] */
    int32_t late_at; /* where those of this pass go; -1: they are taken by it, apart */
    int32_t n_late;  /* rows that are taken from there, those of this pass included */
    const int32_t *late_positions, *late_slots; /* [n_late] */
} whim_batch;

/* Device memory for one forward pass: handed out front to back, taken back whole. A dry run over a
 * bump without memory (whim_bump_measure) tells how much a pass needs. */
typedef struct whim_bump {
    char *base;
    int64_t size, used, peak;
} whim_bump;

static inline whim_bump whim_bump_measure(void)
{
    return (whim_bump){.base = (char *)64, .size = INT64_MAX / 2};
}

/* Never NULL: running out means that the plan and the pass disagree, which is a bug. */
static inline void *whim_bump_take(whim_bump *bump, int64_t bytes)
{
    int64_t rounded = whim_aligned(bytes);
    whim_check(bytes >= 0 && bump->size - bump->used >= rounded);
    char *piece = bump->base + bump->used;
    bump->used += rounded;
    bump->peak = bump->used > bump->peak ? bump->used : bump->peak;
    return piece;
}

/* [n_row, n_col] */
static inline float *whim_bump_rows(whim_bump *bump, int64_t n_row, int64_t n_col)
{
    return whim_bump_take(bump, n_row * n_col * (int64_t)sizeof(float));
}

enum { WHIM_MAX_CAPTURE = 16 };

/* The residual stream at a boundary, on request. Boundary b is the input of layer b; boundary
 * n_layer is the output of the last layer, before the final norm. */
typedef struct whim_capture {
    int32_t boundary;
    float *rows;    /* [n_row, d_model] */
    int64_t stride; /* from row to row */
} whim_capture;

/* What a forward pass gives back. */
typedef struct whim_out {
    whim_bump *scratch; /* memory of the pass */
    float *logits;      /* [n_out, n_vocab]; of no meaning when n_top > 0 */
    /* Instead of logits only the n_top best of each row; 0: logits. */
    int64_t n_top;
    float *top_values; /* [n_out, n_top] */
    int32_t *top_ids;  /* [n_out, n_top] */
    int32_t n_capture;
    whim_capture captures[WHIM_MAX_CAPTURE];
} whim_out;

#endif

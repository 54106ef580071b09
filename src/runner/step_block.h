/* SPDX-License-Identifier: Apache-2.0 */
/* A step as a message: one flat block of int32 words that holds all that a pass needs beside the
 * model and what its pages and states hold. It can be copied to a device, sent to another process,
 * kept in a file and run again.
 *
 * A block is a head and its arrays. They are laid out for the bucket (the padded size), so that the
 * arrays of a bucket are at the same place in every block, where a graph expects them. Page lists
 * and fresh pages come last and have the length of their contents: a long context that is not used
 * costs nothing. Padding is as layers/batch.h says; a sequence without keys has page_start 0.
 * On the device fresh pages follow the arrays, and page lists are in a table at the end of the room
 * (page_table.h).
 * Threads: stateless. */
#ifndef WHIM_RUNNER_STEP_BLOCK_H
#define WHIM_RUNNER_STEP_BLOCK_H

#include "base/err.h"
#include "layers/batch.h"

#include <stdint.h>

/* Sizes of a step: the limits, a bucket, or the work itself. */
typedef struct whim_step_size {
    int64_t n_row, n_seq, n_out;
    int64_t n_top; /* what an output is: 0: logits, else the n_top best */
} whim_step_size;

enum { WHIM_STEP_MAGIC = 0x70657473, WHIM_STEP_VERSION = 1 };

/* Flags of a step. */
enum {
    WHIM_STEP_EMBEDS = 2, /* rows are given as embeddings; tokens say only which rows are padding */
    WHIM_STEP_AFTER = 4,  /* some tokens are results of the step before (whim_step_result_token) */
    WHIM_STEP_KEEP = 8,   /* recurrent layers keep what whim_step_take needs of the rows */
    WHIM_STEP_DRAFT = 16, /* the draft's pass: the last token of each sequence, and masks */
    WHIM_STEP_FLAGS = WHIM_STEP_EMBEDS | WHIM_STEP_AFTER | WHIM_STEP_KEEP | WHIM_STEP_DRAFT,
};

typedef struct whim_step_head {
    int32_t magic, version;
    int32_t n_word; /* of the block, this head included */
    int32_t flags;
    int32_t n_row, n_seq, n_out;                /* the work */
    int32_t bucket_row, bucket_seq, bucket_out; /* what it is padded to */
    int32_t n_top;
    int32_t n_page;  /* entries of all page lists */
    int32_t n_fresh; /* pages that are zeroed before the pass */
    int32_t reserved[3];
} whim_step_head;

enum { WHIM_STEP_HEAD = sizeof(whim_step_head) / sizeof(int32_t) };

/* Where the arrays of a bucket begin, in words from the head's first. */
typedef struct whim_step_layout {
    int64_t tokens, positions, slots, q_start, kv_len, states, state_outs, page_start, out_rows,
        pages;
} whim_step_layout;

/* What a block is held to. */
typedef struct whim_step_limits {
    int64_t max_rows, max_seqs, max_outs, max_ctx;
    int64_t n_page, n_state, n_vocab;
    int32_t page_len;
    int64_t max_kept; /* rows of a step with WHIM_STEP_KEEP */
} whim_step_limits;

/* Rows of the last step with WHIM_STEP_KEEP that are taken, after they were on trial: the state in
 * `slot`, which is of `position` tokens, advances by n_row rows from `row` on. An array of these is
 * a message like a block. */
typedef struct whim_step_take {
    int32_t slot, position, row, n_row;
} whim_step_take;

enum { WHIM_TAKE_WORDS = sizeof(whim_step_take) / sizeof(int32_t) };

whim_step_layout whim_step_layout_of(const whim_step_size *bucket);

/* Words that a block has at most, here and on the device. */
int64_t whim_step_max_words(const whim_step_limits *limits);

static inline const whim_step_head *whim_step_head_of(const int32_t *block)
{
    return (const whim_step_head *)(const void *)block;
}

whim_step_size whim_step_work(const int32_t *block);
whim_step_size whim_step_bucket(const int32_t *block);

/* The page lists, [n_page], where the arrays end. */
const int32_t *whim_step_lists(const int32_t *block);

/* The ids of the pages to zero: [n_fresh]. */
const int32_t *whim_step_fresh(const int32_t *block);

/* A token that is not known yet: what was chosen from output i of the step before, or the best of
 * it where nothing was. */
static inline int32_t whim_step_result_token(int64_t i)
{
    return (int32_t)(-2 - i);
}

/* Which output a token stands for; -1: it is a token, or padding. */
static inline int64_t whim_step_result_of(int32_t token)
{
    return token < -1 ? -2 - (int64_t)token : -1;
}

/* The batch that a forward pass sees, for a block at `base` (device), where there is room for
 * those of the limits. */
void whim_step_view(const int32_t *base, const whim_step_limits *limits,
                    const whim_step_size *bucket, whim_batch *batch);

/* Refuse a block that is not whole or leads outside the limits: after this nothing in it can make
 * an op touch what is not its own. `n_word`: how many words there are to read. `n_result`: outputs
 * of the step before that tokens may stand for. The work itself may still be nonsense. */
WHIM_MUST_CHECK whim_err whim_step_check(const int32_t *block, int64_t n_word,
                                         const whim_step_limits *limits, int64_t n_result,
                                         whim_diag *diag);

/* The same of rows that are taken: at most one piece for each sequence, in the order of rows, of
 * the first n_kept. */
WHIM_MUST_CHECK whim_err whim_step_takes_check(const whim_step_take *takes, int64_t n,
                                               const whim_step_limits *limits, int64_t n_kept,
                                               whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of a step's block, and what is refused of one. */
#include "runner/step_block.h"

#include "kv/sequence.h"
#include "ops/args/row_args.h"

whim_step_layout whim_step_layout_of(const whim_step_size *bucket)
{
    whim_step_layout l;
    int64_t at = WHIM_STEP_HEAD;
    l.tokens = at, at += bucket->n_row;
    l.positions = at, at += bucket->n_row;
    l.slots = at, at += bucket->n_row;
    l.q_start = at, at += bucket->n_seq + 1;
    l.kv_len = at, at += bucket->n_seq;
    l.states = at, at += bucket->n_seq;
    l.state_outs = at, at += bucket->n_seq;
    l.page_start = at, at += bucket->n_seq;
    l.out_rows = at, at += bucket->n_out;
    l.pages = at;
    return l;
}

/* Pages that a step can take from the pool. */
static int64_t max_fresh(const whim_step_limits *limits)
{
    return limits->max_rows / limits->page_len + limits->max_seqs;
}

static int64_t max_list(const whim_step_limits *limits)
{
    return limits->max_seqs * whim_kv_pages(limits->max_ctx, limits->page_len);
}

int64_t whim_step_max_words(const whim_step_limits *limits)
{
    whim_step_size all = {limits->max_rows, limits->max_seqs, limits->max_outs, 0};
    return whim_step_layout_of(&all).pages + max_list(limits) + max_fresh(limits);
}

whim_step_size whim_step_work(const int32_t *block)
{
    const whim_step_head *h = whim_step_head_of(block);
    return (whim_step_size){h->n_row, h->n_seq, h->n_out, h->n_top};
}

whim_step_size whim_step_bucket(const int32_t *block)
{
    const whim_step_head *h = whim_step_head_of(block);
    return (whim_step_size){h->bucket_row, h->bucket_seq, h->bucket_out, h->n_top};
}

const int32_t *whim_step_lists(const int32_t *block)
{
    whim_step_size bucket = whim_step_bucket(block);
    return block + whim_step_layout_of(&bucket).pages;
}

const int32_t *whim_step_fresh(const int32_t *block)
{
    const whim_step_head *h = whim_step_head_of(block);
    return block + h->n_word - h->n_fresh;
}

void whim_step_view(const int32_t *base, const whim_step_limits *limits,
                    const whim_step_size *bucket, whim_batch *batch)
{
    whim_step_layout l = whim_step_layout_of(bucket);
    batch->n_row = bucket->n_row;
    batch->n_seq = bucket->n_seq;
    batch->n_out = bucket->n_out;
    batch->max_pages = max_list(limits);
    batch->tokens = base + l.tokens;
    batch->positions = base + l.positions;
    batch->slots = base + l.slots;
    batch->q_start = base + l.q_start;
    batch->kv_len = base + l.kv_len;
    batch->state_slots = base + l.states;
    batch->state_outs = base + l.state_outs;
    batch->page_start = base + l.page_start;
    batch->pages = base + whim_step_max_words(limits) - batch->max_pages;
    batch->out_rows = base + l.out_rows;
}

/* --- blocks from outside ---------------------------------------------------------------------- */

typedef struct checked {
    const int32_t *block;
    const whim_step_head *head;
    const whim_step_limits *limits;
    whim_step_layout at;
    int64_t n_result;
    whim_diag *diag;
} checked;

static bool within(int64_t value, int64_t low, int64_t high)
{
    return value >= low && value <= high;
}

static whim_err refuse(const checked *c, const char *what, int64_t i, int64_t value, int64_t low,
                       int64_t high)
{
    return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                     "a block of a step has %s %lld at %lld; expected %lld to %lld", what,
                     (long long)value, (long long)i, (long long)low, (long long)high);
}

/* All of `n` words at `at` lie in low .. high. */
static whim_err words_check(const checked *c, const char *what, int64_t at, int64_t n, int64_t low,
                            int64_t high)
{
    for (int64_t i = 0; i < n; i++) {
        if (!within(c->block[at + i], low, high)) {
            return refuse(c, what, i, c->block[at + i], low, high);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err count_check(const checked *c, const char *what, int64_t work, int64_t bucket,
                            int64_t limit)
{
    if (!within(bucket, 0, limit)) {
        return refuse(c, what, 0, bucket, 0, limit);
    }
    return within(work, 0, bucket) ? WHIM_ERR_OK : refuse(c, what, 0, work, 0, bucket);
}

static whim_err head_check(checked *c, int64_t n_word)
{
    const whim_step_head *h = c->head;
    const whim_step_limits *l = c->limits;
    if (n_word < WHIM_STEP_HEAD || h->magic != WHIM_STEP_MAGIC || h->version != WHIM_STEP_VERSION) {
        return whim_fail(c->diag, WHIM_ERR_CORRUPT,
                         "%lld words are not a block of a step of version %d", (long long)n_word,
                         WHIM_STEP_VERSION);
    }
    WHIM_TRY(count_check(c, "rows", h->n_row, h->bucket_row, l->max_rows));
    WHIM_TRY(count_check(c, "sequences", h->n_seq, h->bucket_seq, l->max_seqs));
    WHIM_TRY(count_check(c, "outputs", h->n_out, h->bucket_out, l->max_outs));
    if (!within(h->n_top, 0, WHIM_TOPK_MAX)) {
        return refuse(c, "best outputs", 0, h->n_top, 0, WHIM_TOPK_MAX);
    }
    if (!within(h->n_page, 0, max_list(l))) {
        return refuse(c, "pages", 0, h->n_page, 0, max_list(l));
    }
    if (!within(h->n_fresh, 0, max_fresh(l))) {
        return refuse(c, "fresh pages", 0, h->n_fresh, 0, max_fresh(l));
    }
    if ((h->flags & ~WHIM_STEP_FLAGS) != 0) {
        return refuse(c, "flags", 0, h->flags, 0, WHIM_STEP_FLAGS);
    }
    if ((h->flags & WHIM_STEP_KEEP) != 0 && h->bucket_row > l->max_kept) {
        return refuse(c, "rows to keep", 0, h->bucket_row, 0, l->max_kept);
    }
    whim_step_size bucket = whim_step_bucket(c->block);
    c->at = whim_step_layout_of(&bucket);
    int64_t words = c->at.pages + h->n_page + h->n_fresh;
    if (h->n_word != words || n_word < words) {
        return refuse(c, "a length of", 0, h->n_word, words, words);
    }
    return WHIM_ERR_OK;
}

/* Sequence s: its rows follow those of the one before, its keys have pages, its last rows are those
 * of this step. */
static whim_err sequence_check(const checked *c, int64_t s)
{
    const int32_t *b = c->block;
    int64_t first = b[c->at.q_start + s], end = b[c->at.q_start + s + 1];
    int64_t len = b[c->at.kv_len + s], start = b[c->at.page_start + s];
    if (!within(end, first, c->head->n_row)) {
        return refuse(c, "the end of rows", s, end, first, c->head->n_row);
    }
    if (!within(len, end - first, c->limits->max_ctx)) {
        return refuse(c, "a length", s, len, end - first, c->limits->max_ctx);
    }
    int64_t room = c->head->n_page - whim_kv_pages(len, c->limits->page_len);
    if (!within(start, 0, len > 0 ? room : 0)) {
        return refuse(c, "a page list", s, start, 0, len > 0 ? room : 0);
    }
    int64_t before = len - (end - first);
    for (int64_t r = first; r < end; r++) {
        int64_t position = before + r - first;
        if (b[c->at.positions + r] != position) {
            return refuse(c, "a position", r, b[c->at.positions + r], position, position);
        }
    }
    return WHIM_ERR_OK;
}

static whim_err tokens_check(const checked *c)
{
    int64_t low = (c->head->flags & WHIM_STEP_AFTER) != 0 ? -1 - c->n_result : -1;
    WHIM_TRY(
        words_check(c, "a token", c->at.tokens, c->head->bucket_row, low, c->limits->n_vocab - 1));
    return words_check(c, "padding", c->at.tokens + c->head->n_row,
                       c->head->bucket_row - c->head->n_row, -1, -1);
}

whim_err whim_step_check(const int32_t *block, int64_t n_word, const whim_step_limits *limits,
                         int64_t n_result, whim_diag *diag)
{
    checked c = {.block = block,
                 .head = whim_step_head_of(block),
                 .limits = limits,
                 .n_result = n_result,
                 .diag = diag};
    WHIM_TRY(head_check(&c, n_word));
    const whim_step_head *h = c.head;
    WHIM_TRY(tokens_check(&c));
    WHIM_TRY(words_check(&c, "a position", c.at.positions, h->bucket_row, 0, limits->max_ctx - 1));
    WHIM_TRY(words_check(&c, "a slot", c.at.slots, h->bucket_row, -1,
                         limits->n_page * limits->page_len - 1));
    WHIM_TRY(words_check(&c, "the first row", c.at.q_start, 1, 0, 0));
    for (int64_t s = 0; s < h->bucket_seq; s++) {
        WHIM_TRY(sequence_check(&c, s));
    }
    WHIM_TRY(words_check(&c, "a state", c.at.states, 2 * h->bucket_seq, -1, limits->n_state - 1));
    WHIM_TRY(words_check(&c, "an output's row", c.at.out_rows, h->bucket_out, -1, h->n_row - 1));
    return words_check(&c, "a page", c.at.pages, h->n_page + h->n_fresh, 0, limits->n_page - 1);
}

whim_err whim_step_takes_check(const whim_step_take *takes, int64_t n,
                               const whim_step_limits *limits, int64_t n_kept, whim_diag *diag)
{
    int64_t end = 0;
    for (int64_t i = 0; i < n; i++) {
        const whim_step_take *t = &takes[i];
        if (n > limits->max_seqs || !within(t->slot, 0, limits->n_state - 1) ||
            !within(t->row, end, n_kept - 1) || !within(t->n_row, 1, n_kept - t->row) ||
            !within(t->position, 0, limits->max_ctx - t->n_row)) {
            return whim_fail(diag, WHIM_ERR_CORRUPT,
                             "piece %lld of %lld takes rows %d + %d of %lld that were kept, for "
                             "state %d of %lld at position %d",
                             (long long)i, (long long)n, t->row, t->n_row, (long long)n_kept,
                             t->slot, (long long)limits->n_state, t->position);
        }
        for (int64_t k = 0; k < i; k++) { /* both would start from the same state */
            if (takes[k].slot == t->slot) {
                return whim_fail(diag, WHIM_ERR_CORRUPT,
                                 "pieces %lld and %lld of %lld both take rows for state %d",
                                 (long long)k, (long long)i, (long long)n, t->slot);
            }
        }
        end = (int64_t)t->row + t->n_row;
    }
    return WHIM_ERR_OK;
}

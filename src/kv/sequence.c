/* SPDX-License-Identifier: Apache-2.0 */
/* Page lists of sequences. */
#include "kv/sequence.h"

#include "base/alloc.h"
#include "base/check.h"

#include <stddef.h>

whim_err whim_sequence_init(whim_sequence *seq, int64_t max_ctx, int32_t page_len)
{
    *seq = (whim_sequence){
        .max_page = whim_kv_pages(max_ctx, page_len), .page_len = page_len, .state = -1};
    seq->pages = whim_alloc_array(seq->max_page, sizeof *seq->pages);
    return seq->pages != NULL ? WHIM_ERR_OK : WHIM_ERR_NO_MEMORY;
}

whim_err whim_sequence_take_state(whim_sequence *seq, whim_page_pool *states)
{
    if (states->n_page == 0) {
        return WHIM_ERR_OK;
    }
    seq->state = whim_page_pool_take(states);
    return seq->state >= 0 ? WHIM_ERR_OK : WHIM_ERR_FULL;
}

void whim_sequence_give_state(whim_sequence *seq, whim_page_pool *states)
{
    if (seq->state >= 0) {
        whim_page_pool_give(states, seq->state);
        seq->state = -1;
    }
}

void whim_sequence_deinit(whim_sequence *seq, whim_page_pool *pool)
{
    /* One of zeros, never begun, has no length of pages to divide by. */
    while (seq->n_page > 0) {
        whim_page_pool_give(pool, seq->pages[--seq->n_page]);
    }
    whim_free(seq->pages);
    *seq = (whim_sequence){0};
}

int64_t whim_sequence_pages_needed(const whim_sequence *seq, int64_t n_tok)
{
    return whim_kv_pages(seq->len + n_tok, seq->page_len) - seq->n_page;
}

void whim_sequence_share(whim_sequence *seq, const int32_t *pages, int64_t n)
{
    whim_check(seq->n_page == 0 && n >= 0 && n <= seq->max_page);
    for (int64_t i = 0; i < n; i++) {
        seq->pages[i] = pages[i];
    }
    seq->n_page = n;
    seq->len = n * seq->page_len;
}

whim_err whim_sequence_grow(whim_sequence *seq, whim_page_pool *pool, int64_t n_tok)
{
    int64_t needed = whim_sequence_pages_needed(seq, n_tok);
    if (n_tok < 0 || seq->n_page + needed > seq->max_page) {
        return WHIM_ERR_INVALID;
    }
    if (needed > pool->n_free) {
        return WHIM_ERR_FULL;
    }
    if (n_tok > 0 && seq->len % seq->page_len != 0) {
        whim_check(pool->refs[seq->pages[seq->n_page - 1]] == 1);
    }
    for (int64_t i = 0; i < needed; i++) {
        seq->pages[seq->n_page++] = whim_page_pool_take(pool);
    }
    seq->len += n_tok;
    return WHIM_ERR_OK;
}

void whim_sequence_cut(whim_sequence *seq, whim_page_pool *pool, int64_t len)
{
    whim_check(len >= 0 && len <= seq->len);
    while (seq->n_page > whim_kv_pages(len, seq->page_len)) {
        whim_page_pool_give(pool, seq->pages[--seq->n_page]);
    }
    seq->len = len;
}

int32_t whim_sequence_slot(const whim_sequence *seq, int64_t position)
{
    whim_assert(position >= 0 && position < seq->len);
    int32_t len = seq->page_len;
    return seq->pages[position / len] * len + (int32_t)(position % len);
}

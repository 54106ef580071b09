/* SPDX-License-Identifier: Apache-2.0 */
/* What was sent, and what differs from it. */
#include "runner/page_table.h"

#include "base/alloc.h"
#include "kv/sequence.h"

#include <string.h>

int64_t whim_page_table_bytes(const whim_step_limits *limits)
{
    return limits->max_seqs * whim_kv_pages(limits->max_ctx, limits->page_len) *
           (int64_t)sizeof(int32_t);
}

whim_err whim_page_table_init(whim_page_table *t, const whim_step_limits *limits, int32_t *block,
                              whim_diag *diag)
{
    whim_batch batch;
    whim_step_view(block, limits, &(whim_step_size){0}, &batch);
    t->rows = (int32_t *)batch.pages;
    t->max_seqs = limits->max_seqs;
    t->row_pages = whim_kv_pages(limits->max_ctx, limits->page_len);
    t->page_len = limits->page_len;
    t->sent = whim_alloc(whim_page_table_bytes(limits));
    WHIM_TRY(whim_got(t->sent != NULL, diag, "no memory for the page lists of a step"));
    whim_page_table_forget(t);
    return WHIM_ERR_OK;
}

void whim_page_table_deinit(whim_page_table *t)
{
    whim_free(t->sent);
}

void whim_page_table_forget(whim_page_table *t)
{
    memset(t->sent, -1, (size_t)(t->max_seqs * t->row_pages) * sizeof *t->sent);
}

/* From the first page that differs to the last: a list grows at its end, or is another one. */
static whim_err row_send(whim_page_table *t, whim_stream *s, int64_t row, const int32_t *list,
                         int64_t n)
{
    int32_t *sent = t->sent + row;
    int64_t begin = 0;
    while (begin < n && sent[begin] == list[begin]) {
        begin++;
    }
    while (n > begin && sent[n - 1] == list[n - 1]) {
        n--;
    }
    int64_t bytes = (n - begin) * (int64_t)sizeof *list;
    if (bytes == 0) {
        return WHIM_ERR_OK;
    }
    memcpy(sent + begin, list + begin, (size_t)bytes);
    return whim_stream_copy_in(s, t->rows + row + begin, list + begin, bytes);
}

whim_err whim_page_table_send(whim_page_table *t, whim_stream *s, const int32_t *block,
                              int32_t *copy)
{
    whim_step_size bucket = whim_step_bucket(block);
    whim_step_layout at = whim_step_layout_of(&bucket);
    for (int64_t i = 0; i < bucket.n_seq; i++) {
        copy[at.page_start + i] = (int32_t)(i * t->row_pages);
    }
    for (int64_t i = 0; i < bucket.n_seq; i++) {
        const int32_t *list = copy + at.pages + block[at.page_start + i];
        int64_t n = whim_kv_pages(block[at.kv_len + i], t->page_len);
        WHIM_TRY(row_send(t, s, i * t->row_pages, list, n));
    }
    return WHIM_ERR_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Layout and contents of the batch arrays. */
#include "runner/batch_arrays.h"

void whim_batch_layout_init(whim_batch_layout *layout, const whim_runner_cfg *cfg)
{
    int64_t at = 0;
    layout->max_pages = (cfg->max_ctx + WHIM_KV_PAGE - 1) / WHIM_KV_PAGE;
    layout->max_fresh = cfg->max_rows / WHIM_KV_PAGE + cfg->max_seqs;
    layout->tokens = at, at += cfg->max_rows;
    layout->positions = at, at += cfg->max_rows;
    layout->slots = at, at += cfg->max_rows;
    layout->q_start = at, at += cfg->max_seqs + 1;
    layout->kv_len = at, at += cfg->max_seqs;
    layout->out_rows = at, at += cfg->max_outs;
    layout->fresh = at, at += layout->max_fresh;
    layout->states = at, at += cfg->max_seqs;
    layout->page_table = at, at += cfg->max_seqs * layout->max_pages;
    layout->n_elem = at;
}

void whim_batch_narrow(whim_batch_layout *layout, const whim_step_part *parts, int64_t n_part)
{
    layout->max_pages = 0;
    for (int64_t s = 0; s < n_part; s++) {
        int64_t n = parts[s].seq->n_page;
        layout->max_pages = n > layout->max_pages ? n : layout->max_pages;
    }
}

/* Rows of one part, starting at row `row`; returns the next row. */
static int64_t fill_rows(const whim_batch_layout *layout, int32_t *host, const whim_step_part *part,
                         int64_t row)
{
    int64_t first = part->seq->len - part->n_tok;
    for (int64_t i = 0; i < part->n_tok; i++, row++) {
        host[layout->tokens + row] = part->tokens[i];
        host[layout->positions + row] = (int32_t)(first + i);
        host[layout->slots + row] = whim_sequence_slot(part->seq, first + i);
    }
    return row;
}

/* Pages that hold positions of this step only are new; they are zeroed before use. */
static int64_t fill_fresh(const whim_batch_layout *layout, int32_t *host,
                          const whim_step_part *part, int64_t n_fresh)
{
    int64_t before = part->seq->len - part->n_tok;
    int64_t held = (before + WHIM_KV_PAGE - 1) / WHIM_KV_PAGE;
    for (int64_t i = held; i < part->seq->n_page; i++) {
        host[layout->fresh + n_fresh++] = part->seq->pages[i];
    }
    return n_fresh;
}

static void fill_padding(const whim_batch_layout *layout, int32_t *host, const whim_step_size *used,
                         const whim_step_size *bucket)
{
    for (int64_t r = used->n_row; r < bucket->n_row; r++) {
        host[layout->tokens + r] = -1;
        host[layout->positions + r] = 0;
        host[layout->slots + r] = -1;
    }
    for (int64_t s = used->n_seq; s < bucket->n_seq; s++) {
        host[layout->q_start + s + 1] = (int32_t)used->n_row;
        host[layout->kv_len + s] = 0;
        host[layout->states + s] = -1;
    }
    for (int64_t i = used->n_out; i < bucket->n_out; i++) {
        host[layout->out_rows + i] = -1;
    }
}

int64_t whim_batch_fill(const whim_batch_layout *layout, int32_t *host, const whim_step_part *parts,
                        int64_t n_part, const whim_step_size *bucket)
{
    whim_step_size used = {.n_seq = n_part};
    int64_t n_fresh = 0;
    host[layout->q_start] = 0;
    for (int64_t s = 0; s < n_part; s++) {
        const whim_step_part *part = &parts[s];
        used.n_row = fill_rows(layout, host, part, used.n_row);
        n_fresh = fill_fresh(layout, host, part, n_fresh);
        host[layout->q_start + s + 1] = (int32_t)used.n_row;
        host[layout->kv_len + s] = (int32_t)part->seq->len;
        host[layout->states + s] = part->seq->state;
        for (int64_t i = part->n_out; i > 0; i--) {
            host[layout->out_rows + used.n_out++] = (int32_t)(used.n_row - i);
        }
        for (int64_t i = 0; i < part->seq->n_page; i++) {
            host[layout->page_table + s * layout->max_pages + i] = part->seq->pages[i];
        }
    }
    fill_padding(layout, host, &used, bucket);
    return n_fresh;
}

void whim_batch_view(const whim_batch_layout *layout, const int32_t *base,
                     const whim_step_size *bucket, whim_batch *batch)
{
    batch->n_row = bucket->n_row;
    batch->n_seq = bucket->n_seq;
    batch->n_out = bucket->n_out;
    batch->max_pages = layout->max_pages;
    batch->tokens = base + layout->tokens;
    batch->positions = base + layout->positions;
    batch->slots = base + layout->slots;
    batch->q_start = base + layout->q_start;
    batch->kv_len = base + layout->kv_len;
    batch->state_slots = base + layout->states;
    batch->page_table = base + layout->page_table;
    batch->out_rows = base + layout->out_rows;
}

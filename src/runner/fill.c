/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of a step's block. */
#include "runner/fill.h"

/* A block under way. */
typedef struct filling {
    int32_t *block;
    whim_step_head *head;
    whim_step_layout at;
} filling;

static void fill_rows(filling *f, const whim_step_part *part)
{
    int64_t first = part->seq->len - part->n_tok;
    for (int64_t i = 0; i < part->n_tok; i++) {
        int64_t row = f->head->n_row++;
        f->block[f->at.tokens + row] = part->tokens[i];
        f->block[f->at.positions + row] = (int32_t)(first + i);
        f->block[f->at.slots + row] = whim_sequence_slot(part->seq, first + i);
        if (whim_step_result_of(part->tokens[i]) >= 0) {
            f->head->flags |= WHIM_STEP_AFTER;
        }
    }
}

static void fill_sequence(filling *f, const whim_step_part *part)
{
    whim_step_head *h = f->head;
    int32_t s = h->n_seq++;
    fill_rows(f, part);
    f->block[f->at.q_start + s + 1] = h->n_row;
    f->block[f->at.kv_len + s] = (int32_t)part->seq->len;
    f->block[f->at.states + s] = part->seq->state;
    f->block[f->at.state_outs + s] = part->keeps_state ? -1 : part->seq->state;
    f->block[f->at.page_start + s] = h->n_page;
    for (int64_t i = 0; i < part->seq->n_page; i++) {
        f->block[f->at.pages + h->n_page++] = part->seq->pages[i];
    }
    for (int64_t i = part->n_out; i > 0; i--) {
        f->block[f->at.out_rows + h->n_out++] = (int32_t)(h->n_row - i);
    }
}

/* Pages that hold positions of this step only are new; they are zeroed before use. */
static void fill_fresh(filling *f, const whim_step_part *part)
{
    int32_t *fresh = f->block + f->at.pages + f->head->n_page;
    for (int64_t i = whim_kv_pages(part->seq->len - part->n_tok, part->seq->page_len);
         i < part->seq->n_page; i++) {
        fresh[f->head->n_fresh++] = part->seq->pages[i];
    }
}

static void fill_padding(const filling *f)
{
    const whim_step_head *h = f->head;
    for (int64_t r = h->n_row; r < h->bucket_row; r++) {
        f->block[f->at.tokens + r] = -1;
        f->block[f->at.positions + r] = 0;
        f->block[f->at.slots + r] = -1;
    }
    for (int64_t s = h->n_seq; s < h->bucket_seq; s++) {
        f->block[f->at.q_start + s + 1] = h->n_row;
        f->block[f->at.kv_len + s] = 0;
        f->block[f->at.states + s] = f->block[f->at.state_outs + s] = -1;
        f->block[f->at.page_start + s] = 0;
    }
    for (int64_t i = h->n_out; i < h->bucket_out; i++) {
        f->block[f->at.out_rows + i] = -1;
    }
}

void whim_step_fill(const whim_step_part *parts, int64_t n_part, const whim_step_size *bucket,
                    int32_t flags, int32_t *block)
{
    filling f = {
        .block = block,
        .head = (whim_step_head *)(void *)block,
        .at = whim_step_layout_of(bucket),
    };
    *f.head = (whim_step_head){
        .magic = WHIM_STEP_MAGIC,
        .version = WHIM_STEP_VERSION,
        .flags = flags,
        .bucket_row = (int32_t)bucket->n_row,
        .bucket_seq = (int32_t)bucket->n_seq,
        .bucket_out = (int32_t)bucket->n_out,
        .n_top = (int32_t)bucket->n_top,
    };
    block[f.at.q_start] = 0;
    for (int64_t i = 0; i < n_part; i++) {
        fill_sequence(&f, &parts[i]);
    }
    for (int64_t i = 0; i < n_part; i++) {
        fill_fresh(&f, &parts[i]);
    }
    fill_padding(&f);
    f.head->n_word = (int32_t)(f.at.pages + f.head->n_page + f.head->n_fresh);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows wait, and when they are taken. */
#include "runner/late.h"

#include "base/alloc.h"

#include <string.h>

whim_late_bytes whim_late_bytes_of(const whim_model_def *def)
{
    int64_t rows = WHIM_LATE_ROWS * def->late_cols * (int64_t)sizeof(float);
    int64_t arrays = 2 * WHIM_LATE_ROWS * (int64_t)sizeof(int32_t);
    return (whim_late_bytes){.rows = rows, .arrays = rows > 0 ? whim_aligned(arrays) : 0};
}

whim_err whim_late_init(whim_late *l, const whim_late_bytes *bytes, const whim_exec_cfg *cfg,
                        whim_device *device, whim_diag *diag)
{
    *l = (whim_late){.device = device, .bytes = *bytes};
    if (bytes->rows == 0) {
        return WHIM_ERR_OK;
    }
    void *rows, *arrays, *host;
    WHIM_TRY(whim_device_alloc(device, bytes->rows, &rows, diag));
    l->rows = rows;
    WHIM_TRY(whim_device_alloc(device, bytes->arrays, &arrays, diag));
    l->arrays = arrays;
    for (int32_t i = 0; i < whim_exec_flights(cfg); i++) {
        WHIM_TRY(whim_device_host_alloc(device, bytes->arrays, &host, diag));
        l->host[i] = host;
    }
    return WHIM_ERR_OK;
}

void whim_late_deinit(whim_late *l)
{
    whim_device_free(l->device, l->rows, l->bytes.rows);
    whim_device_free(l->device, l->arrays, l->bytes.arrays);
    for (int32_t i = 0; i < WHIM_EXEC_FLIGHT; i++) {
        whim_device_host_free(l->device, l->host[i], l->bytes.arrays);
    }
}

void whim_late_drop_page(whim_late *l, int32_t page, int32_t page_len)
{
    for (int32_t i = 0; i < l->n; i++) {
        if (l->slots[i] >= 0 && l->slots[i] / page_len == page) {
            l->slots[i] = -1;
        }
    }
}

void whim_late_forget(whim_late *l)
{
    l->n = 0;
}

/* What waits for a place that a step gives to others, or computes again. */
static void drop(whim_late *l, const int32_t *block, const int32_t *slots, int32_t page_len)
{
    const whim_step_head *head = whim_step_head_of(block);
    for (int32_t i = 0; i < head->n_fresh; i++) {
        whim_late_drop_page(l, whim_step_fresh(block)[i], page_len);
    }
    for (int32_t r = 0; r < head->n_row; r++) {
        for (int32_t i = 0; i < l->n; i++) {
            l->slots[i] = l->slots[i] == slots[r] ? -1 : l->slots[i];
        }
    }
}

/* Whether a step's rows may wait: one for each sequence (else the draft is asked next, or it is a
 * prompt), and none the last of its page. */
static bool may_wait(const whim_step_head *head, const int32_t *slots, int32_t page_len)
{
    bool may = head->n_row == head->n_seq;
    for (int32_t r = 0; may && r < head->n_row; r++) {
        may = (slots[r] + 1) % page_len != 0;
    }
    return may;
}

/* How many wait for others: where few answers are under way the draft is asked often, and a pass
 * of it that finds many rows waiting would be slow. */
static int32_t enough(const whim_step_head *head)
{
    return head->bucket_row <= WHIM_LATE_FEW ? WHIM_LATE_FEW : WHIM_LATE_ROWS;
}

/* Where the next rows go: at a multiple of their number, so that graphs are few. */
static int32_t place_of(const whim_late *l, int32_t n)
{
    return (l->n + n - 1) / n * n;
}

/* All that wait; a power of two, so that graphs are few. */
static whim_err take(whim_late *l, whim_stream *stream, int32_t *host, int32_t *n_taken)
{
    int32_t n = WHIM_LATE_FEW;
    while (n < l->n) {
        n *= 2;
    }
    for (int32_t i = 0; i < n; i++) {
        host[i] = i < l->n ? l->positions[i] : 0;
        host[WHIM_LATE_ROWS + i] = i < l->n ? l->slots[i] : -1;
    }
    l->n = 0;
    *n_taken = n;
    return whim_stream_copy_in(stream, l->arrays, host, 2 * WHIM_LATE_ROWS * (int64_t)sizeof *host);
}

whim_err whim_late_begin(whim_late *l, whim_stream *stream, const int32_t *block, int32_t page_len,
                         int32_t set, whim_late_step *step)
{
    *step = (whim_late_step){.at = -1};
    if (l->bytes.rows == 0) {
        return WHIM_ERR_OK;
    }
    const whim_step_head *head = whim_step_head_of(block);
    whim_step_size bucket = whim_step_bucket(block);
    whim_step_layout at = whim_step_layout_of(&bucket);
    const int32_t *slots = block + at.slots;
    drop(l, block, slots, page_len);
    if (head->n_row == 0) { /* a rank with nothing to do: what waits here waits on */
        return WHIM_ERR_OK;
    }
    bool drafts = (head->flags & WHIM_STEP_DRAFT) != 0;
    int32_t place = place_of(l, head->bucket_row);
    if (!drafts && place + head->bucket_row <= WHIM_LATE_ROWS) {
        for (; l->n < place; l->n++) {
            l->slots[l->n] = -1;
        }
        step->at = place;
        memcpy(l->positions + place, block + at.positions, bucket.n_row * sizeof *block);
        memcpy(l->slots + place, slots, bucket.n_row * sizeof *block);
        l->n = place + head->bucket_row;
    }
    bool goes_on = step->at >= 0 && l->n + head->bucket_row <= enough(head);
    if (l->n == 0 || (goes_on && may_wait(head, slots, page_len))) {
        return WHIM_ERR_OK;
    }
    return take(l, stream, l->host[set], &step->n_taken);
}

void whim_late_view(const whim_late *l, const whim_late_step *step, whim_batch *batch)
{
    batch->late = l->rows;
    batch->late_at = step->at;
    batch->n_late = step->n_taken;
    batch->late_positions = l->arrays;
    batch->late_slots = l->arrays != NULL ? l->arrays + WHIM_LATE_ROWS : NULL;
}

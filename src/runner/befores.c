/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of the positions before. */
#include "runner/befores.h"

#include "base/alloc.h"

int64_t whim_befores_bytes_of(const whim_exec_cfg *cfg)
{
    return cfg->befores ? whim_aligned(cfg->max_rows * (int64_t)sizeof(int32_t)) : 0;
}

whim_err whim_befores_init(whim_befores *b, const whim_exec_cfg *cfg, whim_device *device,
                           whim_diag *diag)
{
    void *rows;
    *b = (whim_befores){.device = device, .bytes = whim_befores_bytes_of(cfg)};
    if (b->bytes == 0) {
        return WHIM_ERR_OK;
    }
    WHIM_TRY(whim_device_alloc(device, b->bytes, &rows, diag));
    b->rows = rows;
    for (int32_t i = 0; i < whim_exec_flights(cfg); i++) {
        WHIM_TRY(whim_device_host_alloc(device, b->bytes, &rows, diag));
        b->sets[i] = rows;
    }
    return WHIM_ERR_OK;
}

void whim_befores_deinit(whim_befores *b)
{
    whim_device_free(b->device, b->rows, b->bytes);
    for (int32_t i = 0; i < WHIM_EXEC_FLIGHT; i++) {
        whim_device_host_free(b->device, b->sets[i], b->bytes);
    }
}

void whim_befores_fill(const int32_t *block, int32_t page_len, int32_t *out)
{
    const whim_step_head *head = whim_step_head_of(block);
    whim_step_size bucket = whim_step_bucket(block);
    whim_step_layout at = whim_step_layout_of(&bucket);
    for (int64_t r = 0; r < bucket.n_row; r++) {
        out[r] = -1;
    }
    for (int64_t s = 0; s < head->n_seq; s++) {
        int64_t first = block[at.q_start + s], end = block[at.q_start + s + 1];
        const int32_t *pages = block + at.pages + block[at.page_start + s];
        for (int64_t r = first; r < end; r++) {
            int32_t last = block[at.positions + r] - 1;
            out[r] = r > first   ? block[at.slots + r - 1]
                     : last >= 0 ? pages[last / page_len] * page_len + last % page_len
                                 : -1;
        }
    }
}

whim_err whim_befores_send(const whim_befores *b, whim_stream *s, const int32_t *block,
                           int32_t page_len, int32_t set)
{
    if (b->bytes == 0) {
        return WHIM_ERR_OK;
    }
    whim_befores_fill(block, page_len, b->sets[set]);
    return whim_stream_copy_in(s, b->rows, b->sets[set],
                               whim_step_bucket(block).n_row * (int64_t)sizeof(int32_t));
}

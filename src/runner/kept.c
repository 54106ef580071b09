/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of rows on trial, and what is taken of them as a batch. */
#include "runner/kept.h"

#include "base/alloc.h"

/* Words of the arrays: q_start, slots, positions. Between two pieces lie rows that are not taken:
 * these are a sequence without a state. */
static int64_t n_seq_of(int64_t n)
{
    return 2 * n;
}

whim_kept_bytes whim_kept_bytes_of(const whim_layer_table *layers, const whim_exec_cfg *cfg)
{
    int64_t rows = whim_layer_table_kept_bytes(layers, cfg->max_kept);
    int64_t words = 2 * n_seq_of(cfg->max_seqs) + 1 + cfg->max_kept;
    int64_t arrays = rows > 0 ? whim_aligned(words * (int64_t)sizeof(int32_t)) : 0;
    return (whim_kept_bytes){.rows = rows, .arrays = arrays};
}

whim_err whim_kept_init(whim_kept *k, const whim_kept_bytes *bytes, const whim_exec_cfg *cfg,
                        whim_device *device, whim_diag *diag)
{
    *k = (whim_kept){.device = device, .bytes = *bytes, .max_rows = cfg->max_kept};
    if (bytes->rows == 0) {
        return WHIM_ERR_OK;
    }
    void *arrays, *host;
    WHIM_TRY(whim_device_alloc(device, bytes->rows, &k->rows, diag));
    WHIM_TRY(whim_device_alloc(device, bytes->arrays, &arrays, diag));
    k->arrays = arrays;
    WHIM_TRY(whim_device_host_alloc(device, bytes->arrays, &host, diag));
    k->host = host;
    return WHIM_ERR_OK;
}

void whim_kept_deinit(whim_kept *k)
{
    whim_device_free(k->device, k->rows, k->bytes.rows);
    whim_device_free(k->device, k->arrays, k->bytes.arrays);
    whim_device_host_free(k->device, k->host, k->bytes.arrays);
}

whim_err whim_kept_take(whim_kept *k, whim_stream *stream, const whim_step_take *takes, int64_t n,
                        whim_batch *batch)
{
    int64_t n_seq = n_seq_of(n), n_row = n > 0 ? takes[n - 1].row + takes[n - 1].n_row : 0;
    int64_t slots = n_seq + 1, positions = slots + n_seq;
    k->host[0] = 0;
    for (int64_t i = 0; i < n_row; i++) {
        k->host[positions + i] = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        const whim_step_take *t = &takes[i];
        k->host[2 * i + 1] = t->row;
        k->host[2 * i + 2] = t->row + t->n_row;
        k->host[slots + 2 * i] = -1;
        k->host[slots + 2 * i + 1] = t->slot;
        for (int32_t r = 0; r < t->n_row; r++) {
            k->host[positions + t->row + r] = t->position + r;
        }
    }
    batch->n_seq = n_seq;
    batch->n_row = n_row;
    batch->q_start = k->arrays;
    batch->state_slots = batch->state_outs = k->arrays + slots;
    batch->positions = k->arrays + positions;
    batch->kept = k->rows;
    batch->max_kept = k->max_rows;
    return whim_stream_copy_in(stream, k->arrays, k->host,
                               (positions + n_row) * (int64_t)sizeof(int32_t));
}

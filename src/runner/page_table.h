/* SPDX-License-Identifier: Apache-2.0 */
/* The page lists of a step on the device: a row for each of its sequences, always at the same
 * place. A block has them whole; of these only what differs from the step before travels, which
 * for a sequence that grows by a token is nothing, or one page.
 * Threads: one owner, the exec's. */
#ifndef WHIM_RUNNER_PAGE_TABLE_H
#define WHIM_RUNNER_PAGE_TABLE_H

#include "device/device.h"
#include "runner/step_block.h"

typedef struct whim_page_table {
    int32_t *rows; /* device: [max_seqs, row_pages] */
    int32_t *sent; /* host: what is there when the stream has come so far; -1: not known */
    int64_t max_seqs, row_pages;
    int32_t page_len;
} whim_page_table;

/* Of the host's memory. */
int64_t whim_page_table_bytes(const whim_step_limits *limits);

/* `block`: where blocks of these limits lie on the device. Deinit is right after a failure too. */
WHIM_MUST_CHECK whim_err whim_page_table_init(whim_page_table *table,
                                              const whim_step_limits *limits, int32_t *block,
                                              whim_diag *diag);
void whim_page_table_deinit(whim_page_table *table);

/* Queue what changed in the lists of `block`, out of `copy`, which then belongs to the stream.
 * Where lists begin (page_start) becomes in `copy` where they lie on the device. */
WHIM_MUST_CHECK whim_err whim_page_table_send(whim_page_table *table, whim_stream *s,
                                              const int32_t *block, int32_t *copy);

/* A step failed: who knows what has come through. */
void whim_page_table_forget(whim_page_table *table);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Rows on their way to experts of other ranks, where each rank has rows of its own. Of the rows of
 * all ranks, number i * n_rank + r is row i of rank r. There are two ways, chosen by the most rows
 * that a rank has, which all know:
 *   low latency  up to n_slot: a row and its choices are one line of one message. Its size follows
 *                from the count alone.
 *   normal       more: choices to all ranks, then each row to those that have an expert of its
 *                choices, from which all ranks know what comes from where
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_RANKS_DEALT_ROWS_H
#define WHIM_LAYERS_RANKS_DEALT_ROWS_H

#include "layers/ranks/dealt_experts.h"

/* deal->forms; false: no memory. */
bool whim_deal_forms_make(whim_deal *deal, const whim_config *config, whim_arena *arena);

/* y = the rows of all ranks, of which each has n_row. */
WHIM_MUST_CHECK whim_err whim_deal_gather(const whim_deal *deal, whim_stream *s, const void *x,
                                          const int64_t *cols, int64_t n_row, void *y,
                                          const char *site);

/* space->chosen = the choices of own rows, filled up to n_row: padding goes to no expert, and its
 * place among the rows of all ranks is never read. */
WHIM_MUST_CHECK whim_err whim_deal_leave_padding(whim_stream *s, const whim_moe_experts_args *own,
                                                 const whim_deal_apart *apart, int64_t n_row,
                                                 const whim_deal_space *space);

/* The rows and choices of all ranks into `all`, which is `own` but for them. A row that chose no
 * expert of this rank may be missing. The choices of this rank's rows, padding left out, are then
 * in space->chosen. */
WHIM_MUST_CHECK whim_err whim_deal_dispatch(const whim_deal *deal, whim_stream *s,
                                            const whim_moe_experts_args *own,
                                            const whim_deal_apart *apart,
                                            const whim_deal_space *space,
                                            whim_moe_experts_args *all);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Experts of which each rank has some, whole. A rank makes the results of its own experts for all
 * rows; they go, as they are, to where their row is summed up, in the order of its choice: so no
 * sum is split, and bits are those of one rank.
 * Of a pass whose rows all ranks have (attention is everywhere), few rows are summed by every rank:
 * one message. More are dealt, row r to rank r % n_rank, and the sums gathered: two messages with
 * fewer bytes. Where ranks have rows of their own (a pass that is cut, or one of several groups,
 * layers/batch.h) all are gathered first, and each rank sums its own. They travel as what the
 * products with the experts' weights would make of them anyway, so that nothing is rounded twice.
 * Where the rest of the model is cut, all ranks have all rows: each sums what its experts make of
 * them, of some columns where several have an expert together, and the sums of all are added up as
 * those of an MLP that is cut.
 * Threads: as the stream. */
#ifndef WHIM_LAYERS_RANKS_DEALT_EXPERTS_H
#define WHIM_LAYERS_RANKS_DEALT_EXPERTS_H

#include "device/device.h"
#include "layers/batch.h"
#include "ops/args/moe_args.h"
#include "weights/bind.h"
#include "weights/config.h"

/* The most rows that every rank sums for itself: beyond, bytes cost more than a second message. */
enum { WHIM_DEAL_FEW_ROWS = 4 };

/* n_slot, where nobody says otherwise. */
enum { WHIM_DEAL_SLOTS = 64 };

/* As what a message takes rows of a storage type: words of 4 bytes. */
typedef struct whim_deal_form {
    int64_t words;            /* of a row; 0: they are no whole number */
    const int64_t *cols_with; /* [n_rank] words of a row with its choices behind it */
    int64_t stride;           /* from such a row to the next, in elements */
} whim_deal_form;

typedef struct whim_deal {
    int32_t n_rank, rank;
    bool cut;                          /* each rank has a part of the sums, and no result is sent */
    const int32_t *firsts;             /* [n_rank + 1]: rank r has experts firsts[r] .. */
    const int64_t *row_cols, *id_cols; /* [n_rank]: for gathering rows, and their choices */
    int64_t
        n_slot; /* rows of a rank, at most, that go to experts in one message with their choices */
    whim_deal_form forms[WHIM_ACT_COUNT];
    whim_act rows; /* as which they travel, if rows_fixed */
    bool rows_fixed;
} whim_deal;

/* Ranks whose rows are others. */
typedef struct whim_deal_apart {
    int64_t n_each;       /* as which each has them, padded; 0: all have the same rows, or none */
    const int32_t *marks; /* [n_row] of this rank's: below 0 it is padding, and has no experts;
                             NULL, where all have the same: none is, or it does not matter */
} whim_deal_apart;

/* Buffers of a pass, reused by every layer. */
typedef struct whim_deal_space {
    int32_t *own_ids; /* [n_all, top_k] as numbers of this rank's experts */
    float *results;   /* [n_all, top_k, d_model] */
    int32_t *chosen;  /* [n_row or n_each, top_k] of this rank, without those of padding */
    float *sums;      /* [n_own, d_model] of the rows that are this rank's to sum */
    /* where ranks have rows of their own */
    void *padded;        /* rows of this rank as they travel with their choices: n_slot, at most */
    void *rows;          /* [n_all] of all ranks */
    int32_t *all_chosen; /* [n_all, top_k] */
} whim_deal_space;

/* As the binder says; NULL: all experts are here. */
const whim_deal *whim_deal_make(const whim_config *config, whim_binder *binder);

/* The experts that are this rank's. */
whim_part whim_deal_own(const whim_deal *deal);

/* As which rows travel to other ranks: as was told, or what `dev` makes of them for products with
 * `experts`, where it takes rows so; F32 else. NULL: a device that makes nothing of them. */
whim_act whim_deal_payload(const whim_deal *deal, whim_device *dev,
                           const whim_moe_experts_args *experts);

/* Rows that the result of n_row rows has room for: as many for each rank. */
int64_t whim_deal_rows(const whim_deal *deal, int64_t n_row);

whim_deal_space whim_deal_space_take(whim_bump *bump, const whim_deal *deal,
                                     const whim_config *config, int64_t n_row, int64_t n_each);

/* y = the sums of `experts`, whose stacks are this rank's and whose rows, choices and y are dense;
 * y has whim_deal_rows. */
WHIM_MUST_CHECK whim_err whim_dealt_experts(const whim_deal *deal, whim_stream *s,
                                            const whim_moe_experts_args *experts,
                                            const whim_deal_apart *apart,
                                            const whim_deal_space *space);

#endif

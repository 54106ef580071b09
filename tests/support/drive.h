/* SPDX-License-Identifier: Apache-2.0 */
/* Driving a runner: several token sequences go through it in chunks of given sizes, some at a time,
 * and the logits of their last rows are collected. What the golden and the invariance tests share.
 * Threads: as the runner. */
#ifndef WHIM_TESTS_SUPPORT_DRIVE_H
#define WHIM_TESTS_SUPPORT_DRIVE_H

#include "engine/engine.h"

#include <stdint.h>

/* One sequence, all of whose tokens are known. */
typedef struct drive_job {
    const int32_t *tokens;
    int64_t n_tok;
    int64_t n_prompt; /* how many of them a plan with `prompt_whole` feeds at once */
    int64_t n_out;    /* rows wanted: the last n_out of n_tok */
    float *logits;    /* [n_out, n_vocab], filled by the drive */
} drive_job;

/* How to cut: round after round, every sequence that is under way adds the next `chunks` entry of
 * tokens; the list is repeated. */
typedef struct drive_plan {
    int32_t n_at_once; /* sequences under way */
    bool prompt_whole; /* the first chunk of a sequence is its prompt */
    const int64_t *chunks;
    int32_t n_chunk;
} drive_plan;

enum { DRIVE_MAX_AT_ONCE = 8 };

/* Run all jobs, in order; a sequence that ends makes room for the next job. The results do not
 * depend on the plan, or the engine is wrong. */
WHIM_MUST_CHECK whim_err drive_run(whim_runner *runner, int64_t n_vocab, drive_job *jobs,
                                   int32_t n_job, const drive_plan *plan, whim_diag *diag);

/* Prepare and load; NULL with a message in diag. */
whim_engine *drive_open(const whim_engine_cfg *cfg, whim_diag *diag);

/* The i-th word of a list such as caps.levels into `word`; false when there are fewer. */
bool drive_word(const char *list, int32_t i, char *word, size_t size);

/* The levels of a backend, by spaces; "" when it has only one, without a name to choose it by. */
bool drive_levels(const char *backend, char *levels, size_t size, whim_diag *diag);

/* Whether the i-th level is neither the lowest nor the one that this machine is served with. One of
 * six is run in the usual way only: checkop holds each of its kernels to the law. */
bool drive_is_between(const char *levels, int32_t i);

/* Whether a level rounds activations for BF16 weights: its results are then close to those of other
 * levels, not the same. `isa` NULL: the backend's best. */
bool drive_rounds(const char *backend, const char *isa);

/* Whether it adds attention over BF16 pages up as a matrix unit does. */
bool drive_attn_matrix(const char *backend, const char *isa);

/* The highest level of a backend that rounds none, in `level`; NULL where levels have no names. */
const char *drive_exact_level(const char *backend, char *level, size_t size);

/* The default model where `whimbrel` keeps it, or `given` if not NULL; NULL when there is no such
 * file. */
const char *drive_default_model(const char *given, char *path, size_t size);

#endif

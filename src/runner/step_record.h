/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in a file, from the first of a process on: what was submitted to an exec, and what came of
 * it. Pages and states begin as zeros, and every token that was chosen stands in the next block, so
 * the file and the model are all that is needed to run the steps again, on any backend.
 *
 * A file is a head and records of 32-bit words, in the order of the calls. It is outside data to
 * whoever reads it.
 * Threads: one owner each. */
#ifndef WHIM_RUNNER_STEP_RECORD_H
#define WHIM_RUNNER_STEP_RECORD_H

#include "runner/exec.h"

#define WHIM_RECORD_MAGIC "whimstep"
enum { WHIM_RECORD_VERSION = 2 };

typedef enum whim_record_kind {
    WHIM_RECORD_STEP = 1, /* a block was submitted */
    WHIM_RECORD_RESULT,   /* the oldest step was collected: whim_record_result */
    WHIM_RECORD_STATE,    /* a state was copied: from, to */
    WHIM_RECORD_ADVANCE,  /* states advanced by rows on trial: whim_step_take each */
    WHIM_RECORD_KINDS,
} whim_record_kind;

/* What the steps were made with. All fields have one meaning on every machine that reads them. */
typedef struct whim_record_head {
    char magic[8]; /* WHIM_RECORD_MAGIC */
    int32_t version, page_tokens;
    char model[64], arch[64];  /* for people; the architecture is compared */
    char backend[16], isa[32]; /* for people */
    int32_t kv_type, n_layer;  /* whim_kv_type */
    int32_t d_model, n_vocab;  /* compared, as is n_layer */
    int64_t max_rows, max_seqs, max_outs, max_ctx, n_page, n_state, max_kept;
} whim_record_head;

/* The bits of a step's results, and the best token of each output. */
typedef struct whim_record_result {
    int32_t n_out, n_top;
    uint32_t bits[2]; /* of all results, low word first */
} whim_record_result;
enum { WHIM_RESULT_WORDS = sizeof(whim_record_result) / sizeof(int32_t) };

/* Of what an exec has collected last. */
whim_record_result whim_record_result_of(const whim_exec *exec);
int32_t whim_record_best(const whim_exec *exec, int64_t i);

whim_record_head whim_record_head_of(const whim_config *config, const whim_exec_cfg *cfg);

typedef struct whim_recording whim_recording;

/* Write all steps of an exec to a new file, from now on. `head` has been filled. */
WHIM_MUST_CHECK whim_err whim_recording_start(const char *path, const whim_record_head *head,
                                              whim_exec *exec, whim_recording **out,
                                              whim_diag *diag);

/* Close the file; the exec may be gone by then. The first failure of any write is reported here. */
WHIM_MUST_CHECK whim_err whim_recording_end(whim_recording *recording, whim_diag *diag);

#endif

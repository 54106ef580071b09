/* SPDX-License-Identifier: Apache-2.0 */
/* An exec among others that have the other parts of its model. Rank 0 leads: it tells the others of
 * all that it is asked to do before it does it, by letters (comm/mail.h); they do the same
 * (whim_exec_follow), and meet it in the collectives of the passes.
 * Threads: the exec's. */
#ifndef WHIM_RUNNER_RANKS_H
#define WHIM_RUNNER_RANKS_H

#include "comm/mail.h"
#include "runner/exec.h"

typedef enum whim_letter_kind {
    WHIM_LETTER_END,        /* nothing more comes */
    WHIM_LETTER_SUBMIT,     /* a block; tokens are chosen of its outputs, or not */
    WHIM_LETTER_STATE_COPY, /* slot from, slot to */
    WHIM_LETTER_ADVANCE,    /* an array of whim_step_take */
    /* of pages on disk (runner/page_store.h) */
    WHIM_LETTER_STORE_OPEN, /* whim_store_order */
    WHIM_LETTER_STORE_PUT,  /* whim_store_page, as the next one */
    WHIM_LETTER_STORE_GET,
    WHIM_LETTER_STORE_FLUSH, /* whether something waits to be written */
    WHIM_LETTER_STORE_CLOSE,
} whim_letter_kind;

typedef struct whim_letter_head {
    int32_t kind, n_word;
    int32_t chose; /* of a block */
    int32_t group; /* whose states are meant */
} whim_letter_head;

typedef struct whim_ranks {
    whim_mail mail;
    bool leads, follows; /* neither: the exec is alone */
    bool chose;          /* who follows: rank 0 chooses from the outputs of the next block */
} whim_ranks;

/* UNSUPPORTED when a block may be longer than a letter. */
WHIM_MUST_CHECK whim_err whim_ranks_check(const whim_exec_cfg *cfg, int64_t block_bytes,
                                          whim_diag *diag);

void whim_ranks_init(whim_ranks *ranks, const whim_exec_cfg *cfg);

/* Tell those who follow, if there are any; of one group only that does it. */
WHIM_MUST_CHECK whim_err whim_ranks_tell(whim_ranks *ranks, whim_letter_kind kind, bool chose,
                                         const void *words, int64_t n_word, whim_diag *diag);
WHIM_MUST_CHECK whim_err whim_ranks_tell_group(whim_ranks *ranks, whim_letter_kind kind,
                                               int32_t group, const void *words, int64_t n_word,
                                               whim_diag *diag);

/* What was begun cannot be ended here: the group is over. */
void whim_ranks_failed(const whim_ranks *ranks, const char *why);

/* Those of an exec. */
whim_ranks *whim_exec_ranks(whim_exec *exec);

#endif

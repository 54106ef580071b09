/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of runner/step_record.h, as the outside data that they are.
 * Threads: one owner each. */
#ifndef SUPPORT_STEP_READER_H
#define SUPPORT_STEP_READER_H

#include "runner/step_record.h"

/* What the exec of a recording was opened with. */
whim_step_limits whim_record_limits(const whim_record_head *head);

/* Bytes of a file, all of which are there; aligned to 8. */
typedef struct whim_record_reader {
    const char *name; /* for messages */
    const char *bytes;
    int64_t n_byte, at;
    whim_record_head head;
} whim_record_reader;

typedef struct whim_record {
    whim_record_kind kind;
    const int32_t *words;
    int64_t n_word;
} whim_record;

/* CORRUPT, with the name, when the bytes are no such file. */
WHIM_MUST_CHECK whim_err whim_record_open(whim_record_reader *reader, const char *name,
                                          const void *bytes, int64_t n_byte, whim_diag *diag);

/* The next record; *more is false at the end. Its length fits its kind, and a block has passed
 * whim_step_check as far as the file can tell. */
WHIM_MUST_CHECK whim_err whim_record_next(whim_record_reader *reader, whim_record *record,
                                          bool *more, whim_diag *diag);

#endif

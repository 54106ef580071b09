/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the safetensors files of a model: what goes where is settled first, so that the disk
 * space is taken before any work is done, and bytes may then come in any order from any thread.
 * Files are no larger than asked for, unless one tensor is. Inside a file tensors stand by the size
 * of their elements, the largest first, as the format's own library has them, because others map
 * the data and need it aligned.
 * Invariant: the folder has no index, and so no whole model of several files, before
 * whim_safetensors_finish.
 * Threads: write from any thread; the rest from one. */
#ifndef WHIM_WEIGHTS_SAFETENSORS_WRITE_H
#define WHIM_WEIGHTS_SAFETENSORS_WRITE_H

#include "base/arena.h"
#include "base/err.h"
#include "weights/ckpt.h"

#include <stdint.h>

/* One tensor of the model. */
typedef struct whim_safetensors_entry {
    const char *name;
    whim_ckpt_raw as; /* type, shape, bytes */
    int32_t file;     /* filled by begin, as the next */
    int64_t offset;   /* from the start of the file */
} whim_safetensors_entry;

/* {0} is closed. */
typedef struct whim_safetensors_writer {
    whim_arena arena;
    const char *dir;
    whim_safetensors_entry *entries; /* borrowed */
    int64_t n_entry;
    const char **names; /* of the files */
    int *fds;
    int32_t n_file;
    int64_t bytes; /* of all tensors */
} whim_safetensors_writer;

/* Create the files in a folder, each with its header and at its full size. On failure nothing is
 * open; what was created is the caller's to remove with the folder. */
WHIM_MUST_CHECK whim_err whim_safetensors_begin(whim_safetensors_writer *writer, const char *dir,
                                                whim_safetensors_entry *entries, int64_t n_entry,
                                                int64_t max_bytes, whim_diag *diag);

/* `n` bytes at `offset` of a tensor. */
WHIM_MUST_CHECK whim_err whim_safetensors_put(const whim_safetensors_writer *writer, int64_t entry,
                                              int64_t offset, const void *bytes, int64_t n,
                                              whim_diag *diag);

/* Everything is on the disk, and the index, if there is more than one file. */
WHIM_MUST_CHECK whim_err whim_safetensors_finish(whim_safetensors_writer *writer, whim_diag *diag);

/* Close the files and free everything. Legal on a zeroed struct. */
void whim_safetensors_close(whim_safetensors_writer *writer);

#endif

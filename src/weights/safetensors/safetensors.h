/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors container: a u64 length, that many bytes of JSON, then the data. Holes between
 * tensors are accepted, overlaps are not.
 * Threads: one. */
#ifndef WHIM_WEIGHTS_SAFETENSORS_SAFETENSORS_H
#define WHIM_WEIGHTS_SAFETENSORS_SAFETENSORS_H

#include "weights/ckpt.h"

/* Add the tensors of an opened file to the checkpoint; whim_ckpt_finish is the caller's. */
WHIM_MUST_CHECK whim_err whim_safetensors_read(whim_ckpt *ckpt, int32_t file, whim_diag *diag);

/* Open the files of a directory, whose sorted entries are `names`, read them all and finish the
 * checkpoint: model.safetensors, else what model.safetensors.index.json lists, else the only
 * *.safetensors there. */
WHIM_MUST_CHECK whim_err whim_safetensors_open(whim_ckpt *ckpt, const char *dir, char *const *names,
                                               int64_t n_name, whim_diag *diag);

#endif

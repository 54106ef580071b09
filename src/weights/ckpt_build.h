/* SPDX-License-Identifier: Apache-2.0 */
/* How the readers fill a checkpoint: files, then tensors, then whim_ckpt_finish, which checks what
 * must hold between tensors and builds the index of names. On failure the caller closes the
 * checkpoint as a whole.
 * Threads: one. */
#ifndef WHIM_WEIGHTS_CKPT_BUILD_H
#define WHIM_WEIGHTS_CKPT_BUILD_H

#include "weights/ckpt.h"

/* More tensors than this in one checkpoint are refused. */
enum { WHIM_CKPT_MAX_TENSOR = 1 << 20, WHIM_CKPT_MAX_FILE = 4096, WHIM_CKPT_NAME_MAX = 512 };

/* Open a file as files[n_file]; the path is copied. */
WHIM_MUST_CHECK whim_err whim_ckpt_add_file(whim_ckpt *ckpt, const char *path, whim_diag *diag);

/* Append a tensor whose `file_name` is in the checkpoint's arena and holds no control character
 * (that is checked). `name` NULL: the canonical name is made from file_name. */
WHIM_MUST_CHECK whim_err whim_ckpt_add_tensor(whim_ckpt *ckpt, const whim_ckpt_tensor *tensor,
                                              whim_diag *diag);

/* Overlaps, duplicate names, index. */
WHIM_MUST_CHECK whim_err whim_ckpt_finish(whim_ckpt *ckpt, whim_diag *diag);

/* Turn a tensor into an unsupported one (invariant 4 of ckpt.h), for the reason given. */
void whim_ckpt_mark_unsupported(whim_ckpt_tensor *tensor, const char *reason);

/* From the tensors of a quantised safetensors checkpoint to weights as models bind them: "X.weight"
 * in one of our types, with a recipe (quantised/recipe.h), instead of X.weight and
 * X.weight_scale_inv, X.qweight, X.scales and so on. After all tensors are known. Checks shapes and
 * scales; what does not fit is refused with its name. */
WHIM_MUST_CHECK whim_err whim_assemble(whim_ckpt *ckpt, whim_diag *diag);

/* GGUF files with llama3 rope scaling carry its result as a tensor: numbers that the frequencies
 * are divided by. They are configuration, not weights: set config.rope.divisors where the tensor
 * exists; wrong type, shape or values are refused. */
#define WHIM_ROPE_DIVISORS_NAME "rope_freqs.weight"
WHIM_MUST_CHECK whim_err whim_rope_divisors_read(whim_ckpt *ckpt, whim_diag *diag);

/* `name` without "model.language_model.", "language_model.model." or "model.". */
const char *whim_ckpt_strip_prefix(const char *name);

/* The canonical name of a safetensors tensor: without its prefix, and with the words of most
 * models. Points into `file_name`, or to `out`. */
const char *whim_ckpt_canonical_name(const whim_ckpt *ckpt, const char *file_name,
                                     char out[WHIM_CKPT_NAME_MAX]);

/* A canonical name as this checkpoint's files would spell it, but for the prefix; for messages. */
const char *whim_ckpt_published_name(const whim_ckpt *ckpt, const char *name,
                                     char out[WHIM_CKPT_NAME_MAX]);

#endif

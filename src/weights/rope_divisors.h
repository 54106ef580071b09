/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files with llama3 rope scaling carry its result as a tensor, rope_freqs.weight: numbers that
 * the frequencies are divided by. They are configuration, not weights, and are read with it. */
#ifndef WHIM_WEIGHTS_ROPE_DIVISORS_H
#define WHIM_WEIGHTS_ROPE_DIVISORS_H

#include "weights/ckpt.h"

#define WHIM_ROPE_DIVISORS_NAME "rope_freqs.weight"

/* Set config.rope.divisors when the tensor exists; wrong type, shape or values are refused. */
WHIM_MUST_CHECK whim_err whim_rope_divisors_read(whim_ckpt *ckpt, whim_diag *diag);

#endif

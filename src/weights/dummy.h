/* SPDX-License-Identifier: Apache-2.0 */
/* Random weights for timing without files: the same name, row and type always give the same bytes,
 * so any thread may make any row. Values are sized so that activations neither vanish nor explode.
 * Threads: stateless. */
#ifndef WHIM_WEIGHTS_DUMMY_H
#define WHIM_WEIGHTS_DUMMY_H

#include "tensor/dtype.h"

#include <stdint.h>

/* Rows row0 .. row0 + n_row - 1 of a matrix with k columns, as a file would hold them. */
void whim_dummy_rows(const char *name, whim_dtype dtype, int64_t k, int64_t row0, int64_t n_row,
                     void *dst);

/* A norm weight or bias: values around 1. */
void whim_dummy_vector(const char *name, int64_t n, float *dst);

#endif

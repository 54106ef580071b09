/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine itself can do, measured: how fast memory is read and how fast F32 multiply-adds go.
 * These are the yardsticks that `doctor` shows and `bench` divides by. Plain C in the build's baseline
 * instructions: reading reaches the memory's limit with them; wider vector units and integer units may
 * beat the multiply-add figure, so a share of it can be more than 1.
 * Threads: one caller at a time, or they disturb each other. */
#ifndef WHIM_ENGINE_MACHINE_H
#define WHIM_ENGINE_MACHINE_H

#include "base/err.h"

#include <stdint.h>

/* Bytes read per second, in 1e9, from a buffer that no cache holds: the best pass within about
 * `seconds`. */
WHIM_MUST_CHECK whim_err whim_machine_read_gbs(int32_t n_thread, double seconds, double *gbs,
                                               whim_diag *diag);

/* F32 multiply-adds per second on registers, in 1e9 operations of which each counts two: the best
 * round within about `seconds`. */
WHIM_MUST_CHECK whim_err whim_machine_peak_gflops(int32_t n_thread, double seconds, double *gflops,
                                                  whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A short name for what a checkpoint holds: equal files have equal names, on every machine; files
 * that differ in a name, a shape, a type or in one of the sampled bytes have others. It reads a few
 * hundred bytes of each tensor, so that it costs milliseconds for any model. Not for secrets. */
#ifndef WHIM_WEIGHTS_FINGERPRINT_H
#define WHIM_WEIGHTS_FINGERPRINT_H

#include "base/err.h"
#include "weights/ckpt.h"

#include <stdint.h>

WHIM_MUST_CHECK whim_err whim_ckpt_fingerprint(const whim_ckpt *ckpt, uint64_t *out,
                                               whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Scales of an opened tile as smmla's lanes want them: for each pair of outputs (d0, d0, d1, d1).
 * Included before codes_tmpl.h. */
#ifndef WHIM_BACKENDS_CPU_I8MM_OPEN_I8MM_H
#define WHIM_BACKENDS_CPU_I8MM_OPEN_I8MM_H

#include "backends/cpu/neon/vec_neon.h"

#define OPEN_SCALES 32
#define OPEN_SUBS 1

static inline __attribute__((always_inline)) void open_scales_store(float *dst, int v, vf scales)
{
    vst1q_f32(dst + 8 * v, vzip1q_f32(scales, scales));
    vst1q_f32(dst + 8 * v + 4, vzip2q_f32(scales, scales));
}

#endif

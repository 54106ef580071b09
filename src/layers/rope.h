/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary frequencies of a configuration: default, linear, llama3 and YaRN scaling. Computed once,
 * on the host, in double. */
#ifndef WHIM_LAYERS_ROPE_H
#define WHIM_LAYERS_ROPE_H

#include "weights/config.h"

#include <stdint.h>

/* Fill freqs[rotary_dim / 2]: radians per position. */
void whim_rope_freqs(const whim_rope_config *rope, double *freqs);

/* What cos and sin are multiplied by: YaRN's attention factor, else 1. */
double whim_rope_scale(const whim_rope_config *rope);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The keys "<architecture>.<suffix>" of a GGUF file while its configuration is read.
 * Threads: plain data. */
#ifndef WHIM_WEIGHTS_GGUF_SOURCE_H
#define WHIM_WEIGHTS_GGUF_SOURCE_H

#include "weights/arch.h"
#include "weights/gguf/read.h"

enum { WHIM_GGUF_KEY_MAX = 160 };

typedef struct whim_gguf_source {
    const whim_gguf *gguf;
    const char *arch; /* as the file spells it */
    const whim_gguf_arch *facts;
    whim_diag *diag;
} whim_gguf_source;

/* "<arch>.<suffix>" */
const char *whim_gguf_source_name(const whim_gguf_source *s, const char *suffix,
                                  char out[WHIM_GGUF_KEY_MAX]);
bool whim_gguf_source_has(const whim_gguf_source *s, const char *suffix);
WHIM_MUST_CHECK whim_err whim_gguf_source_require(const whim_gguf_source *s, const char *suffix);

/* An absent key leaves the output as it was. */
WHIM_MUST_CHECK whim_err whim_gguf_source_real(const whim_gguf_source *s, const char *suffix,
                                               double min, double max, double *out);
WHIM_MUST_CHECK whim_err whim_gguf_source_i32(const whim_gguf_source *s, const char *suffix,
                                              int32_t min, int32_t max, int32_t *out);

/* A number that a file may also give per layer; the layers must agree. */
WHIM_MUST_CHECK whim_err whim_gguf_source_layer_i32(const whim_gguf_source *s, const char *suffix,
                                                    int32_t n_layer, int32_t max, int32_t *out);

/* The experts, and the gated delta nets (number of layers known). */
WHIM_MUST_CHECK whim_err whim_gguf_config_experts(const whim_gguf_source *s, whim_config *config);
WHIM_MUST_CHECK whim_err whim_gguf_config_gdn(const whim_gguf_source *s, whim_config *config);

#endif

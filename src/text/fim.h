/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that models for code are shown a gap with: what stands before it, behind it, and the
 * place where the answer begins. They are those that a GGUF file names, and else the spellings that
 * published models have.
 * Threads: stateless. */
#ifndef WHIM_TEXT_FIM_H
#define WHIM_TEXT_FIM_H

#include "text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

/* Ids; -1: the model has no such token. */
typedef struct whim_fim {
    int32_t prefix, suffix, middle;
    int32_t pad;        /* the end of what fills the gap, in some models */
    int32_t repo, file; /* before a repository's name, and before a file's */
} whim_fim;

/* Whether the model can fill a gap: it has the first three. */
bool whim_fim_find(const whim_tokenizer *tok, whim_fim *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How an answer ends, and the ids that end one.
 * Threads: any; no state. */
#ifndef WHIM_ENGINE_ENDS_H
#define WHIM_ENGINE_ENDS_H

#include "text/tokenizer.h"
#include "weights/config.h"

#include <stdint.h>

typedef enum whim_end {
    WHIM_END_EOS,        /* a stop id, which is the last of the ids */
    WHIM_END_STOP,       /* a stop string, or a caller that has seen enough */
    WHIM_END_LENGTH,     /* max_tokens */
    WHIM_END_CONTEXT,    /* the context is full */
    WHIM_END_KV,         /* the memory for keys and values is full */
    WHIM_END_INTERRUPT,  /* the user did not want more */
    WHIM_END_REPETITION, /* it went round in a circle (sample/repetition.h) */
} whim_end;

/* "eos", "stop", "length", "context", "context", "interrupt", "repetition". */
const char *whim_end_name(whim_end end);

/* The ids that end an answer: those of the configuration and those of the tokenizer (may be NULL),
 * each once. Returns how many of at most `max` there are. */
int32_t whim_stop_ids(const whim_config *config, const whim_tokenizer *tok, int32_t *out,
                      int32_t max);

#endif

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

/* Why a job is over. */
typedef enum whim_job_reason {
    WHIM_REASON_NONE, /* it is not */
    WHIM_REASON_STOP,
    WHIM_REASON_LENGTH,
    WHIM_REASON_REPETITION,
    WHIM_REASON_INTERRUPT,
    WHIM_REASON_FAILED, /* something went wrong */
    WHIM_REASON_NO_MEMORY,
    WHIM_REASON_DEADLINE, /* from here on somebody wanted its end */
    WHIM_REASON_STOPPING, /* the server is */
    WHIM_REASON_TOO_SLOW, /* its reader */
    WHIM_REASON_CLIENT_GONE,
    WHIM_REASON_CLIENT_GONE_OR_SLOW,
    WHIM_REASON_OTHER_FAILED, /* another prompt of the same request */
    WHIM_REASON_RELEASED,     /* its client is gone */
    WHIM_REASON_SHORT_MEMORY, /* that for requests is, and its answer held most of it */
    WHIM_REASON_QUEUE_FULL,   /* its place is that of one whose client has fewer */
} whim_job_reason;

/* In words, for the log. */
const char *whim_job_reason_name(whim_job_reason reason);

/* Whether something went wrong, and the end was not asked for. */
static inline bool whim_job_reason_is_failure(whim_job_reason reason)
{
    return reason == WHIM_REASON_FAILED || reason == WHIM_REASON_NO_MEMORY;
}

/* The ids that end an answer: those of the configuration and those of the tokenizer (may be NULL),
 * each once. Returns how many of at most `max` there are. */
int32_t whim_stop_ids(const whim_config *config, const whim_tokenizer *tok, int32_t *out,
                      int32_t max);

#endif

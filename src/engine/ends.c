/* SPDX-License-Identifier: Apache-2.0 */
/* How an answer ends. */
#include "engine/ends.h"

#include <stddef.h>

const char *whim_end_name(whim_end end)
{
    static const char *const names[] = {
        [WHIM_END_EOS] = "eos",
        [WHIM_END_STOP] = "stop",
        [WHIM_END_LENGTH] = "length",
        [WHIM_END_CONTEXT] = "context",
        [WHIM_END_KV] = "context",
        [WHIM_END_INTERRUPT] = "interrupt",
        [WHIM_END_REPETITION] = "repetition",
    };
    return names[end];
}

const char *whim_job_reason_name(whim_job_reason reason)
{
    static const char *const names[] = {
        [WHIM_REASON_NONE] = "none",
        [WHIM_REASON_STOP] = "stop",
        [WHIM_REASON_LENGTH] = "length",
        [WHIM_REASON_REPETITION] = "repetition",
        [WHIM_REASON_INTERRUPT] = "cancelled",
        [WHIM_REASON_FAILED] = "failed",
        [WHIM_REASON_NO_MEMORY] = "out of memory",
        [WHIM_REASON_DEADLINE] = "deadline",
        [WHIM_REASON_STOPPING] = "the server is stopping",
        [WHIM_REASON_TOO_SLOW] = "the reader is too slow",
        [WHIM_REASON_CLIENT_GONE] = "client gone",
        [WHIM_REASON_CLIENT_GONE_OR_SLOW] = "client gone or too slow",
        [WHIM_REASON_OTHER_FAILED] = "another prompt of the request failed",
        [WHIM_REASON_RELEASED] = "released",
        [WHIM_REASON_SHORT_MEMORY] = "memory is short",
        [WHIM_REASON_QUEUE_FULL] = "the queue is full",
    };
    return names[reason];
}

static int32_t id_add(int32_t *out, int32_t n, int32_t max, int32_t id)
{
    for (int32_t i = 0; i < n; i++) {
        if (out[i] == id) {
            return n;
        }
    }
    if (n < max) {
        out[n++] = id;
    }
    return n;
}

int32_t whim_stop_ids(const whim_config *config, const whim_tokenizer *tok, int32_t *out,
                      int32_t max)
{
    int32_t own[64], n = 0;
    int32_t n_own = tok != NULL ? whim_tokenizer_stop_ids(tok, own, 64) : 0;
    for (int32_t i = 0; i < config->n_eos; i++) {
        n = id_add(out, n, max, config->eos[i]);
    }
    for (int32_t i = 0; i < n_own; i++) {
        n = id_add(out, n, max, own[i]);
    }
    return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals: one list of what can be wrong with a request (fault.def), and the body of each in the
 * dialects.
 * Threads: plain data. */
#ifndef WHIM_SERVER_FAULT_H
#define WHIM_SERVER_FAULT_H

#include "base/err.h"
#include "base/str.h"
#include "http/http.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum whim_fault_kind {
#define FAULT(name, status, type, code, a_status, a_type) WHIM_FAULT_##name,
#include "server/fault.def"
#undef FAULT
    WHIM_FAULT_COUNT
} whim_fault_kind;

typedef enum whim_dialect {
    WHIM_DIALECT_OPENAI,
    WHIM_DIALECT_ANTHROPIC,
    WHIM_DIALECT_OLLAMA,
} whim_dialect;

typedef struct whim_fault {
    whim_fault_kind kind;
    char param[128]; /* "" : none */
    char message[1024];
    int64_t n_prompt, n_ctx; /* of whim_fault_context; 0: the message counts */
    bool is_put_off;         /* no fault: the request waits for a place where it may take long */
} whim_fault;

/* Fill it and return false, so that a reader says `return whim_fault_set(f, WHIM_FAULT_BAD_REQUEST,
 * "n", "...");`. param may be NULL. */
bool whim_fault_set(whim_fault *f, whim_fault_kind kind, const char *param, const char *fmt, ...)
    WHIM_PRINTF(4, 5);

/* OVERLOADED, "out of memory": another time there may be more. */
bool whim_fault_no_memory(whim_fault *f);

/* The prompt does not fit: each dialect has its own words, which tools look for. */
bool whim_fault_context(whim_fault *f, int64_t n_prompt, int64_t n_ctx);

int whim_fault_status(const whim_fault *f, whim_dialect dialect);

/* As in fault.def: "BAD_REQUEST". */
const char *whim_fault_name(whim_fault_kind kind);

/* The kind that stands for a status that HTTP itself found: of those that share it, the first in
 * fault.def. */
whim_fault_kind whim_fault_of_status(int status);

/* Append the whole body. */
void whim_fault_body(const whim_fault *f, whim_dialect dialect, const char *request_id,
                     whim_str *out);

/* The message in a dialect's words (that of CONTEXT differs), appended. */
void whim_fault_message(const whim_fault *f, whim_dialect dialect, whim_str *out);

/* The dialect of a route's path. */
whim_dialect whim_dialect_of(const char *path);

/* Answer with the body and the headers that belong to it (Retry-After, x-should-retry,
 * WWW-Authenticate). */
void whim_fault_reply(whim_exchange *ex, const whim_fault *f, whim_dialect dialect);

#endif

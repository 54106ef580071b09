/* SPDX-License-Identifier: Apache-2.0 */
/* What memory a model will take, part by part, known before any weight is read. */
#ifndef WHIM_ENGINE_MEMORY_PLAN_H
#define WHIM_ENGINE_MEMORY_PLAN_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHIM_PLAN_MAX_PARTS = 15 };

/* The name of the part that clients draw on. */
#define WHIM_PLAN_REQUESTS "requests and answers"

/* What would make a part smaller. */
typedef enum whim_memory_kind {
    WHIM_MEMORY_WEIGHTS, /* another model */
    WHIM_MEMORY_KV,      /* a shorter context, fewer sequences */
    WHIM_MEMORY_OTHER,
    WHIM_MEMORY_HOST, /* stays with the host where the device has memory of its own */
} whim_memory_kind;

typedef struct whim_memory_part {
    whim_memory_kind kind;
    const char *name; /* "weights" */
    char detail[96];  /* "272 tensors, packed for level dotprod" */
    int64_t bytes;
} whim_memory_part;

typedef struct whim_memory_plan {
    whim_memory_part parts[WHIM_PLAN_MAX_PARTS];
    int32_t n_part;
    int64_t total;     /* kept while running */
    int64_t loading;   /* on top of total while weights load: staging buffers */
    int64_t available; /* what this process may take now: RAM and cgroup, or the device's own */
    int64_t available_here; /* the same for all ranks of this host */
    /* Where the device has memory of its own, total and available are that; loading is the host's
     * then, and so are these. */
    bool apart;
    int64_t host_total, host_available;
} whim_memory_plan;

/* Bytes that must be there where total is, and on a host of its own. */
int64_t whim_memory_plan_needed(const whim_memory_plan *plan);
int64_t whim_memory_plan_host_needed(const whim_memory_plan *plan);

/* Add a part; printf-style detail. */
void whim_memory_plan_add(whim_memory_plan *plan, whim_memory_kind kind, const char *name,
                          int64_t bytes, const char *fmt, ...) WHIM_PRINTF(5, 6);

/* Whether it would fit without its keys and values. */
bool whim_memory_plan_kv_helps(const whim_memory_plan *plan);

/* NO_FIT with what is needed, what there is and what would help. */
WHIM_MUST_CHECK whim_err whim_memory_plan_check(const whim_memory_plan *plan, whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Adding up the plan and refusing what does not fit. */
#include "engine/memory_plan.h"

#include "base/check.h"
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>

void whim_memory_plan_add(whim_memory_plan *plan, whim_memory_kind kind, const char *name,
                          int64_t bytes, const char *fmt, ...)
{
    whim_check(plan->n_part < WHIM_PLAN_MAX_PARTS);
    whim_memory_part *part = &plan->parts[plan->n_part++];
    part->kind = kind;
    part->name = name;
    part->bytes = bytes;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(part->detail, sizeof part->detail, fmt, ap);
    va_end(ap);
    *(kind == WHIM_MEMORY_HOST && plan->apart ? &plan->host_total : &plan->total) += bytes;
}

int64_t whim_memory_plan_needed(const whim_memory_plan *plan)
{
    return plan->total + (plan->apart ? 0 : plan->loading);
}

int64_t whim_memory_plan_host_needed(const whim_memory_plan *plan)
{
    return plan->apart ? plan->host_total + plan->loading : 0;
}

static int64_t bytes_of(const whim_memory_plan *plan, whim_memory_kind kind)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < plan->n_part; i++) {
        bytes += plan->parts[i].kind == kind ? plan->parts[i].bytes : 0;
    }
    return bytes;
}

bool whim_memory_plan_kv_helps(const whim_memory_plan *plan)
{
    return whim_memory_plan_needed(plan) - bytes_of(plan, WHIM_MEMORY_KV) < plan->available;
}

whim_err whim_memory_plan_check(const whim_memory_plan *plan, whim_diag *diag)
{
    int64_t needed = whim_memory_plan_needed(plan), host = whim_memory_plan_host_needed(plan);
    char need[32], have[32], kv[32] = "", weights[32] = "";
    if (plan->apart && host > plan->host_available) {
        whim_format_bytes(need, sizeof need, host);
        whim_format_bytes(have, sizeof have, plan->host_available);
        return whim_fail(diag, WHIM_ERR_NO_FIT,
                         "in addition to the device's memory, the model needs %s of the host's, "
                         "but %s is available",
                         need, have);
    }
    if (needed <= plan->available) {
        return WHIM_ERR_OK;
    }
    whim_format_bytes(need, sizeof need, needed);
    whim_format_bytes(have, sizeof have, plan->available);
    whim_format_bytes(kv, sizeof kv, bytes_of(plan, WHIM_MEMORY_KV));
    whim_format_bytes(weights, sizeof weights, bytes_of(plan, WHIM_MEMORY_WEIGHTS));
    return whim_fail(diag, WHIM_ERR_NO_FIT,
                     "the model needs %s (weights %s, KV %s), but %s is available%s; %s", need,
                     weights, kv, have, plan->apart ? " on the device" : "",
                     whim_memory_plan_kv_helps(plan)
                         ? "a shorter context, fewer sequences or less memory for keys and values "
                           "shrink the KV part"
                         : "use a smaller model or one quantised to fewer bits");
}

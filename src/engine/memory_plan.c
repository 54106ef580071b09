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
    plan->total += bytes;
}

whim_err whim_memory_plan_check(const whim_memory_plan *plan, whim_diag *diag)
{
    int64_t needed = plan->total + plan->loading;
    if (needed <= plan->available) {
        return WHIM_ERR_OK;
    }
    char need[32], have[32], kv[32] = "", weights[32] = "";
    whim_format_bytes(need, sizeof need, needed);
    whim_format_bytes(have, sizeof have, plan->available);
    int64_t kv_bytes = 0, weight_bytes = 0;
    for (int32_t i = 0; i < plan->n_part; i++) {
        const whim_memory_part *part = &plan->parts[i];
        kv_bytes += part->kind == WHIM_MEMORY_KV ? part->bytes : 0;
        weight_bytes += part->kind == WHIM_MEMORY_WEIGHTS ? part->bytes : 0;
    }
    whim_format_bytes(kv, sizeof kv, kv_bytes);
    whim_format_bytes(weights, sizeof weights, weight_bytes);
    bool kv_helps = needed - kv_bytes < plan->available;
    return whim_fail(diag, WHIM_ERR_NO_FIT,
                     "the model needs %s (weights %s, KV %s), but %s is available; %s", need,
                     weights, kv, have,
                     kv_helps ? "a shorter context or fewer sequences shrink the KV part"
                              : "use a smaller model or one quantised to fewer bits");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The account behind budget.h. A thread adds to the common count only now and then, so that
 * allocating threads do not wait for each other. */
#include "base/heap/budget.h"

#include <stdatomic.h>

static atomic_llong counted; /* by all threads, but for their pending parts */
static atomic_llong held;    /* when the budget was set */
static atomic_llong budget;  /* 0: none */
static atomic_llong refused;
static _Thread_local int64_t pending;
static _Thread_local int64_t taken_here;
static _Thread_local int32_t share;

void whim_budget_set(int64_t bytes)
{
    atomic_store(&held, atomic_load(&counted));
    atomic_store(&budget, bytes);
}

int64_t whim_budget_bytes(void)
{
    return atomic_load_explicit(&budget, memory_order_relaxed);
}

int64_t whim_budget_used(void)
{
    return atomic_load_explicit(&counted, memory_order_relaxed) + pending -
           atomic_load_explicit(&held, memory_order_relaxed);
}

/* So many bytes beside those that are used. */
static bool is_beyond(int64_t more, int64_t used, int32_t eighths)
{
    int64_t all = whim_budget_bytes();
    return all > 0 && more > all / WHIM_BUDGET_WHOLE * eighths - used;
}

bool whim_budget_is_over(int32_t eighths)
{
    return is_beyond(0, whim_budget_used(), eighths);
}

int64_t whim_budget_most_of(int64_t bytes)
{
    int64_t part = whim_budget_bytes() / (2 * WHIM_BUDGET_WHOLE);
    return part > 0 && part < bytes ? part : bytes;
}

int32_t whim_budget_share(int32_t eighths)
{
    int32_t had = share;
    share = eighths;
    return had;
}

bool whim_budget_allows(int64_t bytes)
{
    return share == 0 || !is_beyond(bytes, whim_budget_used(), share);
}

int64_t whim_budget_taken_here(void)
{
    return taken_here;
}

int64_t whim_budget_refused(void)
{
    return atomic_load_explicit(&refused, memory_order_relaxed);
}

void whim_budget_refuse(void)
{
    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
}

/* What is used with it. That is what this addition found: another thread's that comes after it is
 * no part of it. */
static int64_t count(int64_t bytes)
{
    pending += bytes;
    taken_here += bytes;
    if (pending < WHIM_BUDGET_LATE && pending > -WHIM_BUDGET_LATE) {
        return whim_budget_used();
    }
    const int64_t added = pending;
    pending = 0;
    return atomic_fetch_add_explicit(&counted, added, memory_order_relaxed) + added -
           atomic_load_explicit(&held, memory_order_relaxed);
}

void whim_budget_count(int64_t bytes)
{
    count(bytes);
}

bool whim_budget_take(int64_t bytes)
{
    if (!whim_budget_allows(bytes)) { /* nor is it counted for a moment, in others' way */
        return false;
    }
    const int64_t used = count(bytes);
    const bool takes = share == 0 || !is_beyond(0, used, share);
    if (!takes) {
        count(-bytes);
    }
    return takes;
}

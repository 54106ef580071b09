/* SPDX-License-Identifier: Apache-2.0 */
/* The heap behind alloc.h. */
#include "base/alloc.h"

#include "base/check.h"
#include "base/heap/budget.h"
#include "base/heap/faults.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOC_ALIGN = 64, GROW_FIRST = 64 };

static _Thread_local int guard_depth;
static _Thread_local int64_t n_failed;
static atomic_llong guard_trips;
static atomic_llong fail_countdown = -1;
static atomic_llong fail_number, n_seen;

/* Counted only where a test wants it: a common counter makes threads wait for each other. */
static bool is_the_one(void)
{
    long long n = atomic_load_explicit(&fail_number, memory_order_relaxed);
    return n > 0 && atomic_fetch_add(&n_seen, 1) + 1 == n;
}

/* Whether the budget has room for so many bytes, which are counted then. They are counted before
 * they are there: filling a large block takes long enough for others to find the same room. */
static bool reserve(int64_t bytes)
{
    bool takes = whim_budget_take(bytes);
    if (!takes) {
        whim_budget_refuse();
    }
    return takes;
}

static int test_wants_failure(void)
{
    if (is_the_one()) {
        return 1;
    }
    if (guard_depth > 0) {
        atomic_fetch_add(&guard_trips, 1);
        whim_assert(guard_depth == 0 && "allocation inside a step");
    }
    long long left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    if (left < 0) {
        return 0;
    }
    if (left == 0) {
        return 1;
    }
    atomic_store_explicit(&fail_countdown, left - 1, memory_order_relaxed);
    return 0;
}

/* `ptr` was taken where `reserved` bytes were: count what it takes, beside `had` of before. */
static void *settle(void *ptr, int64_t reserved, int64_t had)
{
    const int64_t taken = ptr == NULL ? 0 : (int64_t)malloc_usable_size(ptr) - had;
    whim_budget_count(taken - reserved);
    n_failed += ptr == NULL ? 1 : 0;
    return ptr;
}

static void *failed(void)
{
    n_failed++;
    return NULL;
}

int64_t whim_heap_failures(void)
{
    return n_failed;
}

int64_t whim_heap_bytes(const void *taken)
{
    return taken == NULL ? 0 : (int64_t)malloc_usable_size((void *)taken);
}

void *whim_alloc(int64_t bytes)
{
    if (bytes <= 0) {
        bytes = 1;
    }
    if (bytes > INT64_MAX / 2 || !reserve(bytes)) {
        return failed();
    }
    size_t size = ((size_t)bytes + ALLOC_ALIGN - 1) / ALLOC_ALIGN * ALLOC_ALIGN;
    void *ptr = test_wants_failure() ? NULL : aligned_alloc(ALLOC_ALIGN, size);
    if (ptr != NULL) {
        memset(ptr, 0, size);
    }
    return settle(ptr, bytes, 0);
}

void *whim_alloc_plain(size_t bytes)
{
    if (bytes > INT64_MAX / 2 || !reserve((int64_t)bytes)) {
        return failed();
    }
    return settle(test_wants_failure() ? NULL : malloc(bytes), (int64_t)bytes, 0);
}

void *whim_realloc_plain(void *old, size_t bytes)
{
    const int64_t had = (int64_t)malloc_usable_size(old);
    const int64_t more = (int64_t)bytes > had ? (int64_t)bytes - had : 0;
    if (bytes > INT64_MAX / 2 || !reserve(more)) {
        return failed();
    }
    return settle(test_wants_failure() ? NULL : realloc(old, bytes), more, had);
}

void *whim_alloc_array(int64_t count, int64_t size)
{
    int64_t bytes;
    if (count < 0 || size < 0 || __builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return whim_alloc(bytes);
}

void *whim_realloc(void *old, int64_t old_bytes, int64_t new_bytes)
{
    void *fresh = whim_alloc(new_bytes);
    if (fresh != NULL && old != NULL) {
        memcpy(fresh, old, (size_t)(old_bytes < new_bytes ? old_bytes : new_bytes));
        whim_free(old);
    }
    return fresh;
}

bool whim_grow(void *array, int64_t need, int64_t *cap, int64_t size)
{
    if (need <= *cap) {
        return true;
    }
    int64_t more = *cap > 0 ? *cap : GROW_FIRST, bytes;
    while (more < need) {
        more = more > INT64_MAX / 2 ? need : more * 2;
    }
    void *old; /* copied, as the array may point to anything */
    memcpy(&old, array, sizeof old);
    void *grown =
        __builtin_mul_overflow(more, size, &bytes) ? NULL : whim_realloc(old, *cap * size, bytes);
    if (grown == NULL) {
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *cap = more;
    return true;
}

void whim_free(void *ptr)
{
    if (ptr != NULL) {
        whim_budget_count(-(int64_t)malloc_usable_size(ptr));
        free(ptr);
    }
}

void whim_alloc_guard_enter(void)
{
    guard_depth++;
}

void whim_alloc_guard_leave(void)
{
    guard_depth--;
}

int64_t whim_alloc_guard_trips(void)
{
    return atomic_load(&guard_trips);
}

void whim_alloc_fail_after(int64_t n)
{
    atomic_store(&fail_countdown, n);
}

void whim_alloc_fail_nth(int64_t n)
{
    atomic_store(&fail_number, 0);
    atomic_store(&n_seen, 0);
    atomic_store(&fail_number, n);
}

int64_t whim_alloc_seen(void)
{
    return atomic_load(&n_seen);
}

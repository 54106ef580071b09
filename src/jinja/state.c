/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, steps and the way out of a compilation or rendering. */
#include "base/clock.h"
#include "jinja/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 16 * 1024, ALIGN = 16, FIRST = 64 }; /* bytes; FIRST: of an array that grows */
enum { LOOK_EVERY = 4096 };                         /* steps between looks at the clock */

_Noreturn void whim_jinja_leave(whim_jinja *j, whim_err err, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    j->err = whim_fail(j->diag, err, "%s: line %d column %d: %s", j->name, (int)j->pos.line,
                       (int)j->pos.col, text);
    longjmp(j->leave, 1);
}

void *whim_jinja_alloc(whim_jinja *j, int64_t bytes)
{
    if (bytes > j->cap - j->used - ALIGN) {
        whim_jinja_exceed(j, "the template needs more than %lld MiB of memory",
                          (long long)(j->cap >> 20));
    }
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    j->used += bytes;
    void *piece = NULL;
    if (bytes > BLOCK / 4) {
        piece = whim_arena_alloc(&j->arena, bytes);
    } else {
        if (j->end - j->at < bytes) {
            j->at = whim_arena_alloc(&j->arena, BLOCK);
            j->end = j->at == NULL ? NULL : j->at + BLOCK;
        }
        piece = j->at;
        j->at = piece == NULL ? NULL : j->at + bytes;
    }
    if (piece == NULL) {
        j->err = whim_fail(j->diag, WHIM_ERR_NO_MEMORY, "%s: out of memory", j->name);
        longjmp(j->leave, 1);
    }
    return piece;
}

void *whim_jinja_alloc_array(whim_jinja *j, int64_t count, int64_t size)
{
    int64_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        bytes = INT64_MAX / 2;
    }
    return whim_jinja_alloc(j, bytes);
}

void whim_jinja_grow(whim_jinja *j, void *array, int64_t n, int64_t *cap, int64_t need,
                     int64_t size)
{
    if (need <= *cap) {
        return;
    }
    int64_t least = *cap > 0 ? 2 * *cap : FIRST / size;
    *cap = least > need ? least : need;
    void *old, *grown = whim_jinja_alloc_array(j, *cap, size);
    memcpy(&old, array, sizeof old); /* copied, as the array may point to anything */
    if (n > 0) {
        memcpy(grown, old, (size_t)(n * size));
    }
    memcpy(array, &grown, sizeof grown);
}

void whim_jinja_pay(whim_jinja *j, int64_t steps)
{
    j->steps -= steps;
    if (j->steps < 0) {
        whim_jinja_exceed(j, "the template does more work than is allowed (%d steps)",
                          (int)WHIM_JINJA_STEPS);
    }
    if (j->steps <= j->look_at) {
        j->look_at = j->steps - LOOK_EVERY;
        if (whim_clock_ns() > j->until) {
            whim_jinja_exceed(j, "the template takes longer than is allowed (%d s)",
                              (int)WHIM_JINJA_SECONDS);
        }
    }
}

void whim_jinja_enter(whim_jinja *j)
{
    if (++j->depth > WHIM_JINJA_DEPTH) {
        whim_jinja_fail(j, "the template nests deeper than %d levels", (int)WHIM_JINJA_DEPTH);
    }
    whim_jinja_pay(j, 1);
}

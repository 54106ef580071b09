/* SPDX-License-Identifier: Apache-2.0 */
/* The control word of the floating-point unit: round to nearest, keep subnormals, no traps. A
 * program that links the engine may have set its threads otherwise (flush to zero, say); kernels
 * run under this one word on every thread, and worker 0 gives the caller's back.
 * Threads: each call is about the calling thread. */
#ifndef WHIM_BACKENDS_CPU_FLOAT_ENV_H
#define WHIM_BACKENDS_CPU_FLOAT_ENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Set the kernels' word; returns the one before. */
static inline uint64_t whim_float_env_enter(void)
{
#if defined(__x86_64__)
    uint64_t before = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return before;
#elif defined(__aarch64__)
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return before;
#endif
}

static inline void whim_float_env_leave(uint64_t before)
{
#if defined(__x86_64__)
    _mm_setcsr((unsigned)before);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
#endif
}

#endif

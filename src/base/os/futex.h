/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a 32-bit word, and the instruction for spinning on one. A wait may return for no
 * reason, so the caller looks at the word again, in a loop.
 * Threads: any. */
#ifndef WHIM_BASE_OS_FUTEX_H
#define WHIM_BASE_OS_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#ifdef __linux__
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Sleep while *word is `expected`, until a wake, or for at most timeout_ns (negative: for ever).
 * The word is one process's own, or (`_shared`) in memory that several have. */
static inline void whim_os_futex_sleep(_Atomic uint32_t *word, uint32_t expected,
                                       int64_t timeout_ns, bool shared)
{
#ifdef __linux__
    struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                          .tv_nsec = (long)(timeout_ns % 1000000000)};
    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, expected,
            timeout_ns < 0 ? NULL : &ts, NULL, 0);
#else
    /* No such call: nap, and let the caller's loop look again. */
    (void)shared;
    int64_t nap_ns = timeout_ns >= 0 && timeout_ns < 50000 ? timeout_ns : 50000;
    struct timespec ts = {.tv_sec = 0, .tv_nsec = (long)nap_ns};
    if (atomic_load_explicit(word, memory_order_acquire) == expected) {
        nanosleep(&ts, NULL);
    }
#endif
}

static inline void whim_os_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    whim_os_futex_sleep(word, expected, timeout_ns, false);
}

static inline void whim_os_futex_wait_shared(_Atomic uint32_t *word, uint32_t expected,
                                             int64_t timeout_ns)
{
    whim_os_futex_sleep(word, expected, timeout_ns, true);
}

/* Wake up to n threads that wait on the word. */
static inline void whim_os_futex_wake(_Atomic uint32_t *word, int32_t n)
{
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
#else
    (void)word;
    (void)n;
#endif
}

static inline void whim_os_futex_wake_all(_Atomic uint32_t *word)
{
    whim_os_futex_wake(word, INT32_MAX);
}

static inline void whim_os_futex_wake_all_shared(_Atomic uint32_t *word)
{
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
#else
    (void)word;
#endif
}

/* One turn of a spin loop: gives the pipeline to a sibling thread, keeps the core. */
static inline void whim_os_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Lines of the cache that are about to be read, or written where another core has them: all are
 * asked for at once, before the first is needed. */
enum { WHIM_OS_LINE = 64 };

static inline void whim_os_lines_read(const void *at, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += WHIM_OS_LINE) {
        __builtin_prefetch((const char *)at + i);
    }
}

static inline void whim_os_lines_write(const void *at, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += WHIM_OS_LINE) {
#if defined(__x86_64__) /* the builtin asks for a copy unless a newer CPU is compiled for */
        __asm__ volatile("prefetchw %0" ::"m"(((const char *)at)[i]));
#else
        __builtin_prefetch((const char *)at + i, 1);
#endif
    }
}

#endif

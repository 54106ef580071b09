/* SPDX-License-Identifier: Apache-2.0 */
/* Time that never goes backwards, in nanoseconds from an unknown start. Threads: any. */
#ifndef WHIM_BASE_CLOCK_H
#define WHIM_BASE_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define WHIM_NS_PER_S INT64_C(1000000000)
#define WHIM_NS_PER_MS INT64_C(1000000)

/* What a clock of the system says; 0 when there is no such clock. */
static inline int64_t whim_clock_read(clockid_t id)
{
    struct timespec ts;
    return clock_gettime(id, &ts) == 0 ? (int64_t)ts.tv_sec * WHIM_NS_PER_S + ts.tv_nsec : 0;
}

static inline int64_t whim_clock_ns(void)
{
    return whim_clock_read(CLOCK_MONOTONIC);
}

/* The moment in so many nanoseconds, for a wait on a condition whose clock this is. */
static inline struct timespec whim_clock_after(int64_t ns)
{
    int64_t until = whim_clock_ns() + ns;
    return (struct timespec){.tv_sec = (time_t)(until / WHIM_NS_PER_S),
                             .tv_nsec = (long)(until % WHIM_NS_PER_S)};
}

/* Sleep at least so long, whatever signals come. */
static inline void whim_clock_sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / WHIM_NS_PER_S),
                            .tv_nsec = (long)(ns % WHIM_NS_PER_S)};
    while (ns > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

#endif

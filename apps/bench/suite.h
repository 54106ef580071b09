/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel bench --suite: real questions, answered with proposals and without.
 * Threads: the main thread. */
#ifndef WHIM_APPS_BENCH_SUITE_H
#define WHIM_APPS_BENCH_SUITE_H

#include "bench/bench.h"

/* Those that are always there. */
extern const char *const bench_gsm8k[];
extern const int64_t bench_n_gsm8k;

/* The command, for a model that was chosen; returns its exit status. */
int bench_suite(const whim_options *options, const char *model);

#endif

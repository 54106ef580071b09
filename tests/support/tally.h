/* SPDX-License-Identifier: Apache-2.0 */
/* Counting the results of a test program that is not a cmocka one: a line for each test, and the
 * RESULT line that tests/run-tests reads.
 * Threads: one. */
#ifndef WHIM_TESTS_SUPPORT_TALLY_H
#define WHIM_TESTS_SUPPORT_TALLY_H

#include "base/err.h"

#include <stdbool.h>

/* One test: prints `ok NAME (detail)` or `FAIL NAME: detail`. Returns `passed`. */
bool tally_check(bool passed, const char *name, const char *fmt, ...) WHIM_PRINTF(3, 4);

/* A test that could not be run here: `skip NAME: why`. */
void tally_skip(const char *name, const char *fmt, ...) WHIM_PRINTF(2, 3);

/* Print the RESULT line; the exit status of the program. */
int tally_finish(void);

#endif

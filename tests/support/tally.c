/* SPDX-License-Identifier: Apache-2.0 */
/* The counters behind tally.h. */
#include "support/tally.h"

#include <stdarg.h>
#include <stdio.h>

static int n_passed, n_failed, n_skipped;

bool tally_check(bool passed, const char *name, const char *fmt, ...)
{
    *(passed ? &n_passed : &n_failed) += 1;
    va_list ap;
    va_start(ap, fmt);
    printf(passed ? "ok %s (" : "FAIL %s: ", name);
    vprintf(fmt, ap);
    printf(passed ? ")\n" : "\n");
    va_end(ap);
    fflush(stdout);
    return passed;
}

void tally_skip(const char *name, const char *fmt, ...)
{
    n_skipped++;
    va_list ap;
    va_start(ap, fmt);
    printf("skip %s: ", name);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    fflush(stdout);
}

int tally_finish(void)
{
    printf("RESULT passed=%d failed=%d skipped=%d\n", n_passed, n_failed, n_skipped);
    return n_failed > 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What happens when an invariant does not hold. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void whim_check_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "whimbrel: internal check failed at %s:%d: %s\n", file, line, what);
    abort();
}

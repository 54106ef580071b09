/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles at the end of an answer: one counter for each length of a cycle. */
#include "sample/repetition.h"

bool whim_repetition_push(whim_repetition *r, const int32_t *tokens, int64_t n, int64_t limit)
{
    const int32_t *last = &tokens[n - 1];
    int64_t longest = limit / 2 < WHIM_REPETITION_CYCLE ? limit / 2 : WHIM_REPETITION_CYCLE;
    bool is_cycle = false;
    for (int64_t p = 1; p <= longest && p < n; p++) {
        int64_t same = last[-p] == *last ? r->same[p - 1] + 1 : 0;
        r->same[p - 1] = same;
        is_cycle |= p + same >= limit; /* the first round has nothing before it to be equal to */
    }
    return is_cycle;
}

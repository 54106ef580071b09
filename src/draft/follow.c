/* SPDX-License-Identifier: Apache-2.0 */
/* One place, moved token by token. */
#include "draft/follow.h"

#include <string.h>

/* Near the place that was left fewer tokens tell where it goes on. */
enum { FEW = 2 };

/* The first place near the one that was left that stands behind the answer's last tokens; 0: none
 * does. */
static int64_t near_place(const whim_follow *f, const whim_lookup *index, const int32_t *text,
                          const int32_t *answer, int64_t n)
{
    int64_t end = f->at + WHIM_FOLLOW_NEAR < index->n ? f->at + WHIM_FOLLOW_NEAR : index->n;
    for (int64_t at = f->at > FEW ? f->at : FEW; n >= FEW && at < end; at++) {
        if (memcmp(text + at - FEW, answer + n - FEW, FEW * sizeof *text) == 0) {
            return at;
        }
    }
    return 0;
}

static void token_take(whim_follow *f, const whim_lookup *index, const int32_t *text,
                       const int32_t *answer, int64_t n)
{
    if (!f->is_lost && f->at < index->n && text[f->at] == answer[n - 1]) {
        f->at++;
        f->n_right++;
        return;
    }
    f->is_lost = f->at > 0; /* what comes first may still come */
    int64_t place = near_place(f, index, text, answer, n);
    if (place == 0) {
        place = whim_lookup_place(index, text, answer, n);
    }
    if (place > 0) {
        f->at = place;
        f->is_lost = false;
    }
}

void whim_follow_take(whim_follow *f, const whim_lookup *index, const int32_t *text,
                      const int32_t *answer, int64_t n)
{
    while (f->n_taken < n) {
        token_take(f, index, text, answer, ++f->n_taken);
    }
}

int64_t whim_follow_propose(const whim_follow *f, const whim_lookup *index, const int32_t *text,
                            int32_t *out, int64_t max)
{
    int64_t left = f->is_lost ? 0 : index->n - f->at, n = left < max ? left : max;
    if (n > 0) {
        memcpy(out, text + f->at, (size_t)n * sizeof *out);
    }
    return n;
}

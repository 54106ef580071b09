/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/groups.h"

int64_t whim_groups_outs(const whim_groups *g)
{
    int64_t sum = 0;
    for (int32_t r = 0; r < g->n_group; r++) {
        sum += g->n_out[r];
    }
    return sum;
}

int64_t whim_groups_place(const whim_groups *g, int64_t i)
{
    int32_t r = 0;
    for (; r < g->n_group - 1 && i >= g->n_out[r]; r++) {
        i -= g->n_out[r];
    }
    return i * g->n_group + r;
}

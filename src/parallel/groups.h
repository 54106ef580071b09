/* SPDX-License-Identifier: Apache-2.0 */
/* A step of several groups, each of which is one rank with sequences of its own: who has how many
 * rows and outputs, and where an output lies when those of all ranks are gathered.
 * Threads: stateless. */
#ifndef WHIM_PARALLEL_GROUPS_H
#define WHIM_PARALLEL_GROUPS_H

#include <stdint.h>

enum { WHIM_GROUPS_MAX = 64 };

typedef struct whim_groups {
    int32_t n_group;
    int64_t n_row[WHIM_GROUPS_MAX], n_out[WHIM_GROUPS_MAX];
    int64_t most_rows; /* of a rank of one of them, its padding included */
} whim_groups;

/* Outputs of all groups, without padding. */
int64_t whim_groups_outs(const whim_groups *groups);

/* Outputs count group after group; of those that are gathered, output i of rank r is number
 * i * n_group + r. The number of output i. */
int64_t whim_groups_place(const whim_groups *groups, int64_t i);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How many tokens to propose in a step: a pure policy. It knows what steps cost by their rows, as
 * they were measured, and how often proposals were right of late, by their place in the block; it
 * takes the rows with which tokens are expected to come fastest, and none where that is the plain
 * step.
 * Threads: one owner. */
#ifndef WHIM_DRAFT_WIDTH_H
#define WHIM_DRAFT_WIDTH_H

#include <stdint.h>

enum {
    WHIM_WIDTH_MOST = 15,   /* proposals of one request in a step */
    WHIM_WIDTH_COSTS = 128, /* rows of a step whose cost is kept apart; proposals stay below */
};

/* What steps without prompt rows cost; {0} knows nothing, and proposes nothing. */
typedef struct whim_step_costs {
    double ns[WHIM_WIDTH_COSTS + 1];    /* by rows; 0: not known yet */
    int64_t seen[WHIM_WIDTH_COSTS + 1]; /* in which step that was last; 0: at most once */
    int32_t dear[WHIM_WIDTH_COSTS + 1]; /* how often in turn it was dearer than is usual */
    int64_t n_step;
} whim_step_costs;

/* A machine that becomes slower does so for steps of all sizes, also for those that are not seen
 * now: else rows would look cheap while others keep it busy. One step that was interrupted counts
 * little. A size that was dear and is not seen any more is doubted, and so tried again: soon after
 * the first time, which may have been chance, and later each time that shows the same. */
void whim_step_costs_learn(whim_step_costs *costs, int64_t n_row, int64_t ns);

/* A step went by without any of these, which are thought to cost `ns`: all are doubted in the same
 * way. For what may not be done at all for long. */
void whim_step_costs_doubt(whim_step_costs *costs, double ns);

/* What a step of so many rows will cost. What was not seen lies between its neighbours, or, beyond
 * the last, as far above it as rows usually are. 0: nothing was seen. */
double whim_step_costs_of(const whim_step_costs *costs, int64_t n_row);

/* How often the proposals of one request are right, by place: where those before them were. */
typedef struct whim_hits {
    double n_right[WHIM_WIDTH_MOST], n_tried[WHIM_WIDTH_MOST]; /* older ones count less */
    double chance[WHIM_WIDTH_MOST];                            /* what that says of the next */
} whim_hits;

/* Before the first: thought to be as those of others were of late, for a while. NULL: of nobody. */
void whim_hits_init(whim_hits *hits, const whim_hits *others);

/* A step has proposed n tokens, of which the first n_right were right. With n of 0 what
 * was seen fades, so that a text that becomes predictable is tried again. */
void whim_hits_learn(whim_hits *hits, int64_t n, int64_t n_right);

/* For n_request requests that get one row each anyway, and n_row rows of that kind in all: how many
 * of the `found` proposals each should bring. Proposing takes draft_ns for each row. */
typedef struct whim_width_ask {
    const whim_hits *hits;
    int64_t n_found; /* at most WHIM_WIDTH_MOST */
    int64_t n_sure;  /* the first of them, that are right in any case */
    double once_ns;  /* what it takes to find any, if that is still to be done */
    double each_ns;  /* and each of them */
    /* [n_found] the chance that whoever proposes gives each, if those before it are right: it
     * counts where it is the smaller one. NULL: it gives none. */
    const float *sure;
} whim_width_ask;
void whim_width_choose(const whim_step_costs *costs, const whim_width_ask *asks, int64_t n_ask,
                       int64_t n_row, double draft_ns, int64_t *widths);

/* The same of several groups that take a step together, each its own rows: it costs what the
 * largest group's rows do, and those of the others up to there nothing. Drafts of groups work at
 * the same time, too: the longest counts. Asks are group after group. */
typedef struct whim_width_group {
    int64_t n_ask, n_row;
} whim_width_group;
void whim_width_choose_groups(const whim_step_costs *costs, const whim_width_group *groups,
                              int32_t n_group, const whim_width_ask *asks, double draft_ns,
                              int64_t *widths);

#endif

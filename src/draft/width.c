/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are taken in the order of what they promise; all numbers of them are tried. */
#include "draft/width.h"

#include <stdbool.h>
#include <string.h>

/* A step of n rows of one sequence against one of a single row, as the default model has it on two
 * Arm cores: where steps of other sizes were not seen yet. */
static const double usual[] = {1.0, 1.0, 1.33, 1.72, 1.81, 2.1, 2.34, 2.6, 2.83};
enum {
    N_USUAL = sizeof usual / sizeof usual[0],
    LATELY = 16,   /* steps */
    MOST_DEAR = 6, /* times that double how long a size is left alone */
};

#define FIRST_CHANCE 0.6        /* of a proposal about which nothing is known */
#define FIRST_WEIGHT 6.0        /* how many proposals it takes to say more than that */
#define OTHERS_WEIGHT 3.0       /* as how many proposals those of other requests count at most */
#define OUTDATED (1.0 / 16.0)   /* what one more proposal takes of what was seen before it */
#define FADED (1.0 / 128.0)     /* and what a step without proposals does */
#define MOST_SLOWER 1.5         /* one step against those before it: beyond, it was interrupted */
#define MOST_DEARER 2.0         /* a size that was not seen lately, against what is thought of it */
#define DOUBTED (1.0 / 12.0)    /* of what a size was dearer by, in a step without it */
#define FORGOTTEN (1.0 / 256.0) /* and of what it was cheaper by */
#define DEARER 1.15             /* than was expected: beyond, a size is dear once more */
#define SHARED 0.75 /* of a change, that is the machine's and not of that number of rows */
#define MARGIN 1.02 /* what proposing must promise: measurements are not exact */

/* Whether what is known of steps of so many rows, if anything, is old. */
static bool is_stale(const whim_step_costs *c, int64_t n_row)
{
    return c->seen[n_row] == 0 || c->n_step - c->seen[n_row] > LATELY;
}

static double usual_cost(int64_t n_row)
{
    double beyond = n_row < N_USUAL ? 0 : (double)(n_row - N_USUAL + 1) * 0.23;
    return usual[n_row < N_USUAL ? n_row : N_USUAL - 1] + beyond;
}

double whim_step_costs_of(const whim_step_costs *c, int64_t n_row)
{
    int64_t below = n_row < WHIM_WIDTH_COSTS ? n_row : WHIM_WIDTH_COSTS, above = below;
    while (below > 0 && c->ns[below] == 0) {
        below--;
    }
    while (above < WHIM_WIDTH_COSTS && c->ns[above] == 0) {
        above++;
    }
    if (below == n_row || (below == 0 && c->ns[above] == 0)) {
        return c->ns[below];
    }
    double least = below > 0 ? c->ns[below] / usual_cost(below) : 0;
    if (c->ns[above] == 0 || above == below) { /* beyond the last that was seen, or is kept */
        return least * usual_cost(n_row);
    }
    double most = c->ns[above] / usual_cost(above);
    if (below == 0) {
        return most * usual_cost(n_row);
    }
    double share = (double)(n_row - below) / (double)(above - below);
    return (least + (most - least) * share) * usual_cost(n_row);
}

/* What steps of `n_row` rows cost where those of `of` rows are as dear as they are. */
static double usually(const whim_step_costs *c, int64_t of, int64_t n_row)
{
    return c->ns[of] / usual_cost(of) * usual_cost(n_row);
}

/* A size that is not seen now drifts to where it usually is: what was learnt of it may have been
 * chance, and nobody would try it again. */
static void cost_doubt(whim_step_costs *c, int64_t n_row, double usual_ns)
{
    double beyond = c->ns[n_row] - usual_ns;
    double share = beyond > 0 ? DOUBTED / (double)(1 << c->dear[n_row]) : FORGOTTEN;
    c->ns[n_row] -= is_stale(c, n_row) ? beyond * share : 0;
}

/* One step says something of the machine, and so of all sizes. */
static void costs_move(whim_step_costs *c, int64_t n_row, double change)
{
    for (int64_t i = 1; i <= WHIM_WIDTH_COSTS; i++) {
        if (i != n_row && c->ns[i] > 0) {
            c->ns[i] *= 1 + change * SHARED;
            cost_doubt(c, i, usually(c, n_row, i));
        }
    }
}

/* Fewer rows cost no more. Where sizes say so, a larger one that was seen lately is right, for a
 * step may be interrupted but never comes too early; else the one that was seen last. */
static void costs_order(whim_step_costs *c, int64_t n_row)
{
    for (int64_t i = n_row + 1; i <= WHIM_WIDTH_COSTS; i++) {
        if (c->ns[i] > 0 && c->ns[i] < c->ns[n_row] && !is_stale(c, i)) {
            c->ns[n_row] = c->ns[i];
        }
    }
    for (int64_t i = 1; i <= WHIM_WIDTH_COSTS; i++) {
        bool wrong = i < n_row ? c->ns[i] > c->ns[n_row] : c->ns[i] < c->ns[n_row];
        if (c->ns[i] > 0 && wrong) {
            c->ns[i] = usually(c, n_row, i);
        }
    }
}

/* A size that was not seen lately cost so many times what was expected of it. */
static void dear_count(whim_step_costs *c, int64_t n_row, double times)
{
    int32_t n = c->dear[n_row];
    c->dear[n_row] = times > DEARER ? n + (n < MOST_DEAR) : times < 1 ? 0 : n;
}

void whim_step_costs_learn(whim_step_costs *c, int64_t n_row, int64_t ns)
{
    if (n_row < 1 || n_row > WHIM_WIDTH_COSTS || ns <= 0) {
        return;
    }
    double expected = whim_step_costs_of(c, n_row), now = (double)ns / expected;
    bool first = c->ns[n_row] == 0, stale = is_stale(c, n_row);
    c->n_step++;
    if (expected == 0) {
        c->ns[n_row] = (double)ns;
    } else if (stale) { /* it says more of this size than of the machine */
        dear_count(c, n_row, now);
        double change = (now < MOST_DEARER ? now : MOST_DEARER) - 1;
        c->ns[n_row] = expected * (1 + (c->seen[n_row] == 0 ? change : change / 2));
    } else {
        double change = ((now < MOST_SLOWER ? now : MOST_SLOWER) - 1) / 8;
        c->ns[n_row] = expected * (1 + change);
        costs_move(c, n_row, change);
    }
    c->seen[n_row] = first ? 0 : c->n_step; /* the first is often late, and the second says more */
    costs_order(c, n_row);
}

void whim_step_costs_doubt(whim_step_costs *c, double ns)
{
    c->n_step++;
    for (int64_t i = 1; i <= WHIM_WIDTH_COSTS && ns > 0; i++) {
        if (c->ns[i] > 0) {
            cost_doubt(c, i, ns);
        }
    }
}

/* A place is thought to be like the one before it, until it has been seen more often. */
static void chances_set(whim_hits *h)
{
    double before = FIRST_CHANCE;
    for (int i = 0; i < WHIM_WIDTH_MOST; i++) {
        before = (h->n_right[i] + FIRST_WEIGHT * before) / (h->n_tried[i] + FIRST_WEIGHT);
        h->chance[i] = before;
    }
}

static void forget(whim_hits *h, int64_t place, double share)
{
    h->n_right[place] -= h->n_right[place] * share;
    h->n_tried[place] -= h->n_tried[place] * share;
}

void whim_hits_init(whim_hits *h, const whim_hits *others)
{
    *h = (whim_hits){{0}};
    for (int i = 0; i < WHIM_WIDTH_MOST && others != NULL; i++) {
        double n = others->n_tried[i], share = n > OTHERS_WEIGHT ? OTHERS_WEIGHT / n : 1;
        h->n_tried[i] = n * share;
        h->n_right[i] = others->n_right[i] * share;
    }
    chances_set(h);
}

void whim_hits_learn(whim_hits *h, int64_t n, int64_t n_right)
{
    for (int64_t i = 0; n == 0 && i < WHIM_WIDTH_MOST; i++) {
        forget(h, i, FADED);
    }
    for (int64_t i = 0; i < n && i <= n_right && i < WHIM_WIDTH_MOST; i++) {
        forget(h, i, OUTDATED);
        h->n_right[i] += i < n_right;
        h->n_tried[i] += 1;
    }
    chances_set(h);
}

/* That proposal k of a request is right, if those before it are. */
static double chance_of(const whim_width_ask *ask, int64_t k)
{
    double hit = ask->hits->chance[k];
    return k < ask->n_sure                           ? 1
           : ask->sure != NULL && ask->sure[k] < hit ? (double)ask->sure[k]
                                                     : hit;
}

/* The request whose next row promises most, and what it does: -1 when there is none. */
static int64_t next_row(const whim_width_ask *asks, int64_t n_ask, const int64_t *widths,
                        double *promise)
{
    int64_t best = -1;
    *promise = 0;
    for (int64_t i = 0; i < n_ask; i++) {
        double chance = 1;
        bool has_more = widths[i] < asks[i].n_found && widths[i] < WHIM_WIDTH_MOST;
        for (int64_t k = 0; k <= widths[i] && has_more; k++) {
            chance *= chance_of(&asks[i], k);
        }
        if (has_more && chance > *promise) {
            *promise = chance;
            best = i;
        }
    }
    return best;
}

/* What is chosen from. */
typedef struct choice {
    const whim_step_costs *costs;
    const whim_width_group *groups;
    int32_t n_group;
    const whim_width_ask *asks;
    int64_t n_ask, n_row, most_rows; /* of all groups, and of the largest */
    double draft_ns;
} choice;

/* Rows that were given so far, and the tokens that all promise. */
typedef struct given {
    int64_t n;
    double tokens;
} given;

/* What it takes a draft to find a group's rows. */
static double drafting_ns(const whim_width_ask *asks, int64_t n_ask, const int64_t *widths)
{
    double ns = 0;
    for (int64_t i = 0; i < n_ask; i++) {
        ns += widths[i] > 0 ? asks[i].once_ns + (double)widths[i] * asks[i].each_ns : 0;
    }
    return ns;
}

/* Fill up a group that has n_row rows without them: to `level` rows. */
static void group_fill(const whim_width_group *group, const whim_width_ask *asks, int64_t level,
                       int64_t *widths, given *g)
{
    int64_t rows = group->n_row, at = 0;
    for (int64_t i = 0; i < group->n_ask; i++) {
        rows += widths[i];
    }
    for (; rows < level && at >= 0; rows++) {
        double promise;
        at = next_row(asks, group->n_ask, widths, &promise);
        if (at >= 0) {
            g->n++;
            g->tokens += promise;
            widths[at]++;
        }
    }
}

/* Give rows level by level, at most `n`: in the first each group gets as many as the largest has,
 * in each other one more. Returns at which level tokens come fastest; 0: without any. */
static int64_t rows_give(const choice *c, int64_t n, int64_t *widths)
{
    given g = {.tokens = (double)c->n_row};
    double least = whim_step_costs_of(c->costs, c->most_rows) / g.tokens / MARGIN;
    int64_t best = 0;
    memset(widths, 0, (size_t)c->n_ask * sizeof *widths);
    for (int64_t i = 1; i <= n; i++) {
        int64_t level = c->most_rows + i - 1, before = g.n, first = 0;
        double drafting = 0; /* of the group that takes longest */
        for (int32_t k = 0; k < c->n_group; k++) {
            group_fill(&c->groups[k], c->asks + first, level, widths + first, &g);
            double ns = drafting_ns(c->asks + first, c->groups[k].n_ask, widths + first);
            drafting = ns > drafting ? ns : drafting;
            first += c->groups[k].n_ask;
        }
        if (g.n == before && i > 1) {
            return best;
        }
        double cost = whim_step_costs_of(c->costs, level) + (double)g.n * c->draft_ns + drafting;
        if (g.n > before && cost / g.tokens < least) {
            least = cost / g.tokens;
            best = i;
        }
    }
    return best;
}

void whim_width_choose_groups(const whim_step_costs *costs, const whim_width_group *groups,
                              int32_t n_group, const whim_width_ask *asks, double draft_ns,
                              int64_t *widths)
{
    choice c = {
        .costs = costs, .groups = groups, .n_group = n_group, .asks = asks, .draft_ns = draft_ns};
    for (int32_t i = 0; i < n_group; i++) {
        c.n_ask += groups[i].n_ask;
        c.n_row += groups[i].n_row;
        c.most_rows = groups[i].n_row > c.most_rows ? groups[i].n_row : c.most_rows;
    }
    bool knows = c.n_ask > 0 && whim_step_costs_of(costs, c.most_rows) > 0;
    int64_t n_level = WHIM_WIDTH_COSTS - c.most_rows + 1;
    int64_t best = knows ? rows_give(&c, n_level, widths) : 0;
    (void)rows_give(&c, best, widths);
}

void whim_width_choose(const whim_step_costs *costs, const whim_width_ask *asks, int64_t n_ask,
                       int64_t n_row, double draft_ns, int64_t *widths)
{
    whim_width_choose_groups(costs, &(whim_width_group){n_ask, n_row}, 1, asks, draft_ns, widths);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rows grouped by expert: a counting sort, so that a plan is the same for everyone who makes it. */
#include "backends/cpu/moe_plan.h"

#include "base/alloc.h"

#include <string.h>

static void *take(char **at, int64_t bytes)
{
    void *piece = *at;
    *at += whim_aligned(bytes);
    return piece;
}

/* Segments: one for each expert with rows, one more for every full chunk (64 rows at least). */
static int64_t segments_max(const whim_moe_experts_args *a)
{
    int64_t pairs = a->n_row * a->k_top;
    return (pairs < a->n_expert ? pairs : a->n_expert) + pairs / 64;
}

int64_t whim_moe_places(const whim_moe_experts_args *a)
{
    return a->n_row * a->k_top + segments_max(a);
}

int64_t whim_cpu_moe_space_bytes(const whim_moe_experts_args *a)
{
    int64_t model = (a->gate.k + 31) / 32 * 32, ff = (a->down.k + 31) / 32 * 32;
    return whim_moe_places(a) * ((model + 2 * ff) * 4 + 64) + 1024;
}

whim_moe_regions whim_moe_regions_of(const whim_cpu_moe_args *m)
{
    const whim_moe_experts_args *a = &m->op;
    char *at = m->space;
    int64_t pairs = a->n_row * a->k_top, places = whim_moe_places(a);
    int64_t model = (a->gate.k + 31) / 32 * 32, ff = (a->down.k + 31) / 32 * 32;
    whim_moe_regions s;
    s.plan = take(&at, sizeof *s.plan);
    s.segments = take(&at, segments_max(a) * (int64_t)sizeof *s.segments);
    s.place = take(&at, pairs * (int64_t)sizeof *s.place);
    s.source = take(&at, places * (int64_t)sizeof *s.source);
    s.wide = take(&at, places * model * (int64_t)sizeof *s.wide);
    s.act = take(&at, places * ff * (int64_t)sizeof *s.act);
    s.side = (float *)at;
    return s;
}

/* Cut an expert's rows into segments. */
static void expert_segments(whim_moe_plan *plan, whim_moe_segment *segments, int32_t expert,
                            int32_t rows, int32_t place, int64_t chunk)
{
    for (int32_t done = 0; done < rows;) {
        whim_moe_segment *s = &segments[plan->n_segment++];
        int32_t left = rows - done;
        *s = (whim_moe_segment){.expert = expert,
                                .rows = left < chunk ? left : (int32_t)chunk,
                                .place = place + done,
                                .block = (int32_t)plan->n_block,
                                .cost = plan->cost};
        plan->n_block += (s->rows + WHIM_MOE_BLOCK - 1) / WHIM_MOE_BLOCK;
        plan->cost += whim_moe_cost(s);
        done += s->rows;
    }
}

void whim_moe_plan_make(const whim_cpu_moe_args *m, int64_t chunk, int32_t *count)
{
    const whim_moe_experts_args *a = &m->op;
    whim_moe_regions s = whim_moe_regions_of(m);
    int64_t pairs = a->n_row * a->k_top;
    *s.plan = (whim_moe_plan){0};
    memset(count, 0, (size_t)a->n_expert * sizeof *count);
    for (int64_t i = 0; i < pairs; i++) {
        if (a->ids[i] >= 0 && a->ids[i] < a->n_expert) {
            count[a->ids[i]]++;
        }
    }
    int32_t place = 0;
    for (int32_t e = 0; e < a->n_expert; e++) {
        int32_t rows = count[e];
        expert_segments(s.plan, s.segments, e, rows, place, chunk);
        count[e] = place; /* of its next row */
        place += rows + rows % 2;
    }
    for (int64_t i = 0; i < pairs; i++) {
        bool valid = a->ids[i] >= 0 && a->ids[i] < a->n_expert;
        s.place[i] = valid ? count[a->ids[i]]++ : -1;
        if (valid) {
            s.source[s.place[i]] = (int32_t)(i / a->k_top);
        }
    }
}

int64_t whim_moe_segment_at(const whim_moe_regions *space, int64_t n_step, int64_t unit)
{
    int64_t lo = 0, hi = space->plan->n_segment - 1;
    while (lo < hi) {
        int64_t mid = (lo + hi + 1) / 2;
        if (space->segments[mid].cost * n_step <= unit) {
            lo = mid;
        } else {
            hi = mid - 1;
        }
    }
    return lo;
}

int64_t whim_moe_segment_of_block(const whim_moe_regions *space, int64_t block)
{
    int64_t lo = 0, hi = space->plan->n_segment - 1;
    while (lo < hi) {
        int64_t mid = (lo + hi + 1) / 2;
        if (space->segments[mid].block <= block) {
            lo = mid;
        } else {
            hi = mid - 1;
        }
    }
    return lo;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The cut of attention into items. */
#include "backends/cpu/attn_plan.h"

enum { ITEMS_PER_WORKER = 4 }; /* enough that workers end together */

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Pairs of a row and a head of q that share a KV head; a rank may have no heads. */
static int64_t seq_pairs(const whim_attn_paged_args *a, int64_t seq)
{
    int64_t n_row = a->q_start[seq + 1] - a->q_start[seq];
    return a->kv.n_kv > 0 ? n_row * (a->n_head / a->kv.n_kv) : 0;
}

static int64_t seq_segments(const whim_attn_paged_args *a, int64_t seq)
{
    return max64(1, ((int64_t)a->kv_len[seq] + WHIM_KV_SEGMENT - 1) / WHIM_KV_SEGMENT);
}

static int64_t seq_units(const whim_attn_plan *plan, int64_t seq)
{
    int64_t blocks = (seq_pairs(plan->a, seq) + plan->unit_pairs - 1) / plan->unit_pairs;
    return blocks * plan->a->kv.n_kv;
}

/* Number of units; returns the segments of all of them, and of the longest. */
static int64_t count_units(whim_attn_plan *plan, int64_t *longest)
{
    int64_t total = 0;
    plan->n_unit = *longest = 0;
    for (int64_t seq = 0; seq < plan->a->n_seq; seq++) {
        int64_t units = seq_units(plan, seq), segments = seq_segments(plan->a, seq);
        plan->n_unit += units;
        total += units * segments;
        *longest = units > 0 ? max64(*longest, segments) : *longest;
    }
    return total;
}

void whim_attn_plan_make(whim_attn_plan *plan, const whim_attn_paged_args *a, int64_t max_pairs,
                         int64_t granule, int32_t n_worker)
{
    int64_t pairs = 0, most = 1, longest, wanted = ITEMS_PER_WORKER * (int64_t)n_worker;
    for (int64_t seq = 0; seq < a->n_seq; seq++) {
        pairs += seq_pairs(a, seq);
        most = max64(most, seq_pairs(a, seq));
    }
    *plan = (whim_attn_plan){.a = a, .unit_pairs = most < max_pairs ? most : max_pairs};
    int64_t segments = count_units(plan, &longest);
    plan->n_item = plan->n_unit;
    if (n_worker == 1) {
        return;
    }
    bool fits = plan->n_unit <= WHIM_ATTN_COUNTERS &&
                segments <= WHIM_ATTN_PARTIALS / whim_attn_slot_floats(plan);
    if (longest > 1 && longest * wanted > segments && fits) {
        plan->split = true;
        plan->n_item = segments;
        return;
    }
    if (plan->n_unit < wanted) {
        int64_t fewer = max64(granule, pairs * a->kv.n_kv / wanted / granule * granule);
        plan->unit_pairs = fewer < plan->unit_pairs ? fewer : plan->unit_pairs;
        count_units(plan, &longest);
    }
    if (plan->n_unit < n_worker) {
        int64_t fewer = max64(1, pairs * a->kv.n_kv / n_worker);
        plan->unit_pairs = fewer < plan->unit_pairs ? fewer : plan->unit_pairs;
        count_units(plan, &longest);
    }
    plan->n_item = plan->n_unit;
}

void whim_attn_plan_item(const whim_attn_plan *plan, int64_t index, whim_attn_cursor *cursor,
                         whim_attn_item *item)
{
    const whim_attn_paged_args *a = plan->a;
    for (;; cursor->seq++) {
        int64_t units = seq_units(plan, cursor->seq), segments = seq_segments(a, cursor->seq);
        int64_t per_unit = plan->split ? segments : 1, n = units * per_unit;
        if (index < cursor->item + n) {
            int64_t unit = (index - cursor->item) / per_unit, n_kv = a->kv.n_kv;
            /* The last rows see the most keys: they come first, so that the end is evenly
             * shared. */
            int64_t block = units / n_kv - 1 - unit / n_kv;
            int64_t first = block * plan->unit_pairs, left = seq_pairs(a, cursor->seq) - first;
            *item = (whim_attn_item){
                .seq = cursor->seq,
                .kv_head = unit % n_kv,
                .first = first,
                .n_pair = left < plan->unit_pairs ? left : plan->unit_pairs,
                .segment = (index - cursor->item) % per_unit,
                .n_segment = per_unit,
                .unit = cursor->unit + unit,
                .slot = cursor->slot + unit * per_unit,
            };
            return;
        }
        cursor->item += n;
        cursor->unit += units;
        cursor->slot += n;
    }
}

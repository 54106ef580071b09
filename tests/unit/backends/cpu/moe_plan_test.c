/* SPDX-License-Identifier: Apache-2.0 */
/* Rows grouped by expert: every pair has one place of its own, segments hold the rows of one
 * expert, and the workspace that the op's formula gives is enough. */
#include "backends/cpu/moe_plan.h"
#include "base/alloc.h"
#include "base/math/rng.h"

#include "support/cmocka.h"

#include <string.h>

enum { CANARY = 0x5a, TAIL = 256 };

static void check_segments(const whim_moe_regions *s, int64_t chunk, const int32_t *owner)
{
    int64_t cost = 0, block = 0;
    for (int64_t i = 0; i < s->plan->n_segment; i++) {
        const whim_moe_segment *seg = &s->segments[i];
        assert_true(seg->rows > 0 && seg->rows <= chunk && seg->place % 2 == 0);
        assert_true(seg->cost == cost && seg->block == block);
        assert_int_equal(whim_moe_segment_at(s, 3, 3 * cost), i);
        assert_int_equal(whim_moe_segment_of_block(s, block), i);
        cost += whim_moe_cost(seg);
        block += (seg->rows + WHIM_MOE_BLOCK - 1) / WHIM_MOE_BLOCK;
        for (int32_t r = 0; r < seg->rows; r++) {
            assert_int_equal(owner[seg->place + r], seg->expert);
        }
    }
    assert_true(s->plan->cost == cost && s->plan->n_block == block);
}

static void check_plan(int64_t n_row, int64_t n_expert, int64_t k_top, int64_t n_used)
{
    enum { D = 40, FF = 24 };
    int32_t *ids = whim_alloc_array(n_row * k_top, sizeof *ids);
    whim_cpu_moe_args m = {.op = {.gate = {.k = D},
                                  .down = {.k = FF},
                                  .ids = ids,
                                  .n_row = n_row,
                                  .n_expert = n_expert,
                                  .k_top = k_top}};
    int64_t bytes = whim_cpu_moe_space_bytes(&m.op), places = whim_moe_places(&m.op);
    char *space = whim_alloc_array(bytes + TAIL, 1);
    int32_t *count = whim_alloc_array(n_expert, sizeof *count);
    int32_t *owner = whim_alloc_array(places, sizeof *owner);
    memset(space, CANARY, (size_t)(bytes + TAIL));
    memset(owner, 0xff, (size_t)places * sizeof *owner);
    for (int64_t i = 0; i < n_row * k_top; i++) {
        ids[i] = (int32_t)(whim_rng_at(7, (uint64_t)i) % (uint64_t)n_used);
    }
    m.space = space;
    whim_moe_plan_make(&m, 64, count);
    whim_moe_regions s = whim_moe_regions_of(&m);
    for (int64_t i = 0; i < n_row * k_top; i++) {
        if (ids[i] >= n_expert) {
            assert_int_equal(s.place[i], -1);
            continue;
        }
        assert_true(s.place[i] >= 0 && s.place[i] < places && owner[s.place[i]] == -1);
        owner[s.place[i]] = ids[i];
        assert_int_equal(s.source[s.place[i]], i / k_top);
    }
    check_segments(&s, 64, owner);
    memset(s.side, 0, (size_t)(places * 32) * sizeof *s.side); /* the last region, at its largest */
    for (int i = 0; i < TAIL; i++) {
        assert_int_equal(space[bytes + i], CANARY);
    }
    whim_free(space);
    whim_free(ids);
    whim_free(count);
    whim_free(owner);
}

static void every_pair_has_its_place(void **state)
{
    (void)state;
    check_plan(1, 4, 1, 1);
    check_plan(2, 300, 8, 300);
    check_plan(7, 12, 3, 15); /* some ids are no experts */
    check_plan(200, 2, 2, 1);
    check_plan(513, 128, 8, 128);
    check_plan(65, 1, 1, 1);
    check_plan(3, 2, 2, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_has_its_place),
    };
    return cmocka_run_group_tests_name("moe_plan", tests, NULL, NULL);
}

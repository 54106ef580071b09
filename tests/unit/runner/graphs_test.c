/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets and the table of graphs. */
#include "runner/graphs.h"
#include "support/cmocka.h"

#include <stdint.h>

static void sizes_round_up_to_buckets(void **state)
{
    (void)state;
    whim_exec_cfg cfg = {.max_rows = 100, .max_seqs = 7, .max_outs = 48, .max_kept = 5};
    static const struct {
        whim_step_size size, bucket;
    } cases[] = {
        {{1, 1, 0}, {1, 1, 0}},       {{2, 2, 1}, {2, 2, 1}},     {{3, 3, 3}, {4, 4, 4}},
        {{5, 5, 17}, {8, 7, 32}},     {{64, 4, 33}, {64, 4, 48}}, {{65, 7, 48}, {100, 7, 48}},
        {{100, 7, 48}, {100, 7, 48}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_step_size size = cases[i].size;
        whim_graphs_bucket(&size, 0, &cfg);
        assert_int_equal(size.n_row, cases[i].bucket.n_row);
        assert_int_equal(size.n_seq, cases[i].bucket.n_seq);
        assert_int_equal(size.n_out, cases[i].bucket.n_out);
    }
    whim_step_size kept = {5, 1, 1}; /* there is room for no more */
    whim_graphs_bucket(&kept, WHIM_STEP_KEEP, &cfg);
    assert_int_equal(kept.n_row, 5);
}

static const whim_late_step none = {-1, false};

/* The slot of a pass that is not cut. */
static whim_graph_slot *find(whim_graphs *graphs, const whim_step_size *bucket, int32_t flags,
                             const whim_late_step *late)
{
    return whim_graphs_find(graphs, &(whim_graph_key){*bucket, flags, *late, 0});
}

static void buckets_have_one_slot_each(void **state)
{
    (void)state;
    static whim_graphs graphs;
    whim_step_size a = {4, 1, 1}, b = {4, 2, 1}, c = {4, 1, 0};
    whim_graph_slot *slot = find(&graphs, &a, 0, &none);
    assert_non_null(slot);
    assert_null(slot->graph);
    assert_ptr_not_equal(find(&graphs, &b, 0, &none), slot);
    assert_ptr_not_equal(find(&graphs, &c, 0, &none), slot);
    assert_ptr_equal(find(&graphs, &a, 0, &none), slot);
    assert_ptr_equal(find(&graphs, &a, WHIM_STEP_AFTER, &none), slot); /* before the pass */
    assert_ptr_not_equal(find(&graphs, &a, WHIM_STEP_EMBEDS, &none), slot);
    assert_ptr_not_equal(find(&graphs, &a, WHIM_STEP_KEEP, &none), slot);
    whim_graph_key cut = {a, 0, none, 2};
    assert_ptr_not_equal(whim_graphs_find(&graphs, &cut), slot);
    assert_int_equal(graphs.n, 6);
}

static int n_freed;

static void count_free(whim_stream *s, whim_graph *graph)
{
    (void)s;
    assert_non_null(graph);
    n_freed++;
}

static void a_full_table_refuses_new_buckets_only(void **state)
{
    (void)state;
    static whim_graphs graphs;
    static char some_graph;
    static const whim_stream_vt vt = {.graph_free = count_free};
    whim_stream stream = {.vt = &vt};
    for (int64_t i = 0; i < WHIM_GRAPHS_MAX; i++) {
        whim_step_size size = {i + 1, 1, 1};
        whim_graph_slot *slot = find(&graphs, &size, 0, &none);
        assert_non_null(slot);
        slot->graph = i % 2 == 0 ? (whim_graph *)&some_graph : NULL;
    }
    whim_step_size known = {5, 1, 1}, unknown = {1, 2, 1};
    assert_null(find(&graphs, &unknown, 0, &none));
    assert_non_null(find(&graphs, &known, 0, &none));
    whim_graphs_clear(&graphs, &stream);
    assert_int_equal(n_freed, WHIM_GRAPHS_MAX / 2); /* those that were captured */
    assert_non_null(find(&graphs, &unknown, 0, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_round_up_to_buckets),
        cmocka_unit_test(buckets_have_one_slot_each),
        cmocka_unit_test(a_full_table_refuses_new_buckets_only),
    };
    return cmocka_run_group_tests_name("graphs", tests, NULL, NULL);
}

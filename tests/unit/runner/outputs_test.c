/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that give the best tokens instead of logits: they are the best of those logits, in order,
 * in every mix of parts, as graphs and not, on both backends. */
#include "tiny_runner.h"

#include "ops/args/row_args.h"
#include "runner/graphs.h"

static int32_t ids[TINY_CTX];

static void expect_best(whim_runner *runner, int64_t out, const float *logits, int32_t n)
{
    whim_ranked best = whim_exec_best(whim_runner_exec(runner), out);
    uint64_t last = UINT64_MAX;
    assert_int_equal(best.n, n);
    for (int32_t i = 0; i < n; i++) {
        uint64_t key = 0;
        for (int32_t v = 0; v < TINY_VOCAB; v++) {
            uint64_t other = whim_rank_key(logits[v], v);
            key = other < last && other > key ? other : key;
        }
        assert_int_equal(best.ids[i], whim_rank_id(key));
        assert_memory_equal(&best.values[i], &logits[best.ids[i]], sizeof(float));
        last = key;
    }
}

typedef struct want {
    int32_t n_top[2]; /* of the two parts */
    int64_t n_out[2];
    int32_t given; /* best tokens of each output, 0: logits */
} want;

static const want wants[] = {
    {{1, 1}, {1, 3}, 1},
    {{0, 0}, {1, 1}, 0},
    {{5, 1}, {2, 1}, TINY_VOCAB}, /* fewer than 64 */
    {{64, 64}, {1, 1}, TINY_VOCAB},
    {{1, 0}, {1, 1}, 0}, /* one part wants logits */
    {{0, 3}, {4, 2}, 0},
    {{0, 1}, {0, 2}, 1}, /* a part without outputs wants nothing */
    {{1, 50}, {2, 0}, 1},
};

static void best_are_the_best_of_the_logits(tiny_runner *t)
{
    float logits[8][TINY_VOCAB];
    for (size_t w = 0; w < sizeof wants / sizeof wants[0]; w++) {
        for (int pass = 0; pass < 2; pass++) {
            whim_diag diag = {{0}};
            whim_sequence *a = tiny_sequence(t), *b = tiny_sequence(t);
            whim_step_part parts[2] = {{a, ids, 9, wants[w].n_out[0], 0},
                                       {b, ids + 20, 5, wants[w].n_out[1], 0}};
            int64_t n_out = parts[0].n_out + parts[1].n_out;
            for (int i = 0; i < 2 && pass == 1; i++) {
                parts[i].n_top = wants[w].n_top[i];
            }
            assert_int_equal(whim_runner_step(t->runner, parts, 2, &diag), WHIM_ERR_OK);
            for (int64_t i = 0; i < n_out; i++) {
                const float *got = whim_exec_logits(whim_runner_exec(t->runner), i);
                if (pass == 0) {
                    memcpy(logits[i], got, sizeof logits[i]);
                } else if (wants[w].given == 0) {
                    assert_int_equal(whim_exec_best(whim_runner_exec(t->runner), i).n, 0);
                    assert_memory_equal(got, logits[i], sizeof logits[i]);
                } else {
                    assert_null(got);
                    expect_best(t->runner, i, logits[i], wants[w].given);
                }
            }
            whim_runner_sequence_destroy(t->runner, a);
            whim_runner_sequence_destroy(t->runner, b);
        }
    }
}

static void every_mix_of_parts(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    for (int i = 0; i < TINY_CTX; i++) {
        ids[i] = (i * 23 + 7) % TINY_VOCAB;
    }
    for (int i = 0; i < 4; i++) {
        tiny_runner t;
        whim_exec_cfg cfg = tiny_cfg(i % 2 == 1);
        tiny_open(&t, backends[i / 2], &cfg);
        best_are_the_best_of_the_logits(&t);
        tiny_close(&t);
    }
}

static void too_many_are_refused(void **state)
{
    (void)state;
    static const int32_t odd[] = {-1, WHIM_TOPK_MAX + 1};
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    tiny_open(&t, "cpu", &cfg);
    whim_sequence *seq = tiny_sequence(&t);
    for (int i = 0; i < 2; i++) {
        whim_diag diag = {{0}};
        whim_step_part part = {seq, ids, 1, 1, odd[i]};
        assert_int_equal(whim_runner_step(t.runner, &part, 1, &diag), WHIM_ERR_INVALID);
        assert_int_equal(seq->len, 0);
    }
    whim_runner_sequence_destroy(t.runner, seq);
    tiny_close(&t);
}

/* The slot of a pass that is not cut. */
static whim_graph_slot *find(whim_graphs *graphs, const whim_step_size *bucket, int32_t flags,
                             const whim_late_step *late)
{
    return whim_graphs_find(graphs, &(whim_graph_key){*bucket, flags, *late, 0});
}

static void graphs_differ_by_what_they_give(void **state)
{
    (void)state;
    static whim_graphs graphs;
    whim_step_size logits = {4, 1, 1, 0}, best = {4, 1, 1, 1};
    whim_late_step late = {-1, false}, takes = {-1, true};
    assert_ptr_not_equal(find(&graphs, &logits, 0, &late), find(&graphs, &best, 0, &late));
    assert_ptr_equal(find(&graphs, &best, 0, &late), find(&graphs, &best, 0, &late));
    assert_ptr_not_equal(find(&graphs, &best, 0, &late), find(&graphs, &best, 0, &takes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mix_of_parts),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(graphs_differ_by_what_they_give),
    };
    return cmocka_run_group_tests_name("outputs", tests, NULL, NULL);
}

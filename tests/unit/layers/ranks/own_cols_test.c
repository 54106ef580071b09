/* SPDX-License-Identifier: Apache-2.0 */
/* Whose columns are whose, and who takes a group that several have columns of. */
#include "layers/ranks/own_cols.h"

#include "support/cmocka.h"

#include <stdlib.h>

enum { MAX_RANK = 9, MAX_RUN = 4, MAX_CUT = 64, GROUP = 32 };

/* Heads of `d` columns in n_run tiles of n_head each; a rank has some heads of every tile. */
typedef struct shape {
    int64_t n_head, d, block;
    int32_t n_run, n_rank;
    int32_t n_cut; /* groups */
} shape;

static void runs_make(const shape *t, whim_part *runs)
{
    for (int32_t i = 0; i < t->n_rank * t->n_run; i++) {
        whim_part heads = whim_part_of(t->n_head, t->n_rank, i / t->n_run);
        heads.at += i % t->n_run * t->n_head;
        runs[i] = whim_part_times(heads, t->d);
    }
}

/* Columns of each group that ranks bring, and who takes it. */
typedef struct sheet {
    int64_t brought[MAX_CUT];
    int32_t n_taker[MAX_CUT], first[MAX_CUT], taker[MAX_CUT];
} sheet;

static void note(sheet *s, const whim_own_cols *cols, int32_t rank)
{
    for (int32_t i = 0; i < cols->n_here; i++) {
        const whim_cut_group *cut = &cols->here[i];
        assert_in_range(cut->place, 0, cols->n_cut - 1);
        assert_true(cut->at >= 0 && cut->at + GROUP <= cols->width);
        assert_true(cut->own.n > 0 && cut->own.at >= cut->at);
        assert_true(cut->own.at + cut->own.n <= cut->at + GROUP);
        if (s->brought[cut->place] == 0) {
            s->first[cut->place] = rank;
        }
        s->brought[cut->place] += cut->own.n;
        if (cut->takes) {
            s->n_taker[cut->place]++;
            s->taker[cut->place] = rank;
        }
    }
}

static void groups_have_one_taker(void **state)
{
    (void)state;
    static const shape shapes[] = {
        {16, 64, 32, 1, 3, 0}, /* no head ends inside a group */
        {16, 48, 32, 1, 3, 1},  {16, 48, 256, 1, 5, 2},
        {16, 48, 256, 1, 7, 1}, {12, 40, 32, 1, 9, 6}, /* ranks with one head and with two */
        {8, 8, 32, 1, 8, 2},                           /* a group has four ranks */
        {4, 48, 256, 4, 3, 4},  {4, 48, 32, 4, 5, 8},  /* tiles, and ranks without heads */
        {2, 8, 32, 4, 2, 2},                           /* a rank has several pieces of a group */
    };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        const shape *t = &shapes[k];
        whim_part runs[MAX_RANK * MAX_RUN];
        sheet s = {0};
        runs_make(t, runs);
        for (int32_t r = 0; r < t->n_rank; r++) {
            whim_arena arena;
            whim_own_cols cols;
            whim_arena_init(&arena);
            assert_int_equal(whim_own_cols_make(&cols,
                                                &(whim_col_runs){.runs = runs,
                                                                 .n_run = t->n_run,
                                                                 .n_rank = t->n_rank,
                                                                 .rank = r,
                                                                 .block = t->block,
                                                                 .group = GROUP},
                                                &arena),
                             WHIM_ERR_OK);
            assert_int_equal(cols.n_cut, t->n_cut);
            note(&s, &cols, r);
            whim_arena_reset(&arena);
        }
        for (int32_t i = 0; i < t->n_cut; i++) {
            assert_int_equal(s.brought[i], GROUP);
            assert_int_equal(s.n_taker[i], 1);
            assert_int_equal(s.taker[i], s.first[i]);
        }
    }
}

/* Rows that stay floats have no groups. */
static void floats_are_left_alone(void **state)
{
    (void)state;
    const shape t = {16, 48, 1, 1, 3, 0};
    whim_part runs[MAX_RANK];
    whim_arena arena;
    whim_own_cols cols;
    runs_make(&t, runs);
    whim_arena_init(&arena);
    whim_col_runs all = {.runs = runs, .n_run = 1, .n_rank = 3, .rank = 1, .block = 1, .group = 1};
    assert_int_equal(whim_own_cols_make(&cols, &all, &arena), WHIM_ERR_OK);
    assert_int_equal(cols.n_cut, 0);
    assert_int_equal(whim_own_cols_cut_width(&cols), 0);
    assert_int_equal(cols.width, runs[1].n);
    whim_arena_reset(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_have_one_taker),
        cmocka_unit_test(floats_are_left_alone),
    };
    return cmocka_run_group_tests_name("own_cols", tests, NULL, NULL);
}

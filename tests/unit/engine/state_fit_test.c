/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent states in little and in much memory. */
#include "engine/state_fit.h"
#include "support/cmocka.h"

static void states_take_what_there_is(void **state)
{
    (void)state;
    static const struct {
        int64_t left;
        bool may_lower;
        int64_t max_seqs, n_state, then;
    } cases[] = {
        {100000, true, 32, 64, 100000 - 6400}, /* all that was wanted */
        {10000, true, 32, 40, 6000},           /* 6800 left: an eighth is 8 checkpoints */
        {2000, true, 10, 12, 800},    /* half of it is for sequences, and two checkpoints */
        {2000, false, 32, 32, -1200}, /* asked for: the plan will say that it does not fit */
        {150, true, 1, 1, 50},        /* no room for two checkpoints */
        {-500, true, 1, 1, -600},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_state_fit fit = {
            .slot_bytes = 100, .n_checkpoint = 32, .may_lower = cases[i].may_lower, .max_seqs = 32};
        assert_int_equal(whim_state_fit_choose(&fit, cases[i].left), cases[i].then);
        assert_int_equal(fit.max_seqs, cases[i].max_seqs);
        assert_int_equal(fit.n_state, cases[i].n_state);
    }
    whim_state_fit none = {.n_checkpoint = 32, .may_lower = true, .max_seqs = 32};
    assert_int_equal(whim_state_fit_choose(&none, 5), 5);
    assert_true(none.max_seqs == 32 && none.n_state == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(states_take_what_there_is)};
    return cmocka_run_group_tests_name("state_fit", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent states, context and pages in little and in much memory. */
#include "engine/memory_fit.h"
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

/* A page has 100 bytes here, so a token has 3.125. */
typedef struct fit_case {
    int64_t model_ctx, asked_ctx, asked_bytes, n_seq;
    double share;
    int64_t left, ctx, n_page;
} fit_case;

static void the_context_is_what_memory_gives(void **state)
{
    (void)state;
    static const fit_case cases[] = {
        /* serve, a long model: much memory, then a sequence takes half, then the usual, then all,
         * then the least */
        {262144, 0, 0, 8, 0.25, 100000000, 262144, 65536},
        {262144, 0, 0, 8, 0.25, 4000000, 262144, 10000},
        {262144, 0, 0, 8, 0.25, 1000000, 159744, 5000},
        {262144, 0, 0, 8, 0.25, 55000, 8192, 275},
        {262144, 0, 0, 8, 0.25, 50000, 8192, 256},
        {262144, 0, 0, 8, 0.25, 25600, 8192, 256},
        {262144, 0, 0, 8, 0.25, 25500, 7168, 255},
        {262144, 0, 0, 8, 0.25, 5000, 2048, 64},
        {262144, 0, 0, 8, 0.25, -7, 2048, 64},
        /* a short model is served whole, as before */
        {8192, 0, 0, 8, 0.25, 100000000, 8192, 2048},
        {4096, 0, 0, 8, 0.25, 13000, 4096, 128},
        {512, 0, 0, 8, 0.25, 100, 512, 16},
        /* run and chat: one sequence, no share */
        {40960, 0, 0, 1, 0, 1000000, 40960, 1280},
        {40960, 0, 0, 1, 0, 200000, 15360, 500},
        {40960, 0, 0, 1, 0, 50000, 8192, 256},
        {40960, 0, 0, 1, 0, 20000, 6144, 200},
        /* who asks for a context has it, or the plan refuses */
        {262144, 262144, 0, 8, 0.25, 100000, 262144, 8192},
        {262144, 100, 0, 3, 0, 100, 100, 12},
        /* and who asks for bytes has these */
        {262144, 0, 1000, 8, 0.25, 100000, 262144, 10},
        {8192, 64, 50, 1, 0, 100000, 64, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fit_case *c = &cases[i];
        whim_page_fit fit = {.page_bytes = 100,
                             .page_len = 32,
                             .model_ctx = c->model_ctx,
                             .asked_ctx = c->asked_ctx,
                             .asked_bytes = c->asked_bytes,
                             .n_seq = c->n_seq,
                             .share = c->share,
                             .one_share = c->share > 0 ? 0.5 : 0.25};
        whim_page_fit_choose(&fit, c->left);
        if (fit.ctx != c->ctx || fit.n_page != c->n_page) {
            fail_msg("case %zu: a context of %lld in %lld pages", i, (long long)fit.ctx,
                     (long long)fit.n_page);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_take_what_there_is),
        cmocka_unit_test(the_context_is_what_memory_gives),
    };
    return cmocka_run_group_tests_name("memory_fit", tests, NULL, NULL);
}

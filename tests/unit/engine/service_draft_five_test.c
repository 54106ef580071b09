/* SPDX-License-Identifier: Apache-2.0 */
/* Five answers at once with a draft, all of them verified in the same steps, and two in steps that
 * have no room for all that the draft could say: what the runner is given tells that, and each text
 * is the one of a run alone. */
#include "runner/step_block.h"
#include "unit/engine/service_fixture.h"

enum { FIVE = 5, N_PROMPT = 12, N_MADE = 24, ROWS = 64, MAX_OUTS = 40 };

static const char *const kinds[][2] = {
    {"tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-dflash"},
    {"tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-dspark"},
    {"tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-eagle3"},
    {"tests/data/drafts/qwen35-f32-mtp", WHIM_DRAFT_OWN},
};

static int32_t n_asked;    /* answers at once */
static int64_t n_together; /* steps that verify proposals of all of them */

/* Rows behind the prompt, at least two of each sequence. */
static void on_step(void *ctx, const int32_t *block)
{
    (void)ctx;
    const whim_step_head *head = whim_step_head_of(block);
    whim_step_size bucket = whim_step_bucket(block);
    whim_step_layout at = whim_step_layout_of(&bucket);
    const int32_t *starts = block + at.q_start, *positions = block + at.positions;
    int32_t n = 0;
    for (int32_t i = 0; i < head->n_seq; i++) {
        n += starts[i + 1] - starts[i] > 1 && positions[starts[i]] >= N_PROMPT;
    }
    n_together += n == n_asked;
}

static void open_with(const char *model, const char *draft, int64_t max_outs)
{
    whim_diag diag = {""};
    whim_engine_cfg cfg = {.model = model,
                           .draft = draft,
                           .n_thread = 2,
                           .n_flight = 2,
                           .max_step_tokens = ROWS,
                           .max_seqs = FIVE,
                           .max_outs = max_outs,
                           .max_kept = max_outs,
                           .ctx = 64};
    engine = drive_open(&cfg, &diag);
    assert_non_null(engine);
    config = whim_engine_config(engine);
}

/* Greedy and drawn, each with a prompt of its own. */
static whim_job_cfg one_of_five(int32_t k)
{
    static int32_t prompts[FIVE][N_PROMPT];
    whim_job_cfg cfg = job_cfg(k, N_PROMPT, N_MADE);
    for (int32_t i = 0; i < N_PROMPT; i++) {
        prompts[k][i] = (i * (2 * k + 3) + 7 * k) % config->n_vocab;
    }
    cfg.prompt = prompts[k];
    return cfg;
}

static void expect_together(const char *model, const char *draft, int32_t n, int64_t max_outs)
{
    static answer a;
    int32_t plain[FIVE][MAX_MADE];
    whim_job_cfg cfgs[FIVE];
    whim_job *jobs[FIVE];
    whim_diag diag = {""};
    open_with(model, draft, max_outs);
    n_asked = n;
    for (int32_t k = 0; k < n; k++) {
        cfgs[k] = one_of_five(k);
        assert_int_equal(alone(&cfgs[k], plain[k]), N_MADE);
    }
    n_together = 0;
    whim_exec_set_tap(whim_runner_exec(whim_engine_runner(engine)),
                      &(whim_exec_tap){.submitted = on_step});
    whim_service_cfg cfg = {.engine = engine,
                            .max_seqs = FIVE,
                            .max_step_tokens = ROWS,
                            .max_outs = max_outs,
                            .max_waiting = FIVE,
                            .no_lookup = true,
                            .propose_all = true,
                            .meters = &meters};
    memset(&meters, 0, sizeof meters);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_service_submit(service, cfgs, n, jobs, &diag), WHIM_ERR_OK);
    for (int32_t k = 0; k < n; k++) {
        read_all(jobs[k], &a);
        assert_int_equal(a.n[0], N_MADE);
        assert_memory_equal(a.ids[0], plain[k], N_MADE * sizeof(int32_t));
    }
    pages_come_back();
    stop(NULL);
    assert_in_range(n_together, N_MADE / 2, N_MADE);
    assert_true(observed(WHIM_METER_BLOCK_TOKENS) >= n * n_together);
    close_engine(NULL);
}

static void kinds_are_verified_together(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        expect_together(kinds[i][0], kinds[i][1], FIVE, MAX_OUTS);
    }
}

/* A pass of the draft has outputs for the block of one and a part of the other's. */
static void a_block_is_cut_to_what_is_left(void **state)
{
    (void)state;
    expect_together(kinds[0][0], kinds[0][1], 2, 4 + 3); /* blocks of 4 proposals */
    expect_together(kinds[2][0], kinds[2][1], 2, 7 + 3); /* and of 7 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_verified_together),
        cmocka_unit_test(a_block_is_cut_to_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A service whose model is cut over ranks: this thread's engine leads, threads with an engine each
 * follow. Many jobs at once, with steps ahead, proposals by lookup or a draft, checkpoints and too
 * few pages, have the answers of the plainest loop on the same ranks, or on one where they share
 * rows; and a rank that leaves ends them all. */
#include "unit/engine/ranks_fixture.h"

#define LLAMA "tests/data/golden/llama-f32"
#define MOE "tests/data/golden/"
#define DRAFT "tests/data/drafts/"

static int32_t plain[N_JOB][MAX_MADE];

static void make_plain(int32_t n_job)
{
    for (int32_t k = 0; k < n_job; k++) {
        whim_job_cfg cfg = job_cfg(k, 20 + 7 * k, 30);
        alone(&cfg, plain[k]);
    }
}

static void answers_are_plain(int32_t n_job)
{
    static answer a;
    whim_job *jobs[N_JOB];
    for (int32_t k = 0; k < n_job; k++) {
        whim_job_cfg cfg = job_cfg(k, 20 + 7 * k, 30);
        jobs[k] = submit(&cfg);
    }
    for (int32_t k = 0; k < n_job; k++) {
        read_all(jobs[k], &a);
        if (a.failed) {
            fail_msg("job %d: %s", k, a.message);
        }
        assert_int_equal(a.n[0], 30);
        assert_memory_equal(a.ids[0], plain[k], 30 * sizeof(int32_t));
    }
    pages_come_back();
}

static void ranks_give_plain_answers(void **state)
{
    (void)state;
    static const group groups[] = {
        {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 3, N_JOB},
        {"tests/data/golden/qwen35-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 2, N_JOB},
        {LLAMA, NULL, "guard", WHIM_GRAPHS_ON, 3, 4},
        {"tests/data/golden/qwen35-f32", NULL, "guard", WHIM_GRAPHS_ON, 2, 4},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i += ONE_IN) {
        ranks_open(&groups[i]);
        make_plain(groups[i].n_job);
        start(NULL);
        answers_are_plain(groups[i].n_job);
        stop(NULL);
        ranks_close(WHIM_ERR_OK);
    }
}

/* With a draft that is asked before every step. */
static void start_asking(void)
{
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.max_waiting = N_JOB;
    cfg.no_lookup = true;
    cfg.propose_all = true;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
}

/* The same ranks with a draft, which is asked before every step, say what they say without. */
static void a_draft_keeps_the_text(void **state)
{
    (void)state;
    static const group groups[] = {
        {LLAMA, DRAFT "llama-f32-dflash", "cpu", WHIM_GRAPHS_OFF, 2, 3},
        {LLAMA, DRAFT "llama-f32-dflash-tokens", "cpu", WHIM_GRAPHS_OFF, 3, 3},
        {LLAMA, DRAFT "llama-f32-dflash2", "cpu", WHIM_GRAPHS_OFF, 2, 3},
        {LLAMA, DRAFT "llama-f32-dspark", "cpu", WHIM_GRAPHS_OFF, 3, 3},
        {LLAMA, DRAFT "llama-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 2, 3},
        {LLAMA, DRAFT "llama-f32-eagle3-narrow", "guard", WHIM_GRAPHS_ON, 3, 2},
        {DRAFT "qwen35-f32-mtp", WHIM_DRAFT_OWN, "cpu", WHIM_GRAPHS_OFF, 3, 3},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "guard", WHIM_GRAPHS_ON, 2, 2},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i += ONE_IN) {
        group without = groups[i];
        without.draft = NULL;
        ranks_open(&without);
        make_plain(without.n_job);
        ranks_close(WHIM_ERR_OK);
        ranks_open(&groups[i]);
        start_asking();
        answers_are_plain(without.n_job);
        assert_true(whim_service_get_stats(service).n_proposed > 30);
        stop(NULL);
        ranks_close(WHIM_ERR_OK);
    }
}

/* Ranks that share rows, or have whole experts, have the answers of one, with proposals by lookup
 * and by drafts; parts of two that share rows have those of two. */
static void those_who_share_rows_answer_as_one(void **state)
{
    (void)state;
    static const group groups[] = {
        {"tests/data/golden/qwen35-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 3, N_JOB, true},
        {LLAMA, DRAFT "llama-f32-dflash", "cpu", WHIM_GRAPHS_OFF, 2, 3, true},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "guard", WHIM_GRAPHS_ON, 2, 3, true},
        {MOE "qwen3moe-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 3, N_JOB, .deals = true},
        {MOE "minimax-f32", NULL, "guard", WHIM_GRAPHS_ON, 2, 3, .deals = true},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "guard", WHIM_GRAPHS_ON, 2, 3, .deals = true},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "cpu", WHIM_GRAPHS_OFF, 3, 3, .shares = true,
         .deals = true},
        {MOE "qwen3moe-f32", DRAFT "qwen3moe-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 2, 3, true},
        {MOE "minimax-f32", DRAFT "minimax-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 3, 3, true},
        {MOE "qwen3moe-f32", DRAFT "qwen3moe-f32-eagle3", "guard", WHIM_GRAPHS_ON, 2, 2,
         .deals = true},
        {MOE "minimax-f32", DRAFT "minimax-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 2, 3,
         .deals = true},
        {MOE "qwen3moe-f32", DRAFT "qwen3moe-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 3, 3,
         .shares = true, .deals = true},
        {MOE "minimax-f32", DRAFT "minimax-f32-eagle3", "guard", WHIM_GRAPHS_ON, 2, 2,
         .shares = true, .deals = true},
        {"tests/data/golden/qwen35-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 4, N_JOB, true,
         .twos = true},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "guard", WHIM_GRAPHS_ON, 4, 3, true,
         .groups = true, .twos = true},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i += ONE_IN) {
        int32_t n_alike = groups[i].twos && !groups[i].groups ? 2 : 1;
        group one = {groups[i].model, NULL, "cpu", WHIM_GRAPHS_OFF, n_alike, 0, false};
        ranks_open(&one);
        make_plain(groups[i].n_job);
        ranks_close(WHIM_ERR_OK);
        ranks_open(&groups[i]);
        groups[i].draft != NULL ? start_asking() : start(NULL);
        int64_t before = members[0].comm.n_byte;
        answers_are_plain(groups[i].n_job);
        assert_true(members[0].comm.n_byte > before);
        stop(NULL);
        ranks_close(WHIM_ERR_OK);
    }
}

/* A prompt whose pages are known, and the same one alone on one rank: tokens, and the bits of their
 * log-probabilities. */
static void known_pages_change_no_bit(void **state)
{
    (void)state;
    enum { PROMPT = 100, MADE = 12 };
    static const group groups[] = {
        {MOE "qwen3moe-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .shares = true},
        {MOE "minimax-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .shares = true},
        {MOE "qwen35-moe", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .shares = true},
        {MOE "qwen3moe-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .deals = true},
        {MOE "minimax-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .deals = true},
        {MOE "qwen35-moe", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .deals = true},
        {MOE "qwen3moe-f32", NULL, "guard", WHIM_GRAPHS_ON, 2, 0, .groups = true, .deals = true},
        {MOE "minimax-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .groups = true, .deals = true},
        {MOE "qwen35-moe", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, .groups = true, .deals = true},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i += ONE_IN) {
        static answer answers[3];
        group one = {groups[i].model, NULL, "cpu", WHIM_GRAPHS_OFF, 1};
        for (int32_t k = 0; k < 3; k++) {
            if (k < 2) {
                ranks_open(k == 0 ? &one : &groups[i]);
                start(NULL);
            }
            whim_job_cfg cfg = job_cfg(0, PROMPT, MADE);
            cfg.params.want_logprob = true;
            read_all(submit(&cfg), &answers[k]);
            assert_false(answers[k].failed);
            pages_come_back();
            if (k != 1) {
                stop(NULL);
                ranks_close(WHIM_ERR_OK);
            }
        }
        assert_int_equal(answers[1].n_cached, 0);
        assert_int_equal(answers[2].n_cached, 96);
        for (int32_t k = 0; k < 3; k++) {
            assert_int_equal(answers[k].n[0], MADE);
            assert_memory_equal(answers[k].ids[0], answers[0].ids[0], MADE * sizeof(int32_t));
            assert_memory_equal(answers[k].logprobs[0], answers[0].logprobs[0],
                                MADE * sizeof(float));
        }
    }
}

static const group llamas = {LLAMA, NULL, "cpu", WHIM_GRAPHS_OFF, 3, 0};

/* A job under way is told why it ended, and so is the next one. */
static void a_group_that_ends_fails_jobs(void **state)
{
    (void)state;
    static answer a;
    ranks_open(&llamas);
    start(NULL);
    whim_job_cfg cfg = job_cfg(0, 40, 50);
    whim_job *job = submit(&cfg);
    whim_comm_abort(&memory, "rank 2 was killed by signal 9");
    read_all(job, &a);
    assert_true(a.failed);
    assert_int_equal(a.err, WHIM_ERR_DEVICE);
    read_all(submit(&cfg), &a);
    assert_true(a.failed);
    stop(NULL);
    ranks_close(WHIM_ERR_DEVICE);
    /* in a step, or before one */
    assert_non_null(strstr(members[2].diag.text, "rank 2 was killed by signal 9"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_give_plain_answers),
        cmocka_unit_test(a_draft_keeps_the_text),
        cmocka_unit_test(those_who_share_rows_answer_as_one),
        cmocka_unit_test(known_pages_change_no_bit),
        cmocka_unit_test(a_group_that_ends_fails_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

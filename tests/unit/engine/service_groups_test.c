/* SPDX-License-Identifier: Apache-2.0 */
/* A service whose ranks have requests of their own: this thread's engine leads, threads with an
 * engine each follow. Whatever the groups have to do at the same time, answers are those of one
 * rank. */
#include "unit/engine/ranks_fixture.h"

#define GOLDEN "tests/data/golden/"
#define DRAFT "tests/data/drafts/"

enum { PROMPT_STEP = 20, MADE = 30 };

static int32_t plain[N_JOB][MAX_MADE];

static whim_job_cfg cfg_of(int32_t k)
{
    return job_cfg(k, PROMPT_STEP + 7 * k, MADE);
}

/* What one rank answers. */
static void make_plain(const group *like, int32_t n_job)
{
    group one = {like->model, NULL, "cpu", WHIM_GRAPHS_OFF, 1, 0, false, false};
    ranks_open(&one);
    for (int32_t k = 0; k < n_job; k++) {
        whim_job_cfg cfg = cfg_of(k);
        alone(&cfg, plain[k]);
    }
    ranks_close(WHIM_ERR_OK);
}

static void is_plain(whim_job *job, int32_t k)
{
    static answer a;
    read_all(job, &a);
    if (a.failed) {
        fail_msg("job %d: %s", k, a.message);
    }
    assert_int_equal(a.n[0], MADE);
    assert_memory_equal(a.ids[0], plain[k], MADE * sizeof(int32_t));
}

static void answers_are_plain(int32_t n_job)
{
    whim_job *jobs[N_JOB];
    for (int32_t k = 0; k < n_job; k++) {
        whim_job_cfg cfg = cfg_of(k);
        jobs[k] = submit(&cfg);
    }
    for (int32_t k = 0; k < n_job; k++) {
        is_plain(jobs[k], k);
    }
    pages_come_back();
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

/* Many jobs in few pages, so that some are preempted while other groups go on. */
static void groups_answer_as_one(void **state)
{
    (void)state;
    static const group groups[] = {
        {GOLDEN "llama-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 2, N_JOB, false, true},
        {GOLDEN "qwen3moe-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 4, N_JOB, false, true},
        {GOLDEN "minimax-f32", NULL, "guard", WHIM_GRAPHS_ON, 2, 6, false, true},
        {GOLDEN "qwen35-moe", NULL, "cpu", WHIM_GRAPHS_OFF, 2, N_JOB, false, true},
        {GOLDEN "qwen35-moe", NULL, "guard", WHIM_GRAPHS_ON, 4, 6, false, true},
        {GOLDEN "qwen3moe-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 4, N_JOB, false, true, true},
        {GOLDEN "minimax-f32", NULL, "guard", WHIM_GRAPHS_ON, 4, 6, false, true, true},
        {GOLDEN "qwen35-moe", NULL, "cpu", WHIM_GRAPHS_OFF, 2, N_JOB, false, true, true},
    };
    int64_t n_preempted = 0;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i += ONE_IN) {
        make_plain(&groups[i], groups[i].n_job);
        ranks_open(&groups[i]);
        start(NULL);
        answers_are_plain(groups[i].n_job);
        whim_service_stats stats = whim_service_get_stats(service);
        assert_int_equal(stats.sched.pages_total, KV_PAGES * groups[i].n_rank);
        n_preempted += whim_sched_preempted(&stats.sched);
        stop(NULL);
        ranks_close(WHIM_ERR_OK);
    }
    assert_true(n_preempted > 0);
}

/* One job leaves the other groups without anything to propose for. */
static void drafts_keep_the_text(void **state)
{
    (void)state;
    static const group groups[] = {
        {GOLDEN "llama-f32", DRAFT "llama-f32-dflash", "cpu", WHIM_GRAPHS_OFF, 2, 5, false, true},
        {GOLDEN "llama-f32", DRAFT "llama-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 4, 3, false, true},
        {GOLDEN "llama-f32", DRAFT "llama-f32-dflash", "guard", WHIM_GRAPHS_ON, 4, 3, false, true},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "guard", WHIM_GRAPHS_ON, 2, 1, false, true},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "cpu", WHIM_GRAPHS_OFF, 2, 5, false, true},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "cpu", WHIM_GRAPHS_OFF, 4, 3, false, true, true},
        {DRAFT "qwen35-moe-mtp", WHIM_DRAFT_OWN, "guard", WHIM_GRAPHS_ON, 2, 5, false, true, true},
        {GOLDEN "qwen3moe-f32", DRAFT "qwen3moe-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 2, 5, false,
         true, true},
        {GOLDEN "minimax-f32", DRAFT "minimax-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 2, 5, false,
         true, true},
        {GOLDEN "minimax-f32", DRAFT "minimax-f32-eagle3", "guard", WHIM_GRAPHS_ON, 2, 1, false,
         true, true},
        {GOLDEN "llama-f32", DRAFT "llama-f32-dflash", "guard", WHIM_GRAPHS_ON, 2, 5, false, true},
        {GOLDEN "llama-f32", DRAFT "llama-f32-eagle3", "guard", WHIM_GRAPHS_ON, 2, 5, false, true},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i += ONE_IN) {
        make_plain(&groups[i], groups[i].n_job);
        ranks_open(&groups[i]);
        start_asking();
        answers_are_plain(groups[i].n_job);
        assert_true(whim_service_get_stats(service).n_proposed > 20);
        stop(NULL);
        ranks_close(WHIM_ERR_OK);
    }
}

/* Attention over two ranks of each group, of which one may have nothing to propose for: sums are
 * split, so the text is that of the same ranks without a draft. */
static void drafts_keep_the_text_of_cut_groups(void **state)
{
    (void)state;
    static const group groups[] = {
        {GOLDEN "llama-f32", DRAFT "llama-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 4, 5, false, true,
         .twos = true},
        {GOLDEN "qwen3moe-f32", DRAFT "qwen3moe-f32-eagle3", "cpu", WHIM_GRAPHS_OFF, 4, 3, false,
         true, .twos = true},
        {GOLDEN "minimax-f32", DRAFT "minimax-f32-eagle3", "guard", WHIM_GRAPHS_ON, 4, 1, false,
         true, .twos = true},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i += ONE_IN) {
        group without = groups[i];
        without.draft = NULL;
        ranks_open(&without);
        for (int32_t k = 0; k < without.n_job; k++) {
            whim_job_cfg cfg = cfg_of(k);
            alone(&cfg, plain[k]);
        }
        ranks_close(WHIM_ERR_OK);
        ranks_open(&groups[i]);
        start_asking();
        answers_are_plain(groups[i].n_job);
        assert_true(whim_service_get_stats(service).n_proposed > 20);
        stop(NULL);
        ranks_close(WHIM_ERR_OK);
    }
}

static const group llamas = {GOLDEN "llama-f32", NULL, "cpu", WHIM_GRAPHS_OFF, 2, 0, false, true};

/* Log-probabilities of a prompt are those of one rank, while another group answers. */
static void one_group_tells_its_prompt(void **state)
{
    (void)state;
    static answer one, beside;
    whim_job_cfg asks = job_cfg(0, 100, 4);
    asks.prompt_logprobs = 2;
    group single = llamas;
    single.n_rank = 1;
    single.groups = false;
    make_plain(&llamas, 2);
    ranks_open(&single);
    start(NULL);
    read_all(submit(&asks), &one);
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
    ranks_open(&llamas);
    start(NULL);
    whim_job_cfg other = cfg_of(1);
    whim_job *job = submit(&other), *telling = submit(&asks);
    read_all(telling, &beside);
    is_plain(job, 1);
    assert_int_equal(one.n_prompt, 100);
    assert_int_equal(beside.n_prompt, 100);
    assert_memory_equal(one.prompt_logprob, beside.prompt_logprob, 100 * sizeof(float));
    assert_memory_equal(one.ids[0], beside.ids[0], 4 * sizeof(int32_t));
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
}

static int64_t most_said;

static int64_t step_ns(int64_t n_row)
{
    most_said = n_row > most_said ? n_row : most_said;
    return 1000 * n_row;
}

/* Two groups with a request each take the time of one row. */
static void a_step_costs_what_the_largest_group_does(void **state)
{
    (void)state;
    whim_diag diag = {""};
    make_plain(&llamas, 2);
    ranks_open(&llamas);
    whim_service_cfg cfg = service_cfg();
    cfg.no_lookup = true;
    cfg.step_ns = step_ns;
    most_said = 0;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    answers_are_plain(2);
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
    assert_int_equal(most_said, 1);
}

/* A job that is cancelled leaves its own group, at any time of the others' prompts. */
static void one_leaves_while_others_begin(void **state)
{
    (void)state;
    static answer a;
    make_plain(&llamas, 4);
    ranks_open(&llamas);
    start(NULL);
    for (int32_t round = 0; round < 6; round++) {
        whim_job_cfg gone = job_cfg(3, 90 + round, MADE);
        whim_job *leaves = submit(&gone), *jobs[4];
        for (int32_t k = 0; k < 4; k++) {
            whim_job_cfg cfg = cfg_of(k);
            jobs[k] = submit(&cfg);
            if (k == round % 4) {
                whim_job_cancel(leaves, WHIM_REASON_CLIENT_GONE);
            }
        }
        for (int32_t k = 0; k < 4; k++) {
            is_plain(jobs[k], k);
        }
        read_all(leaves, &a);
    }
    pages_come_back();
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
}

/* Two prompts, of which the pages of one group hold one, go to two groups; and when they come again
 * each goes where it is known. */
static void prompts_go_where_they_are_known(void **state)
{
    (void)state;
    enum { LEN = 130 };
    static answer a;
    static int32_t other[LEN], texts[2][20];
    ranks_open(&llamas);
    start(NULL);
    for (int32_t i = 0; i < LEN; i++) {
        other[i] = (words[0][i] + 1 + i % 5) % config->n_vocab;
    }
    for (int32_t round = 0; round < 3; round++) {
        whim_job_cfg first = job_cfg(0, LEN, 20), second = first;
        second.prompt = other;
        whim_job *jobs[] = {submit(round == 1 ? &second : &first),
                            submit(round == 1 ? &first : &second)};
        for (int32_t i = 0; i < 2; i++) {
            read_all(jobs[i], &a);
            assert_false(a.failed);
            assert_int_equal(a.n_cached, round > 0 ? 128 : 0);
            int32_t *text = texts[round == 1 ? 1 - i : i];
            assert_int_equal(a.n[0], 20);
            if (round == 0) {
                memcpy(text, a.ids[0], sizeof texts[0]);
            }
            assert_memory_equal(a.ids[0], text, sizeof texts[0]);
        }
    }
    whim_sched_stats counted = whim_service_get_stats(service).sched;
    assert_int_equal(whim_sched_preempted(&counted), 0);
    stop(NULL);
    ranks_close(WHIM_ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_answer_as_one),
        cmocka_unit_test(drafts_keep_the_text),
        cmocka_unit_test(drafts_keep_the_text_of_cut_groups),
        cmocka_unit_test(one_group_tells_its_prompt),
        cmocka_unit_test(a_step_costs_what_the_largest_group_does),
        cmocka_unit_test(one_leaves_while_others_begin),
        cmocka_unit_test(prompts_go_where_they_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the service finds of earlier requests: pages on disk, states of a hybrid in the tree
 * and on disk. */
#include "unit/engine/service_fixture.h"

#include <stdlib.h>

/* What a service had in its tree, the next one finds on disk: the same answer, and no prompt to
 * feed. */
static void pages_come_from_the_disk(void **state)
{
    (void)state;
    char folder[] = "/tmp/whim_service_XXXXXX", command[64];
    answer cold, warm;
    int64_t cached[2];
    whim_diag diag = {""};
    assert_non_null(mkdtemp(folder));
    whim_service_cfg cfg = service_cfg();
    cfg.kv_dir = folder;
    cfg.kv_space = "test";
    for (int32_t round = 0; round < 2; round++) {
        assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
        whim_job_cfg job = job_cfg(2, 130, 12);
        read_all(submit(&job), round == 0 ? &cold : &warm);
        cached[round] = (round == 0 ? &cold : &warm)->n_cached;
        stop(state);
    }
    assert_int_equal(cached[0], 0);
    assert_int_equal(cached[1], 128);
    assert_memory_equal(cold.ids[0], warm.ids[0], 12 * sizeof(int32_t));
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static int open_drafted(void **state)
{
    (void)state;
    fixture_draft = "tests/data/drafts/llama-f32-dflash";
    int failed = open_model("tests/data/golden/llama-f32");
    fixture_draft = NULL;
    return failed;
}

/* An answer, and how many tokens were proposed for it and right. */
static void answer_counted(int32_t k, answer *a, int64_t counts[2])
{
    whim_service_stats before = whim_service_get_stats(service);
    whim_job_cfg job = job_cfg(k, 130, 20);
    job.params.temperature = 0;
    read_all(submit(&job), a);
    pages_come_back();
    whim_service_stats after = whim_service_get_stats(service);
    counts[0] = after.n_proposed - before.n_proposed;
    counts[1] = after.n_right - before.n_right;
}

/* Pages hold the draft's part, too: written when others need their place, and read back, they
 * propose and say what a cold run does; in the same service and in the next one. */
static void a_draft_comes_from_the_disk(void **state)
{
    char folder[] = "/tmp/whim_service_XXXXXX", command[64];
    static answer cold, other, warm;
    int64_t wanted[2], got[2], ignored[2];
    whim_diag diag = {""};
    assert_non_null(mkdtemp(folder));
    whim_service_cfg cfg = service_cfg();
    cfg.no_lookup = true;
    cfg.propose_all = true;
    cfg.kv_dir = folder;
    cfg.kv_space = "test";
    memset(words[1], 0, 64 * sizeof **words); /* another beginning than words[0] has */
    for (int32_t round = 0; round < 2; round++) {
        assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
        if (round == 0) {
            answer_counted(0, &cold, wanted);
            assert_int_equal(cold.n_cached, 0);
            assert_true(wanted[0] >= 60);
        }
        answer_counted(1, &other, ignored); /* of six pages it needs five */
        whim_service_stats before = whim_service_get_stats(service);
        answer_counted(0, &warm, got);
        whim_service_stats after = whim_service_get_stats(service);
        assert_true(after.disk_hit_tokens - before.disk_hit_tokens >= 96);
        assert_int_equal(warm.n_cached, 128);
        assert_memory_equal(warm.ids[0], cold.ids[0], 20 * sizeof(int32_t));
        assert_memory_equal(got, wanted, sizeof got);
        stop(state);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* A hybrid goes on from pages where a state was kept: where a prompt before ended, and where two of
 * them part, from the second on. */
static void states_are_taken_over(void **state)
{
    (void)state;
    static const struct {
        int32_t k;
        int64_t n_prompt, n_cached;
    } asked[] = {
        {0, 130, 0},  {0, 130, 128}, /* the same again */
        {1, 100, 0},                 /* alike for 64 tokens, but no state is there: it leaves one */
        {2, 100, 64}, {1, 100, 96},
    };
    enum { N = sizeof asked / sizeof asked[0] };
    int32_t ids[N][MAX_MADE];
    answer a;
    for (int32_t i = 0; i < N; i++) {
        whim_job_cfg cfg = job_cfg(asked[i].k, asked[i].n_prompt, 12);
        assert_int_equal(alone(&cfg, ids[i]), 12);
    }
    start(state);
    for (int32_t i = 0; i < N; i++) {
        whim_job_cfg cfg = job_cfg(asked[i].k, asked[i].n_prompt, 12);
        read_all(submit(&cfg), &a);
        assert_false(a.failed);
        assert_int_equal(a.n_cached, asked[i].n_cached);
        assert_memory_equal(a.ids[0], ids[i], 12 * sizeof(int32_t));
    }
    pages_come_back();
}

/* Requests of a hybrid whose states and pages are all driven out by others, and found on disk again:
 * in the same service, in the next one, and after a kill. */
static void states_come_from_the_disk(void **state)
{
    char folder[] = "/tmp/whim_service_XXXXXX", command[96];
    int32_t wanted[3][MAX_MADE];
    answer a;
    whim_diag diag = {""};
    assert_non_null(mkdtemp(folder));
    for (int32_t k = 0; k < 3; k++) {
        whim_job_cfg job = job_cfg(k, 130, 12);
        assert_int_equal(alone(&job, wanted[k]), 12);
    }
    whim_service_cfg cfg = service_cfg();
    cfg.kv_dir = folder;
    cfg.kv_space = "test";
    for (int32_t round = 0; round < 3; round++) {
        assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
        for (int32_t i = 0; i < 4; i++) {
            whim_job_cfg job = job_cfg(i % 3, 130, 12);
            read_all(submit(&job), &a);
            assert_false(a.failed);
            assert_int_equal(a.n[0], 12);
            assert_memory_equal(a.ids[0], wanted[i % 3], 12 * sizeof(int32_t));
            bool again = round > 0 || i == 3;
            assert_true(!again || a.n_cached == 128);
        }
        pages_come_back();
        assert_int_equal(whim_service_get_stats(service).disk_errors, 0);
        stop(state);
    }
    snprintf(command, sizeof command, "rm %s/*/states-*", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg job = job_cfg(0, 130, 12); /* pages alone are of no use */
    read_all(submit(&job), &a);
    assert_int_equal(a.n_cached, 0);
    assert_memory_equal(a.ids[0], wanted[0], 12 * sizeof(int32_t));
    stop(state);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* What is new is saved when nothing else is to be done: then a kill loses nothing. */
static void idle_time_saves(void **state)
{
    char folder[] = "/tmp/whim_service_XXXXXX", copy[64], command[160];
    answer a;
    whim_diag diag = {""};
    assert_non_null(mkdtemp(folder));
    whim_service_cfg cfg = service_cfg();
    cfg.kv_dir = folder;
    cfg.kv_space = "test";
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg job = job_cfg(2, 130, 12);
    read_all(submit(&job), &a);
    while (whim_service_get_stats(service).disk_written < 4 || !whim_service_is_saved(service)) {
        whim_clock_sleep_ns(WHIM_NS_PER_MS);
    }
    snprintf(copy, sizeof copy, "%s-killed", folder);
    snprintf(command, sizeof command, "cp -r %s %s", folder, copy);
    assert_int_equal(system(command), 0);
    stop(state);
    cfg.kv_dir = copy;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    read_all(submit(&job), &a);
    assert_int_equal(a.n_cached, 128);
    stop(state);
    snprintf(command, sizeof command, "rm -r %s %s", folder, copy);
    assert_int_equal(system(command), 0);
}

/* A folder that nobody asked for and that cannot be used is no reason not to start. */
static void a_folder_may_fail(void **state)
{
    answer a;
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.kv_dir = "/dev/null/kv";
    cfg.kv_space = "test";
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_IO);
    assert_non_null(strstr(diag.text, "--kv-dir /dev/null/kv"));
    cfg.kv_dir_may_fail = true;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg job = job_cfg(2, 130, 12);
    read_all(submit(&job), &a);
    assert_false(a.failed);
    assert_int_equal(whim_service_get_stats(service).disk_limit, 0);
    stop(state);
}

static int open_page64(void **state)
{
    (void)state;
    return open_model_on("tests/data/golden/llama-bf16", "guard", "page64");
}

static int open_page128(void **state)
{
    (void)state;
    return open_model_on("tests/data/golden/llama-bf16", "guard", "page128");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_come_from_the_disk),
        cmocka_unit_test(idle_time_saves),
        cmocka_unit_test(a_folder_may_fail),
    };
    const struct CMUnitTest hybrid[] = {
        cmocka_unit_test_teardown(states_are_taken_over, stop),
        cmocka_unit_test(states_come_from_the_disk),
        cmocka_unit_test(idle_time_saves),
    };
    const struct CMUnitTest longer_pages[] = {
        cmocka_unit_test(pages_come_from_the_disk),
    };
    const struct CMUnitTest drafted[] = {
        cmocka_unit_test(a_draft_comes_from_the_disk),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine) +
           cmocka_run_group_tests(drafted, open_drafted, close_engine) +
           cmocka_run_group_tests(longer_pages, open_page64, close_engine) +
           cmocka_run_group_tests(longer_pages, open_page128, close_engine) +
           cmocka_run_group_tests(hybrid, open_hybrid, close_engine);
}

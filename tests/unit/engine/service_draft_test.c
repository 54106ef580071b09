/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals of drafts of every kind: every text is the one that the plainest loop makes, greedy and
 * drawn, penalised, alone and together, out of few pages; and so are log-probabilities. */
#include "unit/draft/draft_variant.h"
#include "unit/engine/circles.h"

#include <float.h>

enum { FEW_PAGES = 3 };

static int open_drafted(const char *model, const char *draft)
{
    fixture_draft = draft;
    int failed = open_model(model);
    fixture_draft = NULL;
    return failed + open_plain();
}

static int open_dflash(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-dflash");
}

static int open_dflash_window(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-dflash-window");
}

static int open_dflash_tokens(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-dflash-tokens");
}

static int open_dflash_qwen3(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/qwen3-f32", "tests/data/drafts/qwen3-f32-dflash");
}

static int open_dspark(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-dspark");
}

static int open_dspark_aligned(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/qwen3-f32",
                        "tests/data/drafts/qwen3-f32-dspark-aligned");
}

static int open_eagle3(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-eagle3");
}

static int open_eagle3_narrow(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-eagle3-narrow");
}

static int open_eagle3_moe(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/qwen3moe-f32", "tests/data/drafts/qwen3moe-f32-eagle3");
}

static int open_eagle3_minimax(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/minimax-f32", "tests/data/drafts/minimax-f32-eagle3");
}

static int open_dflash2(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-dflash2");
}

static int open_dflash2_window(void **state)
{
    (void)state;
    return open_drafted("tests/data/golden/qwen3-f32",
                        "tests/data/drafts/qwen3-f32-dflash2-window");
}

/* Replayed, on a device that nothing may be assumed of. */
static int open_guarded(const char *model, const char *draft)
{
    fixture_draft = draft;
    fixture_graphs = WHIM_GRAPHS_ON;
    is_guarded = true;
    int failed = open_model_on(model, "guard", NULL);
    fixture_graphs = WHIM_GRAPHS_OFF;
    fixture_draft = NULL;
    return failed + open_plain();
}

static int open_guarded_dspark(void **state)
{
    (void)state;
    return open_guarded("tests/data/golden/llama-f32", "tests/data/drafts/llama-f32-dspark");
}

static int open_guarded_eagle3(void **state)
{
    (void)state;
    return open_guarded("tests/data/golden/qwen3moe-f32", "tests/data/drafts/qwen3moe-f32-eagle3");
}

static int open_guarded_mtp(void **state)
{
    (void)state;
    return open_guarded("tests/data/drafts/qwen3next-f32-mtp", WHIM_DRAFT_OWN);
}

/* With hardly a page. */
static int open_few_pages(const char *draft)
{
    open_dflash(NULL); /* the plain texts need more */
    close_engine(NULL);
    fixture_draft = draft;
    fixture_pages = FEW_PAGES;
    int failed = open_model("tests/data/golden/llama-f32");
    fixture_pages = KV_PAGES;
    fixture_draft = NULL;
    return failed;
}

static int open_few_dflash(void **state)
{
    (void)state;
    return open_few_pages("tests/data/drafts/llama-f32-dflash");
}

static int open_few_eagle3(void **state)
{
    (void)state;
    return open_few_pages("tests/data/drafts/llama-f32-eagle3");
}

static void fill_huge(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = FLT_MAX;
    }
}

/* One whose features are no numbers. */
static int open_eagle3_nan(void **state)
{
    (void)state;
    variant_make("llama-f32-eagle3", "\"hidden_act\"", "\"hidden_act\"", "fc.weight", fill_huge);
    int failed = open_drafted("tests/data/golden/llama-f32", tree_root);
    return failed + tree_teardown(NULL);
}

static int open_mtp(void **state)
{
    (void)state;
    return open_drafted("tests/data/drafts/qwen35-f32-mtp", WHIM_DRAFT_OWN);
}

static void a_draft_keeps_the_text(void **state)
{
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.max_waiting = N_JOB;
    cfg.no_lookup = true;
    cfg.propose_all = true;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    answers_are_plain();
    whim_service_stats stats = whim_service_get_stats(service);
    assert_true(stats.n_proposed > n_job() * MAX_MADE / 2 && stats.n_right < stats.n_proposed);
    stop(state);
    cfg.no_draft = true;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    answers_are_plain();
    assert_int_equal(whim_service_get_stats(service).n_proposed, 0);
    stop(state);
}

enum { N_TOLD = 5, TOLD = 30 };

/* Half of the prompts fit in one step. */
static whim_job_cfg telling(int32_t k)
{
    whim_job_cfg cfg = circling(k, TOLD);
    cfg.n_prompt = k % 2 == 0 ? 9 + k : 50 + k;
    cfg.params.want_logprob = true;
    return cfg;
}

/* Answers alone, once more with their prompts cached, and all at once. */
static void tell_all(whim_service_cfg cfg, answer *out)
{
    whim_diag diag = {""};
    whim_job *jobs[N_TOLD];
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    for (int32_t k = 0; k < 2 * N_TOLD; k++) {
        whim_job_cfg job = telling(k / 2);
        read_all(submit(&job), &out[k]);
        assert_true(k % 2 == 0 || out[k].n_cached > 0 || job.n_prompt < 40);
    }
    for (int32_t k = 0; k < N_TOLD; k++) {
        whim_job_cfg job = telling(k);
        jobs[k] = submit(&job);
    }
    for (int32_t k = 0; k < N_TOLD; k++) {
        read_all(jobs[k], &out[2 * N_TOLD + k]);
    }
}

static void a_draft_keeps_log_probabilities(void **state)
{
    static answer plainly[3 * N_TOLD], drafted[3 * N_TOLD];
    whim_service_cfg cfg = service_cfg();
    cfg.max_waiting = N_JOB;
    cfg.no_lookup = true;
    cfg.propose_all = true;
    tell_all(cfg, drafted);
    assert_true(whim_service_get_stats(service).n_proposed > TOLD);
    stop(state);
    cfg.no_draft = true;
    tell_all(cfg, plainly);
    stop(state);
    for (int32_t k = 0; k < 3 * N_TOLD; k++) {
        assert_int_equal(drafted[k].n[0], TOLD);
        assert_true(plainly[k].logprobs[0][0] < 0);
        assert_memory_equal(drafted[k].ids[0], plainly[k].ids[0], TOLD * sizeof(int32_t));
        assert_memory_equal(drafted[k].logprobs[0], plainly[k].logprobs[0], TOLD * sizeof(float));
    }
}

/* An answer up to the end of the context, which may be one token beyond the engine's: the draft is
 * there for the next one. */
static void a_draft_outlives_the_context(void **state)
{
    static answer a;
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.ctx = whim_engine_ctx(engine) + 1;
    cfg.max_waiting = N_JOB;
    cfg.no_lookup = true;
    cfg.propose_all = true;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    for (int32_t k = 0; k < 2; k++) {
        int64_t before = whim_service_get_stats(service).n_proposed;
        whim_job_cfg job = circling(k, 0);
        job.n_prompt = whim_service_ctx(service) - 40;
        read_all(submit(&job), &a);
        assert_int_equal(a.n[0], 40);
        assert_true(whim_service_get_stats(service).n_proposed > before);
    }
    pages_come_back();
    stop(state);
}

/* The last free page: a block that has no place behind it is narrower, an answer fills it to its
 * last token, and of two that want it one waits. */
static void a_draft_leaves_the_last_page(void **state)
{
    static answer a;
    int32_t wanted[2][MAX_MADE];
    whim_diag diag = {""};
    whim_job_cfg both[2] = {circling(0, 24), circling(1, 24)};
    both[0].n_prompt = 50; /* on two pages, and soon in need of a third */
    both[1].n_prompt = 8;  /* which this one has */
    for (int32_t k = 0; k < 2; k++) {
        assert_int_equal(alone(&both[k], wanted[k]), 24);
    }
    whim_service_cfg cfg = service_cfg();
    cfg.max_waiting = N_JOB;
    cfg.no_lookup = true;
    cfg.propose_all = true;
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
    int64_t room = whim_service_ctx(service);
    assert_int_equal(room, FEW_PAGES * 32);
    for (int32_t k = 0; k < 2; k++) {
        whim_job_cfg job = circling(k, 0); /* to the end of all pages */
        read_all(submit(&job), &a);
        assert_int_equal(a.n[0], room - job.n_prompt);
        assert_int_equal(a.end[0], WHIM_END_KV);
        assert_memory_equal(a.ids[0], plain[k], (size_t)a.n[0] * sizeof(int32_t));
        pages_come_back();
    }
    int64_t before = whim_service_get_stats(service).n_proposed;
    whim_job *jobs[2];
    assert_int_equal(whim_service_submit(service, both, 2, jobs, &diag), WHIM_ERR_OK);
    for (int32_t k = 0; k < 2; k++) {
        read_all(jobs[k], &a);
        assert_int_equal(a.n[0], 24);
        assert_memory_equal(a.ids[0], wanted[k], 24 * sizeof(int32_t));
    }
    pages_come_back();
    /* Blocks are cut to the places that there are, not given up. */
    assert_true(whim_service_get_stats(service).n_proposed - before >= 50);
    stop(state);
}

int main(void)
{
    const struct CMUnitTest drafts[] = {
        cmocka_unit_test(a_draft_keeps_the_text), cmocka_unit_test(a_draft_keeps_log_probabilities),
        cmocka_unit_test(a_draft_outlives_the_context),
        cmocka_unit_test(lookup_keeps_the_text), /* with a draft beside it */
    };
    static const struct {
        const char *name;
        int (*open)(void **state);
        /* The address sanitizer sees one of each kind, the thread sanitizer one that proposes at
         * once and one that does step by step. */
        enum { PLAIN, QUICK, THREADS } where;
    } kinds[] = {{"dflash", open_dflash, THREADS},
                 {"window", open_dflash_window, PLAIN},
                 {"tokens", open_dflash_tokens, PLAIN},
                 {"qwen3", open_dflash_qwen3, PLAIN},
                 {"dspark", open_dspark, QUICK},
                 {"aligned", open_dspark_aligned, PLAIN},
                 {"eagle3", open_eagle3, QUICK},
                 {"narrow", open_eagle3_narrow, PLAIN},
                 {"moe", open_eagle3_moe, PLAIN},
                 {"minimax", open_eagle3_minimax, PLAIN},
                 {"dflash2", open_dflash2, QUICK},
                 {"convs", open_dflash2_window, PLAIN},
                 {"nan", open_eagle3_nan, PLAIN},
                 {"mtp", open_mtp, THREADS},
                 {"dspark, guarded", open_guarded_dspark, PLAIN},
                 {"eagle3, guarded", open_guarded_eagle3, PLAIN},
                 {"mtp, guarded", open_guarded_mtp, PLAIN}};
    int lowest = UNDER_TSAN ? THREADS : getenv("TEST_QUICK") != NULL ? QUICK : PLAIN;
    int failed = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((int)kinds[i].where >= lowest) {
            failed +=
                cmocka_run_group_tests_name(kinds[i].name, drafts, kinds[i].open, close_engine);
        }
    }
    is_guarded = false;
    const struct CMUnitTest few[] = {cmocka_unit_test(a_draft_leaves_the_last_page)};
    failed += cmocka_run_group_tests_name("few pages", few, open_few_dflash, close_engine);
    if (!UNDER_TSAN) {
        failed += cmocka_run_group_tests_name("few for eagle3", few, open_few_eagle3, close_engine);
    }
    return failed;
}

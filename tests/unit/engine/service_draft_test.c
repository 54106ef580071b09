/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals of the service: texts that repeat come in fewer steps, and every text is the one that
 * the plainest loop makes, greedy and drawn, penalised, alone and together, out of few pages; ends
 * of every kind fall inside a block. */
#include "unit/draft/draft_variant.h"
#include "unit/engine/service_fixture.h"

#include <float.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { N = 12, FEW_PAGES = 3 };

#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN true
#else
#define UNDER_TSAN false
#endif

static bool is_guarded; /* on a device that takes its time */

/* TEST_QUICK: for emulators and sanitizers. */
static int32_t n_job(void)
{
    return UNDER_TSAN ? 2 : is_guarded || getenv("TEST_QUICK") != NULL ? 4 : N;
}

/* Prompts that go in circles, so that a model without sense does, too. */
static whim_job_cfg circling(int32_t k, int64_t max_tokens)
{
    whim_job_cfg cfg = job_cfg(k, 40 + k, max_tokens);
    static int32_t prompts[N][CTX];
    for (int32_t i = 0; i < CTX; i++) {
        prompts[k][i] = (i % (2 + k % 5) * 7 + k) % config->n_vocab;
    }
    cfg.prompt = prompts[k];
    cfg.params.temperature = k % 3 == 0 ? 0 : 0.05f;
    cfg.params.frequency_penalty = k % 4 == 1 ? 0.001f : 0;
    return cfg;
}

static int32_t plain[N][MAX_MADE]; /* what the plainest loop makes */

static int open_plain(void)
{
    for (int32_t k = 0; k < n_job(); k++) {
        whim_job_cfg cfg = circling(k, MAX_MADE);
        assert_int_equal(alone(&cfg, plain[k]), MAX_MADE);
    }
    return 0;
}

static int open_llama(void **state)
{
    return open_engine(state) + open_plain();
}

static int open_gated_delta(void **state)
{
    return open_hybrid(state) + open_plain();
}

/* A service that tries whatever its source proposes. */
static void start_with(whim_propose_fn propose)
{
    whim_diag diag = {""};
    whim_service_cfg cfg = service_cfg();
    cfg.max_waiting = N_JOB;
    cfg.propose = propose;
    cfg.propose_all = true;
    cfg.meters = &meters;
    memset(&meters, 0, sizeof meters);
    assert_int_equal(whim_service_create(&cfg, &service, &diag), WHIM_ERR_OK);
}

static void answers_are_plain(void)
{
    static answer a;
    whim_job *jobs[N];
    for (int32_t k = 0; k < n_job(); k++) { /* one at a time */
        whim_job_cfg cfg = circling(k, MAX_MADE);
        read_all(submit(&cfg), &a);
        assert_int_equal(a.n[0], MAX_MADE);
        assert_memory_equal(a.ids[0], plain[k], sizeof plain[k]);
    }
    for (int32_t k = 0; k < n_job(); k++) { /* all at once, each with an end of its own */
        whim_job_cfg cfg = circling(k, MAX_MADE - 3 * k);
        jobs[k] = submit(&cfg);
    }
    for (int32_t k = 0; k < n_job(); k++) {
        read_all(jobs[k], &a);
        assert_int_equal(a.n[0], MAX_MADE - 3 * k);
        assert_int_equal(a.end[0], WHIM_END_LENGTH);
        assert_memory_equal(a.ids[0], plain[k], (size_t)a.n[0] * sizeof(int32_t));
    }
    pages_come_back();
}

/* Right ones by place are all that were right, no more at a place than at the one before it; blocks
 * are counted by what came of them. */
static void blocks_are_counted(const whim_service_stats *stats)
{
    int64_t n_right = 0, n_block = 0, before = INT64_MAX;
    for (int32_t i = 0; i < WHIM_LABEL_PLACE_COUNT; i++) {
        int64_t n = whim_meter_get(&meters, RIGHT_AT, i);
        assert_true(n <= before);
        n_right += n;
        before = n;
    }
    for (int32_t i = 0; i <= WHIM_HISTOGRAM_LIMITS_BLOCK_TOKENS; i++) {
        n_block += whim_meter_get(&meters, BLOCK_TOKENS, i);
    }
    assert_int_equal(n_right, stats->n_right);
    assert_in_range(whim_meter_get(&meters, RIGHT_AT, 0), 0, n_block);
    assert_int_equal(whim_meter_get(&meters, BLOCK_TOKENS, WHIM_HISTOGRAM_LIMITS_BLOCK_TOKENS + 1),
                     n_right + n_block);
}

/* --- a draft ---------------------------------------------------------------------------------- */

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

static void lookup_keeps_the_text(void **state)
{
    start_with(NULL);
    answers_are_plain();
    whim_service_stats stats = whim_service_get_stats(service);
    assert_true(stats.n_proposed > 0 && stats.n_right < stats.n_proposed);
    assert_true(stats.n_right > 0 || n_job() < N); /* the hybrid's first texts do not repeat */
    blocks_are_counted(&stats);
    stop(state);
}

/* --- sources that nobody would ship ----------------------------------------------------------- */

/* The text that begins so, from its token n on. */
static const int32_t *known_text(const int32_t *tokens, int64_t *n)
{
    for (int32_t k = 0; k < n_job(); k++) {
        whim_job_cfg cfg = circling(k, MAX_MADE);
        if (*n > cfg.n_prompt &&
            memcmp(tokens, cfg.prompt, (size_t)cfg.n_prompt * sizeof *tokens) == 0) {
            *n -= cfg.n_prompt;
            return plain[k];
        }
    }
    return NULL;
}

static int64_t always_right(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    (void)ctx;
    const int32_t *text = known_text(tokens, &n);
    int64_t m = text == NULL ? 0 : max < MAX_MADE - n ? max : MAX_MADE - n;
    for (int64_t i = 0; i < m; i++) {
        out[i] = text[n + i];
    }
    return m;
}

static int64_t always_wrong(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    int64_t m = always_right(ctx, tokens, n, out, max);
    for (int64_t i = 0; i < m; i++) {
        out[i] = (out[i] + 1) % config->n_vocab;
    }
    return m;
}

/* Wrong at another place each time. */
static int64_t half_right(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    int64_t m = always_right(ctx, tokens, n, out, max);
    if (m > n % 4) {
        out[n % 4] = (out[n % 4] + 1) % config->n_vocab;
    }
    return m;
}

static int64_t senseless(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    (void)ctx;
    const int32_t ids[] = {-1, config->n_vocab, INT32_MAX, INT32_MIN};
    for (int64_t i = 0; i < max; i++) {
        out[i] = ids[(n + tokens[n - 1] + i) % 4];
    }
    return max;
}

static void no_source_changes_the_text(void **state)
{
    start_with(always_right);
    answers_are_plain();
    whim_service_stats stats = whim_service_get_stats(service);
    assert_int_equal(stats.n_right, stats.n_proposed);
    blocks_are_counted(&stats);
    assert_true(stats.n_right > n_job() * MAX_MADE);
    stop(state);
    start_with(always_wrong);
    answers_are_plain();
    stats = whim_service_get_stats(service);
    assert_true(stats.n_right == 0 && stats.n_proposed > n_job() * MAX_MADE);
    stop(state);
    start_with(half_right);
    answers_are_plain();
    stats = whim_service_get_stats(service);
    assert_true(stats.n_right > 0 && stats.n_right < stats.n_proposed);
    stop(state);
    start_with(senseless);
    answers_are_plain();
    assert_int_equal(whim_service_get_stats(service).n_proposed, 0);
    stop(state);
}

/* The token that ends an answer stands in it for the first time where it is one of several that
 * came at once. */
static void ends_fall_inside_a_block(void **state)
{
    static answer a;
    int32_t n_tried = 0;
    start_with(always_right);
    for (int32_t k = 0; k < n_job(); k++) {
        for (int64_t n = 1; n < 40; n += UNDER_TSAN ? 5 : 1) {
            whim_job_cfg cfg = circling(k, 60);
            int64_t first = 0;
            while (plain[k][first] != plain[k][n]) {
                first++;
            }
            if (first < n) {
                continue;
            }
            cfg.stop_ids = &plain[k][n];
            cfg.n_stop_id = 1;
            read_all(submit(&cfg), &a);
            assert_int_equal(a.n[0], n + 1);
            assert_int_equal(a.end[0], WHIM_END_EOS);
            assert_memory_equal(a.ids[0], plain[k], (size_t)a.n[0] * sizeof(int32_t));
            n_tried++;
        }
    }
    assert_true(n_tried >= n_job());
    for (int64_t n = 1; n < 40; n += UNDER_TSAN ? 5 : 1) { /* and every length */
        whim_job_cfg cfg = circling(0, n);
        read_all(submit(&cfg), &a);
        assert_int_equal(a.n[0], n);
        assert_int_equal(a.end[0], WHIM_END_LENGTH);
        assert_memory_equal(a.ids[0], plain[0], (size_t)n * sizeof(int32_t));
    }
    whim_job_cfg cfg = circling(1, 0); /* up to the end of the context */
    cfg.n_prompt = whim_service_ctx(service) - 20;
    read_all(submit(&cfg), &a);
    assert_int_equal(a.n[0], 20);
    pages_come_back();
    stop(state);
}

static _Atomic(whim_job *) victim; /* the one with the first text; NULL: it is on its way */
static int64_t victim_at;          /* tokens made, with which it is cancelled */

/* It is cancelled when its proposals have been found, before the step that verifies them. */
static int64_t right_and_cancelled(void *ctx, const int32_t *tokens, int64_t n, int32_t *out,
                                   int64_t max)
{
    int64_t n_made = n;
    if (known_text(tokens, &n_made) == plain[0] && n_made >= victim_at) {
        whim_job *job = atomic_load(&victim);
        for (; job == NULL; job = atomic_load(&victim)) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS / 10);
        }
        whim_job_cancel(job, WHIM_REASON_CLIENT_GONE);
    }
    return always_right(ctx, tokens, n, out, max);
}

static void cancelled_inside_a_block(void **state)
{
    static answer a;
    start_with(right_and_cancelled);
    for (victim_at = 1; victim_at < 40; victim_at += 5) {
        whim_diag diag = {""};
        whim_job_cfg both[2] = {circling(0, MAX_MADE), circling(1, MAX_MADE)};
        whim_job *jobs[2];
        atomic_store(&victim, NULL);
        assert_int_equal(whim_service_submit(service, both, 2, jobs, &diag), WHIM_ERR_OK);
        atomic_store(&victim, jobs[0]);
        read_all(jobs[0], &a);
        assert_true(a.failed && a.n[0] < MAX_MADE);
        assert_memory_equal(a.ids[0], plain[0], (size_t)a.n[0] * sizeof(int32_t));
        read_all(jobs[1], &a); /* who was in the same steps goes on */
        assert_int_equal(a.n[0], MAX_MADE);
        assert_memory_equal(a.ids[0], plain[1], sizeof plain[1]);
        pages_come_back();
    }
    stop(state);
}

/* A predicted answer comes in fewer steps, and is the same whatever of the prediction is right. */
static void predictions_keep_the_text(void **state)
{
    static answer a;
    for (int32_t wrong_every = 0; wrong_every < 30; wrong_every += 9) {
        start_with(NULL);
        for (int32_t k = 0; k < n_job(); k++) {
            whim_job_cfg cfg = circling(k, MAX_MADE);
            int32_t predicted[MAX_MADE];
            memcpy(predicted, plain[k], sizeof predicted);
            for (int32_t i = wrong_every; wrong_every > 0 && i < MAX_MADE; i += wrong_every) {
                predicted[i] = (predicted[i] + 1) % config->n_vocab;
            }
            cfg.prediction = predicted;
            cfg.n_prediction = MAX_MADE;
            int64_t before = whim_service_get_stats(service).n_step;
            whim_job *job = submit(&cfg);
            memset(predicted, 0xff, sizeof predicted); /* it is the caller's */
            read_all(job, &a);
            assert_int_equal(a.n[0], MAX_MADE);
            assert_memory_equal(a.ids[0], plain[k], sizeof plain[k]);
            pages_come_back();
            int64_t n_step = whim_service_get_stats(service).n_step - before;
            assert_true(wrong_every > 0 || n_step < MAX_MADE / 3);
        }
        stop(state);
    }
}

/* What is switched off proposes nothing. */
static void without_it_there_is_none(void **state)
{
    (void)state;
    static answer a;
    whim_diag diag = {""};
    whim_service_cfg off = service_cfg();
    off.no_lookup = true;
    assert_int_equal(whim_service_create(&off, &service, &diag), WHIM_ERR_OK);
    whim_job_cfg cfg = circling(0, 40);
    read_all(submit(&cfg), &a);
    assert_int_equal(whim_service_get_stats(service).n_proposed, 0);
    stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_keeps_the_text),    cmocka_unit_test(no_source_changes_the_text),
        cmocka_unit_test(ends_fall_inside_a_block), cmocka_unit_test(predictions_keep_the_text),
        cmocka_unit_test(cancelled_inside_a_block), cmocka_unit_test(without_it_there_is_none),
    };
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
    int failed = cmocka_run_group_tests_name("llama", tests, open_llama, close_engine);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((int)kinds[i].where >= lowest) {
            failed +=
                cmocka_run_group_tests_name(kinds[i].name, drafts, kinds[i].open, close_engine);
        }
    }
    is_guarded = false;
    const struct CMUnitTest few[] = {cmocka_unit_test(a_draft_leaves_the_last_page)};
    failed += cmocka_run_group_tests_name("few pages", few, open_few_dflash, close_engine);
    if (!UNDER_TSAN) { /* that sees a hybrid with its own draft */
        failed += cmocka_run_group_tests_name("few for eagle3", few, open_few_eagle3, close_engine);
        failed += cmocka_run_group_tests_name("hybrid", tests, open_gated_delta, close_engine);
    }
    return failed;
}

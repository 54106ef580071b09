/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals that are right for a while, then wrong, then right again, through the whole service with
 * its policy: the text is the plain one, and within 50 tokens of each turn steps are as they should
 * be. Steps are said to cost what those of the default model do, so nothing depends on the
 * machine. */
#include "base/clock.h"
#include "engine/service.h"
#include "support/cmocka.h"
#include "support/drive.h"

#include <string.h>

enum { N_PROMPT = 8, TURN = 120, N_TURN = 3, MADE = TURN * N_TURN, SOON = 50 };

static whim_engine *engine;
static int32_t prompt[N_PROMPT], plain[MADE];

/* What the service did: in which steps, by the tokens that there were, and what it had proposed. */
typedef struct log_of_steps {
    bool is_step[MADE + 1];
    int64_t n_proposed[MADE + 1];
    whim_service *service;
} log_of_steps;
static log_of_steps seen;

static int64_t step_ns(int64_t n_row)
{
    static const int64_t ns[] = {0, 1000, 1330, 1720, 1810, 2100, 2340, 2600, 2830};
    return 1000 * (n_row < 9 ? ns[n_row] : 2830 + 230 * (n_row - 8));
}

/* The first steps with proposals were interrupted. */
static int64_t late_ns(int64_t n_row)
{
    static int32_t n_late;
    bool late = n_row > 1 && n_late < 1;
    n_late += late;
    return late ? 40 * step_ns(n_row) : step_ns(n_row);
}

static int64_t turns(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    (void)tokens;
    bool wrong = ctx == NULL && (n - N_PROMPT) / TURN % 2 == 1;
    int64_t made = n - N_PROMPT, m = max < MADE - made ? max : MADE - made;
    seen.is_step[made] = true;
    seen.n_proposed[made] = whim_service_get_stats(seen.service).n_proposed;
    for (int64_t i = 0; i < m; i++) {
        out[i] = wrong ? plain[made + i] ^ 1 : plain[made + i];
    }
    return m;
}

static void answer(const whim_service_cfg *cfg, int32_t *ids)
{
    whim_diag diag = {""};
    whim_job_cfg ask = {.prompt = prompt,
                        .n_prompt = N_PROMPT,
                        .n_choice = 1,
                        .max_tokens = MADE,
                        .prompt_logprobs = -1,
                        .ignore_eos = true};
    whim_job *job;
    whim_job_event e = {0};
    int64_t n = 0, until = whim_clock_ns() + 60 * WHIM_NS_PER_S;
    whim_sample_params_init(&ask.params);
    ask.params.temperature = 1; /* greedy text of a tiny model soon goes in circles */
    ask.params.seed = 5;
    memset(&seen, 0, sizeof seen);
    assert_int_equal(whim_service_create(cfg, &seen.service, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_service_submit(seen.service, &ask, 1, &job, &diag), WHIM_ERR_OK);
    while (e.kind != WHIM_JOB_DONE) {
        if (!whim_job_next(job, &e)) {
            assert_true(whim_clock_ns() < until);
            whim_clock_sleep_ns(WHIM_NS_PER_MS / 5);
        } else if (e.kind == WHIM_JOB_TOKEN) {
            ids[n++] = e.id;
        }
    }
    assert_int_equal(n, MADE);
    whim_job_release(job);
    whim_service_destroy(seen.service);
}

static int64_t steps_between(int64_t from, int64_t to)
{
    int64_t n = 0;
    for (int64_t i = from; i < to; i++) {
        n += seen.is_step[i];
    }
    return n;
}

/* Tokens proposed in the steps from `from` on that are before `to`. */
static int64_t proposed_between(int64_t from, int64_t to)
{
    while (!seen.is_step[from]) {
        from++;
    }
    while (!seen.is_step[to]) {
        to--;
    }
    return seen.n_proposed[to] - seen.n_proposed[from];
}

static whim_service_cfg service_cfg(void)
{
    return (whim_service_cfg){.engine = engine,
                              .max_seqs = 1,
                              .max_step_tokens = 24,
                              .max_outs = 16,
                              .no_lookup = true,
                              .no_draft = true};
}

static void turns_are_followed_within_50_tokens(void **state)
{
    (void)state;
    static int32_t ids[MADE];
    whim_service_cfg cfg = service_cfg();
    cfg.propose = turns;
    cfg.step_ns = step_ns;
    answer(&cfg, ids);
    assert_memory_equal(ids, plain, sizeof ids);
    assert_true(2 * steps_between(SOON, TURN) < TURN - SOON);
    /* what is wrong is left alone; whether it still is costs nothing to see */
    assert_in_range(proposed_between(TURN + SOON, 2 * TURN), 0, 2);
    assert_true(steps_between(TURN + SOON, 2 * TURN) >= TURN - SOON - 1);
    assert_true(2 * steps_between(2 * TURN + SOON / 2, MADE) < TURN - SOON / 2);
}

static void an_interrupted_step_is_forgiven_within_50_tokens(void **state)
{
    (void)state;
    static int32_t ids[MADE];
    static int always_right;
    whim_service_cfg cfg = service_cfg();
    cfg.propose = turns;
    cfg.propose_ctx = &always_right;
    cfg.step_ns = late_ns;
    answer(&cfg, ids);
    assert_memory_equal(ids, plain, sizeof ids);
    assert_true(2 * steps_between(SOON, TURN) < TURN - SOON);
}

static int open_engine(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_engine_cfg cfg = {.model = "tests/data/golden/llama-bf16",
                           .n_thread = 1,
                           .n_flight = 2,
                           .max_step_tokens = 24,
                           .max_seqs = 1,
                           .max_outs = 16,
                           .ctx = N_PROMPT + MADE};
    engine = drive_open(&cfg, &diag);
    if (engine == NULL) {
        fail_msg("%s", diag.text);
    }
    for (int32_t i = 0; i < N_PROMPT; i++) {
        prompt[i] = 5 + 37 * i % 60;
    }
    whim_service_cfg alone = service_cfg();
    answer(&alone, plain);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    whim_engine_close(engine);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_are_followed_within_50_tokens),
        cmocka_unit_test(an_interrupted_step_is_forgiven_within_50_tokens),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

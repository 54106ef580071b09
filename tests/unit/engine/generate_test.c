/* SPDX-License-Identifier: Apache-2.0 */
/* The loop on a tiny checkpoint, by ids: every kind of end, the same ids from a generator that reuses what it
 * fed as from a fresh one, prompt rows in chunks. Text is the command's tests' matter. */
#include "engine/generate.h"
#include "support/cmocka.h"

#include <stdint.h>

#include "support/drive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 96, N_PROMPT = 40, MAX_OUTS = 5 };

static whim_engine *engine;
static const whim_config *config;
static int32_t prompt[CTX + 1];

static int open_engine(void **state)
{
    (void)state;
    whim_diag diag = {""};
    engine = drive_open(&(whim_engine_cfg){.model = "tests/data/golden/llama-bf16",
                                           .n_thread = 2,
                                           .max_step_tokens = 16,
                                           .max_outs = MAX_OUTS,
                                           .ctx = CTX,
                                           .kv_mem = 1 << 20,
                                           .graphs = true},
                        &diag);
    if (engine == NULL) {
        print_error("%s\n", diag.text);
        return -1;
    }
    config = whim_engine_config(engine);
    for (int32_t i = 0; i <= CTX; i++) {
        prompt[i] = (i * 37 + 5) % config->n_vocab;
    }
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    whim_engine_close(engine);
    return 0;
}

static whim_generator *generator(void)
{
    whim_generator *gen;
    whim_generator_cfg cfg = {.runner = whim_engine_runner(engine),
                              .config = config,
                              .ctx = CTX,
                              .max_step_tokens = 16,
                              .max_outs = MAX_OUTS};
    assert_int_equal(whim_generator_create(&cfg, &gen), WHIM_ERR_OK);
    return gen;
}

static whim_sample_params params;

static whim_generate_request request(int64_t n_prompt, int64_t max_tokens)
{
    whim_sample_params_init(&params);
    params.seed = 5;
    return (whim_generate_request){
        .prompt = prompt, .n_prompt = n_prompt, .params = &params, .max_tokens = max_tokens};
}

static whim_generated run(whim_generator *gen, const whim_generate_request *req)
{
    whim_diag diag = {""};
    whim_generated got;
    if (whim_generate(gen, req, &got, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return got;
}

/* A fresh generator's ids. */
static int64_t cold(const whim_generate_request *req, int32_t *ids)
{
    whim_generator *gen = generator();
    whim_generated got = run(gen, req);
    memcpy(ids, got.ids, (size_t)got.n_id * sizeof *ids);
    assert_int_equal(got.n_reused, 0);
    int64_t n = got.n_id;
    whim_generator_destroy(gen);
    return n;
}

static void length_and_stop_ids_end_it(void **state)
{
    (void)state;
    int32_t ids[CTX], stops[2] = {-1, -1};
    whim_generate_request req = request(N_PROMPT, 20);
    assert_int_equal(cold(&req, ids), 20);
    /* The first id that was not there before it. */
    int at = 5;
    stops[1] = ids[at];
    for (int i = 0; i < at; i++) {
        at = ids[i] == stops[1] ? i : at;
    }
    req.stop_ids = stops;
    req.n_stop_id = 2;
    whim_generator *gen = generator();
    whim_generated got = run(gen, &req);
    assert_int_equal(got.end, WHIM_END_EOS);
    assert_int_equal(got.n_id, at + 1);
    assert_memory_equal(got.ids, ids, (size_t)got.n_id * sizeof *ids);
    req.n_stop_id = 1;
    assert_int_equal(run(gen, &req).end, WHIM_END_LENGTH);
    whim_generator_destroy(gen);
}

/* Only where it is asked for, and what comes before the end is the same. */
static void a_circle_ends_it(void **state)
{
    (void)state;
    enum { REPEATED = 24 };
    int32_t ids[CTX];
    whim_logit_bias bias = {7, 100};
    whim_generate_request req = request(N_PROMPT, 40);
    params.bias = &bias;
    params.n_bias = 1;
    assert_int_equal(cold(&req, ids), 40);
    req.max_repeated = REPEATED;
    whim_generator *gen = generator();
    whim_generated got = run(gen, &req);
    assert_int_equal(got.end, WHIM_END_REPETITION);
    assert_int_equal(got.n_id, REPEATED);
    assert_memory_equal(got.ids, ids, (size_t)got.n_id * sizeof *ids);
    /* The next answer is counted from its own beginning. */
    got = run(gen, &req);
    assert_int_equal(got.n_id, REPEATED);
    req.max_tokens = REPEATED;
    assert_int_equal(run(gen, &req).end, WHIM_END_LENGTH);
    whim_generator_destroy(gen);
}

/* A conversation's turns: the prompt grows, changes at its end, shrinks, is another one. */
static void reuse_changes_nothing(void **state)
{
    (void)state;
    int32_t ids[CTX], other[CTX];
    static const int64_t lengths[] = {10, 40, 40, 25, 1, 70, 60, 60};
    whim_generator *gen = generator();
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        whim_generate_request req = request(lengths[i], 12);
        memcpy(other, prompt, sizeof other);
        if (i >= 6) {
            other[i == 6 ? 50 : 0] ^= 1; /* differs in the middle, then at once */
            req.prompt = other;
        }
        int64_t n = cold(&req, ids);
        whim_generated got = run(gen, &req);
        assert_int_equal(got.n_id, n);
        assert_memory_equal(got.ids, ids, (size_t)n * sizeof *ids);
        int64_t want = i == 0 || i == 7 ? 0 : i == 6 ? 50 : -1;
        if (want >= 0) {
            assert_int_equal(got.n_reused, want);
        } else {
            assert_true(got.n_reused > 0 || lengths[i] == 1);
        }
    }
    whim_generator_destroy(gen);
}

/* The next turn begins with the answer that was just made: only what is new is fed. */
static void an_answer_is_not_fed_again(void **state)
{
    (void)state;
    int32_t longer[CTX], ids[CTX];
    whim_generator *gen = generator();
    whim_generate_request req = request(N_PROMPT, 10);
    whim_generated got = run(gen, &req);
    assert_int_equal(got.n_context, N_PROMPT + 9); /* the last id was not needed */
    memcpy(longer, prompt, N_PROMPT * sizeof *longer);
    memcpy(longer + N_PROMPT, got.ids, 10 * sizeof *longer);
    longer[N_PROMPT + 10] = 3;
    req.prompt = longer;
    req.n_prompt = N_PROMPT + 11;
    int64_t n = cold(&req, ids);
    got = run(gen, &req);
    assert_int_equal(got.n_reused, N_PROMPT + 9);
    assert_int_equal(got.n_id, n);
    assert_memory_equal(got.ids, ids, (size_t)n * sizeof *ids);
    whim_generator_destroy(gen);
}

static void a_full_context_is_told(void **state)
{
    (void)state;
    whim_diag diag = {""};
    whim_generated got;
    whim_generator *gen = generator();
    whim_generate_request req = request(CTX - 3, 0);
    got = run(gen, &req);
    assert_int_equal(got.end, WHIM_END_CONTEXT);
    assert_int_equal(got.n_id, 4); /* the last one needs no place */
    req = request(CTX, 0);
    assert_int_equal(run(gen, &req).n_id, 1);
    req = request(CTX + 1, 0);
    assert_int_equal(whim_generate(gen, &req, &got, &diag), WHIM_ERR_FULL);
    assert_non_null(strstr(diag.text, "97 tokens"));
    req = request(0, 0);
    assert_int_equal(whim_generate(gen, &req, &got, &diag), WHIM_ERR_INVALID);
    req = request(3, 1);
    params.top_p = 7;
    assert_int_equal(whim_generate(gen, &req, &got, &diag), WHIM_ERR_INVALID);
    whim_generator_destroy(gen);
}

static volatile sig_atomic_t flag;
static int n_token;

static void stop_after_three(void *ctx, const whim_sampled *token)
{
    (void)ctx;
    (void)token;
    flag = ++n_token == 3;
}

static void an_interrupt_ends_with_what_was_made(void **state)
{
    (void)state;
    int32_t ids[CTX];
    whim_generator *gen = generator();
    whim_generate_request req = request(N_PROMPT, 30);
    cold(&req, ids);
    req.interrupt = &flag;
    req.events.on_token = stop_after_three;
    flag = 0;
    n_token = 0;
    whim_generated got = run(gen, &req);
    assert_int_equal(got.end, WHIM_END_INTERRUPT);
    assert_int_equal(got.n_id, 3);
    assert_memory_equal(got.ids, ids, 3 * sizeof *ids);
    got = run(gen, &req); /* still set: not even the prompt */
    assert_int_equal(got.end, WHIM_END_INTERRUPT);
    assert_int_equal(got.n_id, 0);
    flag = 0;
    req.events.on_token = NULL;
    got = run(gen, &req); /* and nothing was spoilt */
    assert_memory_equal(got.ids, ids, (size_t)got.n_id * sizeof *ids);
    whim_generator_destroy(gen);
}

static float *rows;
static int64_t n_row;

static void take_row(void *ctx, int64_t i, int32_t id, const float *logits)
{
    (void)ctx;
    assert_int_equal(i, ++n_row);
    assert_int_equal(id, prompt[i]);
    memcpy(rows + i * config->n_vocab, logits, (size_t)config->n_vocab * sizeof *rows);
}

/* Each row alone, in its own run of a shorter prompt, is the row that the chunks gave. */
static void prompt_rows_come_in_chunks(void **state)
{
    (void)state;
    int32_t ids[CTX];
    whim_generate_request req = request(23, 6);
    int64_t n = cold(&req, ids);
    whim_generator *gen = generator();
    run(gen, &req); /* rows are made also of what could be reused */
    rows = calloc((size_t)(23 * config->n_vocab), sizeof *rows);
    n_row = 0;
    req.events.on_prompt_row = take_row;
    whim_generated got = run(gen, &req);
    assert_int_equal(n_row, 22);
    assert_int_equal(got.n_id, n);
    assert_memory_equal(got.ids, ids, (size_t)n * sizeof *ids);
    for (int64_t i = 1; i < 23; i++) {
        whim_sequence *seq;
        whim_runner *runner = whim_engine_runner(engine);
        assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
        for (int64_t at = 0; at < i; at += 16) {
            whim_diag diag;
            int64_t part = i - at < 16 ? i - at : 16;
            whim_step_part p = {seq, prompt + at, part, 1};
            assert_int_equal(whim_runner_step(runner, &p, 1, &diag), WHIM_ERR_OK);
        }
        assert_memory_equal(whim_runner_logits(runner, 0), rows + i * config->n_vocab,
                            (size_t)config->n_vocab * sizeof *rows);
        whim_runner_sequence_destroy(runner, seq);
    }
    free(rows);
    whim_generator_destroy(gen);
}

/* Wanting log-probabilities makes every step give all logits, and must change no id. */
static void the_best_alone_give_the_same_ids(void **state)
{
    (void)state;
    whim_generator *gen = generator();
    for (int t = 0; t < 24; t++) {
        int32_t ids[30];
        for (int all = 0; all < 2; all++) {
            whim_diag diag = {""};
            whim_generated out;
            whim_generate_request req = request(7 + t, 30);
            params.seed = (uint64_t)t;
            params.temperature = t % 4 == 0 ? 0.0f : 0.9f;
            params.top_k = t % 3 == 0 ? 1 : 5 + t;
            params.top_p = t % 2 == 0 ? 1.0f : 0.9f;
            params.want_logprob = all == 1;
            assert_int_equal(whim_generate(gen, &req, &out, &diag), WHIM_ERR_OK);
            assert_int_equal(out.n_id, 30);
            if (all == 0) {
                memcpy(ids, out.ids, sizeof ids);
            } else {
                assert_memory_equal(out.ids, ids, sizeof ids);
            }
            assert_int_equal(whim_sample_best_needed(&params, config->n_vocab) == 0, all);
        }
    }
    whim_generator_destroy(gen);
}

static void stop_ids_are_a_union(void **state)
{
    (void)state;
    whim_config c = {.eos = {7, 9, 7}, .n_eos = 3};
    int32_t ids[4];
    assert_int_equal(whim_stop_ids(&c, NULL, ids, 4), 2);
    assert_int_equal(ids[0], 7);
    assert_int_equal(ids[1], 9);
    assert_int_equal(whim_stop_ids(&c, NULL, ids, 1), 1);
    assert_string_equal(whim_end_name(WHIM_END_STOP), "stop");
    assert_string_equal(whim_end_name(WHIM_END_KV), "context");
    assert_string_equal(whim_end_name(WHIM_END_REPETITION), "repetition");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_and_stop_ids_end_it),
        cmocka_unit_test(a_circle_ends_it),
        cmocka_unit_test(reuse_changes_nothing),
        cmocka_unit_test(an_answer_is_not_fed_again),
        cmocka_unit_test(a_full_context_is_told),
        cmocka_unit_test(an_interrupt_ends_with_what_was_made),
        cmocka_unit_test(prompt_rows_come_in_chunks),
        cmocka_unit_test(the_best_alone_give_the_same_ids),
        cmocka_unit_test(stop_ids_are_a_union),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

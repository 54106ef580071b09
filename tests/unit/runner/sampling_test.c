/* SPDX-License-Identifier: Apache-2.0 */
/* What a step gives: logits to the host where nothing is asked, and where something is, the token
 * that the law of `sample` takes from those logits; in every mix of parts, as graphs and not, on
 * both backends. */
#include "tiny_runner.h"

#include "support/law_sampler.h"

#include "runner/sampling.h"

enum { MAX_OUT = 8 };

static int32_t ids[TINY_CTX];
static const whim_logit_bias bias[] = {{3, 4.0f}, {60, -100.0f}, {3, 0.5f}};
static const uint32_t mask[] = {0xF0F0F0F0, 0x0FF00FF0};

/* A way to choose: greedy, top_k, all tokens, bias, penalties, mask, log-probabilities, given,
 * nothing. */
static whim_sample_ask ask_of(int kind, whim_sample_params *p)
{
    whim_sample_params_init(p);
    p->seed = 11;
    p->temperature = kind == 0 ? 0.0f : 1.5f;
    p->top_k = kind == 1 ? 7 : 0;
    p->bias = bias;
    p->n_bias = kind == 3 ? 3 : 0;
    p->repetition_penalty = kind == 4 ? 1.8f : 1;
    p->frequency_penalty = kind == 4 ? 0.5f : 0;
    p->n_logprob = kind == 6 ? 5 : 0;
    p->want_logprob = kind >= 6;
    return (whim_sample_ask){.params = kind == 8 ? NULL : p,
                             .prompt = ids,
                             .n_prompt = 9,
                             .output = ids + 9,
                             .n_output = 4,
                             .choice = kind,
                             .is_given = kind == 7,
                             .given = 33,
                             .mask = kind == 5 ? mask : NULL,
                             .n_mask_word = 2};
}

static void expect_law(whim_runner *runner, int64_t out, const float *logits, int kind)
{
    whim_sample_params p;
    whim_sampled got, want;
    whim_diag diag = {{0}};
    law_row row = {.logits = logits, .ask = ask_of(kind, &p)};
    assert_int_equal(whim_exec_sampled(whim_runner_exec(runner), out, &got, &diag), WHIM_ERR_OK);
    if (kind == 8) {
        assert_int_equal(got.id, -1);
        return;
    }
    law_sampler law = law_sampler_open(TINY_VOCAB);
    assert_int_equal(law_pick(&law, &p, &row, &want, &diag), WHIM_ERR_OK);
    law_sampler_close(&law);
    assert_int_equal(got.id, want.id);
    assert_memory_equal(&got.logprob, &want.logprob, sizeof got.logprob);
    assert_int_equal(got.n_top, want.n_top);
    assert_int_equal(got.n_top, kind == 6 ? 5 : 0);
    assert_memory_equal(got.top_id, want.top_id, (size_t)got.n_top * sizeof *got.top_id);
    assert_memory_equal(got.top_logprob, want.top_logprob,
                        (size_t)got.n_top * sizeof *got.top_logprob);
}

/* Kinds of the outputs of two parts; -1: logits. */
typedef struct mix {
    int64_t n_out[2];
    int kind[2][4];
} mix;

static const mix mixes[] = {
    {{1, 3}, {{0}, {0, 0, 0}}}, /* the best one is enough */
    {{1, 1}, {{-1}, {-1}}},     /* logits only */
    {{2, 1}, {{1, 0}, {8}}},    /* so are the best few */
    {{1, 1}, {{1}, {1}}},
    {{1, 1}, {{0}, {-1}}}, /* one part wants logits */
    {{4, 2}, {{-1, -1, -1, -1}, {6, 1}}},
    {{0, 2}, {{0}, {0, 8}}}, /* a part without outputs wants nothing */
    {{4, 4}, {{2, 3, 4, 5}, {6, 7, 8, 0}}},
    {{3, 2}, {{7, 7, 2}, {1, 5}}},
    {{1, 0}, {{8}, {0}}},
};

static void step_both_ways(tiny_runner *t, const mix *m)
{
    float logits[MAX_OUT][TINY_VOCAB];
    for (int pass = 0; pass < 2; pass++) {
        whim_diag diag = {{0}};
        whim_sample_params params[2][4];
        whim_sample_ask asks[2][4];
        whim_sequence *seqs[2] = {tiny_sequence(t), tiny_sequence(t)};
        whim_step_part parts[2] = {{seqs[0], ids, 9, m->n_out[0]},
                                   {seqs[1], ids + 20, 5, m->n_out[1]}};
        for (int p = 0; p < 2 && pass == 1; p++) {
            for (int64_t i = 0; i < m->n_out[p]; i++) {
                asks[p][i] = ask_of(m->kind[p][i], &params[p][i]);
            }
            parts[p].asks = m->n_out[p] > 0 && m->kind[p][0] < 0 ? NULL : asks[p];
        }
        assert_int_equal(whim_runner_step(t->runner, parts, 2, &diag), WHIM_ERR_OK);
        for (int64_t i = 0; i < m->n_out[0] + m->n_out[1]; i++) {
            int part = i >= m->n_out[0];
            int kind = m->kind[part][i - part * m->n_out[0]];
            const float *got = whim_exec_logits(whim_runner_exec(t->runner), i);
            if (pass == 0) {
                memcpy(logits[i], got, sizeof logits[i]);
            } else if (kind < 0) {
                assert_memory_equal(got, logits[i], sizeof logits[i]);
            } else {
                assert_null(got);
                expect_law(t->runner, i, logits[i], kind);
            }
        }
        whim_runner_sequence_destroy(t->runner, seqs[0]);
        whim_runner_sequence_destroy(t->runner, seqs[1]);
    }
}

static void for_every_runner(void (*test)(tiny_runner *t))
{
    static const char *const backends[] = {"cpu", "guard"};
    for (int i = 0; i < TINY_CTX; i++) {
        ids[i] = (i * 23 + 7) % TINY_VOCAB;
    }
    for (int i = 0; i < 4; i++) {
        tiny_runner t;
        whim_exec_cfg cfg = tiny_cfg(i % 2 == 1);
        tiny_open(&t, backends[i / 2], &cfg);
        test(&t);
        tiny_close(&t);
    }
}

static void run_mixes(tiny_runner *t)
{
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0]; i++) {
        step_both_ways(t, &mixes[i]);
    }
}

static void every_mix_of_parts(void **state)
{
    (void)state;
    for_every_runner(run_mixes);
}

/* Longer lists than there is room for at once: rows go in groups, and each gets its own. */
static void run_long_lists(tiny_runner *t)
{
    static whim_logit_bias many[MAX_OUT][TINY_VOCAB];
    static const whim_ban bans[] = {{0, 1}};
    static const int32_t banned[] = {0};
    const whim_history_rules rules = {.bans = bans, .n_ban = 1, .ban_ids = banned, .n_ban_id = 1};
    whim_sample_params params[MAX_OUT];
    whim_sample_ask asks[MAX_OUT];
    whim_diag diag = {{0}};
    whim_exec_cfg cfg = tiny_cfg(false);
    int64_t words = 0;
    for (int i = 0; i < MAX_OUT; i++) {
        for (int32_t v = 0; v < TINY_VOCAB; v++) {
            many[i][v] = (whim_logit_bias){v, v == 10 + i ? 100.0f : -100.0f};
        }
        whim_sample_params_init(&params[i]);
        params[i].bias = many[i];
        params[i].n_bias = TINY_VOCAB;
        params[i].history = &rules;
        params[i].repetition_penalty = 1.1f;
        asks[i] = (whim_sample_ask){.params = &params[i], .prompt = ids, .n_prompt = TINY_CTX};
        words += whim_sample_words(&asks[i]);
    }
    assert_true(words > whim_sampling_words(&t->ckpt.config, &cfg));
    whim_sequence *seq = tiny_sequence(t);
    whim_step_part part = {seq, ids, 9, MAX_OUT, .asks = asks};
    assert_int_equal(whim_runner_step(t->runner, &part, 1, &diag), WHIM_ERR_OK);
    for (int i = 0; i < MAX_OUT; i++) {
        whim_sampled got;
        assert_int_equal(whim_exec_sampled(whim_runner_exec(t->runner), i, &got, &diag),
                         WHIM_ERR_OK);
        assert_int_equal(got.id, 10 + i);
    }
    asks[2].n_prompt =
        4 * TINY_CTX + 3000; /* more than a context: refused before anything is read */
    assert_int_equal(whim_runner_step(t->runner, &part, 1, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "words"));
    assert_int_equal(seq->len, 9);
    whim_runner_sequence_destroy(t->runner, seq);
}

static void long_lists_go_in_groups(void **state)
{
    (void)state;
    for_every_runner(run_long_lists);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mix_of_parts),
        cmocka_unit_test(long_lists_go_in_groups),
    };
    return cmocka_run_group_tests_name("sampling", tests, NULL, NULL);
}

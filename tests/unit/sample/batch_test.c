/* SPDX-License-Identifier: Apache-2.0 */
/* The same seed gives the same tokens, alone or in a batch of 7 whose members come and go, with
 * every way of sampling; and another seed gives others. */
#include "sample/sampler.h"
#include "support/cmocka.h"

#include <stdint.h>

#include "support/drive.h"

#include <string.h>

enum { N_SEQ = 7, N_NEW = 40, MAX_PROMPT = 16 };

typedef struct member {
    int32_t prompt[MAX_PROMPT];
    int64_t n_prompt;
    int32_t made[N_NEW];
    int64_t n_made;
    int64_t fed; /* of prompt and made together */
    whim_sample_params params;
    whim_sequence *seq;
} member;

static whim_engine *engine;
static int32_t n_vocab;

static int open_engine(void **state)
{
    (void)state;
    whim_diag diag = {""};
    engine = drive_open(&(whim_engine_cfg){.model = "tests/data/golden/llama-bf16",
                                           .n_thread = 2,
                                           .max_seqs = N_SEQ,
                                           .max_step_tokens = 64,
                                           .ctx = 64,
                                           .graphs = true},
                        &diag);
    if (engine == NULL) {
        print_error("%s\n", diag.text);
        return -1;
    }
    n_vocab = whim_engine_config(engine)->n_vocab;
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    whim_engine_close(engine);
    return 0;
}

static void member_init(member *m, int32_t i, uint64_t seed)
{
    *m = (member){.n_prompt = 3 + i * 2};
    for (int64_t t = 0; t < m->n_prompt; t++) {
        m->prompt[t] = (int32_t)(i * 31 + t * 17) % n_vocab;
    }
    whim_sample_params_init(&m->params);
    m->params.seed = seed + (uint64_t)i;
    m->params.temperature = 0.8f + 0.1f * (float)i;
    m->params.top_k = i == 1 ? 20 : 0;
    m->params.top_p = i == 2 ? 0.8f : 1;
    m->params.min_p = i == 3 ? 0.05f : 0;
    m->params.repetition_penalty = i == 4 ? 1.3f : 1;
    m->params.frequency_penalty = i == 5 ? 0.7f : 0;
}

static whim_step_part part_of(member *m, whim_sample_ask *ask)
{
    bool first = m->n_made == 0;
    *ask = (whim_sample_ask){.params = &m->params,
                             .prompt = m->prompt,
                             .n_prompt = m->n_prompt,
                             .output = m->made,
                             .n_output = m->n_made};
    return (whim_step_part){m->seq, first ? m->prompt : &m->made[m->n_made - 1],
                            first ? m->n_prompt : 1, 1, .asks = ask};
}

static void choose(member *m, int64_t out)
{
    whim_sampled got;
    whim_diag diag = {""};
    whim_runner *runner = whim_engine_runner(engine);
    assert_int_equal(whim_exec_sampled(whim_runner_exec(runner), out, &got, &diag), WHIM_ERR_OK);
    m->made[m->n_made++] = got.id;
}

/* Member i begins at step 2 i, so that the batch is never the same twice at the beginning. */
static void run_together(member *members, int32_t n)
{
    whim_runner *runner = whim_engine_runner(engine);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(whim_runner_sequence_create(runner, &members[i].seq), WHIM_ERR_OK);
    }
    for (int64_t step = 0;; step++) {
        whim_step_part parts[N_SEQ];
        whim_sample_ask asks[N_SEQ];
        member *who[N_SEQ];
        int64_t n_part = 0;
        bool waiting = false;
        for (int32_t i = 0; i < n; i++) {
            waiting = waiting || step < 2 * i;
            if (step >= 2 * i && members[i].n_made < N_NEW) {
                who[n_part] = &members[i];
                parts[n_part] = part_of(&members[i], &asks[n_part]);
                n_part++;
            }
        }
        if (n_part == 0 && !waiting) {
            break;
        }
        whim_diag diag = {""};
        assert_int_equal(whim_runner_step(runner, parts, n_part, &diag), WHIM_ERR_OK);
        for (int64_t i = 0; i < n_part; i++) {
            choose(who[i], i);
        }
    }
    for (int32_t i = 0; i < n; i++) {
        whim_runner_sequence_destroy(runner, members[i].seq);
    }
}

static void alone_or_in_a_batch_of_7(void **state)
{
    (void)state;
    member together[N_SEQ], alone, other;
    int differ = 0;
    for (int32_t i = 0; i < N_SEQ; i++) {
        member_init(&together[i], i, 1000);
    }
    run_together(together, N_SEQ);
    for (int32_t i = 0; i < N_SEQ; i++) {
        member_init(&alone, i, 1000);
        run_together(&alone, 1);
        assert_memory_equal(alone.made, together[i].made, sizeof alone.made);
        member_init(&other, i, 2000);
        run_together(&other, 1);
        differ += memcmp(other.made, alone.made, sizeof alone.made) != 0;
    }
    assert_int_equal(differ, N_SEQ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(alone_or_in_a_batch_of_7)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}

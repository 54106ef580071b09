/* SPDX-License-Identifier: Apache-2.0 */
/* The runner: limits are kept, refusals change nothing, no allocation inside a step, no trace of
 * what used a page before. That the numbers are right is the golden tests' matter. */
#include "tiny_runner.h"

#include "backends/cpu/float_env.h"
#include "base/alloc.h"

#include <math.h>

enum { P = 32 };

static int32_t ids[256];

static int fill_ids(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 256; i++) {
        ids[i] = i * 37 % TINY_VOCAB;
    }
    return 0;
}

static void expect_finite(const tiny_runner *t, int64_t n_out)
{
    for (int64_t i = 0; i < n_out * TINY_VOCAB; i++) {
        assert_true(isfinite(
            whim_exec_logits(whim_runner_exec(t->runner), i / TINY_VOCAB)[i % TINY_VOCAB]));
    }
}

static void sequences_grow_by_their_tokens(void **state)
{
    (void)state;
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    whim_diag diag;
    tiny_open(&t, "cpu", &cfg);
    whim_sequence *a = tiny_sequence(&t), *b = tiny_sequence(&t);
    whim_step_part parts[] = {{a, ids, P + 1, 2}, {b, ids + 40, 3, 0}};
    assert_int_equal(whim_runner_pool(t.runner)->n_free, 8);
    assert_int_equal(whim_runner_step(t.runner, parts, 2, &diag), WHIM_ERR_OK);
    assert_int_equal(a->len, P + 1);
    assert_int_equal(b->len, 3);
    assert_int_equal(whim_runner_pool(t.runner)->n_free, 5);
    expect_finite(&t, 2);
    whim_runner_sequence_destroy(t.runner, a);
    assert_int_equal(whim_runner_pool(t.runner)->n_free, 7);
    whim_runner_sequence_destroy(t.runner, b);
    whim_runner_sequence_destroy(t.runner, NULL);
    assert_int_equal(whim_runner_pool(t.runner)->n_free, 8);
    assert_int_equal(whim_runner_step(t.runner, NULL, 0, &diag), WHIM_ERR_OK); /* nothing to do */
    tiny_close(&t);
}

/* A refused step: the error, a text in the message, and everything as before. */
static void expect_refused(tiny_runner *t, const whim_step_part *parts, int64_t n_part,
                           whim_err err, const char *text)
{
    whim_diag diag = {{0}};
    int64_t len[4], pages[4], free_pages = whim_runner_pool(t->runner)->n_free;
    float before[TINY_VOCAB];
    memcpy(before, whim_exec_logits(whim_runner_exec(t->runner), 0), sizeof before);
    for (int64_t i = 0; i < n_part; i++) {
        len[i] = parts[i].seq->len;
        pages[i] = parts[i].seq->n_page;
    }
    assert_int_equal(whim_runner_step(t->runner, parts, n_part, &diag), err);
    if (strstr(diag.text, text) == NULL) {
        fail_msg("the message lacks \"%s\": %s", text, diag.text);
    }
    for (int64_t i = 0; i < n_part; i++) {
        assert_int_equal(parts[i].seq->len, len[i]);
        assert_int_equal(parts[i].seq->n_page, pages[i]);
    }
    assert_int_equal(whim_runner_pool(t->runner)->n_free, free_pages);
    assert_memory_equal(before, whim_exec_logits(whim_runner_exec(t->runner), 0), sizeof before);
}

static void refusals_change_nothing(void **state)
{
    (void)state;
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    tiny_open(&t, "cpu", &cfg);
    whim_sequence *s[4];
    for (int i = 0; i < 4; i++) {
        s[i] = tiny_sequence(&t);
    }
    tiny_step(&t, s[0], ids, 5, 1);
    expect_refused(&t, &(whim_step_part){s[0], ids, 0, 0}, 1, WHIM_ERR_INVALID, "0 tokens");
    expect_refused(&t, &(whim_step_part){s[0], ids, -3, 0}, 1, WHIM_ERR_INVALID, "-3 tokens");
    expect_refused(&t, &(whim_step_part){s[0], ids, 2, 3}, 1, WHIM_ERR_INVALID, "3 outputs");
    expect_refused(&t, &(whim_step_part){s[0], ids, 2, -1}, 1, WHIM_ERR_INVALID, "-1 outputs");
    expect_refused(&t, &(whim_step_part){s[0], ids, 65, 0}, 1, WHIM_ERR_INVALID, "65 tokens");
    expect_refused(&t, &(whim_step_part){s[0], ids, 9, 9}, 1, WHIM_ERR_INVALID, "9 outputs");
    whim_step_part four[] = {
        {s[0], ids, 1, 1}, {s[1], ids, 1, 1}, {s[2], ids, 1, 1}, {s[3], ids, 1, 1}};
    whim_step_part twice[] = {{s[0], ids, 1, 0}, {s[1], ids, 1, 0}, {s[0], ids, 1, 0}};
    expect_refused(&t, twice, 3, WHIM_ERR_INVALID, "twice");
    expect_refused(&t, four, 4, WHIM_ERR_INVALID, "4 sequences");
    static const int32_t bad[] = {1, TINY_VOCAB, -1};
    expect_refused(&t, &(whim_step_part){s[0], bad, 2, 1}, 1, WHIM_ERR_INVALID, "token id 61");
    expect_refused(&t, &(whim_step_part){s[0], bad + 2, 1, 1}, 1, WHIM_ERR_INVALID, "token id -1");
    for (int i = 0; i < 4; i++) {
        whim_runner_sequence_destroy(t.runner, s[i]);
    }
    tiny_close(&t);
}

static void the_context_and_the_pool_end(void **state)
{
    (void)state;
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(true);
    tiny_open(&t, "cpu", &cfg);
    whim_sequence *a = tiny_sequence(&t), *b = tiny_sequence(&t);
    for (int i = 0; i < 2; i++) {
        tiny_step(&t, a, ids, 64, 1);
    }
    expect_refused(&t, &(whim_step_part){a, ids, 33, 0}, 1, WHIM_ERR_INVALID, "context is 160");
    tiny_step(&t, a, ids, 32, 1); /* to the last position */
    expect_refused(&t, &(whim_step_part){a, ids, 1, 0}, 1, WHIM_ERR_INVALID, "context is 160");
    /* 3 pages are left: the first part alone would fit, both together do not. */
    whim_sequence *c = tiny_sequence(&t);
    whim_step_part parts[] = {{b, ids, 2 * P - 8, 1}, {c, ids, 8, 1}};
    assert_int_equal(whim_runner_pool(t.runner)->n_free, 3);
    tiny_step(&t, b, ids, P, 0);
    expect_refused(&t, parts, 2, WHIM_ERR_FULL, "3 KV pages, 2 are free");
    whim_runner_sequence_destroy(t.runner, a);
    whim_diag diag;
    assert_int_equal(whim_runner_step(t.runner, parts, 2, &diag), WHIM_ERR_OK);
    whim_runner_sequence_destroy(t.runner, b);
    whim_runner_sequence_destroy(t.runner, c);
    tiny_close(&t);
}

/* One step too many leaves its sequence as it was, so that it can be tried again. */
static void a_step_too_many_changes_nothing(void **state)
{
    (void)state;
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    whim_diag diag = {{0}};
    tiny_open(&t, "cpu", &cfg);
    whim_sequence *a = tiny_sequence(&t), *b = tiny_sequence(&t);
    whim_step_part first = {a, ids, 5, 1}, second = {b, ids, 3, 1};
    assert_int_equal(whim_runner_submit(t.runner, &first, 1, &diag), WHIM_ERR_OK);
    int64_t n_free = whim_runner_pool(t.runner)->n_free;
    assert_int_equal(whim_runner_submit(t.runner, &second, 1, &diag), WHIM_ERR_FULL);
    assert_non_null(strstr(diag.text, "are running"));
    assert_int_equal(b->len, 0);
    assert_int_equal(whim_runner_pool(t.runner)->n_free, n_free);
    assert_int_equal(whim_runner_collect(t.runner, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_runner_step(t.runner, &second, 1, &diag), WHIM_ERR_OK);
    whim_runner_sequence_destroy(t.runner, a);
    whim_runner_sequence_destroy(t.runner, b);
    tiny_close(&t);
}

/* Logits of one sequence in one step. */
static void logits_of(tiny_runner *t, const int32_t *tokens, int64_t n, float *out)
{
    whim_sequence *seq = tiny_sequence(t);
    tiny_step(t, seq, tokens, n, 1);
    memcpy(out, whim_exec_logits(whim_runner_exec(t->runner), 0), TINY_VOCAB * sizeof *out);
    whim_runner_sequence_destroy(t->runner, seq);
}

static void used_pages_leave_no_trace(void **state)
{
    (void)state;
    for (int graphs = 0; graphs < 2; graphs++) {
        tiny_runner t;
        whim_exec_cfg cfg = tiny_cfg(graphs != 0);
        float fresh[TINY_VOCAB], later[TINY_VOCAB];
        tiny_open(&t, "cpu", &cfg);
        logits_of(&t, ids, 40, fresh);
        for (int i = 1; i < 4; i++) {
            logits_of(&t, ids + 20 * i, 64, later);
            assert_true(memcmp(fresh, later, sizeof fresh) != 0);
        }
        logits_of(&t, ids, 40, later);
        assert_memory_equal(fresh, later, sizeof fresh);
        tiny_close(&t);
    }
}

/* A sequence that starts with another's full pages has its bits, and leaves them as they are. */
static void shared_pages_are_read_and_kept(void **state)
{
    (void)state;
    for (int graphs = 0; graphs < 2; graphs++) {
        tiny_runner t;
        whim_exec_cfg cfg = tiny_cfg(graphs != 0);
        float alone[TINY_VOCAB];
        tiny_open(&t, "cpu", &cfg);
        logits_of(&t, ids, 60, alone);
        whim_sequence *a = tiny_sequence(&t), *b = tiny_sequence(&t);
        whim_page_pool *pool = whim_runner_pool(t.runner);
        tiny_step(&t, a, ids, 40, 0);
        whim_page_pool_ref(pool, a->pages[0]);
        whim_sequence_share(b, a->pages, 1);
        for (int turn = 0; turn < 2; turn++) { /* both go on from the same page */
            whim_sequence *seq = turn == 0 ? b : a;
            tiny_step(&t, seq, ids + seq->len, 60 - seq->len, 1);
            assert_memory_equal(whim_exec_logits(whim_runner_exec(t.runner), 0), alone,
                                sizeof alone);
        }
        assert_int_equal(whim_runner_pool(t.runner)->n_free, 5);
        whim_runner_sequence_destroy(t.runner, a);
        whim_runner_sequence_destroy(t.runner, b);
        assert_int_equal(whim_runner_pool(t.runner)->n_free, 8);
        tiny_close(&t);
    }
}

static void steps_do_not_allocate(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    for (int b = 0; b < 2; b++) {
        for (int graphs = 0; graphs < 2; graphs++) {
            tiny_runner t;
            whim_exec_cfg cfg = tiny_cfg(graphs != 0);
            tiny_open(&t, backends[b], &cfg);
            int64_t trips = whim_alloc_guard_trips();
            for (int round = 0; round < 2; round++) {
                whim_sequence *seq = tiny_sequence(&t);
                /* From the second round on, even asking for memory would fail. */
                whim_alloc_fail_after(round == 0 ? -1 : 0);
                for (int64_t n = 1; n <= 32; n *= 2) {
                    tiny_step(&t, seq, ids, n, 1);
                }
                whim_alloc_fail_after(-1);
                whim_runner_sequence_destroy(t.runner, seq);
            }
            assert_int_equal(whim_alloc_guard_trips(), trips);
            tiny_close(&t);
        }
    }
}

static void graphs_and_backends_agree(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    float expected[TINY_VOCAB], got[TINY_VOCAB];
    for (int i = 0; i < 4; i++) {
        tiny_runner t;
        whim_exec_cfg cfg = tiny_cfg(i % 2 != 0);
        tiny_open(&t, backends[i / 2], &cfg);
        logits_of(&t, ids, 33, got);
        logits_of(&t, ids, 33, got); /* the graph's replay */
        if (i == 0) {
            memcpy(expected, got, sizeof expected);
        }
        assert_memory_equal(expected, got, sizeof expected);
        tiny_close(&t);
    }
}

/* A pass that could not be recorded whole is never replayed. */
static void a_failed_capture_is_forgotten(void **state)
{
    (void)state;
    float expected[TINY_VOCAB], got[TINY_VOCAB];
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(true);
    whim_diag diag;
    tiny_open(&t, "cpu", &cfg);
    whim_sequence *seq = tiny_sequence(&t);
    whim_step_part part = {seq, ids, 5, 1};
    whim_alloc_fail_after(1); /* the graph, then none of its commands */
    assert_int_equal(whim_runner_step(t.runner, &part, 1, &diag), WHIM_ERR_NO_MEMORY);
    whim_alloc_fail_after(-1);
    whim_runner_sequence_destroy(t.runner, seq);
    logits_of(&t, ids, 5, got);
    tiny_close(&t);
    cfg = tiny_cfg(false);
    tiny_open(&t, "cpu", &cfg);
    logits_of(&t, ids, 5, expected);
    tiny_close(&t);
    assert_memory_equal(expected, got, sizeof expected);
}

/* A caller that flushes subnormals gets the bits of one that does not, and its own mode back. */
static void the_callers_float_mode_changes_nothing(void **state)
{
    (void)state;
    float expected[TINY_VOCAB], got[TINY_VOCAB];
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    tiny_open(&t, "cpu", &cfg);
    logits_of(&t, ids, 5, expected);
    uint64_t before = whim_float_env_enter();
#if defined(__aarch64__)
    const uint64_t odd_mode = UINT64_C(1) << 24 | UINT64_C(3)
                                                      << 22; /* flush to zero, round to zero */
#else
    const uint64_t odd_mode = 0xff80 | 0x40; /* the same */
#endif
    whim_float_env_leave(odd_mode);
    logits_of(&t, ids, 5, got);
    uint64_t after = whim_float_env_enter();
    whim_float_env_leave(before);
    const uint64_t sticky = 0x3f; /* what happened so far, on x86; unused bits elsewhere */
    assert_int_equal(after & ~sticky, odd_mode & ~sticky);
    assert_memory_equal(expected, got, sizeof expected);
    tiny_close(&t);
}

static void hidden_states_come_by_row(void **state)
{
    (void)state;
    for (int graphs = 0; graphs < 2; graphs++) {
        tiny_runner t;
        whim_exec_cfg cfg = tiny_cfg(graphs != 0);
        whim_diag diag;
        cfg.n_capture = 2;
        cfg.fetch_hidden = true;
        cfg.boundary[0] = 2; /* in the order asked for, not that of the model */
        cfg.boundary[1] = 0;
        tiny_open(&t, "cpu", &cfg);
        static const int32_t tokens[] = {7, 9, 7, 7};
        whim_sequence *a = tiny_sequence(&t), *b = tiny_sequence(&t);
        whim_step_part parts[] = {{a, tokens, 3, 1}, {b, tokens + 3, 1, 0}};
        assert_int_equal(whim_runner_step(t.runner, parts, 2, &diag), WHIM_ERR_OK);
        size_t bytes = TINY_WIDTH * sizeof(float);
        const float *row0 = whim_exec_hidden(whim_runner_exec(t.runner), 1, 0);
        /* Boundary 0 is the embedding: the same for a token wherever it stands. */
        assert_memory_equal(row0, whim_exec_hidden(whim_runner_exec(t.runner), 1, 2), bytes);
        assert_memory_equal(row0, whim_exec_hidden(whim_runner_exec(t.runner), 1, 3), bytes);
        assert_true(memcmp(row0, whim_exec_hidden(whim_runner_exec(t.runner), 1, 1), bytes) != 0);
        /* The last boundary knows the past: rows 0 and 3 have none, row 2 has. */
        const float *last0 = whim_exec_hidden(whim_runner_exec(t.runner), 0, 0);
        assert_memory_equal(last0, whim_exec_hidden(whim_runner_exec(t.runner), 0, 3), bytes);
        assert_true(memcmp(last0, whim_exec_hidden(whim_runner_exec(t.runner), 0, 2), bytes) != 0);
        assert_true(memcmp(last0, row0, bytes) != 0);
        whim_runner_sequence_destroy(t.runner, a);
        whim_runner_sequence_destroy(t.runner, b);
        tiny_close(&t);
    }
}

/* Rows on trial leave the recurrent state alone: after a cut the sequence goes on as if they had
 * never been. */
static void a_trial_leaves_no_trace(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    float expected[TINY_VOCAB];
    for (int i = 0; i < 8; i++) {
        tiny_runner t;
        whim_diag diag = {""};
        whim_exec_cfg cfg = tiny_cfg(i % 2 == 1);
        bool tried = i % 4 >= 2;
        cfg.n_state = cfg.max_seqs;
        tiny_load_arch(&t, backends[i / 4], "qwen3_5");
        assert_int_equal(tiny_try(&t, &cfg, &diag), WHIM_ERR_OK);
        whim_sequence *seq = tiny_sequence(&t);
        tiny_step(&t, seq, ids, 37, 0);
        for (int64_t n = 1; n < 30 && tried; n += 9) {
            whim_step_part trial = {seq, ids + 100, n, 1, .keeps_state = true};
            assert_int_equal(whim_runner_step(t.runner, &trial, 1, &diag), WHIM_ERR_OK);
            assert_int_equal(seq->len, 37 + n);
            whim_step_part more = {seq, ids, 1, 1};
            expect_refused(&t, &more, 1, WHIM_ERR_INVALID, "recurrent state of 37");
            assert_int_equal(whim_runner_sequence_cut(t.runner, seq, 37), 37);
        }
        tiny_step(&t, seq, ids + 37, 5, 1);
        if (i == 0) {
            memcpy(expected, whim_exec_logits(whim_runner_exec(t.runner), 0), sizeof expected);
        }
        assert_memory_equal(expected, whim_exec_logits(whim_runner_exec(t.runner), 0),
                            sizeof expected);
        assert_int_equal(whim_runner_sequence_cut(t.runner, seq, 40), 0); /* as ever */
        whim_runner_sequence_destroy(t.runner, seq);
        tiny_close(&t);
    }
}

/* What a trial says of its rows is what they say. */
static void a_trial_says_the_same(void **state)
{
    (void)state;
    float expected[TINY_VOCAB];
    tiny_runner t;
    whim_diag diag = {""};
    whim_exec_cfg cfg = tiny_cfg(false);
    cfg.n_state = cfg.max_seqs;
    tiny_load_arch(&t, "cpu", "qwen3_5");
    assert_int_equal(tiny_try(&t, &cfg, &diag), WHIM_ERR_OK);
    whim_sequence *seq = tiny_sequence(&t);
    tiny_step(&t, seq, ids, 20, 0);
    whim_step_part part = {seq, ids + 20, 7, 1, .keeps_state = true};
    assert_int_equal(whim_runner_step(t.runner, &part, 1, &diag), WHIM_ERR_OK);
    memcpy(expected, whim_exec_logits(whim_runner_exec(t.runner), 0), sizeof expected);
    assert_int_equal(whim_runner_sequence_cut(t.runner, seq, 20), 20);
    part.keeps_state = false; /* the rows again, for good */
    assert_int_equal(whim_runner_step(t.runner, &part, 1, &diag), WHIM_ERR_OK);
    assert_memory_equal(expected, whim_exec_logits(whim_runner_exec(t.runner), 0), sizeof expected);
    assert_int_equal(seq->state_at, 27);
    whim_runner_sequence_destroy(t.runner, seq);
    tiny_close(&t);
}

static void opening_survives_a_lack_of_memory(void **state)
{
    (void)state;
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(true);
    tiny_load(&t, "cpu");
    whim_err err = WHIM_ERR_NO_MEMORY;
    int64_t n = 0;
    for (; err != WHIM_ERR_OK; n++) {
        whim_diag diag = {{0}};
        assert_true(n < 1000);
        whim_alloc_fail_after(n);
        err = tiny_try(&t, &cfg, &diag);
        whim_alloc_fail_after(-1);
        assert_true(err == WHIM_ERR_OK || err == WHIM_ERR_NO_MEMORY);
        assert_true(err == WHIM_ERR_OK || diag.text[0] != '\0');
    }
    assert_true(n > 3);
    tiny_close(&t);
}

static void the_plan_is_measured(void **state)
{
    (void)state;
    tiny_runner t;
    whim_exec_cfg cfg = tiny_cfg(false);
    whim_exec_plan plan, wide;
    whim_diag diag = {{0}};
    tiny_load(&t, "cpu");
    assert_int_equal(
        whim_exec_measure(&t.ckpt.config, t.def, t.model, t.device, &cfg, &plan, &diag),
        WHIM_ERR_OK);
    /* 2 layers, keys and values, 32 positions, 2 heads of 8 floats. */
    assert_int_equal(plan.page_bytes, 2 * 2 * P * 2 * 8 * 4);
    assert_int_equal(plan.kv_bytes, 8 * plan.page_bytes);
    assert_true(plan.output_bytes >= 8 * TINY_VOCAB * 4);
    cfg.max_rows *= 2;
    assert_int_equal(
        whim_exec_measure(&t.ckpt.config, t.def, t.model, t.device, &cfg, &wide, &diag),
        WHIM_ERR_OK);
    assert_true(wide.activation_bytes > plan.activation_bytes * 3 / 2);
    assert_true(wide.activation_bytes <= plan.activation_bytes * 2);
    cfg.n_page = INT64_C(1) << 40;
    assert_int_equal(
        whim_exec_measure(&t.ckpt.config, t.def, t.model, t.device, &cfg, &wide, &diag),
        WHIM_ERR_INVALID);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_grow_by_their_tokens),
        cmocka_unit_test(refusals_change_nothing),
        cmocka_unit_test(the_context_and_the_pool_end),
        cmocka_unit_test(a_step_too_many_changes_nothing),
        cmocka_unit_test(used_pages_leave_no_trace),
        cmocka_unit_test(shared_pages_are_read_and_kept),
        cmocka_unit_test(steps_do_not_allocate),
        cmocka_unit_test(graphs_and_backends_agree),
        cmocka_unit_test(a_failed_capture_is_forgotten),
        cmocka_unit_test(the_callers_float_mode_changes_nothing),
        cmocka_unit_test(hidden_states_come_by_row),
        cmocka_unit_test(a_trial_leaves_no_trace),
        cmocka_unit_test(a_trial_says_the_same),
        cmocka_unit_test(opening_survives_a_lack_of_memory),
        cmocka_unit_test(the_plan_is_measured),
    };
    return cmocka_run_group_tests_name("runner", tests, fill_ids, NULL);
}

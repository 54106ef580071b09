/* SPDX-License-Identifier: Apache-2.0 */
/* Rows on trial, of which the first are taken: recurrent states go on by them as if they had been
 * fed for good, whatever came behind them, in one sequence or several, eagerly and by graphs. */
#include "tiny_runner.h"

enum { N_SEQ = 3, N_TOK = 60, FIRST = 9, KEPT = 11 };

static int32_t tokens[N_SEQ][N_TOK];
static float expected[N_SEQ][N_TOK][TINY_VOCAB]; /* after each token, one row at a time */

static void start_hybrid(tiny_runner *t, bool graphs)
{
    whim_diag diag = {""};
    whim_exec_cfg cfg = tiny_cfg(graphs);
    cfg.n_state = cfg.max_seqs;
    cfg.max_outs = 16;
    cfg.max_kept = KEPT;
    if (tiny_try(t, &cfg, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

static void open_hybrid(tiny_runner *t, const char *backend, bool graphs)
{
    tiny_load_arch(t, backend, "qwen3_5");
    start_hybrid(t, graphs);
}

static int make_expected(void **state)
{
    (void)state;
    tiny_runner t;
    open_hybrid(&t, "cpu", false);
    for (int32_t s = 0; s < N_SEQ; s++) {
        whim_sequence *seq = tiny_sequence(&t);
        for (int32_t i = 0; i < N_TOK; i++) {
            tokens[s][i] = (i * 37 + s * 11 + i / 7) % TINY_VOCAB;
            tiny_step(&t, seq, &tokens[s][i], 1, 1);
            memcpy(expected[s][i], whim_exec_logits(whim_runner_exec(t.runner), 0),
                   sizeof expected[s][i]);
        }
        whim_runner_sequence_destroy(t.runner, seq);
    }
    tiny_close(&t);
    return 0;
}

/* What a sequence does in a round. */
typedef struct turn {
    int32_t rows[4];
    int64_t n_row, n_right;
    bool on_trial;
} turn;

static turn turn_of(const whim_sequence *seq, int32_t s, int32_t round)
{
    int64_t left = N_TOK - seq->len;
    turn u = {.n_row = 1 + (round + s) % 4, .on_trial = (round + 2 * s) % 5 > 0};
    u.n_row = u.n_row < left ? u.n_row : left;
    u.n_right = u.on_trial ? (round * 3 + s) % (u.n_row + 1) : u.n_row;
    for (int64_t i = 0; i < u.n_row; i++) {
        u.rows[i] = (tokens[s][seq->len + i] + (i >= u.n_right)) % TINY_VOCAB;
    }
    return u;
}

/* One step of all sequences that have tokens left; false: none has. */
static bool play(tiny_runner *t, whim_sequence *const *seqs, int32_t round)
{
    whim_step_part parts[N_SEQ];
    whim_taken taken[N_SEQ];
    turn turns[N_SEQ];
    whim_diag diag = {""};
    int64_t n = 0, n_taken = 0, out = 0;
    for (int32_t s = 0; s < N_SEQ; s++) {
        turns[s] = turn_of(seqs[s], s, round);
        if (turns[s].n_row > 0) {
            parts[n++] = (whim_step_part){seqs[s], turns[s].rows, turns[s].n_row, turns[s].n_row,
                                          .keeps_state = turns[s].on_trial};
        }
    }
    if (n == 0) {
        return false;
    }
    assert_int_equal(whim_runner_step(t->runner, parts, n, &diag), WHIM_ERR_OK);
    for (int32_t s = 0; s < N_SEQ; s++) {
        int64_t before = seqs[s]->len - turns[s].n_row;
        for (int64_t i = 0; i < turns[s].n_right; i++) {
            assert_memory_equal(whim_exec_logits(whim_runner_exec(t->runner), out + i),
                                expected[s][before + i], sizeof expected[s][0]);
        }
        out += turns[s].n_row;
        if (turns[s].on_trial && turns[s].n_right > 0) {
            taken[n_taken++] = (whim_taken){seqs[s], turns[s].n_right};
        }
    }
    if (whim_runner_advance(t->runner, taken, n_taken, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    for (int32_t s = 0; s < N_SEQ; s++) {
        int64_t len = seqs[s]->len - turns[s].n_row + turns[s].n_right;
        assert_int_equal(whim_runner_sequence_cut(t->runner, seqs[s], len), len);
    }
    return true;
}

static void taken_rows_were_fed(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    for (int i = 0; i < 4; i++) {
        tiny_runner t;
        whim_sequence *seqs[N_SEQ];
        open_hybrid(&t, backends[i / 2], i % 2 == 1);
        for (int32_t s = 0; s < N_SEQ; s++) {
            seqs[s] = tiny_sequence(&t);
            if (s < 2) { /* the last has its first rows on trial */
                tiny_step(&t, seqs[s], tokens[s], FIRST * s + 1, 0);
            }
        }
        int32_t round = 0;
        while (play(&t, seqs, round)) {
            assert_true(++round < 200);
        }
        assert_true(round > 15);
        for (int32_t s = 0; s < N_SEQ; s++) {
            whim_runner_sequence_destroy(t.runner, seqs[s]);
        }
        tiny_close(&t);
    }
}

static void expect_refused(tiny_runner *t, whim_sequence *seq, int64_t n_row, const char *text)
{
    whim_diag diag = {""};
    int64_t at = seq->state_at;
    whim_taken taken = {seq, n_row};
    assert_int_equal(whim_runner_advance(t->runner, &taken, 1, &diag), WHIM_ERR_INVALID);
    if (strstr(diag.text, text) == NULL) {
        fail_msg("the message lacks \"%s\": %s", text, diag.text);
    }
    assert_int_equal(seq->state_at, at);
}

static void what_was_not_on_trial_is_refused(void **state)
{
    (void)state;
    tiny_runner t;
    whim_diag diag = {""};
    open_hybrid(&t, "cpu", false);
    whim_sequence *a = tiny_sequence(&t), *b = tiny_sequence(&t);
    expect_refused(&t, a, 1, "0 are on trial");
    tiny_step(&t, a, tokens[0], FIRST, 0);
    expect_refused(&t, a, 1, "0 are on trial");
    whim_step_part parts[] = {{a, tokens[0], 4, 1, .keeps_state = true}, {b, tokens[1], 2, 1}};
    assert_int_equal(whim_runner_step(t.runner, parts, 2, &diag), WHIM_ERR_OK);
    expect_refused(&t, a, 5, "4 are on trial");
    expect_refused(&t, a, 0, "0 rows");
    expect_refused(&t, b, 1, "0 are on trial");
    assert_int_equal(whim_runner_advance(t.runner, &(whim_taken){a, 3}, 1, &diag), WHIM_ERR_OK);
    assert_int_equal(a->state_at, FIRST + 3);
    expect_refused(&t, a, 1, "0 are on trial"); /* they were taken */
    assert_int_equal(whim_runner_sequence_cut(t.runner, a, FIRST + 3), FIRST + 3);
    assert_int_equal(whim_runner_step(t.runner, parts, 1, &diag), WHIM_ERR_OK);
    whim_step_part later = {b, tokens[1], 2, 1, .keeps_state = true};
    assert_int_equal(whim_runner_step(t.runner, &later, 1, &diag), WHIM_ERR_OK);
    expect_refused(&t, a, 1, "0 are on trial"); /* another step's rows were kept since */
    assert_int_equal(whim_runner_sequence_cut(t.runner, a, FIRST + 3), FIRST + 3);
    whim_step_part many = {a, tokens[0], KEPT + 1, 1, .keeps_state = true};
    assert_int_equal(whim_runner_step(t.runner, &many, 1, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "11 can be kept"));
    whim_runner_sequence_destroy(t.runner, a);
    whim_runner_sequence_destroy(t.runner, b);
    tiny_close(&t);
}

/* A stream whose next event or wait fails, after all of a step was queued. */
static whim_stream_vt breaking;
static const whim_stream_vt *real;
static bool record_breaks, wait_breaks;

static whim_err record_or_fail(whim_stream *s, whim_event *event)
{
    whim_err err = real->record(s, event);
    return record_breaks ? WHIM_ERR_DEVICE : err;
}

static whim_err wait_or_fail(whim_stream *s, whim_event event)
{
    whim_err err = real->wait(s, event);
    return wait_breaks ? WHIM_ERR_DEVICE : err;
}

static void opened(whim_stream_watch *watch, whim_stream *s)
{
    (void)watch;
    real = s->vt;
    breaking = *s->vt;
    breaking.record = record_or_fail;
    breaking.wait = wait_or_fail;
    s->vt = &breaking;
}

/* A step that failed may have written over rows that were kept, so that nobody takes them. */
static void a_failed_step_leaves_no_rows_on_trial(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        tiny_runner t;
        whim_diag diag = {""};
        whim_stream_watch watch = {.opened = opened};
        tiny_load_arch(&t, "cpu", "qwen3_5");
        t.device->watch = &watch;
        start_hybrid(&t, false);
        whim_sequence *a = tiny_sequence(&t), *b = tiny_sequence(&t);
        whim_step_part part = {a, tokens[0], 4, 1, .keeps_state = true};
        whim_step_part other = {b, tokens[1], 6, 1, .keeps_state = true};
        assert_int_equal(whim_runner_step(t.runner, &part, 1, &diag), WHIM_ERR_OK);
        record_breaks = late == 0;
        wait_breaks = late == 1;
        assert_int_equal(whim_runner_step(t.runner, &other, 1, &diag), WHIM_ERR_DEVICE);
        record_breaks = wait_breaks = false;
        expect_refused(&t, a, 4, "0 are on trial");
        expect_refused(&t, b, 1, "0 are on trial");
        whim_step_take take = {.slot = a->state, .n_row = 4};
        assert_int_equal(whim_exec_advance(whim_runner_exec(t.runner), 0, &take, 1, &diag),
                         WHIM_ERR_CORRUPT);
        whim_runner_sequence_destroy(t.runner, a);
        whim_runner_sequence_destroy(t.runner, b);
        tiny_close(&t);
    }
}

static void kept_rows_are_planned(void **state)
{
    (void)state;
    tiny_runner t;
    whim_diag diag = {""};
    whim_exec_plan plan;
    whim_exec_cfg cfg = tiny_cfg(false);
    cfg.n_state = cfg.max_seqs;
    tiny_load_arch(&t, "cpu", "qwen3_5");
    assert_int_equal(
        whim_exec_measure(&t.ckpt.config, t.def, t.model, t.device, &cfg, &plan, &diag),
        WHIM_ERR_OK);
    assert_int_equal(plan.kept_bytes, 0);
    cfg.max_kept = KEPT;
    assert_int_equal(
        whim_exec_measure(&t.ckpt.config, t.def, t.model, t.device, &cfg, &plan, &diag),
        WHIM_ERR_OK);
    /* one such layer: q and k of 2 heads, v of 4, b and a of 4 */
    assert_true(plan.kept_bytes >= KEPT * (4 * 8 + 4 * 8 + 2 * 4) * 4);
    assert_true(plan.kept_bytes < 2 * KEPT * (4 * 8 + 4 * 8 + 2 * 4) * 4);
    cfg.max_kept = cfg.max_rows + 1;
    assert_int_equal(
        whim_exec_measure(&t.ckpt.config, t.def, t.model, t.device, &cfg, &plan, &diag),
        WHIM_ERR_INVALID);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_rows_were_fed),
        cmocka_unit_test(what_was_not_on_trial_is_refused),
        cmocka_unit_test(a_failed_step_leaves_no_rows_on_trial),
        cmocka_unit_test(kept_rows_are_planned),
    };
    return cmocka_run_group_tests_name("trial", tests, make_expected, NULL);
}

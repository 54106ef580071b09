/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a draft takes late: it proposes what it would have proposed had it taken each at once,
 * and a page that others may see is complete. */
#include "base/alloc.h"
#include "base/math/rng.h"
#include "engine/engine.h"
#include "runner/late.h"
#include "support/cmocka.h"
#include "support/drive.h"

#include <string.h>

enum { LENGTH = 150, N_SEQ = 6 };

static whim_diag diag;
static whim_engine *engine;
static int32_t texts[N_SEQ][LENGTH];

/* A stream whose next event fails on demand, after all of a step was queued. */
static whim_stream_vt breaking;
static whim_err (*real_record)(whim_stream *s, whim_event *event);
static bool breaks;

static whim_err record_or_fail(whim_stream *s, whim_event *event)
{
    whim_err err = real_record(s, event);
    return breaks ? WHIM_ERR_DEVICE : err;
}

static void opened(whim_stream_watch *watch, whim_stream *s)
{
    (void)watch;
    real_record = s->vt->record;
    breaking = *s->vt;
    breaking.record = record_or_fail;
    s->vt = &breaking;
}

static whim_stream_watch watch = {.opened = opened};

static int setup(void **state)
{
    (void)state;
    whim_engine_cfg cfg = {.watch = &watch,
                           .model = "tests/data/golden/llama-f32",
                           .draft = "tests/data/drafts/llama-f32-dflash",
                           .n_thread = 2,
                           .max_seqs = 8,
                           .max_outs = 64,
                           .ctx = 2 * LENGTH};
    engine = drive_open(&cfg, &diag);
    for (int s = 0; engine != NULL && s < N_SEQ; s++) {
        for (int i = 0; i < LENGTH; i++) {
            uint64_t draw = whim_rng_at((uint64_t)s, (uint64_t)i);
            texts[s][i] = (int32_t)(draw % (uint64_t)whim_engine_config(engine)->n_vocab);
        }
    }
    return engine != NULL ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    whim_engine_close(engine);
    return 0;
}

static whim_sequence *sequence(void)
{
    whim_sequence *seq;
    assert_int_equal(whim_runner_sequence_create(whim_engine_runner(engine), &seq), WHIM_ERR_OK);
    return seq;
}

/* One step of n tokens for each of some sequences. */
static void step(whim_sequence *const *seqs, const int32_t *const *tokens, int64_t n_seq, int64_t n)
{
    whim_step_part parts[N_SEQ];
    for (int64_t i = 0; i < n_seq; i++) {
        parts[i] = (whim_step_part){.seq = seqs[i], .tokens = tokens[i], .n_tok = n};
    }
    assert_int_equal(whim_runner_step(whim_engine_runner(engine), parts, n_seq, &diag),
                     WHIM_ERR_OK);
}

static void one(whim_sequence *seq, const int32_t *tokens, int64_t n)
{
    step(&seq, &tokens, 1, n);
}

static void propose(whim_sequence *seq, int32_t *out)
{
    whim_proposal wanted = {
        .seq = seq, .last = 5, .n = whim_engine_draft(engine)->block - 1, .out = out};
    assert_int_equal(whim_propose(whim_engine_proposer(engine), &wanted, 1, &diag), WHIM_ERR_OK);
}

/* A sequence proposes what one does that was fed its text at once, page by page the same. */
static void expect_same(whim_sequence *seq, const int32_t *text)
{
    int32_t got[64] = {0}, wanted[64] = {0};
    whim_sequence *fresh = sequence();
    one(fresh, text, seq->len);
    propose(fresh, wanted);
    propose(seq, got);
    assert_memory_equal(got, wanted, sizeof got);
    whim_runner *runner = whim_engine_runner(engine);
    int64_t bytes = whim_engine_runner_plan(engine)->page_bytes;
    char *a = whim_alloc(bytes), *b = whim_alloc(bytes);
    assert_non_null(a);
    assert_non_null(b);
    for (int64_t i = 0; i < seq->len / seq->page_len; i++) {
        assert_int_equal(
            whim_exec_item_read(whim_runner_exec(runner), WHIM_EXEC_PAGE, seq->pages[i], a),
            WHIM_ERR_OK);
        assert_int_equal(
            whim_exec_item_read(whim_runner_exec(runner), WHIM_EXEC_PAGE, fresh->pages[i], b),
            WHIM_ERR_OK);
        assert_memory_equal(a, b, (size_t)bytes);
    }
    whim_free(a);
    whim_free(b);
    whim_runner_sequence_destroy(runner, fresh);
}

static void rows_that_waited_are_there_when_it_is_asked(void **state)
{
    (void)state;
    whim_sequence *seq = sequence();
    while (seq->len < LENGTH) { /* asked with any number of rows waiting */
        one(seq, texts[0] + seq->len, 1);
        if (whim_rng_at(3, (uint64_t)seq->len) % 5 == 0) {
            expect_same(seq, texts[0]);
        }
    }
    expect_same(seq, texts[0]);
    whim_runner_sequence_destroy(whim_engine_runner(engine), seq);
}

/* A full page is read with nobody asking the draft: no row of it may wait. */
static void full_pages_are_complete(void **state)
{
    (void)state;
    whim_runner *runner = whim_engine_runner(engine);
    int64_t bytes = whim_engine_runner_plan(engine)->page_bytes;
    for (int64_t odd = 0; odd < 4; odd++) {
        whim_sequence *seq = sequence(), *fresh = sequence();
        one(seq, texts[0], seq->page_len - 5 + odd);
        one(fresh, texts[0], seq->page_len);
        while (seq->len < seq->page_len) {
            one(seq, texts[0] + seq->len, 1);
        }
        char *a = whim_alloc(bytes), *b = whim_alloc(bytes);
        assert_int_equal(
            whim_exec_item_read(whim_runner_exec(runner), WHIM_EXEC_PAGE, seq->pages[0], a),
            WHIM_ERR_OK);
        assert_int_equal(
            whim_exec_item_read(whim_runner_exec(runner), WHIM_EXEC_PAGE, fresh->pages[0], b),
            WHIM_ERR_OK);
        assert_memory_equal(a, b, (size_t)bytes);
        whim_free(a);
        whim_free(b);
        whim_runner_sequence_destroy(runner, fresh);
        whim_runner_sequence_destroy(runner, seq);
    }
}

/* Many, so that several of their steps wait, or one of them, for whom fewer do. */
static void sequences_wait_together(void **state)
{
    (void)state;
    whim_sequence *seqs[N_SEQ];
    for (int i = 0; i < N_SEQ; i++) {
        seqs[i] = sequence();
        one(seqs[i], texts[i], 5 + 4 * i);
    }
    for (int64_t i = 0; i < 100; i++) {
        const int32_t *tokens[N_SEQ];
        for (int s = 0; s < N_SEQ; s++) {
            tokens[s] = texts[s] + seqs[s]->len;
        }
        uint64_t kind = whim_rng_at(8, (uint64_t)i) % (2 * N_SEQ);
        if (kind >= N_SEQ) {
            step(seqs, tokens, N_SEQ, 1);
        } else {
            one(seqs[kind], tokens[kind], 1);
        }
        if (i % 13 == 0) {
            expect_same(seqs[i % N_SEQ], texts[i % N_SEQ]);
        }
    }
    for (int i = 0; i < N_SEQ; i++) {
        expect_same(seqs[i], texts[i]);
        whim_runner_sequence_destroy(whim_engine_runner(engine), seqs[i]);
    }
}

/* Rows wait for places that are cut off and filled anew, or that another sequence gets. */
static void what_is_given_up_is_not_taken(void **state)
{
    (void)state;
    whim_runner *runner = whim_engine_runner(engine);
    for (int64_t n_wait = 1; n_wait < 4; n_wait++) {
        whim_sequence *seq = sequence();
        one(seq, texts[0], 10);
        for (int64_t i = 0; i < n_wait; i++) {
            one(seq, texts[1] + i, 1);
        }
        assert_int_equal(whim_runner_sequence_cut(runner, seq, 10), 10);
        one(seq, texts[0] + 10, 1);
        expect_same(seq, texts[0]);
        for (int64_t i = 0; i < n_wait; i++) {
            one(seq, texts[0] + seq->len, 1);
        }
        whim_runner_sequence_destroy(runner, seq);
        seq = sequence(); /* gets the page that was free last */
        for (int64_t i = 0; i < 14; i++) {
            one(seq, texts[1] + i, 1);
        }
        expect_same(seq, texts[1]);
        whim_runner_sequence_destroy(runner, seq);
    }
}

/* Feed the text token by token from where a sequence stands; of each step the likeliest token. */
static void go_on(whim_sequence *seq, const int32_t *text, int64_t end, int32_t *best)
{
    whim_runner *runner = whim_engine_runner(engine);
    while (seq->len < end) {
        whim_step_part part = {
            .seq = seq, .tokens = text + seq->len, .n_tok = 1, .n_out = 1, .n_top = 1};
        assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
        *best++ = whim_exec_best(whim_runner_exec(runner), 0).ids[0];
    }
}

/* How many of a block's proposals are those of a sequence that lost nothing. */
static int64_t n_same(whim_sequence *seq, const int32_t *text)
{
    int32_t got[64] = {0}, wanted[64] = {0};
    int64_t n = 0;
    whim_sequence *fresh = sequence();
    one(fresh, text, seq->len);
    propose(fresh, wanted);
    propose(seq, got);
    for (int64_t i = 0; i < whim_engine_draft(engine)->block - 1; i++) {
        n += got[i] == wanted[i];
    }
    whim_runner_sequence_destroy(whim_engine_runner(engine), fresh);
    return n;
}

/* Another's step fails, and rows that waited are lost: the model says what it would have said, others
 * lose nothing, and with the text the draft comes back to what it would have proposed. */
static void a_step_that_fails_loses_rows(void **state)
{
    (void)state;
    enum { FIRST = 20, EACH = 5, RECOVERED = 120 };
    whim_runner *runner = whim_engine_runner(engine);
    int32_t wanted[LENGTH], got[LENGTH];
    int64_t n_block = whim_engine_draft(engine)->block - 1;
    for (int64_t n_wait = 1; n_wait + 1 < WHIM_LATE_FEW; n_wait++) {
        whim_sequence *plain = sequence(), *seq = sequence(), *other = sequence();
        int64_t n_other = 0;
        go_on(plain, texts[0], LENGTH, wanted);
        one(seq, texts[0], FIRST);
        go_on(seq, texts[0], FIRST + n_wait, got + FIRST);
        breaks = true;
        whim_step_part part = {.seq = other, .tokens = texts[1], .n_tok = 1};
        assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_DEVICE);
        breaks = false;
        for (int64_t end = seq->len; end < LENGTH; end += EACH) {
            go_on(seq, texts[0], end, got + seq->len);
            int64_t same = n_same(seq, texts[0]);
            n_other += n_block - same;
            assert_true(same == n_block || end < RECOVERED);
        }
        assert_true(n_other > 0); /* else nothing was lost */
        assert_memory_equal(got + FIRST, wanted + FIRST, (size_t)(seq->len - FIRST) * sizeof *got);
        expect_same(plain, texts[0]);
        whim_runner_sequence_destroy(runner, seq);
        whim_runner_sequence_destroy(runner, plain);
        whim_runner_sequence_destroy(runner, other);
    }
}

/* A step of one row for each of n sequences, at `slot` and pages behind it, which makes page `fresh`
 * new (-1: none); nothing is taken. */
static void begin_all(whim_late *late, int32_t n, int32_t slot, int32_t fresh)
{
    int32_t block[256] = {0};
    whim_step_size bucket = {n, n, 0};
    whim_step_layout at = whim_step_layout_of(&bucket);
    whim_step_head *head = (whim_step_head *)(void *)block;
    *head = (whim_step_head){.n_row = n, .n_seq = n, .bucket_row = n, .bucket_seq = n};
    head->n_fresh = fresh >= 0;
    head->n_word = (int32_t)at.pages + head->n_fresh;
    for (int32_t i = 0; i < n; i++) {
        block[at.slots + i] = slot + 64 * i;
    }
    block[at.pages] = fresh;
    whim_late_step done;
    assert_int_equal(whim_late_begin(late, NULL, block, 64, 0, &done), WHIM_ERR_OK);
    assert_int_equal(done.n_taken, 0);
}

static void begin(whim_late *late, int32_t slot, int32_t fresh)
{
    begin_all(late, 1, slot, fresh);
}

/* Of many answers several steps wait, so that their rows are taken at the price of fewer. */
static void steps_of_many_wait(void **state)
{
    (void)state;
    whim_late late = {.bytes = {.rows = 1}};
    for (int32_t i = 0; i < 3; i++) {
        begin_all(&late, 8, 10 + i, -1);
    }
    assert_int_equal(late.n, 24);
}

/* Two rows for one place would be written in any order. */
static void no_place_waits_twice(void **state)
{
    (void)state;
    whim_late late = {.bytes = {.rows = 1}};
    begin(&late, 10, -1);
    begin(&late, 11, -1);
    begin(&late, 10, -1);
    assert_int_equal(late.n, 3);
    assert_int_equal(late.slots[0], -1);
    assert_int_equal(late.slots[1], 11);
    assert_int_equal(late.slots[2], 10);
    whim_late_drop_page(&late, 1, 64);
    assert_int_equal(late.slots[1], 11);
    whim_late_drop_page(&late, 0, 64);
    assert_int_equal(late.slots[1], -1);
    late = (whim_late){.bytes = {.rows = 1}};
    begin(&late, 130, -1);
    begin(&late, 5, 2); /* page 2 goes to somebody else */
    assert_int_equal(late.slots[0], -1);
    assert_int_equal(late.slots[1], 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_waited_are_there_when_it_is_asked),
        cmocka_unit_test(full_pages_are_complete),
        cmocka_unit_test(sequences_wait_together),
        cmocka_unit_test(what_is_given_up_is_not_taken),
        cmocka_unit_test(a_step_that_fails_loses_rows),
        cmocka_unit_test(no_place_waits_twice),
        cmocka_unit_test(steps_of_many_wait),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

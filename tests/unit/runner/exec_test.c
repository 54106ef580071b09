/* SPDX-License-Identifier: Apache-2.0 */
/* The exec: two steps under way, tokens that never see the host, embeddings, steps without rows,
 * several execs on one pool. Everything has the bits of one step at a time. */
#include "tiny_runner.h"

#include "base/alloc.h"
#include "ops/recorder.h"
#include "runner/fill.h"
#include "support/death.h"

enum { N_WORD = 4096, N_MADE = 24 };

static int32_t ids[256];

static int fill_ids(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 256; i++) {
        ids[i] = i * 37 % TINY_VOCAB;
    }
    return 0;
}

/* An exec, and the pool that its blocks name pages of. */
typedef struct solo {
    tiny_runner t;
    whim_exec *exec;
    whim_page_pool pool;
    whim_sequence seq;
} solo;

/* The model is loaded. */
static void solo_start(solo *o, const whim_exec_cfg *cfg)
{
    whim_diag diag = {""};
    if (whim_exec_open(&o->t.ckpt.config, o->t.def, o->t.model, o->t.device, cfg, &o->exec,
                       &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_int_equal(whim_page_pool_init(&o->pool, cfg->n_page, cfg->page_len), WHIM_ERR_OK);
    assert_int_equal(whim_sequence_init(&o->seq, cfg->max_ctx, cfg->page_len), WHIM_ERR_OK);
}

static void solo_open(solo *o, const char *backend, const whim_exec_cfg *cfg)
{
    tiny_load(&o->t, backend);
    solo_start(o, cfg);
}

static void solo_close(solo *o)
{
    whim_sequence_deinit(&o->seq, &o->pool);
    whim_page_pool_deinit(&o->pool);
    whim_exec_close(o->exec);
    tiny_close(&o->t);
}

static int32_t *block_of(solo *o, const int32_t *tokens, int64_t n_tok, int32_t n_top,
                         int32_t flags)
{
    static int32_t block[N_WORD];
    whim_step_part part = {&o->seq, tokens, n_tok, 1, n_top};
    whim_step_size size = {n_tok, 1, 1, n_top};
    assert_int_equal(whim_sequence_grow(&o->seq, &o->pool, n_tok), WHIM_ERR_OK);
    whim_step_fill(&part, 1, &size, flags, block);
    return block;
}

static void submit(solo *o, const int32_t *tokens, int64_t n_tok, int32_t n_top)
{
    whim_diag diag = {""};
    if (whim_exec_submit(o->exec, block_of(o, tokens, n_tok, n_top, 0), N_WORD, NULL, &diag) !=
        WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

static void collect(solo *o)
{
    whim_diag diag = {""};
    if (whim_exec_collect(o->exec, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
}

/* A greedy text by way of the host, one step at a time. */
static void make_plain(const char *backend, int32_t *made)
{
    solo o = {0};
    whim_exec_cfg cfg = tiny_cfg(false);
    solo_open(&o, backend, &cfg);
    submit(&o, ids, 9, 1);
    for (int i = 0; i < N_MADE; i++) {
        collect(&o);
        made[i] = whim_exec_best(o.exec, 0).ids[0];
        submit(&o, &made[i], 1, 1);
    }
    collect(&o);
    solo_close(&o);
}

/* The same with the next step on its way before the last one's token is known. */
static void make_ahead(const char *backend, bool graphs, bool begin, int32_t n_top, int32_t *made)
{
    static const int32_t next[] = {-2};
    solo o = {0};
    whim_diag diag = {""};
    whim_exec_cfg cfg = tiny_cfg(graphs);
    cfg.n_flight = 2;
    solo_open(&o, backend, &cfg);
    assert_int_equal(whim_step_result_token(0), next[0]);
    submit(&o, ids, 9, n_top);
    for (int i = 0; i < N_MADE; i++) {
        submit(&o, next, 1, i % 3 == 2 ? n_top : 1);
        if (begin) {
            assert_int_equal(whim_exec_begin(o.exec, &diag), WHIM_ERR_OK);
        }
        assert_int_equal(whim_exec_in_flight(o.exec), 2);
        collect(&o);
        made[i] = whim_exec_best(o.exec, 0).ids[0];
    }
    collect(&o);
    solo_close(&o);
}

static void tokens_stay_on_the_device(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    int32_t plain[N_MADE], ahead[N_MADE];
    make_plain("cpu", plain);
    for (int i = 0; i < 16; i++) {
        make_ahead(backends[i / 8], i % 2 == 1, i % 4 >= 2, i % 8 >= 4 ? 64 : 1, ahead);
        assert_memory_equal(plain, ahead, sizeof plain);
    }
    make_plain("guard", ahead);
    assert_memory_equal(plain, ahead, sizeof plain);
}

/* Chosen from all tokens, with log-probabilities: step i is the token of position 9 + i. `ahead`:
 * the step after is on its way before the token is known. */
static void make_chosen(const char *backend, bool graphs, bool ahead, whim_sampled *made)
{
    static const int32_t next[] = {-2};
    solo o = {0};
    whim_diag diag = {""};
    whim_sample_params p;
    whim_exec_cfg cfg = tiny_cfg(graphs);
    cfg.n_flight = ahead ? 2 : 1;
    solo_open(&o, backend, &cfg);
    whim_sample_params_init(&p);
    p.seed = 5;
    p.n_logprob = 3;
    whim_sample_ask ask = {.params = &p, .n_prompt = 9};
    whim_exec_ask(o.exec, &ask, 1);
    submit(&o, ids, 9, 0);
    for (int i = 0; i < N_MADE; i++) {
        ask.n_output = i + 1;
        if (ahead) {
            whim_exec_ask(o.exec, &ask, 1);
            submit(&o, next, 1, 0);
        }
        collect(&o);
        assert_null(whim_exec_logits(o.exec, 0)); /* they were not asked for */
        assert_int_equal(whim_exec_sampled(o.exec, 0, &made[i], &diag), WHIM_ERR_OK);
        if (!ahead) {
            whim_exec_ask(o.exec, &ask, 1);
            submit(&o, &made[i].id, 1, 0);
        }
    }
    collect(&o);
    solo_close(&o);
}

static void chosen_tokens_stay_on_the_device(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    static whim_sampled plain[N_MADE], ahead[N_MADE];
    make_chosen("cpu", false, false, plain);
    for (int i = 0; i < 4; i++) {
        make_chosen(backends[i / 2], i % 2 == 1, true, ahead);
        for (int t = 0; t < N_MADE; t++) {
            assert_int_equal(plain[t].id, ahead[t].id);
            assert_memory_equal(&plain[t].logprob, &ahead[t].logprob, sizeof plain[t].logprob);
            assert_memory_equal(plain[t].top_id, ahead[t].top_id, 3 * sizeof plain[t].top_id[0]);
        }
    }
}

static void asks_that_a_step_cannot_serve(void **state)
{
    (void)state;
    solo o = {0};
    whim_diag diag = {""};
    whim_sample_params p;
    whim_exec_cfg cfg = tiny_cfg(false);
    solo_open(&o, "cpu", &cfg);
    whim_sample_params_init(&p); /* a draw among all */
    whim_sample_ask asks[2] = {{.params = &p}, {.params = &p}};
    int32_t *block = block_of(&o, ids, 9, 1, 0);
    whim_exec_ask(o.exec, asks, 1);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "all logits"));
    p.top_k = 5;
    whim_exec_ask(o.exec, asks, 1);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "more of them"));
    p.top_k = 1;
    whim_exec_ask(o.exec, asks, 2);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(diag.text, "2 choices"));
    whim_exec_ask(o.exec, asks, 1);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_OK);
    collect(&o);
    solo_close(&o);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const int32_t next[] = {-2};
    solo o = {0};
    whim_diag diag = {""};
    whim_exec_cfg cfg = tiny_cfg(false);
    cfg.n_flight = 2;
    solo_open(&o, "cpu", &cfg);
    /* Nothing came before the first step; logits are no tokens; more outputs than there were. */
    int32_t *block = block_of(&o, next, 1, 1, 0);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_CORRUPT);
    submit(&o, ids, 3, 0);
    block = block_of(&o, next, 1, 1, 0);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_CORRUPT);
    submit(&o, ids, 3, 1);
    block = block_of(&o, ids, 1, 1, 0);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_FULL);
    collect(&o);
    collect(&o);
    block = block_of(&o, &(int32_t){-3}, 1, 1, 0);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_CORRUPT);
    block = block_of(&o, ids, 1, 1, WHIM_STEP_EMBEDS);
    assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_INVALID);
    assert_int_equal(whim_exec_in_flight(o.exec), 0);
    solo_close(&o);
}

/* Rows of the embedding, given as such, are the tokens; others are something else. */
static void embeddings_replace_tokens(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    for (int i = 0; i < 4; i++) {
        solo o = {0};
        whim_diag diag = {""};
        float rows[5 * TINY_WIDTH], expected[TINY_VOCAB];
        whim_exec_cfg cfg = tiny_cfg(i % 2 == 1);
        cfg.embeds = cfg.fetch_hidden = true;
        cfg.n_capture = 1; /* boundary 0: the embedding */
        solo_open(&o, backends[i / 2], &cfg);
        submit(&o, ids, 5, 0);
        collect(&o);
        memcpy(rows, whim_exec_hidden(o.exec, 0, 0), sizeof rows);
        memcpy(expected, whim_exec_logits(o.exec, 0), sizeof expected);
        float whole = rows[7];
        for (int round = 0; round < 3; round++) {
            rows[7] = round == 1 ? whole + 1.0f : whole;
            whim_sequence_cut(&o.seq, &o.pool, 0);
            int32_t *block = block_of(&o, ids + 100, 5, 0, WHIM_STEP_EMBEDS);
            assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, rows, &diag), WHIM_ERR_OK);
            collect(&o);
            int differ = memcmp(expected, whim_exec_logits(o.exec, 0), sizeof expected);
            assert_true((differ != 0) == (round == 1));
        }
        solo_close(&o);
    }
}

static void host_reads(void *ctx)
{
    (void)*(volatile const float *)ctx;
}

/* They lie in pinned memory, which the guard closes until the step's event is waited for. */
static void results_are_waited_for(void **state)
{
    (void)state;
    solo o = {0};
    whim_exec_cfg cfg = tiny_cfg(false);
    solo_open(&o, "guard", &cfg);
    for (int n_top = 0; n_top < 2; n_top++) {
        submit(&o, ids, 5, n_top);
        const float *at =
            n_top == 0 ? whim_exec_logits(o.exec, 0) : whim_exec_best(o.exec, 0).values;
        assert_int_equal(death_signal(host_reads, (void *)at), SIGSEGV);
        collect(&o);
        assert_int_equal(death_signal(host_reads, (void *)at), 0);
    }
    solo_close(&o);
}

static void captures_stay_on_the_device(void **state)
{
    (void)state;
    solo o = {0};
    whim_exec_cfg cfg = tiny_cfg(false), fetched = cfg;
    whim_exec_plan without, with;
    whim_diag diag = {""};
    cfg.n_capture = fetched.n_capture = 2;
    cfg.boundary[1] = fetched.boundary[1] = 2;
    fetched.fetch_hidden = true;
    solo_open(&o, "guard", &cfg);
    assert_int_equal(
        whim_exec_measure(&o.t.ckpt.config, o.t.def, o.t.model, o.t.device, &cfg, &without, &diag),
        WHIM_ERR_OK);
    assert_int_equal(
        whim_exec_measure(&o.t.ckpt.config, o.t.def, o.t.model, o.t.device, &fetched, &with, &diag),
        WHIM_ERR_OK);
    assert_int_equal(with.output_bytes, without.output_bytes);
    assert_true(with.host_bytes >= without.host_bytes + 2 * 64 * TINY_WIDTH * 4);
    submit(&o, ids, 5, 0);
    collect(&o);
    assert_true(whim_exec_capture(o.exec, 1) - whim_exec_capture(o.exec, 0) == 64 * TINY_WIDTH);
    solo_close(&o);
}

/* Ops of a pass of so many rows. */
static int64_t ops_of(const tiny_runner *t, int64_t n_row)
{
    static char memory[1 << 20];
    whim_bump bump = {.base = memory, .size = sizeof memory};
    whim_recorder recorder;
    whim_step_size size = {n_row, n_row, n_row, 0};
    int64_t offsets[WHIM_CONFIG_MAX_LAYER];
    int64_t bytes = whim_layer_table_place(t->def->layers(t->model), WHIM_KV_F32, 32, offsets);
    whim_batch batch = {
        .kv = {.pages = memory, .page_stride = bytes, .type = WHIM_KV_F32, .page_len = 32},
        .kv_offsets = offsets};
    whim_out out = {.scratch = &bump, .logits = (float *)(void *)memory};
    whim_step_limits limits = {.max_rows = 64, .max_seqs = 4, .max_ctx = 64, .page_len = 32};
    whim_step_view((const int32_t *)(const void *)memory, &limits, &size, &batch);
    whim_recorder_init(&recorder, t->device);
    assert_int_equal(t->def->forward(t->model, &recorder.base, &batch, &out), WHIM_ERR_OK);
    return recorder.n_op;
}

/* An idle rank enters every collective of a pass. */
static void a_step_without_rows_is_a_whole_pass(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    for (int i = 0; i < 4; i++) {
        static int32_t block[N_WORD];
        solo o = {0};
        whim_diag diag = {""};
        whim_exec_cfg cfg = tiny_cfg(i % 2 == 1);
        float expected[TINY_VOCAB];
        solo_open(&o, backends[i / 2], &cfg);
        assert_int_equal(ops_of(&o.t, 0), ops_of(&o.t, 3));
        submit(&o, ids, 5, 0);
        collect(&o);
        memcpy(expected, whim_exec_logits(o.exec, 0), sizeof expected);
        for (int top = 0; top < 2; top++) {
            whim_step_size nothing = {.n_top = top};
            whim_step_fill(NULL, 0, &nothing, 0, block);
            assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_OK);
            collect(&o);
            assert_int_equal(whim_exec_size(o.exec).n_out, 0);
        }
        whim_sequence_cut(&o.seq, &o.pool, 0);
        submit(&o, ids, 5, 0);
        collect(&o);
        assert_memory_equal(expected, whim_exec_logits(o.exec, 0), sizeof expected);
        solo_close(&o);
    }
}

/* Steps of two devices, two under way on each, collected in any order. */
static void devices_keep_apart(void **state)
{
    (void)state;
    static const int32_t next[] = {-2};
    int32_t plain[N_MADE], made[2][N_MADE];
    int n[2] = {0};
    solo o[2] = {{{{0}}}};
    whim_exec_cfg cfg = tiny_cfg(true);
    make_plain("cpu", plain);
    cfg.n_flight = 2;
    for (int d = 0; d < 2; d++) {
        solo_open(&o[d], "guard", &cfg);
        submit(&o[d], ids, 9, 1);
        submit(&o[d], next, 1, 1);
    }
    for (uint32_t turn = 0; n[0] + n[1] < 2 * N_MADE; turn++) {
        int d = (turn * 2654435761u >> 16) % 3 == 0; /* now one, now the other */
        d = n[d] == N_MADE ? 1 - d : d;
        collect(&o[d]);
        made[d][n[d]++] = whim_exec_best(o[d].exec, 0).ids[0];
        submit(&o[d], next, 1, 1);
    }
    for (int d = 0; d < 2; d++) {
        assert_memory_equal(plain, made[d], sizeof plain);
        solo_close(&o[d]);
    }
}

/* Two execs take the same blocks, each with pages of its own behind the numbers: a model and its
 * draft. */
static void execs_share_page_numbers(void **state)
{
    (void)state;
    solo a = {0};
    whim_exec *b;
    whim_diag diag = {""};
    whim_exec_cfg cfg = tiny_cfg(false), other = cfg;
    float alone[TINY_VOCAB];
    other.kv_type = WHIM_KV_Q8; /* other bytes a page */
    solo_open(&a, "guard", &cfg);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(
            whim_exec_open(&a.t.ckpt.config, a.t.def, a.t.model, a.t.device, &other, &b, &diag),
            WHIM_ERR_OK);
        assert_true(whim_exec_plan_of(b)->page_bytes < whim_exec_plan_of(a.exec)->page_bytes);
        whim_sequence_cut(&a.seq, &a.pool, 0);
        for (int i = 0; i < 3; i++) {
            const int32_t *block = block_of(&a, ids + 20 * i, 20, 0, 0);
            assert_int_equal(whim_exec_submit(b, block, N_WORD, NULL, &diag), WHIM_ERR_OK);
            if (turn == 1) {
                assert_int_equal(whim_exec_submit(a.exec, block, N_WORD, NULL, &diag), WHIM_ERR_OK);
                collect(&a);
            }
            assert_int_equal(whim_exec_collect(b, &diag), WHIM_ERR_OK);
        }
        const float *got = whim_exec_logits(b, 0);
        if (turn == 0) {
            memcpy(alone, got, sizeof alone);
        }
        assert_memory_equal(alone, got, sizeof alone);
        whim_exec_close(b);
    }
    assert_true(memcmp(alone, whim_exec_logits(a.exec, 0), sizeof alone) != 0);
    solo_close(&a);
}

/* A stream whose copies to the device are counted. */
static whim_stream_vt counting;
static whim_err (*real_copy_in)(whim_stream *s, void *dst, const void *src, int64_t bytes);
static int64_t n_sent;

static whim_err copy_in_counted(whim_stream *s, void *dst, const void *src, int64_t bytes)
{
    n_sent += bytes;
    return real_copy_in(s, dst, src, bytes);
}

static void opened_counted(whim_stream_watch *watch, whim_stream *s)
{
    (void)watch;
    real_copy_in = s->vt->copy_in;
    counting = *s->vt;
    counting.copy_in = copy_in_counted;
    s->vt = &counting;
}

/* A token more sends the arrays of its row, and its page where it is the first on one: once as
 * fresh, once for the list. Another sequence in that place sends its own list, and then the first
 * one again. */
static void page_lists_travel_once(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    int32_t plain[N_MADE];
    make_plain("cpu", plain);
    for (int i = 0; i < 2; i++) {
        solo o = {0};
        whim_stream_watch watch = {.opened = opened_counted};
        whim_exec_cfg cfg = tiny_cfg(false);
        int64_t arrays = whim_step_layout_of(&(whim_step_size){1, 1, 1, 1}).pages * 4;
        tiny_load(&o.t, backends[i]);
        o.t.device->watch = &watch;
        solo_start(&o, &cfg);
        submit(&o, ids, 9, 1);
        collect(&o);
        for (int k = 0; k < 60; k++) {
            bool swaps = k == 12;
            if (swaps) {
                whim_sequence first = o.seq;
                assert_int_equal(whim_sequence_init(&o.seq, cfg.max_ctx, cfg.page_len),
                                 WHIM_ERR_OK);
                submit(&o, ids + 20, 9, 1);
                collect(&o);
                whim_sequence_deinit(&o.seq, &o.pool);
                o.seq = first;
            }
            n_sent = 0;
            submit(&o, k < N_MADE ? &plain[k] : &ids[k], 1, 1);
            collect(&o);
            if (k + 1 < N_MADE) {
                assert_int_equal(whim_exec_best(o.exec, 0).ids[0], plain[k + 1]);
            }
            bool on_new_page = o.seq.len % cfg.page_len == 1;
            assert_int_equal(n_sent, arrays + (on_new_page ? 8 : 0) + (swaps ? 4 : 0));
        }
        solo_close(&o);
    }
}

/* A stream whose next event fails, after all of a step was queued. */
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

/* What was queued of a step that failed does not run later, with the words of the next one. */
static void a_step_that_failed_is_over(void **state)
{
    (void)state;
    static const char *const backends[] = {"cpu", "guard"};
    int32_t plain[N_MADE];
    make_plain("cpu", plain);
    for (int i = 0; i < 2; i++) {
        solo o = {0};
        whim_diag diag = {""};
        whim_stream_watch watch = {.opened = opened};
        whim_exec_cfg cfg = tiny_cfg(false);
        tiny_load(&o.t, backends[i]);
        o.t.device->watch = &watch;
        solo_start(&o, &cfg);
        submit(&o, ids, 9, 1);
        collect(&o);
        whim_sequence first = o.seq; /* set aside */
        assert_int_equal(whim_sequence_init(&o.seq, cfg.max_ctx, o.pool.page_len), WHIM_ERR_OK);
        breaks = true;
        int32_t *block = block_of(&o, ids + 20, 20, 1, 0);
        assert_int_equal(whim_exec_submit(o.exec, block, N_WORD, NULL, &diag), WHIM_ERR_DEVICE);
        breaks = false;
        whim_sequence_cut(&o.seq, &o.pool, 0);
        submit(&o, ids, 64, 1); /* its tokens lie where the slots of the other did */
        collect(&o);
        whim_sequence_deinit(&o.seq, &o.pool);
        o.seq = first;
        for (int k = 0; k + 1 < N_MADE; k++) {
            submit(&o, &plain[k], 1, 1);
            collect(&o);
            assert_int_equal(whim_exec_best(o.exec, 0).ids[0], plain[k + 1]);
        }
        solo_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_stay_on_the_device),
        cmocka_unit_test(chosen_tokens_stay_on_the_device),
        cmocka_unit_test(asks_that_a_step_cannot_serve),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(embeddings_replace_tokens),
        cmocka_unit_test(results_are_waited_for),
        cmocka_unit_test(captures_stay_on_the_device),
        cmocka_unit_test(a_step_without_rows_is_a_whole_pass),
        cmocka_unit_test(execs_share_page_numbers),
        cmocka_unit_test(page_lists_travel_once),
        cmocka_unit_test(devices_keep_apart),
        cmocka_unit_test(a_step_that_failed_is_over),
    };
    return cmocka_run_group_tests_name("exec", tests, fill_ids, NULL);
}

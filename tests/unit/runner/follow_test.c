/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that follow another: threads with an exec of the whole tiny model each. Whatever the first
 * one is asked to do, the others have its outputs and its pages, and so has an exec that is alone.
 * A pass ends with a barrier, so that ranks which did not do the same would not come through. */
#include "tiny_runner.h"

#include "base/clock.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_RANK = 3, N_STEP = 12, MAX_HEARD = 256, KEPT = 8, WAIT_S = 60 };

typedef struct rank {
    tiny_runner t;
    whim_model_def def;
    whim_comm comm;
    whim_thread thread;
    whim_err err;
    whim_diag diag;
    uint64_t heard[MAX_HEARD]; /* of each step's outputs */
    int32_t n_heard;
    char *pages;
} rank;

typedef struct team {
    whim_comm_memory memory;
    rank ranks[N_RANK], alone;
} team;

/* What a test does with the exec that leads, or is alone. */
typedef void script_fn(rank *r);

/* --- a model whose passes meet ---------------------------------------------------------------- */

static whim_err (*plain_forward)(whim_model *, whim_stream *, const whim_batch *, whim_out *);

static whim_err meeting_forward(whim_model *model, whim_stream *s, const whim_batch *batch,
                                whim_out *out)
{
    WHIM_TRY(plain_forward(model, s, batch, out));
    return whim_op_barrier(s, &(whim_barrier_args){.site = "end of the pass"});
}

/* --- what is heard of steps ------------------------------------------------------------------- */

static uint64_t hash(uint64_t h, const void *data, int64_t bytes)
{
    const unsigned char *at = data;
    for (int64_t i = 0; i < bytes; i++) {
        h = (h ^ at[i]) * UINT64_C(1099511628211);
    }
    return h;
}

static void collected(void *ctx, const whim_exec *exec)
{
    rank *r = ctx;
    uint64_t h = UINT64_C(14695981039346656037);
    whim_step_size size = whim_exec_size(exec);
    for (int64_t i = 0; i < size.n_out; i++) {
        const float *logits = whim_exec_logits(exec, i);
        whim_ranked best = whim_exec_best(exec, i);
        h = logits != NULL ? hash(h, logits, TINY_VOCAB * 4) : hash(h, best.ids, best.n * 4);
    }
    assert_true(r->n_heard < MAX_HEARD);
    r->heard[r->n_heard++] = hash(h, &size, sizeof size);
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void rank_open(rank *r, const char *backend, const char *arch, bool graphs, whim_comm *comm,
                      whim_stream_watch *watch)
{
    whim_exec_cfg cfg = tiny_cfg(graphs);
    cfg.n_flight = 2;
    cfg.n_state = strcmp(arch, "llama") == 0 ? 0 : cfg.max_seqs + 1;
    cfg.max_kept = cfg.n_state > 0 ? KEPT : 0;
    cfg.drafts = true;
    cfg.comm = comm;
    tiny_load_arch(&r->t, backend, arch);
    r->t.device->watch = watch;
    r->def = *r->t.def;
    plain_forward = r->t.def->forward;
    r->def.forward = meeting_forward;
    r->t.def = &r->def;
    if (tiny_try(&r->t, &cfg, &r->diag) != WHIM_ERR_OK) {
        fail_msg("%s", r->diag.text);
    }
    whim_exec_set_tap(whim_runner_exec(r->t.runner),
                      &(whim_exec_tap){.ctx = r, .collected = collected});
}

static void rank_follow(void *ctx)
{
    rank *r = ctx;
    r->err = whim_exec_follow(whim_runner_exec(r->t.runner), &r->diag);
}

static int64_t pages_bytes(rank *r)
{
    return whim_exec_plan_of(whim_runner_exec(r->t.runner))->kv_bytes;
}

static void pages_read(rank *r)
{
    whim_exec *exec = whim_runner_exec(r->t.runner);
    int64_t bytes = whim_exec_plan_of(exec)->page_bytes;
    r->pages = malloc((size_t)pages_bytes(r));
    assert_non_null(r->pages);
    for (int32_t i = 0; i < pages_bytes(r) / bytes; i++) {
        assert_int_equal(whim_exec_item_read(exec, WHIM_EXEC_PAGE, i, r->pages + i * bytes),
                         WHIM_ERR_OK);
    }
}

static void team_open(team *m, const char *backend, const char *arch, bool graphs,
                      whim_stream_watch *watch, int32_t watched)
{
    whim_diag diag = {""};
    memset(m, 0, sizeof *m);
    assert_int_equal(whim_comm_memory_make(N_RANK, &m->memory, &diag), WHIM_ERR_OK);
    for (int32_t i = 0; i < N_RANK; i++) {
        rank *r = &m->ranks[i];
        whim_comm_cfg cfg = {.rank = i, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = true};
        whim_comm_open(&r->comm, &m->memory, &cfg);
        rank_open(r, backend, arch, graphs, &r->comm, i == watched ? watch : NULL);
        if (i > 0) {
            assert_int_equal(whim_thread_create(&r->thread, "rank", rank_follow, r, &diag),
                             WHIM_ERR_OK);
        }
    }
}

/* The leader is closed first: that is what ends the others. */
static void team_join(team *m)
{
    tiny_close(&m->ranks[0].t);
    for (int32_t i = 1; i < N_RANK; i++) {
        whim_thread_join(&m->ranks[i].thread);
    }
}

static void team_close(team *m)
{
    for (int32_t i = 1; i < N_RANK; i++) {
        free(m->ranks[i].pages);
        tiny_close(&m->ranks[i].t);
    }
    whim_comm_memory_close(&m->memory);
}

static void same_as_alone(const char *backend, const char *arch, bool graphs, script_fn *script)
{
    static team m;
    team_open(&m, backend, arch, graphs, NULL, -1);
    rank_open(&m.alone, backend, arch, graphs, NULL, NULL);
    script(&m.alone);
    pages_read(&m.alone);
    script(&m.ranks[0]);
    int64_t n_page = pages_bytes(&m.alone);
    team_join(&m);
    for (int32_t i = 1; i < N_RANK; i++) {
        if (m.ranks[i].err != WHIM_ERR_OK) {
            fail_msg("rank %d: %s", i, m.ranks[i].diag.text);
        }
        pages_read(&m.ranks[i]);
        assert_memory_equal(m.ranks[i].pages, m.alone.pages, (size_t)n_page);
    }
    for (int32_t i = 0; i < N_RANK; i++) {
        assert_int_equal(m.ranks[i].n_heard, m.alone.n_heard);
        assert_memory_equal(m.ranks[i].heard, m.alone.heard, sizeof m.alone.heard);
    }
    free(m.alone.pages);
    tiny_close(&m.alone.t);
    team_close(&m);
}

static void everywhere(const char *arch, script_fn *script)
{
    same_as_alone("cpu", arch, false, script);
    same_as_alone("cpu", arch, true, script);
    same_as_alone("guard", arch, false, script);
    same_as_alone("guard", arch, true, script);
}

/* --- texts ------------------------------------------------------------------------------------ */

static const int32_t prompt[] = {3, 14, 15, 9, 26, 5, 35, 8, 58, 7, 32, 38};

static void submit(rank *r, const whim_step_part *parts, int64_t n)
{
    if (whim_runner_submit(r->t.runner, parts, n, &r->diag) != WHIM_ERR_OK) {
        fail_msg("%s", r->diag.text);
    }
}

static void collect(rank *r)
{
    if (whim_runner_collect(r->t.runner, &r->diag) != WHIM_ERR_OK) {
        fail_msg("%s", r->diag.text);
    }
}

/* Two texts, each step under way before the tokens of the last are known; drawn, or the best. */
static void texts(rank *r, bool drawn)
{
    const int32_t next[] = {whim_step_result_token(0), whim_step_result_token(1)};
    whim_sequence *a = tiny_sequence(&r->t), *b = tiny_sequence(&r->t);
    whim_sample_params p;
    whim_sample_params_init(&p);
    p.seed = 7;
    whim_sample_ask asks[] = {{.params = &p, .n_prompt = 9}, {.params = &p, .n_prompt = 4}};
    whim_step_part parts[] = {{a, prompt, 9, 1, 1}, {b, prompt + 3, 4, 1, 1}};
    for (int32_t i = 0; i < 2 && drawn; i++) {
        parts[i].n_top = 0;
        parts[i].asks = &asks[i];
    }
    submit(r, parts, 2);
    for (int32_t i = 0; i < N_STEP; i++) {
        for (int32_t k = 0; k < 2; k++) {
            parts[k].tokens = &next[k];
            parts[k].n_tok = 1;
            asks[k].n_output = i + 1;
        }
        submit(r, parts, 2);
        if (i % 2 == 0) {
            assert_int_equal(whim_exec_begin(whim_runner_exec(r->t.runner), &r->diag), WHIM_ERR_OK);
        }
        collect(r);
    }
    collect(r);
    whim_runner_sequence_destroy(r->t.runner, a);
    whim_runner_sequence_destroy(r->t.runner, b);
}

static void best_text(rank *r)
{
    texts(r, false);
}

static void drawn_text(rank *r)
{
    texts(r, true);
}

static void texts_are_followed(void **state)
{
    (void)state;
    everywhere("llama", best_text);
    everywhere("llama", drawn_text);
}

/* Refused steps go to nobody; steps without rows, and a draft's, to all. */
static void mixed(rank *r)
{
    whim_sequence *a = tiny_sequence(&r->t);
    whim_step_part part = {a, prompt, 12, 2};
    submit(r, &part, 1);
    collect(r);
    part.n_out = 100;
    assert_int_equal(whim_runner_submit(r->t.runner, &part, 1, &r->diag), WHIM_ERR_INVALID);
    submit(r, NULL, 0);
    collect(r);
    for (int32_t i = 0; i < 4; i++) {
        int64_t len = a->len;
        part = (whim_step_part){a, prompt + i, 3, 3, 1};
        if (whim_runner_draft(r->t.runner, &part, 1, &r->diag) != WHIM_ERR_OK) {
            fail_msg("%s", r->diag.text);
        }
        whim_runner_sequence_cut(r->t.runner, a, len);
        part.n_tok = part.n_out = 2;
        submit(r, &part, 1);
        collect(r);
    }
    whim_runner_sequence_destroy(r->t.runner, a);
}

static void odd_steps_are_followed(void **state)
{
    (void)state;
    everywhere("llama", mixed);
}

/* --- recurrent states ------------------------------------------------------------------------- */

/* Rows on trial of which some are taken, and a state that goes to another sequence's slot. */
static void trials(rank *r)
{
    whim_sequence *a = tiny_sequence(&r->t), *b = tiny_sequence(&r->t);
    whim_step_part parts[] = {{a, prompt, 9, 1}, {b, prompt + 3, 7, 1}};
    submit(r, parts, 2);
    collect(r);
    for (int32_t i = 0; i < N_STEP; i++) {
        int64_t a_len = a->len, n_right = i % 4;
        whim_step_part trial[] = {{a, prompt + i % 7, 4, 4, .keeps_state = true},
                                  {b, prompt + i, 1, 1}};
        submit(r, trial, 2);
        collect(r);
        whim_taken taken = {a, n_right};
        if (n_right > 0 && whim_runner_advance(r->t.runner, &taken, 1, &r->diag) != WHIM_ERR_OK) {
            fail_msg("%s", r->diag.text);
        }
        whim_runner_sequence_cut(r->t.runner, a, a_len + n_right);
        if (i % 3 == 2) { /* nonsense, and the same for all */
            whim_exec *exec = whim_runner_exec(r->t.runner);
            assert_int_equal(whim_exec_state_copy(exec, 0, a->state, 3), WHIM_ERR_OK);
            assert_int_equal(whim_exec_state_copy(exec, 0, 3, b->state), WHIM_ERR_OK);
        }
    }
    whim_runner_sequence_destroy(r->t.runner, a);
    whim_runner_sequence_destroy(r->t.runner, b);
}

static void states_are_followed(void **state)
{
    (void)state;
    everywhere("qwen3_5", trials);
}

/* --- failures --------------------------------------------------------------------------------- */

static whim_stream_vt breaking;
static whim_err (*real_record)(whim_stream *s, whim_event *event);
static int32_t n_left; /* steps before the one that breaks */

static whim_err record_or_fail(whim_stream *s, whim_event *event)
{
    whim_err err = real_record(s, event);
    return --n_left == 0 ? WHIM_ERR_DEVICE : err;
}

static void opened(whim_stream_watch *watch, whim_stream *s)
{
    (void)watch;
    real_record = s->vt->record;
    breaking = *s->vt;
    breaking.record = record_or_fail;
    s->vt = &breaking;
}

/* Whoever fails, all end with its reason, and so does the leader's next step. */
static void fails(const char *backend, int32_t broken)
{
    static team m;
    whim_stream_watch watch = {.opened = opened};
    char name[32];
    snprintf(name, sizeof name, "rank %d: ", broken);
    n_left = 3;
    team_open(&m, backend, "llama", false, &watch, broken);
    whim_sequence *seq = tiny_sequence(&m.ranks[0].t);
    whim_step_part part = {seq, prompt, 1, 1, 1};
    whim_err err = WHIM_ERR_OK;
    for (int32_t i = 0; i < 8 && err == WHIM_ERR_OK; i++) {
        err = whim_runner_step(m.ranks[0].t.runner, &part, 1, &m.ranks[0].diag);
    }
    assert_int_equal(err, WHIM_ERR_DEVICE);
    assert_int_equal(whim_runner_step(m.ranks[0].t.runner, &part, 1, &m.ranks[0].diag),
                     WHIM_ERR_DEVICE);
    assert_non_null(strstr(m.ranks[0].diag.text, name));
    whim_runner_sequence_destroy(m.ranks[0].t.runner, seq);
    team_join(&m);
    for (int32_t i = 1; i < N_RANK; i++) {
        assert_int_equal(m.ranks[i].err, WHIM_ERR_DEVICE);
        assert_true(i == broken || strstr(m.ranks[i].diag.text, name) != NULL);
    }
    team_close(&m);
}

static void a_failing_step_ends_all(void **state)
{
    (void)state;
    fails("cpu", 0);
    fails("cpu", 1);
    fails("guard", 2);
}

/* What a letter cannot hold is refused with the plan, before anything is loaded. */
static void long_blocks_are_refused(void **state)
{
    (void)state;
    tiny_runner t;
    whim_comm comm;
    whim_comm_memory memory;
    whim_diag diag = {""};
    whim_exec_cfg cfg = tiny_cfg(false);
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    whim_comm_open(&comm, &memory, &(whim_comm_cfg){0});
    cfg.comm = &comm;
    cfg.max_rows = 1000000;
    tiny_load(&t, "cpu");
    whim_exec_plan plan;
    whim_err err = whim_exec_measure(&t.ckpt.config, t.def, t.model, t.device, &cfg, &plan, &diag);
    assert_int_equal(err, WHIM_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "ranks can be sent"));
    tiny_close(&t);
    whim_comm_memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_followed),      cmocka_unit_test(odd_steps_are_followed),
        cmocka_unit_test(states_are_followed),     cmocka_unit_test(a_failing_step_ends_all),
        cmocka_unit_test(long_blocks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

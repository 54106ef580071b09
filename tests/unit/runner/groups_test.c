/* SPDX-License-Identifier: Apache-2.0 */
/* Groups with sequences of their own: ranks are threads with an exec each, and a group has the whole
 * tiny model, in one rank or cut over two. What the first of them is asked to do with sequences of
 * all groups gives the bits of one group that is alone and has them all. */
#include "tiny_runner.h"

#include "base/clock.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "ops/ops.h"
#include "parallel/groups.h"

enum {
    N_GROUP = 4,
    MAX_SPAN = 2,
    MAX_RANK = N_GROUP * MAX_SPAN,
    MAX_HEARD = 1024,
    KEPT = 8,
    WAIT_S = 60,
    N_TEXT = 8
};

typedef struct rank {
    tiny_runner t;
    whim_model_def def;
    whim_comm comm;
    whim_thread thread;
    whim_err err;
    whim_diag diag;
    bool alone;
    uint64_t heard[MAX_HEARD]; /* of each step's outputs */
    int32_t n_heard;
} rank;

typedef struct team {
    whim_comm_memory memory;
    int32_t n_rank;
    rank ranks[MAX_RANK];
} team;

typedef void script_fn(rank *r);

static const int32_t prompt[] = {3, 14, 15, 9, 26, 5, 35, 8, 58, 7, 32, 38, 2, 11, 40, 21};

/* --- ranks ------------------------------------------------------------------------------------ */

/* What ranks have, and what they run on. */
typedef struct setup {
    const char *arch;
    bool experts; /* dealt to the ranks */
    const char *backend;
    bool graphs;
    int32_t span; /* ranks of a group */
} setup;

static void rank_open(rank *r, const setup *on, bool alone)
{
    whim_exec_cfg cfg = tiny_cfg(on->graphs);
    r->alone = alone;
    cfg.max_seqs *= r->alone ? N_GROUP : 1; /* limits are those of each group */
    cfg.max_outs *= r->alone ? N_GROUP : 1;
    cfg.n_page *= r->alone ? N_GROUP : 1;
    cfg.n_flight = 2;
    cfg.n_state = strcmp(on->arch, "qwen3_5") == 0 ? cfg.max_seqs + 1 : 0;
    cfg.max_kept = cfg.n_state > 0 ? KEPT : 0;
    cfg.drafts = true;
    cfg.comm = r->comm.n_rank > 1 ? &r->comm : NULL;
    bool deals = !r->alone && on->experts, wide = on->span > 1;
    cfg.n_group = r->alone && !wide ? 0 : N_GROUP;
    cfg.meets = deals || wide;
    tiny_part part = {.n_deal = deals ? N_GROUP : 0,
                      .deal_rank = deals ? r->comm.rank : 0,
                      .n_wide = wide ? N_GROUP * on->span : 0,
                      .wide_rank = wide ? r->comm.rank : 0,
                      .n_rank = on->span,
                      .rank = r->comm.rank % on->span};
    tiny_load_part(&r->t, on->backend, on->arch, on->experts, &part);
    r->def = *r->t.def;
    r->t.def = &r->def;
    if (tiny_try(&r->t, &cfg, &r->diag) != WHIM_ERR_OK) {
        fail_msg("%s", r->diag.text);
    }
}

static void rank_follow(void *ctx)
{
    rank *r = ctx;
    r->err = whim_exec_follow(whim_runner_exec(r->t.runner), &r->diag);
}

/* All groups, or one that is alone: of groups of several ranks, whose MLPs are cut over all, the
 * others are there without sequences. */
static void team_open(team *m, const setup *on, bool alone, int64_t wait_ns)
{
    whim_diag diag = {""};
    memset(m, 0, sizeof *m);
    m->n_rank = alone && on->span == 1 ? 1 : N_GROUP * on->span;
    assert_int_equal(whim_comm_memory_make(m->n_rank, &m->memory, &diag), WHIM_ERR_OK);
    for (int32_t i = 0; i < m->n_rank; i++) {
        rank *r = &m->ranks[i];
        whim_comm_cfg cfg = {.rank = i, .wait_ns = wait_ns, .crowded = true};
        whim_comm_open(&r->comm, &m->memory, &cfg);
        rank_open(r, on, alone);
    }
}

static void team_start(team *m)
{
    for (int32_t i = 1; i < m->n_rank; i++) {
        rank *r = &m->ranks[i];
        assert_int_equal(whim_thread_create(&r->thread, "rank", rank_follow, r, &r->diag),
                         WHIM_ERR_OK);
    }
}

/* The leader is closed first: that is what ends the others. */
static void team_close(team *m)
{
    tiny_close(&m->ranks[0].t);
    for (int32_t i = 1; i < m->n_rank; i++) {
        whim_thread_join(&m->ranks[i].thread);
        tiny_close(&m->ranks[i].t);
    }
    whim_comm_memory_close(&m->memory);
}

static void same_as_alone(const setup *on, script_fn *script)
{
    static team teams[2];
    for (int32_t k = 0; k < 2; k++) {
        team *m = &teams[k];
        team_open(m, on, k == 0, WAIT_S * WHIM_NS_PER_S);
        team_start(m);
        script(&m->ranks[0]);
        team_close(m);
        for (int32_t i = 1; i < m->n_rank; i++) {
            if (m->ranks[i].err != WHIM_ERR_OK) {
                fail_msg("rank %d: %s", i, m->ranks[i].diag.text);
            }
        }
    }
    const rank *alone = &teams[0].ranks[0], *groups = &teams[1].ranks[0];
    assert_int_equal(groups->n_heard, alone->n_heard);
    assert_true(alone->n_heard > 0);
    assert_memory_equal(groups->heard, alone->heard, sizeof alone->heard);
}

static void on_all(const char *arch, bool experts, int32_t span, script_fn *script)
{
    for (int32_t i = 0; i < 4; i++) {
        same_as_alone(&(setup){arch, experts, i < 2 ? "cpu" : "guard", i % 2 == 1, span}, script);
    }
}

static void everywhere(const char *arch, script_fn *script)
{
    on_all(arch, false, 1, script);
}

static void everywhere_cut(const char *arch, script_fn *script)
{
    on_all(arch, false, 2, script);
}

static void everywhere_dealt(const char *arch, script_fn *script)
{
    on_all(arch, true, 1, script);
}

/* --- steps ------------------------------------------------------------------------------------ */

static whim_sequence *sequence_in(rank *r, int32_t group)
{
    whim_sequence *seq;
    assert_int_equal(whim_runner_sequence_create_in(r->t.runner, r->alone ? 0 : group, &seq),
                     WHIM_ERR_OK);
    return seq;
}

static void sequences_end(rank *r, whim_sequence **seqs, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        whim_runner_sequence_destroy(r->t.runner, seqs[i]);
    }
}

static uint64_t hash(uint64_t h, const void *data, int64_t bytes)
{
    const unsigned char *at = data;
    for (int64_t i = 0; i < bytes; i++) {
        h = (h ^ at[i]) * UINT64_C(1099511628211);
    }
    return h;
}

/* All that came of n_out outputs. */
static void hear(rank *r, int64_t n_out, bool chose)
{
    const whim_exec *exec = whim_runner_exec(r->t.runner);
    for (int64_t i = 0; i < n_out; i++) {
        uint64_t h = UINT64_C(14695981039346656037);
        const float *logits = whim_exec_logits(exec, i);
        whim_ranked best = whim_exec_best(exec, i);
        whim_sampled sampled = {0};
        if (chose) {
            assert_int_equal(whim_exec_sampled(exec, i, &sampled, &r->diag), WHIM_ERR_OK);
        }
        h = hash(h, &sampled.id, sizeof sampled.id);
        h = logits != NULL ? hash(h, logits, TINY_VOCAB * (int64_t)sizeof *logits) : h;
        h = hash(h, best.ids, best.n * (int64_t)sizeof *best.ids);
        h = hash(h, best.values, best.n * (int64_t)sizeof *best.values);
        assert_true(r->n_heard < MAX_HEARD);
        r->heard[r->n_heard++] = h;
    }
}

static void submit(rank *r, const whim_step_part *parts, int64_t n)
{
    if (whim_runner_submit(r->t.runner, parts, n, &r->diag) != WHIM_ERR_OK) {
        fail_msg("%s", r->diag.text);
    }
}

static void collect(rank *r, int64_t n_out, bool chose)
{
    if (whim_runner_collect(r->t.runner, &r->diag) != WHIM_ERR_OK) {
        fail_msg("%s", r->diag.text);
    }
    hear(r, n_out, chose);
}

/* So many tokens in each group, of one sequence there. */
static const int64_t counts[][N_GROUP] = {{5, 0, 3, 1}, {0, 0, 0, 1}, {7, 0, 0, 0}, {0, 0, 0, 0},
                                          {1, 1, 1, 1}, {0, 4, 1, 0}, {1, 0, 1, 9}, {7, 1, 1, 1}};

/* All rows give logits where that may be, or the n_top best. */
static void tokens_per_group(rank *r, int32_t n_top)
{
    whim_sequence *seqs[N_GROUP];
    for (int32_t g = 0; g < N_GROUP; g++) {
        seqs[g] = sequence_in(r, g);
    }
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        whim_step_part parts[N_GROUP];
        int64_t n = 0, n_out = 0;
        for (int32_t g = 0; g < N_GROUP; g++) {
            int64_t n_tok = counts[c][g];
            if (n_tok > 0) {
                parts[n++] = (whim_step_part){.seq = seqs[g],
                                              .tokens = prompt + g,
                                              .n_tok = n_tok,
                                              .n_out = n_tok < 6 ? n_tok : 6,
                                              .n_top = n_top};
                n_out += n_tok < 6 ? n_tok : 6;
            }
        }
        submit(r, parts, n);
        collect(r, n_out, false);
    }
    sequences_end(r, seqs, N_GROUP);
}

static void logits_per_group(rank *r)
{
    tokens_per_group(r, 0);
}

static void best_per_group(rank *r)
{
    tokens_per_group(r, 1);
    tokens_per_group(r, 20);
}

static void groups_have_any_tokens(void **state)
{
    (void)state;
    everywhere("llama", logits_per_group);
    everywhere("llama", best_per_group);
    everywhere("qwen3_5", logits_per_group);
    everywhere_cut("llama", logits_per_group);
    everywhere_cut("qwen3_5", best_per_group);
    everywhere_dealt("qwen3_moe", logits_per_group);
    everywhere_dealt("minimax_m2", best_per_group);
    everywhere_dealt("qwen3_5", logits_per_group);
}

/* Texts in some groups, two in one, each step under way before the tokens of the last are known. */
static void texts(rank *r, bool drawn)
{
    enum { N = 4 };
    static const int32_t groups[N] = {1, 1, 2, 3};
    whim_sequence *seqs[N];
    whim_step_part parts[N];
    whim_sample_ask asks[N];
    int32_t next[N];
    whim_sample_params p;
    whim_sample_params_init(&p);
    p.seed = 7;
    for (int32_t i = 0; i < N; i++) {
        seqs[i] = sequence_in(r, groups[i]);
        asks[i] = (whim_sample_ask){.params = &p, .n_prompt = 3 + i};
        parts[i] = (whim_step_part){seqs[i], prompt + i, 3 + i, 1, drawn ? 0 : 1};
        parts[i].asks = drawn ? &asks[i] : NULL;
        next[i] = whim_step_result_token(i);
    }
    submit(r, parts, N);
    for (int32_t s = 0; s < N_TEXT; s++) {
        for (int32_t i = 0; i < N; i++) {
            parts[i].tokens = &next[i];
            parts[i].n_tok = 1;
            asks[i].n_output = s + 1;
        }
        submit(r, parts, N);
        collect(r, N, drawn);
    }
    collect(r, N, drawn);
    sequences_end(r, seqs, N);
}

static void best_texts(rank *r)
{
    texts(r, false);
}

static void drawn_texts(rank *r)
{
    texts(r, true);
}

static void texts_go_ahead(void **state)
{
    (void)state;
    everywhere("llama", best_texts);
    everywhere("llama", drawn_texts);
    everywhere("qwen3_5", drawn_texts);
    everywhere_cut("llama", drawn_texts);
    everywhere_cut("llama", best_texts);
    everywhere_dealt("qwen3_moe", drawn_texts);
    everywhere_dealt("qwen3_5", best_texts);
}

/* Passes of a draft where some groups have nothing to propose for. */
static void drafts(rank *r)
{
    whim_sequence *seqs[] = {sequence_in(r, 0), sequence_in(r, 2)};
    whim_step_part parts[] = {{seqs[0], prompt, 9, 1}, {seqs[1], prompt + 2, 4, 1}};
    submit(r, parts, 2);
    collect(r, 2, false);
    for (int32_t i = 0; i < 4; i++) {
        int64_t len = seqs[1]->len;
        whim_step_part part = {seqs[1], prompt + i, 3, 3, 1};
        if (whim_runner_draft(r->t.runner, &part, 1, &r->diag) != WHIM_ERR_OK) {
            fail_msg("%s", r->diag.text);
        }
        hear(r, 3, false);
        whim_runner_sequence_cut(r->t.runner, seqs[1], len);
        parts[0] = (whim_step_part){seqs[0], prompt + i, 1, 1};
        parts[1] = (whim_step_part){seqs[1], prompt + i, 2, 2};
        submit(r, parts, 2);
        collect(r, 3, false);
    }
    sequences_end(r, seqs, 2);
}

static void drafts_run_beside_empty_groups(void **state)
{
    (void)state;
    everywhere("llama", drafts);
    everywhere_cut("llama", drafts);
    everywhere_dealt("minimax_m2", drafts);
}

/* Rows on trial in two groups of which some are taken, and a state that goes to another slot. */
static void trials(rank *r)
{
    whim_sequence *seqs[] = {sequence_in(r, 0), sequence_in(r, 2), sequence_in(r, 2),
                             sequence_in(r, 3)};
    whim_step_part parts[] = {
        {seqs[0], prompt, 9, 1}, {seqs[1], prompt + 3, 7, 1}, {seqs[2], prompt + 1, 5, 1}};
    submit(r, parts, 3);
    collect(r, 3, false);
    for (int32_t i = 0; i < N_TEXT; i++) {
        int64_t lens[] = {seqs[0]->len, seqs[1]->len}, right[] = {i % 3, (i + 1) % 4};
        whim_step_part trial[] = {{seqs[0], prompt + i % 7, 2, 2, .keeps_state = true},
                                  {seqs[1], prompt + i % 5, 3, 3, .keeps_state = true},
                                  {seqs[2], prompt + i, 1, 1},
                                  {seqs[3], prompt + i % 4, KEPT + 4, 1}};
        /* Beside them another group reads more than can be kept; alone that is another step. */
        bool reads = i % 4 == 1;
        submit(r, trial, reads && !r->alone ? 4 : 3);
        collect(r, reads && !r->alone ? 7 : 6, false);
        if (reads && r->alone) {
            submit(r, trial + 3, 1);
            collect(r, 1, false);
        }
        whim_taken taken[2];
        int64_t n = 0;
        for (int32_t k = 0; k < 2; k++) {
            if (right[k] > 0) {
                taken[n++] = (whim_taken){seqs[k], right[k]};
            }
            if (n > 0 && (!r->alone || k == 1)) { /* a call for each group */
                if (whim_runner_advance(r->t.runner, taken, n, &r->diag) != WHIM_ERR_OK) {
                    fail_msg("%s", r->diag.text);
                }
                n = 0;
            }
        }
        for (int32_t k = 0; k < 2; k++) {
            whim_runner_sequence_cut(r->t.runner, seqs[k], lens[k] + right[k]);
        }
        if (i % 3 == 2) { /* nonsense, and the same for both */
            int32_t free_slot = r->alone ? 3 * N_GROUP : 3, group = r->alone ? 0 : 2;
            whim_exec *exec = whim_runner_exec(r->t.runner);
            assert_int_equal(whim_exec_state_copy(exec, group, seqs[1]->state, free_slot),
                             WHIM_ERR_OK);
            assert_int_equal(whim_exec_state_copy(exec, group, free_slot, seqs[2]->state),
                             WHIM_ERR_OK);
        }
    }
    sequences_end(r, seqs, 4);
}

static void states_are_a_group_s_own(void **state)
{
    (void)state;
    everywhere("qwen3_5", trials);
    everywhere_cut("qwen3_5", trials);
    everywhere_dealt("qwen3_5", trials);
}

/* --- refusals and failures -------------------------------------------------------------------- */

static void parts_out_of_order_are_refused(void **state)
{
    (void)state;
    static team m;
    team_open(&m, &(setup){"llama", false, "cpu", false, 1}, false, WAIT_S * WHIM_NS_PER_S);
    team_start(&m);
    rank *r = &m.ranks[0];
    whim_sequence *seqs[] = {sequence_in(r, 2), sequence_in(r, 1)};
    whim_step_part parts[] = {{seqs[0], prompt, 1, 1}, {seqs[1], prompt, 1, 1}};
    assert_int_equal(whim_runner_step(r->t.runner, parts, 2, &r->diag), WHIM_ERR_INVALID);
    assert_non_null(strstr(r->diag.text, "out of the order"));
    seqs[1]->group = N_GROUP;
    assert_int_equal(whim_runner_step(r->t.runner, parts, 2, &r->diag), WHIM_ERR_INVALID);
    seqs[1]->group = 1;
    sequences_end(r, seqs, 2);
    team_close(&m);
}

static whim_err (*plain_forward)(whim_model *, whim_stream *, const whim_batch *, whim_out *);
static const whim_model *forgetful;

/* A pass that meets behind its layers, but for one rank that has no sequences. */
static whim_err forward(whim_model *model, whim_stream *s, const whim_batch *batch, whim_out *out)
{
    WHIM_TRY(plain_forward(model, s, batch, out));
    bool leaves_out = model == forgetful;
    return leaves_out ? WHIM_ERR_OK
                      : whim_op_barrier(s, &(whim_barrier_args){.site = "end of the pass"});
}

/* A pass that meets in its layers; the same rank has no rows, and nothing to do for that. */
static whim_err forward_skipped(whim_model *model, whim_stream *s, const whim_batch *batch,
                                whim_out *out)
{
    return model == forgetful ? WHIM_ERR_OK : plain_forward(model, s, batch, out);
}

static void leave_out(const setup *on)
{
    static team m;
    team_open(&m, on, false, 60 * WHIM_NS_PER_S); /* calls are compared: nobody waits for it */
    for (int32_t i = 0; i < m.n_rank; i++) {
        plain_forward = m.ranks[i].t.def->forward;
        m.ranks[i].def.forward = on->experts || on->span > 1 ? forward_skipped : forward;
    }
    forgetful = m.ranks[m.n_rank - 1].t.model;
    team_start(&m);
    rank *r = &m.ranks[0];
    whim_sequence *seq = sequence_in(r, 0);
    whim_step_part part = {seq, prompt, 7, 1};
    assert_int_equal(whim_runner_step(r->t.runner, &part, 1, &r->diag), WHIM_ERR_DEVICE);
    /* Who of its own group waits for it, or of the others, tells first. */
    const char *site = on->experts ? "rows for experts" : on->span > 1 ? "embedding" : NULL;
    assert_true(strstr(r->diag.text, site != NULL ? site : "end of the pass") != NULL ||
                (on->span > 1 && strstr(r->diag.text, "rows of groups") != NULL));
    assert_non_null(strstr(r->diag.text, "outputs of groups"));
    assert_non_null(strstr(r->diag.text, "ranks disagree"));
    whim_runner_sequence_destroy(r->t.runner, seq);
    team_close(&m);
}

static void one_left_out_names_both_places(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 12; i++) {
        bool dealt = i / 4 == 1;
        leave_out(&(setup){dealt ? "qwen3_moe" : "llama", dealt, i % 4 < 2 ? "cpu" : "guard",
                           i % 2 == 1, i / 4 == 2 ? 2 : 1});
    }
}

/* --- where outputs lie ------------------------------------------------------------------------ */

static void outputs_lie_side_by_side(void **state)
{
    (void)state;
    whim_groups g = {.n_group = 4, .n_out = {5, 0, 3, 1}};
    static const int64_t places[] = {0, 4, 8, 12, 16, 2, 6, 10, 3};
    assert_int_equal(whim_groups_outs(&g), 9);
    for (int64_t i = 0; i < 9; i++) {
        assert_int_equal(whim_groups_place(&g, i), places[i]);
    }
    whim_groups last = {.n_group = 4, .n_out = {0, 0, 0, 1}};
    assert_int_equal(whim_groups_place(&last, 0), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_have_any_tokens),
        cmocka_unit_test(texts_go_ahead),
        cmocka_unit_test(drafts_run_beside_empty_groups),
        cmocka_unit_test(states_are_a_group_s_own),
        cmocka_unit_test(parts_out_of_order_are_refused),
        cmocka_unit_test(one_left_out_names_both_places),
        cmocka_unit_test(outputs_lie_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

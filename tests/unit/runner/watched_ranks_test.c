/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks queue in a step, in every way to cut a model and its rows: a watch stands before their
 * ops. A collective that one of them leaves out on purpose is told with both places, and rows that
 * are padding are no expert's. */
#include "tiny_runner.h"

#include "base/clock.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "ops/ops.h"

#include <stdio.h>

enum { MAX_RANK = 4, MAX_CALL = 128, MAX_IDS = 1024, TOP_K = 3, N_LAYER = 2, WAIT_S = 60 };

/* How ranks have a model, as the engine is told it (engine/engine.h). */
typedef struct mode {
    const char *name, *arch;
    int32_t n_rank, n_group, n_share, n_deal;
    bool deal_cut;
    int32_t slots;
    int32_t n_token[2]; /* of a sequence in each of the first groups */
} mode;

/* Places of collectives are told apart by their texts. */
typedef struct watch {
    whim_stream_watch base; /* the device's; first */
    const whim_ops *inner;
    whim_ops ops;
    int32_t n_call, left_out; /* this one is; -1: none */
    const char *sites[MAX_CALL];
    int32_t *ids;                    /* [N_LAYER][MAX_IDS], device: what experts were given */
    int64_t n_id[N_LAYER], n_expert; /* of this rank */
    int32_t n_expert_call;
} watch;

typedef struct rank {
    tiny_runner t;
    whim_comm comm;
    whim_thread thread;
    watch watch;
    whim_err err;
    whim_diag diag;
} rank;

static whim_comm_memory memory;
static rank ranks[MAX_RANK];

static const int32_t prompt[] = {3, 14, 15, 9, 26, 5, 35, 8, 58, 7, 32, 38, 2, 11, 40, 21};

/* --- the watch -------------------------------------------------------------------------------- */

static watch *watch_of(const whim_stream *s)
{
    return (watch *)s->device->watch;
}

/* Ranks have threads of their own, which may not end a test: what is wrong there ends their step.
 * FULL: there are more calls than the watch has room for. */
static whim_err call_note(watch *w, const char *site, bool *is_left_out)
{
    if (w->n_call == MAX_CALL) {
        return WHIM_ERR_FULL;
    }
    w->sites[w->n_call] = site;
    *is_left_out = w->n_call++ == w->left_out;
    return WHIM_ERR_OK;
}

#define WATCHED(name)                                                           \
    static whim_err watched_##name(whim_stream *s, const whim_##name##_args *a) \
    {                                                                           \
        bool is_left_out;                                                       \
        WHIM_TRY(call_note(watch_of(s), a->site, &is_left_out));                \
        return is_left_out ? WHIM_ERR_OK : watch_of(s)->inner->name(s, a);      \
    }
WATCHED(all_reduce)
WATCHED(all_gather_v)
WATCHED(reduce_scatter_v)
WATCHED(moe_dispatch)
WATCHED(moe_exchange)
WATCHED(broadcast)
WATCHED(barrier)

/* Choices as experts are given them are kept, by the same stream, in replay too. */
static whim_err watched_moe_experts(whim_stream *s, const whim_moe_experts_args *a)
{
    watch *w = watch_of(s);
    int64_t n = a->n_row * a->k_top;
    int32_t layer = w->n_expert_call++ % N_LAYER;
    if (n > MAX_IDS) {
        return WHIM_ERR_FULL;
    }
    w->n_id[layer] = n;
    w->n_expert = a->n_expert;
    WHIM_TRY(whim_op_copy_bytes(s, &(whim_copy_bytes_args){.dst = w->ids + layer * MAX_IDS,
                                                           .src = a->ids,
                                                           .bytes = n * (int64_t)sizeof *w->ids}));
    return w->inner->moe_experts(s, a);
}

static void opened(whim_stream_watch *base, whim_stream *s)
{
    watch *w = (watch *)base;
    w->inner = s->ops;
    w->ops = *s->ops;
    w->ops.all_reduce = watched_all_reduce;
    w->ops.all_gather_v = watched_all_gather_v;
    w->ops.reduce_scatter_v = watched_reduce_scatter_v;
    w->ops.moe_dispatch = watched_moe_dispatch;
    w->ops.moe_exchange = watched_moe_exchange;
    w->ops.broadcast = watched_broadcast;
    w->ops.barrier = watched_barrier;
    w->ops.moe_experts = watched_moe_experts;
    s->ops = &w->ops;
}

/* --- ranks ------------------------------------------------------------------------------------ */

static int32_t at_least_one(int32_t n)
{
    return n > 1 ? n : 1;
}

/* Ranks that have together what is no expert; as engine/prepare/place.c. */
static int32_t cut_ranks(const mode *m)
{
    bool whole = m->n_deal > 1 && !m->deal_cut;
    return whole ? 1 : m->n_rank / at_least_one(m->n_share) / at_least_one(m->n_group);
}

static bool is_wide(const mode *m)
{
    return m->n_group > 1 && m->n_group < m->n_rank && m->n_share <= 1;
}

static tiny_part part_of(const mode *m, rank *r)
{
    bool deals = m->n_deal > 1, whole_sums = deals && !m->deal_cut && m->n_share + m->n_group == 0;
    int32_t n = whole_sums ? m->n_rank : cut_ranks(m), own = r->comm.rank;
    int32_t span = deals ? m->n_rank / m->n_deal : 0;
    return (tiny_part){.n_deal = m->n_deal,
                       .deal_rank = deals ? own / span : 0,
                       .deal_span = cut_ranks(m) > 1 ? span : 0,
                       .deal_slots = m->slots,
                       .whole_sums = whole_sums,
                       .n_rank = n,
                       .rank = own % n,
                       .n_wide = is_wide(m) ? m->n_rank : 0,
                       .wide_rank = is_wide(m) ? own : 0,
                       .n_share = m->n_share,
                       .watch = &r->watch.base};
}

static void rank_open(rank *r, const mode *m, const char *backend, bool graphs)
{
    whim_exec_cfg cfg = tiny_cfg(graphs);
    tiny_part part = part_of(m, r);
    cfg.comm = &r->comm;
    cfg.n_group = m->n_group;
    cfg.n_share = m->n_share;
    cfg.meets = is_wide(m) || (m->n_group > 1 && m->n_deal > 1);
    r->watch.base.opened = opened;
    r->watch.left_out = -1;
    tiny_load_part(&r->t, backend, m->arch, strcmp(m->arch, "llama") != 0, &part);
    void *ids;
    assert_int_equal(whim_device_alloc(r->t.device, N_LAYER * MAX_IDS * (int64_t)sizeof(int32_t),
                                       &ids, &r->diag),
                     WHIM_ERR_OK);
    r->watch.ids = ids;
    if (tiny_try(&r->t, &cfg, &r->diag) != WHIM_ERR_OK) {
        fail_msg("%s: %s", m->name, r->diag.text);
    }
}

static void rank_follow(void *ctx)
{
    rank *r = ctx;
    r->err = whim_exec_follow(whim_runner_exec(r->t.runner), &r->diag);
}

/* The last rank leaves out one of its collectives; -1: none. */
static void ranks_open(const mode *m, const char *backend, bool graphs, int32_t left_out)
{
    whim_diag diag = {""};
    memset(ranks, 0, sizeof ranks);
    assert_int_equal(whim_comm_memory_make(m->n_rank, &memory, &diag), WHIM_ERR_OK);
    for (int32_t i = 0; i < m->n_rank; i++) {
        whim_comm_cfg cfg = {.rank = i, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = true};
        whim_comm_open(&ranks[i].comm, &memory, &cfg);
        rank_open(&ranks[i], m, backend, graphs);
    }
    ranks[m->n_rank - 1].watch.left_out = left_out;
    for (int32_t i = 1; i < m->n_rank; i++) {
        assert_int_equal(
            whim_thread_create(&ranks[i].thread, "rank", rank_follow, &ranks[i], &diag),
            WHIM_ERR_OK);
    }
}

static void rank_close(rank *r)
{
    whim_runner_close(r->t.runner);
    r->t.runner = NULL;
    whim_device_free(r->t.device, r->watch.ids, N_LAYER * MAX_IDS * (int64_t)sizeof(int32_t));
    tiny_close(&r->t);
}

/* The leader is closed first: that is what ends the others. */
static void ranks_close(const mode *m)
{
    whim_runner_close(ranks[0].t.runner);
    ranks[0].t.runner = NULL;
    for (int32_t i = 1; i < m->n_rank; i++) {
        whim_thread_join(&ranks[i].thread);
    }
    for (int32_t i = 0; i < m->n_rank; i++) {
        rank_close(&ranks[i]);
    }
    whim_comm_memory_close(&memory);
}

/* A step of a prompt in each group that has tokens. */
static whim_err step(const mode *m)
{
    whim_sequence *seqs[2];
    whim_step_part parts[2];
    whim_runner *runner = ranks[0].t.runner;
    int32_t n = 0;
    for (int32_t g = 0; g < 2; g++) {
        if (m->n_token[g] > 0) {
            assert_int_equal(whim_runner_sequence_create_in(runner, g, &seqs[n]), WHIM_ERR_OK);
            parts[n] = (whim_step_part){seqs[n], prompt, m->n_token[g], 1};
            n++;
        }
    }
    whim_err err = whim_runner_step(runner, parts, n, &ranks[0].diag);
    for (int32_t i = 0; i < n; i++) {
        whim_runner_sequence_destroy(runner, seqs[i]);
    }
    return err;
}

/* --- one left out ----------------------------------------------------------------------------- */

/* Of groups that meet in a pass, all but the first are empty. Those of one rank without experts have
 * but one call in a step. */
static const mode modes[] = {
    {"tp", "llama", 3, .n_token = {12}},
    {"cp", "llama", 3, .n_share = 3, .n_token = {12}},
    {"ep", "qwen3_moe", 3, .n_deal = 3, .n_token = {12}},
    {"ep, few rows", "qwen3_moe", 3, .n_deal = 3, .n_token = {2}},
    {"cp ep", "qwen3_moe", 3, .n_share = 3, .n_deal = 3, .n_token = {12}},
    {"cp ep, choices first", "qwen3_moe", 3, .n_share = 3, .n_deal = 3, .slots = 3,
     .n_token = {12}},
    {"dp ep", "qwen3_moe", 3, 3, .n_deal = 3, .n_token = {7}},
    {"dp ep, choices first", "qwen3_moe", 3, 3, .n_deal = 3, .slots = 3, .n_token = {7}},
    {"tp ep", "qwen3_moe", 4, .n_deal = 2, .deal_cut = true, .n_token = {7}},
    {"tp cp", "llama", 4, .n_share = 2, .n_token = {12}},
    {"dp", "llama", 3, 3, .n_token = {7}},
    {"dp cp", "llama", 4, 2, 2, .n_token = {2, 12}},
    {"dp cp ep", "qwen3_moe", 4, 2, 2, 4, .n_token = {12}},
    {"dp tp", "llama", 4, 2, .n_token = {7}},
    {"dp tp ep", "qwen3_moe", 4, 2, .n_deal = 2, .deal_cut = true, .n_token = {7}},
};

/* Who left a call out goes on with others until who waits for it there has looked. On a busy machine
 * they may be first: they are in the same call then, but one has made a call less. */
static bool is_same_place_twice(const char *why)
{
    const char *here = strchr(why, '"'), *there = strstr(why, " is at \"");
    size_t n = here != NULL ? strcspn(here + 1, "\"") : 0;
    return n > 0 && there != NULL && strncmp(here, strchr(there, '"'), n + 2) == 0;
}

/* Calls are compared, and behind the last one with the end of the step, so nobody waits for the time
 * that the ranks were given. */
static void leave_out(const mode *m, const char *backend, bool graphs)
{
    ranks_open(m, backend, graphs, -1);
    if (step(m) != WHIM_ERR_OK) {
        fail_msg("%s: %s", m->name, ranks[0].diag.text);
    }
    ranks_close(m);
    watch plain = ranks[m->n_rank - 1].watch;
    assert_true(plain.n_call > 0);
    for (int32_t i = 0; i < plain.n_call; i++) {
        char place[64];
        snprintf(place, sizeof place, "\"%s\"", plain.sites[i]);
        ranks_open(m, backend, graphs, i);
        /* What the leader has no part in may be missed behind its step: it is told with the next. */
        whim_err err = step(m);
        err = err == WHIM_ERR_OK ? step(m) : err;
        assert_int_equal(err, WHIM_ERR_DEVICE);
        const char *why = ranks[0].diag.text;
        bool is_named = strstr(why, place) != NULL || is_same_place_twice(why);
        if (strstr(why, "ranks disagree") == NULL || !is_named) {
            fail_msg("%s on %s, call %d of %d at %s: %s", m->name, backend, i, plain.n_call, place,
                     why);
        }
        ranks_close(m);
    }
}

static void one_left_out_names_both_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        leave_out(&modes[i], "cpu", i % 2 == 0);
        leave_out(&modes[i], "guard", i % 2 == 1);
    }
}

/* --- padding ---------------------------------------------------------------------------------- */

/* Ranks that do the same work with the same rows. */
static int32_t copies(const mode *m)
{
    tiny_part part = part_of(m, &ranks[0]);
    return m->n_deal > 1 ? at_least_one(part.deal_span) : is_wide(m) ? m->n_rank : 1;
}

static int64_t chosen_count(const watch *w)
{
    int64_t n = 0;
    for (int32_t l = 0; l < N_LAYER; l++) {
        for (int64_t i = 0; i < w->n_id[l]; i++) {
            int32_t id = w->ids[l * MAX_IDS + i];
            n += id >= 0 && id < w->n_expert;
        }
    }
    return n;
}

static void padding_is_no_experts(void **state)
{
    (void)state;
    static const mode padded[] = {
        {"dp tp", "qwen3_moe", 4, 2, .n_token = {5, 1}},
        {"dp tp, one empty", "minimax_m2", 4, 2, .n_token = {5}},
        {"dp tp ep", "qwen3_moe", 4, 2, .n_deal = 4, .deal_cut = true, .n_token = {5, 1}},
        {"dp tp ep together", "qwen3_moe", 4, 2, .n_deal = 2, .deal_cut = true, .n_token = {3, 7}},
        {"dp ep", "qwen3_moe", 2, 2, .n_deal = 2, .n_token = {5, 1}},
        {"cp", "qwen3_moe", 2, .n_share = 2, .n_token = {7}},
        {"cp ep", "qwen3_moe", 2, .n_share = 2, .n_deal = 2, .n_token = {7}},
        {"dp cp ep", "qwen3_moe", 4, 2, 2, 4, .n_token = {9, 7}},
    };
    for (size_t i = 0; i < 2 * (sizeof padded / sizeof padded[0]); i++) {
        const mode *m = &padded[i / 2];
        int64_t n = 0;
        ranks_open(m, "cpu", i % 2 == 1, -1);
        if (step(m) != WHIM_ERR_OK) {
            fail_msg("%s: %s", m->name, ranks[0].diag.text);
        }
        whim_runner_close(ranks[0].t.runner);
        ranks[0].t.runner = NULL;
        for (int32_t r = 1; r < m->n_rank; r++) {
            whim_thread_join(&ranks[r].thread);
        }
        for (int32_t r = 0; r < m->n_rank; r++) {
            n += chosen_count(&ranks[r].watch);
            rank_close(&ranks[r]);
        }
        whim_comm_memory_close(&memory);
        int64_t wanted = (int64_t)N_LAYER * TOP_K * copies(m) * (m->n_token[0] + m->n_token[1]);
        if (n != wanted) {
            fail_msg("%s: %lld choices of rows, expected %lld", m->name, (long long)n,
                     (long long)wanted);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_left_out_names_both_places),
        cmocka_unit_test(padding_is_no_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

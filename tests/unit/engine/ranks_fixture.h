/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads for tests of a service: this thread's engine leads, threads with an engine each
 * follow. */
#ifndef WHIM_TESTS_RANKS_FIXTURE_H
#define WHIM_TESTS_RANKS_FIXTURE_H

#include "unit/engine/service_fixture.h"

#include "base/thread.h"
#include "comm/comm.h"

enum { MAX_RANK = 4, WAIT_S = 60 };

/* Of a list of groups: the thread sanitizer, which takes ten times as long, looks at one in three.
 * Their threads are the same. */
#ifdef __SANITIZE_THREAD__
enum { ONE_IN = 3 };
#else
enum { ONE_IN = 1 };
#endif

typedef struct member {
    whim_comm comm;
    whim_engine *engine;
    whim_thread thread;
    whim_err err;
    whim_diag diag;
} member;

static whim_comm_memory memory;
static member members[MAX_RANK]; /* the first is the fixture's engine */
static int32_t n_member;

/* What the ranks of a group have. */
typedef struct group {
    const char *model, *draft, *backend;
    whim_graph_use graphs;
    int32_t n_rank, n_job;
    bool shares;  /* each has the whole model, or each two have it, and a part of the rows */
    bool groups;  /* each, or each two, have the whole model, and requests of their own */
    bool deals;   /* each has whole experts */
    bool twos;    /* of those who share, and of groups, or who share in groups */
    int32_t step; /* rows of a step, at most; 0: STEP */
} group;

static const char *fixture_dirs[MAX_RANK]; /* a folder of its own for a rank's pages, or NULL */

/* The first one's sizes are everybody's. */
static inline whim_engine *member_open(const group *g, int32_t rank, int64_t kv_mem,
                                       whim_comm *comm)
{
    whim_diag diag = {""};
    whim_engine_sizes sizes =
        rank > 0 ? whim_engine_sizes_of(members[0].engine) : (whim_engine_sizes){0};
    whim_engine_cfg cfg = {.model = g->model,
                           .draft = g->draft,
                           .graphs = g->graphs,
                           .backend = g->backend,
                           .sizes = rank > 0 ? &sizes : NULL,
                           .n_checkpoint = 3,
                           .n_thread = 1,
                           .n_flight = 2,
                           .max_step_tokens = g->step > 0 ? g->step : STEP,
                           .max_seqs = MAX_SEQS,
                           .max_outs = OUTS,
                           .max_kept = OUTS,
                           .ctx = CTX,
                           .kv_mem = kv_mem,
                           .kv_dir = fixture_dirs[rank],
                           .n_rank = n_member,
                           .n_share = !g->shares             ? 0
                                      : g->twos && g->groups ? 2
                                                             : n_member / (g->twos ? 2 : 1),
                           .n_group = g->groups ? n_member / (g->twos ? 2 : 1) : 0,
                           .n_deal = g->deals ? n_member : 0,
                           .rank = rank,
                           .comm = comm};
    whim_engine *opened = drive_open(&cfg, &diag);
    if (opened == NULL) {
        fail_msg("%s", diag.text);
    }
    return opened;
}

static inline void follow(void *ctx)
{
    member *m = ctx;
    m->err = whim_exec_follow(whim_runner_exec(whim_engine_runner(m->engine)), &m->diag);
}

static inline void ranks_open(const group *g)
{
    whim_diag diag = {""};
    n_member = g->n_rank;
    memset(members, 0, sizeof members);
    assert_int_equal(whim_comm_memory_make(n_member, &memory, &diag), WHIM_ERR_OK);
    whim_engine *asked = member_open(g, 0, 0, NULL);
    int64_t bytes = whim_engine_runner_plan(asked)->page_bytes * KV_PAGES;
    whim_engine_close(asked);
    for (int32_t r = 0; r < n_member; r++) {
        member *m = &members[r];
        whim_comm_cfg cfg = {.rank = r, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = true};
        whim_comm_open(&m->comm, &memory, &cfg);
        m->engine = member_open(g, r, bytes, &m->comm);
        if (r > 0) {
            assert_int_equal(whim_thread_create(&m->thread, "rank", follow, m, &diag), WHIM_ERR_OK);
        }
    }
    engine = members[0].engine;
    config = whim_engine_config(engine);
    for (int32_t k = 0; k < 4; k++) {
        for (int32_t i = 0; i < CTX; i++) { /* some of it again and again, for the lookup */
            words[k][i] = (i % 11 * 37 + 5 + (i < 64 ? 0 : k * 11)) % config->n_vocab;
        }
    }
}

/* The leader's end is everybody's. */
static inline void ranks_close(whim_err expected)
{
    whim_engine_close(engine);
    for (int32_t r = 1; r < n_member; r++) {
        whim_thread_join(&members[r].thread);
        if (members[r].err != expected) {
            fail_msg("rank %d: %s", r, members[r].diag.text);
        }
        whim_engine_close(members[r].engine);
    }
    whim_comm_memory_close(&memory);
}

#endif

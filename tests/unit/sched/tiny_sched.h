/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduler with a pool, a tree and a step that only lets sequences grow. */
#ifndef WHIM_TESTS_SCHED_TINY_SCHED_H
#define WHIM_TESTS_SCHED_TINY_SCHED_H

#include "sched/sched.h"
#include "support/cmocka.h"

#include <string.h>

enum { P = 32, TINY_CTX = 20 * P, TINY_JOBS = 64 };

typedef struct tiny_job {
    whim_sched_req *req;
    int32_t tokens[TINY_CTX];
} tiny_job;

typedef struct tiny_sched {
    whim_page_pool pool, states;
    whim_prefix_tree *tree;
    whim_sched *sched;
    whim_sched_cfg cfg;
    tiny_job jobs[TINY_JOBS];
    int32_t n_job;
    whim_plan plan; /* the last one */
} tiny_sched;

static inline whim_sched_cfg tiny_cfg(void)
{
    return (whim_sched_cfg){
        .max_seqs = 4, .max_step_tokens = 64, .max_outs = 8, .max_ctx = TINY_CTX};
}

static inline void tiny_open(tiny_sched *t, int64_t n_page, bool with_tree, whim_sched_cfg cfg)
{
    *t = (tiny_sched){.n_job = 0};
    assert_int_equal(whim_page_pool_init(&t->pool, n_page, P), WHIM_ERR_OK);
    if (with_tree) {
        assert_int_equal(whim_prefix_tree_create(&t->pool, NULL, NULL, &t->tree), WHIM_ERR_OK);
    }
    cfg.pool = &t->pool;
    cfg.tree = t->tree;
    t->cfg = cfg;
    assert_int_equal(whim_sched_create(&cfg, &t->sched), WHIM_ERR_OK);
}

static inline bool tiny_copy_state(void *ctx, int32_t from, int32_t to)
{
    (void)ctx;
    return from != to;
}

/* The same of a model with recurrent states, with a tree. */
static inline void tiny_open_hybrid(tiny_sched *t, int64_t n_page, int64_t n_state,
                                    whim_sched_cfg cfg)
{
    *t = (tiny_sched){.n_job = 0};
    assert_int_equal(whim_page_pool_init(&t->pool, n_page, P), WHIM_ERR_OK);
    assert_int_equal(whim_page_pool_init(&t->states, n_state, 1), WHIM_ERR_OK);
    assert_int_equal(whim_prefix_tree_create(&t->pool, NULL, NULL, &t->tree), WHIM_ERR_OK);
    assert_int_equal(whim_prefix_tree_set_states(t->tree, &t->states), WHIM_ERR_OK);
    cfg.pool = &t->pool;
    cfg.tree = t->tree;
    cfg.states = &t->states;
    cfg.copy_state = tiny_copy_state;
    t->cfg = cfg;
    assert_int_equal(whim_sched_create(&cfg, &t->sched), WHIM_ERR_OK);
}

static inline void tiny_close(tiny_sched *t)
{
    whim_sched_destroy(t->sched);
    whim_prefix_tree_destroy(t->tree);
    assert_int_equal(t->states.n_free, t->states.n_page);
    whim_page_pool_deinit(&t->states);
    assert_int_equal(t->pool.n_free, t->pool.n_page);
    whim_page_pool_deinit(&t->pool);
}

/* A prompt of n tokens, the first n_shared of which are those of everyone with the same stem. */
static inline void tiny_prompt(tiny_job *job, int32_t stem, int64_t n_shared, int64_t n,
                               int32_t own)
{
    for (int64_t i = 0; i < n; i++) {
        job->tokens[i] = (int32_t)(i < n_shared ? stem * 1000 + i % 900 : own * 100000 + i);
    }
}

static inline whim_err tiny_try(tiny_sched *t, whim_sched_add add, whim_diag *diag)
{
    tiny_job *job = &t->jobs[t->n_job];
    add.tokens = job->tokens;
    add.user = job;
    whim_err err = whim_sched_submit(t->sched, &add, &job->req, diag);
    t->n_job += err == WHIM_ERR_OK;
    return err;
}

/* A request whose prompt is its own. */
static inline tiny_job *tiny_add(tiny_sched *t, whim_sched_add add)
{
    tiny_job *job = &t->jobs[t->n_job];
    whim_diag diag;
    tiny_prompt(job, 0, 0, add.n_tok, t->n_job + 1);
    assert_int_equal(tiny_try(t, add, &diag), WHIM_ERR_OK);
    return job;
}

static inline tiny_job *tiny_add_shared(tiny_sched *t, int32_t stem, int64_t n_shared,
                                        whim_sched_add add)
{
    tiny_job *job = &t->jobs[t->n_job];
    whim_diag diag;
    tiny_prompt(job, stem, n_shared, add.n_tok, t->n_job + 1);
    assert_int_equal(tiny_try(t, add, &diag), WHIM_ERR_OK);
    return job;
}

static inline void tiny_plan(tiny_sched *t)
{
    whim_sched_plan(t->sched, &t->plan);
}

/* The item of a job in the last plan, or NULL. */
static inline const whim_plan_item *tiny_item(const tiny_sched *t, const tiny_job *job)
{
    for (int64_t i = 0; i < t->plan.n_item; i++) {
        if (whim_sched_req_user(t->plan.items[i].req) == job) {
            return &t->plan.items[i];
        }
    }
    return NULL;
}

/* Tokens of a job in the last plan. */
static inline int64_t tiny_rows(const tiny_sched *t, const tiny_job *job)
{
    const whim_plan_item *item = tiny_item(t, job);
    return item != NULL ? item->n_tok : 0;
}

/* Run and commit the last plan; the next token is the number of tokens. `over` ends if it
 * chooses. */
static inline void tiny_commit(tiny_sched *t, const tiny_job *over)
{
    int32_t token[TINY_JOBS];
    whim_sched_made made[TINY_JOBS];
    for (int64_t i = 0; i < t->plan.n_item; i++) {
        const whim_plan_item *item = &t->plan.items[i];
        tiny_job *job = whim_sched_req_user(item->req);
        assert_int_equal(whim_sequence_grow(item->seq, &t->pool, item->n_tok), WHIM_ERR_OK);
        item->seq->state_at = item->seq->len - item->n_proposed; /* which are all wrong */
        token[i] = (int32_t)item->seq->len;
        made[i] = (whim_sched_made){&token[i], item->chooses, job == over && item->chooses};
        if (made[i].ended) {
            job->req = NULL;
        }
    }
    whim_sched_commit(t->sched, &t->plan, made);
}

static inline void tiny_step(tiny_sched *t, const tiny_job *over)
{
    tiny_plan(t);
    tiny_commit(t, over);
}

/* Steps until a job that is to end at its first token is over. */
static inline void tiny_finish(tiny_sched *t, const tiny_job *job)
{
    for (int i = 0; job->req != NULL; i++) {
        assert_true(i < 1000);
        tiny_step(t, job);
    }
}

#endif

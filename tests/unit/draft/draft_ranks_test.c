/* SPDX-License-Identifier: Apache-2.0 */
/* Drafts of models that are cut over ranks: every rank has the whole draft and a part of embedding
 * and head, and what they propose together is what the PyTorch implementation does. This thread's
 * engine leads, threads with an engine each follow. */
#include "base/clock.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "unit/draft/draft_fixture.h"

enum { MAX_RANK = 5, WAIT_S = 60 };

typedef struct follower {
    whim_comm comm;
    whim_engine *engine;
    whim_thread thread;
    whim_err err;
    whim_diag diag;
} follower;

static void follow(void *ctx)
{
    follower *f = ctx;
    f->err = whim_exec_follow(whim_runner_exec(whim_engine_runner(f->engine)), &f->diag);
}

static void no_check(const golden *g, whim_engine *engine, const whim_json *step)
{
    (void)g;
    (void)engine;
    (void)step;
}

/* What ranks have. */
typedef enum rank_use {
    PARTS,  /* of the model */
    SHARED, /* the whole model, and a part of the rows */
    GROUPS, /* the whole model, and sequences of their own */
    DEALT,  /* whole experts, and all the rest */
    SHARED_DEALT,
    SHARED_PARTS, /* of a model that each two have together, and a part of the rows */
} rank_use;

static void two_prompts(const golden *g, whim_engine *engine, int32_t last_group)
{
    const whim_json *prompts = array_of(g->json, "prompts");
    step_check *check = whim_engine_draft(engine)->serial ? expect_score : no_check;
    one_prompt(g, engine, whim_json_at(prompts, 0), 512, check);
    draft_group = last_group;
    one_prompt(g, engine, whim_json_at(prompts, 1), 7, check);
    draft_group = 0;
}

static void ranks_follow_the_reference(const char *name, int32_t n_rank, rank_use use,
                                       const char *backend)
{
    static follower ranks[MAX_RANK]; /* the first leads */
    whim_comm_memory memory;
    golden g = golden_open(name);
    assert_int_equal(whim_comm_memory_make(n_rank, &memory, &diag), WHIM_ERR_OK);
    for (int32_t r = 0; r < n_rank; r++) {
        follower *f = &ranks[r];
        whim_comm_cfg cfg = {.rank = r, .wait_ns = WAIT_S * WHIM_NS_PER_S, .crowded = true};
        whim_comm_open(&f->comm, &memory, &cfg);
        draft_wish = (whim_engine_cfg){
            .n_rank = n_rank,
            .n_share = use == SHARED || use == SHARED_DEALT ? n_rank
                       : use == SHARED_PARTS                ? n_rank / 2
                                                            : 0,
            .n_group = use == GROUPS ? n_rank : 0,
            .n_deal = use == DEALT || use == SHARED_DEALT ? n_rank : 0,
            .rank = r,
            .comm = &f->comm,
            .n_thread = 1,
            .backend = backend,
            .graphs = backend != NULL ? WHIM_GRAPHS_ON : WHIM_GRAPHS_OFF,
        };
        f->engine = engine_open(&g, name);
        if (r > 0) {
            assert_int_equal(whim_thread_create(&f->thread, "rank", follow, f, &diag), WHIM_ERR_OK);
        }
    }
    draft_wish = (whim_engine_cfg){0};
    two_prompts(&g, ranks[0].engine, use == GROUPS ? n_rank - 1 : 0);
    whim_engine_close(ranks[0].engine);
    for (int32_t r = 1; r < n_rank; r++) {
        whim_thread_join(&ranks[r].thread);
        assert_int_equal(ranks[r].err, WHIM_ERR_OK);
        whim_engine_close(ranks[r].engine);
    }
    whim_comm_memory_close(&memory);
    whim_json_free(g.json);
}

static void proposals_are_the_reference_s(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t n_rank;
        rank_use use;
    } cases[] = {
        {"llama-f32-dflash", 2},
        {"llama-f32-dflash-tokens", 3},
        {"llama-f32-dflash2", 2},
        {"qwen3-f32-dflash2-window", 3},
        {"llama-f32-dspark", 3},
        {"qwen3-f32-dspark-aligned", 2},
        {"llama-f32-eagle3", 2},
        {"llama-f32-eagle3-narrow", 3},
        {"minimax-f32-eagle3", 2},
        {"qwen35-f32-mtp", 2},
        {"qwen35-moe-mtp", 3},
        /* more than a head of few tokens has pieces for */
        {"llama-f32-dflash-tokens", MAX_RANK},
        {"qwen3moe-f32-eagle3", MAX_RANK},
        {"llama-f32-dflash-tokens", 2, SHARED},
        {"minimax-f32-eagle3", 4, SHARED},
        {"qwen35-moe-mtp", 3, SHARED},
        {"llama-f32-dflash-tokens", 3, GROUPS},
        {"llama-f32-dspark", 2, GROUPS},
        {"minimax-f32-eagle3", 4, GROUPS},
        {"qwen3moe-f32-eagle3", 2, GROUPS},
        {"qwen35-moe-mtp", 3, GROUPS},
        {"qwen35-moe-mtp", 3, DEALT},
        {"qwen3moe-f32-eagle3", 2, DEALT},
        {"minimax-f32-eagle3", 3, SHARED_DEALT},
        {"minimax-f32-eagle3", 4, SHARED_PARTS},
        {"qwen35-moe-mtp", 4, SHARED_PARTS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ranks_follow_the_reference(cases[i].name, cases[i].n_rank, cases[i].use, NULL);
    }
}

static void graphs_propose_the_same(void **state)
{
    (void)state;
    ranks_follow_the_reference("llama-f32-dspark", 2, PARTS, "guard");
    ranks_follow_the_reference("qwen35-f32-mtp", 2, SHARED, "guard");
    ranks_follow_the_reference("qwen35-f32-mtp", 2, GROUPS, "guard");
    ranks_follow_the_reference("llama-f32-dflash", 2, GROUPS, "guard");
    ranks_follow_the_reference("minimax-f32-eagle3", 4, GROUPS, "guard");
    ranks_follow_the_reference("qwen35-moe-mtp", 2, DEALT, "guard");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_the_reference_s),
        cmocka_unit_test(graphs_propose_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

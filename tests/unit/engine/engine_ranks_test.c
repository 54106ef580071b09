/* SPDX-License-Identifier: Apache-2.0 */
/* A model over ranks: what each of them has, which ways to share it are refused and with which
 * words. Nothing is loaded. */
#include "unit/engine/shape_fixture.h"

#include "comm/comm.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A model over ranks, none of which has its comm yet: together they have the model, its pages and its
 * states, and what all have is small beside that. */
static void shapes_over_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t n_rank;
        int64_t kv_times; /* KV heads that all ranks have, over those of the model, in percent */
    } cases[] = {
        {"shape:minimax-m2", 2, 100},    {"shape:minimax-m2", 3, 100},
        {"shape:minimax-m2", 5, 100},    {"shape:minimax-m2", 6, 100},
        {"shape:minimax-m2", 7, 100},    {"shape:minimax-m2", 8, 100},
        {"shape:minimax-m2", 16, 200},   {"shape:qwen3-30b-a3b", 3, 100},
        {"shape:qwen3-30b-a3b", 6, 150}, {"shape:qwen3.5-35b-a3b", 3, 150},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t weights = 0, pages = 0, slots = 0, whole = 0, whole_page = 0, whole_slot = 0;
        for (int32_t rank = -1; rank < cases[i].n_rank; rank++) {
            whim_diag diag = {{0}};
            whim_engine *engine = NULL;
            whim_engine_cfg cfg = shape_cfg(cases[i].name);
            cfg.n_rank = rank < 0 ? 1 : cases[i].n_rank;
            cfg.rank = rank < 0 ? 0 : rank;
            if (whim_engine_prepare(&cfg, &engine, &diag) != WHIM_ERR_OK) {
                fail_msg("%s", diag.text);
            }
            const whim_exec_plan *plan = whim_engine_runner_plan(engine);
            *(rank < 0 ? &whole : &weights) += whim_engine_binder(engine)->bytes;
            *(rank < 0 ? &whole_page : &pages) += plan->page_bytes;
            *(rank < 0 ? &whole_slot : &slots) += plan->slot_bytes;
            whim_engine_close(engine);
        }
        assert_int_equal(pages * 100, whole_page * cases[i].kv_times);
        assert_int_equal(slots, whole_slot);
        assert_true(weights >= whole && (double)weights < 1.04 * (double)whole);
    }
}

static void a_rank_must_be_one(void **state)
{
    (void)state;
    static const struct {
        int32_t n_rank, rank;
    } wrong[] = {{2, 2}, {2, -1}, {0, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        whim_diag diag = {{0}};
        whim_engine *engine = NULL;
        whim_engine_cfg cfg = shape_cfg("shape:qwen3-30b-a3b");
        cfg.n_rank = wrong[i].n_rank;
        cfg.rank = wrong[i].rank;
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_INVALID);
        assert_non_null(strstr(diag.text, "ranks are counted from 0"));
    }
}

/* More ranks than heads: an agent's first one may have none, and still says what it would choose. */
static void a_rank_without_heads_has_sizes(void **state)
{
    (void)state;
    whim_diag diag = {{0}};
    whim_engine *engine = NULL;
    whim_engine_cfg cfg = shape_cfg("shape:qwen3-30b-a3b");
    cfg.n_rank = 64;
    cfg.rank = 63;
    assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
    assert_int_equal(whim_engine_runner_plan(engine)->page_bytes, 0);
    assert_true(whim_engine_sizes_of(engine).n_page > 0);
    whim_engine_close(engine);
}

/* Ranks that share prompts are parts of as many, and their steps have rows to share. */
static void who_shares_prompts_has_as_many_parts(void **state)
{
    (void)state;
    static const struct {
        int32_t n_rank, n_share;
        int64_t max_step_tokens;
        whim_err err;
        const char *why;
    } cases[] = {
        {4, 3, 0, WHIM_ERR_INVALID, "4 ranks cannot be 3 parts that share prompts"},
        {0, 2, 0, WHIM_ERR_INVALID, "1 ranks cannot be 2 parts that share prompts"},
        {4, 2, 0, WHIM_ERR_OK, ""},
        {8, 4, 7, WHIM_ERR_INVALID,
         "--cp 4 shares steps of 8 tokens or more, and none has more than 7"},
        {4, 4, 7, WHIM_ERR_INVALID,
         "--cp 4 shares steps of 8 tokens or more, and none has more than 7"},
        {4, 4, 8, WHIM_ERR_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_diag diag = {{0}};
        whim_engine *engine = NULL;
        whim_engine_cfg cfg = shape_cfg("shape:qwen3-30b-a3b");
        cfg.n_rank = cases[i].n_rank;
        cfg.n_share = cases[i].n_share;
        cfg.max_step_tokens = cases[i].max_step_tokens;
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), cases[i].err);
        assert_non_null(strstr(diag.text, cases[i].why));
        whim_engine_close(engine);
    }
}

/* Groups, and parts that are cut, meet in memory that a host's ranks share. */
static void groups_are_refused_where_they_cannot_be(void **state)
{
    (void)state;
    static const struct {
        int32_t n_rank, n_group, n_share, n_host;
        const char *kv_dir;
        whim_err err;
        const char *why;
    } cases[] = {
        {64, 64, 0, 0, NULL, WHIM_ERR_OK, ""},
        {65, 65, 0, 0, NULL, WHIM_ERR_INVALID, "65 groups are more than 64"},
        {4, 0, 2, 2, NULL, WHIM_ERR_UNSUPPORTED, "must all be on one machine so far"},
        {4, 2, 0, 2, NULL, WHIM_ERR_OK, ""},
        {6, 2, 0, 2, NULL, WHIM_ERR_UNSUPPORTED,
         "groups of 3 ranks would have ranks of several hosts: this one has ranks 0 to 1"},
        {4, 2, 0, 2, "/nowhere", WHIM_ERR_UNSUPPORTED, "leave out --kv-dir"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_diag diag = {{0}};
        whim_engine *engine = NULL;
        whim_engine_cfg cfg = shape_cfg("shape:qwen3-0.6b");
        cfg.n_rank = cases[i].n_rank;
        cfg.n_group = cases[i].n_group;
        cfg.n_share = cases[i].n_share;
        cfg.n_host = cases[i].n_host;
        cfg.kv_dir = cases[i].kv_dir;
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), cases[i].err);
        assert_non_null(strstr(diag.text, cases[i].why));
        whim_engine_close(engine);
    }
}

/* Experts are dealt to all ranks, at least one to each, and take that much less memory. */
static void experts_are_dealt_to_all_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int32_t n_rank, n_deal, n_share;
        whim_err err;
        const char *why;
        bool cut;
        int32_t n_group;
    } cases[] = {
        {"shape:qwen3-8b", 2, 2, 0, WHIM_ERR_INVALID, "the qwen3 model has none"},
        {"shape:qwen3-30b-a3b", 129, 129, 0, WHIM_ERR_INVALID, "the model has 128"},
        {"shape:qwen3-30b-a3b", 3, 2, 0, WHIM_ERR_INVALID, "over 2 of 3 ranks"},
        {"shape:qwen3-30b-a3b", 4, 2, 0, WHIM_ERR_UNSUPPORTED, "over 2 of 4 ranks"},
        {"shape:qwen3-30b-a3b", 3, 2, 0, WHIM_ERR_INVALID, "must divide", true},
        {"shape:qwen3-30b-a3b", 4, 4, 0, WHIM_ERR_UNSUPPORTED, "give the number of", false, 2},
        {"shape:qwen3-30b-a3b", 4, 2, 0, WHIM_ERR_UNSUPPORTED, "the model whole", true, 4},
        {"shape:qwen3-30b-a3b", 128, 128, 0, WHIM_ERR_OK, ""},
        {"shape:qwen3-30b-a3b", 8, 4, 0, WHIM_ERR_OK, "", true, 2},
        {"shape:qwen3-30b-a3b", 4, 2, 0, WHIM_ERR_OK, "", true},
        {"shape:qwen3-30b-a3b", 3, 3, 3, WHIM_ERR_OK, ""},
        {"shape:qwen3-30b-a3b", 2, 2, 0, WHIM_ERR_OK, ""},
    };
    int64_t last = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_diag diag = {{0}};
        whim_engine *engine = NULL;
        whim_engine_cfg cfg = shape_cfg(cases[i].model);
        cfg.n_rank = cases[i].n_rank;
        cfg.n_deal = cases[i].n_deal;
        cfg.n_share = cases[i].n_share;
        cfg.n_group = cases[i].n_group;
        cfg.deal_cut = cases[i].cut;
        cfg.rank = cases[i].n_rank - 1;
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), cases[i].err);
        assert_non_null(strstr(diag.text, cases[i].why));
        if (engine != NULL) { /* fewer ranks, more experts */
            int64_t bytes = whim_engine_binder(engine)->bytes;
            assert_true(bytes > last);
            last = bytes;
        }
        whim_engine_close(engine);
    }
}

/* Rows travel to experts as somebody says, where that can be, and whoever rounds says so. */
static void rows_travel_as_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *rows, *weights;
        bool shares;
        whim_err err;
        const char *why, *rounds; /* rounds "": nothing does */
    } cases[] = {
        {"int16", "q8_0", true, WHIM_ERR_INVALID,
         "cannot be sent as 'int16'; expected auto, f32, bf16, int8 or fp8", ""},
        {"int8", "q8_0", false, WHIM_ERR_INVALID, "no rows are sent to experts", ""},
        {"fp8", "q8_0", true, WHIM_ERR_UNSUPPORTED, "take no rows of fp8 on cpu", ""},
        {"auto", "q8_0", true, WHIM_ERR_OK, "", ""},
        {"f32", "q8_0", true, WHIM_ERR_OK, "", ""},
        {"int8", "q8_0", true, WHIM_ERR_OK, "", ""},
        {"bf16", "q8_0", true, WHIM_ERR_OK, "", "1/256 of itself"},
        {"int8", "f32", true, WHIM_ERR_OK, "", "1/254 of the largest"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char how[160] = "";
        whim_diag diag = {{0}};
        whim_engine *engine = NULL;
        whim_engine_cfg cfg = shape_cfg("shape:qwen3-30b-a3b");
        cfg.backend = "cpu";
        cfg.weight_type = cases[i].weights;
        cfg.n_rank = cfg.n_deal = 2;
        cfg.n_share = cases[i].shares ? 2 : 0;
        cfg.deal_rows = cases[i].rows;
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), cases[i].err);
        assert_non_null(strstr(diag.text, cases[i].why));
        if (engine != NULL) {
            assert_int_equal(whim_engine_dispatch_rounds(engine, how, sizeof how),
                             cases[i].rounds[0] != '\0');
            assert_non_null(strstr(how, cases[i].rounds));
        }
        whim_engine_close(engine);
    }
}

static void experts_are_dealt_as_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *counts;
        int32_t slots;
        const char *why; /* "": it can be */
    } cases[] = {
        {"100,28", 0, ""},
        {"100,27", 0, "does not distribute 128 experts over 2 ranks"},
        {"128", 0, "does not distribute 128 experts over 2 ranks"},
        {"0,128", 0, "does not distribute 128 experts over 2 ranks"},
        {"100,28,", 0, "does not distribute 128 experts over 2 ranks"},
        {"64,x64", 0, "does not distribute 128 experts over 2 ranks"},
        {"64,32,32", 0, "does not distribute 128 experts over 2 ranks"},
        {NULL, 8, ""},
        {NULL, 7, "7 slots for rows are fewer than the 8 sequences of a step"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        whim_diag diag = {{0}};
        whim_engine *engine = NULL;
        whim_engine_cfg cfg = shape_cfg("shape:qwen3-30b-a3b");
        cfg.max_seqs = 8;
        cfg.n_rank = cfg.n_deal = cfg.n_share = 2;
        cfg.rank = 1;
        cfg.deal_counts = cases[i].counts;
        cfg.deal_slots = cases[i].slots;
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag),
                         cases[i].why[0] != '\0' ? WHIM_ERR_INVALID : WHIM_ERR_OK);
        assert_non_null(strstr(diag.text, cases[i].why));
        whim_engine_close(engine);
    }
}

/* Of two ranks each multiplies half of what experts do. */
static void a_rank_multiplies_its_own_experts(void **state)
{
    (void)state;
    int64_t macs[2], experts = INT64_C(48) * 8 * 3 * 768 * 2048;
    int64_t heads = INT64_C(48) * (2 * 4096 + 2 * 512) * 2048, head = INT64_C(151936) * 2048;
    for (int32_t i = 0; i < 2; i++) {
        whim_diag diag = {{0}};
        whim_engine *engine = NULL;
        whim_engine_cfg cfg = shape_cfg("shape:qwen3-30b-a3b");
        cfg.n_rank = cfg.n_deal = i == 0 ? 0 : 2;
        assert_int_equal(whim_engine_prepare(&cfg, &engine, &diag), WHIM_ERR_OK);
        macs[i] = whim_engine_token_macs(engine);
        whim_engine_close(engine);
    }
    assert_int_equal(macs[0] - macs[1], (experts + heads + head) / 2);
}

/* Whoever has more of the experts has more of the memory, and all have as much for the rest. */
static void memory_follows_the_experts(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:qwen3-30b-a3b");
    cfg.weight_type = "q4_0";
    cfg.n_rank = cfg.n_deal = 2;
    cfg.deal_counts = "96,32";
    const char *wrong = NULL;
    cfg.wrong = &wrong;
    int64_t bytes[2]; /* of experts */
    for (cfg.rank = 0; cfg.rank < 2; cfg.rank++) {
        whim_engine *engine = prepare(&cfg);
        const whim_memory_plan *plan = whim_engine_plan(engine);
        assert_string_equal(wrong, ""); /* what comes next is no option's fault */
        assert_string_equal(plan->parts[1].name, "experts");
        bytes[cfg.rank] = plan->parts[1].bytes;
        int64_t more = bytes[cfg.rank] / (cfg.rank == 0 ? 96 : 32) * (cfg.rank == 0 ? 64 : -64);
        assert_true(llabs(2 * plan->available - plan->available_here - more) <= 2);
        whim_engine_close(engine);
    }
    assert_int_equal(bytes[0], 3 * bytes[1]);
}

/* What a rank would load is of no use when another is lost. */
static void a_lost_rank_ends_the_load(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:smollm2-135m");
    whim_comm_memory memory;
    whim_comm comm;
    whim_diag diag = {{0}};
    assert_int_equal(whim_comm_memory_make(2, &memory, &diag), WHIM_ERR_OK);
    whim_comm_open(&comm, &memory, &(whim_comm_cfg){.rank = 1});
    cfg.ctx = 64;
    cfg.n_rank = 2;
    cfg.rank = 1;
    cfg.comm = &comm;
    whim_engine *engine = prepare(&cfg);
    whim_comm_abort(&memory, "rank 0 was killed");
    assert_int_equal(whim_engine_load(engine, &diag), WHIM_ERR_DEVICE);
    assert_string_equal(diag.text, "rank 0 was killed");
    whim_engine_close(engine);
    whim_comm_memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_over_ranks),
        cmocka_unit_test(a_rank_must_be_one),
        cmocka_unit_test(a_rank_without_heads_has_sizes),
        cmocka_unit_test(who_shares_prompts_has_as_many_parts),
        cmocka_unit_test(groups_are_refused_where_they_cannot_be),
        cmocka_unit_test(experts_are_dealt_to_all_ranks),
        cmocka_unit_test(rows_travel_as_is_said),
        cmocka_unit_test(experts_are_dealt_as_is_said),
        cmocka_unit_test(a_rank_multiplies_its_own_experts),
        cmocka_unit_test(memory_follows_the_experts),
        cmocka_unit_test(a_lost_rank_ends_the_load),
    };
    return cmocka_run_group_tests_name("engine over ranks", tests, NULL, NULL);
}

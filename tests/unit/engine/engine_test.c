/* SPDX-License-Identifier: Apache-2.0 */
/* From a model's name to a plan: what is chosen by default, what is refused and with which words.
 * The shapes of published models stand in for files; only a small one is loaded, with dummy
 * weights. */
#include "engine/engine.h"
#include "support/cmocka.h"

#include "base/alloc.h"
#include "base/os/mem.h"
#include "comm/comm.h"
#include "ops/args/attn_args.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static whim_engine_cfg shape_cfg(const char *model)
{
    return (whim_engine_cfg){.model = model, .load_format = "dummy", .n_thread = 1};
}

static whim_engine *prepare(const whim_engine_cfg *cfg)
{
    whim_engine *engine = NULL;
    whim_diag diag = {{0}};
    if (whim_engine_prepare(cfg, &engine, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return engine;
}

static void refuse(const whim_engine_cfg *cfg, whim_err err, const char *text)
{
    whim_engine *engine = NULL;
    whim_diag diag = {{0}};
    assert_int_equal(whim_engine_prepare(cfg, &engine, &diag), err);
    assert_null(engine);
    if (strstr(diag.text, text) == NULL) {
        fail_msg("the message lacks \"%s\": %s", text, diag.text);
    }
}

static void defaults(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:qwen3-0.6b");
    whim_engine *engine = prepare(&cfg);
    const whim_memory_plan *plan = whim_engine_plan(engine);
    assert_string_equal(whim_engine_backend(engine), whim_backend_at(0)->name);
    int64_t ctx =
        whim_engine_ctx(engine); /* the model's own, or what this machine's memory gives */
    assert_true(ctx == 40960 || (ctx < 40960 && ctx % 1024 == 0 && ctx >= 2048));
    assert_int_equal(whim_engine_kv_type(engine), WHIM_KV_BF16);
    assert_null(whim_engine_runner(engine));
    int64_t total = 0, kv = 0;
    for (int32_t i = 0; i < plan->n_part; i++) {
        total += plan->parts[i].bytes;
        kv = strcmp(plan->parts[i].name, "KV pages") == 0 ? plan->parts[i].bytes : kv;
    }
    assert_int_equal(plan->total, total);
    int64_t page = INT64_C(32) * 28 * 2 * 8 * 128 * 2;
    assert_true(kv >= ctx / 32 * page && kv < (ctx + 1024) / 32 * page);
    /* 0.596e9 weights of two bytes, and their vectors */
    assert_true(plan->parts[0].bytes > 1192000000 && plan->parts[0].bytes < 1200000000);
    assert_int_equal(whim_engine_token_macs(engine) / 1000000, 595);
    assert_true(whim_engine_weight_bytes(engine, 1) <= plan->parts[0].bytes);
    assert_true(plan->loading > 0 && plan->available > 0);
    whim_engine_close(engine);
    whim_engine_close(NULL);
}

/* Steps of many rows leave less and less memory: 8192 tokens as long as the plan fits with them,
 * then what fits. No plan is refused that a shorter context would mend. */
static void the_context_is_usual_or_what_fits(void **state)
{
    (void)state;
    enum { SIZES = 24, USUAL = 8192, LEAST = 2048, PAGES = 1024 / 32 };
    whim_engine_cfg cfg = shape_cfg("shape:qwen3-8b");
    cfg.weight_type = "q4_0";
    cfg.kv_type = "f32";
    int64_t rest[2] = {0}, left = 1; /* beside the KV pages, for 512 and for 1024 rows */
    for (int64_t i = 0; i < SIZES && left > 0; i++) {
        cfg.max_step_tokens = i < 2 ? 512 * (i + 1) : 512 * left / (rest[1] - rest[0]) * i / SIZES;
        whim_engine *engine = prepare(&cfg);
        const whim_memory_plan *plan = whim_engine_plan(engine);
        const whim_exec_plan *parts = whim_engine_runner_plan(engine);
        int64_t needed = plan->total + plan->loading, ctx = whim_engine_ctx(engine);
        assert_true(needed <= plan->available || ctx == LEAST);
        assert_true(ctx >= USUAL || needed + PAGES * parts->page_bytes > plan->available);
        rest[i < 2 ? i : 1] = i < 2 ? needed - parts->kv_bytes : rest[1];
        left = plan->available - rest[0]; /* below 0: this machine cannot hold the weights */
        whim_engine_close(engine);
    }
}

static int64_t planned(const whim_engine *engine, const char *name)
{
    const whim_memory_plan *plan = whim_engine_plan(engine);
    int64_t bytes = 0;
    for (int32_t i = 0; i < plan->n_part; i++) {
        bytes += strcmp(plan->parts[i].name, name) == 0 ? plan->parts[i].bytes : 0;
    }
    return bytes;
}

/* Requests have an eighth of what the weights leave at most: a context is worth more. */
static void requests_leave_room_for_a_context(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:qwen3-0.6b");
    cfg.request_bytes = INT64_C(1) << 40;
    whim_engine *engine = prepare(&cfg);
    int64_t rest = whim_engine_plan(engine)->available - planned(engine, "weights");
    const int64_t least = INT64_C(32) << 20, got = planned(engine, "requests and answers");
    assert_true(got > 0 && (got <= rest / 8 || got == least));
    assert_true(whim_engine_ctx(engine) >= 8192 || rest < INT64_C(3) << 30);
    whim_engine_close(engine);
    cfg.request_bytes = least + 1; /* what is less stays as it was asked for */
    engine = prepare(&cfg);
    assert_true(planned(engine, "requests and answers") <= least + 1);
    whim_engine_close(engine);
    for (int i = 0; i < 2; i++) { /* what somebody asks for is neither cut nor rounded */
        cfg.request_bytes = i == 0 ? 3 << 20 : rest / 8 + (64 << 20);
        cfg.request_bytes_asked = true;
        engine = prepare(&cfg);
        assert_int_equal(planned(engine, "requests and answers"), cfg.request_bytes);
        whim_engine_close(engine);
    }
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

/* A device with memory of its own: that is what the plan is held to. */
static void the_plan_is_for_the_memory_of_the_device(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:qwen3-0.6b"); /* 1.2 GB */
    cfg.backend = "guard";
    whim_engine *engine = prepare(&cfg);
    assert_int_equal(whim_engine_plan(engine)->available, INT64_C(1) << 30);
    assert_int_equal(whim_memory_plan_check(whim_engine_plan(engine), NULL), WHIM_ERR_NO_FIT);
    whim_engine_close(engine);
}

static void a_device_is_chosen_by_its_number(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:smollm2-135m");
    cfg.backend = "guard:1";
    whim_engine *engine = prepare(&cfg);
    assert_string_equal(whim_engine_backend(engine), "guard");
    whim_engine_close(engine);
}

static void limits_are_taken(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:smollm2-135m");
    cfg.ctx = 100;
    cfg.max_seqs = 3;
    cfg.kv_type = "f32";
    cfg.weight_type = "q4_0";
    whim_engine *engine = prepare(&cfg);
    const whim_memory_plan *plan = whim_engine_plan(engine);
    int64_t position = 30 * 2 * 3 * 64 * 4; /* bytes of one position in all layers */
    assert_int_equal(whim_engine_ctx(engine), 100);
    assert_int_equal(whim_engine_kv_type(engine), WHIM_KV_F32);
    assert_string_equal(plan->parts[1].name, "KV pages");
    assert_int_equal(plan->parts[1].bytes, 3 * 128 * position); /* whole pages for each sequence */
    whim_engine_close(engine);
    cfg.kv_mem = 5 * 32 * position + 17;
    engine = prepare(&cfg);
    assert_int_equal(whim_engine_plan(engine)->parts[1].bytes, 5 * 32 * position);
    whim_engine_close(engine);
}

static void an_f32_model_keeps_f32(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:smollm2-135m");
    cfg.weight_type = "f32";
    whim_engine *engine = prepare(&cfg);
    assert_int_equal(whim_engine_kv_type(engine), WHIM_KV_F32);
    whim_engine_close(engine);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    const whim_engine_cfg good = shape_cfg("shape:smollm2-135m");
    whim_engine_cfg cfg = good;
    cfg.model = "shape:smollm9";
    refuse(&cfg, WHIM_ERR_NOT_FOUND, "smollm2-135m");
    cfg = good;
    cfg.load_format = "auto";
    refuse(&cfg, WHIM_ERR_INVALID, "load format 'dummy'");
    cfg.load_format = "pickle";
    refuse(&cfg, WHIM_ERR_INVALID, "pickle");
    cfg = good;
    cfg.weight_type = "q9_z";
    refuse(&cfg, WHIM_ERR_INVALID, "q9_z");
    cfg.weight_type = "i32";
    refuse(&cfg, WHIM_ERR_INVALID, "i32");
    cfg = good;
    cfg.backend = "abacus";
    refuse(&cfg, WHIM_ERR_NOT_FOUND, "abacus");
    cfg.backend = "cpu:1";
    refuse(&cfg, WHIM_ERR_NOT_FOUND, "number 0; not 1");
    cfg = good;
    cfg.isa = "mmx";
    refuse(&cfg, WHIM_ERR_UNSUPPORTED, "mmx");
    cfg = good;
    cfg.n_thread = 100000;
    refuse(&cfg, WHIM_ERR_INVALID, "100000 threads");
    cfg = good;
    cfg.ctx = 8193;
    refuse(&cfg, WHIM_ERR_INVALID, "8192");
    cfg = good;
    cfg.kv_type = "q8_0";
    refuse(&cfg, WHIM_ERR_INVALID, "q8_0");
    cfg = good;
    cfg.kv_mem = 1000;
    refuse(&cfg, WHIM_ERR_INVALID, "memory for keys");
    cfg = good;
    cfg.n_capture = 1;
    cfg.boundary[0] = 31;
    refuse(&cfg, WHIM_ERR_INVALID, "0 to 30");
    cfg.boundary[0] = -1;
    refuse(&cfg, WHIM_ERR_INVALID, "-1");
    cfg = good;
    cfg.load_format = NULL;
    cfg.model = "no/such/model";
    refuse(&cfg, WHIM_ERR_NOT_FOUND, "no/such/model");
}

/* Refused before a byte is loaded. */
static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:smollm2-135m");
    whim_diag diag = {{0}};
    cfg.kv_mem = INT64_C(1) << 45;
    whim_engine *engine = prepare(&cfg);
    assert_int_equal(whim_engine_load(engine, &diag), WHIM_ERR_NO_FIT);
    assert_non_null(strstr(diag.text, "GiB"));
    assert_non_null(strstr(diag.text, "fewer sequences"));
    assert_null(whim_engine_runner(engine));
    whim_engine_close(engine);
}

typedef struct progress {
    int64_t calls, last, total;
} progress;

static void on_progress(void *ctx, int64_t done, int64_t total)
{
    progress *p = ctx;
    p->calls++;
    p->last = done > p->last ? done : p->last;
    p->total = total;
}

static void loading_makes_a_runner(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:smollm2-135m");
    whim_diag diag = {{0}};
    progress p = {0};
    cfg.weight_type = "q4_0";
    cfg.ctx = 64;
    cfg.max_step_tokens = 4;
    cfg.on_progress = on_progress;
    cfg.progress_ctx = &p;
    whim_engine *engine = prepare(&cfg);
    if (whim_engine_load(engine, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    assert_true(p.calls > 10 && p.total > 70000000);
    assert_int_equal(p.last, p.total);
    whim_runner *runner = whim_engine_runner(engine);
    assert_non_null(runner);
    whim_sequence *seq;
    static const int32_t tokens[] = {1, 2, 3};
    assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
    whim_step_part part = {seq, tokens, 3, 1};
    assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
    whim_runner_sequence_destroy(runner, seq);
    whim_engine_close(engine);
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

/* Planned is the same; held from the start is all of it, or, for who uses little, what a step has
 * used. */
static void kv_memory_is_taken_at_once_or_as_used(void **state)
{
    (void)state;
    static const int32_t tokens[] = {1, 2, 3};
    whim_engine_cfg cfg = shape_cfg("shape:smollm2-135m");
    whim_diag diag = {{0}};
    cfg.backend = "cpu"; /* the guard takes no memory at the start */
    cfg.weight_type = "q4_0";
    cfg.max_step_tokens = 4;
    cfg.kv_mem = 256 << 20;
    int64_t held[2];
    if (whim_os_mem_anon_resident() == 0) {
        skip(); /* the system does not tell */
    }
    for (int as_used = 0; as_used < 2; as_used++) {
        cfg.kv_as_used = as_used;
        whim_engine *engine = prepare(&cfg);
        int64_t kv = whim_engine_runner_plan(engine)->kv_bytes,
                before = whim_os_mem_anon_resident();
        assert_int_equal(whim_engine_load(engine, &diag), WHIM_ERR_OK);
        whim_runner *runner = whim_engine_runner(engine);
        whim_sequence *seq;
        assert_int_equal(whim_runner_sequence_create(runner, &seq), WHIM_ERR_OK);
        whim_step_part part = {seq, tokens, 3, 1};
        assert_int_equal(whim_runner_step(runner, &part, 1, &diag), WHIM_ERR_OK);
        held[as_used] = whim_os_mem_anon_resident() - before;
        assert_true(as_used ? held[0] - held[1] > kv / 2 : held[0] > kv);
        whim_runner_sequence_destroy(runner, seq);
        whim_engine_close(engine);
    }
}

static void a_lack_of_memory_is_an_error(void **state)
{
    (void)state;
    whim_engine_cfg cfg = shape_cfg("shape:smollm2-135m");
    whim_err err = WHIM_ERR_NO_MEMORY;
    int64_t n = 0;
    for (; err != WHIM_ERR_OK; n++) {
        whim_engine *engine = NULL;
        whim_diag diag = {{0}};
        assert_true(n < 5000);
        whim_alloc_fail_after(n);
        err = whim_engine_prepare(&cfg, &engine, &diag);
        whim_alloc_fail_after(-1);
        if (err != WHIM_ERR_OK && (err != WHIM_ERR_NO_MEMORY || diag.text[0] == '\0')) {
            fail_msg("after %lld allocations: %s: '%s'", (long long)n, whim_err_name(err),
                     diag.text);
        }
        whim_engine_close(engine);
    }
    assert_true(n > 5);
}

/* Parameters as published, KV of the layers that have it, a slot of state in F32 for each sequence
 * and checkpoint. */
static void hybrid_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double billions;
        /* slot: recurrent 4 nv dk dv, convolution 4 * 3 * (2 nk dk + nv dv) */
        int64_t kv_per_token, slot;
    } shapes[] = {
        {"shape:qwen3.5-4b", 4.206, 32768, 24 * (4LL * 32 * 128 * 128 + 12LL * 8192)},
        {"shape:qwen3.5-35b-a3b", 34.66, 20480, 30 * (4LL * 32 * 128 * 128 + 12LL * 8192)},
        {"shape:qwen3.5-397b-a17b", 396.3, 30720, 45 * (4LL * 64 * 128 * 128 + 12LL * 12288)},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        whim_diag diag = {{0}};
        whim_engine *engine = NULL;
        whim_engine_cfg cfg = shape_cfg(shapes[i].name);
        cfg.max_seqs =
            3; /* and no checkpoints: whether there is room for some depends on the machine */
        if (whim_engine_prepare(&cfg, &engine, &diag) != WHIM_ERR_OK) {
            fail_msg("%s", diag.text);
        }
        const whim_exec_plan *plan = whim_engine_runner_plan(engine);
        double n = (double)whim_engine_parameters(engine) / 1e9;
        assert_true(fabs(n / shapes[i].billions - 1) < 0.001);
        assert_int_equal(plan->page_bytes, shapes[i].kv_per_token * 32);
        assert_int_equal(plan->slot_bytes, shapes[i].slot);
        assert_int_equal(plan->state_bytes, 3 * shapes[i].slot);
        whim_engine_close(engine);
    }
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(the_context_is_usual_or_what_fits),
        cmocka_unit_test(requests_leave_room_for_a_context),
        cmocka_unit_test(memory_follows_the_experts),
        cmocka_unit_test(the_plan_is_for_the_memory_of_the_device),
        cmocka_unit_test(a_device_is_chosen_by_its_number),
        cmocka_unit_test(limits_are_taken),
        cmocka_unit_test(an_f32_model_keeps_f32),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(hybrid_shapes),
        cmocka_unit_test(shapes_over_ranks),
        cmocka_unit_test(a_rank_must_be_one),
        cmocka_unit_test(a_rank_without_heads_has_sizes),
        cmocka_unit_test(who_shares_prompts_has_as_many_parts),
        cmocka_unit_test(groups_are_refused_where_they_cannot_be),
        cmocka_unit_test(experts_are_dealt_to_all_ranks),
        cmocka_unit_test(rows_travel_as_is_said),
        cmocka_unit_test(experts_are_dealt_as_is_said),
        cmocka_unit_test(a_rank_multiplies_its_own_experts),
        cmocka_unit_test(loading_makes_a_runner),
        cmocka_unit_test(a_lost_rank_ends_the_load),
        cmocka_unit_test(kv_memory_is_taken_at_once_or_as_used),
        cmocka_unit_test(a_lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}

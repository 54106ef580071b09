/* SPDX-License-Identifier: Apache-2.0 */
/* From a model's name to a plan: what is chosen by default, what is refused and with which words.
 * The shapes of published models stand in for files; only a small one is loaded, with dummy
 * weights. */
#include "unit/engine/shape_fixture.h"

#include "base/alloc.h"
#include "base/os/mem.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(the_context_is_usual_or_what_fits),
        cmocka_unit_test(requests_leave_room_for_a_context),
        cmocka_unit_test(the_plan_is_for_the_memory_of_the_device),
        cmocka_unit_test(a_device_is_chosen_by_its_number),
        cmocka_unit_test(limits_are_taken),
        cmocka_unit_test(an_f32_model_keeps_f32),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(loading_makes_a_runner),
        cmocka_unit_test(kv_memory_is_taken_at_once_or_as_used),
        cmocka_unit_test(a_lack_of_memory_is_an_error),
        cmocka_unit_test(hybrid_shapes),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}

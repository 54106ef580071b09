/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel bench: how fast prompts are read and tokens are generated, for several batch sizes, and what
 * share of the machine that is. Token ids are random from a fixed seed; nothing is sampled, so the time
 * is that of the model alone. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "cmd.h"
#include "engine/dummy_gguf.h"
#include "engine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEED = 1 };

typedef struct bench {
    const whim_options *options;
    const char *model;
    whim_engine *engine;
    whim_runner *runner;
    const whim_config *config;
    double machine_gbs, machine_gflops;
    int64_t max_batch;
    int32_t *tokens;       /* [max_batch, prompt_tokens + tokens]: prompts first, see token_at */
    whim_sequence **seqs;  /* [max_batch] */
    whim_step_part *parts; /* [max_batch] */
    double *prompt_tps;    /* [repeats] */
    double *gen_tps;       /* [repeats] */
    whim_progress bar;
} bench;

/* One row of the result. */
typedef struct row {
    int64_t batch;
    double prompt_best, prompt_median, gen_best, gen_median; /* tokens a second */
    double read_gbs, read_share, gflops, peak_share;         /* of the best */
} row;

/* --- one measurement ---------------------------------------------------------------------------- */

static int64_t prompt_tokens(const bench *b)
{
    return b->options->prompt_tokens;
}

/* All prompts of a batch lie one after the other, then the tokens of each decode step. */
static void make_tokens(bench *b, int64_t batch)
{
    int64_t n = batch * (prompt_tokens(b) + b->options->tokens);
    for (int64_t i = 0; i < n; i++) {
        b->tokens[i] = (int32_t)(whim_rng_at(SEED, (uint64_t)i) % (uint64_t)b->config->n_vocab);
    }
}

/* Steps of at most --max-step-tokens rows; a step may end one prompt and begin the next. */
static whim_err feed_prompts(bench *b, int64_t batch, whim_diag *diag)
{
    int64_t each = prompt_tokens(b), total = batch * each;
    for (int64_t at = 0; at < total;) {
        int64_t n_part = 0, begin = at;
        int64_t end = at + b->options->max_step_tokens;
        end = end < total ? end : total;
        while (at < end) {
            int64_t seq = at / each;
            int64_t stop = (seq + 1) * each < end ? (seq + 1) * each : end;
            b->parts[n_part++] = (whim_step_part){
                b->seqs[seq],
                b->tokens + at,
                stop - at,
                stop == (seq + 1) * each,
            };
            at = stop;
        }
        WHIM_TRY(whim_runner_step(b->runner, b->parts, n_part, diag));
        whim_progress_add(&b->bar, end - begin);
    }
    return WHIM_ERR_OK;
}

static whim_err feed_decode(bench *b, int64_t batch, whim_diag *diag)
{
    const int32_t *tokens = b->tokens + batch * prompt_tokens(b);
    for (int64_t step = 0; step < b->options->tokens; step++) {
        for (int64_t i = 0; i < batch; i++) {
            b->parts[i] = (whim_step_part){b->seqs[i], tokens + step * batch + i, 1, 1};
        }
        WHIM_TRY(whim_runner_step(b->runner, b->parts, batch, diag));
        whim_progress_add(&b->bar, batch);
    }
    return WHIM_ERR_OK;
}

static double rate_since(int64_t start, int64_t n)
{
    int64_t ns = whim_clock_ns() - start;
    return (double)n * (double)WHIM_NS_PER_S / (double)(ns > 0 ? ns : 1);
}

static whim_err measure_once(bench *b, int64_t batch, int64_t repeat, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    int64_t n_seq = 0;
    for (; n_seq < batch; n_seq++) {
        WHIM_TRY_OUT(whim_runner_sequence_create(b->runner, &b->seqs[n_seq]));
    }
    int64_t start = whim_clock_ns();
    WHIM_TRY_OUT(feed_prompts(b, batch, diag));
    b->prompt_tps[repeat] = rate_since(start, batch * prompt_tokens(b));
    start = whim_clock_ns();
    WHIM_TRY_OUT(feed_decode(b, batch, diag));
    b->gen_tps[repeat] = rate_since(start, batch * b->options->tokens);
out:
    while (n_seq > 0) {
        whim_runner_sequence_destroy(b->runner, b->seqs[--n_seq]);
    }
    return err;
}

/* --- figures ------------------------------------------------------------------------------------ */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median and the largest. */
static double median(double *values, int64_t n, double *best)
{
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    *best = values[n - 1];
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* Keys and values that a decode step reads for one sequence, averaged over the steps. */
static double kv_bytes(const bench *b)
{
    double len = (double)prompt_tokens(b) + ((double)b->options->tokens + 1) / 2;
    int64_t head = whim_dtype_row_bytes(whim_engine_kv_type(b->engine), b->config->d_head);
    return len * (double)(2 * head * b->config->n_kv) * b->config->n_layer;
}

/* Multiply-adds of a prompt's matrices: the head is asked for its last token only. */
static double prompt_macs(const bench *b)
{
    double head = (double)b->config->n_vocab * b->config->d_model;
    double each = (double)whim_engine_token_macs(b->engine) - head;
    return each * (double)prompt_tokens(b) + head;
}

static row make_row(bench *b, int64_t batch)
{
    row r = {.batch = batch};
    r.prompt_median = median(b->prompt_tps, b->options->repeats, &r.prompt_best);
    r.gen_median = median(b->gen_tps, b->options->repeats, &r.gen_best);
    double step_bytes = (double)whim_engine_weight_bytes(b->engine) + (double)batch * kv_bytes(b);
    r.read_gbs = step_bytes * r.gen_best / (double)batch / 1e9;
    r.read_share = r.read_gbs / b->machine_gbs;
    r.gflops = 2 * prompt_macs(b) / (double)prompt_tokens(b) * r.prompt_best / 1e9;
    r.peak_share = r.gflops / b->machine_gflops;
    return r;
}

/* --- output ------------------------------------------------------------------------------------- */

static void append_head(const bench *b, whim_str *out)
{
    const whim_device_caps *caps = whim_engine_caps(b->engine);
    whim_str_printf(out, "%s on %s\n", b->model, caps->summary);
    whim_str_printf(out,
                    "%lld prompt tokens, %lld generated, %lld repeats; the machine reads %.1f GB/s "
                    "and does %.1f F32 GFLOP/s\n\n",
                    (long long)prompt_tokens(b), (long long)b->options->tokens,
                    (long long)b->options->repeats, b->machine_gbs, b->machine_gflops);
    whim_str_printf(out, "%5s %19s %19s %15s %15s\n", "", "prompt tokens/s", "generated tokens/s",
                    "read GB/s", "GFLOP/s");
    whim_str_printf(out, "%5s %9s %9s %9s %9s %8s %6s %8s %6s\n", "batch", "best", "median", "best",
                    "median", "", "share", "", "share");
}

static void append_row(const row *r, whim_str *out)
{
    whim_str_printf(out, "%5lld %9.1f %9.1f %9.1f %9.1f %8.1f %5.0f%% %8.1f %5.0f%%\n",
                    (long long)r->batch, r->prompt_best, r->prompt_median, r->gen_best,
                    r->gen_median, r->read_gbs, 100 * r->read_share, r->gflops,
                    100 * r->peak_share);
}

static void append_json(const bench *b, const row *r, whim_str *out)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"prompt_tps", r->prompt_best}, {"gen_tps", r->gen_best}, {"read_gbs", r->read_gbs},
        {"read_share", r->read_share},  {"gflops", r->gflops},    {"peak_share", r->peak_share},
    };
    const whim_device_caps *caps = whim_engine_caps(b->engine);
    whim_str_append(out, "{\"model\":");
    json_text(out, b->model);
    whim_str_append(out, ",\"isa\":");
    json_text(out, caps->isa);
    whim_str_printf(out,
                    ",\"threads\":%d,\"batch\":%lld,\"prompt_tokens\":%lld,\"gen_tokens\":%lld",
                    caps->n_thread, (long long)r->batch, (long long)prompt_tokens(b),
                    (long long)b->options->tokens);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        whim_str_printf(out, ",\"%s\":", numbers[i].key);
        json_number(out, numbers[i].value);
    }
    whim_str_append(out, "}\n");
}

/* --- the command -------------------------------------------------------------------------------- */

static whim_err allocate(bench *b, whim_diag *diag)
{
    int64_t each = prompt_tokens(b) + b->options->tokens;
    b->tokens = whim_alloc_array(b->max_batch * each, (int64_t)sizeof *b->tokens);
    b->seqs = whim_alloc_array(b->max_batch, (int64_t)sizeof(whim_sequence *));
    b->parts = whim_alloc_array(b->max_batch, (int64_t)sizeof *b->parts);
    b->prompt_tps = whim_alloc_array(b->options->repeats, (int64_t)sizeof(double));
    b->gen_tps = whim_alloc_array(b->options->repeats, (int64_t)sizeof(double));
    if (b->tokens == NULL || b->seqs == NULL || b->parts == NULL || b->prompt_tps == NULL ||
        b->gen_tps == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory for the token ids of a bench");
    }
    return WHIM_ERR_OK;
}

static whim_err bench_rows(bench *b, whim_str *out, whim_diag *diag)
{
    const whim_int_list *list = &b->options->batch;
    for (int32_t i = 0; i < list->n; i++) {
        make_tokens(b, list->v[i]);
        for (int64_t repeat = 0; repeat < b->options->repeats; repeat++) {
            WHIM_TRY(measure_once(b, list->v[i], repeat, diag));
        }
        row r = make_row(b, list->v[i]);
        if (b->options->json) {
            append_json(b, &r, out);
        } else {
            append_row(&r, out);
        }
        whim_progress_hide(&b->bar);
        if (!print_out(out)) {
            return whim_fail(diag, WHIM_ERR_IO, "the results could not be written");
        }
    }
    return WHIM_ERR_OK;
}

static whim_err bench_model(bench *b, whim_str *out, whim_diag *diag)
{
    const whim_options *options = b->options;
    int32_t n_thread = whim_engine_caps(b->engine)->n_thread;
    int64_t sequences = 0;
    for (int32_t i = 0; i < options->batch.n; i++) {
        sequences += options->batch.v[i];
    }
    b->runner = whim_engine_runner(b->engine);
    b->config = whim_engine_config(b->engine);
    WHIM_TRY(allocate(b, diag));
    WHIM_TRY(whim_machine_read_gbs(n_thread, options->seconds / 2, &b->machine_gbs, diag));
    WHIM_TRY(whim_machine_peak_gflops(whim_engine_caps(b->engine), WHIM_DTYPE_F32, n_thread,
                                      options->seconds / 2, &b->machine_gflops));
    if (!options->json) {
        append_head(b, out);
        if (!print_out(out)) {
            return whim_fail(diag, WHIM_ERR_IO, "the results could not be written");
        }
    }
    whim_progress_init(
        &b->bar, &(whim_progress_cfg){
                     .label = "bench (tokens)",
                     .total = sequences * (prompt_tokens(b) + options->tokens) * options->repeats,
                     .fd = STDERR_FILENO,
                     .mode = options->quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO,
                 });
    whim_err err = bench_rows(b, out, diag);
    whim_progress_finish(&b->bar, err == WHIM_ERR_OK);
    return err;
}

/* What must hold before a model is looked at. */
static bool check_options(const whim_options *options, int64_t *max_batch)
{
    int64_t needed = options->prompt_tokens + options->tokens;
    *max_batch = 1;
    for (int32_t i = 0; i < options->batch.n; i++) {
        *max_batch = options->batch.v[i] > *max_batch ? options->batch.v[i] : *max_batch;
    }
    if (*max_batch > options->max_step_tokens) {
        complain(EXIT_USAGE,
                 "--batch: %lld sequences need as many tokens in a step, but "
                 "--max-step-tokens is %lld",
                 (long long)*max_batch, (long long)options->max_step_tokens);
        return false;
    }
    if (options->ctx > 0 && options->ctx < needed) {
        complain(EXIT_USAGE, "--ctx: %lld is less than the %lld tokens of prompt and generation",
                 (long long)options->ctx, (long long)needed);
        return false;
    }
    return true;
}

/* --write-gguf: the dummy weights go to a file; complains and gives false on failure. */
static bool write_gguf(const bench *b, loader *load)
{
    const char *colon = strchr(b->model, ':');
    const char *name = colon != NULL ? colon + 1 : b->model;
    whim_diag diag = {""};
    load->label = "writing";
    whim_err err =
        whim_dummy_gguf_write(b->engine, name, b->options->write_gguf, load_report, load, &diag);
    load_finish(load, err == WHIM_ERR_OK);
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
    }
    return err == WHIM_ERR_OK;
}

int cmd_bench(const whim_options *options)
{
    static bench b; /* zeroed, and the bar must not move */
    char path[MODEL_PATH_MAX];
    whim_diag diag = {""};
    loader load;
    b.options = options;
    if (!check_options(options, &b.max_batch)) {
        return EXIT_USAGE;
    }
    b.model = choose_model(options, path);
    if (b.model == NULL) {
        return EXIT_FAILED;
    }
    whim_engine_cfg cfg = engine_cfg(options, b.model);
    cfg.max_seqs = b.max_batch;
    cfg.ctx = options->ctx > 0 ? options->ctx : options->prompt_tokens + options->tokens;
    b.engine = open_engine(&cfg, options->quiet, &load);
    if (b.engine == NULL) {
        return EXIT_FAILED;
    }
    if (options->write_gguf != NULL) {
        bool written = write_gguf(&b, &load);
        whim_engine_close(b.engine);
        return written ? EXIT_OK : EXIT_FAILED;
    }
    bool ok = load_engine(b.engine, &load);
    if (ok) {
        whim_str out = {0};
        whim_err err = bench_model(&b, &out, &diag);
        whim_str_deinit(&out);
        ok = err == WHIM_ERR_OK;
        if (!ok) {
            complain(EXIT_FAILED, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
        }
    }
    whim_engine_close(b.engine);
    whim_free(b.tokens);
    whim_free(b.seqs);
    whim_free(b.parts);
    whim_free(b.prompt_tps);
    whim_free(b.gen_tps);
    return ok ? EXIT_OK : EXIT_FAILED;
}

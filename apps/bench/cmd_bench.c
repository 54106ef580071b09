/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel bench: how fast prompts are read and tokens are generated, for several batch sizes, what
 * share of the machine that is, and how another program does on the same file. */
#include "base/clock.h"
#include "bench/dummy_gguf.h"
#include "bench/server.h"
#include "bench/suite.h"
#include "engine/machine.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { PEER_ROUNDS = 5 };

/* --- before ----------------------------------------------------------------------------------- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Positions that the longest sequence of all rows takes. */
static int64_t needed_ctx(const whim_options *options)
{
    int64_t needed = options->prompt_tokens;
    for (int32_t i = 0; i < options->batch.n; i++) {
        needed = larger(needed, bench_depth(options, options->batch.v[i]) + options->tokens);
    }
    for (int32_t i = 0; i < options->verify_rows.n; i++) { /* the draft's rows follow the model's */
        needed = larger(needed, bench_depth(options, 1) + 2 * options->verify_rows.v[i]);
    }
    return needed;
}

static int64_t largest(const whim_int_list *list)
{
    int64_t most = 0;
    for (int32_t i = 0; i < list->n; i++) {
        most = larger(most, list->v[i]);
    }
    return most;
}

/* Whether it is --draft's oracle that is timed. */
static bool has_oracle(const whim_options *options)
{
    return options->oracle != NULL && options->verify_rows.n == 0;
}

/* Whether --suite and --verify-rows go with each other and with what else is given. */
static bool check_drafts(const whim_options *options)
{
    double chance;
    int64_t rows = largest(&options->verify_rows);
    if (options->suite != NULL && options->peer != NULL) {
        complain(EXIT_USAGE, "--suite and --peer do not go together: the peer proposes nothing");
        return false;
    }
    if (rows > 0 && (options->suite != NULL || options->peer != NULL)) {
        complain(EXIT_USAGE, "--verify-rows goes with neither --suite nor --peer");
        return false;
    }
    if (rows > options->max_step_tokens) {
        complain(EXIT_USAGE,
                 "--verify-rows: %lld rows are as many tokens of a step, but "
                 "--max-step-tokens is %lld",
                 (long long)rows, (long long)options->max_step_tokens);
        return false;
    }
    if ((rows > 0 || options->suite != NULL) && options->oracle != NULL &&
        bench_draft_read(options->oracle, &chance)) {
        complain(EXIT_USAGE,
                 "--draft: \"%s\" is timed by itself; --suite and --verify-rows time a "
                 "draft's files",
                 options->oracle);
        return false;
    }
    return true;
}

/* What must hold before a model is looked at. */
static bool check_options(const whim_options *options, int64_t *max_batch)
{
    *max_batch = larger(1, largest(&options->batch));
    if (*max_batch > options->max_step_tokens) {
        complain(EXIT_USAGE,
                 "--batch: %lld sequences need as many tokens in a step, but "
                 "--max-step-tokens is %lld",
                 (long long)*max_batch, (long long)options->max_step_tokens);
        return false;
    }
    double chance;
    if (!check_drafts(options)) {
        return false;
    }
    if (options->suite == NULL && has_oracle(options) &&
        (!bench_draft_read(options->oracle, &chance) || options->peer != NULL)) {
        complain(EXIT_USAGE,
                 options->peer != NULL
                     ? "--draft and --peer do not go together: the peer proposes nothing"
                     : "--draft: expected oracle:A, where A is a probability from 0 to 1, not "
                       "\"%s\"; to time a draft, use --suite or --verify-rows",
                 options->oracle);
        return false;
    }
    if (options->ctx > 0 && options->ctx < needed_ctx(options)) {
        complain(EXIT_USAGE, "--ctx: %lld is less than the %lld tokens of prompt and generation",
                 (long long)options->ctx, (long long)needed_ctx(options));
        return false;
    }
    return true;
}

/* The type of weights with the most multiply-adds. */
static whim_dtype main_type(const whim_engine *engine)
{
    const whim_binder *binder = whim_engine_binder(engine);
    int64_t macs[WHIM_DTYPE_COUNT] = {0};
    int32_t best = 0;
    for (int64_t i = 0; i < binder->n_param; i++) {
        const whim_param *p = &binder->params[i];
        if (p->weight != NULL) {
            macs[p->dtype] += p->n_part * p->n * p->k;
        }
    }
    for (int32_t t = 1; t < WHIM_DTYPE_COUNT; t++) {
        best = macs[t] > macs[best] ? t : best;
    }
    return (whim_dtype)best;
}

/* --- the rows --------------------------------------------------------------------------------- */

whim_err bench_print(whim_str *out, bench *b, whim_diag *diag)
{
    whim_progress_hide(&b->bar);
    return print_out(out) ? WHIM_ERR_OK
                          : whim_fail(diag, WHIM_ERR_IO, "the results could not be written");
}

static whim_err bench_rows(bench *b, whim_str *out, whim_diag *diag)
{
    const whim_options *options = b->options;
    const whim_int_list *list = &options->batch;
    bench_row rows[WHIM_OPTION_MAX_INTS];
    for (int32_t i = 0; i < list->n; i++) {
        for (int64_t round = 0; round < b->n_round; round++) {
            WHIM_TRY(bench_measure(b, list->v[i], round, diag));
            if (options->peer != NULL) {
                WHIM_TRY(bench_peer_measure(b, list->v[i], round, diag));
            }
        }
        rows[i] = bench_row_make(b, list->v[i]);
        if (options->json) {
            bench_append_json(b, &rows[i], out);
        } else {
            bench_append_row(&rows[i], out);
        }
        WHIM_TRY(bench_print(out, b, diag));
    }
    if (options->peer != NULL && !options->json) {
        bench_append_peer(b, rows, list->n, out);
        WHIM_TRY(bench_print(out, b, diag));
    }
    return WHIM_ERR_OK;
}

/* Tokens of all rounds of ours, and as many of the peer. */
static int64_t total_tokens(const bench *b)
{
    const whim_options *o = b->options;
    int64_t total = 0;
    if (o->verify_rows.n > 0) {
        return bench_depth(o, 1) + o->tokens * o->verify_rows.n;
    }
    for (int32_t i = 0; i < o->batch.n; i++) {
        if (o->oracle != NULL) {
            total += o->batch.v[i] * o->tokens * (2 * b->n_round + 1);
            continue;
        }
        int64_t depth = bench_depth(o, o->batch.v[i]);
        int64_t each = o->prompt_tokens + o->tokens + (depth != o->prompt_tokens ? depth : 0);
        total += o->batch.v[i] * each * b->n_round;
    }
    return o->peer != NULL ? 2 * total : total;
}

static whim_err bench_model(bench *b, int64_t start_ns, whim_str *out, whim_diag *diag)
{
    const whim_options *options = b->options;
    const whim_device_caps *caps = whim_engine_caps(b->engine);
    double each = options->seconds / 2;
    b->runner = whim_engine_runner(b->engine);
    WHIM_TRY(bench_allocate(b, diag));
    whim_progress_init(&b->bar, &(whim_progress_cfg){.label = "", .mode = WHIM_PROGRESS_QUIET});
    whim_err err = bench_first_token(b, start_ns, diag);
    whim_progress_finish(&b->bar, err == WHIM_ERR_OK);
    WHIM_TRY(err);
    b->machine_gbs = b->machine_gflops = NAN;
    if (!whim_engine_plan(b->engine)->apart) { /* what the CPUs can do says nothing of a GPU */
        WHIM_TRY(whim_machine_read_gbs(caps->n_thread, each, &b->machine_gbs, diag));
        WHIM_TRY(whim_machine_peak_gflops(caps, b->type, caps->n_thread, each, &b->machine_gflops));
    }
    if (!options->json && options->oracle == NULL && options->verify_rows.n == 0) {
        bench_append_head(b, out);
        WHIM_TRY(bench_print(out, b, diag));
    }
    whim_progress_init(&b->bar,
                       &(whim_progress_cfg){
                           .label = "bench (tokens)",
                           .total = total_tokens(b),
                           .fd = STDERR_FILENO,
                           .mode = options->quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO,
                       });
    err = options->verify_rows.n > 0 ? bench_verify(b, out, diag)
          : has_oracle(options)      ? bench_draft(b, out, diag)
                                     : bench_rows(b, out, diag);
    whim_progress_finish(&b->bar, err == WHIM_ERR_OK);
    return err;
}

/* --- the command ------------------------------------------------------------------------------ */

/* --write-gguf: the dummy weights go to a file. */
static whim_err write_gguf(const bench *b, loader *load, whim_diag *diag)
{
    const char *colon = strchr(b->model, ':');
    const char *name = colon != NULL ? colon + 1 : b->model;
    load->label = "writing";
    whim_err err =
        whim_dummy_gguf_write(b->engine, name, b->options->write_gguf, load_report, load, diag);
    load_finish(load, err == WHIM_ERR_OK);
    return err;
}

static whim_err load_and_bench(bench *b, loader *load, int64_t start_ns, whim_diag *diag)
{
    whim_str out = {0};
    if (b->options->peer != NULL) {
        WHIM_TRY(bench_peer_check(b, diag));
    }
    whim_err err = whim_engine_load(b->engine, diag);
    load_finish(load, err == WHIM_ERR_OK);
    if (err != WHIM_ERR_OK) {
        whim_diag said = *diag;
        return whim_fail(diag, err, "%s%s", said.text, fit_hint(b->engine, err));
    }
    err = bench_model(b, start_ns, &out, diag);
    whim_str_deinit(&out);
    return err;
}

/* Steps are timed by themselves, without the loop that answers requests; proposals in that loop, as
 * serve has it, where steps go ahead. */
static whimbrel_model *open_it(const bench *b, loader *load)
{
    const whim_options *o = b->options;
    whimbrel_model_options options = model_options(o, b->model);
    options.draft = o->verify_rows.n > 0 ? o->oracle : "";
    whim_library_extra extra = model_extra(o);
    options.ids_only = true;
    options.take_memory = true;
    options.max_parallel = (int32_t)b->max_batch;
    if (o->ctx == 0 && o->write_gguf == NULL) {
        options.context = needed_ctx(o);
    }
    extra.max_outs = larger(b->max_batch, b->max_rows);
    extra.all_at_longest = !has_oracle(o);
    if (has_oracle(o) && options.max_parallel == 1) {
        options.max_parallel = 2;
    }
    return open_model(&options, &extra, o->quiet, load);
}

int cmd_bench(const whim_options *options)
{
    static bench b; /* zeroed, and the bar must not move */
    int64_t start_ns = whim_clock_ns();
    char path[MODEL_PATH_MAX];
    whim_diag diag = {""};
    loader load;
    if (options->serve != NULL) {
        return bench_serve(options);
    }
    if (options->ranks > 0) {
        return bench_ranks(options);
    }
    b.options = options;
    if (!check_serving_options(options) || !check_options(options, &b.max_batch)) {
        return EXIT_USAGE;
    }
    b.max_rows = largest(&options->verify_rows);
    b.model = choose_model(options, path);
    if (b.model == NULL) {
        return EXIT_FAILED;
    }
    if (options->suite != NULL) {
        return bench_suite(options, b.model);
    }
    b.n_round = options->peer != NULL && !whim_options_gave(options, &options->repeats)
                    ? PEER_ROUNDS
                    : options->repeats;
    b.opened = open_it(&b, &load);
    if (b.opened == NULL) {
        return EXIT_FAILED;
    }
    b.engine = whim_library_engine(b.opened);
    b.config = whim_engine_config(b.engine);
    b.type = main_type(b.engine);
    whim_err err = options->write_gguf != NULL ? write_gguf(&b, &load, &diag)
                                               : load_and_bench(&b, &load, start_ns, &diag);
    whimbrel_close(b.opened);
    bench_free(&b);
    if (err != WHIM_ERR_OK) {
        return complain(EXIT_FAILED, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
    }
    if (b.differs) {
        return complain(EXIT_FAILED, "with proposals the tokens are not the same as without");
    }
    return EXIT_OK;
}

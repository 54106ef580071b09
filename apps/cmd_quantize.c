/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel quantize: a smaller copy of a model, and what it is worth. */
#include "base/math/fmath.h"
#include "quality.h"
#include "weights/quantised/quantize.h"

#include <stdio.h>
#include <string.h>

static bool kind_of(const char *word, whim_quantize_kind *kind)
{
    static const char *const words[] = {
        [WHIM_QUANTIZE_Q8] = "q8", [WHIM_QUANTIZE_Q4] = "q4", [WHIM_QUANTIZE_FP8] = "fp8"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) == 0) {
            *kind = (whim_quantize_kind)i;
            return true;
        }
    }
    return false;
}

/* --- what is printed -------------------------------------------------------------------------- */

static void append_sizes(whim_str *out, int64_t before, int64_t after)
{
    char a[32], b[32];
    whim_format_bytes(a, sizeof a, before);
    whim_format_bytes(b, sizeof b, after);
    whim_str_printf(out, "%s -> %s (%.1f %%)", a, b, 100.0 * (double)after / (double)before);
}

static void append_text(whim_str *out, const quality *q, const whim_quantize_result *r)
{
    const whim_divergence *d = &q->got;
    whim_str_printf(out, "quantised      %lld matrices to %s, ", (long long)r->n_matrix,
                    q->options->to);
    append_sizes(out, r->matrix_in, r->matrix_out);
    if (r->n_odd > 0) {
        whim_str_printf(out, "\nas they were   %lld matrices that do not divide into %s",
                        (long long)r->n_odd, r->unit);
    }
    whim_str_append(out, "\nmodel          ");
    append_sizes(out, r->bytes_in, r->bytes_out);
    if (q->skipped[0] != '\0') {
        whim_str_printf(out, "\nno report      %s\n", q->skipped);
    } else {
        double p = whim_exp(d->nll_p / (double)d->n_token);
        double o = whim_exp(d->nll_q / (double)d->n_token);
        whim_str_printf(out, "\nperplexity     %.4f -> %.4f (x %.4f) on %lld tokens", p, o, o / p,
                        (long long)q->n);
        whim_str_printf(out, "\nKL divergence  mean %.6f, largest %.6f nats",
                        d->kl_sum / (double)d->n_row, d->kl_max);
        whim_str_printf(out, "\nsame choice    %.2f %% of %lld\n",
                        100.0 * (double)d->n_same / (double)d->n_row, (long long)d->n_row);
    }
}

static void json_field(whim_str *out, const char *name, double value)
{
    whim_str_printf(out, ",\"%s\":", name);
    json_number(out, value);
}

static void append_json(whim_str *out, const quality *q, const whim_quantize_result *r)
{
    const whim_divergence *d = &q->got;
    whim_str_append(out, "{\"to\":");
    json_text(out, q->options->to);
    json_field(out, "n_matrix", (double)r->n_matrix);
    json_field(out, "n_odd", (double)r->n_odd);
    json_field(out, "matrix_bytes_in", (double)r->matrix_in);
    json_field(out, "matrix_bytes_out", (double)r->matrix_out);
    whim_str_printf(out,
                    ",\"bytes_in\":%lld,\"bytes_out\":%lld,\"report\":", (long long)r->bytes_in,
                    (long long)r->bytes_out);
    if (q->skipped[0] != '\0') {
        whim_str_append(out, "null,\"no_report\":");
        json_text(out, q->skipped);
        whim_str_append(out, "}\n");
        return;
    }
    whim_str_printf(out, "{\"tokens\":%lld", (long long)q->n);
    json_field(out, "perplexity_in", whim_exp(d->nll_p / (double)d->n_token));
    json_field(out, "perplexity_out", whim_exp(d->nll_q / (double)d->n_token));
    json_field(out, "kl_mean", d->kl_sum / (double)d->n_row);
    json_field(out, "kl_max", d->kl_max);
    json_field(out, "same_choice", (double)d->n_same / (double)d->n_row);
    whim_str_append(out, "}}\n");
}

/* --- the command ------------------------------------------------------------------------------ */

static int check_words(const whim_options *o)
{
    if (o->model == NULL || o->output == NULL) {
        return complain(EXIT_USAGE, "quantize what, to where? Write whimbrel quantize IN OUT "
                                    "--to q8 (or q4, fp8)");
    }
    if (o->to == NULL) {
        return complain(EXIT_USAGE, "quantize to what? --to q8 loses next to nothing, --to q4 is "
                                    "half as large, --to fp8 is what GPUs with FP8 units like");
    }
    return EXIT_OK;
}

/* What is quantised: the model, or a draft for one. */
static const whim_ckpt *ckpt_of(const whim_options *o, const whim_engine *engine)
{
    return o->drafts_for != NULL ? whim_engine_draft_ckpt(engine) : whim_engine_ckpt(engine);
}

/* Write OUT; the engine knows which tensors of IN are what. */
static bool write_model(const whim_options *o, const whim_engine *engine, whim_quantize_cfg *cfg,
                        whim_quantize_result *result)
{
    whim_diag diag = {""};
    loader load = {.label = "quantising", .quiet = o->quiet};
    pthread_mutex_init(&load.lock, NULL);
    cfg->on_progress = load_report;
    cfg->ctx = &load;
    whim_err err = whim_quantize(ckpt_of(o, engine),
                                 o->drafts_for != NULL ? whim_engine_draft_binder(engine)
                                                       : whim_engine_binder(engine),
                                 cfg, result, &diag);
    load_finish(&load, err == WHIM_ERR_OK);
    if (err != WHIM_ERR_OK && interrupted == 0) {
        complain(EXIT_FAILED, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
    }
    return err == WHIM_ERR_OK;
}

static int finish(const quality *q, const whim_quantize_result *result)
{
    whim_str out = {0};
    (q->options->json ? append_json : append_text)(&out, q, result);
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    return ok ? EXIT_OK : EXIT_FAILED;
}

int cmd_quantize(const whim_options *options)
{
    char path[MODEL_PATH_MAX];
    loader load;
    whim_diag diag = {""};
    quality q = {.options = options};
    whim_quantize_result result = {0};
    if (check_words(options) != EXIT_OK) {
        return EXIT_USAGE;
    }
    const char *in = choose_model(options, path);
    if (in == NULL) {
        return EXIT_FAILED;
    }
    bool is_draft = options->drafts_for != NULL;
    whim_engine_cfg engine_wish = engine_cfg(options, is_draft ? options->drafts_for : in);
    engine_wish.draft = is_draft ? in : NULL;
    engine_wish.best_device = false; /* types are written by the CPU's threads */
    snprintf(q.skipped, sizeof q.skipped, "%s", is_draft ? "a draft changes no text" : "");
    whim_engine *engine = open_engine(&engine_wish, true, &load);
    if (engine == NULL) {
        return EXIT_FAILED;
    }
    whim_quantize_cfg cfg = {
        .in = in,
        .out = options->output,
        .shard_bytes = options->shard_size,
        .n_thread = whim_engine_caps(engine)->n_loader,
        .stop = &interrupted,
    };
    int code = EXIT_FAILED;
    if (!kind_of(options->to, &cfg.kind) ||
        whim_quantize_check(ckpt_of(options, engine), &cfg, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
    } else if (is_draft || quality_prepare(&q, options, in, engine)) {
        catch_interrupt(true);
        code = write_model(options, engine, &cfg, &result) ? EXIT_OK : EXIT_FAILED;
    }
    whim_engine_close(engine);
    if (code == EXIT_OK) {
        /* OUT is whole by now, whatever becomes of the report. */
        code = is_draft || quality_measure(&q, in, options->output) ? finish(&q, &result)
                                                                    : EXIT_FAILED;
    }
    quality_free(&q);
    return interrupted != 0 ? complain(EXIT_INTERRUPTED, "stopped") : code;
}

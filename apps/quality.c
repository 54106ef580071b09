/* SPDX-License-Identifier: Apache-2.0 */
/* How good a quantised model is: it and the one it was made from read the same text. They run one
 * after the other, so that memory is needed for one; the logits of the first are kept meanwhile. */
#include "quality.h"
#include "base/alloc.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 64, LOGITS_MAX = 512 << 20, TEXT_MAX = 16 << 20 };

static const char default_text[] = {
#include "report_text.inc"
};

static bool no_memory(void)
{
    complain(EXIT_FAILED, "out of memory");
    return false;
}

/* --- the text --------------------------------------------------------------------------------- */

static bool take_ids(quality *q, const int64_t *ids, int64_t n)
{
    q->ids = whim_alloc_array(n, sizeof *q->ids);
    if (q->ids == NULL) {
        return no_memory();
    }
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= q->n_vocab) {
            complain(EXIT_USAGE,
                     "--ids: %lld is not in the model's vocabulary: ids go from 0 to %d",
                     (long long)ids[i], q->n_vocab - 1);
            return false;
        }
        q->ids[i] = (int32_t)ids[i];
    }
    q->n = n;
    return true;
}

static bool read_ids(quality *q)
{
    int64_t *ids = NULL, n = 0;
    const char *list = q->options->report_ids;
    bool ok = parse_ids(list, (int64_t)strlen(list), &ids, &n) && take_ids(q, ids, n);
    whim_free(ids);
    return ok;
}

/* Ids of the text, or a reason to do without when nobody asked for a certain text. */
static bool encode_text(quality *q, const char *in, const whim_engine *engine, const char *text,
                        int64_t n)
{
    whim_diag diag = {""};
    whim_tokenizer *tok = NULL;
    whim_ids ids = {0};
    whim_err err = whim_tokenizer_open(in, whim_engine_ckpt(engine), &tok, &diag);
    if (err == WHIM_ERR_OK) {
        whim_encode_opts opts = {.add_special = true};
        err = whim_tokenizer_encode(tok, text, n, &opts, &ids, &diag);
    } else if (q->options->text == NULL) {
        snprintf(q->skipped, sizeof q->skipped, "%.300s; --ids LIST gives a text as token ids",
                 diag.text);
        return true;
    }
    whim_tokenizer_close(tok);
    for (int64_t i = 0; i < ids.n && err == WHIM_ERR_OK; i++) {
        if (ids.ids[i] >= q->n_vocab) {
            err = whim_fail(&diag, WHIM_ERR_CORRUPT,
                            "%s: its tokenizer has ids above its "
                            "vocabulary",
                            in);
        }
    }
    if (err != WHIM_ERR_OK) {
        whim_ids_deinit(&ids);
        complain(EXIT_FAILED, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
        return false;
    }
    q->ids = ids.ids;
    q->n = ids.n;
    return true;
}

static bool read_text(quality *q, const char *in, const whim_engine *engine)
{
    whim_diag diag = {""};
    char *text = NULL;
    int64_t n = 0;
    if (q->options->text == NULL) {
        return encode_text(q, in, engine, default_text, sizeof default_text);
    }
    if (whim_file_read_all(q->options->text, TEXT_MAX, &text, &n, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "--text: %s", diag.text);
        return false;
    }
    bool ok = check_utf8(text, "the text") && encode_text(q, in, engine, text, n);
    whim_free(text);
    return ok;
}

/* --- one model -------------------------------------------------------------------------------- */

static whim_engine_cfg model_cfg(const quality *q, const char *model)
{
    whim_engine_cfg cfg = engine_cfg(q->options, model);
    cfg.best_device = false; /* both models by the same one, and cmd_quantize's */
    cfg.ctx = q->n;
    cfg.max_outs = ROWS;
    cfg.max_step_tokens = ROWS;
    return cfg;
}

/* Whether a model and the kept logits fit in memory; if not, that is why there is no report. */
static bool fits(quality *q, const whim_engine *engine)
{
    whim_memory_plan plan = *whim_engine_plan(engine);
    whim_diag diag = {""};
    int64_t kept = q->logits == NULL ? q->n * q->n_vocab * (int64_t)sizeof(float) : 0;
    whim_memory_plan_add(&plan, WHIM_MEMORY_HOST, "kept logits", kept, "%lld rows",
                         (long long)q->n);
    if (whim_memory_plan_check(&plan, &diag) == WHIM_ERR_OK) {
        return true;
    }
    snprintf(q->skipped, sizeof q->skipped, "%.500s", diag.text);
    return false;
}

bool quality_prepare(quality *q, const whim_options *options, const char *in,
                     const whim_engine *engine)
{
    const whim_config *config = whim_engine_config(engine);
    *q = (quality){.options = options, .n_vocab = config->n_vocab};
    if (!options->report) {
        snprintf(q->skipped, sizeof q->skipped, "not wanted");
        return true;
    }
    if (options->report_ids != NULL && options->text != NULL) {
        complain(EXIT_USAGE, "--text and --ids are two texts: give one");
        return false;
    }
    if (!(options->report_ids != NULL ? read_ids(q) : read_text(q, in, engine))) {
        return false;
    }
    int64_t most = LOGITS_MAX / ((int64_t)sizeof(float) * config->n_vocab);
    most = options->report_tokens < most ? options->report_tokens : most;
    most = config->max_ctx < most ? config->max_ctx : most;
    q->n = q->n < most ? q->n : most;
    if (q->skipped[0] == '\0' && q->n < 2) {
        complain(EXIT_USAGE, "the text for the report has %lld tokens; it needs at least two",
                 (long long)q->n);
        return false;
    }
    return true;
}

/* What happens with the logits of row i. */
static void take_row(quality *q, bool first, int64_t i, const float *logits)
{
    float *kept = q->logits + i * q->n_vocab;
    if (first) {
        memcpy(kept, logits, (size_t)q->n_vocab * sizeof *kept);
    } else {
        whim_divergence_add(&q->got, kept, logits, q->n_vocab, i + 1 < q->n ? q->ids[i + 1] : -1);
    }
}

static whim_err read_through(quality *q, whim_engine *engine, bool first, whim_progress *bar,
                             whim_diag *diag)
{
    whim_runner *runner = whim_engine_runner(engine);
    whim_sequence *seq = NULL;
    WHIM_TRY(whim_runner_sequence_create(runner, &seq));
    whim_err err = WHIM_ERR_OK;
    for (int64_t at = 0; at < q->n && err == WHIM_ERR_OK; at += ROWS) {
        int64_t n = q->n - at < ROWS ? q->n - at : ROWS;
        whim_step_part part = {.seq = seq, .tokens = q->ids + at, .n_tok = n, .n_out = n};
        err = interrupted != 0 ? whim_fail(diag, WHIM_ERR_BUSY, "stopped")
                               : whim_runner_step(runner, &part, 1, diag);
        for (int64_t i = 0; i < n && err == WHIM_ERR_OK; i++) {
            take_row(q, first, at + i, whim_exec_logits(whim_runner_exec(runner), i));
        }
        whim_progress_add(bar, n);
    }
    whim_runner_sequence_destroy(runner, seq);
    return err;
}

static bool run_model(quality *q, const char *model, bool first)
{
    whim_diag diag = {""};
    loader load;
    whim_progress bar;
    whim_engine_cfg cfg = model_cfg(q, model);
    whim_engine *engine = open_engine(&cfg, true, &load);
    if (engine == NULL || !fits(q, engine)) {
        whim_engine_close(engine);
        return engine != NULL;
    }
    if (first) {
        q->logits = whim_alloc_array(q->n, q->n_vocab * (int64_t)sizeof *q->logits);
    }
    load.quiet = q->options->quiet;
    load.label = first ? "loading IN" : "loading OUT";
    if (q->logits == NULL ? !no_memory() : !load_engine(engine, &load)) {
        whim_engine_close(engine);
        return false;
    }
    whim_progress_init(&bar, &(whim_progress_cfg){
                                 .label = first ? "reading with IN" : "reading with OUT",
                                 .total = q->n,
                                 .fd = STDERR_FILENO,
                                 .mode = load.quiet ? WHIM_PROGRESS_QUIET : WHIM_PROGRESS_AUTO,
                             });
    whim_err err = read_through(q, engine, first, &bar, &diag);
    whim_progress_finish(&bar, err == WHIM_ERR_OK);
    whim_engine_close(engine);
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s: %s", model,
                 diag.text[0] != '\0' ? diag.text : whim_err_text(err));
    }
    return err == WHIM_ERR_OK;
}

bool quality_measure(quality *q, const char *in, const char *out)
{
    return q->skipped[0] != '\0' ||
           (run_model(q, in, true) && (q->skipped[0] != '\0' || run_model(q, out, false)));
}

void quality_free(quality *q)
{
    whim_free(q->ids);
    whim_free(q->logits);
    *q = (quality){0};
}

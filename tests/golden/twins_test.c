/* SPDX-License-Identifier: Apache-2.0 */
/* The same F32 weights in a safetensors directory and in a GGUF file (tests/data/twins, names and
 * layout by gguf-py): the same bits. */
#include "golden/golden.h"
#include "support/tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 256 };

/* Leave the columns of out_proj as the file has them, as for types whose blocks span heads. */
static int64_t keep_columns(const whim_engine *engine)
{
    const whim_binder *binder = whim_engine_binder(engine);
    int64_t n = 0;
    for (int64_t i = 0; i < binder->n_param; i++) {
        whim_param *param = &binder->params[i];
        if (param->cols.size > 0) {
            param->cols = (whim_head_order){0};
            *param->cols_kept = true;
            n++;
        }
    }
    return n;
}

/* Logits of all prompts of `g` by the model at `path` (free them), or NULL. */
static float *logits_of(const golden *g, const char *path, bool keep, int64_t *n, whim_diag *diag)
{
    static const int64_t whole[] = {CTX};
    drive_job jobs[GOLDEN_MAX_PROMPTS];
    whim_engine_cfg cfg = {.model = path, .ctx = CTX, .max_step_tokens = CTX, .max_outs = CTX};
    float *logits = golden_jobs(g, 0, jobs);
    whim_engine *engine = NULL;
    whim_err err = logits != NULL ? whim_engine_prepare(&cfg, &engine, diag) : WHIM_ERR_NO_MEMORY;
    if (err == WHIM_ERR_OK && keep && keep_columns(engine) == 0) {
        err = whim_fail(diag, WHIM_ERR_NOT_FOUND, "no columns are put in order");
    }
    if (err == WHIM_ERR_OK) {
        err = whim_engine_load(engine, diag);
    }
    if (err == WHIM_ERR_OK) {
        err = drive_run(whim_engine_runner(engine), g->vocab, jobs, g->n_prompt,
                        &(drive_plan){.n_at_once = 1, .chunks = whole, .n_chunk = 1}, diag);
    }
    whim_engine_close(engine);
    if (err != WHIM_ERR_OK) {
        free(logits);
        return NULL;
    }
    *n = g->n_row * g->vocab;
    return logits;
}

static void check_twin(const char *data, const char *model)
{
    char dir[600], file[1200], name[128];
    whim_diag diag = {{0}};
    golden g;
    snprintf(dir, sizeof dir, "%.500s/%s", data, model);
    snprintf(file, sizeof file, "%.500s/../twins/%s.gguf", data, model);
    snprintf(name, sizeof name, "%s and its GGUF twin", model);
    if (golden_read(&g, dir, &diag) != WHIM_ERR_OK) {
        tally_check(false, name, "%s", diag.text);
        return;
    }
    int64_t n = 0;
    float *one = logits_of(&g, dir, false, &n, &diag);
    float *two = logits_of(&g, file, false, &n, &diag);
    if (one == NULL || two == NULL) {
        tally_check(false, name, "%s", diag.text);
    } else {
        bool same = memcmp(one, two, (size_t)n * sizeof *one) == 0;
        tally_check(same, name, "%lld logits, the same bits", (long long)n);
    }
    free(one);
    free(two);
    golden_free(&g);
}

/* Sums in another order: close, and not what heads in a wrong order give. */
static void check_kept(const char *data, const char *model)
{
    char dir[600], file[1200], name[128];
    whim_diag diag = {{0}};
    golden g;
    int64_t n = 0;
    snprintf(dir, sizeof dir, "%.500s/%s", data, model);
    snprintf(file, sizeof file, "%.500s/../twins/%s.gguf", data, model);
    snprintf(name, sizeof name, "%s with tiled columns", model);
    if (golden_read(&g, dir, &diag) != WHIM_ERR_OK) {
        tally_check(false, name, "%s", diag.text);
        return;
    }
    float *one = logits_of(&g, file, false, &n, &diag), *two = logits_of(&g, file, true, &n, &diag);
    double far = one != NULL && two != NULL ? 0.0 : INFINITY;
    for (int64_t i = 0; i < n && far < INFINITY; i++) {
        far = fmax(far, fabs((double)one[i] - (double)two[i]));
    }
    tally_check(far <= 1e-4 && far > 0.0, name, "largest difference %g %s", far, diag.text);
    free(one);
    free(two);
    golden_free(&g);
}

void golden_twins_test(const golden_options *options)
{
    static const char *const models[] = {"qwen2-f32", "qwen3moe-f32", "minimax-f32",  "qwen35-f32",
                                         "qwen35-r1", "qwen35-moe",   "qwen3next-f32"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        check_twin(options->data, models[i]);
    }
    check_kept(options->data, "qwen35-f32");
    check_kept(options->data, "qwen35-moe");
}

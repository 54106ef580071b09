/* SPDX-License-Identifier: Apache-2.0 */
/* The same F32 weights in a safetensors directory and in a GGUF file (tests/golden/twins, names and layout by gguf-py):
 * the same bits. */
#include "golden/golden.h"
#include "support/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 256 };

/* Logits of all prompts of `g` by the model at `path` (free them), or NULL. */
static float *logits_of(const golden *g, const char *path, int64_t *n, whim_diag *diag)
{
    static const int64_t whole[] = {CTX};
    drive_job jobs[GOLDEN_MAX_PROMPTS];
    whim_engine_cfg cfg = {.model = path, .ctx = CTX, .max_step_tokens = CTX, .max_outs = CTX};
    float *logits = golden_jobs(g, 0, jobs);
    whim_engine *engine = logits != NULL ? drive_open(&cfg, diag) : NULL;
    whim_err err = WHIM_ERR_NO_MEMORY;
    if (engine != NULL) {
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
    float *one = logits_of(&g, dir, &n, &diag), *two = logits_of(&g, file, &n, &diag);
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

void golden_twins_test(const golden_options *options)
{
    check_twin(options->data, "qwen3moe-f32");
    check_twin(options->data, "minimax-f32");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan is kept: what the process holds after loading the default model, and after a step
 * that fill the context, is what the plan says. */
#include "base/os/mem.h"
#include "golden/golden.h"
#include "support/tally.h"

#include <math.h>
#include <stdio.h>

enum { CTX = 2048, MAX_ROWS = 256, MAX_SEQS = 4 };
static const double TOLERANCE = 0.05;

static void check_held(const char *name, int64_t before, const whim_memory_plan *plan)
{
    double held = (double)(whim_os_mem_anon_resident() - before);
    double off = held / (double)plan->total - 1;
    tally_check(fabs(off) <= TOLERANCE, name, "%.1f MiB held, %.1f MiB planned: %+.2f%% of %.0f%%",
                held / 1048576, (double)plan->total / 1048576, 100 * off, 100 * TOLERANCE);
}

/* A step of the largest size: what it touches was there before. */
static whim_err step_largest(whim_runner *runner, whim_diag *diag)
{
    static int32_t tokens[MAX_ROWS];
    whim_sequence *seqs[MAX_SEQS] = {0};
    whim_step_part parts[MAX_SEQS];
    whim_err err = WHIM_ERR_OK;
    for (int32_t i = 0; i < MAX_ROWS; i++) {
        tokens[i] = 1 + i * 7;
    }
    for (int32_t i = 0; i < MAX_SEQS; i++) {
        int64_t n = MAX_ROWS / MAX_SEQS;
        WHIM_TRY_OUT(whim_runner_sequence_create(runner, &seqs[i]));
        parts[i] =
            (whim_step_part){.seq = seqs[i], .tokens = tokens + i * n, .n_tok = n, .n_out = 1};
    }
    WHIM_TRY_OUT(whim_runner_step(runner, parts, MAX_SEQS, diag));
out:
    for (int32_t i = 0; i < MAX_SEQS; i++) {
        whim_runner_sequence_destroy(runner, seqs[i]);
    }
    return err;
}

void golden_memory_test(const golden_options *options)
{
    char path[1024];
    whim_diag diag = {{0}};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    tally_skip("memory plan", "a sanitizer's own memory would be counted");
    (void)options, (void)path, (void)diag, (void)check_held, (void)step_largest;
#else
    const char *model = drive_default_model(options->model, path, sizeof path);
    int64_t before = whim_os_mem_anon_resident();
    if (model == NULL || before == 0) {
        tally_skip("memory plan", model == NULL ? "no default model; `make model` fetches it"
                                                : "the system does not tell");
        return;
    }
    whim_engine_cfg cfg = {.model = model,
                           .ctx = CTX,
                           .max_seqs = MAX_SEQS,
                           .max_step_tokens = MAX_ROWS,
                           .graphs = true};
    whim_engine *engine = drive_open(&cfg, &diag);
    if (engine == NULL) {
        tally_check(false, "memory plan", "%s", diag.text);
        return;
    }
    check_held("memory after loading", before, whim_engine_plan(engine));
    if (step_largest(whim_engine_runner(engine), &diag) == WHIM_ERR_OK) {
        check_held("memory after a step", before, whim_engine_plan(engine));
    } else {
        tally_check(false, "memory after a step", "%s", diag.text);
    }
    whim_engine_close(engine);
#endif
}

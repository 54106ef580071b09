/* SPDX-License-Identifier: Apache-2.0 */
/* --verify-rows: what a step of several rows of one sequence costs beside a step of one, and what
 * the draft takes to propose so many rows less one. Sizes take turns, so that a machine that others
 * keep busy is busy for all. Figures are medians. */
#include "base/alloc.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "draft/width.h"

/* One size, and what its steps took. */
typedef struct sized {
    int64_t rows;
    double *step_ns, *draft_ns; /* [n] */
} sized;

/* Time the draft's pass after a step, in which it reads the rows that the step left to it. */
static whim_err draft_time(bench *b, int64_t rows, double *ns, whim_diag *diag)
{
    int32_t found[WHIM_WIDTH_MOST];
    const whim_draft_config *draft = whim_engine_draft(b->engine);
    int64_t n = rows - 1;
    *ns = 0;
    if (draft == NULL || n < 1 || n > WHIM_WIDTH_MOST || n > whim_draft_most(draft)) {
        return WHIM_ERR_OK;
    }
    whim_proposal wanted = {.seq = b->seqs[0], .last = b->tokens[0], .n = n, .out = found};
    int64_t start = whim_clock_ns();
    WHIM_TRY(whim_propose(whim_engine_proposer(b->engine), &wanted, 1, diag));
    *ns = (double)(whim_clock_ns() - start);
    return WHIM_ERR_OK;
}

static whim_err size_time(bench *b, const sized *size, int64_t i, int64_t depth, whim_diag *diag)
{
    whim_step_part part = {.seq = b->seqs[0],
                           .tokens = b->tokens + depth,
                           .n_tok = size->rows,
                           .n_out = size->rows,
                           .n_top = 1,
                           .keeps_state = true};
    int64_t start = whim_clock_ns();
    WHIM_TRY(whim_runner_step(b->runner, &part, 1, diag));
    size->step_ns[i] = (double)(whim_clock_ns() - start);
    WHIM_TRY(draft_time(b, size->rows, &size->draft_ns[i], diag));
    whim_runner_sequence_cut(b->runner, b->seqs[0], depth);
    whim_progress_add(&b->bar, 1);
    return WHIM_ERR_OK;
}

static void size_append(const bench *b, const sized *size, double first_ns, whim_str *out)
{
    double best, step = bench_median(size->step_ns, b->options->tokens, &best);
    double draft = bench_median(size->draft_ns, b->options->tokens, &best);
    double step_ms = step / (double)WHIM_NS_PER_MS, draft_ms = draft / (double)WHIM_NS_PER_MS;
    if (b->options->json) {
        whim_str_printf(out,
                        "{\"rows\":%lld,\"step_ms\":%.4f,\"ratio\":%.4f,\"draft_ms\":%.4f,"
                        "\"draft_share\":%.4f}\n",
                        (long long)size->rows, step_ms, step / first_ns, draft_ms, draft / step);
    } else {
        whim_str_printf(out, "%5lld %9.3f %7.3f %9.3f %6.3f\n", (long long)size->rows, step_ms,
                        step / first_ns, draft_ms, draft / step);
    }
}

static whim_err sizes_time(bench *b, const sized *sizes, whim_diag *diag)
{
    int64_t depth = bench_depth(b->options, 1);
    WHIM_TRY(bench_feed(b, 1, depth, diag));
    for (int64_t i = 0; i < b->options->tokens; i++) {
        for (int32_t k = 0; k < b->options->verify_rows.n; k++) {
            WHIM_TRY(size_time(b, &sizes[k], i, depth, diag));
        }
    }
    return WHIM_ERR_OK;
}

whim_err bench_verify(bench *b, whim_str *out, whim_diag *diag)
{
    const whim_int_list *list = &b->options->verify_rows;
    int64_t n = b->options->tokens;
    sized sizes[WHIM_OPTION_MAX_INTS];
    double best, *ns = whim_alloc_array(2 * list->n * n, (int64_t)sizeof *ns);
    WHIM_TRY(whim_got(ns != NULL, diag, "out of memory for the figures of a bench"));
    for (int32_t k = 0; k < list->n; k++) {
        sizes[k] = (sized){list->v[k], ns + 2 * k * n, ns + (2 * k + 1) * n};
    }
    whim_err err = bench_begin(b, 1);
    if (err == WHIM_ERR_OK) {
        err = sizes_time(b, sizes, diag);
        bench_end(b, 1);
    }
    if (err == WHIM_ERR_OK) {
        double first_ns = bench_median(sizes[0].step_ns, n, &best);
        if (!b->options->json) {
            whim_str_printf(out, "%5s %9s %7s %9s %6s\n", "rows", "step ms", "ratio", "draft ms",
                            "share");
        }
        for (int32_t k = 0; k < list->n; k++) {
            size_append(b, &sizes[k], first_ns, out);
        }
        err = bench_print(out, b, diag);
    }
    whim_free(ns);
    return err;
}

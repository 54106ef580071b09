/* SPDX-License-Identifier: Apache-2.0 */
/* Logits against golden rows, in double. */
#include "golden/golden.h"

#include <math.h>
#include <stdlib.h>

float *golden_jobs(const golden *g, int32_t n_prompt, drive_job *jobs)
{
    int32_t n = n_prompt > 0 ? n_prompt : g->n_prompt;
    int64_t rows = 0;
    for (int32_t i = 0; i < n; i++) {
        rows += golden_prompt_rows(&g->prompts[i]);
    }
    float *block = calloc((size_t)(rows * g->vocab), sizeof *block);
    float *at = block;
    for (int32_t i = 0; i < n && block != NULL; i++) {
        int64_t n_row = golden_prompt_rows(&g->prompts[i]);
        jobs[i] = (drive_job){
            .tokens = g->prompts[i].tokens,
            .n_tok = n_row,
            .n_prompt = g->prompts[i].n_prompt,
            .n_out = n_row,
            .logits = at,
        };
        at += n_row * g->vocab;
    }
    return block;
}

double golden_log_sum(const float *logits, int64_t n)
{
    double top = logits[0], sum = 0;
    for (int64_t i = 1; i < n; i++) {
        top = logits[i] > top ? logits[i] : top;
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp(logits[i] - top);
    }
    return top + log(sum);
}

int32_t golden_argmax(const float *logits, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? (int32_t)i : best;
    }
    return best;
}

/* The largest difference of a row; adds the squares to *squares. */
static double row_error(const float *want, const float *logits, int64_t n, double *squares)
{
    double log_sum = golden_log_sum(logits, n), worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double diff = fabs(logits[i] - log_sum - want[i]);
        worst = diff <= worst ? worst : diff; /* a NaN is taken, and stays */
        *squares += diff * diff;
    }
    return isnan(worst) || isnan(*squares) ? INFINITY : worst;
}

golden_error golden_compare(const golden *g, const float *rows, const float *logits,
                            int32_t n_prompt)
{
    golden_error e = {0};
    int64_t n_row = 0, n_close = 0;
    double squares = 0;
    for (int32_t i = 0; i < (n_prompt > 0 ? n_prompt : g->n_prompt); i++) {
        n_row += golden_prompt_rows(&g->prompts[i]);
    }
    for (int64_t r = 0; r < n_row; r++) {
        double worst = row_error(rows + r * g->vocab, logits + r * g->vocab, g->vocab, &squares);
        e.max = worst > e.max ? worst : e.max;
        n_close += worst < g->close_row;
    }
    e.rms = sqrt(squares / (double)(n_row * g->vocab));
    e.close = (double)n_close / (double)n_row;
    return e;
}

int64_t golden_greedy_misses(const golden *g, const float *logits, int32_t n_prompt, double margin,
                             int64_t *n_other)
{
    int64_t misses = 0, row = 0;
    *n_other = 0;
    for (int32_t i = 0; i < (n_prompt > 0 ? n_prompt : g->n_prompt); i++) {
        const golden_prompt *p = &g->prompts[i];
        for (int64_t s = 0; s < p->n_greedy; s++) {
            int64_t r = row + p->n_prompt - 1 + s;
            int32_t want = p->tokens[p->n_prompt + s];
            int32_t got = golden_argmax(logits + r * g->vocab, g->vocab);
            const float *ref = g->rows + r * g->vocab;
            *n_other += got != want;
            misses += got != want && ref[want] - ref[got] > margin;
        }
        row += golden_prompt_rows(p);
    }
    return misses;
}

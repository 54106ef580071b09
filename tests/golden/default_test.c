/* SPDX-License-Identifier: Apache-2.0 */
/* The default model, real weights: against transformers on the same file, teacher-forced along its greedy
 * continuations, and the perplexity of a text. */
#include "golden/golden.h"
#include "support/tally.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 1024, MAX_ROWS = 256 };

/* The engine narrows inputs to int8 and K and V to BF16; an imitation of that in the reference moved
 * the log-probability of a top token by up to golden.json's `gap`. Twice that is allowed here, and on
 * average a tenth of it. */
static const double MEAN_SHARE = 0.1;
static const double PERPLEXITY_TOLERANCE = 0.005;

typedef struct greedy_stats {
    int64_t steps, other,
        wrong;         /* other: another id; wrong: another id though the margin is wide */
    double worst, sum; /* of |log-probability of the reference's top token - its own| */
} greedy_stats;

static void stats_add(greedy_stats *st, const golden *g, const golden_prompt *p,
                      const float *logits, int64_t n_vocab)
{
    for (int64_t s = 0; s < p->n_greedy; s++) {
        const float *row = logits + (p->n_prompt - 1 + s) * n_vocab, *two = p->top2 + 4 * s;
        double off = fabs(row[(int32_t)two[0]] - golden_log_sum(row, n_vocab) - two[1]);
        bool other = golden_argmax(row, n_vocab) != p->tokens[p->n_prompt + s];
        st->steps++;
        st->other += other;
        st->wrong += other && two[1] - two[3] > 2 * g->gap;
        st->worst = off <= st->worst ? st->worst : off;
        st->sum += off;
    }
}

static void check_greedy(const golden *g, whim_runner *runner, int64_t n_vocab)
{
    static const int64_t ones[] = {1};
    greedy_stats st = {0};
    whim_diag diag = {{0}};
    for (int32_t i = 0; i < g->n_prompt; i++) {
        const golden_prompt *p = &g->prompts[i];
        int64_t n = golden_prompt_rows(p);
        float *logits = malloc((size_t)(n * n_vocab) * sizeof *logits);
        drive_job job = {
            .tokens = p->tokens, .n_tok = n, .n_prompt = p->n_prompt, .n_out = n, .logits = logits};
        drive_plan plan = {.n_at_once = 1, .prompt_whole = true, .chunks = ones, .n_chunk = 1};
        if (logits == NULL || drive_run(runner, n_vocab, &job, 1, &plan, &diag) != WHIM_ERR_OK) {
            tally_check(false, "default greedy", "%s", diag.text);
            free(logits);
            return;
        }
        stats_add(&st, g, p, logits, n_vocab);
        free(logits);
    }
    tally_check(st.wrong == 0, "default greedy ids",
                "%lld of %lld steps have the reference's id; %lld others at a margin above %.3g",
                (long long)(st.steps - st.other), (long long)st.steps, (long long)st.wrong,
                2 * g->gap);
    /* Undecided steps are few: the reference's imitation of this arithmetic had about as many. */
    tally_check(st.other * 20 <= st.steps, "default greedy agreement", "%lld of %lld differ",
                (long long)st.other, (long long)st.steps);
    tally_check(st.worst <= 2 * g->gap, "default top log-probabilities",
                "largest difference %.3g of %.3g", st.worst, 2 * g->gap);
    tally_check(st.sum / (double)st.steps <= MEAN_SHARE * 2 * g->gap,
                "default mean of log-probabilities", "mean difference %.3g of %.3g",
                st.sum / (double)st.steps, MEAN_SHARE * 2 * g->gap);
}

/* How far a free run follows the reference's ids. */
static whim_err free_run(const golden_prompt *p, whim_runner *runner, int64_t n_vocab,
                         int64_t *agree, whim_diag *diag)
{
    whim_sequence *seq;
    WHIM_TRY(whim_runner_sequence_create(runner, &seq));
    whim_step_part part = {.seq = seq, .tokens = p->tokens, .n_tok = p->n_prompt, .n_out = 1};
    whim_err err = WHIM_ERR_OK;
    int32_t id = -1;
    *agree = 0;
    for (int64_t s = 0; s < p->n_greedy && err == WHIM_ERR_OK; s++) {
        err = whim_runner_step(runner, &part, 1, diag);
        id = golden_argmax(whim_runner_logits(runner, 0), n_vocab);
        if (err != WHIM_ERR_OK || id != p->tokens[p->n_prompt + s]) {
            break;
        }
        ++*agree;
        part = (whim_step_part){.seq = seq, .tokens = &id, .n_tok = 1, .n_out = 1};
    }
    whim_runner_sequence_destroy(runner, seq);
    return err;
}

static void check_free_runs(const golden *g, whim_runner *runner, int64_t n_vocab)
{
    int64_t whole = 0, total = 0, most = 0;
    whim_diag diag = {{0}};
    for (int32_t i = 0; i < g->n_prompt; i++) {
        int64_t agree;
        if (free_run(&g->prompts[i], runner, n_vocab, &agree, &diag) != WHIM_ERR_OK) {
            tally_check(false, "default free runs", "%s", diag.text);
            return;
        }
        whole += agree == g->prompts[i].n_greedy;
        total += agree;
        most += g->prompts[i].n_greedy;
    }
    tally_check(total * 2 >= most, "default free runs",
                "%lld of %d prompts to the end, %lld of %lld ids before the first difference",
                (long long)whole, g->n_prompt, (long long)total, (long long)most);
}

static void check_perplexity(const golden *g, whim_runner *runner, int64_t n_vocab)
{
    static const int64_t chunks[] = {MAX_ROWS};
    int64_t n = g->n_text - 1;
    whim_diag diag = {{0}};
    float *logits = malloc((size_t)(n * n_vocab) * sizeof *logits);
    drive_job job = {.tokens = g->text, .n_tok = n, .n_out = n, .logits = logits};
    drive_plan plan = {.n_at_once = 1, .chunks = chunks, .n_chunk = 1};
    if (logits == NULL || drive_run(runner, n_vocab, &job, 1, &plan, &diag) != WHIM_ERR_OK) {
        tally_check(false, "default perplexity", "%s", diag.text);
        free(logits);
        return;
    }
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const float *row = logits + i * n_vocab;
        sum += golden_log_sum(row, n_vocab) - row[g->text[i + 1]];
    }
    free(logits);
    double perplexity = exp(sum / (double)n);
    tally_check(fabs(perplexity / g->perplexity - 1) <= PERPLEXITY_TOLERANCE, "default perplexity",
                "%.3f, reference %.3f (%.3f with its inputs narrowed), tolerance %g%%", perplexity,
                g->perplexity, g->perplexity_q8, 100 * PERPLEXITY_TOLERANCE);
}

void golden_default_test(const golden_options *options)
{
    char dir[600], path[1024];
    golden g;
    whim_diag diag = {{0}};
    if (options->quick) {
        return;
    }
    const char *model = drive_default_model(options->model, path, sizeof path);
    if (model == NULL) {
        tally_skip("default model", "no file %s; `make model` fetches it", path);
        return;
    }
    snprintf(dir, sizeof dir, "%s/default", options->data);
    if (golden_read(&g, dir, &diag) != WHIM_ERR_OK) {
        tally_check(false, "default model", "%s", diag.text);
        return;
    }
    whim_engine_cfg cfg = {.model = model,
                           .ctx = CTX,
                           .max_step_tokens = MAX_ROWS,
                           .max_outs = MAX_ROWS,
                           .graphs = true};
    whim_engine *engine = drive_open(&cfg, &diag);
    if (engine == NULL) {
        tally_check(false, "default model", "%s", diag.text);
    } else {
        int64_t n_vocab = whim_engine_config(engine)->n_vocab;
        check_greedy(&g, whim_engine_runner(engine), n_vocab);
        check_free_runs(&g, whim_engine_runner(engine), n_vocab);
        check_perplexity(&g, whim_engine_runner(engine), n_vocab);
    }
    whim_engine_close(engine);
    golden_free(&g);
}

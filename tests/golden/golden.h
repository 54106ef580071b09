/* SPDX-License-Identifier: Apache-2.0 */
/* The golden data of one tiny model (tools/golden/README.md has the formats) and comparisons with
 * it.
 * Threads: plain data. */
#ifndef WHIM_TESTS_GOLDEN_GOLDEN_H
#define WHIM_TESTS_GOLDEN_GOLDEN_H

#include "base/err.h"
#include "support/drive.h"

#include <stdbool.h>
#include <stdint.h>

enum { GOLDEN_MAX_PROMPTS = 16 };

typedef struct golden_prompt {
    int32_t *tokens; /* prompt, then the greedy ids */
    int64_t n_prompt;
    int64_t n_greedy;
    const float *top2; /* default model only: [n_greedy][id, logp, id, logp] */
} golden_prompt;

typedef struct golden {
    char name[64];
    char dir[512];
    int64_t vocab, layers, hidden;
    bool f32;
    bool experts; /* a rounding may choose another expert: no bound on what narrow K and V move */
    double gap, tolerance, tolerance_rms; /* tolerance_rms 0: not stated */
    double tolerance_q8, tolerance_q8_rms, close_row, close_rows_share;
    double perplexity; /* default model only */
    int32_t *text;
    int64_t n_text;
    golden_prompt prompts[GOLDEN_MAX_PROMPTS];
    int32_t n_prompt;
    int64_t n_row;      /* rows of all prompts: n_prompt + n_greedy - 1 each */
    float *rows;        /* golden.bin */
    float *rows_q8;     /* golden_q8.bin, or NULL */
    float *hidden_rows; /* hidden.bin, or NULL */
} golden;

/* Read DIR/golden.json and the binaries next to it; what is wrong goes to diag. */
WHIM_MUST_CHECK whim_err golden_read(golden *g, const char *dir, whim_diag *diag);
void golden_free(golden *g);

/* Names of the model folders of `data` in order, "default" left out; the number found. */
int32_t golden_list(const char *data, char names[][64], int32_t max);

/* The path to give to the engine: the folder, or the (first) GGUF file in it. */
void golden_model_path(const golden *g, char *path, size_t size);

/* Rows of one prompt. */
static inline int64_t golden_prompt_rows(const golden_prompt *p)
{
    return p->n_prompt + p->n_greedy - 1;
}

/* Jobs for the first n_prompt prompts (0: all), with room for their logits in one block (free
 * it). */
float *golden_jobs(const golden *g, int32_t n_prompt, drive_job *jobs);

/* Differences of log-probabilities. */
typedef struct golden_error {
    double max, rms;
    double close; /* share of rows no further off than close_row */
} golden_error;

/* Logits of the first n_prompt prompts (0: all), one after the other, against rows. NaN: infinitely
 * off. */
golden_error golden_compare(const golden *g, const float *rows, const float *logits,
                            int32_t n_prompt);

/* Greedy steps whose likeliest token is another one although the reference prefers its own by more
 * than `margin`; *n_other counts all that differ. */
int64_t golden_greedy_misses(const golden *g, const float *logits, int32_t n_prompt, double margin,
                             int64_t *n_other);

/* log(sum(exp(logits))) in double. */
double golden_log_sum(const float *logits, int64_t n);
int32_t golden_argmax(const float *logits, int64_t n);

/* The parts of the program. */
typedef struct golden_options {
    const char *data;
    const char *model;   /* default model, or NULL */
    const char *backend; /* of the models: this one only, or NULL */
    bool quick; /* for emulators and sanitizers: fewer prompts and levels, no default model */
} golden_options;

void golden_models_test(const golden_options *options);
void golden_ranks_test(const golden_options *options);
void golden_ranks_made_test(const golden_options *options);
void golden_mixed_test(const golden_options *options);
void golden_twins_test(const golden_options *options);
void golden_pitfalls_test(const golden_options *options);
void golden_default_test(const golden_options *options);
void golden_memory_test(const golden_options *options);

#endif

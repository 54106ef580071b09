/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `whimbrel bench`: the command (cmd_bench.c), timing steps (bench_measure.c), what is
 * printed (bench_output.c), another program beside it (bench_peer.c).
 * Threads: the main thread. */
#ifndef WHIM_APPS_BENCH_BENCH_H
#define WHIM_APPS_BENCH_BENCH_H

#include "model.h"

typedef struct bench {
    const whim_options *options;
    const char *model;
    whimbrel_model *opened;
    whim_engine *engine; /* its own */
    whim_runner *runner;
    const whim_config *config;
    whim_dtype type;                    /* of most multiply-adds; the peak is that of its units */
    double machine_gbs, machine_gflops; /* ceilings, NAN: not known */
    double load_s, first_token_s;       /* from the command's start */
    int64_t max_batch, n_round;
    int64_t max_rows;                       /* of --verify-rows, else 0 */
    int32_t *tokens;                        /* [max_batch * longest] random ids */
    whim_sequence **seqs;                   /* [max_batch] */
    whim_step_part *parts;                  /* [max_batch] */
    double *prompt_tps, *gen_tps;           /* [n_round] */
    double *peer_prompt_tps, *peer_gen_tps; /* [n_round], with --peer */
    bool differs; /* with --draft: tokens were not those of the plain run */
    whim_progress bar;
} bench;

/* One row of the result: tokens a second, and what the best of them are of the machine. */
typedef struct bench_row {
    int64_t batch, depth;
    double prompt_best, prompt_median, gen_best, gen_median;
    double read_gbs, read_share;  /* of generating */
    double gflops, peak_share;    /* of the prompt's matrices */
    double peer_prompt, peer_gen; /* best of the peer */
} bench_row;

/* Tokens that each sequence holds when generating is timed: --depth; without it the prompt's, but
 * with --peer none for one sequence, because that is what the peer times. */
int64_t bench_depth(const whim_options *options, int64_t batch);

/* Room for the ids and figures, and the ids. */
WHIM_MUST_CHECK whim_err bench_allocate(bench *b, whim_diag *diag);
void bench_free(bench *b);

/* The first step of a short prompt, which is timed as the first token, and steps that wake
 * everything up. */
WHIM_MUST_CHECK whim_err bench_first_token(bench *b, int64_t start_ns, whim_diag *diag);

/* Time one round of one row. */
WHIM_MUST_CHECK whim_err bench_measure(bench *b, int64_t batch, int64_t round, whim_diag *diag);

/* The figures of a row once its rounds are done. */
bench_row bench_row_make(bench *b, int64_t batch);

/* The median, and the largest. */
double bench_median(double *values, int64_t n, double *best);

void bench_append_head(const bench *b, whim_str *out);
void bench_append_row(const bench_row *row, whim_str *out);
void bench_append_json(const bench *b, const bench_row *row, whim_str *out);
void bench_append_peer(const bench *b, const bench_row *rows, int32_t n_row, whim_str *out);

/* Print what there is of the result, and empty it. */
WHIM_MUST_CHECK whim_err bench_print(whim_str *out, bench *b, whim_diag *diag);

/* Tokens to every sequence of a batch, from the beginning; sequences are made, and ended. */
WHIM_MUST_CHECK whim_err bench_feed(bench *b, int64_t batch, int64_t each, whim_diag *diag);
WHIM_MUST_CHECK whim_err bench_begin(bench *b, int64_t batch);
void bench_end(bench *b, int64_t batch);

/* --verify-rows (verify.c). */
WHIM_MUST_CHECK whim_err bench_verify(bench *b, whim_str *out, whim_diag *diag);

/* --draft (draft.c): "oracle:A", with a chance from 0 to 1; and its rows. */
bool bench_draft_read(const char *text, double *chance);
WHIM_MUST_CHECK whim_err bench_draft(bench *b, whim_str *out, whim_diag *diag);

/* --ranks (ranks.c): the command, without a model; returns its exit status. */
int bench_ranks(const whim_options *options);

/* Whether --peer can be done: the model is one GGUF file, and the programs for all batch sizes are
 * there. Tells in diag what is missing. */
WHIM_MUST_CHECK whim_err bench_peer_check(const bench *b, whim_diag *diag);

/* One round of the peer. */
WHIM_MUST_CHECK whim_err bench_peer_measure(bench *b, int64_t batch, int64_t round,
                                            whim_diag *diag);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Timing steps of a model. Token ids are random from a fixed seed; of each row the likeliest token
 * is found where the model runs, as a greedy answer needs it, and the logits stay there. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/math/rng.h"
#include "bench/bench.h"
#include "text/tokenizer.h"

enum { SEED = 1, FIRST_PROMPT = 16 };

int64_t bench_depth(const whim_options *options, int64_t batch)
{
    if (whim_options_gave(options, &options->depth)) {
        return options->depth;
    }
    return options->peer != NULL && batch == 1 ? 0 : options->prompt_tokens;
}

/* Ids for the longest sequences of a batch: a prompt, or what lies before the generation, and
 * that. */
static int64_t longest(const bench *b, int64_t batch)
{
    int64_t depth = bench_depth(b->options, batch), prompt = b->options->prompt_tokens;
    return (depth > prompt ? depth : prompt) + b->options->tokens + b->max_rows;
}

whim_err bench_allocate(bench *b, whim_diag *diag)
{
    int64_t n_token = 0;
    const whim_int_list *list = &b->options->batch;
    for (int32_t i = 0; i < list->n; i++) {
        int64_t n = list->v[i] * longest(b, list->v[i]);
        n_token = n > n_token ? n : n_token;
    }
    b->tokens = whim_alloc_array(n_token, (int64_t)sizeof *b->tokens);
    b->seqs = whim_alloc_array(b->max_batch, (int64_t)sizeof(whim_sequence *));
    b->parts = whim_alloc_array(b->max_batch, (int64_t)sizeof *b->parts);
    b->prompt_tps = whim_alloc_array(4 * b->n_round, (int64_t)sizeof(double));
    WHIM_TRY(
        whim_got(b->tokens != NULL && b->seqs != NULL && b->parts != NULL && b->prompt_tps != NULL,
                 diag, "out of memory for the token ids of a bench"));
    b->gen_tps = b->prompt_tps + b->n_round;
    b->peer_prompt_tps = b->gen_tps + b->n_round;
    b->peer_gen_tps = b->peer_prompt_tps + b->n_round;
    for (int64_t i = 0; i < n_token; i++) {
        b->tokens[i] = (int32_t)(whim_rng_at(SEED, (uint64_t)i) % (uint64_t)b->config->n_vocab);
    }
    return WHIM_ERR_OK;
}

void bench_free(bench *b)
{
    whim_free(b->tokens);
    whim_free(b->seqs);
    whim_free(b->parts);
    whim_free(b->prompt_tps);
}

/* `each` tokens to every sequence, in steps of at most --max-step-tokens rows; a step may end one
 * sequence's and begin the next one's. */
whim_err bench_feed(bench *b, int64_t batch, int64_t each, whim_diag *diag)
{
    int64_t total = batch * each;
    for (int64_t at = 0; at < total;) {
        int64_t n_part = 0, begin = at;
        int64_t end = at + b->options->max_step_tokens;
        end = end < total ? end : total;
        while (at < end) {
            int64_t seq = at / each;
            int64_t stop = (seq + 1) * each < end ? (seq + 1) * each : end;
            b->parts[n_part++] = (whim_step_part){
                .seq = b->seqs[seq],
                .tokens = b->tokens + at,
                .n_tok = stop - at,
                .n_out = stop == (seq + 1) * each,
                .n_top = 1,
            };
            at = stop;
        }
        WHIM_TRY(whim_runner_step(b->runner, b->parts, n_part, diag));
        whim_progress_add(&b->bar, end - begin);
    }
    return WHIM_ERR_OK;
}

/* The ids after those that the sequences hold. */
static whim_err generate(bench *b, int64_t batch, int64_t depth, int64_t n_step, whim_diag *diag)
{
    const int32_t *tokens = b->tokens + batch * depth;
    for (int64_t step = 0; step < n_step; step++) {
        for (int64_t i = 0; i < batch; i++) {
            b->parts[i] = (whim_step_part){
                .seq = b->seqs[i],
                .tokens = tokens + step * batch + i,
                .n_tok = 1,
                .n_out = 1,
                .n_top = 1,
            };
        }
        WHIM_TRY(whim_runner_step(b->runner, b->parts, batch, diag));
        whim_progress_add(&b->bar, batch);
    }
    return WHIM_ERR_OK;
}

static double rate_since(int64_t start, int64_t n)
{
    int64_t ns = whim_clock_ns() - start;
    return (double)n * (double)WHIM_NS_PER_S / (double)(ns > 0 ? ns : 1);
}

void bench_end(bench *b, int64_t n)
{
    while (n > 0) {
        whim_runner_sequence_destroy(b->runner, b->seqs[--n]);
    }
}

whim_err bench_begin(bench *b, int64_t batch)
{
    for (int64_t n = 0; n < batch; n++) {
        whim_err err = whim_runner_sequence_create(b->runner, &b->seqs[n]);
        if (err != WHIM_ERR_OK) {
            bench_end(b, n);
            return err;
        }
    }
    return WHIM_ERR_OK;
}

whim_err bench_measure(bench *b, int64_t batch, int64_t round, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    int64_t prompt = b->options->prompt_tokens, depth = bench_depth(b->options, batch);
    WHIM_TRY(bench_begin(b, batch));
    int64_t start = whim_clock_ns();
    WHIM_TRY_OUT(bench_feed(b, batch, prompt, diag));
    b->prompt_tps[round] = rate_since(start, batch * prompt);
    if (depth != prompt) {
        bench_end(b, batch);
        WHIM_TRY(bench_begin(b, batch));
        WHIM_TRY_OUT(bench_feed(b, batch, depth, diag));
    }
    start = whim_clock_ns();
    WHIM_TRY_OUT(generate(b, batch, depth, b->options->tokens, diag));
    b->gen_tps[round] = rate_since(start, batch * b->options->tokens);
out:
    bench_end(b, batch);
    return err;
}

whim_err bench_first_token(bench *b, int64_t start_ns, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    whim_tokenizer *tok = NULL;
    whim_diag ignored;
    int64_t most = b->options->prompt_tokens;
    int64_t prompt = most < FIRST_PROMPT ? most : FIRST_PROMPT;
    /* Whoever waits for a first token waits for this too; a model without a tokenizer can be timed
     * all the same. */
    if (whim_tokenizer_open(b->model, whim_engine_ckpt(b->engine), &tok, &ignored) == WHIM_ERR_OK) {
        whim_tokenizer_close(tok);
    }
    b->load_s = (double)(whim_clock_ns() - start_ns) / (double)WHIM_NS_PER_S;
    WHIM_TRY(bench_begin(b, 1));
    WHIM_TRY_OUT(bench_feed(b, 1, prompt, diag));
    b->first_token_s = (double)(whim_clock_ns() - start_ns) / (double)WHIM_NS_PER_S;
    WHIM_TRY_OUT(generate(b, 1, prompt, prompt < most, diag)); /* wakes what prompts do not use */
out:
    bench_end(b, 1);
    return err;
}

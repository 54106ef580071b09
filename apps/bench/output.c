/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a bench and how they are printed. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>

/* --- figures ---------------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int64_t n, double *best)
{
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    *best = values[n - 1];
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/* Keys and values that a decode step reads for one sequence, averaged over the steps. */
static double kv_bytes(const bench *b, int64_t depth)
{
    double len = (double)depth + ((double)b->options->tokens + 1) / 2;
    int64_t head = whim_kv_vector_bytes(whim_engine_kv_type(b->engine), b->config->d_head);
    return len * (double)(2 * head * b->config->n_kv) * b->config->n_layer;
}

/* Multiply-adds of a prompt's matrices: the head is asked for its last token only. */
static double prompt_macs(const bench *b)
{
    double head = (double)b->config->n_vocab * b->config->d_model;
    double each = (double)whim_engine_token_macs(b->engine) - head;
    return each * (double)b->options->prompt_tokens + head;
}

bench_row bench_row_make(bench *b, int64_t batch)
{
    bench_row r = {.batch = batch, .depth = bench_depth(b->options, batch)};
    r.prompt_median = bench_median(b->prompt_tps, b->n_round, &r.prompt_best);
    r.gen_median = bench_median(b->gen_tps, b->n_round, &r.gen_best);
    double step_bytes =
        (double)whim_engine_weight_bytes(b->engine, batch) + (double)batch * kv_bytes(b, r.depth);
    r.read_gbs = step_bytes * r.gen_best / (double)batch / 1e9;
    r.read_share = r.read_gbs / b->machine_gbs;
    r.gflops = 2 * prompt_macs(b) / (double)b->options->prompt_tokens * r.prompt_best / 1e9;
    r.peak_share = r.gflops / b->machine_gflops;
    if (b->options->peer != NULL) {
        bench_median(b->peer_prompt_tps, b->n_round, &r.peer_prompt);
        bench_median(b->peer_gen_tps, b->n_round, &r.peer_gen);
    }
    return r;
}

/* --- text ------------------------------------------------------------------------------------- */

void bench_append_head(const bench *b, whim_str *out)
{
    const whim_device_caps *caps = whim_engine_caps(b->engine);
    whim_str_printf(out, "%s on %s\n", b->model, caps->summary);
    whim_str_printf(out, "loaded in %.2f s, first token after %.2f s\n", b->load_s,
                    b->first_token_s);
    whim_str_printf(out, "%lld prompt tokens, %lld generated, best and median of %lld",
                    (long long)b->options->prompt_tokens, (long long)b->options->tokens,
                    (long long)b->n_round);
    if (!isnan(b->machine_gbs)) {
        whim_str_printf(out, "; the machine reads %.1f GB/s and does %.1f GFLOP/s for %s weights",
                        b->machine_gbs, b->machine_gflops, whim_dtype_get(b->type)->name);
    }
    whim_str_append(out, "\n\n");
    whim_str_printf(out, "%5s %19s %26s %15s %15s\n", "", "prompt tokens/s", "generated tokens/s",
                    "read GB/s", "GFLOP/s");
    whim_str_printf(out, "%5s %9s %9s %9s %9s %6s %8s %6s %8s %6s\n", "batch", "best", "median",
                    "best", "median", "depth", "", "share", "", "share");
}

/* A speed and its share of the ceiling, where that is known. */
static void append_share(double speed, double share, whim_str *out)
{
    whim_str_printf(out, " %8.1f", speed);
    if (isnan(share)) {
        whim_str_printf(out, " %6s", "-");
    } else {
        whim_str_printf(out, " %5.0f%%", 100 * share);
    }
}

void bench_append_row(const bench_row *r, whim_str *out)
{
    whim_str_printf(out, "%5lld %9.1f %9.1f %9.1f %9.1f %6lld", (long long)r->batch, r->prompt_best,
                    r->prompt_median, r->gen_best, r->gen_median, (long long)r->depth);
    append_share(r->read_gbs, r->read_share, out);
    append_share(r->gflops, r->peak_share, out);
    whim_str_append(out, "\n");
}

void bench_append_peer(const bench *b, const bench_row *rows, int32_t n_row, whim_str *out)
{
    whim_str_printf(out, "\nbeside %s, in turns, best of %lld each (tokens/s)\n", b->options->peer,
                    (long long)b->n_round);
    whim_str_printf(out, "%5s %28s %28s %6s\n", "", "prompt", "generated", "");
    whim_str_printf(out, "%5s %10s %10s %6s %10s %10s %6s %6s\n", "batch", "whimbrel", "peer",
                    "ratio", "whimbrel", "peer", "ratio", "depth");
    for (int32_t i = 0; i < n_row; i++) {
        const bench_row *r = &rows[i];
        whim_str_printf(out, "%5lld %10.1f %10.1f %6.2f %10.1f %10.1f %6.2f %6lld\n",
                        (long long)r->batch, r->prompt_best, r->peer_prompt,
                        r->prompt_best / r->peer_prompt, r->gen_best, r->peer_gen,
                        r->gen_best / r->peer_gen, (long long)r->depth);
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

void bench_append_json(const bench *b, const bench_row *r, whim_str *out)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"prompt_tps", r->prompt_best},
        {"gen_tps", r->gen_best},
        {"read_gbs", r->read_gbs},
        {"read_share", r->read_share},
        {"gflops", r->gflops},
        {"peak_share", r->peak_share},
        {"depth", (double)r->depth},
        {"load_s", b->load_s},
        {"first_token_s", b->first_token_s},
        {"machine_gbs", b->machine_gbs},
        {"machine_gflops", b->machine_gflops},
        {"peer_prompt_tps", r->peer_prompt}, /* from here with --peer only */
        {"peer_gen_tps", r->peer_gen},
        {"prompt_ratio", r->prompt_best / r->peer_prompt},
        {"gen_ratio", r->gen_best / r->peer_gen},
    };
    enum { N_NUMBER = sizeof numbers / sizeof numbers[0], N_PEER = 4 };
    const whim_device_caps *caps = whim_engine_caps(b->engine);
    whim_str_append(out, "{\"model\":");
    json_text(out, b->model);
    whim_str_append(out, ",\"isa\":");
    json_text(out, caps->isa);
    whim_str_printf(out,
                    ",\"threads\":%d,\"batch\":%lld,\"prompt_tokens\":%lld,\"gen_tokens\":%lld",
                    caps->n_thread, (long long)r->batch, (long long)b->options->prompt_tokens,
                    (long long)b->options->tokens);
    for (int i = 0; i < (b->options->peer != NULL ? N_NUMBER : N_NUMBER - N_PEER); i++) {
        whim_str_printf(out, ",\"%s\":", numbers[i].key);
        json_number(out, numbers[i].value);
    }
    if (b->options->peer != NULL) {
        whim_str_append(out, ",\"peer\":");
        json_text(out, b->options->peer);
    }
    whim_str_append(out, "}\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* --draft oracle:A: how fast proposals are checked, on any model. What is proposed are the tokens
 * of the plain run, each right with chance A; how many of them is the service's own choice. Plain
 * rounds and rounds with proposals take turns in one service, and must make the same tokens. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/math/rng.h"
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

enum { CHANCE_SEED = 7 };

/* What the service's thread looks at; changed only while nothing is asked of it. */
typedef struct oracle {
    const int32_t *prompts; /* [batch * n_prompt] */
    int32_t *texts;         /* [batch * n_text] of the plain run */
    int64_t batch, n_prompt, n_text, n_vocab;
    double chance;
    bool speaks;
} oracle;

static int64_t propose(void *ctx, const int32_t *tokens, int64_t n, int32_t *out, int64_t max)
{
    const oracle *o = ctx;
    int64_t at = n - o->n_prompt, k = 0;
    while (k < o->batch && memcmp(tokens, o->prompts + k * o->n_prompt,
                                  (size_t)o->n_prompt * sizeof *tokens) != 0) {
        k++;
    }
    int64_t left = o->speaks && k < o->batch ? o->n_text - at : 0, found = left < max ? left : max;
    for (int64_t i = 0; i < found; i++) {
        uint64_t place = (uint64_t)(k * o->n_text + at + i);
        double x = (double)(whim_rng_at(CHANCE_SEED, place) >> 11) * 0x1p-53;
        int32_t right = o->texts[k * o->n_text + at + i];
        out[i] = x < o->chance ? right : (int32_t)((right + 1) % o->n_vocab);
    }
    return found > 0 ? found : 0;
}

bool bench_draft_read(const char *text, double *chance)
{
    char *end;
    if (strncmp(text, "oracle:", 7) != 0 || text[7] == '\0') {
        return false;
    }
    *chance = strtod(text + 7, &end);
    return *end == '\0' && *chance >= 0 && *chance <= 1;
}

/* One answer: its tokens; *same is cleared where they are not the ones that are there already. */
static whim_err read_answer(whim_job *job, int32_t *ids, int64_t n_text, bool is_first, bool *same)
{
    whim_job_event e = {.kind = WHIM_JOB_ADMITTED};
    int64_t n = 0;
    while (e.kind != WHIM_JOB_DONE && e.kind != WHIM_JOB_FAILED) {
        if (!whim_job_next(job, &e)) {
            whim_clock_sleep_ns(WHIM_NS_PER_MS);
            continue;
        }
        if (e.kind == WHIM_JOB_TOKEN && n < n_text) {
            *same = *same && (is_first || ids[n] == e.id);
            ids[n] = is_first ? e.id : ids[n];
            n++;
        }
    }
    *same = *same && n == n_text;
    return e.kind == WHIM_JOB_DONE ? WHIM_ERR_OK : e.err;
}

/* What the rounds of one kind came to. */
typedef struct tally {
    double *rates; /* [n_round] tokens a second */
    int64_t n_made, n_proposed, n_right;
} tally;

static double rate_of(const whim_job_times *t, int64_t n, int64_t n_token)
{
    int64_t first = t[0].first_token, ended = t[0].ended;
    for (int64_t i = 1; i < n; i++) {
        first = t[i].first_token < first ? t[i].first_token : first;
        ended = t[i].ended > ended ? t[i].ended : ended;
    }
    return (double)n_token * (double)WHIM_NS_PER_S / (double)(ended > first ? ended - first : 1);
}

/* All sequences at once. */
static whim_err draft_round(bench *b, oracle *o, whim_job_cfg *cfgs, whim_job **jobs,
                            whim_job_times *times, bool is_first, bool *same, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    WHIM_TRY(
        whim_service_submit(whim_library_service(b->opened), cfgs, (int32_t)o->batch, jobs, diag));
    for (int64_t i = 0; i < o->batch; i++) {
        whim_err one = read_answer(jobs[i], o->texts + i * o->n_text, o->n_text, is_first, same);
        err = err == WHIM_ERR_OK ? one : err;
        times[i] = whim_job_get_times(jobs[i]);
        whim_job_release(jobs[i]);
        whim_progress_add(&b->bar, o->n_text);
    }
    return err == WHIM_ERR_OK ? err : whim_fail(diag, err, "an answer failed");
}

static void tally_add(tally *t, int64_t round, const oracle *o, const whim_job_times *times)
{
    t->rates[round] = rate_of(times, o->batch, o->batch * (o->n_text - 1));
    for (int64_t i = 0; i < o->batch; i++) {
        t->n_made += times[i].n_made;
        t->n_proposed += times[i].n_proposed;
        t->n_right += times[i].n_right;
    }
}

static void row_append(const bench *b, const oracle *o, tally *plain, tally *with, bool same,
                       whim_str *out)
{
    double best, slow = bench_median(plain->rates, b->n_round, &best);
    double fast = bench_median(with->rates, b->n_round, &best);
    double each = (double)with->n_made / (double)(with->n_made - with->n_right);
    double gain = slow > 0 ? fast / slow : 0; /* one token takes no time between tokens */
    double right = with->n_proposed > 0 ? (double)with->n_right / (double)with->n_proposed : 0;
    if (!b->options->json) {
        whim_str_printf(out, "%5lld %9.1f %9.1f %8.3f %8.2f %8lld %5.0f%%  %s\n",
                        (long long)o->batch, slow, fast, gain, each, (long long)with->n_proposed,
                        100 * right, same ? "the same" : "DIFFERENT");
        return;
    }
    whim_str_append(out, "{\"model\":");
    json_text(out, b->model);
    whim_str_printf(out,
                    ",\"draft\":\"%s\",\"batch\":%lld,\"prompt_tokens\":%lld,\"gen_tokens\":%lld,"
                    "\"plain_tps\":%.3f,\"draft_tps\":%.3f,\"speedup\":%.4f,"
                    "\"tokens_per_step\":%.4f,\"proposed_tokens\":%lld,\"accepted_tokens\":%lld,"
                    "\"same\":%s}\n",
                    b->options->oracle, (long long)o->batch, (long long)o->n_prompt,
                    (long long)o->n_text, slow, fast, gain, each, (long long)with->n_proposed,
                    (long long)with->n_right, same ? "true" : "false");
}

static void cfgs_make(const oracle *o, whim_job_cfg *cfgs)
{
    for (int64_t i = 0; i < o->batch; i++) {
        cfgs[i] = (whim_job_cfg){.prompt = o->prompts + i * o->n_prompt,
                                 .n_prompt = o->n_prompt,
                                 .n_choice = 1,
                                 .max_tokens = o->n_text,
                                 .ignore_eos = true,
                                 .prompt_logprobs = -1,
                                 .client = (uint64_t)i};
        whim_sample_params_init(&cfgs[i].params);
        cfgs[i].params.temperature = 0;
    }
}

/* A first round for the texts and the cache, then rounds in turns. */
static whim_err draft_row(bench *b, oracle *o, whim_str *out, whim_diag *diag)
{
    whim_err err = WHIM_ERR_OK;
    bool same = true;
    tally plain = {.rates = b->prompt_tps}, with = {.rates = b->gen_tps};
    whim_job_cfg *cfgs = whim_alloc_array(o->batch, (int64_t)sizeof *cfgs);
    whim_job **jobs = whim_alloc_array(o->batch, (int64_t)sizeof *jobs);
    whim_job_times *times = whim_alloc_array(o->batch, (int64_t)sizeof *times);
    o->texts = whim_alloc_array(o->batch * o->n_text, (int64_t)sizeof *o->texts);
    WHIM_TRY_OUT(whim_got(cfgs != NULL && jobs != NULL && times != NULL && o->texts != NULL, diag,
                          "out of memory for the answers of a bench"));
    cfgs_make(o, cfgs);
    o->speaks = false;
    WHIM_TRY_OUT(draft_round(b, o, cfgs, jobs, times, true, &same, diag));
    for (int64_t round = 0; round < 2 * b->n_round; round++) {
        o->speaks = round % 2 == 1;
        WHIM_TRY_OUT(draft_round(b, o, cfgs, jobs, times, false, &same, diag));
        tally_add(o->speaks ? &with : &plain, round / 2, o, times);
    }
    row_append(b, o, &plain, &with, same, out);
    b->differs = b->differs || !same;
out:
    whim_free(cfgs);
    whim_free(jobs);
    whim_free(times);
    whim_free(o->texts);
    return err;
}

whim_err bench_draft(bench *b, whim_str *out, whim_diag *diag)
{
    const whim_options *options = b->options;
    oracle o = {.prompts = b->tokens,
                .n_prompt = options->prompt_tokens,
                .n_text = options->tokens,
                .n_vocab = b->config->n_vocab};
    bench_draft_read(options->oracle, &o.chance);
    const whim_service_cfg more = {
        .ctx = whim_engine_ctx(b->engine) + 1,
        .max_waiting = INT64_MAX,
        .max_queued_bytes = INT64_MAX,
        .propose = propose,
        .propose_ctx = &o,
    };
    WHIM_TRY(whim_library_start(b->opened, &more, diag));
    if (!options->json) {
        whim_str_printf(out, "%5s %9s %9s %8s %8s %8s %6s  %s\n", "batch", "plain/s", "draft/s",
                        "speed-up", "a step", "proposed", "right", "tokens");
    }
    whim_err err = WHIM_ERR_OK;
    for (int32_t i = 0; i < options->batch.n && err == WHIM_ERR_OK; i++) {
        o.batch = options->batch.v[i];
        err = draft_row(b, &o, out, diag);
        if (err == WHIM_ERR_OK) {
            err = bench_print(out, b, diag);
        }
    }
    whim_library_stop(b->opened);
    return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* whimbrel run: a prompt of token ids, then greedy generation, one sequence. Of several largest logits
 * the lowest id is taken. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fmath.h"
#include "cmd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TOP = 100, MAX_STDIN = 64 << 20 };

typedef struct candidate {
    int32_t id;
    double logprob;
} candidate;

typedef struct run {
    const whim_options *options;
    const char *model;
    const whim_config *config;
    int64_t ctx;
    whim_runner *runner;
    whim_sequence *seq;
    int64_t *ids; /* prompt; 64 bits wide until they are checked */
    int64_t n_prompt;
    int64_t n_gen;
    whim_str made, logprobs; /* what --json prints */
    const char *stop;        /* "length", "eos" or "context" */
    double prompt_s, gen_s;
} run;

/* --- the prompt --------------------------------------------------------------------------------- */

static bool read_stdin(whim_str *text)
{
    char buf[65536];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, stdin)) > 0) {
        whim_str_append_n(text, buf, (int64_t)n);
        if (text->len > MAX_STDIN) {
            complain(EXIT_USAGE, "--ids -: more than %d MiB of ids", MAX_STDIN >> 20);
            return false;
        }
    }
    if (ferror(stdin) || text->failed) {
        complain(EXIT_USAGE, "--ids -: cannot read standard input: %s",
                 text->failed ? "out of memory" : strerror(errno));
        return false;
    }
    return true;
}

/* Numbers with commas or blanks between them. */
static bool parse_ids(run *r, const char *text, int64_t n)
{
    static const char between[] = ", \t\r\n";
    int64_t cap = n / 2 + 1;
    if ((int64_t)strlen(text) != n) {
        complain(EXIT_USAGE, "--ids: the input has a NUL byte; expected are numbers as text");
        return false;
    }
    r->ids = whim_alloc_array(cap, (int64_t)sizeof *r->ids);
    if (r->ids == NULL) {
        complain(EXIT_USAGE, "--ids: out of memory");
        return false;
    }
    for (const char *at = text + strspn(text, between); *at != '\0'; at += strspn(at, between)) {
        char *end = NULL;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        if (end == at || errno != 0 || strcspn(end, between) != 0) {
            complain(EXIT_USAGE,
                     "--ids: \"%.*s\" is not a token id; expected are whole numbers with commas or "
                     "blanks between them",
                     (int)(strcspn(at, between) < 32 ? strcspn(at, between) : 32), at);
            return false;
        }
        r->ids[r->n_prompt++] = id;
        at = end;
    }
    if (r->n_prompt == 0) {
        complain(EXIT_USAGE, "--ids: the prompt needs at least one token id");
        return false;
    }
    return true;
}

static bool get_prompt(run *r)
{
    const whim_options *options = r->options;
    if (options->prompt != NULL) {
        complain(EXIT_USAGE,
                 "-p: text prompts arrive with the tokenizer, in a later version; give token "
                 "ids with --ids");
        return false;
    }
    if (options->ids == NULL) {
        complain(EXIT_USAGE,
                 "a prompt is needed: --ids \"1 2 3\", or --ids - to read ids from standard "
                 "input");
        return false;
    }
    if (strcmp(options->ids, "-") != 0) {
        return parse_ids(r, options->ids, (int64_t)strlen(options->ids));
    }
    whim_str text = {0};
    bool ok = read_stdin(&text) && parse_ids(r, whim_str_text(&text), text.len);
    whim_str_deinit(&text);
    return ok;
}

/* What helps against a context that is too short. */
static const char *context_hint(const run *r, char *buf, size_t n)
{
    if (r->ctx < r->config->max_ctx) {
        snprintf(buf, n, "--ctx makes it longer, up to %lld", (long long)r->config->max_ctx);
    } else {
        snprintf(buf, n, "it is as long as the model was made for");
    }
    return buf;
}

static bool check_prompt(const run *r)
{
    for (int64_t i = 0; i < r->n_prompt; i++) {
        if (r->ids[i] < 0 || r->ids[i] >= r->config->n_vocab) {
            complain(EXIT_FAILED,
                     "token id %lld (number %lld of the prompt) is not in the model's vocabulary: "
                     "ids go "
                     "from 0 to %d",
                     (long long)r->ids[i], (long long)i + 1, r->config->n_vocab - 1);
            return false;
        }
    }
    if (r->n_prompt > r->ctx) {
        char hint[96];
        complain(EXIT_FAILED, "the prompt has %lld tokens, more than the context of %lld; %s",
                 (long long)r->n_prompt, (long long)r->ctx, context_hint(r, hint, sizeof hint));
        return false;
    }
    return true;
}

/* --- choosing ----------------------------------------------------------------------------------- */

/* The id of the largest logit, the lowest of equals; -1 when a logit is not a number. */
static int32_t greedy(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 0; i < n; i++) {
        if (isnan(logits[i])) {
            return -1;
        }
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* The k likeliest, best first, the lower id first among equals. */
static int32_t top_candidates(const float *logits, int32_t n, int32_t k, candidate *top)
{
    int32_t n_top = 0;
    for (int32_t i = 0; i < n; i++) {
        if (n_top == k && !((double)logits[i] > top[n_top - 1].logprob)) {
            continue;
        }
        int32_t at = n_top < k ? n_top++ : n_top - 1;
        for (; at > 0 && (double)logits[i] > top[at - 1].logprob; at--) {
            top[at] = top[at - 1];
        }
        top[at] = (candidate){i, (double)logits[i]};
    }
    /* log softmax: summed in the order of ids, so that the figures never change. */
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += whim_exp((double)logits[i] - top[0].logprob);
    }
    double shift = top[0].logprob + whim_log(sum);
    for (int32_t i = 0; i < n_top; i++) {
        top[i].logprob -= shift;
    }
    return n_top;
}

/* --- output ------------------------------------------------------------------------------------- */

static void record_top(run *r, const candidate *top, int32_t n)
{
    whim_str_printf(&r->logprobs, "%s{\"id\":%d,\"logprob\":", r->n_gen == 1 ? "" : ",", top[0].id);
    json_number(&r->logprobs, top[0].logprob);
    whim_str_append(&r->logprobs, ",\"top\":[");
    for (int32_t i = 0; i < n; i++) {
        whim_str_printf(&r->logprobs, "%s[%d,", i == 0 ? "" : ",", top[i].id);
        json_number(&r->logprobs, top[i].logprob);
        whim_str_append_char(&r->logprobs, ']');
    }
    whim_str_append(&r->logprobs, "]}");
}

/* Show or keep the chosen token. */
static void emit(run *r, int32_t id, const float *logits)
{
    candidate top[MAX_TOP];
    int32_t k = (int32_t)r->options->logprobs;
    int32_t n = k > 0 ? top_candidates(logits, r->config->n_vocab, k, top) : 0;
    r->n_gen++;
    if (r->options->json) {
        whim_str_printf(&r->made, "%s%d", r->n_gen == 1 ? "" : ",", id);
        if (n > 0) {
            record_top(r, top, n);
        }
        return;
    }
    if (n > 0) {
        printf("%d ", id);
        for (int32_t i = 0; i < n; i++) {
            printf(" %d:%.6f", top[i].id, top[i].logprob);
        }
        putchar('\n');
    } else {
        printf(r->n_gen == 1 ? "%d" : " %d", id);
    }
    fflush(stdout);
}

static double rate(double n, double seconds)
{
    return n > 0 && seconds > 0 ? n / seconds : NAN;
}

static void print_summary(const run *r)
{
    double prompt = rate((double)r->n_prompt, r->prompt_s);
    double gen = rate((double)(r->n_gen - 1), r->gen_s);
    fprintf(stderr, "prompt: %lld tokens, %.1f tokens/s; generated: %lld tokens",
            (long long)r->n_prompt, prompt, (long long)r->n_gen);
    /* The first token comes with the prompt's last step. */
    if (isfinite(gen)) {
        fprintf(stderr, ", %.1f tokens/s", gen);
    }
    fprintf(stderr, "; stop: %s\n", r->stop);
}

static void append_result(const run *r, whim_str *out)
{
    whim_str_append(out, "{\"model\":");
    json_text(out, r->model);
    whim_str_append(out, ",\"prompt_ids\":[");
    for (int64_t i = 0; i < r->n_prompt; i++) {
        whim_str_printf(out, "%s%lld", i == 0 ? "" : ",", (long long)r->ids[i]);
    }
    whim_str_printf(out, "],\"ids\":[%s]", whim_str_text(&r->made));
    if (r->options->logprobs > 0) {
        whim_str_printf(out, ",\"logprobs\":[%s]", whim_str_text(&r->logprobs));
    }
    whim_str_printf(out, ",\"stop\":\"%s\",\"prompt_tps\":", r->stop);
    json_number(out, rate((double)r->n_prompt, r->prompt_s));
    whim_str_append(out, ",\"gen_tps\":");
    json_number(out, rate((double)(r->n_gen - 1), r->gen_s));
    whim_str_append(out, "}\n");
    out->failed = out->failed || r->made.failed || r->logprobs.failed;
}

/* --- the loop ----------------------------------------------------------------------------------- */

static double seconds_since(int64_t start)
{
    return (double)(whim_clock_ns() - start) / (double)WHIM_NS_PER_S;
}

/* The prompt in steps of at most --max-step-tokens; logits of the last token only. */
static whim_err feed_prompt(run *r, whim_diag *diag)
{
    int64_t chunk =
        r->options->max_step_tokens < r->n_prompt ? r->options->max_step_tokens : r->n_prompt;
    int32_t *tokens = whim_alloc_array(chunk, (int64_t)sizeof *tokens);
    whim_err err = WHIM_ERR_OK;
    if (tokens == NULL) {
        return whim_fail(diag, WHIM_ERR_NO_MEMORY, "out of memory");
    }
    for (int64_t at = 0; at < r->n_prompt && err == WHIM_ERR_OK; at += chunk) {
        int64_t n = r->n_prompt - at < chunk ? r->n_prompt - at : chunk;
        for (int64_t i = 0; i < n; i++) {
            tokens[i] = (int32_t)r->ids[at + i];
        }
        whim_step_part part = {r->seq, tokens, n, at + n == r->n_prompt};
        err = whim_runner_step(r->runner, &part, 1, diag);
        if (err == WHIM_ERR_FULL) {
            whim_fail(diag, err,
                      "the prompt of %lld tokens does not fit into the memory for keys and values; "
                      "--kv-mem gives more",
                      (long long)r->n_prompt);
        }
    }
    whim_free(tokens);
    return err;
}

static bool is_eos(const run *r, int32_t id)
{
    for (int32_t i = 0; i < r->config->n_eos; i++) {
        if (r->config->eos[i] == id) {
            return !r->options->ignore_eos;
        }
    }
    return false;
}

static void say_full(const run *r, const char *why)
{
    if (!r->options->json && r->options->logprobs == 0) {
        putchar('\n');
    }
    complain(EXIT_OK, "stopped after %lld of %lld tokens: %s", (long long)r->n_gen,
             (long long)r->options->tokens, why);
}

/* Feed the last token to get the next one's logits; `stop` is set when there is no room. */
static whim_err feed_token(run *r, int32_t id, whim_diag *diag)
{
    if (r->seq->len >= r->ctx) {
        char why[192], hint[96];
        snprintf(why, sizeof why, "the context of %lld tokens is full; %s", (long long)r->ctx,
                 context_hint(r, hint, sizeof hint));
        say_full(r, why);
        r->stop = "context";
        return WHIM_ERR_OK;
    }
    whim_step_part part = {r->seq, &id, 1, 1};
    whim_err err = whim_runner_step(r->runner, &part, 1, diag);
    if (err == WHIM_ERR_FULL) {
        say_full(r, "the memory for keys and values is full; --kv-mem gives more");
        r->stop = "context";
        return WHIM_ERR_OK;
    }
    return err;
}

static whim_err generate(run *r, whim_diag *diag)
{
    int64_t start = whim_clock_ns();
    WHIM_TRY(feed_prompt(r, diag));
    r->prompt_s = seconds_since(start);
    start = whim_clock_ns();
    while (r->stop == NULL) {
        const float *logits = whim_runner_logits(r->runner, 0);
        int32_t id = greedy(logits, r->config->n_vocab);
        if (id < 0) {
            return whim_fail(
                diag, WHIM_ERR_CORRUPT,
                "the logits after %lld tokens are not numbers: the weights must be broken",
                (long long)r->seq->len);
        }
        emit(r, id, logits);
        if (ferror(stdout)) {
            return whim_fail(diag, WHIM_ERR_IO, "cannot write to standard output: %s",
                             strerror(errno));
        }
        r->gen_s = seconds_since(start);
        if (is_eos(r, id)) {
            r->stop = "eos";
        } else if (r->n_gen == r->options->tokens) {
            r->stop = "length";
        } else {
            WHIM_TRY(feed_token(r, id, diag));
        }
    }
    if (!r->options->json && r->options->logprobs == 0 && strcmp(r->stop, "context") != 0) {
        putchar('\n');
    }
    return WHIM_ERR_OK;
}

static int run_model(run *r, whim_engine *engine)
{
    whim_diag diag = {""};
    whim_str text = {0};
    r->runner = whim_engine_runner(engine);
    if (whim_runner_sequence_create(r->runner, &r->seq) != WHIM_ERR_OK) {
        return complain(EXIT_FAILED, "out of memory");
    }
    whim_err err = generate(r, &diag);
    if (err == WHIM_ERR_OK) {
        if (r->options->json) {
            append_result(r, &text);
        }
        err = print_out(&text) ? WHIM_ERR_OK : WHIM_ERR_IO;
    } else {
        complain(EXIT_FAILED, "%s", diag.text[0] != '\0' ? diag.text : whim_err_text(err));
    }
    if (err == WHIM_ERR_OK && !r->options->quiet) {
        print_summary(r);
    }
    whim_str_deinit(&text);
    whim_runner_sequence_destroy(r->runner, r->seq);
    return err == WHIM_ERR_OK ? EXIT_OK : EXIT_FAILED;
}

int cmd_run(const whim_options *options)
{
    char path[MODEL_PATH_MAX];
    run r = {.options = options};
    loader load;
    whim_engine *engine = NULL;
    int code = EXIT_FAILED;
    if (!get_prompt(&r)) {
        whim_free(r.ids);
        return EXIT_USAGE;
    }
    r.model = choose_model(options, path);
    if (r.model != NULL) {
        whim_engine_cfg cfg = engine_cfg(options, r.model);
        engine = open_engine(&cfg, options->quiet, &load);
    }
    if (engine != NULL) {
        r.config = whim_engine_config(engine);
        r.ctx = whim_engine_ctx(engine);
        if (check_prompt(&r) && load_engine(engine, &load)) {
            code = run_model(&r, engine);
        }
        whim_engine_close(engine);
    }
    whim_free(r.ids);
    whim_str_deinit(&r.made);
    whim_str_deinit(&r.logprobs);
    return code;
}
